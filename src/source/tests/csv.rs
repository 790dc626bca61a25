//! CSV.

use super::*;
use proptest::prelude::*;

#[test]
fn csv_with_mark_crlf_blank_line_and_no_last_line_end() {
    // Case 082, after https://github.com/johnkerl/miller/issues/138
    let text = b"\xef\xbb\xbfts,key,value\r\n5,a,1\r\n15,a,2\r\n\r\n25,a,3";
    let columns = [("ts", DataType::Timestamp), ("key", DataType::Text), ("value", DataType::BigInt)];
    let seen = read_everywhere(text, &Format::Csv(csv_options()), &columns);
    let times: Vec<_> = seen.iter().map(|s| (s.position, s.event_time_us, s.values[2].clone())).collect();
    assert_eq!(
        times,
        [
            (2, Some(5_000), Some(Value::BigInt(1))),
            (3, Some(15_000), Some(Value::BigInt(2))),
            (5, Some(25_000), Some(Value::BigInt(3)))
        ]
    );
    assert_eq!(seen[1].raw, b"15,a,2");
}

#[test]
fn quoted_csv() {
    let columns = [("ts", DataType::Timestamp), ("key", DataType::Text), ("n", DataType::BigInt)];
    let text = b"key;skipped;\"n\";ts\n\"a;\nb\";x;1;1\n\"say \"\"hi\"\"\";;\"2\";2\r\n;\"\"; 3 ;3\n\"\";;NA;4\nNA;;\"NA\";5\n\
        5\" pipe;;6;6\n\"bad\"x;;1;7\nfew;7\nmany;;;8;8\nlast;;9;9";
    let options = CsvOptions { delimiter: b';', null: "NA".to_owned(), header: true };
    let seen = read_everywhere(text, &Format::Csv(options), &columns);
    let keys: Vec<_> = seen.iter().map(|s| (s.position, s.values.get(1).cloned().flatten())).collect();
    let text = |s: &str| Some(Value::Text(s.into()));
    assert_eq!(
        keys,
        [
            (2, text("a;\nb")),
            (4, text("say \"hi\"")),
            (5, text("")),
            (6, text("")),
            (7, Some(Value::Null)),
            (8, text("5\" pipe")),
            (9, None),
            (10, None),
            (11, None),
            (12, text("last"))
        ]
    );
    assert_eq!(seen[3].values[2], Some(Value::Null));
    assert_eq!(seen[4].errors.len(), 1, "a quoted null text is a text, and no number");
    assert_eq!(
        details(&seen),
        [
            "expected a delimiter behind a closing quote, found other text at byte 6 of the record",
            "expected 4 fields, found 2",
            "expected 4 fields, found 5"
        ]
    );
    assert_eq!(seen[0].raw, b"\"a;\nb\";x;1;1");
    assert_eq!(seen[1].raw, b"\"say \"\"hi\"\"\";;\"2\";2");
}

#[test]
fn csv_without_header_goes_by_place() {
    let options = CsvOptions { header: false, ..csv_options() };
    let seen = read_everywhere(b"1,a\n2,b,c\n3,d\n", &Format::Csv(options), KEYED);
    assert_eq!(reasons(&seen), [(1, None), (2, Some(RejectReason::Syntax)), (3, None)]);
    assert_eq!(seen[2].values[1], Some(Value::Text("d".into())));
}

#[test]
fn an_unclosed_quote_costs_one_line() {
    let seen = read_everywhere(b"ts,key\n1,a\n2,\"b\n3,c\n4,d\n", &Format::Csv(csv_options()), KEYED);
    assert_eq!(reasons(&seen), [(2, None), (3, Some(RejectReason::Syntax)), (4, None), (5, None)]);
    assert_eq!(seen[1].raw, b"2,\"b");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn csv_reads_alike_in_all_ways(text in "(([0-9]{1,2}|\"[0-9]\"|),(a|\"b\nc\"|\"\"\"\"|x\"y|\"|é)?(\n|\r\n|\n\n)){0,8}") {
        let text = format!("ts,key\n{text}");
        read_everywhere(text.as_bytes(), &Format::Csv(csv_options()), KEYED);
    }

    #[test]
    fn sound_csv_reads_as_csv_core_does(rows in proptest::collection::vec(("[0-9]{1,3}", "[a-z\"\n\r,;é ]{0,8}"), 0..10)) {
        let mut text = "ts,key\n".to_owned();
        for (ts, key) in &rows {
            text.push_str(&format!("{ts},\"{}\"\r\n", key.replace('"', "\"\"")));
        }
        let seen = read_everywhere(text.as_bytes(), &Format::Csv(csv_options()), KEYED);
        let keys: Vec<_> = seen.iter().map(|s| s.values[1].clone()).collect();
        let theirs = csv_core_records(text.as_bytes());
        let expected: Vec<_> = theirs.iter().skip(1).map(|record| Some(Value::Text(record[1].as_str().into()))).collect();
        prop_assert_eq!(keys, expected);
        prop_assert_eq!(rows.len() + 1, theirs.len());
    }
}

/// Records as another reader of CSV sees them.
fn csv_core_records(text: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv_core::ReaderBuilder::new().terminator(csv_core::Terminator::CRLF).build();
    let (mut records, mut rest) = (Vec::new(), text);
    let (mut output, mut ends) = (vec![0; text.len() + 1], [0; 10]);
    loop {
        let (mut written, mut fields) = (0, 0);
        loop {
            let (result, read, wrote, ended) = reader.read_record(rest, &mut output[written..], &mut ends[fields..]);
            rest = &rest[read..];
            written += wrote;
            fields += ended;
            match result {
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::Record => break,
                csv_core::ReadRecordResult::End => return records,
                other => panic!("{other:?}"),
            }
        }
        let mut start = 0;
        let field = |end: &usize| {
            let field = String::from_utf8(output[start..*end].to_vec()).expect("UTF-8 went in");
            start = *end;
            field
        };
        records.push(ends[..fields].iter().map(field).collect());
    }
}
