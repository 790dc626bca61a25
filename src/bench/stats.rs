//! Medians, spread, and latencies.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write;

/// The median of some numbers and how far they lie apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of them the middle between the two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of some numbers; zeros of none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.saturating_sub(1)), at(middle)) };
        Spread { median, min: at(0), max: at(sorted.len().saturating_sub(1)) }
    }

    /// Greatest distance from the median, as a share of it.
    pub fn share(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.median).max(self.median - self.min) / self.median.abs() }
    }
}

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// Latencies in microseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact, unlike what the histogram holds.
    max_us: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        // Fails for more than five digits only.
        Latencies { histogram: Histogram::new(DIGITS).expect("three digits are allowed"), max_us: 0 }
    }
}

impl Latencies {
    /// Counts `count` answers that took so long.
    pub fn record(&mut self, us: u64, count: u64) {
        self.max_us = self.max_us.max(us);
        let recorded = self.histogram.record_n(us, count);
        debug_assert!(recorded.is_ok(), "the histogram grows");
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Latencies) {
        self.max_us = self.max_us.max(other.max_us);
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "the histogram grows");
    }

    /// The figures.
    pub fn quantiles(&self) -> Quantiles {
        let count = self.histogram.len();
        let at = |q: f64| (count > 0).then(|| self.histogram.value_at_quantile(q).min(self.max_us));
        Quantiles {
            count,
            mean_us: (count > 0).then(|| self.histogram.mean()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: (count > 0).then_some(self.max_us),
        }
    }

    /// The distribution by percentile in milliseconds, in the text format that plotters of HdrHistogram read.
    pub fn hgrm(&self) -> String {
        let mut out =
            format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
        let ms = |us: u64| us.min(self.max_us) as f64 / 1_000.0;
        let mut total = 0;
        // Writing to a string cannot fail.
        for step in self.histogram.iter_quantiles(5) {
            total += step.count_since_last_iteration();
            let (value, quantile) = (ms(step.value_iterated_to()), step.quantile_iterated_to());
            let _ = write!(out, "{value:>12.3} {quantile:>2.12} {total:>10}");
            if quantile < 1.0 {
                let _ = write!(out, " {:>14.2}", 1.0 / (1.0 - quantile));
            }
            out.push('\n');
        }
        let (mean, deviation) = (self.histogram.mean() / 1_000.0, self.histogram.stdev() / 1_000.0);
        let _ = writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
        let _ = writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", ms(self.max_us), self.histogram.len());
        let _ = writeln!(
            out,
            "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
            self.histogram.buckets(),
            self.histogram.distinct_values() / usize::from(self.histogram.buckets()).max(1)
        );
        out
    }
}

/// Quantiles of latencies, in microseconds; `null` if there was none. They are too high by at most a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Answers.
    pub count: u64,
    /// Mean.
    pub mean_us: Option<f64>,
    /// Median.
    pub p50_us: Option<u64>,
    /// 90 %.
    pub p90_us: Option<u64>,
    /// 99 %.
    pub p99_us: Option<u64>,
    /// 99.9 %.
    pub p999_us: Option<u64>,
    /// The greatest, exact.
    pub max_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(Spread::of([]), Spread::default());
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([7.0]), Spread { median: 7.0, min: 7.0, max: 7.0 });
        assert!((Spread::of([2.0, 1.0, 4.0]).share() - 1.0).abs() < 1e-12);
        assert_eq!(Spread::of([0.0, 0.0]).share(), 0.0);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantiles(), Quantiles::default());
        (1..=100_000).for_each(|us| latencies.record(us, 1));
        let found = latencies.quantiles();
        assert_eq!((found.count, found.max_us), (100_000, Some(100_000)));
        for (q, found) in
            [(50_000, found.p50_us), (90_000, found.p90_us), (99_000, found.p99_us), (99_900, found.p999_us)]
        {
            let found = found.unwrap();
            assert!((q..=q + q / 1_000 + 1).contains(&found), "{q}: {found}");
        }
        let mut twice = latencies.clone();
        twice.merge(&latencies);
        assert_eq!(twice.quantiles().p99_us, found.p99_us);
        assert_eq!(twice.quantiles().count, 200_000);
        latencies.record(10_000_000, 100_000);
        assert_eq!(latencies.quantiles().p90_us, Some(10_000_000), "no more than the greatest");
    }

    /// What the plotter of HdrHistogram looks at: four columns, the percentile rising from 0 to 1, a count that ends with
    /// all, and the lines with `#`.
    #[test]
    fn a_distribution_can_be_plotted() {
        let mut latencies = Latencies::default();
        (1..=1_000).for_each(|us| latencies.record(us * 1_000, 2));
        let text = latencies.hgrm();
        let mut lines = text.lines();
        assert_eq!(
            lines.next().unwrap().split_whitespace().collect::<Vec<_>>(),
            ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
        );
        assert_eq!(lines.next(), Some(""));
        let rows: Vec<Vec<f64>> = lines
            .clone()
            .take_while(|l| !l.starts_with('#'))
            .map(|l| l.split_whitespace().map(|n| n.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.first().unwrap()[..3], [1.0, 0.0, 2.0]);
        assert_eq!(rows.last().unwrap()[..], [1_000.0, 1.0, 2_000.0]);
        for pair in rows.windows(2) {
            assert!((0..3).all(|c| pair[0][c] <= pair[1][c]), "{pair:?}");
            assert!((pair[0][3] - 1.0 / (1.0 - pair[0][1])).abs() < 0.01 * pair[0][3], "{pair:?}");
        }
        let end: Vec<&str> = lines.skip_while(|l| !l.starts_with('#')).collect();
        assert!(end[0].starts_with("#[Mean    =") && end[0].contains("StdDeviation"), "{end:?}");
        assert!(end[1].contains("1000.000, Total count    =         2000]"), "{end:?}");
        assert!(end[2].starts_with("#[Buckets =") && end[2].contains("SubBuckets"), "{end:?}");
        assert!(Latencies::default().hgrm().contains("Total count    =            0]"));
    }
}
