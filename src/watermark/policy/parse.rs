//! The text of a policy: `name(setting, name = setting, …)`.

use super::quality::{CONFIDENCE, Measure, QualityPlan};
use super::slack::SlackPlan;
use super::{DelayBounds, FOREVER_US, PolicyPlan, QuantilePlan, RECORDS_MIN, STEPS};
use crate::expr::build::did_you_mean;
use crate::time::parse_duration;
use std::fmt;

const SPAN_US: i64 = 600_000_000;

/// What is wrong with the text of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// What was expected and found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn error(message: impl Into<String>) -> PolicyError {
    PolicyError { message: message.into(), hint: None }
}

impl PolicyError {
    fn with_hint(mut self, hint: impl Into<String>) -> PolicyError {
        self.hint = Some(hint.into());
        self
    }
}

const EXAMPLES: [(&str, &str); 4] = [
    ("fixed", "fixed"),
    ("quantile", "quantile(0.99, span = 10 minutes, floor = 0s, cap = 1 hour)"),
    ("k-slack", "k-slack(decay = 0.5, span = 10 minutes, cap = 1 hour)"),
    ("aq-k-slack", "aq-k-slack(error = 1%, of = sum(amount), window = 1 minute)"),
];

/// The settings of one policy; each is taken once.
struct Settings {
    policy: &'static str,
    given: Vec<(String, String)>,
}

impl Settings {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.given.iter().position(|(given, _)| given == name)?;
        Some(self.given.swap_remove(at).1)
    }

    fn wrong(&self, name: &str, expected: &str, found: &str) -> PolicyError {
        error(format!("{}: setting \"{name}\": expected {expected}, found '{found}'", self.policy))
    }

    /// A duration in a range.
    fn duration(&mut self, name: &str, least_us: i64, least: &str) -> Result<Option<i64>, PolicyError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let us =
            parse_duration(&text).map_err(|why| self.wrong(name, "a duration such as 10s", &text).with_hint(why))?;
        if us < least_us { Err(self.wrong(name, least, &text)) } else { Ok(Some(us.min(FOREVER_US))) }
    }

    /// A share, as `0.01` or `1%`.
    fn share(&mut self, name: &str, range: &str, fits: impl Fn(f64) -> bool) -> Result<Option<f64>, PolicyError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|x| x / 100.0),
            None => text.parse::<f64>(),
        };
        match number {
            Ok(x) if x.is_finite() && fits(x) => Ok(Some(x)),
            _ => Err(self.wrong(name, range, &text)),
        }
    }

    /// A whole number, at least 1.
    fn whole(&mut self, name: &str) -> Result<Option<u64>, PolicyError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(self.wrong(name, "a whole number, at least 1", &text)),
        }
    }

    fn records_min(&mut self) -> Result<u64, PolicyError> {
        Ok(self.whole("min_records")?.unwrap_or(RECORDS_MIN))
    }

    fn span(&mut self) -> Result<i64, PolicyError> {
        Ok(self.duration("span", STEPS, "a duration of at least 16us")?.unwrap_or(SPAN_US))
    }

    fn bounds(&mut self) -> Result<DelayBounds, PolicyError> {
        let floor_us = self.duration("floor", 0, "a duration of zero or more")?.unwrap_or(0);
        let cap = self.given.iter().find(|(name, _)| name == "cap").map(|(_, text)| text.clone());
        let cap_us = self.duration("cap", 0, "a duration of zero or more")?.unwrap_or(FOREVER_US);
        match cap {
            Some(text) if cap_us < floor_us => Err(self.wrong("cap", "at least the floor", &text)),
            _ => Ok(DelayBounds { floor_us, cap_us: cap_us.max(floor_us) }),
        }
    }

    /// Checks that each setting is known and given once. Comes first: who writes `err = 1%` is told so, and not that
    /// `error` is missing.
    fn check(&self, known: &[&str]) -> Result<(), PolicyError> {
        for (at, (name, value)) in self.given.iter().enumerate() {
            if name.is_empty() {
                let example = EXAMPLES.iter().find(|(name, _)| *name == self.policy).map_or("", |(_, example)| example);
                let error = error(format!("{}: expected name = setting, found '{value}'", self.policy));
                return Err(error.with_hint(format!("for example {example}")));
            }
            let twice = self.given.iter().take(at).any(|(before, _)| before == name);
            if !twice && known.contains(&name.as_str()) {
                continue;
            }
            let hint = did_you_mean(name, known.iter().copied())
                .filter(|_| !twice)
                .map_or_else(|| format!("settings: {}", known.join(", ")), |near| format!("did you mean \"{near}\"?"));
            let what = if twice { "is given twice" } else { "is not known" };
            return Err(error(format!("{}: setting \"{name}\" {what}", self.policy)).with_hint(hint));
        }
        Ok(())
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0i32);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text.get(from..at).unwrap_or_default().trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default().trim());
    parts.retain(|part| !part.is_empty());
    parts
}

impl PolicyPlan {
    /// Reads a policy, such as `quantile(0.99, span = 10 minutes, cap = 1 hour)`; `None` for `fixed`.
    ///
    /// # Errors
    /// What was expected and found, with a hint.
    pub fn parse(text: &str) -> Result<Option<PolicyPlan>, PolicyError> {
        let text = text.trim();
        let (name, inside) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => match rest.trim_end().strip_suffix(')') {
                Some(inside) => (name.trim_end(), inside),
                None => return Err(error(format!("expected ')' at the end of '{text}'"))),
            },
        };
        let Some((policy, _)) = EXAMPLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
            if name.eq_ignore_ascii_case("keyed") {
                return Err(error("keyed watermarks are in the lateness lab only")
                    .with_hint("slackwater lateness … --policy keyed"));
            }
            let names: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
            let hint = did_you_mean(&name.to_lowercase(), names.iter().copied()).map_or_else(
                || "for example quantile(0.99, span = 10 minutes)".to_owned(),
                |n| format!("did you mean \"{n}\"?"),
            );
            return Err(error(format!("expected {}, found '{text}'", names.join(", "))).with_hint(hint));
        };
        let pair = |part: &str| match part.split_once('=') {
            Some((name, value)) => (name.trim().to_lowercase(), value.trim().to_owned()),
            None => (String::new(), part.to_owned()),
        };
        let mut settings = Settings { policy, given: split(inside).into_iter().map(pair).collect() };
        match *policy {
            "quantile" => quantile(settings).map(Some),
            "k-slack" => slack(settings).map(Some),
            "aq-k-slack" => quality(settings).map(Some),
            _ => match settings.given.pop() {
                Some((_, found)) => Err(error(format!("fixed: expected no settings, found '{found}'"))
                    .with_hint("the delay is that of WATERMARK FOR")),
                None => Ok(None),
            },
        }
    }
}

fn quantile(mut settings: Settings) -> Result<PolicyPlan, PolicyError> {
    // The one setting without a name.
    if let Some(first) = settings.given.first_mut().filter(|(name, _)| name.is_empty()) {
        first.0.push('q');
    }
    settings.check(&["q", "span", "min_records", "floor", "cap"])?;
    let q = settings.share("q", "a share over 0, at most 1, such as 0.99 or 99%", |q| q > 0.0 && q <= 1.0)?;
    let Some(q) = q else {
        return Err(error("quantile: which one is missing").with_hint("for example quantile(0.99)"));
    };
    let plan =
        QuantilePlan { q, span_us: settings.span()?, records_min: settings.records_min()?, bounds: settings.bounds()? };
    Ok(PolicyPlan::Quantile(plan))
}

fn slack(mut settings: Settings) -> Result<PolicyPlan, PolicyError> {
    settings.check(&["decay", "span", "floor", "cap"])?;
    let decay = settings.share("decay", "a share from 0 to 1, such as 0.5", |d| (0.0..=1.0).contains(&d))?;
    let plan = SlackPlan { decay: decay.unwrap_or(0.5), span_us: settings.span()?, bounds: settings.bounds()? };
    Ok(PolicyPlan::Slack(plan))
}

fn quality(mut settings: Settings) -> Result<PolicyPlan, PolicyError> {
    settings.check(&["error", "of", "window", "groups", "confidence", "span", "min_records", "floor", "cap"])?;
    let target = settings.share("error", "a share between 0 and 1, such as 1%", |e| e > 0.0 && e < 1.0)?;
    let Some(target) = target else {
        return Err(
            error("aq-k-slack: setting \"error\" is missing").with_hint("the relative error to stay under: error = 1%")
        );
    };
    let Some(of) = settings.take("of") else {
        return Err(
            error("aq-k-slack: setting \"of\" is missing").with_hint("whose error: of = count(*), of = sum(amount)")
        );
    };
    let (measure, column) = measure(&settings, &of)?;
    let Some(window_us) = settings.duration("window", 1, "a duration above zero")? else {
        return Err(
            error("aq-k-slack: setting \"window\" is missing").with_hint("the windows' length: window = 1 minute")
        );
    };
    let groups = settings.whole("groups")?.unwrap_or(1);
    let confidence = settings.share("confidence", "a share from 50% to 99.99%", |c| (0.5..=0.9999).contains(&c))?;
    let plan = QualityPlan {
        error: target,
        measure,
        column,
        window_us,
        groups,
        confidence: confidence.unwrap_or(CONFIDENCE),
        span_us: settings.span()?,
        records_min: settings.records_min()?,
        bounds: settings.bounds()?,
    };
    Ok(PolicyPlan::Quality(plan))
}

/// `count(*)`, `sum(column)`, `avg(column)`.
fn measure(settings: &Settings, of: &str) -> Result<(Measure, Option<String>), PolicyError> {
    let hint =
        "the error of min, max and others does not follow from the share of missing records; use count, sum or avg";
    let wrong = || settings.wrong("of", "count(*), sum(column) or avg(column)", of).with_hint(hint);
    let (name, rest) = of.split_once('(').ok_or_else(wrong)?;
    let argument = rest.trim_end().strip_suffix(')').ok_or_else(wrong)?.trim();
    let known = Measure::NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.trim()));
    let (_, measure) = known.ok_or_else(wrong)?;
    match (measure, argument) {
        (Measure::Count, "*") => Ok((Measure::Count, None)),
        (Measure::Count, _) | (_, "" | "*") => Err(wrong()),
        (_, column) => Ok((*measure, Some(column.to_owned()))),
    }
}
