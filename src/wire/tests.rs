use super::*;
use crate::aggregate::table::{Rows, Table, TableSpec};
use crate::aggregate::{AggregateFunc as F, AggregateSpec, RecordOrder};
use crate::dataflow::operators::Published;
use crate::dataflow::side::{Side, TableCounts, ViewCounts};
use crate::engine::ingest::{Contributions, Run, TooLate};
use crate::engine::output::Reject;
use crate::per_row::PerRow;
use crate::record::{ContributionCounts, RecordCounts, RejectReason};
use crate::sink::Op;
use crate::sink::block::ChangeBlock;
use crate::time::Instant;
use crate::types::{Column, DataType as T, Value};
use crate::watermark::blocks::{BlockSummary, Segment, SegmentEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::Debug;
use std::sync::Arc;

/// Where the bytes of a test are cut off, and where and how they are falsified.
#[derive(Clone, Debug)]
struct Damage {
    cut: usize,
    flips: Vec<(usize, u8)>,
}

fn damage() -> impl Strategy<Value = Damage> {
    // Some bytes that mean something in many places, and any.
    let byte = prop_oneof![select(vec![1, 0x80, 0xff]), 1u8..];
    (any::<usize>(), vec((any::<usize>(), byte), 40)).prop_map(|(cut, flips)| Damage { cut, flips })
}

/// Writes and reads; what came back. Damaged bytes must be refused or give something that `using` can work with.
fn survives<M: Wire + Debug>(item: &M, damage: &Damage, using: impl Fn(&M)) -> M {
    let bytes = encode(item);
    assert_eq!(bytes.len(), item.size());
    assert_eq!(bytes.len() % 8, 0);
    assert!(bytes.len() >= M::LEAST);
    let back = decode::<M>(&bytes).unwrap_or_else(|e| panic!("{e}: {item:?}"));
    assert_eq!(back.size(), bytes.len());
    using(&back);
    for cut in (0..bytes.len()).step_by(8).take(40).chain([damage.cut % bytes.len(), bytes.len() - 1]) {
        let error = decode::<M>(&bytes[..cut]).expect_err("a part is no whole");
        assert!(error.at <= cut, "{error}");
    }
    assert!(decode::<M>(&[&bytes[..], &[0; 8]].concat()).is_err());
    for (at, flip) in &damage.flips {
        let mut wrong = bytes.clone();
        // Half of the time near the front, where the counts are.
        let range = if at % 2 == 0 { wrong.len() } else { wrong.len().min(64) };
        wrong[at / 2 % range] ^= flip;
        match decode::<M>(&wrong) {
            Ok(other) => {
                assert_eq!(other.size(), wrong.len());
                using(&other);
            }
            Err(error) => assert!(error.at <= wrong.len(), "{error}"),
        }
    }
    back
}

/// The same, for items that can be compared; the bytes are then the only ones of the item.
fn survives_equal<M: Wire + Debug + PartialEq>(item: &M, damage: &Damage) {
    let canonical = |back: &M| assert_eq!(decode::<M>(&encode(back)).map(|x| encode(&x)), Ok(encode(back)));
    assert_eq!(&survives(item, damage, canonical), item);
}

const DECIMAL: T = T::Decimal { precision: 20, scale: 3 };

fn leaves() -> Vec<T> {
    vec![T::Boolean, T::BigInt, T::Double, DECIMAL, T::Text, T::Timestamp, T::Date, T::Interval]
}

fn dtype() -> impl Strategy<Value = T> {
    let leaf = select(leaves());
    prop_oneof![4 => leaf.clone(), 1 => leaf.prop_map(|item| T::List(Box::new(item)))]
}

fn value(dtype: &T) -> BoxedStrategy<Value> {
    let int = prop_oneof![3 => -5i64..5, 1 => any::<i64>()];
    let double = prop_oneof![
        (-9i32..9).prop_map(|x| f64::from(x) / 4.0),
        // Finite ones of all sizes, which make exact sums wide.
        (-1000i32..1000).prop_map(|e| 2f64.powi(e)),
        select(vec![-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324])
    ];
    let some = match dtype {
        T::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        T::Double => double.prop_map(Value::Double).boxed(),
        T::Decimal { scale, .. } => {
            let scale = *scale;
            int.prop_map(move |x| Value::Decimal(i128::from(x) * 7, scale)).boxed()
        }
        T::Text => "[aä]{0,3}|[a-zß]{13,20}".prop_map(|x| Value::Text(x.as_str().into())).boxed(),
        T::Timestamp => int.prop_map(Value::Timestamp).boxed(),
        T::Date => int.prop_map(Value::Date).boxed(),
        T::Interval => int.prop_map(Value::Interval).boxed(),
        T::BigInt => int.prop_map(Value::BigInt).boxed(),
        T::List(item) => vec(value(item), 0..4).prop_map(|v| Value::List(v.into())).boxed(),
    };
    prop_oneof![9 => some, 1 => Just(Value::Null)].boxed()
}

fn any_value() -> impl Strategy<Value = Value> + Clone {
    select(leaves()).prop_flat_map(|t| prop_oneof![4 => value(&t), 1 => value(&T::List(Box::new(t)))])
}

fn column(dtype: &T, rows: usize) -> BoxedStrategy<Column> {
    let (dtype, null) = (dtype.clone(), prop_oneof![Just(true), Just(false)]);
    (vec(value(&dtype), rows), null)
        .prop_map(move |(values, nulls)| {
            let mut out = Column::new(dtype.clone());
            values.iter().filter(|v| nulls || !v.is_null()).for_each(|v| out.push(v));
            let fill = Value::is_null;
            let more = values.iter().filter(|v| !nulls && fill(v)).count();
            // Without NULLs in some columns: the first value again, or NULL if there is none.
            let again = out.value(0);
            (0..more).for_each(|_| out.push(&again));
            out
        })
        .boxed()
}

/// Every aggregate that takes the type.
fn aggregates(arg: &T) -> Vec<AggregateSpec> {
    let mut all = vec![F::Count, F::CountDistinct, F::Sum, F::Avg, F::Min, F::Max, F::BoolAnd, F::BoolOr, F::VarSamp];
    all.extend([F::VarPop, F::StddevSamp, F::StddevPop, F::ArrayAgg, F::FirstValue, F::LastValue]);
    all.extend([F::ApproxCountDistinct, F::ApproxPercentile(0.5)]);
    let specs = all.into_iter().map(|func| AggregateSpec { func, arg: Some(arg.clone()) });
    let all = AggregateSpec { func: F::CountAll, arg: None };
    specs.filter(|spec| spec.output().is_ok()).chain([all]).collect()
}

fn order(n: usize) -> RecordOrder {
    RecordOrder { event_time_us: n as i64 * 7 % 5, partition: n as u32 % 3, position: n as u64 }
}

/// A layout and rows for it.
fn batch() -> impl Strategy<Value = (Arc<TableSpec>, Rows)> {
    (vec(dtype(), 0..3), dtype(), 0usize..30).prop_flat_map(|(keys, arg, n)| {
        let spec = Arc::new(TableSpec { aggregates: aggregates(&arg), keys });
        let keys: Vec<_> = spec.keys.iter().map(|t| column(t, n)).collect();
        let filter = prop_oneof![Just(None), vec(any::<bool>(), n).prop_map(Some)];
        (Just(spec), keys, column(&arg, n), filter).prop_map(move |(spec, keys, arg, filter)| {
            let args = spec.aggregates.iter().map(|a| a.arg.as_ref().map(|_| arg.clone())).collect();
            let filters = spec.aggregates.iter().map(|_| filter.clone()).collect();
            (spec, Rows { len: n, keys, args, filters, order: Some((0..n).map(order).collect()) })
        })
    })
}

fn filled(spec: &Arc<TableSpec>, rows: &Rows) -> Table {
    let mut table = Table::new(Arc::clone(spec));
    table.insert(rows, &(0..rows.len as u32).collect::<Vec<_>>());
    table
}

/// Results as text, which tells bits apart (`Value` takes −0.0 and 0.0 for equal).
fn results(table: &Table) -> String {
    format!("{:?}", table.lower())
}

fn per_row<X: Clone + Debug + 'static>(one: BoxedStrategy<X>, rows: usize) -> BoxedStrategy<PerRow<X>> {
    prop_oneof![one.clone().prop_map(PerRow::All), vec(one, rows).prop_map(PerRow::Each)].boxed()
}

fn changes() -> impl Strategy<Value = ChangeBlock> {
    let op = || select(vec![Op::Delete, Op::UpdateBefore, Op::Insert, Op::UpdateAfter]).boxed();
    let window = || proptest::option::of(any::<(i64, i64)>()).boxed();
    (vec(dtype(), 0..3), vec(dtype(), 1..3), 0usize..9).prop_flat_map(move |(group, values, len)| {
        let columns = |types: Vec<T>| types.iter().map(|t| column(t, len)).collect::<Vec<_>>();
        let instants = per_row(any::<i64>().prop_map(Instant).boxed(), len);
        let numbers = || per_row(any::<u64>().boxed(), len);
        let beside = (any::<bool>(), instants, per_row(op(), len), numbers(), numbers(), per_row(window(), len));
        let errors = vec(proptest::option::of(".{0,9}"), len);
        (beside, columns(group), columns(values), errors).prop_map(move |(beside, group, values, errors)| {
            let (timed, mut at, op, revision, late_count, window_us) = beside;
            if let PerRow::Each(at) = &mut at {
                at.sort();
            }
            let errors = (0..).zip(errors).filter_map(|(row, e)| e.map(|e| (row, e.as_str().into()))).collect();
            ChangeBlock { len, timed, at, op, revision, late_count, window_us, group, values, errors }
        })
    })
}

fn record_counts() -> impl Strategy<Value = RecordCounts> {
    let reason = select(vec![RejectReason::Syntax, RejectReason::Future, RejectReason::Value]);
    let rejected = proptest::collection::btree_map(reason, any::<u64>(), 0..3);
    (any::<[u64; 6]>(), rejected).prop_map(|(n, rejected)| {
        let [read, on_time, corrected, partly_too_late, too_late, filtered] = n;
        RecordCounts { read, on_time, corrected, partly_too_late, too_late, filtered, rejected }
    })
}

fn too_late() -> impl Strategy<Value = TooLate> {
    (any::<(u32, u64, i64, i64, i64)>(), ".{0,9}", proptest::option::of(any::<(i64, i64)>()), vec(any_value(), 0..3))
        .prop_map(|((partition, position, event_time_us, stamp_us, lag_us), name, window_us, columns)| TooLate {
            partition,
            partition_name: name.as_str().into(),
            position,
            event_time_us,
            stamp_us,
            window_us,
            lag_us,
            columns,
        })
}

fn reject() -> impl Strategy<Value = Reject> {
    let optional = proptest::option::of(any::<u32>());
    let place = any::<(u32, u32, u64, u64)>();
    let reason = select(vec![RejectReason::Encoding, RejectReason::EventTime, RejectReason::Range]);
    (optional.clone(), optional, proptest::option::of(".{0,9}"), place, reason, ".{0,20}", vec(any::<u8>(), 0..20))
        .prop_map(|(view, partition, partition_name, (lane, file, line, position), reason, detail, raw)| Reject {
            view,
            partition,
            partition_name,
            lane,
            file,
            line,
            position,
            reason,
            detail,
            raw,
        })
}

fn side() -> impl Strategy<Value = Side> {
    let partitions = proptest::collection::btree_map(proptest::option::of(any::<u32>()), record_counts(), 0..4);
    let view = (partitions, any::<(u64, u64, u64)>()).prop_map(|(records, (on_time, late, too_late))| ViewCounts {
        records,
        contributions: ContributionCounts { on_time, late, too_late },
    });
    let delays = any::<(u64, u128, i64)>().prop_map(|(records, sum_us, max_us)| crate::watermark::policy::DelaySums {
        records,
        sum_us,
        max_us,
    });
    let table = (proptest::option::of(any::<i64>()), any::<(u64, u64)>(), delays).prop_map(
        |(newest_event_us, (bytes, records), delays)| TableCounts { newest_event_us, bytes, records, delays },
    );
    prop_oneof![
        (any::<u32>(), vec(any::<i64>(), 0..9)).prop_map(|(n, lags)| Side::Lags(n, lags)),
        (any::<u32>(), vec(too_late(), 0..3)).prop_map(|(n, rows)| Side::TooLate(n, rows)),
        (any::<u32>(), vec(reject(), 0..3)).prop_map(|(n, rows)| Side::Rejects(n, rows)),
        (any::<u32>(), view).prop_map(|(n, counts)| Side::View(n, counts)),
        (any::<u32>(), table).prop_map(|(n, counts)| Side::Table(n, counts)),
    ]
}

fn summary() -> impl Strategy<Value = BlockSummary> {
    let entry = (0u32..2, any::<i64>(), proptest::option::of(any::<i64>()), any::<u32>());
    let entry = entry.prop_map(|(partition, watermark_us, last_clock_us, rows)| SegmentEntry {
        partition,
        watermark_us,
        last_clock_us,
        rows,
    });
    let segment = (any::<u32>(), proptest::option::of(any::<i64>()), vec(entry, 0..4));
    let segment = segment.prop_map(|(first_row, clock_us, entries)| Segment { first_row, clock_us, entries });
    let names = vec(".{0,9}", 2..4);
    (any::<(u32, u64, bool, u64, bool)>(), proptest::option::of(any::<i64>()), names, vec(segment, 0..4)).prop_map(
        |((lane, index, starts_file, lines, last), first_arrival_us, partition_names, segments)| BlockSummary {
            lane,
            index,
            starts_file,
            lines,
            last,
            first_arrival_us,
            partition_names,
            segments,
        },
    )
}

proptest! {
    #[test]
    fn vectors_of_words_survive(
        words in vec(any::<u64>(), 0..9), wide in vec(any::<i128>(), 0..5), small in vec(any::<u32>(), 0..9),
        bytes in vec(any::<u8>(), 0..20), bits in vec(any::<bool>(), 0..150), text in ".{0,20}", damage in damage()
    ) {
        survives_equal(&words, &damage);
        survives_equal(&words.iter().map(|w| *w as i64).collect::<Vec<_>>(), &damage);
        survives_equal(&wide, &damage);
        survives_equal(&small, &damage);
        survives_equal(&bytes, &damage);
        survives_equal(&bits, &damage);
        survives_equal(&text, &damage);
        survives_equal(&Some((text.clone(), words.len() as isize, bits.first().copied())), &damage);
        survives_equal(&small.iter().map(|k| (*k, text.clone())).collect::<std::collections::BTreeMap<_, _>>(), &damage);
    }

    #[test]
    fn columns_and_values_survive(
        (dtype, column) in dtype().prop_flat_map(|t| (Just(t.clone()), (0usize..70).prop_flat_map(move |n| column(&t, n)))),
        value in any_value(), damage in damage()
    ) {
        survives_equal(&dtype, &damage);
        let all = |column: &Column| (0..column.len()).map(|row| column.value(row)).collect::<Vec<_>>();
        let back = survives(&column, &damage, |column| drop(all(column)));
        prop_assert_eq!(format!("{back:?}"), format!("{column:?}"));
        let back = survives(&column.data, &damage, |_| ());
        prop_assert_eq!(format!("{back:?}"), format!("{:?}", column.data));
        survives_equal(&value, &damage);
    }

    #[test]
    fn tables_of_every_aggregate_survive((spec, rows) in batch(), damage in damage()) {
        let table = filled(&spec, &rows);
        let before = results(&table);
        let back = survives(&table, &damage, |table| {
            // What was read may hold other values, but can be worked with.
            results(table);
            let mut sum = Table::new(Arc::clone(table.spec()));
            sum.merge(table);
            sum.merge(&filled(table.spec(), &Rows::default()));
            sum.merge(table);
            results(&sum);
            table.clone().split(2);
        });
        prop_assert_eq!(results(&back), before);
        let (mut a, mut b) = (table.clone(), back.clone());
        a.insert(&rows, &(0..rows.len as u32).collect::<Vec<_>>());
        b.insert(&rows, &(0..rows.len as u32).collect::<Vec<_>>());
        prop_assert_eq!(results(&a), results(&b), "the index is there again");
        a.merge(&back);
        b.merge(&table);
        prop_assert_eq!(results(&a), results(&b));
        survives_equal(&*spec, &damage);
    }

    #[test]
    fn contributions_survive((spec, rows) in batch(), every: bool, tables in 0usize..3, damage in damage()) {
        let n = rows.len as u32;
        let selected: Vec<u32> = if every { (0..n).collect() } else { (0..n).rev().step_by(2).collect() };
        let half = selected.len() as u32 / 2;
        let runs = vec![
            Run { slice: -3, late_stamp_us: None, start: 0, len: half },
            Run { slice: 4, late_stamp_us: Some(i64::MIN), start: half, len: selected.len() as u32 - half },
        ];
        let table = filled(&spec, &rows);
        let tables = if table.is_empty() { 0 } else { tables };
        let combined: Vec<_> = (0..tables).map(|slice| (slice as i64, table.clone())).collect();
        let sent = Contributions { rows: rows.into(), selected, runs, combined };
        let absorb = |contributions: &Contributions| {
            let mut accepted = contributions.clone();
            let mut table = Table::new(Arc::clone(&spec));
            if accepted.accept(&spec).is_err() {
                return String::new();
            }
            for run in &accepted.runs {
                let (start, len) = (run.start as usize, run.len as usize);
                table.insert(&accepted.rows, &accepted.selected[start..start + len]);
            }
            accepted.combined.iter().for_each(|(_, other)| table.merge(other));
            results(&table)
        };
        let expected = absorb(&sent);
        let back = survives(&sent, &damage, |contributions| drop(absorb(contributions)));
        prop_assert_eq!(absorb(&back), expected);
        prop_assert_eq!(&back.selected, &sent.selected);
        prop_assert_eq!(&back.runs, &sent.runs);
    }

    #[test]
    fn results_and_reports_survive(
        changes in changes(), side in side(), summary in summary(), damage in damage()
    ) {
        survives_equal(&summary, &damage);
        let sent = Published { from: 3, changes };
        let using = |back: &Published| {
            let rows = 0..back.changes.len;
            rows.for_each(|row| drop((back.changes.change(row), back.changes.error(row).map(str::to_owned))));
        };
        let back = survives(&sent, &damage, using);
        prop_assert_eq!(format!("{back:?}"), format!("{sent:?}"));
        let back = survives(&side, &damage, |_| ());
        prop_assert_eq!(format!("{back:?}"), format!("{side:?}"));
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in vec(prop_oneof![3 => 0u8..6, 1 => any::<u8>()], 0..300)) {
        let _ = decode::<Contributions>(&bytes);
        let _ = decode::<Table>(&bytes);
        let _ = decode::<Column>(&bytes);
        let _ = decode::<Published>(&bytes);
        let _ = decode::<Side>(&bytes);
    }
}

/// A few bytes must not announce more rows than they hold: whoever reads them goes through the rows.
#[test]
fn rows_without_columns_are_refused() {
    let block = |len, values| ChangeBlock {
        len,
        timed: true,
        at: PerRow::All(Instant(0)),
        op: PerRow::All(Op::Insert),
        revision: PerRow::All(0),
        late_count: PerRow::All(0),
        window_us: PerRow::All(None),
        group: Vec::new(),
        values,
        errors: Vec::new(),
    };
    let read = |changes| decode::<Published>(&encode(&Published { from: 0, changes })).map(|_| ());
    let error = read(block(u32::MAX as usize, Vec::new())).unwrap_err();
    assert_eq!(error.what, "expected a column in a block with rows");
    assert_eq!(read(block(0, Vec::new())), Ok(()));
    let mut numbers = Column::new(T::BigInt);
    numbers.push(&Value::BigInt(1));
    assert_eq!(read(block(1, vec![numbers])), Ok(()));
}

#[test]
fn sketches_and_sets_of_many_values_survive() {
    let spec = Arc::new(TableSpec { keys: vec![T::BigInt], aggregates: aggregates(&T::BigInt) });
    let mut arg = Column::new(T::BigInt);
    let mut key = Column::new(T::BigInt);
    (0..3000).for_each(|n| {
        arg.push(&Value::BigInt(n * n));
        key.push(&Value::BigInt(n % 7 / 3));
    });
    let args = spec.aggregates.iter().map(|a| a.arg.as_ref().map(|_| arg.clone())).collect();
    let order = Some((0..3000).map(order).collect());
    let rows = Rows { len: 3000, keys: vec![key], args, filters: vec![None; spec.aggregates.len()], order };
    let table = filled(&spec, &rows);
    let flips = (0..400).map(|n| (n * 9973, 1 << (n % 8))).collect();
    let back = survives(&table, &Damage { cut: 12_345, flips }, |table| drop(results(table)));
    assert_eq!(results(&back), results(&table));
}

#[test]
fn hostile_counts_and_nesting_are_refused() {
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let what = |error: WireError| (error.at, error.what);
    let too_many = "expected a number of items that the rest of the message can hold";
    for n in [3, 1 << 32, 1 << 61, u64::MAX] {
        assert_eq!(decode::<Vec<u64>>(&words(&[n, 0, 0])).map_err(what), Err((0, too_many)));
        assert!(decode::<Vec<u32>>(&words(&[n.max(5), 0, 0])).is_err());
        assert!(decode::<Vec<bool>>(&words(&[n.max(129), 0, 0])).is_err());
        assert!(decode::<Vec<u8>>(&words(&[n.max(17), 0, 0])).is_err());
        assert!(decode::<String>(&words(&[n.max(17), 0, 0])).is_err());
        assert!(decode::<crate::types::TextData>(&words(&[n.max(4), 0, 0])).is_err());
    }
    // A list in a list in a list, …
    let mut nested = vec![9 | 1 << 8; 100_000];
    nested.push(0);
    assert_eq!(decode::<Value>(&words(&nested)).map_err(|e| e.what), Err("lists are nested too deep"));
    let mut nested = vec![9 | 1 << 8; DEPTH_MAX as usize];
    nested.push(0);
    assert!(decode::<Value>(&words(&nested)).is_ok());
    assert!(decode::<T>(&words(&[5 | 17 << 24])).is_err());
    // What pads must be zero: there is one form of everything.
    assert!(decode::<String>(&words(&[1, u64::from(b'a')])).is_ok());
    let padding = "expected zeros up to a whole word";
    assert_eq!(decode::<String>(&words(&[1, u64::from(b'a') | 1 << 32])).map_err(what), Err((9, padding)));
    let bits = "expected zeros after the last truth value";
    assert_eq!(decode::<Vec<bool>>(&words(&[2, 4])).map_err(what), Err((8, bits)));
    // Many rows without any column to bear them out.
    let rows = words(&[u64::from(u32::MAX), 0, 0, 0, 0, u64::from(u32::MAX) << 1 | 1, 0, 0]);
    assert!(decode::<Contributions>(&rows).is_err());
}

#[test]
fn contributions_of_another_view_are_not_accepted() {
    let spec = |keys: &[T], func| {
        Arc::new(TableSpec { keys: keys.to_vec(), aggregates: vec![AggregateSpec { func, arg: Some(T::BigInt) }] })
    };
    let mine = spec(&[T::Text], F::Sum);
    let mut sent = golden();
    assert_eq!(sent.accept(&mine), Ok(()));
    assert!(Arc::ptr_eq(sent.combined[0].1.spec(), &mine), "the layout is shared");
    assert!(sent.accept(&spec(&[T::BigInt], F::Sum)).is_err());
    assert!(sent.accept(&spec(&[T::Text, T::Text], F::Sum)).is_err());
    assert!(sent.accept(&spec(&[T::Text], F::Max)).is_err(), "the tables are of another aggregate");
    assert!(sent.accept(&spec(&[T::Text], F::ArrayAgg)).is_err(), "there is no order");
}

/// Two rows and one table.
fn golden() -> Contributions {
    let aggregates = vec![AggregateSpec { func: F::Sum, arg: Some(T::BigInt) }];
    let spec = Arc::new(TableSpec { keys: vec![T::Text], aggregates });
    let mut key = Column::new(T::Text);
    let mut arg = Column::new(T::BigInt);
    [("north", 7), ("south-by-southwest", -1)].iter().for_each(|(k, x)| {
        key.push(&Value::Text((*k).into()));
        arg.push(&Value::BigInt(*x));
    });
    arg.push(&Value::Null);
    key.push(&Value::Text("".into()));
    let rows = Rows { len: 3, keys: vec![key], args: vec![Some(arg)], filters: vec![None], order: None };
    let mut table = Table::new(spec);
    table.insert(&rows, &[0, 2]);
    let runs = vec![
        Run { slice: 5, late_stamp_us: None, start: 0, len: 2 },
        Run { slice: 4, late_stamp_us: Some(60), start: 2, len: 1 },
    ];
    Contributions { rows: rows.into(), selected: vec![0, 1, 2], runs, combined: vec![(6, table)] }
}

#[test]
fn the_layout_has_not_changed() {
    let bytes = encode(&golden());
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
    let text = |s: &[u8; 8]| u64::from_le_bytes(*s);
    let expected = [
        // Three rows; one key column: TEXT, no NULLs, kind 5, three texts from 0, 5, 23 to 23.
        3,
        1,
        5,
        0,
        5,
        3,
        5 << 32,
        23 | 23 << 32,
        text(b"northsou"),
        text(b"th-by-so"),
        text(b"uthwest\0"),
        // One argument, there: BIGINT, with NULLs, kind 2, three numbers, which of them are NULL.
        1,
        1,
        2,
        1,
        2,
        3,
        7,
        u64::MAX,
        0,
        0b100,
        // One filter, none; no order.
        1,
        0,
        0,
        // Three rows selected, counted.
        3 << 1 | 1,
        // Two runs: slice, start and length, whether late, stamp.
        2,
        5,
        2 << 32,
        0,
        4,
        2 | 1 << 32,
        1,
        60,
        // One table of slice 6, with its layout: one key of TEXT, one aggregate: sum of a BIGINT.
        1,
        6,
        1,
        1,
        5,
        1,
        3,
        1,
        2,
        // Two groups, packed texts: "north" and "".
        2 << 1,
        text(b"north\0\0\0"),
        5 << 56,
        0,
        0,
        // The sums: 7 of one number; 0 of none.
        7,
        0,
        1,
        0,
        0,
        0,
    ];
    assert_eq!(words, expected);
}
