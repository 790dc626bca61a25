//! The built-in generator: a seeded stream of orders with controllable disorder.
//!
//! **What.** Event `i` of `n` has everything it will ever have from `(seed, i)` alone, through a counter-based hash
//! (splitmix64's finaliser over a Weyl sequence, Steele, Lea and Flood 2014), so that any worker can compute any record
//! and the same settings give the same bytes on every platform (the one transcendental function is `libm::log`):
//!
//! * event time `start + i / rate`; customer and amount uniform; times are floored to milliseconds, as real producers do;
//! * delay: exponential with mean `delay_mean`, or, for a `late_share` of the records, uniform in `[0, late_max)`;
//!   arrival time = event time + delay;
//! * partition: of every run of `P` records each partition gets one, the run being rotated by a hash, so that the
//!   records of one partition can be enumerated without looking at the others';
//! * silent spells: spell `s` (from 1) begins `s · silent_every` after the start, when partition `(s − 1) mod P` falls silent
//!   for `silent_for`. What would have arrived meanwhile arrives after the spell, in its order and sixteen times as fast,
//!   so that no record is lost. A spell lasts at most 15/16 of the time between two of the same partition.
//!
//! **Order.** A partition's records come in order of (arrival time, `i`). Nothing that is still to be generated can arrive
//! before its own event time, hence before the event time of the next `i`: everything pending up to there is final.
//!
//! **Cost.** About 50 ns a record; memory for the records on their way, that is about `rate × mean delay` (16 bytes each).

use super::{DecodedBlock, LaneInfo, LaneReader, Next, Source, Turns};
use crate::error::{Error, Result};
use crate::plan::{GeneratorPlan, TablePlan};
use crate::time::{EVENT_TIME_MAX_US, EVENT_TIME_MIN_US, format_timestamp};
use crate::types::{Column, ColumnData, DataType, TextData};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Records of a block.
const BLOCK_ROWS: usize = 8_192;
/// How much faster than it came in the backlog of a silent spell is delivered.
const CATCH_UP: i64 = 16;
/// Step of the Weyl sequence: 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Smallest and largest amount, in hundredths.
const AMOUNT_CENTS: (u64, u64) = (100, 99_999);

/// What a hash is for; each purpose has a sequence of its own.
#[derive(Clone, Copy)]
enum Purpose {
    Customer = 1,
    Amount = 2,
    IsLate = 3,
    Delay = 4,
    Partition = 5,
}

/// splitmix64's finaliser: a bijection of 64-bit words without visible pattern.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a hash to `0..n` by its high bits (`n > 0`).
fn below(hash: u64, n: u64) -> u64 {
    ((u128::from(hash) * u128::from(n)) >> 64) as u64
}

/// Maps a hash to a double in `(0, 1]`, of 53 random bits.
fn unit(hash: u64) -> f64 {
    ((hash >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The settings when nothing is said: a million orders at 10,000 a second of 10,000 customers in one partition, mean
/// delay 2 s, one in a hundred late by up to 120 s, no silent spells, from 2026-01-01T00:00:00Z.
pub fn default_plan() -> GeneratorPlan {
    GeneratorPlan {
        seed: 1,
        rows: 1_000_000,
        rate: 10_000.0,
        keys: 10_000,
        partitions: 1,
        delay_mean_us: 2_000_000,
        late_share: 0.01,
        late_max_us: 120_000_000,
        silent_every_us: 0,
        silent_for_us: 0,
        start_us: 1_767_225_600_000_000,
    }
}

/// The columns that the generator can fill, with their own types.
pub fn columns() -> [(&'static str, DataType); 6] {
    [
        ("order_id", DataType::BigInt),
        ("customer_id", DataType::BigInt),
        ("amount", DataType::Decimal { precision: 12, scale: 2 }),
        ("event_time", DataType::Timestamp),
        ("arrival_time", DataType::Timestamp),
        ("partition", DataType::Text),
    ]
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
    let times = [
        ("delay_mean", plan.delay_mean_us),
        ("late_max", plan.late_max_us),
        ("silent_every", plan.silent_every_us),
        ("silent_for", plan.silent_for_us),
    ];
    for (name, us) in times {
        if us < 0 {
            return bad(name, "a duration of at least 0", crate::time::format_duration(us));
        }
    }
    let orders = Orders::new(plan);
    // 40 mean delays are more than 53 random bits can ask for.
    let delay_max_us = plan.delay_mean_us.saturating_mul(40).max(plan.late_max_us);
    let end_us = orders
        .event_us(plan.rows)
        .saturating_add(delay_max_us)
        .saturating_add(plan.silent_for_us.saturating_add(plan.silent_for_us / CATCH_UP));
    if plan.start_us < EVENT_TIME_MIN_US || end_us > EVENT_TIME_MAX_US {
        return Err(Error::usage("generator: the stream leaves the supported range of times, years -9999 to 9999")
            .with_hint("fewer rows, a higher rate, an earlier start or shorter delays"));
    }
    Ok(())
}

/// Checks that every column of the table is one that the generator can fill.
///
/// # Errors
/// Names the column.
pub fn check_table(table: &TablePlan) -> Result<()> {
    for column in &table.columns {
        let Some(field) = Field::named(&column.name) else {
            let names: Vec<_> = columns().iter().map(|(name, _)| *name).collect();
            return Err(Error::usage(format!(
                "table \"{}\": the generator has no column \"{}\"",
                table.name, column.name
            ))
            .with_hint(format!("it has {}", names.join(", "))));
        };
        if !field.fits(&column.dtype) {
            return Err(Error::usage(format!(
                "table \"{}\": the generator cannot fill column \"{}\" as {}",
                table.name, column.name, column.dtype
            ))
            .with_hint(format!("declare it as {}", field.dtype())));
        }
    }
    Ok(())
}

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number in event-time order, from 0.
    pub order_id: u64,
    /// Customer, from 0 to `keys − 1`.
    pub customer_id: u64,
    /// Amount in hundredths, 100 to 99,999.
    pub amount_cents: u64,
    /// Event time, in whole milliseconds given as microseconds.
    pub event_time_us: i64,
    /// Arrival time, in whole milliseconds given as microseconds; never before the event time.
    pub arrival_time_us: i64,
    /// Partition, from 0 to `partitions − 1`.
    pub partition: u32,
}

/// The stream as a function of `i`: the hash sequences of one seed and the settings, brought into their bounds.
#[derive(Clone, Debug)]
struct Orders {
    /// Start of each purpose's sequence.
    bases: [u64; 6],
    rows: u64,
    us_per_record: f64,
    keys: u64,
    partitions: u64,
    delay_mean_us: f64,
    late_share: f64,
    late_max_us: f64,
    silent_every_us: i64,
    silent_for_us: i64,
    start_us: i64,
}

impl Orders {
    /// Settings out of bounds are brought to the nearest sensible ones: [`check_plan`] has refused them before.
    fn new(plan: &GeneratorPlan) -> Orders {
        let mut bases = [0; 6];
        for (purpose, base) in (0u64..).zip(&mut bases) {
            *base = mix(plan.seed.wrapping_add(mix(purpose.wrapping_mul(GOLDEN))));
        }
        let partitions = u64::from(plan.partitions.max(1));
        let silent_every_us = plan.silent_every_us.max(0);
        let turn_us = silent_every_us.saturating_mul(partitions as i64);
        Orders {
            bases,
            rows: plan.rows,
            us_per_record: if plan.rate > 0.0 { 1e6 / plan.rate } else { 100.0 },
            keys: plan.keys.max(1),
            partitions,
            delay_mean_us: plan.delay_mean_us.max(0) as f64,
            late_share: plan.late_share,
            late_max_us: plan.late_max_us.max(0) as f64,
            silent_every_us,
            silent_for_us: plan.silent_for_us.clamp(0, turn_us - turn_us / CATCH_UP),
            start_us: plan.start_us,
        }
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many bases as purposes, and one")]
    fn hash(&self, purpose: Purpose, i: u64) -> u64 {
        mix(self.bases[purpose as usize].wrapping_add(i.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// Event time of record `i` in microseconds, not floored; never falls as `i` grows.
    fn event_exact_us(&self, i: u64) -> i64 {
        self.start_us.saturating_add((i as f64 * self.us_per_record) as i64)
    }

    fn event_us(&self, i: u64) -> i64 {
        floor_to_ms(self.event_exact_us(i))
    }

    fn arrival_us(&self, i: u64, partition: u64) -> i64 {
        let u = unit(self.hash(Purpose::Delay, i));
        let delay_us = if self.late_share > 0.0 && unit(self.hash(Purpose::IsLate, i)) <= self.late_share {
            (1.0 - u) * self.late_max_us
        } else {
            -libm::log(u) * self.delay_mean_us
        };
        let arrival_us = self.event_exact_us(i).saturating_add(delay_us as i64);
        floor_to_ms(self.after_silence(arrival_us, partition))
    }

    /// The arrival time itself, or when it falls into a silent spell of the partition, a time after the spell.
    fn after_silence(&self, arrival_us: i64, partition: u64) -> i64 {
        if self.silent_every_us == 0 || self.silent_for_us == 0 {
            return arrival_us;
        }
        let first_us = self.start_us.saturating_add(self.silent_every_us.saturating_mul(partition as i64 + 1));
        let since_us = arrival_us.saturating_sub(first_us);
        if since_us < 0 {
            return arrival_us;
        }
        let into_us = since_us % self.silent_every_us.saturating_mul(self.partitions as i64);
        if into_us >= self.silent_for_us {
            return arrival_us;
        }
        arrival_us.saturating_add(self.silent_for_us - into_us + into_us / CATCH_UP)
    }

    /// Which partition record `i` belongs to.
    fn partition_of(&self, i: u64) -> u64 {
        if self.partitions == 1 {
            return 0;
        }
        let turn = below(self.hash(Purpose::Partition, i / self.partitions), self.partitions);
        (i % self.partitions + turn) % self.partitions
    }

    /// The one record of run `run` that belongs to the partition.
    fn member(&self, run: u64, partition: u64) -> u64 {
        if self.partitions == 1 {
            return run;
        }
        let turn = below(self.hash(Purpose::Partition, run), self.partitions);
        run.saturating_mul(self.partitions).saturating_add((partition + self.partitions - turn) % self.partitions)
    }

    fn customer(&self, i: u64) -> u64 {
        below(self.hash(Purpose::Customer, i), self.keys)
    }

    fn amount_cents(&self, i: u64) -> u64 {
        AMOUNT_CENTS.0 + below(self.hash(Purpose::Amount, i), AMOUNT_CENTS.1 - AMOUNT_CENTS.0 + 1)
    }
}

fn floor_to_ms(us: i64) -> i64 {
    us.saturating_sub(us.rem_euclid(1_000))
}

/// The orders of one partition, or of all of them, by (arrival time, order id).
#[derive(Clone, Debug)]
pub struct OrderStream {
    orders: Orders,
    partition: Option<u64>,
    /// Next record (all partitions) or run (one partition) to generate.
    next: u64,
    /// Records or runs in all.
    end: u64,
    /// Generated, not final: (arrival, `i`).
    pending: Vec<(i64, u64)>,
    /// Final, in reverse order, so that the next is the last.
    ready: Vec<(i64, u64)>,
}

impl OrderStream {
    /// The orders of partition `partition`, or of all partitions merged by arrival time.
    pub fn new(plan: &GeneratorPlan, partition: Option<u32>) -> OrderStream {
        let orders = Orders::new(plan);
        let end = if partition.is_some() { orders.rows.div_ceil(orders.partitions) } else { orders.rows };
        OrderStream {
            partition: partition.map(u64::from),
            next: 0,
            end,
            pending: Vec::new(),
            ready: Vec::new(),
            orders,
        }
    }

    /// Generates further records until some are final or all are.
    fn fill(&mut self) {
        while self.ready.is_empty() && (self.next < self.end || !self.pending.is_empty()) {
            // At least as many as are pending, so that looking through those costs a constant a record.
            let batch = self.pending.len().max(BLOCK_ROWS) as u64;
            let stop = self.next.saturating_add(batch).min(self.end);
            for step in self.next..stop {
                let (i, partition) = match self.partition {
                    Some(partition) => (self.orders.member(step, partition), partition),
                    None => (step, self.orders.partition_of(step)),
                };
                if i < self.orders.rows {
                    self.pending.push((self.orders.arrival_us(i, partition), i));
                }
            }
            self.next = stop;
            if stop == self.end {
                std::mem::swap(&mut self.ready, &mut self.pending);
            } else {
                let least = if self.partition.is_some() { stop.saturating_mul(self.orders.partitions) } else { stop };
                let final_us = self.orders.event_us(least);
                let ready = &mut self.ready;
                self.pending.retain(|&(arrival_us, i)| {
                    let keep = arrival_us >= final_us;
                    if !keep {
                        ready.push((arrival_us, i));
                    }
                    keep
                });
            }
            self.ready.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Appends up to `rows` records to `out`; returns whether more follow.
    fn take_into(&mut self, rows: usize, out: &mut Vec<(i64, u64)>) -> bool {
        while out.len() < rows {
            self.fill();
            if self.ready.is_empty() {
                return false;
            }
            let from = self.ready.len().saturating_sub(rows - out.len());
            out.extend(self.ready.drain(from..).rev());
        }
        self.fill();
        !self.ready.is_empty()
    }
}

impl Iterator for OrderStream {
    type Item = Order;

    fn next(&mut self) -> Option<Order> {
        if self.ready.is_empty() {
            self.fill();
        }
        let (arrival_time_us, i) = self.ready.pop()?;
        Some(Order {
            order_id: i,
            customer_id: self.orders.customer(i),
            amount_cents: self.orders.amount_cents(i),
            event_time_us: self.orders.event_us(i),
            arrival_time_us,
            partition: self.partition.unwrap_or_else(|| self.orders.partition_of(i)) as u32,
        })
    }
}

/// The columns by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    OrderId,
    CustomerId,
    Amount,
    EventTime,
    ArrivalTime,
    Partition,
}

impl Field {
    fn named(name: &str) -> Option<Field> {
        Some(match name {
            "order_id" => Field::OrderId,
            "customer_id" => Field::CustomerId,
            "amount" => Field::Amount,
            "event_time" => Field::EventTime,
            "arrival_time" => Field::ArrivalTime,
            "partition" => Field::Partition,
            _ => return None,
        })
    }

    fn dtype(self) -> DataType {
        match self {
            Field::OrderId | Field::CustomerId => DataType::BigInt,
            Field::Amount => DataType::Decimal { precision: 12, scale: 2 },
            Field::EventTime | Field::ArrivalTime => DataType::Timestamp,
            Field::Partition => DataType::Text,
        }
    }

    /// Whether the field can be given as the type: its own, or one that a reader of text would accept for it.
    fn fits(self, dtype: &DataType) -> bool {
        match (self, dtype) {
            (Field::OrderId | Field::CustomerId, DataType::BigInt | DataType::Text | DataType::Double)
            | (Field::Amount, DataType::Double | DataType::Text)
            | (Field::EventTime | Field::ArrivalTime, DataType::Timestamp)
            | (Field::Partition, DataType::Text) => true,
            // Every amount has at most three digits before the point.
            (Field::Amount, DataType::Decimal { precision, scale }) => {
                *scale >= 2 && precision.saturating_sub(*scale) >= 3
            }
            _ => false,
        }
    }
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
    let fields = table.columns.iter().map(|c| (Field::named(&c.name), c.dtype.clone())).collect();
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
            stream: OrderStream::new(&self.plan, partition),
            layout: Arc::clone(&self.layout),
            lane: lane as u32,
            index: 0,
            ended: false,
        })
    }
}

struct Reader {
    stream: OrderStream,
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
        let batch = Batch { orders: &self.stream.orders, partition: self.stream.partition, records: &records };
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

/// Some records of a stream, to be made into columns.
struct Batch<'a> {
    orders: &'a Orders,
    partition: Option<u64>,
    records: &'a [(i64, u64)],
}

impl Batch<'_> {
    /// A time field; the event time for want of another.
    fn times(&self, field: Option<Field>) -> Vec<i64> {
        match field {
            Some(Field::ArrivalTime) => self.records.iter().map(|r| r.0).collect(),
            _ => self.records.iter().map(|r| self.orders.event_us(r.1)).collect(),
        }
    }

    fn partition_of(&self, i: u64) -> u64 {
        self.partition.unwrap_or_else(|| self.orders.partition_of(i))
    }

    /// A field as whole numbers: ids, cents, microseconds.
    fn integers(&self, field: Field) -> Vec<i64> {
        let ids = self.records.iter().map(|r| r.1);
        match field {
            Field::OrderId => ids.map(|i| i as i64).collect(),
            Field::CustomerId => ids.map(|i| self.orders.customer(i) as i64).collect(),
            Field::Amount => ids.map(|i| self.orders.amount_cents(i) as i64).collect(),
            Field::EventTime | Field::ArrivalTime => self.times(Some(field)),
            Field::Partition => ids.map(|i| self.partition_of(i) as i64).collect(),
        }
    }

    /// A field as a column of the type; NULLs if it does not fit.
    fn column(&self, field: Option<Field>, dtype: &DataType) -> Column {
        let Some(field) = field.filter(|field| field.fits(dtype)) else {
            return Column::constant(dtype.clone(), &crate::types::Value::Null, self.records.len());
        };
        let numbers = self.integers(field);
        let data = match dtype {
            DataType::Double if field == Field::Amount => {
                ColumnData::F64(numbers.iter().map(|&v| v as f64 / 100.0).collect())
            }
            DataType::Double => ColumnData::F64(numbers.iter().map(|&v| v as f64).collect()),
            DataType::Decimal { scale, .. } => {
                let unit = 10i128.saturating_pow(u32::from(scale.saturating_sub(2)));
                ColumnData::I128(numbers.iter().map(|&v| i128::from(v).saturating_mul(unit)).collect())
            }
            DataType::Text => {
                let mut text = TextData::default();
                let mut one = String::new();
                for &number in &numbers {
                    one.clear();
                    write_text(field, number, &mut one);
                    text.push(&one);
                }
                ColumnData::Text(text)
            }
            _ => ColumnData::I64(numbers),
        };
        Column { dtype: dtype.clone(), data, nulls: None }
    }

    /// The partition of each record by the values of a field, and their names in order of appearance.
    fn dictionary(&self, field: Option<Field>) -> (Vec<u32>, Vec<String>) {
        let field = field.unwrap_or(Field::Partition);
        let mut known: HashMap<i64, u32> = HashMap::new();
        let mut names = Vec::new();
        let rows = self.integers(field).into_iter().map(|number| {
            *known.entry(number).or_insert_with(|| {
                let mut name = String::new();
                write_text(field, number, &mut name);
                names.push(name);
                names.len() as u32 - 1
            })
        });
        (rows.collect(), names)
    }
}

/// A field's number as text, as `slackwater gen` writes it.
fn write_text(field: Field, number: i64, out: &mut String) {
    match field {
        Field::Amount => {
            out.push_str(itoa::Buffer::new().format(number / 100));
            out.push('.');
            let cents = number % 100;
            if cents < 10 {
                out.push('0');
            }
            out.push_str(itoa::Buffer::new().format(cents));
        }
        Field::EventTime | Field::ArrivalTime => format_timestamp(number, out),
        Field::OrderId | Field::CustomerId | Field::Partition => out.push_str(itoa::Buffer::new().format(number)),
    }
}

#[cfg(test)]
mod tests;
