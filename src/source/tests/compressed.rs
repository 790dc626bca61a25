//! Archives of several members, and archives that are cut short.

use super::*;

#[test]
fn gzip_with_several_members_and_cut_short() {
    // Case 083, after https://github.com/scverse/rustar-aligner/pull/219
    let directory = temporary();
    let whole =
        [gzip(b"{\"ts\":1,\"key\":\"a\"}\n{\"ts\""), gzip(b":2,\"key\":\"a\"}\n{\"ts\":3,\"key\":\"a\"}\n"), gzip(b"")]
            .concat();
    let path = write(directory.path(), "a.ndjson.gz", &whole);
    let source = open(&simple(&path, Format::Json), &BTreeSet::new(), &SourceOptions::default()).expect("opens");
    assert!(!source.lanes()[0].splittable);
    let (blocks, error) = drain(source.open(0, Turns::all()));
    assert!(error.is_none());
    assert_eq!(blocks.iter().map(|b| b.input_bytes).sum::<u64>(), whole.len() as u64);
    assert_eq!(join(0, blocks).len(), 3);
    let long: String = (0..20_000).map(|n| format!("{{\"ts\":{n},\"key\":\"{}\"}}\n", n * 7_919)).collect();
    for (name, bytes) in [("t.gz", gzip(long.as_bytes())), ("t.zst", zstd(long.as_bytes()))] {
        for (cut, at_least) in [(4, 10_000), (bytes.len() / 2, 1)] {
            let path = write(directory.path(), name, &bytes[..bytes.len() - cut]);
            let table = simple(&path, Format::Json);
            let source =
                open(&table, &BTreeSet::new(), &SourceOptions { block_bytes: 10_000, workers: 1 }).expect("opens");
            let (blocks, error) = drain(source.open(0, Turns::all()));
            let error = error.expect("cut short").to_string();
            assert!(error.starts_with(&format!("{path}: truncated ")), "{error}");
            assert!(blocks.iter().all(|block| !block.last && block.rejects.is_empty()));
            let times: Vec<i64> = blocks.iter().flat_map(|block| block.event_time_us.clone()).collect();
            assert!(times.len() >= at_least, "{name}: {} records before the break", times.len());
            assert!(times.iter().enumerate().all(|(n, us)| *us == n as i64 * 1_000));
        }
    }
}
