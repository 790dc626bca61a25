//! The monoid laws for every aggregate and argument type, and results against naive calculations.

use super::table::{Rows, Table, TableSpec};
use super::{AggregateFunc as F, AggregateSpec, RecordOrder};
use crate::types::{Column, DataType as T, Value, compare_doubles};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DECIMAL: T = T::Decimal { precision: 20, scale: 3 };

fn functions() -> Vec<F> {
    let mut out = vec![F::Count, F::CountDistinct, F::Sum, F::Avg, F::Min, F::Max, F::BoolAnd, F::BoolOr, F::VarSamp];
    out.extend([F::VarPop, F::StddevSamp, F::StddevPop, F::ArrayAgg, F::FirstValue, F::LastValue]);
    out.extend([F::ApproxCountDistinct, F::ApproxPercentile(0.0), F::ApproxPercentile(0.5), F::ApproxPercentile(0.99)]);
    out
}

fn types() -> Vec<T> {
    vec![T::Boolean, T::BigInt, T::Double, DECIMAL, T::Text, T::Timestamp, T::Date, T::Interval]
}

/// Every aggregate that takes the type, with its output.
fn specs(arg: &T) -> Vec<AggregateSpec> {
    let all = functions().into_iter().map(|func| AggregateSpec { func, arg: Some(arg.clone()) });
    let mut out: Vec<_> = all.filter(|spec| spec.output().is_ok()).collect();
    out.push(AggregateSpec { func: F::CountAll, arg: None });
    out
}

fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-1000i32..1000).prop_map(|x| f64::from(x) / 100.0),
        2 => any::<f64>().prop_filter("finite", |x| x.is_finite()),
        2 => (-60i32..60, any::<i32>()).prop_map(|(e, m)| f64::from(m) * 2f64.powi(e)),
        1 => prop_oneof![Just(-0.0), Just(f64::MAX), Just(f64::MIN), Just(5e-324), Just(1e100), Just(-1e100), Just(f64::MIN_POSITIVE)],
    ]
}

fn value(dtype: &T) -> BoxedStrategy<Value> {
    let int = prop_oneof![3 => -5i64..5, 1 => -1_000_000_000i64..1_000_000_000];
    let some = match dtype {
        T::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        T::Double => prop_oneof![
            30 => double(),
            1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)]
        ]
        .prop_map(Value::Double)
        .boxed(),
        T::Decimal { .. } => prop_oneof![int.prop_map(i128::from), -(10i128.pow(20))..10i128.pow(20)]
            .prop_map(|x| Value::Decimal(x, 3))
            .boxed(),
        T::Text => "[a-c]{0,3}|[a-z]{20}".prop_map(|x| Value::Text(x.as_str().into())).boxed(),
        T::Timestamp => int.prop_map(Value::Timestamp).boxed(),
        T::Date => int.prop_map(Value::Date).boxed(),
        T::Interval => int.prop_map(Value::Interval).boxed(),
        _ => int.prop_map(Value::BigInt).boxed(),
    };
    prop_oneof![9 => some, 1 => Just(Value::Null)].boxed()
}

/// A batch of one key column and the same argument for every aggregate.
fn batch(spec: &TableSpec, arg: &T, rows: &[(i64, Value)]) -> Rows {
    let mut keys = Column::new(T::BigInt);
    let mut values = Column::new(arg.clone());
    for (key, value) in rows {
        keys.push(&Value::BigInt(*key));
        values.push(value);
    }
    let args = spec.aggregates.iter().map(|a| a.arg.as_ref().map(|_| values.clone())).collect();
    let order = |i: usize| RecordOrder { event_time_us: (i as i64 * 7) % 5, partition: 0, position: i as u64 };
    Rows {
        len: rows.len(),
        keys: vec![keys],
        args,
        filters: vec![None; spec.aggregates.len()],
        order: Some((0..rows.len()).map(order).collect()),
    }
}

fn layout(arg: &T) -> Arc<TableSpec> {
    Arc::new(TableSpec { keys: vec![T::BigInt], aggregates: specs(arg) })
}

fn insert(spec: &Arc<TableSpec>, rows: &Rows, selected: &[u32]) -> Table {
    let mut table = Table::new(Arc::clone(spec));
    table.insert(rows, selected);
    table
}

/// Results by key; and as text that tells bits apart (`Value` takes −0.0 and 0.0 for equal).
fn results(table: &Table) -> (BTreeMap<i64, Vec<Value>>, String) {
    let lowered = table.lower();
    let mut out = BTreeMap::new();
    for row in 0..table.len() {
        let Value::BigInt(key) = lowered.keys[0].value(row) else { panic!("a key is lost") };
        out.insert(key, lowered.values.iter().map(|c| c.value(row)).collect());
    }
    let mut errors: Vec<_> = lowered
        .errors
        .iter()
        .map(|(row, i, message)| format!("{:?} {i} {message}", lowered.keys[0].value(*row as usize)))
        .collect();
    errors.sort();
    let text = format!("{out:?} {errors:?}");
    (out, text)
}

type Case = (T, Vec<(i64, Value)>, Vec<usize>, Vec<usize>);

/// A type, rows, the part that each row goes to, and which two parts are merged in each step.
fn case() -> impl Strategy<Value = Case> {
    let dtype = proptest::sample::select(types());
    dtype.prop_flat_map(|dtype| {
        let row = (0i64..3, value(&dtype));
        (
            Just(dtype),
            proptest::collection::vec(row, 0..40),
            proptest::collection::vec(0usize..5, 40),
            proptest::collection::vec(0usize..20, 8),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_split_and_any_order_of_merges_give_the_same_bytes((dtype, rows, parts, merges) in case()) {
        let spec = layout(&dtype);
        let all = batch(&spec, &dtype, &rows);
        let every: Vec<u32> = (0..rows.len() as u32).collect();
        let expected = results(&insert(&spec, &all, &every)).1;

        // Parts, each inserted backwards and in two batches, merged as chance has it, an empty table among them.
        let mut tables = vec![Table::new(Arc::clone(&spec))];
        for part in 0..5 {
            let mine: Vec<u32> = every.iter().rev().copied().filter(|r| parts[*r as usize] == part).collect();
            let (first, second) = mine.split_at(mine.len() / 2);
            let mut table = insert(&spec, &all, first);
            table.insert(&all, second);
            tables.push(table);
        }
        for choice in merges {
            if tables.len() > 1 {
                let other = tables.swap_remove(choice % tables.len());
                let at = (choice / 3) % tables.len();
                tables[at].merge(&other);
            }
        }
        let mut whole = tables.remove(0);
        tables.iter().for_each(|t| whole.merge(t));
        prop_assert_eq!(&results(&whole).1, &expected);

        // The identity, on either side; and dealing out and joining again.
        let mut empty = Table::new(Arc::clone(&spec));
        empty.merge(&whole);
        prop_assert_eq!(&results(&empty).1, &expected);
        let mut joined = Table::new(Arc::clone(&spec));
        whole.split(3).iter().for_each(|t| joined.merge(t));
        joined.merge(&Table::new(spec));
        prop_assert_eq!(&results(&joined).1, &expected);
    }

    #[test]
    fn results_are_those_of_a_naive_calculation((dtype, rows, _, _) in case()) {
        let spec = layout(&dtype);
        let all = batch(&spec, &dtype, &rows);
        let every: Vec<u32> = (0..rows.len() as u32).collect();
        let (found, _) = results(&insert(&spec, &all, &every));
        let order = all.order.unwrap();
        let mut groups: BTreeMap<i64, Vec<(RecordOrder, Value)>> = BTreeMap::new();
        for ((key, value), order) in rows.iter().zip(&order) {
            groups.entry(*key).or_default().push((*order, value.clone()));
        }
        prop_assert_eq!(found.keys().collect::<Vec<_>>(), groups.keys().collect::<Vec<_>>());
        for (key, members) in groups {
            for (aggregate, found) in spec.aggregates.iter().zip(&found[&key]) {
                check(aggregate, &members, found)?;
            }
        }
    }

    #[test]
    fn a_table_survives_serialisation((dtype, rows, _, _) in case()) {
        let spec = layout(&dtype);
        let mut rows = rows;
        // JSON has no NaN and no infinities, and its reader may miss the last bit.
        let survives = |x: &f64| serde_json::to_string(x).ok().and_then(|t| serde_json::from_str(&t).ok()) == Some(*x);
        rows.retain(|(_, v)| if let Value::Double(x) = v { survives(x) } else { true });
        let all = batch(&spec, &dtype, &rows);
        let every: Vec<u32> = (0..rows.len() as u32).collect();
        let table = insert(&spec, &all, &every);
        let mut read: Table = serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap();
        prop_assert_eq!(results(&read).1, results(&table).1);
        read.merge(&table);
        let mut twice = table.clone();
        twice.insert(&all, &every);
        prop_assert_eq!(results(&read).1, results(&twice).1);
    }
}

/// Checks one result against the definition.
fn check(spec: &AggregateSpec, members: &[(RecordOrder, Value)], found: &Value) -> Result<(), TestCaseError> {
    let values: Vec<&Value> = members.iter().map(|m| &m.1).filter(|v| !v.is_null()).collect();
    let distinct: BTreeSet<&Value> = values.iter().copied().collect();
    let mut sorted = members.to_vec();
    sorted.sort();
    let n = values.len();
    let count = |n: usize| Value::BigInt(n as i64);
    let expected = match spec.func {
        F::CountAll => count(members.len()),
        F::Count => count(n),
        F::CountDistinct | F::ApproxCountDistinct => count(distinct.len()),
        F::ArrayAgg => Value::List(sorted.iter().map(|m| m.1.clone()).collect()),
        F::FirstValue => sorted[0].1.clone(),
        F::LastValue => sorted[sorted.len() - 1].1.clone(),
        F::Min | F::BoolAnd => distinct.first().map_or(Value::Null, |v| (*v).clone()),
        F::Max | F::BoolOr => distinct.last().map_or(Value::Null, |v| (*v).clone()),
        _ if n == 0 => Value::Null,
        F::VarSamp | F::StddevSamp if n == 1 => Value::Null,
        _ => return check_numeric(spec, &values, found),
    };
    prop_assert_eq!(found, &expected, "{:?}", spec);
    Ok(())
}

fn check_numeric(spec: &AggregateSpec, values: &[&Value], found: &Value) -> Result<(), TestCaseError> {
    let n = values.len() as i128;
    // Numbers times 2^1074 · 10^scale.
    let exact: Vec<Big> = values.iter().map(|v| Big::of(v)).collect();
    let sum = exact.iter().fold(Big::int(0), |a, b| a.plus(b));
    let doubles: Vec<f64> =
        values.iter().filter_map(|v| if let Value::Double(x) = v { Some(*x) } else { None }).collect();
    let special = doubles.iter().any(|x| !x.is_finite());
    let scale = if let Some(T::Decimal { scale, .. }) = spec.arg { u32::from(scale) } else { 0 };
    match (spec.func, found) {
        (F::ApproxPercentile(q), Value::Double(found)) => {
            let mut all: Vec<f64> = values.iter().map(|v| as_double(v)).collect();
            all.sort_by(|a, b| compare_doubles(*a, *b));
            let rank = ((q * all.len() as f64).ceil() as usize).max(1);
            let exact = all[rank - 1];
            let near = (found - exact).abs() <= exact.abs() * 0.01 + f64::from_bits(1 << 45);
            prop_assert!(near || compare_doubles(*found, exact) == Ordering::Equal, "{found} is not near {exact}");
        }
        (F::VarSamp | F::VarPop | F::StddevSamp | F::StddevPop, Value::Double(found)) if special => {
            prop_assert!(found.is_nan());
        }
        (F::Sum | F::Avg, Value::Double(found)) if special => {
            let naive: f64 = doubles.iter().filter(|x| !x.is_finite()).sum();
            prop_assert_eq!(compare_doubles(*found, naive), Ordering::Equal);
        }
        (F::Sum, Value::Double(found)) => assert_nearest(&sum, &Big::int(1), *found)?,
        (F::Avg, Value::Double(found)) => assert_nearest(&sum, &Big::int(n), *found)?,
        (F::VarSamp | F::VarPop | F::StddevSamp | F::StddevPop, Value::Double(found)) => {
            let squares = exact.iter().fold(Big::int(0), |a, b| a.plus(&b.times(b)));
            let numerator = squares.times(&Big::int(n)).plus(&sum.times(&sum).negated());
            let freedom = if matches!(spec.func, F::VarSamp | F::StddevSamp) { n - 1 } else { n };
            let divisor = Big::int(n * freedom).times(&Big::power_of_2(1074)).times(&Big::int(10i128.pow(2 * scale)));
            if matches!(spec.func, F::VarSamp | F::VarPop) {
                assert_nearest(&numerator, &divisor, *found)?;
            } else if found.is_finite() && *found < 1e150 && (*found > 1e-150 || *found == 0.0) {
                // The root of the nearest double: some neighbour of its square is the nearest variance.
                let square = found * found;
                let near = (0..7).map(|i| f64::from_bits((square.to_bits() + i).saturating_sub(3)));
                prop_assert!(near.into_iter().any(|v| v.sqrt() == *found && is_nearest(&numerator, &divisor, v)));
            }
        }
        (F::Sum, Value::BigInt(_) | Value::Interval(_) | Value::Decimal(..)) => {
            let total: i128 = values.iter().map(|v| as_int(v)).sum();
            prop_assert_eq!(as_int(found), total);
        }
        (F::Avg, Value::Interval(_) | Value::Decimal(..)) => {
            let total: i128 = values.iter().map(|v| as_int(v)).sum();
            let total = if scale == 3 { total * 1000 } else { total };
            let off = (as_int(found) * n - total).abs() * 2;
            prop_assert!(off < n || (off == n && as_int(found) % 2 == 0), "{found:?} is not {total} / {n}");
        }
        _ => prop_assert!(false, "{:?} gave {:?}", spec, found),
    }
    Ok(())
}

fn as_int(value: &Value) -> i128 {
    match value {
        Value::BigInt(x) | Value::Interval(x) => i128::from(*x),
        Value::Decimal(x, _) => *x,
        other => panic!("{other:?} is no integer"),
    }
}

fn as_double(value: &Value) -> f64 {
    match value {
        Value::Double(x) => *x,
        // The nearest double, by the standard library.
        Value::Decimal(x, scale) => format!("{x}e-{scale}").parse().unwrap(),
        other => as_int(other) as f64,
    }
}

/// Whether `found` is the double nearest to `numerator / (divisor · 2^1074)`, ties to even.
fn is_nearest(numerator: &Big, divisor: &Big, found: f64) -> bool {
    let off = |x: f64| numerator.plus(&Big::of(&Value::Double(x)).times(divisor).negated()).size();
    if !found.is_finite() {
        // From half an ulp past the largest double on.
        let limit = Big::of(&Value::Double(f64::MAX)).plus(&Big::power_of_2(970 + 1074)).times(divisor);
        return !found.is_nan()
            && numerator.clone().size().compare(&limit) != Ordering::Less
            && numerator.negative == (found < 0.0);
    }
    let even = found.to_bits() & 1 == 0;
    let off_found = off(found);
    [found.next_up(), found.next_down()].into_iter().filter(|x| x.is_finite()).all(|x| {
        match off_found.compare(&off(x)) {
            Ordering::Less => true,
            Ordering::Equal => even,
            Ordering::Greater => false,
        }
    })
}

fn assert_nearest(numerator: &Big, divisor: &Big, found: f64) -> Result<(), TestCaseError> {
    prop_assert!(is_nearest(numerator, divisor, found), "{} is not the nearest double", found);
    prop_assert!(found != 0.0 || found.is_sign_positive(), "zero has no sign");
    Ok(())
}

/// Integers of any length, the plainest way: sign and digits of 32 bits.
#[derive(Clone, Debug)]
struct Big {
    negative: bool,
    digits: Vec<u32>,
}

impl Big {
    fn int(x: i128) -> Big {
        let mut size = x.unsigned_abs();
        let mut digits = Vec::new();
        while size > 0 {
            digits.push(size as u32);
            size >>= 32;
        }
        Big { negative: x < 0, digits }
    }
    fn power_of_2(n: usize) -> Big {
        let mut digits = vec![0; n / 32];
        digits.push(1 << (n % 32));
        Big { negative: false, digits }
    }
    /// A number times 2^1074; a decimal without its scale.
    fn of(value: &Value) -> Big {
        let Value::Double(x) = value else { return Big::int(as_int(value)).times(&Big::power_of_2(1074)) };
        if !x.is_finite() {
            return Big::int(0);
        }
        let field = (x.to_bits() >> 52 & 0x7ff) as usize;
        let fraction = x.to_bits() & ((1 << 52) - 1);
        let size = if field == 0 { fraction } else { fraction | 1 << 52 };
        let sign = if *x < 0.0 { -1 } else { 1 };
        Big::int(sign * i128::from(size)).times(&Big::power_of_2(field.max(1) - 1))
    }
    fn negated(mut self) -> Big {
        self.negative = !self.negative;
        self
    }
    fn size(mut self) -> Big {
        self.negative = false;
        self
    }
    fn compare_size(&self, other: &Big) -> Ordering {
        let len = self.digits.len().max(other.digits.len());
        let digit = |b: &Big, i: usize| b.digits.get(i).copied().unwrap_or(0);
        (0..len).rev().map(|i| digit(self, i).cmp(&digit(other, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
    fn compare(&self, other: &Big) -> Ordering {
        assert!(!self.negative && !other.negative);
        self.compare_size(other)
    }
    fn plus(&self, other: &Big) -> Big {
        let (a, b) = if self.compare_size(other).is_lt() { (other, self) } else { (self, other) };
        let sign = if a.negative == b.negative { 1 } else { -1 };
        let mut digits = Vec::new();
        let mut carry = 0i64;
        for i in 0..=a.digits.len() {
            let digit = |b: &Big| i64::from(b.digits.get(i).copied().unwrap_or(0));
            carry += digit(a) + sign * digit(b);
            digits.push(carry as u32);
            carry >>= 32;
        }
        Big { negative: a.negative, digits }
    }
    fn times(&self, other: &Big) -> Big {
        let mut digits = vec![0u32; self.digits.len() + other.digits.len() + 1];
        for (i, a) in self.digits.iter().enumerate() {
            let mut carry = 0u64;
            for j in 0..=other.digits.len() {
                let b = other.digits.get(j).copied().unwrap_or(0);
                carry += u64::from(*a) * u64::from(b) + u64::from(digits[i + j]);
                digits[i + j] = carry as u32;
                carry >>= 32;
            }
        }
        Big { negative: self.negative != other.negative, digits }
    }
}

/// One aggregate over one group.
fn lower_one(func: F, dtype: &T, values: &[Value]) -> Result<Value, String> {
    let spec = Arc::new(TableSpec { keys: vec![], aggregates: vec![AggregateSpec { func, arg: Some(dtype.clone()) }] });
    let mut column = Column::new(dtype.clone());
    values.iter().for_each(|v| column.push(v));
    let rows = Rows { len: values.len(), args: vec![Some(column)], ..Rows::default() };
    let every: Vec<u32> = (0..values.len() as u32).collect();
    let lowered = insert(&spec, &rows, &every).lower();
    lowered.errors.first().map_or_else(|| Ok(lowered.values[0].value(0)), |e| Err(e.2.clone()))
}

#[test]
fn decimal_sums_are_wider_than_what_is_published() {
    let wide = T::Decimal { precision: 38, scale: 0 };
    let most = 10i128.pow(38) - 1;
    let of = |xs: &[i128]| xs.iter().map(|x| Value::Decimal(*x, 0)).collect::<Vec<_>>();
    assert_eq!(lower_one(F::Sum, &wide, &of(&[most, most, most, -most, -most])), Ok(Value::Decimal(most, 0)));
    assert_eq!(lower_one(F::Sum, &wide, &of(&[-most, -most, most])), Ok(Value::Decimal(-most, 0)));
    let error = lower_one(F::Sum, &wide, &of(&[most, 1])).unwrap_err();
    assert_eq!(error, "the sum has more digits than DECIMAL(38,0) holds");
    // The average of the largest numbers has 38 digits, and six more after the point.
    assert!(lower_one(F::Avg, &wide, &of(&[most, most])).is_err());
    let scaled = T::Decimal { precision: 38, scale: 6 };
    assert_eq!(lower_one(F::Avg, &scaled, &of(&[most, most])), Ok(Value::Decimal(most, 6)));
    // 0.5, 1.5 and −2.5 units round to even.
    for (xs, mean) in [([0, 1], 0), ([1, 2], 2), ([-2, -3], -2)] {
        assert_eq!(lower_one(F::Avg, &scaled, &of(&xs)), Ok(Value::Decimal(mean, 6)));
    }
    // (10^38 − 1)² needs 253 bits.
    let Ok(Value::Double(variance)) = lower_one(F::VarPop, &wide, &of(&[most, -most])) else { panic!("no variance") };
    assert_eq!(variance, 1e76);
}

#[test]
fn doubles_beyond_the_range_and_special_ones() {
    let sum = |xs: &[f64]| {
        let values: Vec<Value> = xs.iter().map(|x| Value::Double(*x)).collect();
        let Ok(Value::Double(sum)) = lower_one(F::Sum, &T::Double, &values) else { panic!("no sum") };
        sum
    };
    let inf = f64::INFINITY;
    assert_eq!(sum(&[f64::MAX, f64::MAX]), inf);
    assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
    assert_eq!(sum(&[f64::MIN, f64::MIN]), -inf);
    assert_eq!(sum(&[1e16, 1.0, 1.0, -1e16]), 2.0);
    assert_eq!(sum(&[inf, 1.0]), inf);
    assert!(sum(&[inf, -inf]).is_nan() && sum(&[f64::NAN, inf]).is_nan());
    assert!(sum(&[-0.0, -0.0]).is_sign_positive());
    assert_eq!(sum(&[5e-324, 5e-324, -5e-324]), 5e-324);
    // Squares of these are far beyond a double, the variance is not.
    let values = [Value::Double(1e300), Value::Double(1e300 * (1.0 + f64::EPSILON))];
    assert!(matches!(lower_one(F::StddevPop, &T::Double, &values), Ok(Value::Double(x)) if x == inf || x > 1e280));
    let values = [Value::Double(1e-200), Value::Double(3e-200)];
    assert_eq!(lower_one(F::VarPop, &T::Double, &values), Ok(Value::Double(0.0)));
}

#[test]
fn counts_of_many_distinct_values_are_near() {
    for n in [256i64, 257, 1_000, 20_000, 300_000] {
        let values: Vec<Value> = (0..n).chain(0..n).map(Value::BigInt).collect();
        let Ok(Value::BigInt(found)) = lower_one(F::ApproxCountDistinct, &T::BigInt, &values) else {
            panic!("no count")
        };
        let off = (found - n).abs() as f64 / n as f64;
        assert!(off <= if n <= 256 { 0.0 } else { 0.05 }, "{found} for {n}");
    }
}

#[test]
fn percentiles_of_many_values_are_near() {
    let values: Vec<Value> = (-500..9_500i64).map(|x| Value::Double((x * 37 % 9_973) as f64 / 7.0)).collect();
    let mut all: Vec<f64> = values.iter().map(as_double).collect();
    all.sort_by(f64::total_cmp);
    for q in [0.0, 0.001, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0] {
        let exact = all[((q * all.len() as f64).ceil() as usize).max(1) - 1];
        let Ok(Value::Double(found)) = lower_one(F::ApproxPercentile(q), &T::Double, &values) else { panic!("none") };
        assert!((found - exact).abs() <= exact.abs() * 0.01, "{found} for {exact} at {q}");
    }
}

#[test]
fn wrong_types_are_refused_with_the_reason() {
    let of = |func, arg: T| AggregateSpec { func, arg: Some(arg) }.output().unwrap_err();
    assert_eq!(of(F::Sum, T::Text), "sum takes a number or an INTERVAL, found TEXT");
    assert_eq!(of(F::BoolAnd, T::BigInt), "bool_and takes a BOOLEAN, found BIGINT");
    assert_eq!(of(F::StddevSamp, T::Date), "stddev_samp takes a number, found DATE");
    assert_eq!(of(F::Min, T::List(Box::new(T::Text))), "min takes no lists, found TEXT[]");
    assert_eq!(of(F::ApproxPercentile(1.5), T::Double), "approx_percentile takes a fraction from 0 to 1, found 1.5");
    assert_eq!(AggregateSpec { func: F::Max, arg: None }.output().unwrap_err(), "max needs an argument");
}
