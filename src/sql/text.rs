//! The query text: places, carets under the trouble, and "did you mean".
//!
//! Every error of this layer carries `name:line:column`, the line itself with a caret under the part that is wrong, and
//! where possible a hint. Columns count characters from 1, as the tokenizer does.

use crate::error::Error;
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span, TokenWithSpan};

/// Longest part of a line that is shown; longer lines are cut around the caret.
const SHOWN_CHARS_MAX: usize = 160;

/// A query text with the name it is known by in messages.
#[derive(Debug)]
pub(super) struct SourceText<'a> {
    name: &'a str,
    text: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> SourceText<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        SourceText { name, text, lines: text.split('\n').map(|l| l.strip_suffix('\r').unwrap_or(l)).collect() }
    }

    /// A usage error at `span`, with the line and a caret; an empty span names the text only.
    pub(super) fn error(&self, span: Span, message: impl Into<String>) -> Error {
        let error = Error::usage(message);
        let Some((line, number)) = self.line(span.start) else {
            return error.at(self.name);
        };
        let place = format!("{}:{}:{}", self.name, span.start.line, span.start.column);
        error.at(place).with_detail(caret(line, number, span))
    }

    /// An error of the parser, in this crate's words, at the token it stopped at.
    pub(super) fn syntax(&self, error: ParserError, tokens: &[TokenWithSpan]) -> Error {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
            ParserError::RecursionLimitExceeded => {
                return Error::usage("the query is nested too deeply").at(self.name);
            }
        };
        let (message, at) = split_location(&text);
        let message = reword(message);
        match at {
            Some(at) => {
                let span = tokens.iter().map(|t| t.span).find(|s| s.start == at).unwrap_or_else(|| point(at));
                self.error(span, message)
            }
            None => self.error(self.end(), message),
        }
    }

    /// The place just behind the last character that is not blank.
    pub(super) fn end(&self) -> Span {
        let last = self.lines.iter().rposition(|l| !l.trim().is_empty()).unwrap_or(0);
        let column = self.lines.get(last).map_or(0, |l| l.trim_end().chars().count());
        point(Location::new(last as u64 + 1, column as u64 + 1))
    }

    /// The text between two places.
    pub(super) fn slice(&self, from: Location, to: Location) -> &'a str {
        self.text.get(self.offset(from)..self.offset(to)).unwrap_or_default()
    }

    fn line(&self, at: Location) -> Option<(&'a str, u64)> {
        let index = usize::try_from(at.line.checked_sub(1)?).ok()?;
        self.lines.get(index).map(|line| (*line, at.line))
    }

    fn offset(&self, at: Location) -> usize {
        let before = usize::try_from(at.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let start: usize = self.text.split('\n').take(before).map(|l| l.len() + 1).sum();
        let rest = self.text.get(start..).unwrap_or_default();
        let chars = usize::try_from(at.column.saturating_sub(1)).unwrap_or(usize::MAX);
        start.min(self.text.len()) + rest.char_indices().nth(chars).map_or(rest.len(), |(i, _)| i)
    }
}

/// An empty stretch at a place.
fn point(at: Location) -> Span {
    Span::new(at, at)
}

/// Two lines: the text, and carets under the span's part of it.
fn caret(line: &str, number: u64, span: Span) -> String {
    let chars: Vec<char> = line.chars().collect();
    let start = usize::try_from(span.start.column.saturating_sub(1)).unwrap_or(0).min(chars.len());
    let end = if span.end.line == span.start.line {
        usize::try_from(span.end.column.saturating_sub(1)).unwrap_or(0).min(chars.len())
    } else {
        chars.len()
    };
    let end = balance(&chars, start, end.max(start + 1));
    let from = if chars.len() > SHOWN_CHARS_MAX { start.saturating_sub(SHOWN_CHARS_MAX / 2) } else { 0 };
    let to = chars.len().min(from + SHOWN_CHARS_MAX);
    let shown: String = chars.iter().skip(from).take(to - from).collect();
    let (head, tail) = (if from > 0 { "…" } else { "" }, if to < chars.len() { "…" } else { "" });
    // Tabs are repeated, so that the caret stands right whatever their width.
    let pad: String = chars.iter().skip(from).take(start - from).map(|c| if *c == '\t' { '\t' } else { ' ' }).collect();
    let pad = format!("{}{pad}", " ".repeat(head.chars().count()));
    let carets = "^".repeat(end.min(to.max(start + 1)).saturating_sub(start).max(1));
    let gutter = number.to_string();
    let blank = " ".repeat(gutter.len());
    format!("  {gutter} | {head}{shown}{tail}\n  {blank} | {pad}{carets}")
}

/// The parser's spans of calls stop before the closing parenthesis: takes it in where it is on the same line.
fn balance(chars: &[char], start: usize, end: usize) -> usize {
    let mut open = 0i64;
    let mut quoted = false;
    for (i, c) in chars.iter().enumerate().skip(start) {
        if i >= end && open <= 0 {
            break;
        }
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => open += 1,
            ')' if !quoted => {
                open -= 1;
                if i >= end && open == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
    }
    end
}

/// Takes ` at Line: 1, Column: 8` off the end of a message of the parser.
fn split_location(text: &str) -> (&str, Option<Location>) {
    let Some(cut) = text.rfind(" at Line: ") else { return (text, None) };
    let (message, tail) = text.split_at(cut);
    let mut numbers = tail.split(|c: char| !c.is_ascii_digit()).filter(|s| !s.is_empty());
    match (numbers.next().and_then(|s| s.parse().ok()), numbers.next().and_then(|s| s.parse().ok())) {
        (Some(line), Some(column)) => (message, Some(Location::new(line, column))),
        _ => (text, None),
    }
}

/// The parser's message in this crate's manner: lower case, `expected …, found …`.
fn reword(message: &str) -> String {
    let mut out =
        message.trim().trim_end_matches('.').replace("Expected: ", "expected ").replace(", found: ", ", found ");
    out =
        out.replace("unexpected EOF", "unexpected end of the text").replace("before EOF", "before the end of the text");
    if out.ends_with("found EOF") {
        out = format!("{}the end of the text", out.trim_end_matches("EOF"));
    }
    let mut chars = out.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), second) if second.is_none_or(|c| !c.is_uppercase()) => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => out,
    }
}

/// `did you mean "amount"?` for the candidate nearest to `name`, if one is near.
pub(super) fn did_you_mean<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    crate::expr::build::did_you_mean(name, candidates).map(|c| format!("did you mean \"{c}\"?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_stand_under_the_words() {
        let source = SourceText::new("q.sql", "SELECT\r\n\tamout FROM t");
        let error = source.error(Span::new(Location::new(2, 2), Location::new(2, 7)), "unknown column");
        assert_eq!(error.to_string(), "q.sql:2:2: unknown column");
        assert_eq!(error.detail(), Some("  2 | \tamout FROM t\n    | \t^^^^^"));
    }

    #[test]
    fn slices_are_by_characters() {
        let source = SourceText::new("q", "é = 'ü';\nab");
        assert_eq!(source.slice(Location::new(1, 5), Location::new(1, 8)), "'ü'");
        assert_eq!(source.slice(Location::new(1, 8), Location::new(2, 3)), ";\nab");
        assert_eq!(source.slice(Location::new(9, 8), Location::new(9, 9)), "");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let text = format!("{}bad{}", "x".repeat(500), "y".repeat(500));
        let source = SourceText::new("q", &text);
        let error = source.error(Span::new(Location::new(1, 501), Location::new(1, 504)), "no");
        let detail = error.detail().unwrap().to_owned();
        let (line, carets) = detail.split_once('\n').unwrap();
        assert!(line.chars().count() < 200);
        let at = carets.chars().position(|c| c == '^').unwrap();
        assert_eq!(line.chars().skip(at).take(3).collect::<String>(), "bad");
    }
}
