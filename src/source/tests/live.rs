//! Inputs that are read as they arrive.

use super::*;

#[test]
fn a_live_input_hands_over_complete_records_and_then_waits() {
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<u8>>();
    struct Pipe(std::sync::mpsc::Receiver<Vec<u8>>, Vec<u8>);
    impl Read for Pipe {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            let n = out.len().min(self.1.len());
            out[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }
    let table = simple("-", Format::Json);
    let input = Box::new(Pipe(receiver, Vec::new()));
    let source = open_reader(&table, &Format::Json, input, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let mut reader = source.open(0, Turns::all());
    assert!(matches!(reader.next_block(), Ok(Next::Pending)));
    sender.send(b"{\"ts\":1}\n{\"ts\"".to_vec()).expect("sent");
    let wait = |reader: &mut Box<dyn LaneReader>| loop {
        match reader.next_block().expect("reads") {
            Next::Block(block) => return block,
            Next::Pending => std::thread::yield_now(),
            Next::End => panic!("it has not ended"),
        }
    };
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.last), (1, false));
    assert!(matches!(reader.next_block(), Ok(Next::Pending)), "half a record is not handed over");
    sender.send(b":2}\n{\"ts\":3}".to_vec()).expect("sent");
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.line[0], block.index), (1, 0, 1));
    drop(sender);
    let block = wait(&mut reader);
    assert_eq!((block.rows, block.last), (1, true));
    assert!(matches!(reader.next_block(), Ok(Next::End)));
}

/// Gives a record, and then what it is told to.
struct Ending(bool, fn() -> std::io::Result<usize>);

impl Read for Ending {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return (self.1)();
        }
        let record = b"{\"ts\":1}\n";
        out[..record.len()].copy_from_slice(record);
        Ok(record.len())
    }
}

/// If the thread that reads is gone without a word, the input has not ended.
#[test]
fn a_live_input_that_breaks_off_is_an_error() {
    let died: fn() -> std::io::Result<usize> = || std::panic::resume_unwind(Box::new("no end"));
    let failed: fn() -> std::io::Result<usize> = || Err(std::io::Error::other("the line is cut"));
    for (end, expected) in [
        (died, "stdin: cannot read: the thread that reads it has died"),
        (failed, "stdin: cannot read: the line is cut"),
    ] {
        let input = Box::new(Ending(false, end));
        let table = simple("-", Format::Json);
        let options = SourceOptions::default();
        let source = open_reader(&table, &Format::Json, input, &BTreeSet::new(), &options).expect("opens");
        let (blocks, error) = drain(source.open(0, Turns::all()));
        assert_eq!(error.expect("an error").to_string(), expected);
        assert_eq!(blocks.iter().map(|block| block.rows).sum::<usize>(), 1, "what came before is read");
        assert!(blocks.iter().all(|block| !block.last));
    }
    let input = Box::new(Ending(false, || Ok(0)));
    let source =
        open_reader(&simple("-", Format::Json), &Format::Json, input, &BTreeSet::new(), &SourceOptions::default());
    assert!(drain(source.expect("opens").open(0, Turns::all())).1.is_none());
}

/// Compressed pipes count the bytes that came, and say what is wrong with them.
#[cfg(unix)]
#[test]
fn compressed_pipes_read_as_files_do() {
    let directory = temporary();
    let text: String = (0..5_000).map(|n| format!("{{\"ts\":{n},\"key\":\"{}\"}}\n", n * 7_919)).collect();
    let (gz, zst) = (gzip(text.as_bytes()), zstd(text.as_bytes()));
    for (name, bytes, error) in [
        ("a.gz", &gz[..], None),
        ("b.zst", &zst[..], None),
        ("c.gz", b"", None),
        ("d.zst", b"", None),
        ("e.gz", &gz[..gz.len() / 2], Some("truncated gzip data")),
        ("f.zst", &zst[..zst.len() / 2], Some("truncated zstd data")),
        ("g.gz", text.as_bytes(), Some("cannot read gzip data")),
    ] {
        let path = directory.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        let table = simple(path.to_str().expect("a plain path"), Format::Json);
        let source = open(&table, &BTreeSet::new(), &SourceOptions { block_bytes: 1_000, workers: 1 }).expect("opens");
        assert_eq!(source.lanes()[0].bytes, None);
        let mut reader = source.open(0, Turns::all());
        assert!(matches!(reader.next_block(), Ok(Next::Pending)), "nobody has opened the pipe");
        let (blocks, found) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut pipe = std::fs::File::options().write(true).open(&path).expect("a reader waits");
                // The reader closes its end where it finds a fault.
                let _ = pipe.write_all(bytes);
            });
            drain(reader)
        });
        let found = found.map(|error| error.to_string());
        match error {
            Some(error) => assert!(found.is_some_and(|found| found.contains(error)), "{name}"),
            None => {
                assert_eq!(found, None, "{name}");
                assert_eq!(blocks.iter().map(|b| b.input_bytes).sum::<u64>(), bytes.len() as u64, "{name}");
                let records = if bytes.is_empty() { 0 } else { 5_000 };
                assert_eq!(join(0, blocks).len(), records, "{name}");
            }
        }
    }
}
