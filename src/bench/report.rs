//! What is reported, as JSON and for people.

use super::stats::{Quantiles, Spread};
use serde::Serialize;

/// All benchmarks of a call.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this program.
    pub slackwater: &'static str,
    /// Whether it was built without optimisation: then the figures mean nothing.
    pub debug_build: bool,
    /// Where.
    pub machine: Machine,
    /// By benchmark.
    pub benches: Vec<Bench>,
}

/// The machine, as far as the system tells.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Processors that may be used.
    pub cores: usize,
    /// Operating system and version of its kernel.
    pub system: String,
    /// Processes that ran or wanted to in the minute before, on average.
    pub load_before: Option<f64>,
}

/// Load a core from which on figures are in doubt.
const BUSY_PER_CORE: f64 = 0.25;

impl Machine {
    /// Whether others were at work.
    pub fn busy(&self) -> bool {
        self.load_before.is_some_and(|load| load > BUSY_PER_CORE * self.cores as f64)
    }
}

/// One benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Bench {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub about: String,
    /// Settings of the table that figures depend on.
    pub table: TableFacts,
    /// The closed loop, if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// The open loop, if it was run: by crew and rate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Open>,
    /// The search for the highest rate, if there was one: by crew.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rates>,
}

/// Settings of the table, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TableFacts {
    /// Granularity of stamps.
    pub granularity_us: i64,
    /// Tick of arrival time.
    pub tick_us: i64,
    /// Fixed delay of the watermark, if it is one.
    pub delay_us: Option<i64>,
    /// Length of windows; 0 without windows.
    pub window_us: i64,
    /// Distance of their starts.
    pub slide_us: i64,
}

/// What the answer was held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// A digest in the definition.
    Beforehand,
    /// The first run: all others gave the same bytes.
    FirstRun,
    /// A run over a file of the same records.
    File,
}

/// The answer of all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Answered {
    /// Which output was digested.
    pub output: &'static str,
    /// What it was held to.
    pub known: Known,
    /// SHA-256.
    pub sha256: String,
    /// Rows.
    pub rows: u64,
}

/// The closed loop.
#[derive(Clone, Debug, Serialize)]
pub struct Closed {
    /// Records of the input.
    pub records: u64,
    /// Its size, over all files.
    pub input_bytes: u64,
    /// Its files.
    pub files: usize,
    /// Format of the input.
    pub format: &'static str,
    /// The answer.
    pub answer: Answered,
    /// By crew.
    pub crews: Vec<CrewRuns>,
    /// Milliseconds from the start of a process to the first byte of results of 1,000 records.
    pub first_result_ms: Option<Spread>,
}

/// Threads and processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Crew {
    /// Threads of each process.
    pub threads: u16,
    /// Processes.
    pub processes: u16,
}

impl Crew {
    /// Reads `2x1`: threads, processes.
    pub fn parse(text: &str) -> Option<Crew> {
        let (threads, processes) = text.split_once(['x', '×'])?;
        let number = |text: &str| text.trim().parse::<u16>().ok().filter(|n| (1..=1024).contains(n));
        Some(Crew { threads: number(threads)?, processes: number(processes)? })
    }
}

impl std::fmt::Display for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.threads, self.processes)
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Run {
    /// Seconds from start to end of the process.
    pub wall_s: f64,
    /// Seconds of processors outside the kernel, of all processes.
    pub user_s: f64,
    /// And inside.
    pub system_s: f64,
    /// Greatest resident memory of process 0.
    pub memory_bytes_max: Option<u64>,
    /// Bytes that process 0 has sent and received.
    pub exchanged_bytes: Option<u64>,
}

/// The runs of a crew.
#[derive(Clone, Debug, Serialize)]
pub struct CrewRuns {
    /// The crew.
    #[serde(flatten)]
    pub crew: Crew,
    /// Each run.
    pub runs: Vec<Run>,
    /// Seconds from start to end.
    pub wall_s: Spread,
    /// Seconds of processors.
    pub cpu_s: Spread,
    /// Records a second.
    pub records_per_s: f64,
    /// Records a second of processors: what one core does.
    pub records_per_cpu_s: f64,
    /// Nanoseconds of processors a record.
    pub cpu_ns_per_record: f64,
    /// Nanoseconds from start to end a record.
    pub wall_ns_per_record: f64,
    /// Greatest resident memory of process 0: the median of the runs.
    pub memory_bytes_max: Option<f64>,
    /// Bytes that process 0 has sent and received: the median of the runs.
    pub exchanged_bytes: Option<f64>,
}

impl CrewRuns {
    /// Sums up.
    pub fn new(crew: Crew, records: u64, runs: Vec<Run>) -> CrewRuns {
        let wall_s = Spread::of(runs.iter().map(|r| r.wall_s));
        let cpu_s = Spread::of(runs.iter().map(|r| r.user_s + r.system_s));
        let median = |of: fn(&Run) -> Option<u64>| {
            let known: Vec<f64> = runs.iter().filter_map(of).map(|n| n as f64).collect();
            (!known.is_empty()).then(|| Spread::of(known).median)
        };
        let (memory_bytes_max, exchanged_bytes) = (median(|r| r.memory_bytes_max), median(|r| r.exchanged_bytes));
        let records = records as f64;
        let per = |seconds: f64| if seconds > 0.0 { records / seconds } else { 0.0 };
        CrewRuns {
            crew,
            records_per_s: per(wall_s.median),
            records_per_cpu_s: per(cpu_s.median),
            cpu_ns_per_record: cpu_s.median / records * 1e9,
            wall_ns_per_record: wall_s.median / records * 1e9,
            wall_s,
            cpu_s,
            memory_bytes_max,
            exchanged_bytes,
            runs,
        }
    }
}

/// The open loop at one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// Who ran.
    pub crew: Crew,
    /// Scheduled arrivals a second.
    pub rate: f64,
    /// Records of the input.
    pub records: u64,
    /// Seconds of the schedule.
    pub seconds: f64,
    /// Seconds of the schedule in which nothing is measured.
    pub warm_up_s: f64,
    /// By how much event time runs faster than the schedule.
    pub event_time_speed: Option<f64>,
    /// The answer, the same in all runs.
    pub answer: Answered,
    /// First results: from the scheduled arrival of the record that lets the watermark reach the window's end.
    pub first: Quantiles,
    /// Corrections: from the scheduled arrival of the record that lets the watermark pass their stamp.
    pub corrections: Quantiles,
    /// How late records were written.
    pub written_late: Quantiles,
    /// Each run.
    pub runs: Vec<OpenRun>,
}

impl Open {
    /// The 99 % of first results by run, in microseconds.
    pub fn p99_us(&self) -> Spread {
        Spread::of(self.runs.iter().filter_map(|run| run.first.p99_us).map(|us| us as f64))
    }

    /// Whether the rate was sustained: first results and writes within the bound, but for one in a hundred.
    pub fn sustained(&self, bound_us: u64) -> bool {
        let within = |quantiles: &Quantiles| quantiles.p99_us.is_some_and(|us| us <= bound_us);
        within(&self.first) && within(&self.written_late)
    }
}

/// One run of the open loop.
#[derive(Clone, Debug, Serialize)]
pub struct OpenRun {
    /// First results.
    pub first: Quantiles,
    /// Corrections.
    pub corrections: Quantiles,
    /// How late records were written.
    pub written_late: Quantiles,
    /// Answers that only the end of the input set free; not measured.
    pub answers_at_end: u64,
    /// Answers due in the warm-up; not measured.
    pub answers_in_warm_up: u64,
    /// Seconds of processors that the harness took meanwhile.
    pub harness_cpu_s: f64,
    /// What it cost.
    #[serde(flatten)]
    pub cost: Run,
}

/// The search for the highest rate.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Who ran.
    pub crew: Crew,
    /// The bound of the 99 % of first results.
    pub p99_us_max: u64,
    /// Highest rate that was sustained; `null` if none was.
    pub highest_sustained: Option<f64>,
    /// Lowest that was not; `null` if all were.
    pub lowest_not_sustained: Option<f64>,
    /// Each rate that was tried, in that order.
    pub tried: Vec<Open>,
}
