//! Records that are too long, and inputs without any.

use super::*;
use crate::source::files::FileSource;

#[test]
fn records_that_are_too_long_are_rejects_of_bounded_size() {
    let directory = temporary();
    let long = "x".repeat(300);
    let json = format!(
        "{{\"ts\":1,\"key\":\"a\"}}\n{{\"ts\":2,\"key\":\"{long}\"}}\n{{\"ts\":3,\"key\":\"c\"}}\r\n\n{{\"ts\":4,\"key\":\"{long}\"}}"
    );
    // One byte of room, and a record that is just as long as may be.
    let edge =
        format!("{{\"ts\":1,\"key\":\"{}\"}}\r\n{{\"ts\":2,\"key\":\"{}\"}}\r\n", "e".repeat(83), "e".repeat(84));
    let csv = format!("ts,key\n1,a\n2,{long}\n3,\"c\n{long}\"\n4,d\n5,\"{long}\"x\n6,\"{long}\n7,e\n8,\"{long}");
    for (text, format) in [(json, Format::Json), (edge, Format::Json), (csv, Format::Csv(csv_options()))] {
        let path = write(directory.path(), "f", text.as_bytes());
        let gz = write(directory.path(), "f.gz", &gzip(text.as_bytes()));
        let read = |path: &str, block_bytes, shares| {
            let table = simple(path, format.clone());
            let plan = decode::DecodePlan::new(&table, &all_columns(&table));
            let options = SourceOptions { block_bytes, workers: 1 };
            let mut source = FileSource::open(&table, (path, &format), plan, &options).expect("opens");
            source.limit_records(100);
            read_source(&source, shares)
        };
        let expected = read(&path, 1 << 20, 1);
        assert!(expected.iter().all(|s| s.raw.len() <= 102));
        for block_bytes in [1, 2, 50, 99, 100, 101, 102, 150, 299, 300, 400, 1_000] {
            for path in [&path, &gz] {
                for shares in [1, 2] {
                    assert_eq!(read(path, block_bytes, shares), expected, "{path} in blocks of {block_bytes}");
                }
            }
        }
        let syntax = Some(RejectReason::Syntax);
        let found = reasons(&expected);
        match (&format, expected.len()) {
            (Format::Json, 4) => assert_eq!(found, [(1, None), (2, syntax), (3, None), (5, syntax)]),
            (Format::Json, _) => assert_eq!(found, [(1, None), (2, syntax)]),
            _ => {
                let lines = [
                    (2, None),
                    (3, syntax),
                    (4, syntax),
                    (5, syntax),
                    (6, None),
                    (7, syntax),
                    (8, syntax),
                    (9, None),
                    (10, syntax),
                ];
                assert_eq!(found, lines);
            }
        }
    }
}

#[test]
fn a_line_longer_than_16_mib_is_one_reject() {
    let mut text = b"{\"ts\":1,\"key\":\"a\"}\n{\"ts\":2,\"key\":\"".to_vec();
    text.resize(text.len() + (17 << 20), b'x');
    text.extend_from_slice(b"\"}\n{\"ts\":3,\"key\":\"c\"}\n");
    let directory = temporary();
    for (name, bytes) in [("f", text.clone()), ("f.zst", zstd(&text))] {
        let path = write(directory.path(), name, &bytes);
        let seen = read(&simple(&path, Format::Json), 1 << 20);
        assert_eq!(reasons(&seen), [(1, None), (2, Some(RejectReason::Syntax)), (3, None)]);
        assert_eq!(details(&seen), ["expected a record of at most 16 MiB, found a longer one"]);
    }
}

#[test]
fn empty_inputs_are_one_empty_block() {
    for format in [Format::Json, Format::Csv(csv_options())] {
        for text in [&b""[..], b"\xef\xbb\xbf", b"\n", b"\r\n\r\n"] {
            assert_eq!(read_everywhere(text, &format, KEYED), []);
        }
    }
    assert_eq!(read_everywhere(b"ts,key\n", &Format::Csv(csv_options()), KEYED), []);
    let directory = temporary();
    for name in ["e.gz", "e.zst"] {
        assert_eq!(read(&simple(&write(directory.path(), name, b""), Format::Json), 100), []);
    }
}
