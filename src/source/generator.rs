//! The built-in generator: seeded streams with controllable disorder.
//!
//! **What.** Record `i` of `n` has everything it will ever have from `(seed, i)` alone, through a counter-based hash
//! (`seeded`), so that any worker can compute any record and the same settings give the same bytes on every platform (the
//! transcendental functions are `libm::log` and `libm::exp`). What a record holds is the *workload*: orders
//! (`orders`: customer and amount, both uniform) or the events of NEXMark's auction house (`nexmark`). When it arrives is the
//! same for all (`arrivals`):
//!
//! * event time `start + i / rate`; times are floored to milliseconds, as real producers do;
//! * delay: exponential with mean `delay_mean`, or, for a `late_share` of the records, uniform in `[0, late_max)`;
//!   or else as `delay_quantiles` say; for a share of the customers, `delayed_keys`, `key_delay` more; arrival time = event time +
//!   delay;
//! * partition: of every run of `P` records each partition gets one, the run being rotated by a hash, so that the
//!   records of one partition can be enumerated without looking at the others';
//! * silent spells: spell `s` (from 1) begins `s · silent_every` after the start, when partition `(s − 1) mod P` falls silent
//!   for `silent_for`. What would have arrived meanwhile arrives after the spell, in its order and sixteen times as fast,
//!   so that no record is lost. A spell lasts at most 15/16 of the time between two of the same partition.
//!
//! **Order.** A partition's records come in order of (arrival time, `i`). Nothing that is still to be generated can arrive
//! before its own event time, hence before the event time of the next `i`: everything pending up to there is final.
//!
//! **Cost.** About 50 ns an order; of NEXMark by the columns that are wanted, at most about 0.7 µs a record. Memory for the
//! records on their way, that is about `rate × mean delay` (16 bytes each).

use super::{DecodedBlock, LaneInfo, LaneReader, Next, Source, Turns};
use crate::error::{Error, Result};
use crate::plan::{GeneratorPlan, TablePlan, Workload};
use crate::time::{EVENT_TIME_MAX_US, EVENT_TIME_MIN_US};
use crate::types::DataType;
use arrivals::{ArrivalStream, Arrivals};
use batch::{Batch, Contents};
use std::collections::BTreeSet;
use std::sync::Arc;

mod arrivals;
mod batch;
mod delays;
mod fields;
mod nexmark;
mod orders;
mod seeded;

pub use arrivals::Arrival;
pub use delays::{parse_quantiles, show_quantiles};
pub use fields::Field;
pub use nexmark::{NexmarkStream, NexmarkValue};
pub use orders::{Order, OrderStream};

/// Records of a block.
const BLOCK_ROWS: usize = 8_192;
/// How much faster than it came in the backlog of a silent spell is delivered.
const CATCH_UP: i64 = 16;

/// The settings when nothing is said: a million orders at 10,000 a second of 10,000 customers in one partition, mean
/// delay 2 s, one in a hundred late by up to 120 s, no silent spells, from 2026-01-01T00:00:00Z.
pub fn default_plan() -> GeneratorPlan {
    GeneratorPlan {
        workload: Workload::Orders,
        seed: 1,
        rows: 1_000_000,
        rate: 10_000.0,
        keys: 10_000,
        partitions: 1,
        delay_mean_us: 2_000_000,
        late_share: 0.01,
        late_max_us: 120_000_000,
        delay_quantiles: Vec::new(),
        delayed_keys: 0.0,
        key_delay_us: 0,
        silent_every_us: 0,
        silent_for_us: 0,
        start_us: 1_767_225_600_000_000,
    }
}

/// The columns that the generator can fill, with their own types.
pub fn columns(workload: Workload) -> Vec<(&'static str, DataType)> {
    Field::of(workload).iter().map(|field| (field.name(), field.dtype())).collect()
}

/// Checks the settings.
///
/// # Errors
/// Names the first setting that is out of its bounds.
pub fn check_plan(plan: &GeneratorPlan) -> Result<()> {
    let bad = |name: &str, wanted: &str, found: String| {
        Err(Error::usage(format!("generator: expected {wanted} for \"{name}\", found {found}")))
    };
    if !(plan.rate > 0.0 && plan.rate <= 1e9) {
        return bad("rate", "records a second above 0 and at most 1000000000", plan.rate.to_string());
    }
    if plan.keys == 0 {
        return bad("keys", "at least 1", plan.keys.to_string());
    }
    if plan.partitions == 0 || plan.partitions > 65_536 {
        return bad("partitions", "1 to 65536", plan.partitions.to_string());
    }
    if !(0.0..=1.0).contains(&plan.late_share) {
        return bad("late_share", "a share from 0 to 1", plan.late_share.to_string());
    }
    if !(0.0..=1.0).contains(&plan.delayed_keys) {
        return bad("delayed_keys", "a share from 0 to 1", plan.delayed_keys.to_string());
    }
    delays::check_quantiles(&plan.delay_quantiles)
        .map_err(|message| Error::usage(format!("generator: \"delay_quantiles\": {message}")))?;
    let times = [
        ("delay_mean", plan.delay_mean_us),
        ("late_max", plan.late_max_us),
        ("key_delay", plan.key_delay_us),
        ("silent_every", plan.silent_every_us),
        ("silent_for", plan.silent_for_us),
    ];
    for (name, us) in times {
        if us < 0 {
            return bad(name, "a duration of at least 0", crate::time::format_duration(us));
        }
    }
    let arrivals = Arrivals::new(plan);
    // 40 mean delays are more than 53 random bits can ask for.
    let delay_max_us = plan.delay_mean_us.saturating_mul(40).max(plan.late_max_us);
    let delay_max_us =
        plan.delay_quantiles.last().map_or(delay_max_us, |(us, _)| *us).saturating_add(plan.key_delay_us);
    let end_us = arrivals
        .event_us(plan.rows)
        .saturating_add(delay_max_us)
        .saturating_add(plan.silent_for_us.saturating_add(plan.silent_for_us / CATCH_UP));
    if plan.start_us < EVENT_TIME_MIN_US || end_us > EVENT_TIME_MAX_US {
        return Err(Error::usage("generator: the stream leaves the supported range of times, years -9999 to 9999")
            .with_hint("fewer rows, a higher rate, an earlier start or shorter delays"));
    }
    Ok(())
}

/// Checks that every column of the table is one that the generator can fill, and those that rule time and partition are
/// ones that every record has.
///
/// # Errors
/// Names the column.
pub fn check_table(workload: Workload, table: &TablePlan) -> Result<()> {
    let refused = |message: String| Error::usage(format!("table \"{}\": {message}", table.name));
    for (at, column) in table.columns.iter().enumerate() {
        let Some(field) = Field::named(workload, &column.name) else {
            let names: Vec<_> = Field::of(workload).iter().map(|field| field.name()).collect();
            return Err(refused(format!("the generator has no column \"{}\"", column.name))
                .with_hint(format!("it has {}", names.join(", "))));
        };
        if !field.fits(&column.dtype) {
            return Err(refused(format!("the generator cannot fill column \"{}\" as {}", column.name, column.dtype))
                .with_hint(format!("declare it as {}", field.dtype())));
        }
        let rules = [table.event_time, table.arrival_time, table.partition].contains(&Some(at));
        if rules && !field.always() {
            return Err(refused(format!("not every record has a value in column \"{}\"", column.name))
                .with_hint("times and partitions need a column that all kinds of records have"));
        }
    }
    Ok(())
}

/// Opens the generator for the table: one lane per partition, named `0`, `1`, …, or, if a column names the partition,
/// one lane with the records of all partitions by arrival time, just as `slackwater gen --partition-column` writes them.
///
/// `wanted` are the table columns to fill. Plan and table have passed [`check_plan`] and [`check_table`].
pub fn open(plan: &GeneratorPlan, table: &TablePlan, wanted: &BTreeSet<usize>) -> Arc<dyn Source> {
    let lane = |name: String| LaneInfo { name, files: Vec::new(), bytes: None, splittable: false };
    let lanes = if table.partition.is_some() {
        vec![lane("generator".into())]
    } else {
        (0..plan.partitions.max(1)).map(|p| lane(p.to_string())).collect()
    };
    let fields = table.columns.iter().map(|c| (Field::named(plan.workload, &c.name), c.dtype.clone())).collect();
    Arc::new(Generator {
        plan: plan.clone(),
        lanes,
        layout: Arc::new(Layout {
            columns: fields,
            wanted: wanted.clone(),
            event_time: table.event_time,
            arrival_time: table.arrival_time,
            partition: table.partition,
        }),
    })
}

/// What the table asks for.
struct Layout {
    columns: Vec<(Option<Field>, DataType)>,
    wanted: BTreeSet<usize>,
    event_time: Option<usize>,
    arrival_time: Option<usize>,
    partition: Option<usize>,
}

struct Generator {
    plan: GeneratorPlan,
    lanes: Vec<LaneInfo>,
    layout: Arc<Layout>,
}

impl Source for Generator {
    fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }

    fn open(&self, lane: usize, _turns: Turns) -> Box<dyn LaneReader> {
        let partition = self.layout.partition.is_none().then_some(lane as u32);
        Box::new(Reader {
            contents: Contents::new(&self.plan),
            stream: ArrivalStream::new(&self.plan, partition),
            layout: Arc::clone(&self.layout),
            lane: lane as u32,
            index: 0,
            ended: false,
        })
    }
}

struct Reader {
    contents: Contents,
    stream: ArrivalStream,
    layout: Arc<Layout>,
    lane: u32,
    index: u64,
    ended: bool,
}

impl LaneReader for Reader {
    fn next_block(&mut self) -> Result<Next> {
        if self.ended {
            return Ok(Next::End);
        }
        let mut records = Vec::with_capacity(BLOCK_ROWS);
        let more = self.stream.take_into(BLOCK_ROWS, &mut records);
        self.ended = !more;
        let mut block = DecodedBlock {
            lane: self.lane,
            index: self.index,
            starts_file: self.index == 0,
            last: self.ended,
            lines: records.len() as u64,
            rows: records.len(),
            line: (0..records.len() as u32).collect(),
            ..DecodedBlock::default()
        };
        self.index += 1;
        let batch = Batch {
            contents: &self.contents,
            arrivals: &self.stream.arrivals,
            partition: self.stream.partition,
            records: &records,
        };
        let times = |column: usize| batch.times(self.layout.columns.get(column).and_then(|(field, _)| *field));
        block.event_time_us = self.layout.event_time.map(times).unwrap_or_default();
        block.arrived_us = self.layout.arrival_time.map(times);
        if let Some((field, _)) = self.layout.partition.and_then(|column| self.layout.columns.get(column)) {
            let (partition, names) = batch.dictionary(*field);
            block.partition = Some(partition);
            block.partition_names = names;
        }
        block.columns = (self.layout.columns.iter().enumerate())
            .map(|(column, (field, dtype))| self.layout.wanted.contains(&column).then(|| batch.column(*field, dtype)))
            .collect();
        Ok(Next::Block(Box::new(block)))
    }
}

#[cfg(test)]
mod tests;
