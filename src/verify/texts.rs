//! Functions of text, on vectors of characters.

use crate::expr::Func;
use crate::types::Value;

/// `BIGINT and TEXT`: what values are, for messages that only a broken plan can cause.
pub fn kinds(args: &[Value]) -> String {
    let kind = |v: &Value| format!("{v:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase();
    args.iter().map(kind).collect::<Vec<_>>().join(" and ")
}

/// Applies a function of text; `None` if it is none, or the arguments do not fit.
pub fn text_call(func: Func, args: &[Value]) -> Option<Result<Value, String>> {
    use Func as F;
    use Value::{BigInt as N, Text as T};
    let text = |s: String| Some(Ok(T(s.into())));
    match (func, args) {
        (F::Concat, [T(a), T(b)]) => text(format!("{a}{b}")),
        (F::Lower, [T(a)]) => text(a.to_lowercase()),
        (F::Upper, [T(a)]) => text(a.to_uppercase()),
        (F::Length, [T(a)]) => Some(Ok(N(count(a)))),
        (F::Trim, [T(a)]) => text(strip(a, " ", true, true)),
        (F::LTrim, [T(a)]) => text(strip(a, " ", true, false)),
        (F::RTrim, [T(a)]) => text(strip(a, " ", false, true)),
        (F::Trim, [T(a), T(set)]) => text(strip(a, set, true, true)),
        (F::LTrim, [T(a), T(set)]) => text(strip(a, set, true, false)),
        (F::RTrim, [T(a), T(set)]) => text(strip(a, set, false, true)),
        (F::Replace, [T(a), T(from), T(to)]) => {
            text(if from.is_empty() { a.to_string() } else { a.split(&**from).collect::<Vec<_>>().join(to) })
        }
        (F::StrPos, [T(a), T(part)]) => {
            let before = a.find(&**part).and_then(|at| a.get(..at));
            Some(Ok(N(before.map_or(0, |before| count(before) + 1))))
        }
        (F::StartsWith, [T(a), T(prefix)]) => Some(Ok(Value::Boolean(a.starts_with(&**prefix)))),
        (F::Substr, [T(a), N(from)]) => text(between(a, i128::from(*from), i128::MAX)),
        (F::Substr, [T(_), N(_), N(length)]) if *length < 0 => Some(Err("negative length of substr".into())),
        (F::Substr, [T(a), N(from), N(length)]) => {
            let from = i128::from(*from);
            text(between(a, from, from + i128::from(*length)))
        }
        (F::Left, [T(a), N(n)]) => {
            let n = i128::from(*n);
            text(between(a, 1, if n >= 0 { n + 1 } else { i128::from(count(a)) + n + 1 }))
        }
        (F::Right, [T(a), N(n)]) => {
            let n = i128::from(*n);
            text(between(a, if n >= 0 { i128::from(count(a)) - n + 1 } else { 1 - n }, i128::MAX))
        }
        (F::SplitPart, [T(_), T(_), N(0)]) => Some(Err("field 0 of split_part".into())),
        (F::SplitPart, [T(a), T(delimiter), N(n)]) => text(split_part(a, delimiter, i128::from(*n))),
        (F::Like | F::ILike, [T(a), T(pattern)]) => Some(like(a, pattern, func == F::ILike).map(Value::Boolean)),
        _ => None,
    }
}

fn count(s: &str) -> i64 {
    i64::try_from(s.chars().count()).unwrap_or(i64::MAX)
}

/// The characters with a position (from 1) in `from .. to`.
fn between(s: &str, from: i128, to: i128) -> String {
    s.chars().zip(1i128..).filter(|(_, at)| (from..to).contains(at)).map(|(c, _)| c).collect()
}

fn strip(s: &str, set: &str, left: bool, right: bool) -> String {
    let mut chars: std::collections::VecDeque<char> = s.chars().collect();
    let inside = |c: Option<&char>| c.is_some_and(|c| set.chars().any(|d| d == *c));
    while left && inside(chars.front()) {
        chars.pop_front();
    }
    while right && inside(chars.back()) {
        chars.pop_back();
    }
    chars.into_iter().collect()
}

fn split_part(s: &str, delimiter: &str, n: i128) -> String {
    let parts: Vec<&str> = if delimiter.is_empty() { vec![s] } else { s.split(delimiter).collect() };
    let index = if n > 0 { n - 1 } else { parts.len() as i128 + n };
    usize::try_from(index).ok().and_then(|i| parts.get(i)).map_or_else(String::new, |part| (*part).to_owned())
}

/// One element of a pattern.
#[derive(Clone, Copy)]
enum Piece {
    Exactly(char),
    One,
    Any,
}

fn like(s: &str, pattern: &str, fold: bool) -> Result<bool, String> {
    let lower = |c: char| {
        let folded: Vec<char> = c.to_lowercase().collect();
        if let (true, [one]) = (fold, folded.as_slice()) { *one } else { c }
    };
    let mut pieces = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '%' => Piece::Any,
            '_' => Piece::One,
            '\\' => Piece::Exactly(lower(chars.next().ok_or("a pattern must not end with a backslash")?)),
            c => Piece::Exactly(lower(c)),
        });
    }
    let text: Vec<char> = s.chars().map(lower).collect();
    // After each piece: which prefixes of the text it can have used up.
    let mut reached: Vec<bool> = (0..=text.len()).map(|n| n == 0).collect();
    for piece in pieces {
        let mut next = vec![false; text.len() + 1];
        let mut any = false;
        for (n, to) in next.iter_mut().enumerate() {
            let here = reached.get(n).copied().unwrap_or(false);
            any |= here;
            let before = n.checked_sub(1).and_then(|m| Some((reached.get(m).copied()?, text.get(m).copied()?)));
            *to = match (piece, before) {
                (Piece::Any, _) => any,
                (Piece::One, Some((reached, _))) => reached,
                (Piece::Exactly(c), Some((reached, d))) => reached && c == d,
                _ => false,
            };
        }
        reached = next;
    }
    Ok(reached.last().copied().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(s: &str) -> Value {
        Value::Text(s.into())
    }
    fn run(func: Func, args: &[Value]) -> Value {
        text_call(func, args).unwrap().unwrap()
    }

    #[test]
    fn characters_not_bytes() {
        let n = Value::BigInt;
        assert_eq!(run(Func::Length, &[t("äöü")]), n(3));
        assert_eq!(run(Func::Substr, &[t("äbcde"), n(-1), n(4)]), t("äb"));
        assert_eq!(run(Func::Substr, &[t("abc"), n(2)]), t("bc"));
        assert_eq!(run(Func::Left, &[t("äbc"), n(-1)]), t("äb"));
        assert_eq!(run(Func::Left, &[t("abc"), n(-5)]), t(""));
        assert_eq!(run(Func::Right, &[t("abc"), n(2)]), t("bc"));
        assert_eq!(run(Func::Right, &[t("abc"), n(-1)]), t("bc"));
        assert_eq!(run(Func::Right, &[t("abc"), n(i64::MIN)]), t(""));
        assert_eq!(run(Func::StrPos, &[t("äbc"), t("c")]), n(3));
        assert_eq!(run(Func::StrPos, &[t("abc"), t("")]), n(1));
        assert_eq!(run(Func::SplitPart, &[t("a,b,c"), t(","), n(-1)]), t("c"));
        assert_eq!(run(Func::SplitPart, &[t("a,b,c"), t(","), n(4)]), t(""));
        assert_eq!(run(Func::SplitPart, &[t("abc"), t(""), n(1)]), t("abc"));
        assert_eq!(run(Func::Trim, &[t("xyaxy"), t("yx")]), t("a"));
        assert_eq!(run(Func::Replace, &[t("aaa"), t("aa"), t("b")]), t("ba"));
        assert!(text_call(Func::SplitPart, &[t("a"), t(","), n(0)]).unwrap().is_err());
    }

    #[test]
    fn patterns() {
        let like = |s, p| like(s, p, false).unwrap();
        assert!(like("mississippi", "m%iss%ip_i") && like("", "%") && like("a%c", "a\\%c") && like("äb", "_b"));
        assert!(!like("abc", "a\\%c") && !like("", "_") && !like("ABC", "abc"));
        assert!(super::like("äBcd", "ÄbC%", true).unwrap());
        assert!(super::like("x", "x\\", false).is_err());
    }
}
