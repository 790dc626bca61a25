//! The core against the definition: the result as of an instant is what the accepted records that count by then give.

use super::*;
use crate::plan::WindowPlan;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;

thread_local! {
    /// How often tables were searched for keys, on this thread.
    static MATCHED: Cell<u64> = const { Cell::new(0) };
}

/// Records by key; the union of sets is the monoid that loses nothing.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sets(BTreeMap<u8, BTreeSet<usize>>);

impl SliceTable for Sets {
    fn empty(&self) -> Self {
        Sets::default()
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    fn keys(&self) -> usize {
        self.0.len()
    }
    fn merge(&mut self, other: &Self) {
        for (key, set) in &other.0 {
            self.0.entry(*key).or_default().extend(set);
        }
    }
    fn merge_matching(&mut self, other: &Self, keys: &Self) {
        MATCHED.set(MATCHED.get() + 1);
        for (key, set) in other.0.iter().filter(|(key, _)| keys.0.contains_key(key)) {
            self.0.entry(*key).or_default().extend(set);
        }
    }
    fn overlaps(&self, other: &Self) -> bool {
        self.0.keys().any(|key| other.0.contains_key(key))
    }
}

type Row = (Instant, (i64, i64), u8, Vec<usize>, usize, isize);

#[derive(Default)]
struct Log(Vec<Row>);

impl Changes<Sets> for Log {
    fn closed(&mut self, instant: Instant, window: (i64, i64), result: &Sets) {
        for (key, set) in &result.0 {
            self.0.push((instant, window, *key, set.iter().copied().collect(), 0, 1));
        }
    }
    fn corrected(&mut self, c: &Correction<'_, Sets>) {
        let instant = |key: &u8| {
            let mut at: Vec<Instant> =
                c.late.iter().filter(|(_, t)| t.0.contains_key(key)).map(|(at, _)| *at).collect();
            at.dedup();
            assert_eq!(at.len(), 1, "a key changes at one instant");
            at[0]
        };
        for (table, late, diff) in [(c.before, c.late_before, -1), (c.after, c.late_after, 1)] {
            for (key, set) in &table.0 {
                let late = late.0.get(key).map_or(0, BTreeSet::len);
                self.0.push((instant(key), c.window_us, *key, set.iter().copied().collect(), late, diff));
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Record {
    et: i64,
    key: u8,
    stamp: i64,
}

/// For each window and key: at every instant at which something happens, the old row out and the new one in.
fn expected(assigner: &Assigner, horizon: Option<i64>, records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    let windows: BTreeSet<i64> = records.iter().flat_map(|r| assigner.windows_of_slice(assigner.slice(r.et))).collect();
    for k in windows {
        let (start, end) = assigner.bounds(k);
        for key in 0..3u8 {
            let accepted: Vec<(usize, &Record)> = records
                .iter()
                .enumerate()
                .filter(|(_, r)| r.key == key && start <= r.et && r.et < end)
                .filter(|(_, r)| r.stamp < end || horizon.is_some_and(|h| r.stamp - end <= h))
                .collect();
            let instants: BTreeSet<Instant> = accepted
                .iter()
                .map(|(_, r)| if r.stamp < end { Instant::closing(end) } else { Instant::of_stamp(r.stamp) })
                .collect();
            let mut old: Option<(Vec<usize>, usize)> = None;
            for at in instants {
                let by_now: Vec<_> =
                    accepted.iter().filter(|(_, r)| r.stamp < end || Instant::of_stamp(r.stamp) <= at).collect();
                let new: Vec<usize> = by_now.iter().map(|(i, _)| *i).collect();
                let late = by_now.iter().filter(|(_, r)| r.stamp >= end).count();
                if let Some((old, old_late)) = old.take() {
                    rows.push((at, (start, end), key, old, old_late, -1));
                }
                rows.push((at, (start, end), key, new.clone(), late, 1));
                old = Some((new, late));
            }
        }
    }
    rows.sort();
    rows
}

/// Feeds records in order of their stamps, advancing now and then.
fn run(assigner: Assigner, horizon: Option<i64>, records: &[Record], advance: &[bool]) -> (Vec<Row>, StateCounts) {
    let mut core = WindowCore::new(assigner, horizon, Sets::default());
    let mut log = Log::default();
    for (i, record) in records.iter().enumerate() {
        if advance.get(i).copied().unwrap_or(false) {
            core.advance(Instant::of_stamp(record.stamp), &mut log);
        }
        let slice = assigner.slice(record.et);
        let takes = |k| {
            let end = assigner.bounds(k).1;
            record.stamp < end || horizon.is_some_and(|h| record.stamp - end <= h)
        };
        if !assigner.windows_of_slice(slice).any(takes) {
            continue;
        }
        let table =
            if record.stamp < assigner.first_end(slice) { core.on_time(slice) } else { core.late(record.stamp, slice) };
        table.0.entry(record.key).or_default().insert(i);
    }
    core.advance(Instant(i64::MAX), &mut log);
    let mut rows = log.0;
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.0.time().1) {
        let (before, after) = rows.split_at(i);
        assert!(before.iter().all(|r| r.0 <= row.0) && after.iter().all(|r| r.0 >= row.0), "closings stand in order");
    }
    rows.sort();
    (rows, core.state())
}

proptest! {
    #[test]
    fn equals_the_definition(
        size in 1i64..12, slide in 1i64..12, offset in 0i64..12,
        horizon in proptest::option::of(0i64..15),
        mut records in proptest::collection::vec((-20i64..20, 0u8..3, -20i64..30), 0..40),
        advance in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let slide = slide.min(size);
        let assigner = Assigner::new(WindowPlan { size_us: size, slide_us: slide, offset_us: offset });
        records.sort_by_key(|r| r.2);
        let records: Vec<Record> = records.into_iter().map(|(et, key, stamp)| Record { et, key, stamp }).collect();
        let (found, state) = run(assigner, horizon, &records, &advance);
        prop_assert_eq!(found, expected(&assigner, horizon, &records));
        prop_assert_eq!(state, StateCounts::default(), "all is forgotten at the end");
    }
}

#[test]
fn late_rows_of_two_slices_make_one_correction() {
    let assigner = Assigner::new(WindowPlan { size_us: 10, slide_us: 5, offset_us: 0 });
    let record = |et, stamp| Record { et, key: 0, stamp };
    let records = [record(1, 0), record(2, 12), record(7, 12)];
    let (found, _) = run(assigner, Some(100), &records, &[]);
    let of_window: Vec<_> = found.iter().filter(|r| r.1 == (0, 10)).map(|r| (r.0, r.3.clone(), r.4, r.5)).collect();
    let at = Instant::of_stamp(12);
    assert_eq!(of_window, [(Instant::closing(10), vec![0], 0, 1), (at, vec![0], 0, -1), (at, vec![0, 1, 2], 2, 1)]);
}

#[test]
fn a_window_whose_first_record_is_late_is_not_closed_again() {
    let assigner = Assigner::new(WindowPlan { size_us: 10, slide_us: 10, offset_us: 0 });
    let records = [Record { et: 3, key: 0, stamp: 15 }];
    let (found, _) = run(assigner, Some(100), &records, &[true]);
    assert_eq!(found, [(Instant::of_stamp(15), (0, 10), 0, vec![0], 1, 1)]);
}

/// Late records for the first window and for the last one, again and again: what lies between is not looked at.
#[test]
fn corrections_far_apart_leave_what_is_between_alone() {
    for (size, slide, searched_max) in [(10, 10, 4), (10, 3, 40)] {
        let assigner = Assigner::new(WindowPlan { size_us: size, slide_us: slide, offset_us: 0 });
        let searched = |windows: i64| {
            let of_window = |k: i64| {
                let now = k * size;
                [Record { et: now, key: 0, stamp: now }, Record { et: 0, key: 1, stamp: now }]
                    .into_iter()
                    .chain((k > 1).then_some(Record { et: now - size, key: 2, stamp: now }))
            };
            let records: Vec<Record> = (1..=windows).flat_map(of_window).collect();
            MATCHED.set(0);
            let (found, _) = run(assigner, Some(i64::MAX), &records, &vec![true; records.len()]);
            assert!(found.len() as i64 > 3 * windows);
            MATCHED.get()
        };
        let (few, many) = (searched(50), searched(500));
        assert!(many < 500 * searched_max, "{many} tables searched, slide {slide}");
        assert!(many < 11 * few, "{few} tables searched for 50 windows, {many} for 500, slide {slide}");
    }
}
