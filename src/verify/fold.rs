//! Aggregates over a list of values, all at once and exactly.
//!
//! No states, no merging: the whole list is there, sums are whole numbers of any size, and what is rounded is rounded
//! once. The two approximate aggregates are defined by their sketch and nothing else, so those two call
//! [`crate::aggregate`] itself.

use super::big::{Big, Rounding, double_units, units_per_one};
use crate::aggregate::table::{Rows, Table, TableSpec};
use crate::aggregate::{AggregateFunc, AggregateSpec, RecordOrder};
use crate::types::{Column, DataType, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The aggregate of the records that pass its `FILTER`, each with its argument (`None` for `count(*)`).
///
/// # Errors
/// When the result does not fit its type (lower case, no full stop).
pub fn fold(spec: &AggregateSpec, records: &[(RecordOrder, Option<Value>)]) -> Result<Value, String> {
    use AggregateFunc as F;
    let mut ordered: Vec<&(RecordOrder, Option<Value>)> = records.iter().collect();
    ordered.sort();
    let all: Vec<Value> = ordered.iter().map(|(_, value)| value.clone().unwrap_or(Value::Null)).collect();
    let values: Vec<&Value> = all.iter().filter(|value| !value.is_null()).collect();
    let least = || values.iter().min().map_or(Value::Null, |v| (*v).clone());
    let greatest = || values.iter().max().map_or(Value::Null, |v| (*v).clone());
    let count = |n: usize| Ok(Value::BigInt(i64::try_from(n).unwrap_or(i64::MAX)));
    match spec.func {
        F::CountAll => count(all.len()),
        F::Count => count(values.len()),
        F::CountDistinct => count(values.iter().collect::<BTreeSet<_>>().len()),
        F::Min | F::BoolAnd => Ok(least()),
        F::Max | F::BoolOr => Ok(greatest()),
        F::ArrayAgg if all.is_empty() => Ok(Value::Null),
        F::ArrayAgg => Ok(Value::List(all.into())),
        F::FirstValue => Ok(all.first().cloned().unwrap_or(Value::Null)),
        F::LastValue => Ok(all.last().cloned().unwrap_or(Value::Null)),
        F::ApproxCountDistinct | F::ApproxPercentile(_) => sketch(spec, &all),
        F::Sum | F::Avg | F::VarSamp | F::VarPop | F::StddevSamp | F::StddevPop => numeric(spec, &values),
    }
}

/// Numbers as whole numbers of one unit.
struct Exact {
    /// Each value, in units. Numbers that are not finite are left out.
    numbers: Vec<Big>,
    /// Units that make 1.
    unit: Big,
    /// What the sum of the numbers that are not finite is, if there are any.
    special: Option<f64>,
}

fn exact(values: &[&Value]) -> Exact {
    let mut out = Exact { numbers: Vec::new(), unit: Big::from(1i64), special: None };
    for value in values {
        match value {
            Value::BigInt(v) | Value::Interval(v) => out.numbers.push(Big::from(*v)),
            Value::Decimal(v, scale) => {
                out.numbers.push(Big::from(*v));
                out.unit = Big::ten_to(u32::from(*scale));
            }
            Value::Double(x) if x.is_finite() => {
                out.numbers.push(double_units(*x));
                out.unit = units_per_one();
            }
            Value::Double(x) => out.special = Some(out.special.unwrap_or(0.0) + x),
            _ => {}
        }
    }
    out
}

fn numeric(spec: &AggregateSpec, values: &[&Value]) -> Result<Value, String> {
    use AggregateFunc as F;
    if values.is_empty() {
        return Ok(Value::Null);
    }
    let Exact { numbers, unit, special } = exact(values);
    let sum = numbers.iter().fold(Big::default(), |a, b| a.plus(b));
    let n = Big::from(values.len() as i128);
    let output = spec.output()?;
    match (spec.func, &output) {
        (F::Sum | F::Avg, DataType::Double) => {
            let divisor = if spec.func == F::Avg { unit.times(&n) } else { unit };
            Ok(Value::Double(special.unwrap_or_else(|| sum.ratio(&divisor))))
        }
        (F::Sum, _) => publish(Some(sum), &output),
        (F::Avg, DataType::Decimal { scale, .. }) => {
            let up = sum.times(&Big::ten_to(u32::from(*scale)));
            publish(up.divided_rounding(&unit.times(&n), Rounding::HalfEven), &output)
        }
        (F::Avg, _) => publish(sum.divided_rounding(&n, Rounding::HalfEven), &output),
        (F::VarSamp | F::StddevSamp, _) if values.len() == 1 => Ok(Value::Null),
        _ => {
            let sample = matches!(spec.func, F::VarSamp | F::StddevSamp);
            let freedom = n.minus(&Big::from(i64::from(sample)));
            let squares = numbers.iter().fold(Big::default(), |a, b| a.plus(&b.times(b)));
            let up = squares.times(&n).minus(&sum.times(&sum));
            let down = n.times(&freedom).times(&unit).times(&unit);
            let variance = if special.is_some() { f64::NAN } else { up.ratio(&down) };
            let root = matches!(spec.func, F::StddevSamp | F::StddevPop);
            Ok(Value::Double(if root { variance.sqrt() } else { variance }))
        }
    }
}

/// A whole number as a value of the output's type.
fn publish(exact: Option<Big>, output: &DataType) -> Result<Value, String> {
    let value = exact.and_then(|exact| match output {
        DataType::BigInt => i64::try_from(exact.to_i128()?).ok().map(Value::BigInt),
        DataType::Interval => i64::try_from(exact.to_i128()?).ok().map(Value::Interval),
        DataType::Decimal { scale, .. } if exact.size() < Big::ten_to(38) => {
            Some(Value::Decimal(exact.to_i128()?, *scale))
        }
        _ => None,
    });
    value.ok_or_else(|| format!("the result does not fit {output}"))
}

/// The approximate aggregates, by the engine's own sketches.
fn sketch(spec: &AggregateSpec, values: &[Value]) -> Result<Value, String> {
    let Some(dtype) = spec.arg.clone() else { return Err("an approximate aggregate needs an argument".into()) };
    let mut column = Column::new(dtype);
    for value in values {
        column.push(value);
    }
    let mut table = Table::new(Arc::new(TableSpec { keys: Vec::new(), aggregates: vec![spec.clone()] }));
    let rows = Rows { len: values.len(), keys: Vec::new(), args: vec![Some(column)], filters: vec![None], order: None };
    let selected: Vec<u32> = (0..values.len()).filter_map(|row| u32::try_from(row).ok()).collect();
    table.insert(&rows, &selected);
    match table.lower().values.first() {
        Some(column) if !column.is_empty() => Ok(column.value(0)),
        // No group without a record: what an empty sketch says.
        _ if spec.func == AggregateFunc::ApproxCountDistinct => Ok(Value::BigInt(0)),
        _ => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AggregateFunc as F;

    fn run(func: F, arg: DataType, values: &[Value]) -> Result<Value, String> {
        let records: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(i, v)| {
                let order = RecordOrder { event_time_us: 100 - i as i64, partition: 0, position: i as u64 };
                (order, Some(v.clone()))
            })
            .collect();
        fold(&AggregateSpec { func, arg: Some(arg) }, &records)
    }

    #[test]
    fn sums_are_exact_and_checked() {
        let doubles = [1e100, 1.0, -1e100, f64::MAX, f64::MAX, -f64::MAX, -f64::MAX].map(Value::Double);
        assert_eq!(run(F::Sum, DataType::Double, &doubles), Ok(Value::Double(1.0)));
        let inf = [f64::INFINITY, 1.0, f64::NEG_INFINITY].map(Value::Double);
        assert!(matches!(run(F::Sum, DataType::Double, &inf), Ok(Value::Double(x)) if x.is_nan()));
        assert_eq!(run(F::Avg, DataType::Double, &inf[..2]), Ok(Value::Double(f64::INFINITY)));
        let ints = [i64::MAX, i64::MAX, -i64::MAX].map(Value::BigInt);
        assert_eq!(run(F::Sum, DataType::BigInt, &ints), Ok(Value::BigInt(i64::MAX)));
        assert!(run(F::Sum, DataType::BigInt, &ints[..2]).is_err());
        assert_eq!(run(F::Avg, DataType::BigInt, &[1, 2].map(Value::BigInt)), Ok(Value::Double(1.5)));
        let money = DataType::Decimal { precision: 10, scale: 2 };
        let cents = [Value::Decimal(1, 2), Value::Decimal(2, 2), Value::Null, Value::Decimal(2, 2)];
        assert_eq!(run(F::Sum, money.clone(), &cents), Ok(Value::Decimal(5, 2)));
        assert_eq!(run(F::Avg, money, &cents), Ok(Value::Decimal(16667, 6)));
        assert_eq!(run(F::Avg, DataType::Interval, &[1, 2].map(Value::Interval)), Ok(Value::Interval(2)));
        assert_eq!(run(F::Sum, DataType::BigInt, &[Value::Null]), Ok(Value::Null));
    }

    #[test]
    fn variances_do_not_cancel() {
        let far = [1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0].map(Value::Double);
        assert_eq!(run(F::VarSamp, DataType::Double, &far), Ok(Value::Double(30.0)));
        assert_eq!(run(F::VarPop, DataType::Double, &far), Ok(Value::Double(22.5)));
        assert_eq!(run(F::StddevPop, DataType::BigInt, &[2, 4].map(Value::BigInt)), Ok(Value::Double(1.0)));
        assert_eq!(run(F::StddevSamp, DataType::BigInt, &[Value::BigInt(1)]), Ok(Value::Null));
    }

    #[test]
    fn lists_go_by_event_time_and_nulls_are_values_to_them() {
        let values = [Value::BigInt(1), Value::Null, Value::BigInt(3)];
        let list: Arc<[Value]> = [Value::BigInt(3), Value::Null, Value::BigInt(1)].into();
        assert_eq!(run(F::ArrayAgg, DataType::BigInt, &values), Ok(Value::List(list)));
        assert_eq!(run(F::FirstValue, DataType::BigInt, &values), Ok(Value::BigInt(3)));
        assert_eq!(run(F::LastValue, DataType::BigInt, &values[..2]), Ok(Value::BigInt(1)));
        assert_eq!(run(F::ArrayAgg, DataType::BigInt, &[]), Ok(Value::Null));
        let zeros = [0.0, -0.0, f64::NAN, -f64::NAN].map(Value::Double);
        assert_eq!(run(F::CountDistinct, DataType::Double, &zeros), Ok(Value::BigInt(2)));
        assert!(matches!(run(F::Max, DataType::Double, &zeros), Ok(Value::Double(x)) if x.is_nan()));
        assert_eq!(
            run(F::Max, DataType::Text, &["b", "é", "Z"].map(|s| Value::Text(s.into()))),
            Ok(Value::Text("é".into()))
        );
    }
}
