//! The open loop: records arrive by a schedule that waits for nobody.
//!
//! The whole input is held in memory as text, and so is the whole answer until the run has ended: nothing is computed
//! while it goes on but whose turn it is. One thread writes what is due, another stamps what is read. Both take time of the
//! processors that the program would like to have, and a write can come late because of that; how late writes were is
//! reported beside the latencies, which begin at the scheduled moments all the same.

use super::child::{Running, Stop, now, own_cpu_s};
use super::closed::{Held, Job, arguments, read_summary, write_program};
use super::inputs::{self, Digested, folder};
use super::{Asked, Session};
use crate::aggregate::number_at;
use crate::bench::changes::{self, Kind};
use crate::bench::definition::{Answer, Definition, Feed, Sink};
use crate::bench::moments::{Follower, Moments};
use crate::bench::report::{Answered, Crew, Known, Open, OpenRun, Rates};
use crate::bench::schedule::Schedule;
use crate::bench::search::Search;
use crate::bench::stats::Latencies;
use crate::engine::ingest::watermark_columns;
use crate::error::{Error, Result};
use crate::plan::TablePlan;
use crate::sink::file::{PipeWait, TargetFile};
use crate::source::{self, DecodedBlock, Next, SourceOptions, Turns};
use crate::types::Value;
use crate::verify::watermark_of;
use crate::watermark::policy::Policies;
use std::collections::BTreeSet;
use std::io::{Cursor, ErrorKind, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing is slept for less: waking up costs more than it brings.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// And not more, so that Ctrl-C is heard.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Bytes of the answer that lie together.
const SEGMENT_BYTES: usize = 1 << 20;

/// An input in memory, and which of its lines makes what due.
pub(super) struct Prepared {
    rows: u64,
    text: Arc<[u8]>,
    /// End of each line.
    ends: Vec<usize>,
    moments: Moments,
    records: u64,
}

impl Prepared {
    /// The definition's input with so many records, followed with the program's own decoder.
    fn new(definition: &Definition, rows: u64) -> Result<Prepared> {
        let text = inputs::text(definition, rows)?;
        let program = definition.program(&Feed::Stdin, &Sink::Stdout)?;
        let table = program.tables.first().ok_or_else(|| Error::usage("the SQL has no table"))?;
        let text: Arc<[u8]> = text.into();
        let mut ends: Vec<usize> = memchr::memchr_iter(b'\n', &text).map(|at| at + 1).collect();
        if ends.last().copied().unwrap_or(0) < text.len() {
            ends.push(text.len());
        }
        let (moments, records) = follow(table, &text)?;
        Ok(Prepared { rows, text, ends, moments, records })
    }

    /// Lines of the input.
    fn lines(&self) -> u64 {
        self.ends.len() as u64
    }

    /// By how much event time runs faster than the schedule.
    fn speed(&self, rate: f64) -> Option<f64> {
        let (event_us, first, last) = self.moments.travelled()?;
        (last > first).then(|| event_us as f64 / 1e6 / ((last - first) as f64 / rate))
    }

    /// The bytes of the lines `from..to`.
    fn bytes(&self, from: u64, to: u64) -> &[u8] {
        let end = |lines: u64| match usize::try_from(lines) {
            Ok(0) | Err(_) => 0,
            Ok(lines) => self.ends.get(lines - 1).copied().unwrap_or(self.text.len()),
        };
        self.text.get(end(from)..end(to)).unwrap_or_default()
    }
}

/// Follows the frontier along an input; gives also the number of records.
fn follow(table: &TablePlan, text: &Arc<[u8]>) -> Result<(Moments, u64)> {
    let crate::plan::SourcePlan::Stdin { format } = &table.source else {
        return Err(Error::usage("the table does not read standard input"));
    };
    let mut wanted = BTreeSet::new();
    watermark_columns(table, &mut wanted);
    let input = Box::new(Cursor::new(Arc::clone(text)));
    let source = source::open_reader(table, format, input, &wanted, &SourceOptions::default())?;
    let mut reader = source.open(0, Turns::all());
    let mut follower = Follower::new(table);
    let mut policies = table.policy.as_ref().map(|policy| Policies::new(&policy.plan, table.delay_us.unwrap_or(0)));
    let (mut line, mut records) = (0, 0);
    loop {
        match reader.next_block()? {
            Next::End => return Ok((follower.finish(), records)),
            Next::Pending => std::thread::sleep(Duration::from_millis(1)),
            Next::Block(block) => {
                follow_block(table, policies.as_mut(), &block, line, &mut follower);
                line += block.lines;
                records += (block.rows + block.rejects.len()) as u64;
            }
        }
    }
}

fn follow_block(
    table: &TablePlan,
    mut policies: Option<&mut Policies>,
    block: &DecodedBlock,
    first_line: u64,
    follower: &mut Follower,
) {
    let mut rejects = block.rejects.iter().peekable();
    for row in 0..=block.rows {
        while let Some(reject) = rejects.next_if(|r| r.rows_before as usize <= row) {
            follower.reject(first_line + u64::from(reject.line), reject.arrived_us);
        }
        let Some(event_time_us) = block.event_time_us.get(row).copied() else { continue };
        let partition = block.partition.as_ref().and_then(|p| p.get(row)).map(|p| *p as usize);
        let partition = partition.and_then(|p| block.partition_names.get(p)).map(String::as_str);
        let by_policy = policies.as_mut().map(|policies| {
            let column = table.policy.as_ref().and_then(|policy| policy.column);
            let column = column.and_then(|at| block.columns.get(at)).and_then(Option::as_ref);
            let value = column.and_then(|column| number_at(column, row));
            policies.record(partition.unwrap_or_default(), event_time_us, value)
        });
        let watermark_us = by_policy.unwrap_or_else(|| match table.delay_us {
            Some(delay_us) => event_time_us.saturating_sub(delay_us),
            None => {
                let value = |c: &Option<crate::types::Column>| c.as_ref().map_or(Value::Null, |c| c.value(row));
                let values: Vec<Value> = block.columns.iter().map(value).collect();
                watermark_of(table, event_time_us, &values)
            }
        });
        let arrived_us = block.arrived_us.as_ref().and_then(|a| a.get(row)).copied();
        let line = first_line + u64::from(block.line.get(row).copied().unwrap_or(0));
        follower.record(line, partition, watermark_us, arrived_us);
    }
}

/// What was read of the answer: the bytes, and by when how many of them.
struct Heard {
    bytes: Vec<u8>,
    reads: Vec<(usize, Instant)>,
}

/// What is counted of the answers of some runs.
#[derive(Default)]
struct Counted {
    first: Latencies,
    corrections: Latencies,
    written_late: Latencies,
}

impl Counted {
    fn merge(&mut self, other: &Counted) {
        self.first.merge(&other.first);
        self.corrections.merge(&other.corrections);
        self.written_late.merge(&other.written_late);
    }
}

/// The input of a definition for a rate; `old` if it is the same.
pub(super) fn prepare(
    session: &Session,
    definition: &Definition,
    asked: &Asked,
    rate: f64,
    old: Option<Prepared>,
) -> Result<Prepared> {
    let rows = asked.rows.unwrap_or(((rate * asked.seconds).ceil() as u64).max(1));
    definition.check_rows(rows)?;
    if let Some(old) = old.filter(|old| old.rows == rows) {
        return Ok(old);
    }
    session.note(&format!("{}: making the input", definition.name));
    Prepared::new(definition, rows)
}

/// All runs of a crew at a rate.
pub(super) fn measure(
    session: &Session,
    definition: &Definition,
    asked: &Asked,
    input: &Prepared,
    (crew, rate): (Crew, f64),
) -> Result<Open> {
    let output = Answer::Changelog;
    let mut held = Held::default();
    let known = if definition.expected(input.records).is_some() {
        Known::Beforehand
    } else {
        session.note(&format!("{}: the answer from a file", definition.name));
        held.to(definition, input.records, output, &from_file(session, definition, input)?)?;
        Known::File
    };
    let mut counted = Counted::default();
    let mut runs = Vec::new();
    for turn in 0..asked.repeats {
        session.note(&format!("{}: open loop, {crew}, {rate} a second, run {}", definition.name, turn + 1));
        let (run, digest) = run(session, definition, input, (crew, rate, asked.warm_up), &mut counted)?;
        held.to(definition, input.records, output, &digest)?;
        runs.push(run);
    }
    if let Some(folder) = &asked.hgrm {
        let name = format!("{}-{}x{}-{rate}", definition.name, crew.threads, crew.processes);
        write_hgrm(&folder.join(format!("{name}-first.hgrm")), &counted.first)?;
        write_hgrm(&folder.join(format!("{name}-corrections.hgrm")), &counted.corrections)?;
    }
    Ok(Open {
        crew,
        rate,
        records: input.records,
        seconds: input.lines() as f64 / rate,
        warm_up_s: asked.warm_up.as_secs_f64(),
        event_time_speed: input.speed(rate),
        answer: Answered { known, ..held.answered(definition, input.records, output) },
        first: counted.first.quantiles(),
        corrections: counted.corrections.quantiles(),
        written_late: counted.written_late.quantiles(),
        runs,
    })
}

/// Searches for the highest rate that a crew sustains.
pub(super) fn search(
    session: &Session,
    definition: &Definition,
    asked: &Asked,
    crew: Crew,
    mut search: Search,
) -> Result<Rates> {
    let mut tried = Vec::new();
    let mut input = None;
    while let Some(rate) = search.next_rate() {
        let prepared = prepare(session, definition, asked, rate, input.take())?;
        let open = measure(session, definition, asked, &prepared, (crew, rate))?;
        input = Some(prepared);
        if open.first.count == 0 {
            let message =
                format!("{}: at {rate} records a second no window closes in time to be measured", definition.name);
            return Err(Error::usage(message).with_hint("longer (--seconds), or with less warm-up (--warm-up)"));
        }
        search.tried(rate, open.sustained(asked.p99_us_max));
        tried.push(open);
    }
    Ok(Rates {
        crew,
        p99_us_max: asked.p99_us_max,
        highest_sustained: search.highest(),
        lowest_not_sustained: search.lowest_not(),
        tried,
    })
}

fn write_hgrm(path: &Path, latencies: &Latencies) -> Result<()> {
    let mut file = TargetFile::create(path, &PipeWait::default())?;
    let _ = TargetFile::write(&mut file, latencies.hgrm().as_bytes())?;
    file.prepare()?.complete().map(|_| ())
}

/// One run at a rate. Adds to what is counted.
fn run(
    session: &Session,
    definition: &Definition,
    input: &Prepared,
    (crew, rate, warm_up): (Crew, f64, Duration),
    counted: &mut Counted,
) -> Result<(OpenRun, (String, u64))> {
    let scratch = folder()?;
    let program = write_program(scratch.path(), &definition.text(&Feed::Stdin, &definition.view()?, &Sink::Stdout))?;
    let summary = scratch.path().join("summary.json");
    let set = |command: &mut std::process::Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
    };
    let own_before_s = own_cpu_s();
    let mut child = Running::start(arguments(&program, &summary, crew), set, &session.stop)?;
    let (Some(mut stdin), Some(stdout)) = (child.child.stdin.take(), child.child.stdout.take()) else {
        return Err(Error::output("a child has no pipes"));
    };
    let reader = std::thread::spawn(move || hear(stdout));
    let begun = child.begun;
    let mut written_late = Latencies::default();
    let written = write(&mut stdin, input, Schedule { rate }, (begun, warm_up), (&mut written_late, &session.stop));
    drop(stdin);
    let heard = reader.join().map_err(|_| Error::output("the thread that reads the answer has died"))?;
    let harness_cpu_s = own_cpu_s() - own_before_s;
    // What the child has to say of a failure comes first.
    let cost = child.wait()?;
    written.map_err(|e| Error::output("cannot write to the program").with_source(e))?;
    let heard = heard.map_err(|e| Error::output("cannot read the answer").with_source(e))?;
    let (cost, records) = read_summary(&summary, cost)?;
    if records != input.records {
        return Err(Error::output(format!("the program has read {records} of {} records", input.records)));
    }
    let mut one = Counted { written_late, ..Counted::default() };
    let (at_end, in_warm_up) = judge(definition, input, Schedule { rate }, (begun, warm_up), &heard, &mut one)?;
    let mut digested = Digested::default();
    digested.add(&heard.bytes);
    let run = OpenRun {
        first: one.first.quantiles(),
        corrections: one.corrections.quantiles(),
        written_late: one.written_late.quantiles(),
        answers_at_end: at_end,
        answers_in_warm_up: in_warm_up,
        harness_cpu_s,
        cost,
    };
    counted.merge(&one);
    Ok((run, digested.finish()))
}

/// Writes every line when it is due; notes how long after that it was written.
fn write(
    to: &mut impl Write,
    input: &Prepared,
    schedule: Schedule,
    (begun, warm_up): (Instant, Duration),
    (late, stop): (&mut Latencies, &Stop),
) -> std::io::Result<()> {
    let lines = input.lines();
    let warm_up_ns = nanoseconds(warm_up);
    let elapsed_ns = || nanoseconds(begun.elapsed());
    let mut line = 0;
    while line < lines {
        let elapsed = elapsed_ns();
        let due = schedule.due_by(elapsed).min(lines);
        if due <= line {
            let wait = Duration::from_nanos(schedule.due_ns(line).saturating_sub(elapsed));
            std::thread::sleep(wait.clamp(SLEEP_MIN, SLEEP_MAX));
            if stop.asked() {
                return Ok(());
            }
            continue;
        }
        match to.write_all(input.bytes(line, due)) {
            // It has ended: its status tells why.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
        // The oldest of them stands for all.
        let due_ns = schedule.due_ns(line);
        if due_ns >= warm_up_ns {
            late.record(elapsed_ns().saturating_sub(due_ns) / 1_000, due - line);
        }
        line = due;
    }
    Ok(())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads to the end and notes when what came. What was read stays where it is: moving it while the answer grows would hold
/// up the reading.
fn hear(mut from: impl Read) -> std::io::Result<Heard> {
    let mut segments = Vec::new();
    let (mut segment, mut filled) = (vec![0; SEGMENT_BYTES], 0);
    let (mut total, mut reads) = (0, Vec::new());
    loop {
        match from.read(segment.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(read) => {
                filled += read;
                total += read;
                reads.push((total, now()));
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if filled == segment.len() {
            segments.push(std::mem::replace(&mut segment, vec![0; SEGMENT_BYTES]));
            filled = 0;
        }
    }
    segment.truncate(filled);
    segments.push(segment);
    Ok(Heard { bytes: segments.concat(), reads })
}

/// Measures every answer from its moment; gives the number of those that came with the end of the input, and of those
/// that were due while the program warmed up.
fn judge(
    definition: &Definition,
    input: &Prepared,
    schedule: Schedule,
    (begun, warm_up): (Instant, Duration),
    heard: &Heard,
    counted: &mut Counted,
) -> Result<(u64, u64)> {
    let bug =
        |what: &str| Error::output(format!("{}: {what}", definition.name)).with_hint("this is a bug; please report it");
    let windows = definition.answers()?.contains(&Answer::Metrics);
    let (mut at_end, mut in_warm_up) = (0, 0);
    let mut reads = heard.reads.iter().peekable();
    let warm_up_ns = nanoseconds(warm_up);
    let (mut from, mut memory) = (0, None);
    for line_end in memchr::memchr_iter(b'\n', &heard.bytes) {
        let line = heard.bytes.get(from..line_end).unwrap_or_default();
        from = line_end + 1;
        // The read that brought its end.
        while reads.next_if(|(until, _)| *until <= line_end).is_some() {}
        let Some((_, read_at)) = reads.peek() else { return Err(bug("an answer was never read")) };
        let answer = changes::read(line).ok_or_else(|| bug("a line of the changelog cannot be understood"))?;
        if answer.kind == Kind::Retraction {
            continue;
        }
        // Answers of one kind and time stand together.
        let due = match memory {
            Some((last, due)) if last == answer => due,
            _ if windows => input.moments.due(&answer).map(|line| schedule.due_ns(line)),
            _ => input.moments.row_due(&answer).map(|line| schedule.due_ns(line)),
        };
        memory = Some((answer, due));
        let Some(due_ns) = due else {
            at_end += 1;
            continue;
        };
        let took = read_at.saturating_duration_since(begun).checked_sub(Duration::from_nanos(due_ns));
        let took = took.ok_or_else(|| bug("an answer came before it was due"))?;
        if due_ns < warm_up_ns {
            in_warm_up += 1;
            continue;
        }
        let latencies = if answer.kind == Kind::First { &mut counted.first } else { &mut counted.corrections };
        latencies.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), 1);
    }
    Ok((at_end, in_warm_up))
}

/// The answer to the same records from a file, to hold that of the open loop to where none is known.
fn from_file(session: &Session, definition: &Definition, input: &Prepared) -> Result<(String, u64)> {
    let scratch = folder()?;
    let path = scratch.path().join(format!("input.{}", definition.format.name()));
    let failed = |e| Error::output("cannot write the input").at(path.display().to_string()).with_source(e);
    std::fs::write(&path, &input.text).map_err(failed)?;
    let job = Job::new(definition, &path, &[Answer::Changelog], scratch.path())?;
    job.run(Crew { threads: 1, processes: 1 }, session)?;
    job.digest(Answer::Changelog)
}
