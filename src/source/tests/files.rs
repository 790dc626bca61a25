//! Which files are read, in what order, and what is said of those that cannot be.

use super::*;

#[test]
fn files_stand_in_bytewise_order_and_a_partition_column_makes_one_lane() {
    let directory = temporary();
    let columns = [("ts", DataType::Timestamp), ("p", DataType::Text)];
    write(directory.path(), "b.json", b"{\"ts\":1,\"p\":\"x\"}\n\n{\"ts\":2,\"p\":\"y\"}");
    write(directory.path(), "B.json", b"{\"ts\":3,\"p\":\"x\"}\n");
    write(directory.path(), "c.json", b"");
    std::fs::create_dir(directory.path().join("d.json")).expect("a directory can be made");
    let pattern = format!("{}/*.json", directory.path().display());
    let mut one = table(&pattern, Format::Json, &columns);
    for block_bytes in [1, 10, 1 << 20] {
        let seen = read(&one, block_bytes);
        let places: Vec<_> = seen.iter().map(|s| (s.file, s.position, s.file_line, s.event_time_us)).collect();
        assert_eq!(places, [(0, 1, 1, Some(3_000)), (1, 2, 1, Some(1_000)), (1, 4, 3, Some(2_000))]);
    }
    write(directory.path(), "a.json.gz", &gzip(b"{\"ts\":0,\"p\":\"z\"}"));
    one.source = SourcePlan::File { path: format!("{}/*.json*", directory.path().display()), format: Format::Json };
    for block_bytes in [1, 10, 1 << 20] {
        let seen = read(&one, block_bytes);
        let places: Vec<_> = seen.iter().map(|s| (s.file, s.position, s.partition.as_deref())).collect();
        assert_eq!(places, [(0, 1, Some("x")), (1, 2, Some("z")), (2, 3, Some("x")), (2, 5, Some("y"))]);
    }
    one.partition = None;
    let source = open(&one, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let names: Vec<_> = source.lanes().iter().map(|lane| lane.name.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(names, ["B.json", "a.json.gz", "b.json", "c.json"]);
    let (blocks, _) = drain(source.open(3, Turns::all()));
    assert_eq!(blocks.len(), 1, "an empty file is one empty block");
    assert!(blocks[0].last && blocks[0].starts_file && blocks[0].rows == 0 && blocks[0].lines == 0);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let directory = temporary();
    let error = |path: &str, format: Format| {
        let table = simple(path, format);
        let error = open(&table, &BTreeSet::new(), &SourceOptions::default()).err().expect("an error");
        (
            error.to_string().replace(&directory.path().display().to_string(), "DIR"),
            error.hint().unwrap_or("").to_owned(),
        )
    };
    let dir = directory.path().display().to_string();
    let (message, hint) = error(&format!("{dir}/missing.ndjson"), Format::Json);
    assert_eq!(message, "DIR/missing.ndjson: expected a file, found nothing");
    assert!(hint.starts_with("paths are relative to "));
    assert_eq!(error(&dir, Format::Json).0, "DIR: expected a file, found a directory");
    assert_eq!(error(&format!("{dir}/*.x"), Format::Json).0, "expected files like \"DIR/*.x\", found none");
    assert!(error(&format!("{dir}/***"), Format::Json).0.contains("is no pattern of paths"));
    let csv = write(directory.path(), "h.csv", b"Key,\"t s\",ts\n");
    let (message, hint) = error(&csv, Format::Csv(csv_options()));
    assert_eq!(message, "DIR/h.csv: expected a column \"key\" in the header, found none");
    assert_eq!(
        hint,
        "the header has \"Key\", \"t s\", \"ts\"; to keep capitals, declare the column as \"Key\", in quotes"
    );
    let twice = write(directory.path(), "i.csv", b"key,ts,key\n");
    assert!(error(&twice, Format::Csv(csv_options())).0.contains("expected one column \"key\""));
    // The same where only the reader can find out.
    let table = simple("-", Format::Json);
    let format = Format::Csv(csv_options());
    let input = Box::new(std::io::Cursor::new(b"a,b\n1,2\n".to_vec()));
    let source = open_reader(&table, &format, input, &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    let (_, error) = drain(source.open(0, Turns::all()));
    assert_eq!(error.expect("an error").to_string(), "stdin: expected a column \"ts\" in the header, found none");
    assert!(drain(source.open(0, Turns::all())).1.is_some(), "a second reader of standard input");
    if cfg!(not(feature = "parquet")) {
        let table = simple("x.parquet", Format::Parquet);
        assert!(open(&table, &BTreeSet::new(), &SourceOptions::default()).is_err());
    }
}

#[test]
fn a_file_counts_with_the_size_it_had() {
    let directory = temporary();
    for (name, format, text) in [
        ("g.json", Format::Json, &b"{\"ts\":1}\n{\"ts\":2}\n"[..]),
        ("g.csv", Format::Csv(csv_options()), b"ts,key\n1,a\n2,b\n"),
    ] {
        let path = write(directory.path(), name, text);
        let options = SourceOptions { block_bytes: 10, workers: 1 };
        let source = open(&simple(&path, format.clone()), &BTreeSet::new(), &options).expect("opens");
        let grown = [text, b"more\n"].concat();
        write(directory.path(), name, &grown);
        assert_eq!(read_source(&*source, 1).len(), 2);
        write(directory.path(), name, &text[..5]);
        let (_, error) = drain(source.open(0, Turns::all()));
        assert!(error.expect("an error").to_string().contains("the file has become shorter"));
    }
}
