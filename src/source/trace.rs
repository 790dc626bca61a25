//! A source of records already in memory, with one lane per partition: for tests and for programs that hold a recorded
//! trace. It can end partitions, let time pass without records, and stop without an end of input.

use super::{DecodedBlock, LaneInfo, LaneReader, Next, RejectedRecord, Source, Turns};
use crate::error::Result;
use crate::plan::TablePlan;
use crate::record::RejectReason;
use crate::types::{Column, Value};
use std::sync::Arc;

/// One step of a trace, in arrival order.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceItem {
    /// A record: index of its partition and one value per table column. Event and arrival time are taken from their
    /// columns.
    Record {
        /// Index of the partition.
        partition: usize,
        /// A value per table column.
        values: Vec<Value>,
    },
    /// A partition ends.
    End {
        /// Index of the partition.
        partition: usize,
    },
    /// The arrival clock reaches this time, µs.
    Clock {
        /// Microseconds since 1970.
        arrived_us: i64,
    },
}

/// The source. See the module's text.
pub struct TraceSource {
    lanes: Vec<LaneInfo>,
    blocks: Vec<Arc<[DecodedBlock]>>,
}

struct LaneBuilder {
    lane: u32,
    ended: bool,
    blocks: Vec<DecodedBlock>,
    current: DecodedBlock,
    block_rows: usize,
}

impl LaneBuilder {
    fn new(lane: u32, block_rows: usize, table: &TablePlan) -> Self {
        let mut builder = LaneBuilder {
            lane,
            ended: false,
            blocks: Vec::new(),
            current: DecodedBlock::default(),
            block_rows: block_rows.max(1),
        };
        builder.current = builder.fresh(table);
        builder
    }

    fn fresh(&self, table: &TablePlan) -> DecodedBlock {
        DecodedBlock {
            lane: self.lane,
            index: self.blocks.len() as u64,
            starts_file: self.blocks.is_empty(),
            columns: table.columns.iter().map(|c| Some(Column::new(c.dtype.clone()))).collect(),
            arrived_us: table.arrival_time.map(|_| Vec::new()),
            ..DecodedBlock::default()
        }
    }

    fn close(&mut self, clock_us: Option<i64>, last: bool, table: &TablePlan) {
        let next = DecodedBlock { index: self.current.index + 1, starts_file: false, ..self.fresh(table) };
        let mut block = std::mem::replace(&mut self.current, next);
        block.clock_us = clock_us;
        block.last = last;
        self.blocks.push(block);
        self.ended |= last;
    }

    fn record(&mut self, values: &[Value], table: &TablePlan) {
        let block = &mut self.current;
        let line = u32::try_from(block.lines).unwrap_or(u32::MAX);
        block.lines += 1;
        let time = |column: Option<usize>| match column.and_then(|c| values.get(c)) {
            Some(Value::Timestamp(us)) => Some(*us),
            _ => None,
        };
        let (event, arrived) = (time(table.event_time), time(table.arrival_time));
        let reason = if table.event_time.is_some() && event.is_none() {
            Some(RejectReason::EventTime)
        } else if table.arrival_time.is_some() && arrived.is_none() {
            Some(RejectReason::ArrivalTime)
        } else {
            match (event, arrived, table.max_future_us) {
                (Some(event), Some(arrived), Some(max)) if event > arrived.saturating_add(max) => {
                    Some(RejectReason::Future)
                }
                _ => None,
            }
        };
        if let Some(reason) = reason {
            let detail = reason.name().to_owned();
            let rows_before = block.rows as u32;
            block.rejects.push(RejectedRecord {
                line,
                reason,
                detail,
                span: (0, 0),
                arrived_us: arrived,
                partition: None,
                rows_before,
            });
        } else {
            block.rows += 1;
            block.line.push(line);
            for (column, value) in block.columns.iter_mut().flatten().zip(values) {
                column.push(value);
            }
            block.event_time_us.extend(event);
            if let (Some(list), Some(arrived)) = (&mut block.arrived_us, arrived) {
                list.push(arrived);
            }
        }
        if self.current.lines as usize >= self.block_rows {
            self.close(None, false, table);
        }
    }
}

impl TraceSource {
    /// Cuts the trace into blocks of `block_rows` records a lane. If not `bounded`, reading stops after the last item
    /// without an end of input.
    pub fn new(
        table: &TablePlan,
        partitions: &[String],
        items: &[TraceItem],
        bounded: bool,
        block_rows: usize,
    ) -> Self {
        let mut lanes: Vec<LaneBuilder> =
            (0..partitions.len()).map(|l| LaneBuilder::new(l as u32, block_rows, table)).collect();
        let mut clock: Option<i64> = None;
        for item in items {
            match item {
                TraceItem::Record { partition, values } => {
                    if let Some(Value::Timestamp(us)) = table.arrival_time.and_then(|c| values.get(c)) {
                        clock = clock.max(Some(*us));
                    }
                    if let Some(lane) = lanes.get_mut(*partition).filter(|l| !l.ended) {
                        lane.record(values, table);
                    }
                }
                TraceItem::End { partition } => {
                    if let Some(lane) = lanes.get_mut(*partition).filter(|l| !l.ended) {
                        lane.close(clock, true, table);
                    }
                }
                TraceItem::Clock { arrived_us } => {
                    clock = clock.max(Some(*arrived_us));
                    for lane in lanes.iter_mut().filter(|l| !l.ended) {
                        lane.close(clock, false, table);
                    }
                }
            }
        }
        for lane in lanes.iter_mut().filter(|l| !l.ended) {
            lane.close(clock, bounded, table);
        }
        let info = |name: &String| LaneInfo { name: name.clone(), files: Vec::new(), bytes: None, splittable: true };
        TraceSource {
            lanes: partitions.iter().map(info).collect(),
            blocks: lanes.into_iter().map(|l| l.blocks.into()).collect(),
        }
    }
}

struct TraceReader {
    blocks: Arc<[DecodedBlock]>,
    turns: Turns,
}

impl LaneReader for TraceReader {
    fn next_block(&mut self) -> Result<Next> {
        let taken = usize::try_from(self.turns.take()).ok().and_then(|index| self.blocks.get(index));
        Ok(taken.map_or(Next::End, |block| Next::Block(Box::new(block.clone()))))
    }
}

impl Source for TraceSource {
    fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }
    fn open(&self, lane: usize, turns: Turns) -> Box<dyn LaneReader> {
        let blocks = self.blocks.get(lane).cloned().unwrap_or_default();
        Box::new(TraceReader { blocks, turns })
    }
}

/// The source as a run takes it.
impl From<TraceSource> for Arc<dyn Source> {
    fn from(source: TraceSource) -> Self {
        Arc::new(source)
    }
}
