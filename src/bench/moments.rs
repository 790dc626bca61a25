//! Which line of the input makes which answer due.
//!
//! An answer is due when the source's frontier has come so far that nothing can change it any more: a first result when
//! the frontier *reaches* the window's end, a correction when the frontier *passes* its stamp, for until then further
//! records may get the same stamp. The line that moves the frontier there is known from the input alone; the moment is
//! then that line's place in the schedule, not the time at which it was really written.
//!
//! The frontier is that of [`SequentialStamper`], the contract written down as code, so that a watermark that the engine
//! holds back needlessly shows as latency. What the end of the input sets free has no moment.

use super::changes::{Answer, Kind};
use crate::plan::TablePlan;
use crate::watermark::sequential::SequentialStamper;
use crate::watermark::{AFTER_ALL, BEFORE_ALL, WatermarkSettings};

/// How the frontier moves along an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Frontier and the line that moved it there; both rise.
    steps: Vec<(i64, u64)>,
}

impl Moments {
    /// The first line with which the frontier is at `us` or beyond.
    pub fn reached(&self, us: i64) -> Option<u64> {
        let at = self.steps.partition_point(|(frontier, _)| *frontier < us);
        self.steps.get(at).map(|(_, line)| *line)
    }

    /// The first line with which the frontier is beyond `us`.
    pub fn passed(&self, us: i64) -> Option<u64> {
        let at = self.steps.partition_point(|(frontier, _)| *frontier <= us);
        self.steps.get(at).map(|(_, line)| *line)
    }

    /// The line that makes an answer due; `None`: the end of the input.
    pub fn due(&self, answer: &Answer) -> Option<u64> {
        match answer.kind {
            Kind::First => self.reached(answer.watermark_us),
            Kind::Correction | Kind::Retraction => self.passed(answer.watermark_us),
        }
    }

    /// The line that makes a row of a view without windows due: as with corrections, others may get its stamp until then.
    pub fn row_due(&self, answer: &Answer) -> Option<u64> {
        self.passed(answer.watermark_us)
    }

    /// Microseconds of event time by which the frontier moved, and between which lines.
    pub fn travelled(&self) -> Option<(i64, u64, u64)> {
        let (first, last) = (self.steps.first()?, self.steps.last()?);
        Some((last.0.saturating_sub(first.0), first.1, last.1))
    }
}

/// Follows an input line by line.
#[derive(Debug)]
pub struct Follower {
    stamper: SequentialStamper,
    moments: Moments,
    reached: i64,
}

/// The name of the one lane of standard input.
const LANE: &str = "stdin";

impl Follower {
    /// For a table that is read from one stream.
    pub fn new(table: &TablePlan) -> Follower {
        let settings = WatermarkSettings {
            scope: table.scope,
            idle_timeout_us: table.idle_timeout_us,
            granularity_us: table.granularity_us,
            tick_us: table.tick_us,
        };
        let by_column = table.partition.is_some();
        let known = if by_column { table.partitions.clone() } else { vec![LANE.to_owned()] };
        let stamper = SequentialStamper::new(settings, &known, by_column);
        Follower { stamper, moments: Moments::default(), reached: BEFORE_ALL }
    }

    /// A record on line `line` (they rise): its partition, if a column names it, the value of the watermark expression, and
    /// its arrival time, if there are arrival times.
    pub fn record(&mut self, line: u64, partition: Option<&str>, watermark_us: i64, arrived_us: Option<i64>) {
        let _ = self.stamper.record(partition.unwrap_or(LANE), watermark_us, arrived_us);
        self.look(line);
    }

    /// A line that is a reject.
    pub fn reject(&mut self, line: u64, arrived_us: Option<i64>) {
        self.stamper.reject(arrived_us);
        self.look(line);
    }

    fn look(&mut self, line: u64) {
        let frontier = self.stamper.frontier();
        if frontier > self.reached && frontier < AFTER_ALL {
            self.reached = frontier;
            self.moments.steps.push((frontier, line));
        }
    }

    /// What was found.
    pub fn finish(self) -> Moments {
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(options: &str, delay: &str) -> TablePlan {
        let sql = format!(
            "CREATE TABLE t (p TEXT, a TIMESTAMP, et TIMESTAMP, WATERMARK FOR et AS et - INTERVAL '{delay}') WITH (connector = 'stdin'{options}); \
             SELECT window_start, count(*) AS n FROM TUMBLE(t, et, INTERVAL '1 minute') GROUP BY window_start;"
        );
        let mut program = crate::sql::plan("t", &sql, &crate::sql::BareSelectDefaults::default()).unwrap();
        program.tables.remove(0)
    }

    fn answer(kind: Kind, watermark_us: i64) -> Answer {
        Answer { kind, watermark_us }
    }

    const S: i64 = 1_000_000;

    #[test]
    fn first_results_when_the_end_is_reached_corrections_when_the_stamp_is_passed() {
        let mut follower = Follower::new(&table("", "10 seconds"));
        // Watermarks: 50, 60, 60 (late), 60 (within the granularity of a second), 61.
        for (line, et) in [60 * S, 70 * S, 30 * S, 70 * S + 999_999, 71 * S].into_iter().enumerate() {
            follower.record(line as u64, None, et - 10 * S, None);
        }
        let moments = follower.finish();
        assert_eq!(moments.due(&answer(Kind::First, 60 * S)), Some(1));
        assert_eq!(moments.due(&answer(Kind::Correction, 60 * S)), Some(4));
        assert_eq!(moments.due(&answer(Kind::First, 60 * S + 1)), Some(4));
        assert_eq!(moments.due(&answer(Kind::Correction, 61 * S)), None);
        assert_eq!(moments.travelled(), Some((11 * S, 0, 4)));
        assert_eq!(Follower::new(&table("", "1 second")).finish().travelled(), None);
    }

    /// Every time against a search from the first line on, over a random input with one partition: there the frontier is
    /// the greatest watermark so far, rounded down.
    #[test]
    fn moments_are_those_of_a_linear_search() {
        let seed = 20_261_130_u64;
        let mut state = seed;
        let mut random = |below: i64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as i64 % below
        };
        for granularity_ms in [1, 7, 1_000] {
            let mut follower = Follower::new(&table(&format!(", granularity = '{granularity_ms}ms'"), "3 seconds"));
            let granularity = granularity_ms * 1_000;
            let mut frontiers = Vec::new();
            let mut greatest = i64::MIN;
            for line in 0..400 {
                if random(10) == 0 {
                    follower.reject(line, None);
                } else {
                    let watermark = line as i64 * 20_000 - random(4_000_000);
                    follower.record(line, None, watermark, None);
                    greatest = greatest.max(watermark);
                }
                frontiers.push(if greatest == i64::MIN {
                    i64::MIN
                } else {
                    greatest.div_euclid(granularity) * granularity
                });
            }
            let moments = follower.finish();
            for us in (-4_000_000..8_200_000).step_by(1_777).chain(frontiers.iter().copied().filter(|f| *f > i64::MIN))
            {
                let first = frontiers.iter().position(|f| *f >= us).map(|line| line as u64);
                let passed = frontiers.iter().position(|f| *f > us).map(|line| line as u64);
                assert_eq!(moments.due(&answer(Kind::First, us)), first, "{us}, seed {seed}");
                assert_eq!(moments.due(&answer(Kind::Correction, us)), passed, "{us}, seed {seed}");
            }
        }
    }

    #[test]
    fn partitions_and_arrival_times_are_minded() {
        let mut follower =
            Follower::new(&table(", partition = 'p', partitions = 'x,y', arrival_time = 'a'", "0 seconds"));
        follower.record(0, Some("x"), 100 * S, Some(0));
        follower.record(1, Some("y"), 50 * S, Some(0));
        // The tick ends; a partition may yet be discovered, so that the watermark at its end is the frontier.
        follower.reject(2, Some(2 * S));
        let moments = follower.finish();
        assert_eq!(moments.reached(50 * S), Some(2));
        assert_eq!(moments.reached(50 * S + 1), None);
    }
}
