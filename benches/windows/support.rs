//! Orders in memory, the queries over them, and a tight loop with the same hash table and the same rule of lateness.

use hashbrown::HashMap;
use slackwater::engine::ingest::TooLate;
use slackwater::engine::output::{Ending, Flow, Reject, RunOutput};
use slackwater::plan::Program;
use slackwater::sink::block::ChangeRun;
use slackwater::source::{DecodedBlock, LaneInfo, LaneReader, Next, Source, Turns};
use slackwater::sql::{BareSelectDefaults, plan};
use slackwater::types::{Column, ColumnData, DataType};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Records of a block.
const BLOCK: usize = 8192;

/// Event times in µs, keys, amounts in cents, in arrival order: 10,000 events a second, delays exponential with a mean of
/// 0.5 s, the last percent up to 20 s late.
pub struct Orders {
    pub event_time_us: Vec<i64>,
    pub key: Vec<i64>,
    pub amount: Vec<i64>,
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Orders {
    pub fn new(rows: u64, keys: u64) -> Orders {
        let mut arrivals: Vec<(i64, u64)> = (0..rows)
            .map(|i| {
                let unit = (mix(i) >> 11) as f64 / (1u64 << 53) as f64;
                let delay = if mix(i ^ 1 << 40).is_multiple_of(100) { unit * 20e6 } else { -(1.0 - unit).ln() * 0.5e6 };
                (i as i64 * 100 + delay as i64, i)
            })
            .collect();
        arrivals.sort_unstable();
        let start = 1_767_225_600_000_000;
        let order: Vec<u64> = arrivals.into_iter().map(|(_, i)| i).collect();
        Orders {
            event_time_us: order.iter().map(|i| start + *i as i64 * 100).collect(),
            key: order.iter().map(|i| (mix(*i ^ 2 << 40) % keys) as i64).collect(),
            amount: order.iter().map(|i| 100 + (mix(*i ^ 3 << 40) % 99_900) as i64).collect(),
        }
    }

    /// The records as decoded blocks of a table (customer_id, amount, event_time).
    pub fn blocks(&self) -> Vec<DecodedBlock> {
        let column =
            |dtype, values: &[i64]| Some(Column { dtype, data: ColumnData::I64(values.to_vec()), nulls: None });
        let rows = self.key.len();
        let count = rows.div_ceil(BLOCK);
        (0..count)
            .map(|b| {
                let range = b * BLOCK..rows.min((b + 1) * BLOCK);
                DecodedBlock {
                    index: b as u64,
                    starts_file: b == 0,
                    last: b + 1 == count,
                    lines: range.len() as u64,
                    rows: range.len(),
                    columns: vec![
                        column(DataType::BigInt, &self.key[range.clone()]),
                        column(DataType::BigInt, &self.amount[range.clone()]),
                        None,
                    ],
                    line: (0..range.len() as u32).collect(),
                    event_time_us: self.event_time_us[range].to_vec(),
                    ..DecodedBlock::default()
                }
            })
            .collect()
    }
}

/// A source that gives its blocks away, once.
pub struct Given {
    lanes: Vec<LaneInfo>,
    blocks: Mutex<Vec<DecodedBlock>>,
}

impl Given {
    pub fn source(blocks: Vec<DecodedBlock>) -> Arc<dyn Source> {
        let lane = LaneInfo { name: "memory".into(), files: Vec::new(), bytes: None, splittable: false };
        Arc::new(Given { lanes: vec![lane], blocks: Mutex::new(blocks) })
    }
}

struct GivenReader(std::vec::IntoIter<DecodedBlock>);

impl LaneReader for GivenReader {
    fn next_block(&mut self) -> slackwater::Result<Next> {
        Ok(self.0.next().map_or(Next::End, |block| Next::Block(Box::new(block))))
    }
}

impl Source for Given {
    fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }
    fn open(&self, _lane: usize, _turns: Turns) -> Box<dyn LaneReader> {
        Box::new(GivenReader(std::mem::take(&mut *self.blocks.lock().unwrap()).into_iter()))
    }
}

/// A program over a table (customer_id, amount, event_time) with a delay of 5 s; `path` is its file.
pub fn program(path: &str, window: &str, horizon: Option<&str>, key: bool) -> Arc<Program> {
    let (select, group) = if key { ("customer_id, ", "customer_id, ") } else { ("", "") };
    let text = format!(
        "CREATE TABLE orders (customer_id BIGINT, amount BIGINT, event_time TIMESTAMP,
           WATERMARK FOR event_time AS event_time - INTERVAL '5 seconds')
         WITH (connector = 'file', path = '{path}');
         SELECT {select}window_start, window_end, count(*) AS orders, sum(amount) AS revenue
         FROM {window} GROUP BY {group}window_start, window_end"
    );
    let horizon_us = horizon.map(|h| slackwater::time::parse_duration(h).unwrap());
    Arc::new(plan("bench", &text, &BareSelectDefaults { horizon_us, late: None }).unwrap())
}

/// What a run answers, summed up: rows, orders and revenue of the closings, corrections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: u64,
    pub orders: i64,
    pub revenue: i64,
    pub corrections: u64,
}

/// Sums up and drops what it is given.
pub struct Summing(pub Arc<Mutex<Answer>>);

impl RunOutput for Summing {
    fn publish(&mut self, _view: usize, changes: ChangeRun) -> slackwater::Result<Flow> {
        let mut answer = self.0.lock().unwrap();
        for (block, row) in changes.rows() {
            let head = block.head(row);
            if head.op.is_retraction() {
                continue;
            }
            if head.closing {
                answer.rows += 1;
                if let [
                    ..,
                    Column { data: ColumnData::I64(orders), .. },
                    Column { data: ColumnData::I64(revenue), .. },
                ] = block.values.as_slice()
                {
                    answer.orders += orders[row];
                    answer.revenue += revenue[row];
                }
            } else {
                answer.corrections += 1;
            }
        }
        Ok(Flow::Open)
    }
    fn advance(&mut self, _view: usize, _watermark_us: i64) -> slackwater::Result<()> {
        Ok(())
    }
    fn too_late(&mut self, _view: usize, _rows: Vec<TooLate>) -> slackwater::Result<()> {
        Ok(())
    }
    fn rejects(&mut self, _table: usize, _rejects: Vec<Reject>) -> slackwater::Result<()> {
        Ok(())
    }
    fn prepare(&mut self, _ending: Ending) -> slackwater::Result<()> {
        Ok(())
    }
}

/// Runs a program over sources and sums up its answer.
pub fn run(program: &Arc<Program>, sources: Vec<Arc<dyn Source>>, workers: usize) -> Answer {
    let answer: Arc<Mutex<Answer>> = Arc::default();
    let options = slackwater::dataflow::RunOptions { workers, ..Default::default() };
    slackwater::dataflow::run(Arc::clone(program), sources, &options, Box::new(Summing(Arc::clone(&answer)))).unwrap();
    *answer.lock().unwrap()
}

/// The plain loop: per-record watermark (delay 5 s, granularity 1 s), a hash table per window, late records dropped.
pub fn tight_loop(orders: &Orders, size_us: i64, slide_us: i64) -> Answer {
    const DELAY: i64 = 5_000_000;
    const GRANULARITY: i64 = 1_000_000;
    type Window = HashMap<i64, (i64, i64), foldhash::fast::RandomState>;
    let mut windows: BTreeMap<i64, Window> = BTreeMap::new();
    let mut answer = Answer::default();
    let (mut newest, mut watermark) = (i64::MIN, i64::MIN);
    let mut close = |windows: &mut BTreeMap<i64, Window>, watermark: i64| {
        while let Some(entry) = windows.first_entry().filter(|e| *e.key() <= watermark) {
            for (orders, revenue) in entry.remove().into_values() {
                answer.rows += 1;
                answer.orders += orders;
                answer.revenue += revenue;
            }
        }
    };
    for ((et, key), amount) in orders.event_time_us.iter().zip(&orders.key).zip(&orders.amount) {
        if *et > newest {
            newest = *et;
            let w = newest - DELAY;
            if w >= watermark.saturating_add(GRANULARITY) || watermark == i64::MIN {
                watermark = w - w.rem_euclid(GRANULARITY);
                close(&mut windows, watermark);
            }
        }
        let mut end = et - et.rem_euclid(slide_us) + size_us;
        while end > *et && end > watermark {
            let group = windows.entry(end).or_default().entry(*key).or_default();
            group.0 += 1;
            group.1 += amount;
            end -= slide_us;
        }
    }
    close(&mut windows, i64::MAX);
    answer
}
