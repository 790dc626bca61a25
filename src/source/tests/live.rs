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
    let mut reader = source.open(0, 0, 1);
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
