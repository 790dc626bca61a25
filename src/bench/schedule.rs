//! When each line of the input is due: at a fixed rate, from the start on, whatever the program does meanwhile.

/// A fixed rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Lines a second, above 0.
    pub rate: f64,
}

impl Schedule {
    /// Nanoseconds from the start to the moment at which line `line` (from 0) is due.
    pub fn due_ns(&self, line: u64) -> u64 {
        (line as f64 * (1e9 / self.rate)) as u64
    }

    /// How many lines are due when so many nanoseconds have passed.
    pub fn due_by(&self, elapsed_ns: u64) -> u64 {
        let mut lines = (elapsed_ns as f64 * (self.rate / 1e9)) as u64;
        // The two roundings differ by little.
        while self.due_ns(lines) <= elapsed_ns {
            lines += 1;
        }
        while lines > 0 && self.due_ns(lines - 1) > elapsed_ns {
            lines -= 1;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_due_one_after_another() {
        let schedule = Schedule { rate: 1_000.0 };
        assert_eq!([0, 1, 2, 5_000].map(|line| schedule.due_ns(line)), [0, 1_000_000, 2_000_000, 5_000_000_000]);
        assert_eq!([0, 999_999, 1_000_000].map(|ns| schedule.due_by(ns)), [1, 1, 2]);
    }

    /// `due_by` against counting, at rates that divide a second badly too.
    #[test]
    fn due_by_counts_what_is_due() {
        for rate in [0.3, 1.0, 7.0, 999.9, 60_000.0, 123_456.7, 3e6, 1e9] {
            let schedule = Schedule { rate };
            let step = (2_000.0 * 1e9 / rate) as u64 / 997 + 1;
            let mut due = 0;
            for elapsed_ns in (0..1_500).map(|i| i * step) {
                while schedule.due_ns(due) <= elapsed_ns {
                    due += 1;
                }
                assert_eq!(schedule.due_by(elapsed_ns), due, "{rate} a second after {elapsed_ns} ns");
            }
        }
    }
}
