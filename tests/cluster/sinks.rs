//! Sinks that every process writes for its own keys.

use crate::data::{Part, Random, seed, write_parts};
use crate::harness::{Cluster, Folder, all_ok, clear};
use std::collections::BTreeMap;

fn program(more: &str) -> String {
    format!(
        "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '2 seconds')
         WITH (path = 'in/*', format = 'json', time_unit = 'ms');
         CREATE MATERIALIZED VIEW v WITH (horizon = '20 seconds') AS
         SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(t, at, INTERVAL '5 seconds')
         GROUP BY k, window_start, window_end;
         {more}"
    )
}

const SINKS: &str = "CREATE SINK a FROM v WITH (path = 'out/part-{process}.ndjson');
    CREATE SINK b FROM v WITH (path = 'out/{process}/metrics.csv', mode = 'metrics');
    CREATE SINK c FROM v WITH (path = 'out/{process}-backfills.ndjson', mode = 'backfills');
    CREATE SINK d FROM v WITH (path = 'whole.ndjson');
    CREATE SINK e FROM v WITH (path = 'metrics.csv', mode = 'metrics');
    CREATE SINK f FROM v WITH (path = 'backfills.ndjson', mode = 'backfills');";

/// Every row of the whole is in exactly one part, and the rows of a part stand in the order of the whole.
#[track_caller]
fn check_parts(whole: &str, parts: &[String], header: bool) {
    let head = usize::from(header);
    let places: BTreeMap<&str, usize> = whole.lines().skip(head).enumerate().map(|(i, line)| (line, i)).collect();
    assert_eq!(places.len(), whole.lines().count() - head, "rows differ");
    let mut seen = vec![0; places.len()];
    for part in parts {
        assert_eq!(part.lines().take(head).collect::<Vec<_>>(), whole.lines().take(head).collect::<Vec<_>>());
        let found: Vec<usize> = part
            .lines()
            .skip(head)
            .map(|line| *places.get(line).unwrap_or_else(|| panic!("a row of none: {line}")))
            .collect();
        assert!(found.is_sorted_by(|a, b| a < b), "in order");
        found.into_iter().for_each(|place| seen[place] += 1);
    }
    assert!(seen.iter().all(|times| *times == 1), "each row once");
}

#[test]
fn parts_make_up_the_whole() {
    let mut random = Random::new(seed(21));
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(120); 3], Some(1), &mut random);
    folder.write("q.sql", program(SINKS));
    let before = folder.names();
    let mut whole: Option<String> = None;
    for (processes, threads) in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 4)] {
        if processes == 1 {
            folder.run(&["run", "q.sql", "-w", &threads.to_string()]).ok();
        } else {
            all_ok(Cluster::new(&folder, processes).threads(threads).args(&["--block-bytes", "2000"]).run());
        }
        let parts = |before: &str, after: &str| -> Vec<String> {
            (0..processes).map(|p| folder.read(&format!("out/{before}{p}{after}"))).collect()
        };
        let changes = parts("part-", ".ndjson");
        check_parts(&folder.read("whole.ndjson"), &changes, false);
        check_parts(&folder.read("metrics.csv"), &parts("", "/metrics.csv"), true);
        check_parts(&folder.read("backfills.ndjson"), &parts("", "-backfills.ndjson"), false);
        if processes == 1 {
            assert_eq!(changes[0], folder.read("whole.ndjson"));
        } else if threads > 1 {
            let busy = changes.iter().filter(|part| !part.is_empty()).count();
            assert!(busy > 1, "keys go to several processes");
        }
        assert_eq!(*whole.get_or_insert_with(|| folder.read("whole.ndjson")), folder.read("whole.ndjson"));
        let outputs = folder.names().iter().filter(|n| n.starts_with("out/")).count();
        assert_eq!(outputs, 3 * processes, "nothing aside: {:?}", folder.names());
        clear(&folder, &before);
    }
}

#[test]
fn late_and_rejects_are_written_once() {
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(5)], None, &mut Random::new(22));
    let sink = "CREATE SINK a FROM v WITH (path = 'x.csv');";
    let late = program(sink).replace("(horizon", "(late = 'late-{process}.csv', horizon");
    let rejects = program(sink).replace("time_unit", "rejects = 'rejects-{process}.csv', time_unit");
    for sql in [late, rejects] {
        folder.write("q.sql", sql);
        let before = folder.names();
        for ended in [folder.run(&["run", "q.sql"]), folder.run(&["run", "q.sql", "-n", "2", "-p", "1"])] {
            ended.fails(2, &["-{process}.csv': only a sink's path can have {process} in it"]);
        }
        assert_eq!(folder.names(), before);
    }
}

/// Processes in folders of their own: each has its part there, process 0 has everything else.
#[test]
fn each_process_writes_where_it_runs() {
    let mut random = Random::new(seed(23));
    let folders = [Folder::new(), Folder::new()];
    write_parts(&folders[0], &[Part::of(100); 2], None, &mut random);
    for name in ["in/p0.ndjson", "in/p1.ndjson"] {
        folders[1].write(name, std::fs::read(folders[0].path(name)).expect("a file"));
    }
    folders.iter().for_each(|folder| folder.write("q.sql", program(SINKS)));
    all_ok(Cluster::over(folders.iter().collect()).run());
    let parts = [folders[0].read("out/part-0.ndjson"), folders[1].read("out/part-1.ndjson")];
    check_parts(&folders[0].read("whole.ndjson"), &parts, false);
    let names = folders[1].names();
    assert!(!names.contains(&"whole.ndjson".to_owned()) && !names.contains(&"metrics.csv".to_owned()), "{names:?}");
}
