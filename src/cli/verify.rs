//! `slackwater verify`: the engine against the brute-force oracle.

use super::{ProgramArgs, exit, print_out};
use crate::error::Result;
use crate::sink::summary::plural;
use crate::verify::check::{RECORDS_MAX, Report, Verdict, VerifyOptions, verify};
use clap::Args;
use std::fmt::Write;

/// Differences that are shown of a view or table; the others are counted.
const SHOWN_MAX: usize = 5;

/// Arguments of `slackwater verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "The input is read once more for the oracle, which computes every window from scratch at every \
                  instant, with a row-at-a-time evaluator of its own. Changelog, ledger, late output and rejects must \
                  be equal, for one worker and for N with tiny blocks. No sink is written. Standard input is held in \
                  memory.

Exit status: 0 equal · 1 unreadable input · 2 wrong query or too large an input · 3 a difference"
)]
pub struct VerifyArgs {
    #[command(flatten)]
    program: ProgramArgs,
    /// Worker threads of the second run (the first has one).
    #[arg(short = 'w', long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Records taken on at most; brute force takes time and holds all of them.
    #[arg(long, default_value_t = RECORDS_MAX, value_name = "N")]
    limit: u64,
}

/// Runs the command.
pub(super) fn run(args: &VerifyArgs) -> Result<u8> {
    let program = args.program.plan()?;
    let options = VerifyOptions { workers: usize::from(args.workers), records_max: args.limit };
    let report = verify(&program, &options)?;
    print_out(&text(&report))?;
    Ok(if report.equal() { exit::SUCCESS } else { exit::DIFFERENCE })
}

/// One line a view, and what differs below it.
fn text(report: &Report) -> String {
    let mut out = String::new();
    for view in &report.views {
        match &view.ends_with {
            Some(error) if view.differences.is_empty() => {
                let Verdict { name, records, .. } = view;
                line(&mut out, &format!("{name}: {records} record{}, both end with: {error}", plural(*records)));
            }
            _ => {
                let Verdict { name, changes, records, .. } = view;
                let (many, more) = (plural(*changes), plural(*records));
                line(&mut out, &format!("{name}: {changes} change{many}, {records} record{more}, {}", verdict(view)));
            }
        }
        differences(&mut out, view);
    }
    for table in report.tables.iter().filter(|table| !table.differences.is_empty()) {
        line(&mut out, &format!("rejects of {}: {} expected, {}", table.name, table.changes, verdict(table)));
        differences(&mut out, table);
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn verdict(verdict: &Verdict) -> String {
    match verdict.differences.len() {
        0 => "equal".to_owned(),
        1 => "DIFFERENT in 1 row".to_owned(),
        n => format!("DIFFERENT in {n} rows"),
    }
}

fn differences(out: &mut String, verdict: &Verdict) {
    for found in verdict.differences.iter().take(SHOWN_MAX) {
        let difference = &found.difference;
        let (workers, block_bytes) = (found.setting.workers, found.setting.block_bytes);
        let row = |row: &Option<String>| row.clone().unwrap_or_else(|| "nothing".to_owned());
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "  {} (workers {workers}, blocks of {block_bytes} bytes)\n    oracle {}\n    engine {}\n",
            difference.list,
            row(&difference.expected),
            row(&difference.found)
        );
    }
    if let Some(more @ 1..) = verdict.differences.len().checked_sub(SHOWN_MAX) {
        line(out, &format!("  and {more} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::check::{Found, Setting};
    use crate::verify::compare::Difference;

    #[test]
    fn a_difference_is_shown_and_the_rest_counted() {
        let difference = Difference { list: "changelog", expected: Some("+I 5".into()), found: None };
        let found = Found { setting: Setting { workers: 2, block_bytes: 64 }, difference };
        let view = Verdict { name: "v".into(), changes: 4, records: 7, ..Verdict::default() };
        let equal = Report { views: vec![view.clone()], tables: vec![] };
        assert_eq!(text(&equal), "v: 4 changes, 7 records, equal\n");
        let one = Verdict { changes: 1, records: 1, ..view.clone() };
        assert_eq!(text(&Report { views: vec![one], tables: vec![] }), "v: 1 change, 1 record, equal\n");
        let report = Report { views: vec![Verdict { differences: vec![found; 7], ..view }], tables: vec![] };
        let text = text(&report);
        let shown = "v: 4 changes, 7 records, DIFFERENT in 7 rows\n  changelog (workers 2, blocks of 64 bytes)\n    oracle +I 5\n    engine nothing\n";
        assert!(text.starts_with(shown), "{text}");
        assert!(text.ends_with("    engine nothing\n  and 2 more\n"), "{text}");
        assert!(equal.equal() && !report.equal());
    }
}
