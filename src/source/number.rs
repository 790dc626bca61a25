//! Exact numbers from their text: integers, decimals and times without a detour over binary fractions.
//!
//! A [`Number`] holds the first 38 significant digits and where the point stands; whether anything was cut off behind
//! them is remembered, so that what does not fit is known not to fit. Cost: one pass over the text, no allocation.

/// The most digits of a mantissa: they fit 127 bits.
const MANTISSA_DIGITS: u32 = 38;

/// A number as written: `±mantissa × 10^exponent`, plus something smaller than one in the last place if `more`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    mantissa: u128,
    exponent: i64,
    more: bool,
}

/// A time in microseconds, or what stood in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaled {
    /// Microseconds, floored.
    Us(i64),
    /// A number that 64 bits of microseconds do not hold.
    TooLarge,
}

/// The value of an integer of at most 18 digits with an optional minus: the common case of all numbers.
pub(super) fn short_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

/// The powers of ten that 128 bits hold.
const POWERS: [u128; 39] = powers_of_ten();

#[expect(clippy::indexing_slicing, reason = "the loop's bound is the array's length")]
const fn powers_of_ten() -> [u128; 39] {
    let mut powers = [1; 39];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
}

fn power_of_ten(exponent: u64) -> Option<u128> {
    POWERS.get(usize::try_from(exponent).ok()?).copied()
}

/// The unscaled value of a decimal of at most 18 digits, without exponent and with no more places than `scale`; `None`
/// leaves it to the long way. The common case of money.
pub(super) fn short_decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    if digits.len() > 19 {
        return None;
    }
    let (mut value, mut places, mut count, mut point) = (0i64, 0u8, 0u8, false);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            if count == 18 {
                return None;
            }
            value = value * 10 + i64::from(digit);
            count += 1;
            places += u8::from(point);
        } else if *byte == b'.' && !point {
            point = true;
        } else {
            return None;
        }
    }
    if count == 0 {
        return None;
    }
    let power = power_of_ten(u64::from(scale.checked_sub(places)?))?;
    let size = u128::from(value.unsigned_abs()).checked_mul(power)?;
    let size = i128::try_from(size).ok().filter(|_| size < power_of_ten(u64::from(precision)).unwrap_or(0))?;
    Some(if negative { -size } else { size })
}

impl Number {
    /// Reads `-12.50e3`; also `.5`, `5.` and a plus sign, as PostgreSQL does.
    ///
    /// # Errors
    /// `None` if it is no number.
    pub(super) fn parse(text: &[u8]) -> Option<Number> {
        let (negative, mut rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let mut out = Number { negative, mantissa: 0, exponent: 0, more: false };
        let (mut significant, mut any, mut point) = (0, false, false);
        while let [byte, tail @ ..] = rest {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    let digit = u128::from(byte - b'0');
                    if significant < MANTISSA_DIGITS {
                        out.mantissa = out.mantissa * 10 + digit;
                        significant += u32::from(out.mantissa != 0);
                        out.exponent -= i64::from(point);
                    } else {
                        out.more |= digit != 0;
                        out.exponent += i64::from(!point);
                    }
                }
                b'.' if !point => point = true,
                b'e' | b'E' if any => {
                    out.exponent = out.exponent.saturating_add(exponent(tail)?);
                    return Some(out);
                }
                _ => return None,
            }
            rest = tail;
        }
        any.then_some(out)
    }

    /// The number `value × 10^−scale`.
    #[cfg(feature = "parquet")]
    pub(super) fn from_parts(value: i128, scale: i8) -> Number {
        Number { negative: value < 0, mantissa: value.unsigned_abs(), exponent: -i64::from(scale), more: false }
    }

    /// The number times 10^`places`, if that is whole and its size fits 127 bits.
    fn scaled_exactly(self, places: u8) -> Option<i128> {
        if self.mantissa == 0 {
            return (!self.more).then_some(0);
        }
        if self.more {
            return None;
        }
        let shift = self.exponent.saturating_add(i64::from(places));
        let power = power_of_ten(shift.unsigned_abs())?;
        let size = if shift >= 0 {
            self.mantissa.checked_mul(power)?
        } else {
            self.mantissa.is_multiple_of(power).then(|| self.mantissa / power)?
        };
        let size = i128::try_from(size).ok()?;
        Some(if self.negative { -size } else { size })
    }

    /// The number as a 64-bit integer, if it is one (`1e3` and `1.0` are).
    pub(super) fn to_i64(self) -> Option<i64> {
        i64::try_from(self.scaled_exactly(0)?).ok()
    }

    /// The number as a decimal of `scale`, unscaled, if it has no further digits but zeros and no more than `precision`
    /// in all.
    pub(super) fn to_decimal(self, precision: u8, scale: u8) -> Option<i128> {
        let value = self.scaled_exactly(scale)?;
        (value.unsigned_abs() < power_of_ten(u64::from(precision))?).then_some(value)
    }

    /// The number of units of `unit_us` microseconds as microseconds, floored.
    pub(super) fn to_us(self, unit_us: i64) -> Scaled {
        let mut number = self;
        // Room for the unit: 30 digits and a unit of up to seven fit.
        while number.exponent < 0 && number.mantissa >= 10u128.pow(30) {
            number.more |= !number.mantissa.is_multiple_of(10);
            number.mantissa /= 10;
            number.exponent += 1;
        }
        let Some(us) = number.mantissa.checked_mul(u128::from(unit_us.unsigned_abs())) else { return Scaled::TooLarge };
        let (size, more) = if number.exponent >= 0 {
            let power = if us == 0 { Some(1) } else { power_of_ten(number.exponent.unsigned_abs()) };
            match power.and_then(|power| us.checked_mul(power)) {
                Some(size) => (size, number.more),
                None => return Scaled::TooLarge,
            }
        } else {
            match power_of_ten(number.exponent.unsigned_abs()) {
                Some(power) => (us / power, number.more || !us.is_multiple_of(power)),
                None => (0, number.more || us != 0),
            }
        };
        let Ok(size) = i128::try_from(size) else { return Scaled::TooLarge };
        let floor = if number.negative { -size - i128::from(more) } else { size };
        i64::try_from(floor).map_or(Scaled::TooLarge, Scaled::Us)
    }
}

/// An exponent, clamped far outside of what any type holds.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = (value * 10 + i64::from(byte - b'0')).min(1 << 40);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn integers_are_exact_to_the_last_of_64_bits() {
        for (text, value) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("9007199254740993", Some(9_007_199_254_740_993)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1.0", Some(1)),
            ("1e3", Some(1_000)),
            ("1200e-2", Some(12)),
            ("1.5", None),
            ("1e-1", None),
            ("1e19", None),
            ("0e999999999999999999999", Some(0)),
            ("1e999999999999999999999", None),
            ("1e-999999999999999999999", None),
            ("1000000000000000000000000000000000000000000000000000000000e-50", Some(10_000_000)),
            ("1000000000000000000000000000000000000000000000000000000001e-50", None),
        ] {
            assert_eq!(number(text).to_i64(), value, "{text}");
        }
        for text in ["", "-", ".", "1e", "1e+", "e5", "1.2.3", "0x10", "1 ", "NaN", "1_000", "--1", "1e5.0"] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(short_integer(b"-123"), Some(-123));
        assert_eq!(short_integer(b"1234567890123456789"), None, "left to the long way");
        assert_eq!(short_integer(b""), None);
        assert_eq!(short_integer(b"-"), None);
        assert_eq!(short_integer(b"1:"), None);
    }

    #[test]
    fn decimals_are_exact_or_do_not_fit() {
        assert_eq!(number("0.1").to_decimal(10, 2), Some(10));
        assert_eq!(short_decimal(b"-12.5", 5, 2), Some(-1_250));
        for text in
            ["1.005", "100000", "", "-", ".", "1e3", "1.2.3", "+1", "0.0000000000000000000", "9223372036854775808"]
        {
            assert_eq!(short_decimal(text.as_bytes(), 5, 2), None, "{text}: left to the long way");
        }
        assert_eq!(number("1.10").to_decimal(3, 1), Some(11));
        assert_eq!(number("-2.20").to_decimal(10, 2), Some(-220));
        assert_eq!(number("1.005").to_decimal(10, 2), None, "a digit too many");
        assert_eq!(number("99.99").to_decimal(4, 2), Some(9_999));
        assert_eq!(number("100").to_decimal(4, 2), None);
        let widest = "99999999999999999999999999999999999999";
        assert_eq!(number(widest).to_decimal(38, 0), Some(10i128.pow(38) - 1));
        assert_eq!(number("100000000000000000000000000000000000000").to_decimal(38, 0), None);
        assert_eq!(number("0.00000000000000000000000000000000000001").to_decimal(38, 38), Some(1));
        assert_eq!(number("0.000000000000000000000000000000000000010000").to_decimal(38, 38), Some(1));
    }

    #[test]
    fn times_are_floored() {
        for (text, unit_us, us) in [
            ("1.5", 1_000, Scaled::Us(1_500)),
            ("0.0019", 1_000, Scaled::Us(1)),
            ("-0.0019", 1_000, Scaled::Us(-2)),
            ("-1e-300", 1_000_000, Scaled::Us(-1)),
            ("1e-300", 1_000_000, Scaled::Us(0)),
            ("1700000000.123456789012345678901234567890123456789", 1_000_000, Scaled::Us(1_700_000_000_123_456)),
            ("-1700000000.123456000000000000000000000000000000001", 1_000_000, Scaled::Us(-1_700_000_000_123_457)),
            ("9223372036854775807", 1, Scaled::Us(i64::MAX)),
            ("9223372036854775807", 1_000, Scaled::TooLarge),
            ("-9223372036854775808", 1_000, Scaled::TooLarge),
            ("1e300", 1, Scaled::TooLarge),
            ("99999999999999999999999999999999999999", 1_000_000, Scaled::TooLarge),
            ("0e300", 1, Scaled::Us(0)),
        ] {
            assert_eq!(number(text).to_us(unit_us), us, "{text}");
        }
    }

    proptest! {
        #[test]
        fn decimals_read_what_was_written(value in -10i128.pow(30)..10i128.pow(30), scale in 0u8..20) {
            let size = value.unsigned_abs();
            let power = 10u128.pow(u32::from(scale));
            let sign = if value < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:0width$}", size / power, size % power, width = usize::from(scale));
            prop_assert_eq!(number(&text).to_decimal(38, scale), Some(value), "{}", text);
            if let Some(short) = short_decimal(text.as_bytes(), 38, scale) {
                prop_assert_eq!(short, value, "{}", text);
            }
            let us = number(&text).to_us(1);
            let floor = value.div_euclid(10i128.pow(u32::from(scale)));
            prop_assert_eq!(us, i64::try_from(floor).map_or(Scaled::TooLarge, Scaled::Us), "{}", text);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[-+.0-9eE]{0,60}") {
            if let Some(number) = Number::parse(text.as_bytes()) {
                number.to_i64();
                number.to_decimal(38, 19);
                number.to_us(1_000_000);
                let short = short_decimal(text.as_bytes(), 20, 6);
                prop_assert!(short.is_none() || short == number.to_decimal(20, 6), "{}", text);
                prop_assert!(text.parse::<f64>().is_ok(), "{}", text);
            }
        }
    }
}
