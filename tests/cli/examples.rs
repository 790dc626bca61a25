//! What is shipped under `examples/`: golden outputs, `explain` and `schema`.

use crate::harness::{Folder, balanced};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A folder that holds `examples/`, so that paths in the programs lead there and outputs go nowhere else.
fn examples() -> Folder {
    let folder = Folder::new();
    copy(&root().join("examples"), &folder.path("examples"));
    folder
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All programs, as paths below the root.
fn programs() -> Vec<String> {
    let mut programs = Vec::new();
    for folder in std::fs::read_dir(root().join("examples")).unwrap() {
        let folder = folder.unwrap().path();
        for file in std::fs::read_dir(folder).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "sql") {
                programs.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    programs.sort();
    assert!(programs.len() >= 9, "{programs:?}");
    programs
}

/// The figures of the contract's worked examples, byte for byte.
#[test]
fn golden_outputs() {
    let folder = examples();
    for (program, golden) in [
        ("orders/orders.sql", "orders.ndjson"),
        ("orders/orders-delay-30s.sql", "orders-delay-30s.ndjson"),
        ("orders/orders-horizon-5s.sql", "orders-horizon-5s.ndjson"),
        ("hopping/hopping-drop.sql", "hopping-drop.ndjson"),
        ("hopping/hopping-window.sql", "hopping-window.ndjson"),
    ] {
        let golden = std::fs::read_to_string(root().join("tests/golden").join(golden)).unwrap();
        for (workers, block) in [("1", "1048576"), ("2", "64"), ("3", "1"), ("4", "100")] {
            let args = ["run", &format!("examples/{program}"), "-w", workers, "--block-bytes", block];
            assert_eq!(folder.run(&args).ok().stdout, golden, "{program} {workers}");
        }
    }
}

#[test]
fn every_example_runs_and_is_explained() {
    let folder = examples();
    for program in programs() {
        let ran = folder.run(&["run", &program, "-w", "2", "--summary", "summary.json"]).ok();
        assert!(!ran.stderr.contains("warning"), "{program}: {}", ran.stderr);
        let ledger = balanced(&folder.json("summary.json"));
        assert!(ledger["records"]["read"].as_u64() > Some(0), "{program}");
        assert_eq!(ledger["records"]["rejected"].as_object().unwrap().len(), 0, "{program}");
        let explained = folder.run(&["explain", &program]).ok().stdout;
        for part in
            ["table ", "  reads  ", "  watermark ", "  stamp ", "view ", "  lateness\n", "is on time", "  sink "]
        {
            assert!(explained.contains(part), "{program}: {part:?} in\n{explained}");
        }
    }
}

#[test]
fn explain_says_what_a_late_record_gets() {
    let folder = examples();
    let explain = |program: &str| folder.run(&["explain", &format!("examples/{program}")]).ok().stdout;
    let orders = explain("orders/orders.sql");
    for part in [
        "the greatest event_time so far, minus 10s",
        "tumbling, 1m",
        "a record whose stamp is at or past the window's end, by up to 3m, is late: it corrects the result at its stamp",
        "once the watermark is more than 3m past the end, it is too late: dropped",
    ] {
        assert!(orders.contains(part), "{part:?} in\n{orders}");
    }
    assert!(
        explain("hopping/hopping-drop.sql")
            .contains("is dropped for all windows, open ones too (late_records = 'drop')")
    );
    assert!(explain("hopping/hopping-window.sql").contains("too late: dropped, and counted (no horizon is set)"));
    // Nothing is read for it.
    let sql = "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'missing.csv'); SELECT at FROM t";
    folder.run(&["explain", "-e", sql]).ok();
    folder.run(&["explain", "-e", "SELECT x FROM y"]).fails(2, &["-e:1:"]);
}

/// What `schema` prints is a program's first half: with a query behind it, it runs.
#[test]
fn schema_of_every_data_set_runs() {
    let folder = examples();
    let mut seen = 0;
    for program in programs() {
        if program.contains("hopping") {
            // 40 seconds after 1970 is not a time to guess.
            let schema = folder.run(&["schema", "examples/hopping/readings.ndjson"]).ok().stdout;
            assert!(schema.contains("no event time was found: name one with --event-time"), "{schema}");
            continue;
        }
        let text = folder.read(&program);
        let path = text.split_once("path = '").expect("a path").1.split_once('\'').expect("an end").0.to_owned();
        let event_time =
            text.split_once("WATERMARK FOR ").expect("an event time").1.split_once(' ').expect("an end").0.to_owned();
        let schema = folder.run(&["schema", &path, "--event-time", &event_time]).ok().stdout;
        assert!(schema.contains("-- guessed from the first ") && schema.contains("a delay of "), "{schema}");
        let name = schema.split_once("CREATE TABLE ").expect("a table").1.split_once(' ').expect("an end").0;
        let time = schema.split_once("WATERMARK FOR ").expect("an event time").1.split_once(' ').expect("an end").0;
        let sql = format!(
            "{schema} SELECT count(*) AS n FROM TUMBLE({name}, {time}, INTERVAL '36500 days') GROUP BY window_start"
        );
        folder.sql(&sql, &["--summary", "summary.json", "-w", "2"]).ok();
        let ledger = balanced(&folder.json("summary.json"));
        assert_eq!(ledger["records"]["rejected"].as_object().unwrap().len(), 0, "{path}");
        seen += 1;
    }
    assert!(seen >= 7);
    folder.run(&["schema", "missing.csv"]).fails(1, &["missing.csv"]);
    folder.run(&["schema", "examples"]).fails(1, &["examples"]);
    folder.write("empty.csv", "");
    folder.run(&["schema", "empty.csv"]).fails(1, &["empty.csv"]);
    folder.run(&["schema", "examples/orders/orders.ndjson", "--event-time", "soon"]).fails(2, &["soon"]);
}
