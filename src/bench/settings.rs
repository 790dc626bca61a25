//! `[input]` of a definition, and the variants that change it.

use super::definition::{Expect, Input};
use crate::plan::{GeneratorPlan, Workload};
use crate::source::generator;
use crate::time::{parse_duration, parse_timestamp};
use serde::Deserialize;
use std::path::PathBuf;

/// `[[variant]]`: the same query over another input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variant {
    #[serde(deserialize_with = "name")]
    pub name: String,
    pub about: Option<String>,
    /// What is other than in `[input]`.
    #[serde(default)]
    input: toml::Table,
    #[serde(default)]
    pub expect: Vec<Expect>,
}

impl Variant {
    /// The variant's input.
    pub fn over(&self, input: &toml::Table) -> toml::Table {
        let mut out = input.clone();
        out.extend(self.input.iter().map(|(key, value)| (key.clone(), value.clone())));
        out
    }
}

/// A name that files can bear.
fn name<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || !name.bytes().all(good) {
        let message = format!("expected a name of small letters, digits and dashes, found \"{name}\"");
        return Err(serde::de::Error::custom(message));
    }
    Ok(name)
}

/// The settings of `slackwater gen`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    seed: Option<u64>,
    rate: Option<f64>,
    keys: Option<u64>,
    partitions: Option<u32>,
    #[serde(default)]
    partition_column: bool,
    delay_mean: Option<String>,
    late_share: Option<f64>,
    late_max: Option<String>,
    delay_quantiles: Option<String>,
    delayed_keys: Option<f64>,
    key_delay: Option<String>,
    silent_every: Option<String>,
    silent_for: Option<String>,
    start: Option<String>,
}

impl Written {
    fn input(self, workload: Workload) -> Result<Input, String> {
        let mut plan = GeneratorPlan { workload, ..generator::default_plan() };
        if workload == Workload::Nexmark && self.keys.is_some() {
            return Err("input.keys: this is for orders".to_owned());
        }
        fn set<T>(to: &mut T, value: Option<T>) {
            value.into_iter().for_each(|value| *to = value);
        }
        set(&mut plan.seed, self.seed);
        set(&mut plan.rate, self.rate);
        set(&mut plan.keys, self.keys);
        set(&mut plan.partitions, self.partitions);
        set(&mut plan.late_share, self.late_share);
        let duration = |name: &str, text: Option<String>| {
            text.map(|t| parse_duration(&t).map_err(|e| format!("input.{name}: {e}"))).transpose()
        };
        set(&mut plan.delay_mean_us, duration("delay_mean", self.delay_mean)?);
        set(&mut plan.late_max_us, duration("late_max", self.late_max)?);
        set(&mut plan.delayed_keys, self.delayed_keys);
        set(&mut plan.key_delay_us, duration("key_delay", self.key_delay)?);
        let quantiles = self.delay_quantiles.map(|text| generator::parse_quantiles(&text)).transpose();
        set(&mut plan.delay_quantiles, quantiles.map_err(|e| format!("input.delay_quantiles: {e}"))?);
        set(&mut plan.silent_every_us, duration("silent_every", self.silent_every)?);
        set(&mut plan.silent_for_us, duration("silent_for", self.silent_for)?);
        if let Some(text) = self.start {
            plan.start_us = parse_timestamp(text.as_bytes()).ok_or_else(|| {
                format!("input.start: expected a time such as 2026-01-01T00:00:00Z, found \"{text}\"")
            })?;
        }
        Ok(Input::Generated { plan, partition_column: self.partition_column })
    }
}

/// Either a generator with its options or a file.
pub(super) fn input(mut table: toml::Table) -> Result<Input, String> {
    let text = |value: toml::Value, name: &str| match value {
        toml::Value::String(text) => Ok(text),
        other => Err(format!("input.{name}: expected a text, found {}", other.type_str())),
    };
    match (table.remove("generator"), table.remove("replay")) {
        (Some(generator), None) => {
            let name = text(generator, "generator")?;
            let Some((_, workload)) = Workload::NAMED.iter().find(|(known, _)| *known == name) else {
                let known: Vec<String> = Workload::NAMED.iter().map(|(known, _)| format!("\"{known}\"")).collect();
                return Err(format!("input.generator: expected {}, found \"{name}\"", known.join(" or ")));
            };
            let written: Written =
                toml::Value::Table(table).try_into().map_err(|e| format!("input: {}", e.to_string().trim_end()))?;
            written.input(*workload)
        }
        (None, Some(replay)) => match table.keys().next() {
            None => Ok(Input::Replay(PathBuf::from(text(replay, "replay")?))),
            Some(more) => Err(format!("input: a replay has no \"{more}\"")),
        },
        _ => Err("input: expected one of \"generator\" and \"replay\"".to_owned()),
    }
}
