//! Fixed-point arithmetic on the unscaled digits of `DECIMAL`s.
//!
//! A decimal is a whole number `v` and a scale `s`, meaning `v × 10^−s`. Every result has at most 38 digits
//! (`|v| < 10^38`); one that has more is `None`, which callers report as a failure of the row. Rounding is half away
//! from zero wherever digits are dropped. All of it is exact integer arithmetic: 128 bits on the common path, longer
//! products and quotients digit by digit.

/// The greatest number of digits.
pub const MAX_PRECISION: u8 = 38;

/// Powers of ten that a double holds exactly.
const EXACT_TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// 10^0 to 10^38.
#[expect(clippy::indexing_slicing, reason = "evaluated when compiled, and counted below the length")]
const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// `10^n`; `None` above 38.
#[inline]
pub fn pow10(n: u32) -> Option<i128> {
    POWERS.get(n as usize).copied()
}

/// Whether `v` has at most `precision` digits.
#[inline]
pub fn fits(v: i128, precision: u8) -> bool {
    pow10(u32::from(precision.min(MAX_PRECISION))).is_some_and(|limit| v.unsigned_abs() < limit.unsigned_abs())
}

#[inline]
fn checked(v: i128) -> Option<i128> {
    fits(v, MAX_PRECISION).then_some(v)
}

/// Number of decimal digits of `v`, at least 1.
pub fn digits(v: i128) -> u8 {
    let mut rest = v.unsigned_abs() / 10;
    let mut n = 1;
    while rest > 0 {
        rest /= 10;
        n += 1;
    }
    n
}

/// `v / divisor` rounded half away from zero; `divisor > 0`.
fn divide_rounding(v: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (v / divisor, v % divisor);
    // Written without doubling `rest`, which might overflow.
    if rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs() { quotient + v.signum() } else { quotient }
}

/// The number at another scale, rounded half away from zero; `None` beyond 38 digits.
pub fn rescale(v: i128, from: u8, to: u8) -> Option<i128> {
    match to.cmp(&from) {
        std::cmp::Ordering::Equal => checked(v),
        std::cmp::Ordering::Greater => checked(v.checked_mul(pow10(u32::from(to - from))?)?),
        std::cmp::Ordering::Less => {
            // Below 10^-38 nothing of a number of 39 digits is left but its rounding.
            let Some(divisor) = pow10(u32::from(from - to)) else { return Some(0) };
            checked(divide_rounding(v, divisor))
        }
    }
}

/// `a + b` at scale `scale`, which is the greater of both: operands first, then the sum must have at most 38 digits.
pub fn add(a: i128, a_scale: u8, b: i128, b_scale: u8, scale: u8) -> Option<i128> {
    checked(rescale(a, a_scale, scale)?.checked_add(rescale(b, b_scale, scale)?)?)
}

/// `a % b` at scale `scale`, the greater of both, with the sign of `a`; `None` also for `b = 0`.
pub fn rem(a: i128, a_scale: u8, b: i128, b_scale: u8, scale: u8) -> Option<i128> {
    rescale(a, a_scale, scale)?.checked_rem(rescale(b, b_scale, scale)?)
}

/// `a × b` at scale `scale ≤ a_scale + b_scale`; the exact product is rounded once.
pub fn mul(a: i128, a_scale: u8, b: i128, b_scale: u8, scale: u8) -> Option<i128> {
    let drop = (u32::from(a_scale) + u32::from(b_scale)).checked_sub(u32::from(scale))?;
    if let Some(product) = a.checked_mul(b) {
        if drop == 0 {
            return checked(product);
        }
        return match pow10(drop) {
            Some(divisor) => checked(divide_rounding(product, divisor)),
            // Dropping 39 digits or more of a 128-bit number leaves its rounding: |product| < 2^127 < 0.5 × 10^39.
            None => Some(0),
        };
    }
    if drop == 0 {
        return None;
    }
    // The product takes up to 256 bits: drop all digits but the last one plainly, the last decides the rounding.
    let mut wide = wide_mul(a.unsigned_abs(), b.unsigned_abs());
    let mut left = drop - 1;
    while left > 0 {
        let step = left.min(19);
        wide = wide_div(wide, 10u64.pow(step)).0;
        left -= step;
    }
    let (wide, last) = wide_div(wide, 10);
    let [low, high, 0, 0] = wide else { return None };
    let magnitude = (u128::from(high) << 64 | u128::from(low)).checked_add(u128::from(last >= 5))?;
    let magnitude = i128::try_from(magnitude).ok()?;
    checked(if (a < 0) == (b < 0) { magnitude } else { -magnitude })
}

/// The product in four 64-bit limbs, least first.
fn wide_mul(a: u128, b: u128) -> [u64; 4] {
    let (a0, a1) = (a & u128::from(u64::MAX), a >> 64);
    let (b0, b1) = (b & u128::from(u64::MAX), b >> 64);
    let (p00, p01, p10, p11) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
    let low = |x: u128| x & u128::from(u64::MAX);
    let mid = (p00 >> 64) + low(p01) + low(p10);
    let high = (mid >> 64) + (p01 >> 64) + (p10 >> 64) + low(p11);
    let top = (high >> 64) + (p11 >> 64);
    [p00 as u64, mid as u64, high as u64, top as u64]
}

/// Quotient and remainder of a wide number by a nonzero small one.
fn wide_div(n: [u64; 4], divisor: u64) -> ([u64; 4], u64) {
    let mut rest = 0u64;
    let mut out = n;
    for limb in out.iter_mut().rev() {
        let part = u128::from(rest) << 64 | u128::from(*limb);
        *limb = (part / u128::from(divisor)) as u64;
        rest = (part % u128::from(divisor)) as u64;
    }
    (out, rest)
}

/// `a / b` at scale `scale`, rounded half away from zero; `scale + b_scale ≥ a_scale`. `None` also for `b = 0`.
pub fn div(a: i128, a_scale: u8, b: i128, b_scale: u8, scale: u8) -> Option<i128> {
    if b == 0 {
        return None;
    }
    let shift = (u32::from(scale) + u32::from(b_scale)).checked_sub(u32::from(a_scale))?;
    let negative = (a < 0) != (b < 0);
    let (n, d) = (a.unsigned_abs(), b.unsigned_abs());
    let short = pow10(shift).and_then(|p| n.checked_mul(p.unsigned_abs()));
    let (mut quotient, rest) = match short {
        Some(n) => (n / d, n % d),
        None => long_division(n, d, shift)?,
    };
    if rest >= d - rest {
        quotient = quotient.checked_add(1)?;
    }
    let quotient = i128::try_from(quotient).ok()?;
    checked(if negative { -quotient } else { quotient })
}

/// `n × 10^shift / d` by school division; `d < 2^127`.
fn long_division(n: u128, d: u128, shift: u32) -> Option<(u128, u128)> {
    let (mut quotient, mut rest) = (n / d, n % d);
    for _ in 0..shift {
        // 10·rest = 2·(4·rest + rest) in steps that stay below 2d.
        let (mut digit, mut x) = (0u128, rest);
        for step in 0..4 {
            let (y, q) = if step == 2 { (x + rest, digit) } else { (x + x, digit + digit) };
            let carry = y >= d;
            x = if carry { y - d } else { y };
            digit = q + u128::from(carry);
        }
        quotient = quotient.checked_mul(10)?.checked_add(digit)?;
        rest = x;
    }
    Some((quotient, rest))
}

/// The nearest double, ties to even.
pub fn to_f64(v: i128, scale: u8) -> f64 {
    match EXACT_TENS.get(usize::from(scale)) {
        // Both operands are exact, so that the one division rounds once.
        Some(tens) if v.unsigned_abs() <= 1 << 53 => v as f64 / tens,
        _ => format!("{v}e-{scale}").parse().unwrap_or(f64::NAN),
    }
}

/// Appends the digits, with exactly `scale` of them after the point.
pub fn write(v: i128, scale: u8, out: &mut String) {
    let text = v.unsigned_abs().to_string();
    if v < 0 {
        out.push('-');
    }
    let scale = usize::from(scale);
    let (whole, fraction) = text.split_at(text.len().saturating_sub(scale));
    out.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        out.push('.');
        out.extend(std::iter::repeat_n('0', scale - fraction.len()));
        out.push_str(fraction);
    }
}

/// Why text is no decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// It is not a number.
    Syntax,
    /// It has more than 38 digits at the scale.
    Range,
}

/// A number as written: `[sign] digits [. digits] [e [sign] digits]`, with at least one digit before the exponent.
struct Written<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

fn split(text: &str) -> Option<Written<'_>> {
    let bytes = text.as_bytes();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let run = |b: &[u8]| b.iter().take_while(|c| c.is_ascii_digit()).count();
    let (whole, bytes) = bytes.split_at_checked(run(bytes))?;
    let (fraction, bytes) = match bytes {
        [b'.', rest @ ..] => rest.split_at_checked(run(rest))?,
        _ => (&[][..], bytes),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match bytes {
        [] => 0,
        [b'e' | b'E', rest @ ..] => {
            let (sign, rest) = match rest {
                [b'-', rest @ ..] => (-1, rest),
                [b'+', rest @ ..] => (1, rest),
                _ => (1, rest),
            };
            if rest.is_empty() || run(rest) != rest.len() {
                return None;
            }
            // Far beyond any scale, so that where it saturates does not matter.
            sign * rest.iter().fold(0i64, |e, c| (e * 10 + i64::from(c - b'0')).min(1_000_000_000))
        }
        _ => return None,
    };
    Some(Written { negative, whole, fraction, exponent })
}

/// Reads a number at scale `scale`; digits beyond it are rounded half away from zero.
///
/// # Errors
/// When `text` is no number (no spaces are allowed) or has more than 38 digits.
pub fn parse(text: &str, scale: u8) -> Result<i128, ParseError> {
    let written = split(text).ok_or(ParseError::Syntax)?;
    let count = (written.whole.len() + written.fraction.len()) as i64;
    // The value at the scale is all digits × 10^shift.
    let shift = (written.exponent - written.fraction.len() as i64).saturating_add(i64::from(scale));
    let kept = count + shift.min(0);
    let digits = || written.whole.iter().chain(written.fraction).map(|c| i128::from(c - b'0'));
    let mut v = 0i128;
    for digit in digits().take(usize::try_from(kept).unwrap_or(0)) {
        v = v.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or(ParseError::Range)?;
    }
    if let Ok(next) = usize::try_from(kept) {
        v += i128::from(shift < 0 && digits().nth(next).is_some_and(|d| d >= 5));
    }
    if v != 0 && shift > 0 {
        let factor = u32::try_from(shift).ok().and_then(pow10).ok_or(ParseError::Range)?;
        v = v.checked_mul(factor).ok_or(ParseError::Range)?;
    }
    let v = if written.negative { -v } else { v };
    checked(v).ok_or(ParseError::Range)
}

/// Reads a number without an exponent at its own scale: `-12.50` is `(-1250, 2)`.
///
/// # Errors
/// When `text` is no such number or has more than 38 digits.
pub fn parse_own(text: &str) -> Result<(i128, u8), ParseError> {
    let written = split(text).ok_or(ParseError::Syntax)?;
    if written.exponent != 0 {
        return Err(ParseError::Syntax);
    }
    let scale = u8::try_from(written.fraction.len()).ok().filter(|s| *s <= MAX_PRECISION).ok_or(ParseError::Range)?;
    Ok((parse(text, scale)?, scale))
}

/// A double at scale `scale`: the shortest decimal text that reads back as `x`, rounded half away from zero.
/// `None` for NaN, the infinities and beyond 38 digits.
pub fn from_f64(x: f64, scale: u8) -> Option<i128> {
    if !x.is_finite() {
        return None;
    }
    parse(ryu::Buffer::new().format_finite(x), scale).ok()
}

/// Rounds to `places` digits after the point (may be negative: tens, hundreds), half away from zero, keeping the scale.
pub fn round_places(v: i128, scale: u8, places: i64) -> Option<i128> {
    let drop = i64::from(scale).saturating_sub(places);
    if drop <= 0 {
        return Some(v);
    }
    let Some(unit) = u32::try_from(drop).ok().and_then(pow10) else { return Some(0) };
    checked(divide_rounding(v, unit).checked_mul(unit)?)
}

/// How [`whole`] rounds.
#[derive(Clone, Copy, Debug)]
pub enum Direction {
    /// Toward −∞.
    Floor,
    /// Toward +∞.
    Ceil,
    /// Toward zero.
    Trunc,
}

/// The whole number (scale 0) next to it in a direction.
pub fn whole(v: i128, scale: u8, direction: Direction) -> i128 {
    let Some(unit) = pow10(u32::from(scale)) else { return 0 };
    let (quotient, rest) = (v / unit, v % unit);
    match direction {
        Direction::Floor => quotient - i128::from(rest < 0),
        Direction::Ceil => quotient + i128::from(rest > 0),
        Direction::Trunc => quotient,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(v: i128, scale: u8) -> String {
        let mut out = String::new();
        write(v, scale, &mut out);
        out
    }

    #[test]
    fn writes_and_reads() {
        assert_eq!(text(0, 2), "0.00");
        assert_eq!(text(-5, 2), "-0.05");
        assert_eq!(text(12345, 3), "12.345");
        assert_eq!(text(7, 0), "7");
        assert_eq!(text(7, 38), format!("0.{}7", "0".repeat(37)));
        assert_eq!(parse("1.005", 2), Ok(101));
        assert_eq!(parse("-1.005", 2), Ok(-101));
        assert_eq!(parse("1.00499999", 2), Ok(100));
        assert_eq!(parse("0.5", 0), Ok(1));
        assert_eq!(parse(".04", 0), Ok(0));
        assert_eq!(parse("5e-1", 0), Ok(1));
        assert_eq!(parse("5e-2", 0), Ok(0));
        assert_eq!(parse("12e3", 2), Ok(1_200_000));
        assert_eq!(parse("0e99999999999999999999", 2), Ok(0));
        assert_eq!(parse("1e39", 0), Err(ParseError::Range));
        assert_eq!(parse("1e-99999999999999999999", 2), Ok(0));
        assert_eq!(parse(&"9".repeat(38), 0), Ok(10i128.pow(38) - 1));
        assert_eq!(parse(&"9".repeat(39), 0), Err(ParseError::Range));
        assert_eq!(parse(&format!("{}.5", "9".repeat(38)), 0), Err(ParseError::Range));
        for bad in ["", "-", ".", "1e", "1e+", "e5", "1 ", "1.2.3", "0x1", "NaN"] {
            assert_eq!(parse(bad, 2), Err(ParseError::Syntax), "{bad:?}");
        }
        assert_eq!(parse_own("-12.50"), Ok((-1250, 2)));
    }

    #[test]
    fn divides_and_multiplies_beyond_128_bits() {
        let max = 10i128.pow(38) - 1;
        assert_eq!(div(1, 0, 3, 0, 38), Some("3".repeat(38).parse().unwrap()));
        assert_eq!(div(2, 0, 3, 0, 6), Some(666_667));
        assert_eq!(div(-2, 0, 3, 0, 6), Some(-666_667));
        assert_eq!(div(max, 38, max, 38, 38), None, "1 with 38 digits after the point has 39");
        assert_eq!(div(max, 38, max, 38, 37), Some(10i128.pow(37)));
        assert_eq!(div(max, 0, 1, 0, 1), None);
        assert_eq!(div(1, 0, 0, 0, 6), None);
        assert_eq!(mul(max, 38, max, 38, 38), Some(max - 1), "0.99…9² = 0.99…98 0…01");
        assert_eq!(mul(max, 20, max, 20, 38), None);
        assert_eq!(mul(5, 38, 1, 1, 38), Some(1), "half away");
        assert_eq!(mul(-5, 38, 1, 1, 38), Some(-1));
        assert_eq!(rem(-750, 2, 2, 0, 2), Some(-150));
        assert_eq!(round_places(12_345, 2, -1), Some(12_000));
        assert_eq!(round_places(12_500, 2, -1), Some(13_000));
        assert_eq!(round_places(-5, 0, -1), Some(-10));
    }

    #[test]
    fn doubles() {
        assert_eq!(from_f64(0.285, 2), Some(29));
        assert_eq!(from_f64(-2.5, 0), Some(-3));
        assert_eq!(from_f64(1e38, 0), None);
        assert_eq!(from_f64(f64::NAN, 0), None);
        assert_eq!(to_f64(123_456_789_012_345_678_901_234_567_890, 10), 12_345_678_901_234_567_890.123_456_789);
        assert_eq!(to_f64(1, 38), 1e-38);
    }

    proptest! {
        #[test]
        fn text_reads_back(v in -(10i128.pow(38) - 1)..10i128.pow(38), scale in 0u8..=38) {
            prop_assert_eq!(parse(&text(v, scale), scale), Ok(v));
        }

        /// The long division agrees with 128-bit arithmetic where that has room.
        #[test]
        fn long_division_is_division(n in 0u128..1 << 64, d in 1u128..1 << 100, shift in 0u32..18) {
            let scaled = n * 10u128.pow(shift);
            prop_assert_eq!(long_division(n, d, shift), Some((scaled / d, scaled % d)));
        }

        /// `(a × b) / b = a`, through the wide product.
        #[test]
        fn wide_product_divides_back(a in any::<u128>(), b in 1u64..) {
            let (quotient, rest) = wide_div(wide_mul(a, u128::from(b)), b);
            prop_assert_eq!(quotient, [a as u64, (a >> 64) as u64, 0, 0]);
            prop_assert_eq!(rest, 0);
        }

        #[test]
        fn doubles_are_nearest(v in any::<i64>(), scale in 0u8..=38) {
            prop_assert_eq!(to_f64(i128::from(v), scale), format!("{v}e-{scale}").parse::<f64>().unwrap());
        }
    }
}
