//! Random streams and random queries over them: small numbers from a seed, turned into SQL, records, files and traces.
//!
//! Records come as [`Raw`] bytes so that a failing test can leave some out; everything else follows from a seed.

use slackwater::error::Result;
use slackwater::plan::{Program, TablePlan};
use slackwater::record::RejectReason;
use slackwater::source::trace::{TraceItem, TraceSource};
use slackwater::source::{Source, SourceOptions};
use slackwater::sql::{self, BareSelectDefaults};
use slackwater::time::{format_duration, format_timestamp};
use slackwater::types::Value;
use slackwater::verify::{TraceRow, apply_policy, merge_by_arrival, watermark_of};
use slackwater::watermark::BEFORE_ALL;
use std::fmt::Write as _;
use std::sync::Arc;

/// Random choices from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub fn range(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from) as u64) as i64
    }
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}

/// One step of a stream: `[kind, partition, wait, lag, key, value, other, flaw]`.
pub type Raw = [u8; 8];

/// How the records reach the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In memory, a lane a partition; partitions may end, time may pass, reading may stop.
    Trace,
    /// Files, each a partition.
    Files,
    /// Files that are one trace, a column naming the partitions.
    Column,
}

/// A random program and how its input is laid out.
#[derive(Clone, Debug)]
pub struct Setup {
    pub carrier: Carrier,
    pub csv: bool,
    pub partitions: usize,
    /// Whether the table has arrival times.
    pub arrival: bool,
    pub bounded: bool,
    /// The unit that sizes, delays and distances are multiples of, µs.
    pub unit_us: i64,
    /// Arrival of the first record, µs.
    pub start_us: i64,
    /// How many units events lie behind at most.
    pub spread: i64,
    /// Whether sums may overflow.
    pub huge: bool,
    /// The program, `{path}` standing for the files.
    pub sql: String,
}

const TEXTS: [&str; 5] = ["a", "b", "ä", "", "c,\"d\""];
const BIGINTS: [i64; 8] = [0, 1, 2, 3, -1, 10, 7, 100];
const DOUBLES: [f64; 10] = [0.0, -0.0, 1.5, 0.1, 0.2, -2.25, 1e16, 1e-9, f64::NAN, 1e300];
const CENTS: [i128; 6] = [0, 1, 250, -99, 12_345, 333];

fn duration(us: i64) -> String {
    format!("'{}us'", us)
}

impl Setup {
    /// Everything that follows from the seed.
    pub fn new(seed: u64) -> Setup {
        let mut dice = Dice(seed);
        let carrier = dice.pick(&[Carrier::Trace, Carrier::Trace, Carrier::Files, Carrier::Column]);
        let unit_us = dice.pick(&[1_000, 100_000, 1_000_000, 60_000_000]);
        let arrival = !dice.one_in(4);
        let mut setup = Setup {
            carrier,
            csv: carrier != Carrier::Trace && dice.one_in(3),
            partitions: dice.range(1, 5) as usize,
            arrival,
            bounded: carrier != Carrier::Trace || dice.one_in(2),
            unit_us,
            start_us: dice.pick(&[0, 1_767_225_600_000_000, -864_000_000_001, 1_234_567]),
            spread: dice.pick(&[2, 8, 8, 25]),
            huge: dice.one_in(12),
            sql: String::new(),
        };
        setup.sql = setup.table(&mut dice);
        for view in 0..dice.range(1, 3) {
            let text = setup.view(view, &mut dice);
            setup.sql.push_str(&text);
            setup.sql.push_str(&format!("CREATE SINK s{view} FROM w{view} WITH (connector = 'stdout');\n"));
        }
        setup
    }

    /// Name of a partition.
    pub fn name(partition: usize) -> String {
        ["p0", "p1", "p10", "q"][partition].to_owned()
    }

    fn table(&self, dice: &mut Dice) -> String {
        let units = |n: i64| n * self.unit_us;
        let delay = duration(units(dice.range(0, 9)) + dice.pick(&[0, 0, 1]));
        let watermark = match dice.below(8) {
            0 => format!("CASE WHEN b THEN et - INTERVAL {delay} ELSE NULL END"),
            1 => format!("et - INTERVAL {delay} / v"),
            2 => format!("least(et, coalesce(at, et)) - INTERVAL {delay}"),
            _ => format!("et - INTERVAL {delay}"),
        };
        let mut options = match self.carrier {
            Carrier::Trace => vec!["connector = 'stdin'".to_owned(), "format = 'json'".to_owned()],
            _ => vec!["connector = 'file'".to_owned(), "path = '{path}'".to_owned()],
        };
        if watermark.starts_with("et - ") && !watermark.contains('/') && dice.one_in(2) {
            let span = duration(units(dice.pick(&[4, 16, 50]))).replace('\'', "");
            let bounds = dice.pick(&["", ", floor = 1ms", ", cap = 5s", ", floor = 100ms, cap = 1m"]);
            let policy = match dice.below(4) {
                0 => {
                    format!("quantile({}, span = {span}, min_records = 2{bounds})", dice.pick(&["0.5", "0.9", "100%"]))
                }
                1 => format!("k-slack(decay = {}, span = {span}{bounds})", dice.pick(&["0", "0.5", "1"])),
                _ => {
                    let of = dice.pick(&["count(*)", "sum(v)", "avg(d)", "sum(m)"]);
                    let window = duration(units(5)).replace('\'', "");
                    format!(
                        "aq-k-slack(error = 10%, of = {of}, window = {window}, span = {span}, min_records = 3{bounds})"
                    )
                }
            };
            options.push(format!("watermark_policy = '{policy}'"));
        }
        if self.arrival {
            options.push("arrival_time = 'at'".into());
            let tick_us = units(dice.pick(&[1, 1, 2, 5]));
            options.push(format!("tick = {}", duration(tick_us)));
            let by_partition = dice.one_in(4);
            if by_partition {
                options.push("lateness_scope = 'partition'".into());
            } else if dice.one_in(2) {
                options.push(format!("idle_timeout = {}", duration(tick_us + units(dice.range(0, 6)))));
            }
            if dice.one_in(4) {
                options.push(format!("max_future = {}", duration(units(dice.range(0, 3)))));
            }
        }
        if self.carrier == Carrier::Column {
            options.push("partition = 'p'".into());
            let declared: Vec<String> = (0..self.partitions).filter(|_| !dice.one_in(3)).map(Setup::name).collect();
            if !declared.is_empty() {
                options.push(format!("partitions = '{}'", declared.join(",")));
            }
        }
        let granularity_us = dice.pick(&[1, self.unit_us, self.unit_us, 3 * self.unit_us, 1_000_000]);
        options.push(format!("granularity = {}", duration(granularity_us)));
        if dice.one_in(5) {
            options.push("late_records = 'drop'".into());
        }
        format!(
            "CREATE TABLE t (p TEXT, et TIMESTAMP, at TIMESTAMP, k TEXT, j BIGINT, d DOUBLE, v BIGINT, m DECIMAL(9,2), \
             b BOOLEAN, WATERMARK FOR et AS {watermark}) WITH ({});\n",
            options.join(", ")
        )
    }

    fn view(&self, number: i64, dice: &mut Dice) -> String {
        let units = |n: i64| n * self.unit_us;
        let filters =
            ["b", "v > 0", "k <> 'b'", "10 / v > 2", "b IS NOT FALSE", "d < 5 OR v IS NULL", "j IN (1, 2, 3)"];
        let filter = if dice.one_in(2) { format!("WHERE {}", dice.pick(&filters)) } else { String::new() };
        if dice.one_in(10) {
            return format!(
                "CREATE MATERIALIZED VIEW w{number} AS SELECT k, v * 2 AS w, 100 / j AS x FROM t {filter};\n"
            );
        }
        let size = dice.range(1, 13);
        let slide = dice.range(1, size + 1);
        let odd = if dice.one_in(4) { dice.range(0, self.unit_us) } else { 0 };
        let (size_us, slide_us) = (units(size) + odd, units(slide));
        let window = match dice.below(3) {
            0 => format!("TUMBLE(t, et, INTERVAL {})", duration(size_us)),
            _ => format!("HOP(t, et, INTERVAL {}, INTERVAL {})", duration(slide_us), duration(size_us)),
        };
        let mut options = Vec::new();
        match dice.below(6) {
            0 => {}
            1 => options.push("horizon = '0'".to_owned()),
            2 => options.push("horizon = '99999999 days'".to_owned()),
            _ => options.push(format!("horizon = {}", duration(units(dice.range(0, 20))))),
        }
        if dice.one_in(3) {
            options.push(format!("offset = {}", duration(dice.range(-20, 20) * self.unit_us / 2 + dice.range(0, 3))));
        }
        let with = if options.is_empty() { String::new() } else { format!("WITH ({})", options.join(", ")) };
        let keys = ["k", "j", "d", "b", "m", "v % 3", "coalesce(k, '?')", "10 / j", "lower(k)", "d * 2"];
        let group: Vec<&str> = (0..dice.below(3)).map(|_| dice.pick(&keys)).collect();
        let mut select: Vec<String> = group.iter().enumerate().map(|(i, key)| format!("{key} AS g{i}")).collect();
        select.extend((0..dice.range(1, 5)).map(|i| format!("{} AS a{i}", Setup::aggregate(dice))));
        let having = ["count(*) > 1", "count(*) <> 2", "sum(v) <> 3", "max(v) IS NOT NULL", "a0 IS NOT NULL"];
        let having = if dice.one_in(4) { format!("HAVING {}", dice.pick(&having)) } else { String::new() };
        let mut by = vec!["window_start"];
        by.extend(group);
        format!(
            "CREATE MATERIALIZED VIEW w{number} {with} AS SELECT {} FROM {window} {filter} GROUP BY {} {having};\n",
            select.join(", "),
            by.join(", ")
        )
    }

    fn aggregate(dice: &mut Dice) -> String {
        let calls = [
            "count(*)",
            "count(v)",
            "count(DISTINCT k)",
            "count(DISTINCT d)",
            "sum(v)",
            "sum(d)",
            "sum(m)",
            "avg(v)",
            "avg(d)",
            "avg(m)",
            "min(k)",
            "max(d)",
            "min(v)",
            "max(m)",
            "array_agg(v)",
            "array_agg(k)",
            "first_value(k)",
            "last_value(v)",
            "last_value(d)",
            "stddev_samp(d)",
            "var_pop(v)",
            "bool_and(b)",
            "bool_or(b)",
            "approx_count_distinct(k)",
            "approx_percentile(d, 0.5)",
            "sum(100 / v)",
            "min(et)",
            "sum(v) FILTER (WHERE b)",
            "count(*) FILTER (WHERE v > 1)",
            "max(k) FILTER (WHERE d > 0.15)",
            "sum(v) + 1",
            "sum(v) / (count(v) - 1)",
            "round(avg(m), 2)",
            "sum(m) / nullif(count(m), 0)",
            "CASE WHEN count(*) > 2 THEN 'many' ELSE 'few' END",
        ];
        dice.pick(&calls).to_owned()
    }
}

/// A record in the making.
#[derive(Clone, Debug)]
struct Record {
    partition: usize,
    row: Vec<Value>,
    /// A field of a file that is not what its column says: its index and what stands there instead.
    misfit: Option<(usize, &'static str)>,
    /// The line is broken.
    broken: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Record(Box<Record>),
    End(usize),
    Clock(i64),
}

/// What the stamper is told, in reading order.
#[derive(Clone, Debug)]
pub enum Told {
    Row(Box<TraceRow>),
    End(String),
    Clock(i64),
}

/// A stream laid out: the program bound, the source ready, and what it holds in reading order.
pub struct Stream {
    pub setup: Setup,
    pub program: Arc<Program>,
    /// Names of the partitions known from the start.
    pub known: Vec<String>,
    pub told: Vec<Told>,
    steps: Vec<Step>,
    /// Keeps the files.
    directory: tempfile::TempDir,
}

const COLUMNS: [&str; 9] = ["p", "et", "at", "k", "j", "d", "v", "m", "b"];

impl Stream {
    /// Lays a stream out.
    pub fn new(seed: u64, raw: &[Raw]) -> Stream {
        let setup = Setup::new(seed);
        let directory = tempfile::tempdir().expect("a directory");
        let suffix = if setup.csv { "csv" } else { "ndjson" };
        let path = directory.path().join(format!("*.{suffix}")).display().to_string();
        let program = sql::plan("random.sql", &setup.sql.replace("{path}", &path), &BareSelectDefaults::default());
        let program = program.unwrap_or_else(|e| panic!("{e}\n{}\n{}", e.detail().unwrap_or_default(), setup.sql));
        let steps = steps(&setup, raw);
        let mut stream = Stream {
            known: program.tables[0].partitions.clone(),
            program: Arc::new(program),
            told: Vec::new(),
            steps,
            directory,
            setup,
        };
        match stream.setup.carrier {
            Carrier::Trace => stream.lay_trace(),
            Carrier::Files => stream.write_files(suffix),
            Carrier::Column => stream.write_trace(suffix),
        }
        stream.apply_policy();
        stream
    }

    /// Puts the watermarks of the table's policy into what is told.
    pub fn apply_policy(&mut self) {
        let row = |told: &Told| if let Told::Row(row) = told { Some((**row).clone()) } else { None };
        let mut rows: Vec<TraceRow> = self.told.iter().filter_map(row).collect();
        apply_policy(self.table(), &mut rows);
        let mut rows = rows.into_iter();
        for told in &mut self.told {
            if let Told::Row(row) = told {
                **row = rows.next().expect("as many");
            }
        }
    }

    /// The table.
    pub fn table(&self) -> &TablePlan {
        &self.program.tables[0]
    }

    /// The source, for a table that may have other settings; `block` is a number of rows or bytes.
    pub fn source(&self, table: &TablePlan, block: usize, workers: usize) -> Result<Arc<dyn Source>> {
        if self.setup.carrier == Carrier::Trace {
            let item = |step: &Step| match step {
                Step::Record(r) => TraceItem::Record { partition: r.partition, values: r.row.clone() },
                Step::End(partition) => TraceItem::End { partition: *partition },
                Step::Clock(arrived_us) => TraceItem::Clock { arrived_us: *arrived_us },
            };
            let items: Vec<TraceItem> = self.steps.iter().map(item).collect();
            return Ok(TraceSource::new(table, &self.known, &items, self.setup.bounded, block % 7 + 1).into());
        }
        let wanted = slackwater::engine::ingest::wanted_columns(&self.program, 0);
        slackwater::source::open(table, &wanted, &SourceOptions { block_bytes: block * 7 + 1, workers })
    }

    fn lay_trace(&mut self) {
        self.known = (0..self.setup.partitions).map(Setup::name).collect();
        let mut positions = vec![0; self.setup.partitions];
        // In the order of the lanes' clocks, in which a replay is merged.
        let mut clocks_us = vec![BEFORE_ALL; self.setup.partitions];
        let mut greatest_us = BEFORE_ALL;
        let mut told: Vec<(i64, Told)> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Record(r) => {
                    positions[r.partition] += 1;
                    let row = trace_row(self.table(), r, self.known[r.partition].clone(), positions[r.partition]);
                    if let Value::Timestamp(at) = r.row[2] {
                        clocks_us[r.partition] = clocks_us[r.partition].max(at);
                        greatest_us = greatest_us.max(at);
                    }
                    told.push((clocks_us[r.partition], Told::Row(Box::new(row))));
                }
                Step::End(p) => told.push((greatest_us, Told::End(self.known[*p].clone()))),
                Step::Clock(us) => {
                    greatest_us = greatest_us.max(*us);
                    clocks_us.iter_mut().for_each(|c| *c = (*c).max(*us));
                    told.push((*us, Told::Clock(*us)));
                }
            }
        }
        if self.setup.arrival {
            told.sort_by_key(|(clock_us, _)| *clock_us);
        }
        self.told = told.into_iter().map(|(_, told)| told).collect();
    }

    fn write_files(&mut self, suffix: &str) {
        let mut lanes = Vec::new();
        for p in 0..self.setup.partitions {
            let path = self.directory.path().join(format!("{}.{suffix}", Setup::name(p)));
            let name = path.display().to_string();
            let mut text = self.header();
            let mut rows = Vec::new();
            let mut line = u64::from(self.setup.csv);
            for r in self.records().filter(|r| r.partition == p) {
                line += 1;
                text.push_str(&self.line(r));
                rows.push(trace_row(self.table(), r, name.clone(), line));
            }
            std::fs::write(&path, text).expect("a file");
            self.known.push(name);
            lanes.push(rows);
        }
        let rows = if self.setup.arrival { merge_by_arrival(lanes) } else { lanes.concat() };
        // A file ends with its last record, an empty one before anything is read.
        let mut told: Vec<Told> = Vec::new();
        for name in &self.known {
            if !rows.iter().any(|row| row.partition.as_ref() == Some(name)) {
                told.push(Told::End(name.clone()));
            }
        }
        for (index, row) in rows.iter().enumerate() {
            told.push(Told::Row(Box::new(row.clone())));
            if !rows[index + 1..].iter().any(|later| later.partition == row.partition) {
                told.push(Told::End(row.partition.clone().expect("a file")));
            }
        }
        self.told = told;
    }

    fn write_trace(&mut self, suffix: &str) {
        let records: Vec<&Record> = self.records().collect();
        let (files, mut line) = (1 + records.len() / 25, 0);
        let mut told = Vec::new();
        for (number, part) in records.chunks(records.len().div_ceil(files).max(1)).enumerate() {
            let mut text = self.header();
            line += u64::from(self.setup.csv);
            for r in part {
                line += 1;
                text.push_str(&self.line(r));
                let mut row = trace_row(self.table(), r, String::new(), line);
                row.partition = match &r.row[0] {
                    Value::Text(name) if !r.broken => Some(name.to_string()),
                    _ => None,
                };
                // The partition is looked for before the future is.
                let reason = row.reject.as_ref().map(|(reason, _)| *reason);
                if row.partition.is_none() && matches!(reason, None | Some(RejectReason::Future)) {
                    row.reject = Some((RejectReason::Partition, String::new()));
                }
                told.push(Told::Row(Box::new(row)));
            }
            std::fs::write(self.directory.path().join(format!("{number:03}.{suffix}")), text).expect("a file");
        }
        if records.is_empty() {
            std::fs::write(self.directory.path().join(format!("000.{suffix}")), self.header()).expect("a file");
        }
        self.told = told;
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.steps.iter().filter_map(|step| if let Step::Record(r) = step { Some(&**r) } else { None })
    }

    fn header(&self) -> String {
        if self.setup.csv { format!("{}\n", COLUMNS.join(",")) } else { String::new() }
    }

    fn line(&self, r: &Record) -> String {
        let mut fields: Vec<String> = r.row.iter().map(|v| if self.setup.csv { csv(v) } else { json(v) }).collect();
        if let Some((column, text)) = r.misfit {
            fields[column] = if self.setup.csv { text.to_owned() } else { format!("\"{text}\"") };
        }
        if self.setup.csv {
            // A field is missing.
            let fields = if r.broken { &fields[1..] } else { &fields[..] };
            return format!("{}\n", fields.join(","));
        }
        let named: Vec<String> = COLUMNS.iter().zip(fields).map(|(name, v)| format!("\"{name}\":{v}")).collect();
        format!("{{{}{}\n", named.join(","), if r.broken { "" } else { "}" })
    }
}

fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Double(x) if !x.is_finite() => format!("\"{x}\""),
        Value::Double(x) => format!("{x:?}"),
        Value::Text(text) => serde_json::to_string(&**text).expect("a text"),
        other => plain(other, true),
    }
}

fn csv(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        other => plain(other, false),
    }
}

fn plain(value: &Value, quoted: bool) -> String {
    match value {
        Value::Boolean(b) => b.to_string(),
        Value::BigInt(n) => n.to_string(),
        Value::Double(x) => format!("{x:?}"),
        Value::Decimal(n, _) => {
            format!("{}{}.{:02}", if *n < 0 { "-" } else { "" }, n.unsigned_abs() / 100, n.unsigned_abs() % 100)
        }
        Value::Timestamp(us) => {
            let mut text = String::new();
            format_timestamp(*us, &mut text);
            if quoted { format!("\"{text}\"") } else { text }
        }
        other => panic!("no column holds {other:?}"),
    }
}

/// A record as verification reads it.
fn trace_row(table: &TablePlan, r: &Record, partition: String, position: u64) -> TraceRow {
    let mut row = r.row.clone();
    let mut value_errors = Vec::new();
    let mut flawed = None;
    if let Some((column, text)) = r.misfit {
        row[column] = Value::Null;
        flawed = Some(column);
        // A text is at home in TEXT.
        if column > 2 {
            value_errors.push((column, text.to_owned()));
        }
    }
    let time = |value: &Value| if let Value::Timestamp(us) = value { Some(*us) } else { None };
    let (event, arrived) = (time(&row[1]), time(&row[2]));
    let has_arrival = table.arrival_time.is_some();
    if !has_arrival && flawed == Some(2) {
        value_errors.push((2, String::new()));
    }
    let reason = if r.broken {
        Some(RejectReason::Syntax)
    } else if event.is_none() {
        Some(RejectReason::EventTime)
    } else if has_arrival && arrived.is_none() {
        Some(RejectReason::ArrivalTime)
    } else {
        match (event, arrived.filter(|_| has_arrival), table.max_future_us) {
            (Some(event), Some(arrived), Some(max)) if event - arrived > max => Some(RejectReason::Future),
            _ => None,
        }
    };
    let watermark_us = event.map_or(BEFORE_ALL, |et| watermark_of(table, et, &row));
    TraceRow {
        partition: Some(partition),
        position,
        event_time_us: event,
        watermark_us,
        arrived_us: arrived.filter(|_| has_arrival && !r.broken),
        row,
        value_errors,
        reject: reason.map(|reason| (reason, String::new())),
    }
}

/// Turns numbers into records, ends of partitions and spells of silence.
fn steps(setup: &Setup, raw: &[Raw]) -> Vec<Step> {
    let in_memory = setup.carrier == Carrier::Trace;
    let mut clock_us = setup.start_us;
    let mut ended = vec![false; setup.partitions];
    let mut steps = Vec::new();
    for &[kind, partition, wait, lag, key, value, other, flaw] in raw {
        let p = usize::from(partition) % setup.partitions;
        let wait = i64::from(wait);
        // Mostly a fraction of a unit; now and then a spell of silence.
        clock_us += if wait > 245 { (wait - 240) * setup.unit_us * 4 } else { wait % 8 * setup.unit_us / 5 };
        if in_memory && kind > 250 && setup.arrival {
            steps.push(Step::Clock(clock_us));
            continue;
        }
        if in_memory && kind == 250 {
            if !std::mem::replace(&mut ended[p], true) {
                steps.push(Step::End(p));
            }
            continue;
        }
        if !ended[p] {
            steps.push(Step::Record(Box::new(record(setup, p, clock_us, (lag, key, value, other, flaw)))));
        }
    }
    steps
}

fn record(
    setup: &Setup,
    partition: usize,
    clock_us: i64,
    (lag, key, value, other, flaw): (u8, u8, u8, u8, u8),
) -> Record {
    let mut dice = Dice(u64::from_be_bytes([lag, key, value, other, flaw, 1, 2, 3]));
    let lag_us = i64::from(lag % 64) * setup.spread * setup.unit_us / 48;
    // Some events lie in the future, and some arrivals are written out of order.
    let event_us = if lag >= 232 { clock_us + lag_us / 4 } else { clock_us - lag_us };
    let event_us = if flaw % 2 == 0 { event_us.div_euclid(setup.unit_us) * setup.unit_us } else { event_us };
    let arrived_us = if flaw % 11 == 0 { clock_us - lag_us } else { clock_us };
    let nullable = |byte: u8, value: Value| if byte % 9 == 8 { Value::Null } else { value };
    let pick = |n: usize, byte: u8| usize::from(byte) % n;
    let mut v = BIGINTS[pick(8, value)];
    if setup.huge && value > 200 {
        v = if value % 2 == 0 { i64::MAX } else { i64::MAX / 2 };
    }
    let mut row = vec![
        Value::Text(Setup::name(partition).into()),
        Value::Timestamp(event_us),
        Value::Timestamp(arrived_us),
        nullable(key, Value::Text(TEXTS[pick(5, key)].into())),
        nullable(key / 2, Value::BigInt(BIGINTS[pick(5, key / 3)])),
        nullable(other, Value::Double(DOUBLES[pick(if setup.huge { 10 } else { 9 }, other)])),
        nullable(value, Value::BigInt(v)),
        nullable(other / 3, Value::Decimal(CENTS[pick(6, other)], 2)),
        nullable(other / 5, Value::Boolean(other % 2 == 0)),
    ];
    let mut misfit = None;
    let mut broken = false;
    match flaw {
        240 => row[1] = Value::Null,
        241 => row[2] = Value::Null,
        242 if setup.carrier == Carrier::Column => row[0] = Value::Null,
        243 | 244 if setup.carrier != Carrier::Trace => broken = true,
        245.. if setup.carrier != Carrier::Trace => misfit = Some((dice.pick(&[1, 2, 4, 5, 6, 7, 8]), "no such value")),
        _ => {}
    }
    Record { partition, row, misfit, broken }
}

/// The stream in words, for a failing test.
impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}", Setup { sql: String::new(), ..self.setup.clone() })?;
        f.write_str(&self.setup.sql)?;
        let (start_us, mut text) = (self.setup.start_us, String::new());
        let since = |us: i64| format_duration(us - start_us);
        for told in &self.told {
            match told {
                Told::Row(row) => {
                    let (event, arrived) = (row.event_time_us.map(since), row.arrived_us.map(since));
                    let name = row.partition.as_deref().unwrap_or("?").rsplit('/').next().unwrap_or_default();
                    let (reject, values) = (row.reject.as_ref().map(|(reason, _)| *reason), &row.row[3..]);
                    writeln!(text, "{name}:{} et {event:?} at {arrived:?} {values:?} {reject:?}", row.position)?;
                }
                Told::End(name) => writeln!(text, "{name} ends")?,
                Told::Clock(us) => writeln!(text, "clock {}", since(*us))?,
            }
        }
        f.write_str(&text)
    }
}
