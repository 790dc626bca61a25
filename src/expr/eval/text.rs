//! Functions of text. Positions and lengths are in characters.

use super::no_such_call;
use super::operand::{Done, Nulls, Operand, Texts, each, each_text, is_too_long, too_long};
use crate::expr::Func;
use crate::expr::convert::Message;
use crate::expr::like::Pattern;
use crate::types::DataType;
use memchr::memmem;
use std::borrow::Cow;

pub fn text(func: Func, operands: &[Operand<'_>], nulls: Nulls, rows: usize) -> Done {
    match operands {
        [a] => one(func, a.texts(), nulls, rows),
        [a, b] => two(func, a.texts(), b, nulls, rows),
        [a, b, c] => three(func, a.texts(), (b, c), nulls, rows),
        _ => no_such_call(rows, &DataType::Text),
    }
}

fn one(func: Func, a: Texts<'_>, nulls: Nulls, rows: usize) -> Done {
    let write = |nulls, f: fn(&str, &mut String)| {
        each_text(rows, nulls, |row, out| {
            f(a.get(row), out);
            Ok(())
        })
    };
    match func {
        Func::Length => each(rows, nulls, |row| Ok(Some(length(a.bytes(row))))),
        Func::Lower => write(nulls, |s, out| {
            if s.is_ascii() {
                out.push_str(s);
                out.make_ascii_lowercase();
            } else {
                out.push_str(&s.to_lowercase());
            }
        }),
        Func::Upper => write(nulls, |s, out| {
            if s.is_ascii() {
                out.push_str(s);
                out.make_ascii_uppercase();
            } else {
                out.push_str(&s.to_uppercase());
            }
        }),
        Func::Trim => write(nulls, |s, out| out.push_str(s.trim_matches(' '))),
        Func::LTrim => write(nulls, |s, out| out.push_str(s.trim_start_matches(' '))),
        Func::RTrim => write(nulls, |s, out| out.push_str(s.trim_end_matches(' '))),
        _ => no_such_call(rows, &DataType::Text),
    }
}

fn two(func: Func, a: Texts<'_>, second: &Operand<'_>, nulls: Nulls, rows: usize) -> Done {
    let (b, n) = (second.texts(), second.i64s());
    let write = |nulls, f: &dyn Fn(usize, &mut String)| {
        each_text(rows, nulls, |row, out| {
            f(row, out);
            Ok(())
        })
    };
    match func {
        Func::Concat => write(nulls, &|row, out| {
            out.push_str(a.get(row));
            out.push_str(b.get(row));
        }),
        Func::Like | Func::ILike => like(func, a, b, nulls, rows),
        Func::StartsWith => each(rows, nulls, |row| Ok(Some(a.bytes(row).starts_with(b.bytes(row))))),
        Func::StrPos => each(rows, nulls, |row| {
            let (s, part) = (a.bytes(row), b.bytes(row));
            let before = memmem::find(s, part).and_then(|at| s.get(..at));
            Ok(Some(before.map_or(0, |before| length(before) + 1)))
        }),
        Func::Substr => each_text(rows, nulls, |row, out| {
            out.push_str(substr(a.get(row), n.get(row), None)?);
            Ok(())
        }),
        Func::Left => write(nulls, &|row, out| {
            let (s, n) = (a.get(row), n.get(row));
            out.push_str(s.get(..after(s, left_count(s, n))).unwrap_or(s));
        }),
        Func::Right => write(nulls, &|row, out| {
            let (s, n) = (a.get(row), n.get(row));
            let dropped = if n >= 0 { length(s.as_bytes()).saturating_sub(n) } else { n.saturating_neg() };
            out.push_str(s.get(after(s, dropped)..).unwrap_or(""));
        }),
        Func::Trim => write(nulls, &|row, out| out.push_str(a.get(row).trim_matches(|c| b.get(row).contains(c)))),
        Func::LTrim => {
            write(nulls, &|row, out| out.push_str(a.get(row).trim_start_matches(|c| b.get(row).contains(c))))
        }
        Func::RTrim => write(nulls, &|row, out| out.push_str(a.get(row).trim_end_matches(|c| b.get(row).contains(c)))),
        _ => no_such_call(rows, &DataType::Text),
    }
}

fn three(func: Func, a: Texts<'_>, (second, third): (&Operand<'_>, &Operand<'_>), nulls: Nulls, rows: usize) -> Done {
    match func {
        Func::Substr => {
            let (from, count) = (second.i64s(), third.i64s());
            each_text(rows, nulls, |row, out| {
                out.push_str(substr(a.get(row), from.get(row), Some(count.get(row)))?);
                Ok(())
            })
        }
        Func::Replace => {
            let (from, to) = (second.texts(), third.texts());
            each_text(rows, nulls, |row, out| replace(a.get(row), from.get(row), to.get(row), out))
        }
        Func::SplitPart => {
            let (delimiter, n) = (second.texts(), third.i64s());
            each_text(rows, nulls, |row, out| {
                out.push_str(split_part(a.get(row), delimiter.get(row), n.get(row))?);
                Ok(())
            })
        }
        _ => no_such_call(rows, &DataType::Text),
    }
}

/// Characters of UTF-8: all bytes but the continuing ones.
fn length(bytes: &[u8]) -> i64 {
    bytes.iter().filter(|b| **b & 0xC0 != 0x80).count() as i64
}

/// The byte position after the first `count` characters.
fn after(s: &str, count: i64) -> usize {
    let Ok(count) = usize::try_from(count) else { return 0 };
    if s.is_ascii() {
        return count.min(s.len());
    }
    s.char_indices().nth(count).map_or(s.len(), |(at, _)| at)
}

/// How many characters `left(s, n)` keeps: below zero, all but the last `−n`.
fn left_count(s: &str, n: i64) -> i64 {
    if n >= 0 { n } else { length(s.as_bytes()).saturating_add(n).max(0) }
}

fn substr(s: &str, from: i64, count: Option<i64>) -> Result<&str, Message> {
    let end = match count {
        Some(count) if count < 0 => return Err(Cow::Borrowed("negative length of substr")),
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let start = from.max(1);
    let rest = s.get(after(s, start - 1)..).unwrap_or("");
    Ok(rest.get(..after(rest, end.saturating_sub(start))).unwrap_or(rest))
}

fn replace(s: &str, from: &str, to: &str, out: &mut String) -> Result<(), Message> {
    if from.is_empty() {
        out.push_str(s);
        return Ok(());
    }
    let mut rest = s;
    while let Some((before, after)) = rest.split_once(from) {
        if is_too_long(out.len().saturating_add(before.len()).saturating_add(to.len())) {
            return Err(too_long());
        }
        out.push_str(before);
        out.push_str(to);
        rest = after;
    }
    out.push_str(rest);
    Ok(())
}

fn split_part<'s>(s: &'s str, delimiter: &str, n: i64) -> Result<&'s str, Message> {
    if n == 0 {
        return Err(Cow::Borrowed("field 0 of split_part"));
    }
    if delimiter.is_empty() {
        return Ok(if n.unsigned_abs() == 1 { s } else { "" });
    }
    let index = if n > 0 { Some(n - 1) } else { (s.split(delimiter).count() as i64).checked_add(n) };
    let index = index.and_then(|i| usize::try_from(i).ok());
    Ok(index.and_then(|i| s.split(delimiter).nth(i)).unwrap_or(""))
}

fn like(func: Func, a: Texts<'_>, b: Texts<'_>, nulls: Nulls, rows: usize) -> Done {
    let fold = func == Func::ILike;
    // Patterns hardly change from row to row.
    let mut last: Option<(&str, Result<Pattern, Message>)> = None;
    each(rows, nulls, |row| {
        let pattern = b.get(row);
        if last.as_ref().is_none_or(|(text, _)| *text != pattern) {
            last = Some((pattern, Pattern::new(pattern, fold)));
        }
        match &last {
            Some((_, Ok(compiled))) => {
                Ok(Some(compiled.matches_bytes(a.bytes(row)).unwrap_or_else(|| compiled.matches(a.get(row)))))
            }
            Some((_, Err(why))) => Err(why.clone()),
            None => Ok(None),
        }
    })
}
