//! What is asked of a setting: `completeness >= 99.5%`, `first_result_error(revenue) <= 0.5%`, `p99_latency <= 30s`.

use crate::expr::build::did_you_mean;
use crate::time::{format_duration, parse_duration};
use std::fmt;

/// A condition that a setting must hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The share of contributions in first results is at least this.
    Completeness(f64),
    /// The share of contributions in final results is at least this.
    FinalCompleteness(f64),
    /// The mean relative error of first results is at most this: of a column, or of each.
    FirstResultError(Option<String>, f64),
    /// The share of windows (in hundredths) whose first result comes within a time, µs.
    Latency(u32, u64),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Completeness(least) => write!(f, "completeness >= {} %", percent(*least)),
            Condition::FinalCompleteness(least) => write!(f, "final_completeness >= {} %", percent(*least)),
            Condition::FirstResultError(None, most) => write!(f, "first_result_error <= {} %", percent(*most)),
            Condition::FirstResultError(Some(column), most) => {
                write!(f, "first_result_error({column}) <= {} %", percent(*most))
            }
            Condition::Latency(hundredths, us) => {
                let us = i64::try_from(*us).unwrap_or(i64::MAX);
                write!(f, "p{hundredths}_latency <= {}", format_duration(us))
            }
        }
    }
}

/// A share in percent, without the noise of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e12).round() / 1e10
}

const METRICS: [&str; 6] =
    ["completeness", "final_completeness", "first_result_error", "p50_latency", "p90_latency", "p99_latency"];

/// How conditions are written.
pub const HINT: &str = "write 'completeness >= 99.5%', 'final_completeness >= 99.9%', 'first_result_error <= 0.5%' or 'p99_latency <= 30s'";

/// Reads conditions with commas or `and` between them.
///
/// # Errors
/// What was expected and found (lower case, no full stop), and a hint.
pub fn parse(text: &str) -> Result<Vec<Condition>, (String, String)> {
    let text = text.replace(" and ", ",").replace(" AND ", ",");
    text.split(',').map(|part| condition(part.trim())).collect()
}

fn condition(text: &str) -> Result<Condition, (String, String)> {
    let plain = |message: String| (message, HINT.to_owned());
    let sides = text.split_once(">=").map(|(a, b)| (a, true, b)).or(text.split_once("<=").map(|(a, b)| (a, false, b)));
    let Some((metric, at_least, value)) = sides else {
        return Err(plain(format!("expected a condition with >= or <=, found '{text}'")));
    };
    let (metric, value) = (metric.trim(), value.trim());
    let (name, column) = match metric.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.trim_end().trim_end_matches(')').trim().to_owned())),
        None => (metric, None),
    };
    let lower = name.to_lowercase();
    if !METRICS.contains(&lower.as_str()) {
        let hint = did_you_mean(&lower, METRICS)
            .map_or_else(|| format!("one of {}", METRICS.join(", ")), |near| format!("did you mean \"{near}\"?"));
        return Err((format!("expected a figure, found '{name}'"), hint));
    }
    if column.is_some() && lower != "first_result_error" {
        return Err(plain(format!("{lower} has no columns, found '{metric}'")));
    }
    let is_share_at_least = lower.ends_with("completeness");
    if at_least != is_share_at_least {
        let (expected, found) = if is_share_at_least { (">=", "<=") } else { ("<=", ">=") };
        return Err(plain(format!("{lower}: expected {expected}, found {found}")));
    }
    match lower.as_str() {
        "completeness" => share(&lower, value, 1.0).map(Condition::Completeness),
        "final_completeness" => share(&lower, value, 1.0).map(Condition::FinalCompleteness),
        "first_result_error" => share(&lower, value, 1_000.0).map(|most| Condition::FirstResultError(column, most)),
        _ => {
            let hundredths = lower.get(1..3).and_then(|n| n.parse().ok()).unwrap_or(99);
            let us = parse_duration(value).map_err(|why| plain(format!("{lower}: {why}")))?;
            let us = u64::try_from(us)
                .map_err(|_| plain(format!("{lower}: expected a duration of at least 0, found {value}")))?;
            Ok(Condition::Latency(hundredths, us))
        }
    }
}

/// `99.5%` or `0.995`.
fn share(name: &str, text: &str, most: f64) -> Result<f64, (String, String)> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|x| x / 100.0),
        None => text.parse::<f64>(),
    };
    match number {
        Ok(x) if (0.0..=most).contains(&x) => Ok(x),
        _ => Err((format!("{name}: expected a share such as 99.5% or 0.995, found '{text}'"), HINT.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_written() {
        let text = "completeness >= 99.5 %, first_result_error(revenue)<=0.5% and p99_latency <= 30 seconds";
        let read = parse(text).unwrap();
        let expected = [
            Condition::Completeness(0.995),
            Condition::FirstResultError(Some("revenue".into()), 0.005),
            Condition::Latency(99, 30_000_000),
        ];
        assert_eq!(read, expected);
        let written: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(
            written.join(", "),
            "completeness >= 99.5 %, first_result_error(revenue) <= 0.5 %, p99_latency <= 30s"
        );
        assert_eq!(parse(&written.join(", ")).unwrap(), read);
    }

    #[test]
    fn wrong_conditions_are_named() {
        for (text, message) in [
            ("complete >= 1", "expected a figure, found 'complete'"),
            ("completeness > 1", "expected a condition with >= or <=, found 'completeness > 1'"),
            ("completeness <= 99%", "completeness: expected >=, found <="),
            ("completeness >= 99", "completeness: expected a share such as 99.5% or 0.995, found '99'"),
            ("completeness(v) >= 99%", "completeness has no columns, found 'completeness(v)'"),
            ("p99_latency <= 30", "p99_latency: expected a unit after the number"),
            ("", "expected a condition with >= or <=, found ''"),
        ] {
            let (found, hint) = parse(text).expect_err(text);
            assert!(found.starts_with(message) && !hint.is_empty(), "{found}");
        }
    }
}
