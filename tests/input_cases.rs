//! `tests/cases/input/`: settings and bytes as users send them, run through the binary.
//!
//! The choices taken where a case leaves them open are those of `tests/cases/README.md`.

#[path = "cli/harness.rs"]
mod harness;

use harness::{Folder, Ran, balanced};
use serde_json::{Value, json};

fn case(name: &str) -> Value {
    let path = format!("{}/tests/cases/input/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).expect("JSON")
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |b: u8| match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit of base 64"),
    };
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for b in text.bytes().filter(|b| *b != b'=') {
        (bits, held) = (bits << 6 | u32::from(digit(b)), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

/// The bytes of a case, and the suffix of the file to write them to.
fn bytes(case: &Value) -> (String, Vec<u8>) {
    if let Some(records) = case["input"].as_array() {
        let lines = records.iter().map(|record| format!("{record}\n"));
        return ("ndjson".to_owned(), lines.collect::<String>().into_bytes());
    }
    let raw = &case["raw"];
    let bytes = match raw["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64(raw["base64"].as_str().expect("bytes")),
    };
    (raw["format"].as_str().expect("format").to_owned(), bytes)
}

/// The settings of a case as a program over the file `input.SUFFIX`. `value` is the type of the column `value`, if there is
/// one, and `time` the name of the event-time column.
fn program(case: &Value, suffix: &str, value: Option<&str>, time: &str) -> String {
    let settings = &case["settings"];
    let ms = |name: &str| settings[name].as_i64().unwrap_or_else(|| panic!("{name} in {settings}"));
    let windows = match settings["op"].as_str() {
        Some("tumble") => format!("TUMBLE(input, {time}, INTERVAL '{} ms')", ms("size_ms")),
        Some("hop") => format!("HOP(input, {time}, INTERVAL '{} ms', INTERVAL '{} ms')", ms("slide_ms"), ms("size_ms")),
        other => panic!("{other:?}"),
    };
    let column = value.map_or(String::new(), |dtype| format!("value {dtype}, "));
    let value = if value.is_some() { "value" } else { "NULL::BIGINT" };
    format!(
        "CREATE TABLE input (key TEXT, {column}{time} TIMESTAMP, \
           WATERMARK FOR {time} AS {time} - INTERVAL '{} ms') \
         WITH (path = 'input.{suffix}', granularity = '1ms', rejects = 'rejects.ndjson'); \
         CREATE MATERIALIZED VIEW results WITH (horizon = '{} ms') AS \
         SELECT key, window_start, window_end, count(*) AS n, sum({value}) AS total, min({value}) AS low, max({value}) AS high \
         FROM {windows} GROUP BY key, window_start, window_end; \
         CREATE SINK final FROM results WITH (path = 'final.ndjson', mode = 'metrics');",
        ms("delay_ms"),
        ms("horizon_ms"),
    )
}

fn millis(time: &Value) -> i64 {
    time.as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time").as_millisecond()
}

/// Numbers compared as numbers, whatever their notation.
fn same_number(found: &Value, expected: &Value) -> bool {
    let number = |v: &Value| match v {
        Value::String(text) => text.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    match (number(found), number(expected)) {
        (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()),
        _ => found == expected,
    }
}

/// Compares the final rows and the rejected lines with what the case expects, for every number of workers.
fn check_with(case: &Value, value: Option<&str>, time: &str, expected: &Value) -> Folder {
    let (suffix, bytes) = bytes(case);
    let folder = Folder::with(&format!("input.{suffix}"), &bytes);
    let sql = program(case, &suffix, value, time);
    for workers in ["1", "3"] {
        folder.sql(&sql, &["-w", workers, "--summary", "summary.json", "--block-bytes", "64"]).ok();
        let final_rows = folder.rows("final.ndjson");
        let wanted = expected["final"].as_array().expect("final rows");
        assert_eq!(final_rows.len(), wanted.len(), "{final_rows:?}");
        for want in wanted {
            let fits = |row: &&Value| {
                json!(millis(&row["window_start"])) == want[0]
                    && json!(millis(&row["window_end"])) == want[1]
                    && row["key"] == want[2]
                    && row["n"] == want[3]
                    && same_number(&row["total"], &want[4])
            };
            assert_eq!(final_rows.iter().filter(fits).count(), 1, "{want} in {final_rows:?}");
        }
        let rejected: Vec<_> = folder.rows("rejects.ndjson").iter().map(|row| row["position"].clone()).collect();
        let malformed = expected["malformed"].as_array().cloned().unwrap_or_default();
        assert_eq!(line_numbers(&suffix, &rejected), malformed);
        balanced(&folder.json("summary.json"));
    }
    folder
}

/// Cases count records; a position in CSV counts lines, the header too.
fn line_numbers(suffix: &str, positions: &[Value]) -> Vec<Value> {
    let header = i64::from(suffix.starts_with("csv"));
    positions.iter().map(|p| json!(p.as_i64().expect("a position") - header)).collect()
}

fn check(case: &Value, value: Option<&str>, time: &str) -> Folder {
    check_with(case, value, time, &case["expected"])
}

const CASES: [&str; 10] = [
    "025-tiny-slide-state-blow-up",
    "048-event-time-at-i64-limits",
    "069-settings-are-checked",
    "072-nan-stays-in-its-group",
    "074-decimal-sum-is-exact",
    "082-bom-and-crlf-csv",
    "083-gzip-with-several-members",
    "085-bad-line-does-not-spoil-the-next",
    "087-leap-second",
    "088-sub-millisecond-times-are-floored",
];

#[test]
fn no_case_is_left_out() {
    let folder = std::fs::read_dir(format!("{}/tests/cases/input", env!("CARGO_MANIFEST_DIR"))).expect("the cases");
    let mut found: Vec<_> =
        folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().replace(".json", "")).collect();
    found.sort();
    assert_eq!(found, CASES);
}

#[test]
fn tiny_slide() {
    let case = case(CASES[0]);
    let (_, bytes) = bytes(&case);
    let folder = Folder::with("input.ndjson", bytes);
    folder.sql(&program(&case, "ndjson", Some("BIGINT"), "t_ms"), &["-w", "2"]).ok();
    let rows = folder.rows("final.ndjson");
    let expected = &case["expected"];
    assert_eq!(json!(rows.len()), expected["windows"]);
    assert_eq!(json!(millis(&rows[0]["window_start"])), expected["first_start"]);
    assert_eq!(json!(millis(&rows[rows.len() - 1]["window_start"])), expected["last_start"]);
    assert!(rows.iter().all(|r| r["n"] == expected["each"]["count"] && r["total"] == expected["each"]["sum"]));
    // The choice taken: more than 1,000,000 windows a record are refused, naming the limit.
    let hop = |size: &str| {
        format!(
            "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'missing.ndjson', granularity = '1us'); \
             SELECT count(*) FROM HOP(t, at, INTERVAL '1 us', INTERVAL '{size}') GROUP BY window_start"
        )
    };
    folder.sql(&hop("1000001 us"), &[]).fails(2, &["1000000 windows", "slide"]);
    folder.run(&["explain", "-e", &hop("1000000 us")]).ok();
}

#[test]
fn event_time_at_the_limits_of_64_bits() {
    let case = case(CASES[1]);
    // The choice taken: out of the range that is supported, so a reject.
    let folder = check_with(&case, Some("BIGINT"), "t_ms", &case["expected"]["either"][0]);
    let reasons: Vec<_> = folder.rows("rejects.ndjson").iter().map(|r| r["reason"].clone()).collect();
    assert_eq!(reasons, ["range", "range"]);
    // The same times in the other units.
    for unit in ["us", "s"] {
        let sql = program(&case, "ndjson", Some("BIGINT"), "t_ms")
            .replace("granularity", &format!("time_unit = '{unit}', granularity"));
        folder.sql(&sql, &[]).ok();
        for row in folder.rows("final.ndjson") {
            assert!(millis(&row["window_start"]) < millis(&row["window_end"]), "{row}");
        }
    }
}

#[test]
fn settings_are_checked() {
    let case = case(CASES[2]);
    let folder = Folder::new();
    // The file does not exist: a setting that were checked after reading began would give another error.
    let run = |delay: i64, table: &str, view: &str, from: &str| -> Ran {
        folder.sql(
            &format!(
                "CREATE TABLE t (key TEXT, at TIMESTAMP, got TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '{delay} ms') \
                 WITH (path = 'missing.ndjson', granularity = '1ms'{table}); \
                 CREATE MATERIALIZED VIEW v WITH (spike_above = 1{view}) AS \
                 SELECT key, window_start, window_end, count(*) AS n FROM {from} GROUP BY key, window_start, window_end"
            ),
            &[],
        )
    };
    let tumble = |size: i64| format!("TUMBLE(t, at, INTERVAL '{size} ms')");
    run(0, "", "", &tumble(10)).fails(1, &["missing.ndjson"]);
    for setting in case["cases"].as_array().expect("cases") {
        let settings = setting.as_object().expect("settings");
        let (name, value) = settings.iter().next().expect("a setting");
        let value = value.as_i64().expect("a number");
        match name.as_str() {
            "size_ms" => run(0, "", "", &tumble(value)).fails(2, &["size", "above zero"]),
            "slide_ms" => run(0, "", "", &format!("HOP(t, at, INTERVAL '{value} ms', INTERVAL '10 ms')"))
                .fails(2, &["slide", "above zero"]),
            "delay_ms" => run(value, "", "", &tumble(10)).fails(2, &["delay is negative"]),
            "horizon_ms" => {
                run(0, "", &format!(", horizon = '{value} ms'"), &tumble(10)).fails(2, &["\"horizon\"", "zero or more"])
            }
            "idle_timeout_ms" => {
                run(0, &format!(", arrival_time = 'got', idle_timeout = '{value} ms'"), "", &tumble(10))
                    .fails(2, &["\"idle_timeout\"", "at least one tick"])
            }
            // Not there yet, and said so.
            "gap_ms" => run(0, "", "", &format!("SESSION(t, at, INTERVAL '{value} ms')"))
                .fails(2, &["session windows are not supported yet"]),
            "lower_ms" => {
                let upper = settings["upper_ms"].as_i64().expect("a number");
                let between = format!("l.at + INTERVAL '{value} ms' AND l.at + INTERVAL '{upper} ms'");
                run(0, "", "", &format!("t l JOIN t r ON l.key = r.key AND r.at BETWEEN {between}"))
                    .fails(2, &["joins are not supported yet"])
            }
            other => panic!("the setting {other} is not tested"),
        };
    }
    // The choice taken: an offset outside [0, slide) is normalised.
    folder.write("input.ndjson", "{\"at\":-1}\n{\"at\":0}\n{\"at\":4}\n{\"at\":5}\n{\"at\":14}\n{\"at\":15}\n");
    let with_offset = |size: i64, offset: i64| {
        let sql = format!(
            "CREATE TABLE t (at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'input.ndjson', granularity = '1ms'); \
             CREATE MATERIALIZED VIEW v WITH (offset = '{offset} ms') AS \
             SELECT window_start, window_end, count(*) AS n FROM TUMBLE(t, at, INTERVAL '{size} ms') GROUP BY window_start"
        );
        folder.sql(&sql, &[]).ok().stdout
    };
    for accepted in case["expected"]["accepted"].as_array().expect("accepted") {
        let ms = |name: &str| accepted[name].as_i64().expect("a number");
        let (size, offset, same) = (ms("size_ms"), ms("offset_ms"), ms("same_as_offset"));
        assert_eq!(with_offset(size, offset), with_offset(size, same));
        assert_ne!(with_offset(size, offset), with_offset(size, 0));
    }
}

#[test]
fn nan_stays_in_its_group() {
    let case = case(CASES[3]);
    let folder = check(&case, Some("DOUBLE"), "ts");
    let rows = folder.rows("final.ndjson");
    let low_high: Vec<_> = rows.iter().map(|r| (r["low"].clone(), r["high"].clone())).collect();
    // The choice taken: NaN is the largest value.
    assert_eq!(low_high, [(json!(1.0), json!("NaN")), (json!(2.0), json!(2.0)), (json!("NaN"), json!("NaN"))]);
}

#[test]
fn decimal_sums_are_exact() {
    let case = case(CASES[4]);
    for dtype in ["DECIMAL(10,2)", "DECIMAL(38,9)"] {
        check(&case, Some(dtype), "t_ms");
    }
    let folder = check(&case, Some("DECIMAL(10,2)"), "t_ms");
    assert!(folder.read("final.ndjson").contains("\"total\":0.30,"), "at the scale of the column");
}

#[test]
fn byte_order_mark_and_crlf() {
    let case = case(CASES[5]);
    check(&case, Some("BIGINT"), "ts");
    // The same holds for NDJSON.
    let lines = "\u{feff}{\"ts\":5,\"key\":\"a\",\"value\":1}\r\n{\"ts\":15,\"key\":\"a\",\"value\":2}\r\n\r\n{\"ts\":25,\"key\":\"a\",\"value\":3}";
    let mut json = case.clone();
    json["raw"] = json!({"format": "ndjson", "text": lines});
    check(&json, Some("BIGINT"), "ts");
}

#[test]
fn gzip_members() {
    let case = case(CASES[6]);
    let folder = check(&case, None, "t");
    assert_eq!(folder.json("summary.json")["records"], case["expected"]["records"]);
    // Cut short: an error, and no output.
    let (suffix, bytes) = bytes(&case);
    let cut = Folder::with("input.ndjson.gz", &bytes[..bytes.len() - 4]);
    let sql = program(&case, &suffix, None, "t");
    cut.sql(&sql, &[]).fails(1, &["input.ndjson.gz: truncated gzip data", "records before the break were read"]);
    assert_eq!(cut.names(), ["input.ndjson.gz"]);
}

#[test]
fn a_bad_line_does_not_spoil_the_next() {
    let case = case(CASES[7]);
    let folder = check(&case, None, "t");
    assert_eq!(folder.json("summary.json")["records"], case["expected"]["records"]);
    let rejects = folder.rows("rejects.ndjson");
    let places: Vec<_> =
        rejects.iter().map(|r| (r["place"].as_str().unwrap(), r["reason"].as_str().unwrap())).collect();
    assert_eq!(
        places,
        [
            ("input.ndjson:2", "syntax"),
            ("input.ndjson:4", "encoding"),
            ("input.ndjson:5", "syntax"),
            ("input.ndjson:6", "syntax"),
            ("input.ndjson:7", "syntax"),
        ]
    );
    // The bytes can be had, also those that are no text.
    assert_eq!(rejects[0]["raw"], "{\"t\":17x9,\"key\":\"a\"}");
    assert_eq!(rejects[1]["raw_hex"], "7b2274223a332c226b6579223a22fffe227d");
}

#[test]
fn leap_seconds() {
    check(&case(CASES[8]), None, "ts");
}

#[test]
fn digits_finer_than_a_microsecond_are_floored() {
    let case = case(CASES[9]);
    let folder = check(&case, None, "ts");
    let sql = "CREATE TABLE input (key TEXT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (path = 'input.csv'); SELECT ts FROM input";
    let mut found: Vec<_> = folder.sql(sql, &[]).ok().rows().iter().map(|row| millis_floor(&row["ts"])).collect();
    let mut expected: Vec<_> =
        case["expected"]["t_ms"].as_array().expect("times").iter().map(|t| t.as_i64().expect("a time")).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

fn millis_floor(time: &Value) -> i64 {
    let us = time.as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time").as_microsecond();
    us.div_euclid(1000)
}
