//! Arrival traces: of each record when it happened, when it arrived and in which partition, a hash of its key, whether the view
//! takes it, and nothing else. Small enough to share, and with the program that comes along the lab finds in it what it
//! finds in the input itself.
//!
//! A trace is a table like any other: CSV, one file for each lane of the source (a file is a partition, or a column names
//! it), times in microseconds. Every record has a line, in its order, since every one moves the watermark: `kept` is `false` for
//! those that `WHERE` removes or whose values do not fit, and a reject of the table has no event time, so that it is one of the
//! trace as well (its arrival still moves the arrival clock).
//!
//! Keys are HMAC-SHA-256 of the engine's own 64-bit hash of the group, cut to 63 bits: without the salt nobody can try
//! out keys. Two of n keys fall together with a probability of about n² / 2⁶⁴. Cost: about a microsecond a record.

use super::plan::find;
use crate::engine::ingest::ViewIngest;
use crate::error::{Error, Result};
use crate::plan::{LateRecords, LatenessScope, Program, TablePlan, ViewKind, ViewPlan, WindowPlan, WindowedPlan};
use crate::source::DecodedBlock;
use crate::time::format_duration;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use std::sync::Arc;

/// What is traced: one table, as one view sees it.
#[derive(Clone, Debug)]
pub struct TracePlan {
    /// The table and the view, nothing that is written.
    pub program: Arc<Program>,
    mac: Hmac<Sha256>,
    keyed: bool,
}

impl TracePlan {
    /// Of the view with this name, or of the only one with windows. The salt decides the hashes of keys.
    ///
    /// # Errors
    /// When there is no such view, it has no windows, or its table has no watermark.
    pub fn new(program: &Program, view: Option<&str>, salt: &[u8]) -> Result<TracePlan> {
        let view = find(program, view)?;
        let ViewKind::Windowed(windowed) = &view.kind else {
            return Err(Error::usage("the view has no windows, so no record of it is ever late")
                .with_hint("a trace is of a view with TUMBLE or HOP"));
        };
        let keyed = !windowed.group.is_empty();
        let table = program.tables.get(view.table).filter(|table| table.event_time.is_some()).ok_or_else(|| {
            Error::usage("the view's table has no watermark, so no record of it is ever late")
                .with_hint("declare WATERMARK FOR event_time AS event_time - INTERVAL '10 seconds'")
        })?;
        let view = ViewPlan { table: 0, ..view.clone() };
        let program = Program { tables: vec![table.clone()], views: vec![view], sinks: Vec::new(), ..program.clone() };
        let mac = Hmac::<Sha256>::new_from_slice(salt)
            .map_err(|_| Error::usage("--salt: expected a text that can be a key"))?;
        Ok(TracePlan { program: Arc::new(program), mac, keyed })
    }

    fn parts(&self) -> Option<(&TablePlan, &ViewPlan, &WindowedPlan)> {
        let (table, view) = (self.program.tables.first()?, self.program.views.first()?);
        match &view.kind {
            ViewKind::Windowed(windowed) => Some((table, view, windowed)),
            ViewKind::PassThrough(_) => None,
        }
    }

    /// Writes lines, from a lane's first block on.
    pub fn writer(&self) -> Option<TraceWriter<'_>> {
        let (table, view, _) = self.parts()?;
        let ingest = ViewIngest::new(view, table);
        Some(TraceWriter { plan: self, ingest, arrival: table.arrival_time.is_some(), part: table.partition.is_some() })
    }

    /// The first line of each file.
    pub fn head(&self) -> String {
        let columns: Vec<&str> = self.columns().into_iter().map(|(name, _)| name).collect();
        columns.join(",") + "\n"
    }

    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let mut columns = vec![("event_time", "TIMESTAMP")];
        if let Some((table, _, _)) = self.parts() {
            columns.extend(table.arrival_time.map(|_| ("arrival_time", "TIMESTAMP")));
            columns.extend(table.partition.map(|_| ("part", "TEXT")));
        }
        columns.push(("kept", "BOOLEAN"));
        columns.extend(self.keyed.then_some(("key", "BIGINT")));
        columns
    }

    /// The program that reads the trace from `path` (a glob).
    pub fn sql(&self, path: &str) -> String {
        let Some((table, view, windowed)) = self.parts() else { return String::new() };
        let mut out = String::from(
            "-- An arrival trace: when events happened and arrived. Keys are hashed, values are left out.\n\
             -- slackwater lateness trace.sql --delays … reads it; the path is as seen from where that is called.\n",
        );
        let columns: Vec<String> = self.columns().iter().map(|(name, dtype)| format!("{name} {dtype}")).collect();
        let delay = format_duration(table.delay_us.unwrap_or(0));
        let _ = writeln!(out, "CREATE TABLE trace (\n  {},", columns.join(", "));
        let note = if table.delay_us.is_some() { "" } else { " -- the table's own is no fixed delay" };
        let _ = writeln!(out, "  WATERMARK FOR event_time AS event_time - INTERVAL '{delay}'{note}");
        let _ = writeln!(out, ") WITH (\n  {}\n);", options(table, path).join(",\n  "));
        let with = view_options(view, windowed.window);
        let with = if with.is_empty() { String::new() } else { format!(" WITH ({})", with.join(", ")) };
        let key = if self.keyed { "key, " } else { "" };
        let _ = writeln!(out, "CREATE MATERIALIZED VIEW traced{with} AS");
        let _ = writeln!(out, "SELECT {key}window_start, window_end, count(*) AS records");
        let _ = writeln!(out, "FROM {}", windows(windowed.window));
        let _ = writeln!(out, "WHERE kept\nGROUP BY {key}window_start, window_end;");
        out
    }
}

/// A text as SQL writes it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn options(table: &TablePlan, path: &str) -> Vec<String> {
    let duration = |name: &str, us: i64| format!("{name} = '{}'", format_duration(us));
    let mut out = vec![format!("connector = 'file', path = {}, time_unit = 'us'", literal(path))];
    if table.arrival_time.is_some() {
        out.push("arrival_time = 'arrival_time'".to_owned());
        out.push(duration("tick", table.tick_us));
        out.extend(table.idle_timeout_us.map(|us| duration("idle_timeout", us)));
        let scope = match table.scope {
            LatenessScope::Source => "source",
            LatenessScope::Partition => "partition",
        };
        out.push(format!("lateness_scope = '{scope}'"));
    }
    if table.partition.is_some() {
        out.push("partition = 'part'".to_owned());
        if !table.partitions.is_empty() {
            out.push(format!("partitions = {}", literal(&table.partitions.join(","))));
        }
    }
    out.push(duration("granularity", table.granularity_us));
    out.extend((table.late_records == LateRecords::Drop).then(|| "late_records = 'drop'".to_owned()));
    out
}

fn view_options(view: &ViewPlan, window: WindowPlan) -> Vec<String> {
    let duration = |name: &str, us: i64| format!("{name} = '{}'", format_duration(us));
    let mut out = Vec::new();
    out.extend(view.horizon_us.map(|us| duration("horizon", us)));
    out.extend((window.offset_us != 0).then(|| duration("offset", window.offset_us)));
    out
}

fn windows(window: WindowPlan) -> String {
    let interval = |us: i64| format!("INTERVAL '{}'", format_duration(us));
    if window.slide_us == window.size_us {
        format!("TUMBLE(trace, event_time, {})", interval(window.size_us))
    } else {
        format!("HOP(trace, event_time, {}, {})", interval(window.slide_us), interval(window.size_us))
    }
}

/// Writes blocks as lines of a trace.
#[derive(Clone, Debug)]
pub struct TraceWriter<'a> {
    plan: &'a TracePlan,
    ingest: ViewIngest,
    arrival: bool,
    part: bool,
}

impl TraceWriter<'_> {
    /// Appends the lines of a block.
    pub fn block(&self, block: &DecodedBlock, out: &mut String) {
        let mut kept = self.ingest.groups(block).into_iter().peekable();
        let mut rejects = block.rejects.iter().peekable();
        for row in 0..block.rows {
            while let Some(reject) = rejects.next_if(|reject| reject.rows_before as usize <= row) {
                self.line(out, (None, reject.arrived_us, self.name(block, reject.partition)), None);
            }
            let at = |times: &Vec<i64>| times.get(row).copied();
            let event = at(&block.event_time_us);
            let part = block.partition.as_ref().and_then(|parts| parts.get(row)).copied();
            let hash = kept.next_if(|(kept, _)| *kept as usize == row).map(|(_, hash)| hash);
            self.line(out, (event, block.arrived_us.as_ref().and_then(at), self.name(block, part)), hash);
        }
        for reject in rejects {
            self.line(out, (None, reject.arrived_us, self.name(block, reject.partition)), None);
        }
    }

    fn name<'b>(&self, block: &'b DecodedBlock, part: Option<u32>) -> &'b str {
        part.and_then(|part| block.partition_names.get(part as usize)).map_or("", String::as_str)
    }

    fn line(&self, out: &mut String, (event, arrived, part): (Option<i64>, Option<i64>, &str), hash: Option<u64>) {
        let mut digits = itoa::Buffer::new();
        event.into_iter().for_each(|us| out.push_str(digits.format(us)));
        if self.arrival {
            out.push(',');
            arrived.into_iter().for_each(|us| out.push_str(digits.format(us)));
        }
        if self.part {
            out.push(',');
            push_field(part, out);
        }
        out.push_str(if hash.is_some() { ",true" } else { ",false" });
        if self.plan.keyed {
            out.push(',');
            hash.into_iter().for_each(|hash| out.push_str(digits.format(self.key(hash))));
        }
        out.push('\n');
    }

    fn key(&self, hash: u64) -> i64 {
        let mut mac = self.plan.mac.clone();
        mac.update(&hash.to_le_bytes());
        let bytes = mac.finalize().into_bytes();
        let word = bytes.iter().take(8).fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        (word >> 1) as i64
    }
}

/// A CSV field; the empty text is quoted, since without quotes it is NULL.
fn push_field(text: &str, out: &mut String) {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        out.push('"');
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(text);
    }
}
