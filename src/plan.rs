//! What to run: the bound form of a program, made by `sql/` or by hand. Knows no timely, no I/O.

use crate::expr::Expr;
use crate::types::DataType;
use crate::watermark::policy::PolicyPlan;

/// A whole program.
#[derive(Clone, Debug)]
pub struct Program {
    /// The tables that views read.
    pub tables: Vec<TablePlan>,
    /// Every view, bare SELECTs included (those have no name), in order of the text.
    pub views: Vec<ViewPlan>,
    /// Where results go, in order of the text. A bare SELECT has a stdout changelog sink of its own.
    pub sinks: Vec<SinkPlan>,
    /// Things to tell the user that are not errors.
    pub warnings: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnPlan {
    /// The name in SQL; nested JSON is declared and referred to as `payload.amount`.
    pub name: String,
    /// The path into the record: `["payload", "amount"]`, or one element.
    pub path: Vec<String>,
    /// The type.
    pub dtype: DataType,
}

/// Which other partitions a record's lateness depends on (SEMANTICS §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatenessScope {
    /// The watermark of the whole source, by ticks of arrival time.
    Source,
    /// The record's own partition alone.
    Partition,
}

/// What an unreadable record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Counted and shown.
    Reject,
    /// Ends the run with exit status 1.
    Fail,
}

/// How a late record is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateRecords {
    /// Per window.
    Window,
    /// A record with `et < stamp` is dropped for all windows.
    Drop,
}

/// A source table. All times are microseconds.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// The name.
    pub name: String,
    /// The declared columns, all of them.
    pub columns: Vec<ColumnPlan>,
    /// Index of the event-time column (`WATERMARK FOR`), a TIMESTAMP; `None`: the table has no watermark.
    pub event_time: Option<usize>,
    /// The watermark as an expression over the table's columns (TIMESTAMP). For the common `et - INTERVAL` see `delay_us`.
    pub watermark: Option<Expr>,
    /// `Some(d)` if the watermark is exactly `event time − d`, `d ≥ 0`.
    pub delay_us: Option<i64>,
    /// What stands in the place of the fixed delay, if something does; then `delay_us` is `Some` and the delay in the beginning.
    pub policy: Option<TablePolicy>,
    /// Index of the arrival-time column, a TIMESTAMP.
    pub arrival_time: Option<usize>,
    /// Index of the column that names the partition.
    pub partition: Option<usize>,
    /// Declared values of the partition column, in the order given.
    pub partitions: Vec<String>,
    /// See [`LatenessScope`]; the default is already applied.
    pub scope: LatenessScope,
    /// Idle timeout; at least one tick.
    pub idle_timeout_us: Option<i64>,
    /// Granularity of stamps, > 0. Default 1 s.
    pub granularity_us: i64,
    /// Tick of arrival time, > 0. Default 1 s.
    pub tick_us: i64,
    /// How far an event may lie ahead of its arrival.
    pub max_future_us: Option<i64>,
    /// See [`LateRecords`].
    pub late_records: LateRecords,
    /// See [`OnError`].
    pub on_error: OnError,
    /// File for rejects.
    pub rejects: Option<String>,
    /// Unit of numeric times (`time_unit`), in microseconds per unit: 1, 1_000 (default) or 1_000_000.
    pub time_unit_us: i64,
    /// Where records come from.
    pub source: SourcePlan,
}

/// A watermark policy of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TablePolicy {
    /// The policy with its settings.
    pub plan: PolicyPlan,
    /// Index of the column that [`PolicyPlan::column`] names: BIGINT, DOUBLE or DECIMAL.
    pub column: Option<usize>,
}

/// Text formats of records.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// CSV.
    Csv(CsvOptions),
    /// Parquet (cargo feature `parquet`).
    Parquet,
}

/// Options of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Delimiter, one ASCII byte. Default `,`.
    pub delimiter: u8,
    /// A field equal to this is NULL. Default the empty field.
    pub null: String,
    /// Whether the first record names the columns (default); else fields stand in the order of the declaration.
    pub header: bool,
}

/// Where records come from.
#[derive(Clone, Debug, PartialEq)]
pub enum SourcePlan {
    /// Files: a path or glob; `.gz` and `.zst` by suffix.
    File {
        /// Path or glob as written.
        path: String,
        /// `None`: by suffix.
        format: Format,
    },
    /// Standard input.
    Stdin {
        /// The format.
        format: Format,
    },
    /// Built-in seeded records.
    Generator(GeneratorPlan),
}

/// What generated records hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// Orders of customers.
    #[default]
    Orders,
    /// People, auctions and bids of NEXMark.
    Nexmark,
}

impl Workload {
    /// All, by their names.
    pub const NAMED: [(&'static str, Workload); 2] = [("orders", Workload::Orders), ("nexmark", Workload::Nexmark)];
}

/// Settings of the built-in generator. Times in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorPlan {
    /// What records hold.
    pub workload: Workload,
    /// Seed; same settings and seed, same records.
    pub seed: u64,
    /// Records in all.
    pub rows: u64,
    /// Event-time rate, records a second over all partitions.
    pub rate: f64,
    /// Distinct customers; for orders only.
    pub keys: u64,
    /// Partitions (each is named `0`, `1`, …).
    pub partitions: u32,
    /// Mean of the exponential delay of ordinary records.
    pub delay_mean_us: i64,
    /// Share of records (0 to 1) that are delayed uniformly up to `late_max_us` instead.
    pub late_share: f64,
    /// Longest delay of those.
    pub late_max_us: i64,
    /// Delays by their quantiles (longest delay in µs, share from 0 to 1), in place of the three above; empty: not.
    pub delay_quantiles: Vec<(i64, f64)>,
    /// Share of the customers (0 to 1) whose records are delayed by `key_delay_us` more; for orders only.
    pub delayed_keys: f64,
    /// How much later those are.
    pub key_delay_us: i64,
    /// Every `silent_every_us` of event time one partition in turn is silent for `silent_for_us`; 0 is never.
    pub silent_every_us: i64,
    /// Length of a silent spell.
    pub silent_for_us: i64,
    /// Event time of the first record.
    pub start_us: i64,
}

/// A window assigner. All in microseconds; `0 ≤ offset < slide ≤ size`; tumbling is `slide == size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPlan {
    /// Length.
    pub size_us: i64,
    /// Distance of starts.
    pub slide_us: i64,
    /// Shift of starts from 1970-01-01T00:00:00Z.
    pub offset_us: i64,
}

/// A view or a bare SELECT.
#[derive(Clone, Debug)]
pub struct ViewPlan {
    /// The name; `None` for a bare SELECT.
    pub name: Option<String>,
    /// Index into [`Program::tables`].
    pub table: usize,
    /// `WHERE`, over the table's columns (by table column index).
    pub filter: Option<Expr>,
    /// What is computed.
    pub kind: ViewKind,
    /// Names and types of the output columns in SELECT order. For windowed views `window_start` and `window_end` are among them:
    /// those the query does not name are put first.
    pub output: Vec<(String, DataType)>,
    /// Horizon; `None`: late contributions are dropped. Saturated at 2^61.
    pub horizon_us: Option<i64>,
    /// File for too-late contributions.
    pub late: Option<String>,
    /// More late records than this make a window a `spike`. Default 1.
    pub spike_above: u64,
    /// The query's own text (for `explain`).
    pub sql: String,
}

/// The two kinds of views.
#[derive(Clone, Debug)]
pub enum ViewKind {
    /// Rows pass through; one expression per output column, over the table's columns.
    PassThrough(Vec<Expr>),
    /// Windowed aggregation.
    Windowed(WindowedPlan),
}

/// A windowed aggregation. Post-aggregation expressions read a row laid out as
/// `[group values…, window_start, window_end, aggregate values…]`.
#[derive(Clone, Debug)]
pub struct WindowedPlan {
    /// The windows.
    pub window: WindowPlan,
    /// Group expressions other than the window bounds, over the table's columns.
    pub group: Vec<Expr>,
    /// Aggregates, each distinct one once.
    pub aggregates: Vec<AggregatePlan>,
    /// `HAVING`, over the post-aggregation row.
    pub having: Option<Expr>,
    /// One expression per output column, over the post-aggregation row.
    pub select: Vec<Expr>,
    /// Whether tables hold the least stamp of each group as well, as a last aggregate (the lateness lab asks for it).
    pub first_stamp: bool,
}

/// One aggregate call. Arguments read the table's columns.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatePlan {
    /// The function, with argument type and parameters.
    pub spec: crate::aggregate::AggregateSpec,
    /// The argument (none for `count(*)`).
    pub arg: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Expr>,
}

/// Which table of a view a sink writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkMode {
    /// Every change.
    Changelog,
    /// The latest row per key and window.
    Metrics,
    /// Windows that were corrected.
    Backfills,
}

/// Format of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkFormat {
    /// One JSON object a line.
    Ndjson,
    /// CSV with a header.
    Csv,
    /// An aligned table for people.
    Table,
    /// Parquet (cargo feature `parquet`).
    Parquet,
}

/// Where a sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkTarget {
    /// Standard output; `None` format: a table on a terminal, NDJSON otherwise.
    Stdout(Option<SinkFormat>),
    /// A file, written aside and renamed.
    File(String, SinkFormat),
}

/// A sink.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// The name; `None` for the implied sink of a bare SELECT.
    pub name: Option<String>,
    /// Index into [`Program::views`].
    pub view: usize,
    /// What is written.
    pub mode: SinkMode,
    /// Where to.
    pub target: SinkTarget,
}
