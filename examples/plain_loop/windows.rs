//! The rule of lateness, and a hash table for each window.

use super::scan::Order;
use anyhow::{Context, bail};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Write;

/// Windows, and whether there is a table for each customer.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    size_ms: i64,
    slide_ms: i64,
    by_customer: bool,
}

impl Query {
    /// # Errors
    /// When there is none of this name.
    pub fn named(name: &str) -> anyhow::Result<Query> {
        Ok(match name {
            "q1" => Query { size_ms: 60_000, slide_ms: 60_000, by_customer: true },
            "q2" => Query { size_ms: 60_000, slide_ms: 5_000, by_customer: true },
            "q4" => Query { size_ms: 60_000, slide_ms: 60_000, by_customer: false },
            _ => bail!("expected q1, q2 or q4, found {name}"),
        })
    }
}

/// Which records of closed windows count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// All, as if there were no watermark.
    All,
    /// None.
    Drop,
    /// Those whose stamp is at most this much past the window's end.
    Within { horizon_ms: i64 },
}

/// A rule of lateness. The watermark of a record includes the record itself.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    late: Late,
    delay_ms: i64,
    granularity_ms: i64,
    early_ms: i64,
    /// Records of a batch; 0 if the watermark moves with each.
    batch: u64,
    /// Batches from the one that moved the watermark to the first that is judged by it, beyond the next.
    lag: usize,
    write_open: bool,
}

impl Rule {
    /// From `name=value` texts.
    ///
    /// # Errors
    /// When a name or a value is none.
    pub fn of(settings: &[&str]) -> anyhow::Result<Rule> {
        let mut rule = Rule {
            late: Late::Drop,
            delay_ms: 5_000,
            granularity_ms: 1,
            early_ms: 0,
            batch: 0,
            lag: 0,
            write_open: true,
        };
        for setting in settings {
            let (name, value) = setting.split_once('=').with_context(|| format!("expected NAME=VALUE: {setting}"))?;
            let number = || value.parse::<u32>().with_context(|| format!("expected a whole number: {setting}"));
            match (name, value) {
                ("late", "all") => rule.late = Late::All,
                ("late", "drop") => rule.late = Late::Drop,
                ("late", _) => rule.late = Late::Within { horizon_ms: number()?.into() },
                ("delay", _) => rule.delay_ms = number()?.into(),
                ("granularity", _) => rule.granularity_ms = i64::from(number()?.max(1)),
                ("early", _) => rule.early_ms = number()?.into(),
                ("batch", _) => rule.batch = number()?.into(),
                ("lag", _) => rule.lag = number()? as usize,
                ("open", "write") => rule.write_open = true,
                ("open", "leave") => rule.write_open = false,
                _ => bail!("unknown setting: {setting}"),
            }
        }
        Ok(rule)
    }

    /// Whether a contribution with this stamp counts in the window that ends at `end_ms`.
    fn counts(&self, stamp_ms: i64, end_ms: i64) -> bool {
        match self.late {
            Late::All => true,
            Late::Drop => stamp_ms < end_ms - self.early_ms,
            Late::Within { horizon_ms } => stamp_ms <= end_ms + horizon_ms,
        }
    }
}

/// Contributions, that is, pairs of a record and a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub records: u64,
    /// Before the window was closed.
    pub on_time: u64,
    /// After it was closed, and counted.
    pub late: u64,
    /// Dropped.
    pub too_late: u64,
    /// Rows written.
    pub rows: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { records, on_time, late, too_late, rows } = self;
        write!(f, "{records} records; contributions: {on_time} on time, {late} late, {too_late} too late; {rows} rows")
    }
}

/// Orders and cents of a customer.
type Table = HashMap<i64, (u64, i64), foldhash::fast::RandomState>;

/// The loop's state: the windows that are not final, by their ends.
pub struct PlainLoop<W> {
    query: Query,
    rule: Rule,
    newest_ms: i64,
    stamp_ms: i64,
    /// Watermarks of the latest batches, the newest last, that do not count yet.
    waiting: VecDeque<i64>,
    windows: BTreeMap<i64, Table>,
    counts: Counts,
    out: W,
}

impl<W: Write> PlainLoop<W> {
    pub fn new(query: Query, rule: Rule, out: W) -> Self {
        PlainLoop {
            query,
            rule,
            // Far from the least, so that a delay can be taken away.
            newest_ms: i64::MIN / 2,
            stamp_ms: i64::MIN,
            waiting: VecDeque::new(),
            windows: BTreeMap::new(),
            counts: Counts::default(),
            out,
        }
    }

    /// # Errors
    /// When a row cannot be written.
    pub fn push(&mut self, order: &Order) -> anyhow::Result<()> {
        let at_ms = order.event_time_ms;
        if at_ms > self.newest_ms {
            self.newest_ms = at_ms;
            if self.rule.batch == 0 && self.watermark_ms() > self.stamp_ms {
                self.advance(self.watermark_ms())?;
            }
        }
        let key = if self.query.by_customer { order.customer_id } else { 0 };
        let first_ms = at_ms - at_ms.rem_euclid(self.query.slide_ms);
        let mut end_ms = first_ms + self.query.size_ms;
        while end_ms > at_ms {
            if !self.rule.counts(self.stamp_ms, end_ms) {
                self.counts.too_late += 1;
            } else {
                let group = self.windows.entry(end_ms).or_default().entry(key).or_default();
                group.0 += 1;
                group.1 += order.amount_cents;
                let closed = self.stamp_ms >= end_ms - self.rule.early_ms;
                self.counts.late += u64::from(closed);
                self.counts.on_time += u64::from(!closed);
            }
            end_ms -= self.query.slide_ms;
        }
        self.counts.records += 1;
        if self.rule.batch != 0 && self.counts.records.is_multiple_of(self.rule.batch) {
            self.end_batch()?;
        }
        Ok(())
    }

    fn watermark_ms(&self) -> i64 {
        let watermark_ms = self.newest_ms.saturating_sub(self.rule.delay_ms);
        watermark_ms - watermark_ms.rem_euclid(self.rule.granularity_ms)
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.waiting.push_back(self.watermark_ms());
        if self.waiting.len() > self.rule.lag
            && let Some(stamp_ms) = self.waiting.pop_front()
        {
            self.advance(stamp_ms)?;
        }
        Ok(())
    }

    /// The watermark is there; writes the windows that no record can change any more.
    fn advance(&mut self, stamp_ms: i64) -> anyhow::Result<()> {
        self.stamp_ms = stamp_ms;
        while let Some(window) = self.windows.first_entry()
            && !self.rule.counts(stamp_ms, *window.key())
        {
            let (end_ms, table) = window.remove_entry();
            self.write(end_ms, table)?;
        }
        Ok(())
    }

    fn write(&mut self, end_ms: i64, table: Table) -> anyhow::Result<()> {
        if self.counts.rows == 0 {
            self.out.write_all(b"window_start,customer_id,orders,cents\n")?;
        }
        let start_ms = end_ms - self.query.size_ms;
        self.counts.rows += table.len() as u64;
        let mut digits = itoa::Buffer::new();
        for (key, (orders, cents)) in table {
            self.out.write_all(digits.format(start_ms).as_bytes())?;
            self.out.write_all(b",")?;
            self.out.write_all(digits.format(key).as_bytes())?;
            self.out.write_all(b",")?;
            self.out.write_all(digits.format(orders).as_bytes())?;
            self.out.write_all(b",")?;
            self.out.write_all(digits.format(cents).as_bytes())?;
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes the windows that are left. Gives the output back.
    ///
    /// # Errors
    /// When a row cannot be written.
    pub fn finish(mut self) -> anyhow::Result<(Counts, W)> {
        let last_ms = self.watermark_ms();
        while let Some((end_ms, table)) = self.windows.pop_first() {
            if self.rule.write_open || end_ms - self.rule.early_ms <= last_ms {
                self.write(end_ms, table)?;
            }
        }
        Ok((self.counts, self.out))
    }
}
