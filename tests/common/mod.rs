//! The cases under `tests/cases` as Rust values, and comparing with what they expect. Times in microseconds.
//!
//! Nothing here says how results are computed, so that the oracle and the dataflow are held to the same files.

pub mod run;

use serde_json::Value as Json;
use slackwater::aggregate::{AggregateFunc, AggregateSpec};
use slackwater::expr::Expr;
use slackwater::oracle::Windows;
use slackwater::plan::{
    AggregatePlan, ColumnPlan, Format, LateRecords, LatenessScope, OnError, SourcePlan, TablePlan, ViewKind, ViewPlan,
    WindowPlan, WindowedPlan,
};
use slackwater::record::RejectReason;
use slackwater::sink::{Change, Op};
use slackwater::types::{DataType, Value};
use slackwater::watermark::WatermarkSettings;
use std::path::{Path, PathBuf};

/// Settings and records of a case, and what must come out.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub windows: Windows,
    pub delay_us: i64,
    pub horizon_us: Option<i64>,
    pub late_records: LateRecords,
    pub watermarks: WatermarkSettings,
    pub max_future_us: Option<i64>,
    /// Names, in partition order.
    pub partitions: Vec<String>,
    pub bounded: bool,
    /// `BIGINT`, or `DOUBLE` if any value has a fraction.
    pub value_type: DataType,
    pub items: Vec<Item>,
    pub expect: Expect,
}

/// What is read, in order. The index of a record in [`Case::items`] is its name in [`Expect`].
#[derive(Clone, Debug)]
pub enum Item {
    Record(CaseRecord),
    End { partition: String },
    Tick { clock_us: i64 },
}

#[derive(Clone, Debug)]
pub struct CaseRecord {
    pub partition: String,
    pub event_time_us: Option<i64>,
    pub arrived_us: i64,
    pub key: Value,
    pub value: Value,
    pub pass: bool,
}

impl Case {
    /// Why a record is a reject, if it is one.
    pub fn reject_reason(&self, record: &CaseRecord) -> Option<RejectReason> {
        let Some(et) = record.event_time_us else { return Some(RejectReason::EventTime) };
        let future = self.max_future_us.is_some_and(|max| et - record.arrived_us > max);
        future.then_some(RejectReason::Future)
    }
}

/// A dropped contribution: item, window, lag.
pub type Dropped = (usize, Option<(i64, i64)>, i64);

/// The expected results. Rows of `changelog` and `metrics` have the group `[key]` and the values `[count, sum, min, max]`.
#[derive(Clone, Debug)]
pub struct Expect {
    pub changelog: Vec<Change>,
    /// As the last change of each row; `op`, `watermark_us` and `closing` mean nothing.
    pub metrics: Vec<Change>,
    pub dropped: Vec<Dropped>,
    pub rejected: Vec<(usize, RejectReason)>,
    pub filtered: usize,
}

/// What a run gives, to be compared with [`Expect`].
#[derive(Clone, Debug, Default)]
pub struct Actual {
    pub changelog: Vec<Change>,
    pub metrics: Vec<Change>,
    pub dropped: Vec<Dropped>,
    pub rejected: Vec<(usize, RejectReason)>,
    pub filtered: usize,
}

/// The directory of the cases.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// Every case: the files in the order of their names, then the generated ones.
pub fn all() -> Vec<Case> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let text = || std::fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => cases.push(parse(&serde_json::from_str(&text()).unwrap())),
            Some("ndjson") => cases.extend(text().lines().map(|line| parse(&serde_json::from_str(line).unwrap()))),
            _ => {}
        }
    }
    cases
}

/// Milliseconds to microseconds; what passes 64 bits is as good as infinite.
fn us(ms: &Json) -> Option<i64> {
    ms.as_i64().map(|ms| ms.saturating_mul(1000))
}

fn bounds(json: &Json) -> Option<(i64, i64)> {
    Some((us(json.get(0)?)?, us(json.get(1)?)?))
}

fn number(json: &Json, value_type: &DataType) -> Value {
    match (json, value_type) {
        (Json::Null, _) => Value::Null,
        (n, DataType::Double) => Value::Double(n.as_f64().unwrap()),
        (n, _) => Value::BigInt(n.as_i64().unwrap()),
    }
}

fn text(json: &Json) -> Value {
    json.as_str().map_or(Value::Null, |s| Value::Text(s.into()))
}

/// One case from its JSON.
pub fn parse(json: &Json) -> Case {
    let s = &json["settings"];
    let records = json["records"].as_array().unwrap();
    let value_type = if records.iter().any(|r| r["v"].is_f64()) { DataType::Double } else { DataType::BigInt };
    let size_us = us(&s["size"]).unwrap_or(0);
    let windows = match s["window"].as_str().unwrap() {
        "session" => Windows::Session { gap_us: us(&s["gap"]).unwrap() },
        _ => Windows::Hopping {
            size_us,
            slide_us: us(&s["slide"]).unwrap_or(size_us),
            offset_us: us(&s["offset"]).unwrap_or(0),
        },
    };
    let items = records.iter().map(|r| parse_item(r, &value_type)).collect();
    let e = &json["expect"];
    let rows = |name: &str| e[name].as_array().unwrap().iter().map(|row| parse_row(row, &value_type)).collect();
    let index = |json: &Json| usize::try_from(json.as_u64().unwrap()).unwrap();
    Case {
        name: json["name"].as_str().unwrap().to_owned(),
        windows,
        delay_us: us(&s["delay"]).unwrap(),
        horizon_us: us(&s["horizon"]),
        late_records: if s["late_records"] == "drop" { LateRecords::Drop } else { LateRecords::Window },
        watermarks: WatermarkSettings {
            scope: if s["scope"] == "partition" { LatenessScope::Partition } else { LatenessScope::Source },
            idle_timeout_us: us(&s["idle_timeout"]),
            granularity_us: us(&s["granularity"]).unwrap(),
            tick_us: us(&s["tick"]).unwrap(),
        },
        max_future_us: us(&s["max_future"]),
        partitions: s["partitions"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect(),
        bounded: s["bounded"].as_bool().unwrap_or(true),
        value_type: value_type.clone(),
        items,
        expect: Expect {
            changelog: rows("changelog"),
            metrics: rows("metrics"),
            dropped: e["dropped"]
                .as_array()
                .unwrap()
                .iter()
                .map(|d| (index(&d[0]), bounds(&d[1]), us(&d[2]).unwrap()))
                .collect(),
            rejected: e["rejected"].as_array().unwrap().iter().map(|r| (index(&r[0]), reason(&r[1]))).collect(),
            filtered: index(&e["filtered"]),
        },
    }
}

fn reason(json: &Json) -> RejectReason {
    serde_json::from_value(json.clone()).unwrap()
}

fn parse_item(r: &Json, value_type: &DataType) -> Item {
    if let Some(clock_us) = us(&r["tick"]) {
        return Item::Tick { clock_us };
    }
    let partition = r["p"].as_str().unwrap().to_owned();
    if r["end"] == true {
        return Item::End { partition };
    }
    Item::Record(CaseRecord {
        partition,
        event_time_us: us(&r["et"]),
        arrived_us: us(&r["at"]).unwrap(),
        key: text(&r["k"]),
        value: number(&r["v"], value_type),
        pass: r["pass"] != false,
    })
}

fn parse_row(row: &Json, value_type: &DataType) -> Change {
    let op = match row["op"].as_str() {
        Some("-D") => Op::Delete,
        Some("-U") => Op::UpdateBefore,
        Some("+U") => Op::UpdateAfter,
        _ => Op::Insert,
    };
    let window_us = bounds(&row["window"]);
    let watermark_us = us(&row["watermark"]).unwrap_or(0);
    let value = |name: &str| number(&row[name], value_type);
    Change {
        op,
        watermark_us,
        closing: false,
        revision: row["revision"].as_u64().unwrap(),
        late_count: row["late_count"].as_u64().unwrap(),
        window_us,
        group: [text(&row["key"])].into(),
        values: [number(&row["count"], &DataType::BigInt), value("sum"), value("min"), value("max")].into(),
    }
}

/// A change as one line, without what the files do not tell (`closing`).
fn line(c: &Change) -> String {
    let Change { op, watermark_us, revision, late_count, window_us, group, values, .. } = c;
    format!("{} at {watermark_us} {window_us:?} {group:?} revision {revision} late {late_count} {values:?}", op.name())
}

fn table_line(c: &Change) -> String {
    line(&Change { op: Op::Insert, watermark_us: 0, ..c.clone() })
}

/// Compares a run with what the case expects; the text says what differs first.
pub fn compare(case: &Case, actual: &Actual) -> Result<(), String> {
    let lines = |changes: &[Change], f: fn(&Change) -> String| changes.iter().map(f).collect::<Vec<_>>();
    let debug = |rows: &[Dropped]| rows.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>();
    let rejects = |rows: &[(usize, RejectReason)]| rows.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>();
    let e = &case.expect;
    let tables = [
        ("changelog", lines(&e.changelog, line), lines(&actual.changelog, line)),
        ("metrics", lines(&e.metrics, table_line), lines(&actual.metrics, table_line)),
        ("dropped", debug(&e.dropped), debug(&actual.dropped)),
        ("rejected", rejects(&e.rejected), rejects(&actual.rejected)),
        ("filtered", vec![e.filtered.to_string()], vec![actual.filtered.to_string()]),
    ];
    for (name, expected, found) in tables {
        let rows = expected.len().max(found.len());
        for row in 0..rows {
            if expected.get(row) != found.get(row) {
                let (case, expected, found) = (&case.name, expected.get(row), found.get(row));
                return Err(format!("{case}: {name} row {row}\n  expected {expected:?}\n  found    {found:?}"));
            }
        }
    }
    Ok(())
}

/// Columns of [`plans`]' table.
const COLUMNS: [&str; 6] = ["p", "et", "at", "k", "v", "pass"];

/// The values of [`plans`]' columns.
pub fn row(record: &CaseRecord) -> Vec<Value> {
    let CaseRecord { partition, event_time_us, arrived_us, key, value, pass } = record;
    let event = event_time_us.map_or(Value::Null, Value::Timestamp);
    let (partition, arrived) = (Value::Text(partition.as_str().into()), Value::Timestamp(*arrived_us));
    vec![partition, event, arrived, key.clone(), value.clone(), Value::Boolean(*pass)]
}

/// The case as a table and a view: `SELECT k, window_start, window_end, count(*), sum(v), min(v), max(v) … WHERE pass
/// GROUP BY k, window_start, window_end`, with the partitions named by a column and declared. `None` for sessions. The
/// published columns are the four aggregates alone, as in [`Expect`].
pub fn plans(case: &Case) -> Option<(TablePlan, ViewPlan)> {
    let Windows::Hopping { size_us, slide_us, offset_us } = case.windows else { return None };
    let types = [
        DataType::Text,
        DataType::Timestamp,
        DataType::Timestamp,
        DataType::Text,
        case.value_type.clone(),
        DataType::Boolean,
    ];
    let column = |(name, dtype): (&&str, &DataType)| ColumnPlan {
        name: (*name).into(),
        path: vec![(*name).into()],
        dtype: dtype.clone(),
    };
    let table = TablePlan {
        name: case.name.clone(),
        columns: COLUMNS.iter().zip(&types).map(column).collect(),
        event_time: Some(1),
        watermark: None,
        delay_us: Some(case.delay_us),
        policy: None,
        arrival_time: Some(2),
        partition: Some(0),
        partitions: case.partitions.clone(),
        scope: case.watermarks.scope,
        idle_timeout_us: case.watermarks.idle_timeout_us,
        granularity_us: case.watermarks.granularity_us,
        tick_us: case.watermarks.tick_us,
        max_future_us: case.max_future_us,
        late_records: case.late_records,
        on_error: OnError::Reject,
        rejects: None,
        time_unit_us: 1,
        source: SourcePlan::Stdin { format: Format::Json },
    };
    let value = || Expr::column(4, case.value_type.clone());
    let aggregate = |func| {
        let arg = (func != AggregateFunc::CountAll).then(value);
        let spec = AggregateSpec { func, arg: arg.as_ref().map(|a| a.dtype.clone()) };
        AggregatePlan { spec, arg, filter: None }
    };
    let functions = [AggregateFunc::CountAll, AggregateFunc::Sum, AggregateFunc::Min, AggregateFunc::Max];
    let aggregates: Vec<AggregatePlan> = functions.into_iter().map(aggregate).collect();
    let outputs: Vec<DataType> = aggregates.iter().map(|a| a.spec.output().unwrap()).collect();
    let windowed = WindowedPlan {
        window: WindowPlan { size_us, slide_us, offset_us: offset_us.rem_euclid(slide_us) },
        group: vec![Expr::column(3, DataType::Text)],
        select: (3..).zip(&outputs).map(|(i, dtype)| Expr::column(i, dtype.clone())).collect(),
        aggregates,
        having: None,
        first_stamp: false,
    };
    let names = ["count", "sum", "min", "max"].map(String::from);
    let view = ViewPlan {
        name: None,
        table: 0,
        filter: Some(Expr::column(5, DataType::Boolean)),
        kind: ViewKind::Windowed(windowed),
        output: names.into_iter().zip(outputs).collect(),
        horizon_us: case.horizon_us.map(|h| h.min(1 << 61)),
        late: None,
        spike_above: 1,
        sql: String::new(),
    };
    Some((table, view))
}
