//! The search for the highest rate that is sustained: up a ladder to the first that is not, then between the two.
//!
//! It takes for granted that whoever sustains a rate sustains all lower ones. Measurements are not that kind; so what is
//! found is a rate that was sustained once and, if there is one, a higher one close by that was not.

/// Two neighbours whose ratio is below this are close enough.
const RATIO: f64 = 1.1;
/// A rung of the ladder is at most so much above the one before.
const RUNG: f64 = 2.0;
/// Rungs of a ladder.
const RUNGS_MAX: usize = 64;

/// The search. Ask for a rate, try it, say what came of it.
#[derive(Clone, Debug)]
pub struct Search {
    /// Rates still to be tried on the way up, the next last.
    ladder: Vec<f64>,
    sustained: Option<f64>,
    not: Option<f64>,
}

impl Search {
    /// Along the rates; they are put in order. `None` if there is none, or one is not above 0.
    pub fn along(mut rates: Vec<f64>) -> Option<Search> {
        if rates.is_empty() || rates.iter().any(|rate| !(*rate > 0.0 && rate.is_finite())) {
            return None;
        }
        rates.sort_by(|a, b| b.total_cmp(a));
        rates.dedup();
        Some(Search { ladder: rates, sustained: None, not: None })
    }

    /// From `low` doubling up to `high`.
    pub fn between(low: f64, high: f64) -> Option<Search> {
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return None;
        }
        let mut rates = vec![low];
        while let Some(last) = rates.last().copied().filter(|last| *last < high && rates.len() < RUNGS_MAX) {
            rates.push((last * RUNG).min(high));
        }
        Self::along(rates)
    }

    /// The rate to be tried next, if any.
    pub fn next_rate(&self) -> Option<f64> {
        match (self.sustained, self.not) {
            (Some(low), Some(high)) if high / low > RATIO => Some(rounded(f64::midpoint(low, high))),
            (_, Some(_)) => None,
            (_, None) => self.ladder.last().copied(),
        }
    }

    /// What came of a rate.
    pub fn tried(&mut self, rate: f64, sustained: bool) {
        self.ladder.retain(|other| *other > rate);
        if sustained {
            self.sustained = Some(self.sustained.map_or(rate, |other| other.max(rate)));
        } else {
            self.not = Some(self.not.map_or(rate, |other| other.min(rate)));
        }
    }

    /// The highest rate that was sustained.
    pub fn highest(&self) -> Option<f64> {
        self.sustained
    }

    /// The lowest that was not.
    pub fn lowest_not(&self) -> Option<f64> {
        self.not
    }
}

/// To three digits: more would claim too much.
fn rounded(rate: f64) -> f64 {
    let unit = 10f64.powi(rate.log10().floor() as i32 - 2);
    (rate / unit).round() * unit
}

/// Reads a rate: `100000`, `100k`, `1.5M`.
///
/// # Errors
/// In words, when it is none.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    let rate = digits.replace('_', "").parse::<f64>().map(|n| n * unit);
    match rate {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err(format!("expected records a second such as 100000, 100k or 1.5M, found \"{text}\"")),
    }
}

/// Reads what `--rates` takes: `100k,200k` or `100k..2M`.
///
/// # Errors
/// In words, when it is neither.
pub fn parse_rates(text: &str) -> Result<Search, String> {
    let search = match text.split_once("..") {
        Some((low, high)) => Search::between(parse_rate(low)?, parse_rate(high)?),
        None => Search::along(text.split(',').map(parse_rate).collect::<Result<_, _>>()?),
    };
    search.ok_or_else(|| "expected rates such as 100k,200k,400k, or a range such as 100k..2M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a program that sustains everything up to `limit`.
    fn search(mut search: Search, limit: f64) -> (Option<f64>, Vec<f64>) {
        let mut tried = Vec::new();
        while let Some(rate) = search.next_rate() {
            assert!(tried.len() < 100, "no end: {tried:?}");
            assert!(!tried.contains(&rate), "{rate} twice: {tried:?}");
            tried.push(rate);
            search.tried(rate, rate <= limit);
        }
        (search.highest(), tried)
    }

    #[test]
    fn a_ladder_then_halves() {
        let found = search(Search::between(100.0, 1_600.0).unwrap(), 500.0);
        assert_eq!(found, (Some(500.0), vec![100.0, 200.0, 400.0, 800.0, 600.0, 500.0, 550.0]));
        let found = search(parse_rates("100,300,900").unwrap(), 1e9);
        assert_eq!(found, (Some(900.0), vec![100.0, 300.0, 900.0]));
        assert_eq!(search(parse_rates("900,100").unwrap(), 50.0), (None, vec![100.0]));
    }

    #[test]
    fn what_is_found_is_close_to_the_limit() {
        for limit in [1_000.0, 1_234.0, 77_777.0, 199_999.0, 3.3e6] {
            let (found, tried) = search(Search::between(1_000.0, 1e7).unwrap(), limit);
            let found = found.unwrap();
            assert!(found <= limit && limit / found < 1.11, "{limit}: {found}");
            assert!(tried.len() < 25);
        }
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(parse_rate("100k"), Ok(100_000.0));
        assert_eq!(parse_rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(parse_rate("1_000"), Ok(1_000.0));
        for wrong in ["", "k", "-1", "0", "x", "2G", "inf", "NaN", "1e10"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "5..1", "1,,2", "..", "1.."] {
            assert!(parse_rates(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_rates("1..1").unwrap().next_rate(), Some(1.0));
    }
}
