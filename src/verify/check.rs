//! The whole of `slackwater verify`: read, compute by brute force, run the engine, compare.
//!
//! The engine runs twice, once plainly and once with several workers and tiny blocks, so that the proof covers their
//! independence as well. The oracle reads every declared column, the engine those that the query uses: what is rejected
//! must not depend on it. Sinks and the files for late records and rejects are not written; `on_error = 'fail'` is not
//! obeyed, as rejects are compared like everything else.
//!
//! Limit: all records are held, and every window is computed from scratch at each of its instants. So the input may have
//! [`RECORDS_MAX`] records unless more are asked for, and each view a fixed multiple of that in contributions.

use super::collect::{Collected, collect};
use super::compare::{self, Difference};
use super::read::{Budget, TableTrace, read_table};
use super::{Expected, oracle_changelog};
use crate::engine::ingest::wanted_columns;
use crate::error::{Error, ErrorKind, Result};
use crate::oracle::OracleError;
use crate::plan::{Program, SourcePlan, TablePlan, ViewKind};
use crate::source::{self, Source, SourceOptions};
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::sync::Arc;

/// Records that are verified unless more are asked for.
pub const RECORDS_MAX: u64 = 200_000;
/// Contributions of a view (records times windows each is in) per record that is allowed.
const CONTRIBUTIONS_PER_RECORD_MAX: u64 = 32;
/// Bytes of standard input that are held in memory.
const STDIN_BYTES_MAX: u64 = 512 << 20;
/// Blocks that the second run aims at.
const BLOCKS: u64 = 500;

/// Settings of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Workers of the second run.
    pub workers: usize,
    /// Records of all tables together that are taken on.
    pub records_max: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions { workers: 2, records_max: RECORDS_MAX }
    }
}

/// How the engine was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Worker threads.
    pub workers: usize,
    /// Bytes of text in a block.
    pub block_bytes: usize,
}

/// A difference, and the run in which it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The run.
    pub setting: Setting,
    /// What differs.
    pub difference: Difference,
}

/// What was compared of a view, or of a table's rejects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The name of the view or table.
    pub name: String,
    /// Rows of the oracle's changelog (of a table: its rejects).
    pub changes: u64,
    /// Records read.
    pub records: u64,
    /// Dropped contributions.
    pub too_late: u64,
    /// The error that ends the run, in the engine as by the oracle: nothing else was compared.
    pub ends_with: Option<String>,
    /// Everything that is not the same.
    pub differences: Vec<Found>,
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// By view.
    pub views: Vec<Verdict>,
    /// By table.
    pub tables: Vec<Verdict>,
}

impl Report {
    /// Whether nothing differs.
    pub fn equal(&self) -> bool {
        self.views.iter().chain(&self.tables).all(|verdict| verdict.differences.is_empty())
    }
}

/// Sources that can be opened again and again.
struct Inputs<'a> {
    program: &'a Program,
    /// Standard input, read once.
    stdin: Option<Arc<[u8]>>,
}

impl<'a> Inputs<'a> {
    fn new(program: &'a Program) -> Result<Self> {
        let reads_stdin = program.tables.iter().any(|t| matches!(t.source, SourcePlan::Stdin { .. }));
        let stdin = if reads_stdin { Some(read_stdin()?) } else { None };
        Ok(Inputs { program, stdin })
    }

    fn open(&self, table: &TablePlan, wanted: &BTreeSet<usize>, options: &SourceOptions) -> Result<Arc<dyn Source>> {
        let source = match (&table.source, &self.stdin) {
            (SourcePlan::Stdin { format }, Some(text)) => {
                source::open_reader(table, format, Box::new(Cursor::new(Arc::clone(text))), wanted, options)?
            }
            _ => {
                let source = source::open(table, wanted, options)?;
                if let Some(pipe) = source.lanes().iter().find(|lane| !lane.files.is_empty() && lane.bytes.is_none()) {
                    let error = Error::usage("verify reads its input several times, and this is no regular file");
                    return Err(error.at(pipe.name.clone()).with_hint("save it to a file first"));
                }
                source
            }
        };
        Ok(source)
    }

    fn open_all(&self, options: &SourceOptions) -> Result<Vec<Arc<dyn Source>>> {
        let tables = self.program.tables.iter().enumerate();
        tables.map(|(t, table)| self.open(table, &wanted_columns(self.program, t), options)).collect()
    }
}

fn read_stdin() -> Result<Arc<[u8]>> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|e| Error::input("cannot read").at("stdin").with_source(e))?;
    if text.len() as u64 > STDIN_BYTES_MAX {
        let message =
            format!("verify holds standard input in memory, {} MiB at most, and this is more", STDIN_BYTES_MAX >> 20);
        return Err(Error::usage(message).with_hint("verify a part of it"));
    }
    Ok(text.into())
}

/// Runs the input of `program` through the oracle and through the engine and compares all they give: changelog, ledger,
/// late output and rejects.
///
/// # Errors
/// When the input cannot be read, is larger than the options allow, or when a run of the engine fails where the oracle
/// does not.
pub fn verify(program: &Program, options: &VerifyOptions) -> Result<Report> {
    let inputs = Inputs::new(program)?;
    let mut budget = Budget { records_max: options.records_max, records: 0 };
    let mut traces = Vec::new();
    for table in &program.tables {
        let source = inputs.open(table, &(0..table.columns.len()).collect(), &SourceOptions::default())?;
        traces.push(read_table(table, &*source, &mut budget)?);
    }
    check_contributions(program, &traces, options)?;
    let expected = expectations(program, &traces);
    let mut report = blank(program, &traces, &expected);
    let text_bytes = traces.iter().map(|t| t.text_bytes).max().unwrap_or(0);
    let tiny = usize::try_from(text_bytes / BLOCKS).unwrap_or(usize::MAX).clamp(64, 64 << 10);
    let settings = [
        Setting { workers: 1, block_bytes: SourceOptions::default().block_bytes },
        Setting { workers: options.workers.max(1), block_bytes: tiny },
    ];
    let program = Arc::new(program.clone());
    for setting in settings {
        let source_options = SourceOptions { block_bytes: setting.block_bytes, workers: setting.workers };
        let found = collect(&program, inputs.open_all(&source_options)?, setting.workers);
        let differences = judge(&program, &traces, &expected, found)?;
        for (place, difference) in differences {
            let verdict = match place {
                Place::View(v) => report.views.get_mut(v),
                Place::Table(t) => report.tables.get_mut(t),
            };
            verdict.into_iter().for_each(|v| v.differences.push(Found { setting, difference: difference.clone() }));
        }
    }
    Ok(report)
}

/// Refuses hopping windows that overlap so much that the oracle would not come to an end.
fn check_contributions(program: &Program, traces: &[TableTrace], options: &VerifyOptions) -> Result<()> {
    let most = options.records_max.saturating_mul(CONTRIBUTIONS_PER_RECORD_MAX);
    for view in &program.views {
        let ViewKind::Windowed(plan) = &view.kind else { continue };
        let each = plan.window.size_us.max(1).unsigned_abs().div_ceil(plan.window.slide_us.max(1).unsigned_abs());
        let records = traces.get(view.table).map_or(0, |trace| trace.rows.len() as u64);
        if records.saturating_mul(each) > most {
            let message = format!(
                "each of {records} records is in {each} windows, and verify takes on {most} such pairs of a view at most"
            );
            return Err(
                Error::usage(message).with_hint("verify a part of the input, or raise --limit and have patience")
            );
        }
    }
    Ok(())
}

/// By view: what the oracle expects, or the error with which it ends.
fn expectations(program: &Program, traces: &[TableTrace]) -> Vec<Result<Expected, OracleError>> {
    let mut out = Vec::new();
    for view in &program.views {
        let (Some(table), Some(trace)) = (program.tables.get(view.table), traces.get(view.table)) else { continue };
        out.push(oracle_changelog(view, table, &trace.known, &trace.rows));
    }
    out
}

fn blank(program: &Program, traces: &[TableTrace], expected: &[Result<Expected, OracleError>]) -> Report {
    let mut report = Report::default();
    for (number, (view, expected)) in program.views.iter().zip(expected).enumerate() {
        let mut verdict = Verdict {
            name: view.name.clone().unwrap_or_else(|| format!("query {}", number + 1)),
            records: traces.get(view.table).map_or(0, |t| t.rows.len() as u64),
            ..Verdict::default()
        };
        match expected {
            Ok(expected) => {
                verdict.changes = expected.changes.len() as u64;
                verdict.too_late = expected.ledger.contributions.too_late;
            }
            Err(error) => verdict.ends_with = Some(format!("{} in window {}", error.message, window(error))),
        }
        report.views.push(verdict);
    }
    for (t, (table, trace)) in program.tables.iter().zip(traces).enumerate() {
        let of_table = trace.rows.iter().filter(|row| row.reject.is_some()).count();
        let views = program.views.iter().zip(expected).filter(|(view, _)| view.table == t);
        let of_views: usize = views.map(|(_, e)| e.as_ref().map_or(0, |e| e.rejects.len())).sum();
        let changes = (of_table + of_views) as u64;
        report.tables.push(Verdict {
            name: table.name.clone(),
            changes,
            records: trace.rows.len() as u64,
            ..Verdict::default()
        });
    }
    report
}

/// What a difference belongs to.
#[derive(Clone, Copy)]
enum Place {
    View(usize),
    Table(usize),
}

/// Compares one run.
fn judge(
    program: &Program,
    traces: &[TableTrace],
    expected: &[Result<Expected, OracleError>],
    found: Result<Collected>,
) -> Result<Vec<(Place, Difference)>> {
    let mut failing = expected.iter().enumerate().filter_map(|(v, e)| Some((v, e.as_ref().err()?)));
    let found = match found {
        Ok(found) => found,
        Err(error) if failing.clone().any(|(_, e)| names(&error, e)) => return Ok(Vec::new()),
        Err(error) => {
            let Some((view, expected)) = failing.next() else { return Err(error) };
            let expected = Some(format!("{} in window {}", expected.message, window(expected)));
            let found = Some(error.to_string());
            return Ok(vec![(Place::View(view), Difference { list: "error", expected, found })]);
        }
    };
    let mut out = Vec::new();
    for (v, expected) in expected.iter().enumerate() {
        let Some(view) = program.views.get(v) else { continue };
        let Some(trace) = traces.get(view.table) else { continue };
        match expected {
            Ok(expected) => {
                let differences = compare::view(view, v, trace, expected, &found);
                out.extend(differences.into_iter().map(|d| (Place::View(v), d)));
            }
            Err(error) => {
                let expected = Some(format!("{} in window {}", error.message, window(error)));
                out.push((Place::View(v), Difference { list: "error", expected, found: None }));
            }
        }
    }
    for (t, trace) in traces.iter().enumerate() {
        let views = program.views.iter().zip(expected).enumerate().filter(|(_, (view, _))| view.table == t);
        let views: Vec<(usize, &Expected)> = views.filter_map(|(v, (_, e))| Some((v, e.as_ref().ok()?))).collect();
        let differences = compare::table(t, trace, &views, &found);
        out.extend(differences.into_iter().map(|d| (Place::Table(t), d)));
    }
    Ok(out)
}

/// Whether the engine's error is about the window that the oracle could not compute.
fn names(error: &Error, expected: &OracleError) -> bool {
    error.kind() == ErrorKind::Output && error.place().is_some_and(|place| place.contains(&window(expected)))
}

fn window(error: &OracleError) -> String {
    let (mut text, (start, end)) = (String::from("["), error.window_us);
    crate::time::format_timestamp(start, &mut text);
    text.push_str(", ");
    crate::time::format_timestamp(end, &mut text);
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some records on time, late, too late and rejected.
    const INPUT: &str = "et\n10\n20\n70\n80\n5\n75\nno\n200\n3\n";

    /// Canary: whatever the engine got wrong, it is noticed.
    #[test]
    fn an_engine_that_is_wrong_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        std::fs::write(&path, INPUT).unwrap();
        let text = format!(
            "CREATE TABLE t (et TIMESTAMP, WATERMARK FOR et AS et) WITH (connector = 'file', path = '{}', time_unit = 's');
             CREATE MATERIALIZED VIEW v WITH (horizon = '1 m') AS SELECT window_start, count(*) AS n
             FROM TUMBLE(t, et, INTERVAL '1 minute') GROUP BY window_start, window_end;",
            path.display()
        );
        let program = crate::sql::plan("test", &text, &crate::sql::BareSelectDefaults::default()).unwrap();
        assert!(verify(&program, &VerifyOptions::default()).unwrap().equal());
        let inputs = Inputs::new(&program).unwrap();
        let mut budget = Budget { records_max: 100, records: 0 };
        let sources = || inputs.open_all(&SourceOptions::default()).unwrap();
        let traces = vec![read_table(&program.tables[0], &*sources()[0], &mut budget).unwrap()];
        let expected = expectations(&program, &traces);
        let sound = collect(&Arc::new(program.clone()), sources(), 1).unwrap();
        let noticed = |tamper: &dyn Fn(&mut Collected)| {
            let mut found = sound.clone();
            tamper(&mut found);
            judge(&program, &traces, &expected, Ok(found)).unwrap().len()
        };
        assert_eq!(noticed(&|_| {}), 0);
        let tampers: [&dyn Fn(&mut Collected); 9] = [
            &|found| found.changes[0][1].late_count += 1,
            &|found| drop(found.changes[0].pop()),
            &|found| found.changes[0].clear(),
            &|found| found.too_late[0][0].lag_us += 1,
            &|found| found.too_late[0].clear(),
            &|found| found.rejects[0][0].line += 1,
            &|found| found.rejects[0][0].raw.clear(),
            &|found| found.ending.ledgers[0].contributions.late += 1,
            &|found| found.ending.complete = false,
        ];
        for (number, tamper) in tampers.iter().enumerate() {
            assert!(noticed(tamper) > 0, "tampering {number} goes unnoticed");
        }
    }
}
