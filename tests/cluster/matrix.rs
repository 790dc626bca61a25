//! The same bytes for any number of threads and processes, and the oracle's.

use crate::data::{Part, Random, program, program_over, seed, write_parts};
use crate::harness::{Cluster, Folder, all_ok, clear, digest};

const THREADS: [usize; 3] = [1, 2, 4];
const PROCESSES: [usize; 3] = [1, 2, 3];

/// Runs `q.sql` of the folder with every number of threads and processes; `verify` says that the answer is the oracle's.
#[track_caller]
fn same_everywhere(folder: &Folder, sql: &str, random: &mut Random, what: &str) {
    folder.write("q.sql", sql);
    let before = folder.names();
    folder.run(&["verify", "q.sql", "-w", "3"]).ok();
    assert_eq!(folder.names(), before, "verify writes nothing");
    let mut first = None;
    for processes in PROCESSES {
        for threads in THREADS {
            let block_bytes = (200 + random.below(3000)).to_string();
            let cluster = Cluster::new(folder, processes).threads(threads);
            let args = ["--block-bytes", &block_bytes, "--summary", "summary.json"];
            let stdout = if processes == 1 {
                let threads = threads.to_string();
                let mut alone = vec!["run", "q.sql", "-w", &threads];
                alone.extend(args);
                folder.run(&alone).ok().stdout
            } else {
                all_ok(cluster.args(&args).run()).stdout
            };
            let found = digest(&stdout, folder, &before);
            let shape = format!("{what}, {processes} processes of {threads} threads, blocks of {block_bytes} bytes");
            let (expected, outputs) = first.get_or_insert_with(|| {
                // All outputs have rows, or the comparison says little.
                assert!(stdout.lines().count() > 20, "{shape}");
                println!("{what}: {found}");
                (found.clone(), folder.files())
            });
            if found != *expected {
                let now = folder.files();
                let differs = now.iter().filter(|(name, bytes)| outputs.get(*name) != Some(bytes));
                let names: Vec<_> = differs.map(|(name, _)| name.as_str()).collect();
                panic!("{shape}: other bytes, in standard output or among {names:?}");
            }
            clear(folder, &before);
        }
    }
}

/// Both scopes of lateness over the partitions.
fn check(what: &str, own_seed: u64, parts: &[Part], zipped: Option<usize>, options: &[(&str, &str)]) {
    let mut random = Random::new(seed(own_seed));
    let folder = Folder::new();
    write_parts(&folder, parts, zipped, &mut random);
    for (scope, options) in options {
        same_everywhere(&folder, &program(scope, options), &mut random, &format!("{what}, {scope} scope {options}"));
    }
}

const BOTH: [(&str, &str); 2] = [("source", ""), ("partition", "")];

#[test]
fn one_file() {
    check("one file", 1, &[Part::of(500)], None, &BOTH);
}

#[test]
fn one_compressed_file() {
    check("one compressed file", 2, &[Part::of(300)], Some(0), &BOTH[..1]);
}

#[test]
fn many_partitions() {
    check("many partitions", 3, &[Part::of(70); 8], Some(3), &BOTH);
}

#[test]
fn skewed_partitions() {
    check("skewed partitions", 4, &[Part::of(10), Part::of(450), Part::of(25), Part::of(5)], Some(2), &BOTH);
}

#[test]
fn silent_partitions() {
    let silent = Part { silent_ms: (8_000, 50_000), ..Part::of(60) };
    let parts = [Part::of(200), silent, Part::of(150)];
    let idle = [("source", ""), ("partition", ""), ("source", ", idle_timeout = '5s'")];
    check("silent partitions", 5, &parts, Some(0), &idle);
}

#[test]
fn partitions_that_come_and_go() {
    let part = |from_ms, to_ms| Part { from_ms, to_ms, ..Part::of(90) };
    let parts = [part(0, 20_000), part(15_000, 45_000), part(40_000, 70_000)];
    let idle = [("source", ", idle_timeout = '3s'"), ("source", ", late_records = 'drop'")];
    check("partitions that come and go", 6, &parts, None, &idle);
}

#[test]
fn empty_partitions() {
    check(
        "empty partitions",
        7,
        &[Part::of(0), Part::of(250), Part::of(0), Part::of(0), Part::of(100)],
        Some(2),
        &BOTH,
    );
}

#[test]
fn fewer_partitions_than_workers() {
    check("fewer partitions than workers", 8, &[Part::of(200), Part::of(300)], Some(0), &BOTH);
}

#[test]
fn a_trace_with_a_partition_column() {
    let mut random = Random::new(seed(9));
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(250), Part { from_ms: 60_000, to_ms: 90_000, ..Part::of(150) }], None, &mut random);
    let input = "path = 'in/*', format = 'json', arrival_time = 'arrived', time_unit = 'ms', partition = 'k', partitions = 'k1,k2'";
    for (scope, options) in [("source", ", idle_timeout = '10s'"), ("partition", "")] {
        let sql = program_over(input, scope, options);
        same_everywhere(&folder, &sql, &mut random, &format!("one trace, {scope} scope"));
    }
}

#[test]
fn the_generator() {
    let mut random = Random::new(seed(10));
    for (partitions, options) in [(1, ""), (5, ", idle_timeout = '2s', silent_every = '4s', silent_for = '6s'")] {
        let sql = format!(
            "CREATE TABLE g (customer_id BIGINT, amount DECIMAL(12,2), event_time TIMESTAMP, arrival_time TIMESTAMP,
               WATERMARK FOR event_time AS event_time - INTERVAL '2 seconds')
             WITH (connector = 'generator', rows = 1500, rate = 50, keys = 7, partitions = {partitions}{options});
             CREATE MATERIALIZED VIEW v WITH (horizon = '5s', late = 'out/late.csv') AS
             SELECT customer_id, window_start, window_end, count(*) AS n, sum(amount) AS s
             FROM TUMBLE(g, event_time, INTERVAL '3 seconds') GROUP BY customer_id, window_start, window_end;
             CREATE SINK a FROM v WITH (connector = 'stdout');
             CREATE SINK b FROM v WITH (path = 'out/backfills.csv', mode = 'backfills');"
        );
        let what = format!("{partitions} generated partitions");
        same_everywhere(&Folder::new(), &sql, &mut random, &what);
    }
}
