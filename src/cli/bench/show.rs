//! What was measured, for people.

use crate::bench::definition::Definition;
use crate::bench::report::{Answered, Bench, Closed, CrewRuns, Known, Open, Rates, Report, TableFacts};
use crate::bench::stats::Quantiles;
use crate::sink::summary::grouped;
use crate::time::format_duration;
use std::fmt::Write;

/// The definitions that are built in.
pub(super) fn list(definitions: &[Definition]) -> String {
    let rows = definitions.iter().map(|d| vec![d.name.clone(), d.about.clone()]);
    aligned(std::iter::once(vec!["name".to_owned(), "measures".to_owned()]).chain(rows).collect(), 2, "")
}

/// The machine, and what puts the figures in doubt.
pub(super) fn head(report: &Report) -> String {
    let machine = &report.machine;
    let mut out = format!(
        "{}, {} core{}, {}; slackwater {}\n",
        machine.cpu.as_deref().unwrap_or("unknown processor"),
        machine.cores,
        if machine.cores == 1 { "" } else { "s" },
        machine.system,
        report.slackwater
    );
    if report.debug_build {
        out.push_str("DEBUG BUILD: these figures say nothing about the program; build with --release\n");
    }
    if let Some(load) = machine.load_before.filter(|_| machine.busy()) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "THE MACHINE WAS BUSY (load {load:.2} before the first run): figures are in doubt");
    }
    out
}

/// One benchmark.
pub(super) fn bench(bench: &Bench) -> String {
    let mut out = format!("\n{}: {}\n", bench.name, bench.about);
    if let Some(closed) = &bench.closed {
        out.push_str(&self::closed(closed, &bench.table));
    }
    if !bench.open.is_empty() {
        let _ = writeln!(out, "open loop: {}", table(&bench.table));
        bench.open.iter().for_each(|open| out.push_str(&self::open(open)));
    }
    for rates in &bench.rates {
        let _ = writeln!(out, "open loop, {}: {}", rates.crew, table(&bench.table));
        out.push_str(&self::rates(rates));
    }
    out
}

fn table(facts: &TableFacts) -> String {
    let mut out = match facts.window_us {
        0 => "no windows".to_owned(),
        size_us => format!("windows of {}", format_duration(size_us)),
    };
    if facts.slide_us != facts.window_us {
        let _ = write!(out, " every {}", format_duration(facts.slide_us));
    }
    if let Some(delay_us) = facts.delay_us {
        let _ = write!(out, ", delay {}", format_duration(delay_us));
    }
    let _ =
        write!(out, ", granularity {}, tick {}", format_duration(facts.granularity_us), format_duration(facts.tick_us));
    out
}

fn answered(answer: &Answered) -> String {
    let known = match answer.known {
        Known::Beforehand => "as expected",
        Known::File => "the same as of the records in a file, but NOT KNOWN BEFOREHAND",
        Known::FirstRun => "the same in all runs, but NOT KNOWN BEFOREHAND",
    };
    format!("answer: {}, {} rows, {known}", answer.output, grouped(answer.rows))
}

fn closed(closed: &Closed, facts: &TableFacts) -> String {
    let repeats = closed.crews.iter().map(|c| c.runs.len()).max().unwrap_or(0);
    let mut out = format!(
        "closed loop: {} records, {} file{} of {} ({} MB); {}\n{}; medians of {repeats}\n",
        grouped(closed.records),
        closed.files,
        if closed.files == 1 { "" } else { "s" },
        closed.format,
        grouped(closed.input_bytes / 1_000_000),
        table(facts),
        answered(&closed.answer),
    );
    let head =
        ["threads x processes", "records/s", "records/CPU-s", "CPU ns/record", "CPU s", "wall s", "spread", "peak MB"];
    let exchanged = closed.crews.iter().any(|c| c.exchanged_bytes.is_some());
    let head = head.iter().copied().chain(exchanged.then_some("exchanged B/record"));
    let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for crew in &closed.crews {
        let mut row = figures(crew);
        if exchanged {
            let per_record = crew.exchanged_bytes.map(|bytes| bytes / closed.records as f64);
            row.push(per_record.map_or_else(|| "-".to_owned(), |b| format!("{b:.1}")));
        }
        rows.push(row);
    }
    out.push_str(&aligned(rows, 1, "  "));
    if let Some(first) = &closed.first_result_ms {
        let _ = writeln!(out, "  first result of 1,000 records: {:.1} ms after the start of the process", first.median);
    }
    out
}

fn figures(crew: &CrewRuns) -> Vec<String> {
    vec![
        crew.crew.to_string(),
        grouped(crew.records_per_s as u64),
        grouped(crew.records_per_cpu_s as u64),
        format!("{:.0}", crew.cpu_ns_per_record),
        format!("{:.2}", crew.cpu_s.median),
        format!("{:.2}", crew.wall_s.median),
        format!("{:.0} %", 100.0 * crew.wall_s.share()),
        crew.memory_bytes_max.map_or_else(|| "-".to_owned(), |bytes| format!("{:.0}", bytes / 1e6)),
    ]
}

fn open(open: &Open) -> String {
    let speed = open.event_time_speed.map_or_else(String::new, |s| format!(", event time {s:.1} times as fast"));
    let mut out = format!(
        "{}, {} records a second for {:.0} s{speed}; {}\n",
        open.crew,
        grouped(open.rate as u64),
        open.seconds,
        answered(&open.answer)
    );
    let head = ["ms from the scheduled moment", "count", "p50", "p90", "p99", "p99.9", "max"];
    let mut rows: Vec<Vec<String>> = vec![head.iter().map(|h| (*h).to_owned()).collect()];
    for (name, quantiles) in
        [("first results", &open.first), ("corrections", &open.corrections), ("records written", &open.written_late)]
    {
        rows.push(std::iter::once(name.to_owned()).chain(latencies(quantiles)).collect());
    }
    out.push_str(&aligned(rows, 1, "  "));
    let sum = |of: fn(&crate::bench::report::OpenRun) -> u64| grouped(open.runs.iter().map(of).sum());
    let _ = writeln!(
        out,
        "  not measured: {} answers of the first {:.1} s, {} set free by the end of the input",
        sum(|run| run.answers_in_warm_up),
        open.warm_up_s,
        sum(|run| run.answers_at_end)
    );
    let mean = |of: fn(&crate::bench::report::OpenRun) -> f64| {
        open.runs.iter().map(of).sum::<f64>() / open.runs.len().max(1) as f64
    };
    let _ = writeln!(
        out,
        "  processors: the program {:.2} s a run, the harness {:.2} s",
        mean(|run| run.cost.user_s + run.cost.system_s),
        mean(|run| run.harness_cpu_s)
    );
    if open.runs.len() > 1 {
        let p99 = open.p99_us();
        let _ = writeln!(out, "  p99 of first results by run: {:.2} to {:.2} ms", p99.min / 1e3, p99.max / 1e3);
    }
    out
}

fn latencies(q: &Quantiles) -> Vec<String> {
    let ms = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3));
    vec![grouped(q.count), ms(q.p50_us), ms(q.p90_us), ms(q.p99_us), ms(q.p999_us), ms(q.max_us)]
}

fn rates(rates: &Rates) -> String {
    let head = ["records/s", "first results", "p50 ms", "p99 ms", "max ms", "written p99 ms", "sustained"];
    let mut rows: Vec<Vec<String>> = vec![head.iter().map(|h| (*h).to_owned()).collect()];
    let ms = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3));
    for open in &rates.tried {
        rows.push(vec![
            grouped(open.rate as u64),
            grouped(open.first.count),
            ms(open.first.p50_us),
            ms(open.first.p99_us),
            ms(open.first.max_us),
            ms(open.written_late.p99_us),
            if open.sustained(rates.p99_us_max) { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let mut out = aligned(rows, 0, "  ");
    let bound = rates.p99_us_max as f64 / 1e3;
    let _ = match rates.highest_sustained {
        Some(rate) => {
            writeln!(
                out,
                "  highest rate with p99 of first results within {bound} ms: {} records a second",
                grouped(rate as u64)
            )
        }
        None => writeln!(out, "  no rate kept p99 of first results within {bound} ms"),
    };
    if let Some(open) = rates.tried.iter().find(|o| o.answer.known != Known::Beforehand).or(rates.tried.first()) {
        let _ = writeln!(out, "  {}", answered(&open.answer));
    }
    out
}

/// Rows as columns, the first `left` of them to the left, the others to the right.
fn aligned(rows: Vec<Vec<String>>, left: usize, indent: &str) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = indent.to_owned();
        for (c, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line.push_str(if c == 0 { "" } else { "  " });
            let _ = if c < left { write!(line, "{cell:<width$}") } else { write!(line, "{cell:>width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
