//! Inputs from a seed, and the program over them.

use crate::harness::Folder;
use std::fmt::Write as _;
use std::io::Write as _;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The seed of a test: that of the environment, or else its own. Printed, and shown if the test fails.
pub fn seed(own: u64) -> u64 {
    let given = std::env::var("SLACKWATER_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(own);
    println!("SLACKWATER_TEST_SEED={seed}");
    seed
}

/// When the inputs begin: ms since 1970.
const START_MS: u64 = 1_767_225_600_000;

/// A partition of records: `count` of them arrive between two moments (ms after the start).
#[derive(Clone, Copy)]
pub struct Part {
    pub count: u64,
    pub from_ms: u64,
    pub to_ms: u64,
    /// Nothing arrives between these.
    pub silent_ms: (u64, u64),
}

impl Part {
    pub fn of(count: u64) -> Part {
        Part { count, from_ms: 0, to_ms: 60_000, silent_ms: (0, 0) }
    }
}

/// NDJSON of a partition, with rejects and nulls, in order of arrival.
pub fn ndjson(part: Part, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    let mut arrivals: Vec<u64> = Vec::new();
    while (arrivals.len() as u64) < part.count {
        let at = part.from_ms + random.below(part.to_ms - part.from_ms);
        if !(part.silent_ms.0..part.silent_ms.1).contains(&at) {
            arrivals.push(at);
        }
    }
    arrivals.sort_unstable();
    for (id, arrived) in arrivals.into_iter().enumerate() {
        let arrived = START_MS + arrived;
        let at = arrived - lag(random);
        let key = match random.below(12) {
            0 => "null".to_owned(),
            k => format!("\"k{k}\""),
        };
        let value = match random.below(40) {
            0 => "null".to_owned(),
            1 => "\"many\"".to_owned(),
            _ => (random.below(2000) as i64 - 1000).to_string(),
        };
        let price = format!("{}.{:02}", random.below(1000), random.below(100));
        let mut line = format!(
            "{{\"id\":{id},\"k\":{key},\"v\":{value},\"price\":{price},\"x\":{}e-3,\"at\":{at},\"arrived\":{arrived}}}",
            random.below(1_000_000)
        );
        match random.below(80) {
            0 => line.truncate(line.len() / 2),
            1 => line = format!("{{\"id\":{id},\"k\":{key},\"at\":null,\"arrived\":{arrived}}}"),
            2 => line = format!("{{\"id\":{id},\"k\":{key},\"at\":{at}}}"),
            _ => {}
        }
        out.extend_from_slice(line.as_bytes());
        if random.one_in(100) {
            out.extend_from_slice(b"\xff\xfe");
        }
        out.push(b'\n');
    }
    out
}

/// How long before its arrival an event happened.
fn lag(random: &mut Random) -> u64 {
    match random.below(20) {
        0 => random.below(60_000),
        1..4 => random.below(12_000),
        _ => random.below(1500),
    }
}

/// CSV of a second table.
fn csv(count: u64, random: &mut Random) -> String {
    let mut out = "k,v,at\n".to_owned();
    for i in 0..count {
        let at = START_MS + i * 300 - lag(random).min(30_000);
        let value = if random.one_in(20) { "?".to_owned() } else { random.below(100).to_string() };
        let key = if random.one_in(10) { String::new() } else { format!("\"key,{}\"", random.below(5)) };
        writeln!(out, "{key},{value},{at}").expect("a string");
    }
    out
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("memory");
    gzip.finish().expect("memory")
}

/// Writes partitions to `in/`; the one that `zipped` says is compressed. And a CSV file to `csv/`.
pub fn write_parts(folder: &Folder, parts: &[Part], zipped: Option<usize>, random: &mut Random) {
    for (i, part) in parts.iter().enumerate() {
        let bytes = ndjson(*part, random);
        if zipped == Some(i) {
            folder.write(&format!("in/p{i}.ndjson.gz"), gzip(&bytes));
        } else {
            folder.write(&format!("in/p{i}.ndjson"), bytes);
        }
    }
    folder.write("csv/only.csv", csv(120, random));
}

/// The program over [`write_parts`]: `scope` of lateness, more `options` of the first table.
pub fn program(scope: &str, options: &str) -> String {
    program_over("path = 'in/*', format = 'json', arrival_time = 'arrived', time_unit = 'ms'", scope, options)
}

pub fn program_over(input: &str, scope: &str, options: &str) -> String {
    format!(
        "CREATE TABLE t (id BIGINT, k TEXT, v BIGINT, price DECIMAL(10,2), x DOUBLE, at TIMESTAMP, arrived TIMESTAMP,
           WATERMARK FOR at AS at - INTERVAL '2 seconds')
         WITH ({input}, granularity = '100ms', tick = '1s', max_future = '1h', lateness_scope = '{scope}',
           rejects = 'out/rejects.ndjson'{options});
         CREATE TABLE c (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 second')
         WITH (path = 'csv/*.csv', time_unit = 'ms', rejects = 'out/rejects_c.csv');
         CREATE MATERIALIZED VIEW tumbling WITH (horizon = '15 seconds', late = 'out/late_tumbling.ndjson') AS
         SELECT k, window_start, window_end, count(*) AS n, count(v) AS m, sum(v) AS s, avg(price) AS p, sum(x) AS x,
           first_value(id) AS first, array_agg(v) FILTER (WHERE v > 900) AS large
         FROM TUMBLE(t, at, INTERVAL '10 seconds') GROUP BY k, window_start, window_end;
         CREATE MATERIALIZED VIEW hopping WITH (horizon = '4 seconds', late = 'out/late_hopping.csv', spike_above = 2) AS
         SELECT window_start, window_end, v % 3 AS third, count(*) AS n, max(price) AS p, approx_count_distinct(id) AS d
         FROM HOP(t, at, INTERVAL '3 seconds', INTERVAL '10 seconds') WHERE price > 20
         GROUP BY window_start, window_end, third HAVING count(*) > 1;
         CREATE MATERIALIZED VIEW other WITH (horizon = '1 minute') AS
         SELECT k, window_start, window_end, sum(v) AS s FROM TUMBLE(c, at, INTERVAL '5 seconds') GROUP BY k, window_start, window_end;
         CREATE MATERIALIZED VIEW plain AS SELECT id, k, v FROM t WHERE v > 800;
         CREATE SINK a FROM tumbling WITH (connector = 'stdout');
         CREATE SINK b FROM tumbling WITH (path = 'out/tumbling.csv', mode = 'metrics');
         CREATE SINK c FROM tumbling WITH (path = 'out/tumbling_backfills.ndjson', mode = 'backfills');
         CREATE SINK d FROM hopping WITH (path = 'out/hopping.ndjson');
         CREATE SINK e FROM hopping WITH (path = 'out/hopping_metrics.ndjson', mode = 'metrics');
         CREATE SINK f FROM hopping WITH (path = 'out/hopping_backfills.csv', mode = 'backfills');
         CREATE SINK g FROM other WITH (path = 'out/other.csv');
         CREATE SINK h FROM plain WITH (path = 'out/plain.ndjson');
        "
    )
}

/// A program that runs until standard input (of process 0) ends, beside files that all read. `sinks` are more statements.
pub fn live_program(sinks: &str) -> String {
    format!(
        "CREATE TABLE live (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at)
         WITH (connector = 'stdin', granularity = '1ms', rejects = 'out/rejects.ndjson');
         CREATE TABLE t (id BIGINT, k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '2 seconds')
         WITH (path = 'in/*', format = 'json', time_unit = 'ms');
         CREATE MATERIALIZED VIEW counts WITH (horizon = '20 seconds', late = 'out/late.ndjson') AS
         SELECT k, window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(live, at, INTERVAL '10 seconds')
         GROUP BY k, window_start, window_end;
         CREATE MATERIALIZED VIEW beside WITH (horizon = '20 seconds') AS
         SELECT k, window_start, window_end, count(*) AS n FROM HOP(t, at, INTERVAL '5 seconds', INTERVAL '10 seconds')
         GROUP BY k, window_start, window_end;
         CREATE SINK a FROM counts WITH (connector = 'stdout');
         CREATE SINK b FROM counts WITH (path = 'out/metrics.csv', mode = 'metrics');
         CREATE SINK c FROM beside WITH (path = 'out/beside.ndjson');
         {sinks}"
    )
}

/// Records for the standard input of [`live_program`], of which every second closes windows.
pub fn live_line(i: u64, random: &mut Random) -> String {
    let at = (i * 1000).saturating_sub(if random.one_in(5) { random.below(40_000) } else { 0 });
    format!("{{\"k\":\"k{}\",\"v\":{},\"at\":{at}}}\n", random.below(5), random.below(100))
}

/// Records after which the window of 10 s is published.
pub fn first_window() -> String {
    let record = |at: u64| format!("{{\"k\":\"a\",\"v\":1,\"at\":{at}}}\n");
    record(1000) + "oops\n" + &record(20_000) + &record(100) + &record(31_000)
}

/// A row of the first window, and its watermark.
pub const FIRST_ROW: &str = "\"window_end\":\"1970-01-01T00:00:10Z\"";
