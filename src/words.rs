//! Bytes of text looked at eight at a time, in ordinary registers.
//!
//! A word holds eight bytes, the first one lowest. What is searched for is marked in the high bits of its bytes, so that
//! counting trailing zeros finds the first. Near the end of the input there is no word, and callers go on byte by byte, or
//! leave the record to the long way.

const EVERY: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The first eight bytes.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<8>().map(|eight| u64::from_le_bytes(*eight))
}

/// How many bytes stand before the first one marked, of eight.
#[inline]
pub(crate) fn before_mark(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Marks the bytes that are zero; exact up to and including the first.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(EVERY) & !word & HIGH
}

/// Marks the bytes that are `byte`; exact up to and including the first.
#[inline]
pub(crate) fn equal_bytes(word: u64, byte: u8) -> u64 {
    zero_bytes(word ^ (EVERY * u64::from(byte)))
}

/// Marks the bytes that end a plain JSON string or do not belong into it: quotes, backslashes, control characters. Exact
/// up to and including the first.
#[inline]
pub(crate) fn special_bytes(word: u64) -> u64 {
    // The quote changes places with the space, next to the control characters; and 0x21, which would follow, with 0x23.
    let control_or_quote = (word ^ (EVERY * 0x02)).wrapping_sub(EVERY * 0x21);
    let backslash = (word ^ (EVERY * 0x5c)).wrapping_sub(EVERY);
    (control_or_quote | backslash) & !word & HIGH
}

/// Marks the bytes that are no ASCII digits; exact.
#[inline]
fn other_than_digits(word: u64) -> u64 {
    let digits = word ^ (EVERY * 0x30);
    // A sum of at most 0x7f + 0x76 stays in its byte, and reaches the high bit from ten on.
    (((digits & !HIGH) + EVERY * 0x76) | digits) & HIGH
}

/// The number of eight digits given by their values.
#[inline]
fn eight_digits(values: u64) -> u64 {
    let pairs = (values.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000 << 32 | 1) >> 32
}

/// The number of the first `count` bytes of the word, which are digits.
#[inline]
fn digits_value(word: u64, count: usize) -> u64 {
    let values = word & (EVERY * 0x0f);
    // Moved to the end, behind zeros.
    eight_digits(values.checked_shl(64 - 8 * count as u32).unwrap_or(0))
}

/// Powers of ten of 64 bits.
const POWERS: [u64; 20] = powers_of_ten();

#[expect(clippy::indexing_slicing, reason = "the loop's bound is the array's length")]
const fn powers_of_ten() -> [u64; 20] {
    let mut powers = [1; 20];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
}

/// 10 to the power of `exponent`, if that is of 64 bits.
#[inline]
pub(crate) fn power_of_ten(exponent: usize) -> Option<u64> {
    POWERS.get(exponent).copied()
}

/// The number of the digits at the front, and how many there are. `None`: more than 15, or the end of the input is near.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = word(bytes)?;
    let marks = other_than_digits(first);
    if marks != 0 {
        let count = before_mark(marks);
        return Some((digits_value(first, count), count));
    }
    many_digits(first, bytes.get(8..)?)
}

/// The number of eight digits and those that follow them.
#[inline(never)]
fn many_digits(first: u64, rest: &[u8]) -> Option<(u64, usize)> {
    let second = word(rest)?;
    let marks = other_than_digits(second);
    if marks == 0 {
        return None;
    }
    let count = before_mark(marks);
    Some((digits_value(first, 8) * power_of_ten(count)? + digits_value(second, count), 8 + count))
}

/// How many digits stand at the front.
#[inline]
pub(crate) fn count_digits(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let marks = other_than_digits(u64::from_le_bytes(*eight));
        if marks != 0 {
            return bytes.len() - rest.len() + before_mark(marks);
        }
        rest = behind;
    }
    bytes.len() - rest.len() + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// A number as it is usually written: digits, perhaps a point and more digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) negative: bool,
    /// All digits, at most 18.
    pub(crate) mantissa: u64,
    /// How many of them there are.
    pub(crate) count: usize,
    /// How many of them stand behind the point.
    pub(crate) places: usize,
    /// Its bytes.
    pub(crate) len: usize,
}

/// The number at the front; what follows it is for the caller to judge. `None` leaves it to the long way.
#[inline]
pub(crate) fn plain_number(bytes: &[u8]) -> Option<Plain> {
    let (negative, bytes) = match bytes {
        [b'-', bytes @ ..] => (true, bytes),
        _ => (false, bytes),
    };
    let (whole, count) = digits(bytes)?;
    let sign = usize::from(negative);
    match bytes.get(count..)? {
        _ if count == 0 => None,
        [b'.', fraction @ ..] => {
            let (fraction, places) = digits(fraction)?;
            if places == 0 || count + places > 18 {
                return None;
            }
            let mantissa = whole * power_of_ten(places)? + fraction;
            Some(Plain { negative, mantissa, count: count + places, places, len: sign + count + 1 + places })
        }
        _ => Some(Plain { negative, mantissa: whole, count, places: 0, len: sign + count }),
    }
}

/// Hour, minute and second of `HH:MM:SS`, whatever their size.
#[inline]
pub(crate) fn clock(word: u64) -> Option<(i64, i64, i64)> {
    let values = word ^ u64::from_le_bytes(*b"00:00:00");
    // Digits are nine at most, and nothing is left of a colon.
    const ROOM: u64 = u64::from_le_bytes([0x76, 0x76, 0x7f, 0x76, 0x76, 0x7f, 0x76, 0x76]);
    if (((values & !HIGH) + ROOM) | values) & HIGH != 0 {
        return None;
    }
    let pairs = values * 10 + (values >> 8);
    let pair = |at: u32| i64::from((pairs >> (8 * at)) as u8);
    Some((pair(0), pair(3), pair(6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_agree_with_bytes(eight: [u8; 8], digit_count in 0usize..9) {
            let mut bytes = eight;
            for byte in &mut bytes[..digit_count] {
                *byte = b'0' + *byte % 10;
            }
            let word = u64::from_le_bytes(bytes);
            let first = |is: &dyn Fn(u8) -> bool| bytes.iter().position(|byte| is(*byte)).unwrap_or(8);
            prop_assert_eq!(before_mark(equal_bytes(word, b',')), first(&|b| b == b','));
            prop_assert_eq!(before_mark(special_bytes(word)), first(&|b| b == b'"' || b == b'\\' || b < 0x20));
            let digits_here = first(&|b| !b.is_ascii_digit());
            prop_assert_eq!(before_mark(other_than_digits(word)), digits_here);
            let text = std::str::from_utf8(&bytes[..digits_here]).expect("digits");
            let number = text.parse().unwrap_or(0);
            prop_assert_eq!(digits_value(word, digits_here), number);
            let mut padded = [b'x'; 24];
            padded[..8].copy_from_slice(&bytes);
            prop_assert_eq!(digits(&padded), Some((number, digits_here)));
            prop_assert_eq!(count_digits(&bytes), digits_here);
        }

        #[test]
        fn clocks_are_read_from_digits_and_colons(h in 0u8..100, m in 0u8..100, s in 0u8..100, at in 0usize..8, byte: u8) {
            let text = format!("{h:02}:{m:02}:{s:02}");
            let mut bytes: [u8; 8] = text.as_bytes().try_into().expect("eight bytes");
            let word = u64::from_le_bytes(bytes);
            prop_assert_eq!(clock(word), Some((i64::from(h), i64::from(m), i64::from(s))));
            bytes[at] = byte;
            let fits = if at == 2 || at == 5 { byte == b':' } else { byte.is_ascii_digit() };
            prop_assert_eq!(clock(u64::from_le_bytes(bytes)).is_some(), fits);
        }

        #[test]
        fn plain_numbers_are_the_numbers_written(whole in "[0-9]{0,18}", fraction in "(\\.[0-9]{0,9})?", negative: bool) {
            let text = format!("{}{whole}{fraction}", if negative { "-" } else { "" });
            let padded = format!("{text},                ");
            if let Some(plain) = plain_number(padded.as_bytes()) {
                prop_assert_eq!(plain.len, text.len());
                let digits: String = text.chars().filter(char::is_ascii_digit).collect();
                prop_assert_eq!((plain.negative, plain.count), (negative, digits.len()));
                prop_assert_eq!(plain.mantissa, digits.parse::<u64>().expect("few digits"));
                prop_assert_eq!(plain.places, fraction.len().saturating_sub(1));
            } else {
                let usual = !whole.is_empty() && whole.len() <= 15 && fraction.len() != 1;
                prop_assert!(!usual || whole.len() + fraction.len() > 19, "{}", text);
            }
        }
    }
}
