//! Functions of times.

use super::no_such_call;
use super::operand::{Done, Nulls, Operand, Vals, each, zip};
use crate::expr::convert::out_of_range;
use crate::expr::{TimeUnit, calendar};
use crate::types::DataType;
use std::borrow::Cow;

pub fn date_trunc(unit: TimeUnit, a: &Operand<'_>, nulls: Nulls, rows: usize) -> Done {
    let a = a.i64s();
    each(rows, nulls, |row| {
        calendar::truncate(unit, a.get(row)).map(Some).ok_or_else(|| out_of_range(&DataType::Timestamp))
    })
}

pub fn extract(unit: TimeUnit, a: &Operand<'_>, nulls: Nulls, rows: usize) -> Done {
    let a = a.i64s();
    match unit {
        // DECIMALs of scale 6.
        TimeUnit::Second | TimeUnit::Epoch => {
            Done::plain(zip(a, Vals::One(()), rows, |v, ()| i128::from(calendar::field(unit, v))), nulls)
        }
        _ => Done::plain(zip(a, Vals::One(()), rows, |v, ()| calendar::field(unit, v)), nulls),
    }
}

/// `date_bin(stride, time, origin)`: floor division, also before the origin.
pub fn date_bin(operands: &[Operand<'_>], nulls: Nulls, rows: usize) -> Done {
    let [stride, time, origin] = operands else { return no_such_call(rows, &DataType::Timestamp) };
    let (stride, time, origin) = (stride.i64s(), time.i64s(), origin.i64s());
    each(rows, nulls, |row| {
        let stride = i128::from(stride.get(row));
        if stride <= 0 {
            return Err(Cow::Borrowed("date_bin needs a stride above zero"));
        }
        let (time, origin) = (i128::from(time.get(row)), i128::from(origin.get(row)));
        let start = time - (time - origin).rem_euclid(stride);
        i64::try_from(start).map(Some).map_err(|_| out_of_range(&DataType::Timestamp))
    })
}
