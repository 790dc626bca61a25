//! Histograms of fixed buckets, 32 to a power of two, so that quantiles do not depend on who counted what.
//!
//! A quantile is given as the upper edge of the bucket it falls into, or the greatest value if that is less: it is never too low, and
//! too high by at most [`WIDTH`] of itself. (The layout is that of HdrHistogram, held sparsely: a cell has few different
//! values, and a grid has many cells.)

use std::collections::BTreeMap;

/// The width of a bucket as a share of its lower edge, at most.
pub const WIDTH: f64 = 1.0 / 32.0;

const BITS: u32 = 5;

/// More buckets than there are of either kind.
pub const BUCKETS_MAX: u64 = 1 << 12;
/// Doubles are told apart between 2^-40 (about 10^-12) and 2^40.
const ORDER_MAX: i32 = 40;

fn raw(x: f64) -> u64 {
    x.to_bits() >> (52 - BITS)
}

/// The bucket of a positive, finite double. Buckets ascend with their values; the first holds all lesser ones, the last all
/// greater ones.
#[inline]
pub fn of_ratio(x: f64) -> u64 {
    let (least, greatest) = (f64::from_bits(LEAST_BITS), f64::from_bits(GREATEST_BITS));
    raw(x.clamp(least, greatest)) - (LEAST_BITS >> (52 - BITS))
}

const LEAST_BITS: u64 = ((1023 - ORDER_MAX) as u64) << 52;
const GREATEST_BITS: u64 = ((1023 + ORDER_MAX) as u64) << 52;

/// The upper edge of a bucket of [`of_ratio`]; the last has none.
pub fn ratio_upto(bucket: u64) -> f64 {
    if bucket >= (GREATEST_BITS - LEAST_BITS) >> (52 - BITS) {
        return f64::INFINITY;
    }
    f64::from_bits(LEAST_BITS + ((bucket + 1) << (52 - BITS)))
}

/// The bucket of an integer: itself below 64.
pub fn of_integer(x: u64) -> u64 {
    let order = u64::BITS - x.leading_zeros();
    let shift = order.saturating_sub(BITS + 1);
    (u64::from(shift) << BITS) + (x >> shift)
}

/// The least integer of a bucket of [`of_integer`].
pub fn integer_from(bucket: u64) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    (bucket - (shift << BITS)).checked_shl(shift as u32).unwrap_or(u64::MAX)
}

/// The greatest integer of a bucket of [`of_integer`].
pub fn integer_upto(bucket: u64) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1);
    integer_from(bucket).saturating_add((1u64 << shift.min(63)) - 1)
}

/// The bucket in which a quantile (in thousandths: the value of rank `ceil(n · q / 1000)`) of `n` values lies; those that
/// are not in `counts` are less than all that are. `None` if it is one of those.
pub fn quantile(counts: &BTreeMap<u64, i64>, n: u64, permille: u64) -> Option<u64> {
    let rank = (u128::from(n) * u128::from(permille)).div_ceil(1000).max(1);
    let above = i128::from(n) - rank as i128;
    let mut passed = 0i128;
    for (bucket, count) in counts.iter().rev() {
        passed += i128::from(*count);
        if passed > above {
            return Some(*bucket);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_integers_touch_and_hold_their_bounds() {
        let mut next = 0u64;
        for bucket in 0..1_500 {
            assert_eq!(integer_from(bucket), next);
            let upto = integer_upto(bucket);
            assert_eq!((of_integer(next), of_integer(upto)), (bucket, bucket));
            assert!(upto - next <= next / 32, "{bucket}");
            next = upto + 1;
        }
        assert_eq!(integer_upto(of_integer(u64::MAX)), u64::MAX);
        assert_eq!(integer_upto(of_integer(i64::MAX as u64)), i64::MAX as u64);
    }

    #[test]
    fn buckets_of_ratios_hold_their_bounds() {
        for x in [1e-11, 0.1, 1.0 / 3.0, 1.0, 1.03125, 2.0, 1e9] {
            let upto = ratio_upto(of_ratio(x));
            assert!(x < upto && upto <= x * (1.0 + WIDTH), "{x} {upto}");
        }
        assert_eq!((of_ratio(1e-300), of_ratio(1e-12 / 8.0)), (0, 0));
        assert!(ratio_upto(0) < 1e-12);
        assert_eq!((of_ratio(1e300), ratio_upto(of_ratio(1e300))), (of_ratio(1e13), f64::INFINITY));
        assert!(of_ratio(1e300) < BUCKETS_MAX && of_integer(u64::MAX) < BUCKETS_MAX);
    }

    #[test]
    fn quantiles_count_from_above() {
        let counts = BTreeMap::from([(3, 1), (9, 2)]);
        assert_eq!(quantile(&counts, 100, 990), Some(9));
        assert_eq!(quantile(&counts, 100, 980), Some(3));
        assert_eq!(quantile(&counts, 100, 970), None);
        assert_eq!(quantile(&counts, 3, 0), Some(3));
        assert_eq!(quantile(&BTreeMap::new(), 5, 500), None);
    }
}
