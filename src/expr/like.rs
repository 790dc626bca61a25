//! `LIKE` and `ILIKE` patterns.
//!
//! `%` stands for any run of characters, `_` for one character, a backslash for the next character itself. `ILIKE`
//! compares characters after mapping each to its one-character lower case, where it has one. A pattern that ends in a
//! lone backslash is an error. Matching is greedy with one point of return, so it takes at most
//! `pattern × text` steps; the common shapes (`x`, `x%`, `%x`, `%x%`) are plain searches.

use super::convert::Message;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    One(char),
    AnyOne,
    AnyRun,
}

#[derive(Debug)]
enum Shape {
    /// No wildcard.
    Exact(String),
    /// `x%`.
    Prefix(String),
    /// `%x`.
    Suffix(String),
    /// `%x%`.
    Contains(String),
    Tokens(Vec<Token>),
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    shape: Shape,
    fold: bool,
}

/// The one-character lower case, or the character itself.
fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

impl Pattern {
    /// Compiles a pattern; `fold` ignores case.
    ///
    /// # Errors
    /// When it ends in a lone backslash.
    pub fn new(pattern: &str, fold: bool) -> Result<Pattern, Message> {
        let mut tokens = Vec::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            let token = match c {
                '%' if tokens.last() == Some(&Token::AnyRun) => continue,
                '%' => Token::AnyRun,
                '_' => Token::AnyOne,
                '\\' => match chars.next() {
                    Some(c) => Token::One(if fold { lower(c) } else { c }),
                    None => return Err(Cow::Borrowed("LIKE pattern must not end with a backslash")),
                },
                c => Token::One(if fold { lower(c) } else { c }),
            };
            tokens.push(token);
        }
        Ok(Pattern { shape: shape(tokens), fold })
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        if self.fold {
            let folded: String = text.chars().map(lower).collect();
            return self.matches_folded(&folded);
        }
        self.matches_folded(text)
    }

    fn matches_folded(&self, text: &str) -> bool {
        match &self.shape {
            Shape::Tokens(tokens) => matches(tokens, text),
            shape => shape.find(text.as_bytes()),
        }
    }

    /// As [`Pattern::matches`] on UTF-8, where looking at bytes is enough.
    pub fn matches_bytes(&self, text: &[u8]) -> Option<bool> {
        (!self.fold && !matches!(self.shape, Shape::Tokens(_))).then(|| self.shape.find(text))
    }
}

fn shape(tokens: Vec<Token>) -> Shape {
    let plain = |tokens: &[Token]| -> Option<String> {
        tokens.iter().map(|t| if let Token::One(c) = t { Some(*c) } else { None }).collect()
    };
    let found = match tokens.as_slice() {
        [Token::AnyRun] => Some(Shape::Contains(String::new())),
        [Token::AnyRun, inner @ .., Token::AnyRun] => plain(inner).map(Shape::Contains),
        [Token::AnyRun, rest @ ..] => plain(rest).map(Shape::Suffix),
        [rest @ .., Token::AnyRun] => plain(rest).map(Shape::Prefix),
        all => plain(all).map(Shape::Exact),
    };
    found.unwrap_or(Shape::Tokens(tokens))
}

impl Shape {
    fn find(&self, text: &[u8]) -> bool {
        match self {
            Shape::Exact(x) => text == x.as_bytes(),
            Shape::Prefix(x) => text.starts_with(x.as_bytes()),
            Shape::Suffix(x) => text.ends_with(x.as_bytes()),
            Shape::Contains(x) => memchr::memmem::find(text, x.as_bytes()).is_some(),
            Shape::Tokens(_) => false,
        }
    }
}

/// Greedy matching: on a mismatch the last `%` takes one character more.
fn matches(mut tokens: &[Token], text: &str) -> bool {
    let mut rest = text.chars();
    // The tokens after the last `%`, and the text where they were tried.
    let mut retry: Option<(&[Token], std::str::Chars<'_>)> = None;
    loop {
        let here = rest.clone();
        let matched = match tokens {
            [Token::AnyRun, after @ ..] => {
                tokens = after;
                retry = Some((after, here));
                continue;
            }
            [Token::AnyOne, ..] => rest.next().is_some(),
            [Token::One(c), ..] => rest.next() == Some(*c),
            [] => match rest.next() {
                None => return true,
                Some(_) => false,
            },
        };
        if matched {
            tokens = tokens.get(1..).unwrap_or(&[]);
            continue;
        }
        match &mut retry {
            Some((after, from)) => {
                if from.next().is_none() {
                    return false;
                }
                tokens = after;
                rest = from.clone();
            }
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> bool {
        Pattern::new(pattern, false).unwrap().matches(text)
    }

    #[test]
    fn patterns() {
        assert!(like("abc", "abc"));
        assert!(!like("abcd", "abc"));
        assert!(like("abc", "a%"));
        assert!(like("abc", "%c"));
        assert!(like("abc", "%b%"));
        assert!(like("", "%"));
        assert!(!like("", "_"));
        assert!(like("äbc", "_b_"));
        assert!(like("a%c", "a\\%c"));
        assert!(!like("abc", "a\\%c"));
        assert!(like("aXbYb", "a%b"));
        assert!(like("mississippi", "m%iss%ip_i"));
        assert!(!like("ABC", "abc"));
        assert!(Pattern::new("ÄbC%", true).unwrap().matches("äBcd"));
        assert!(Pattern::new("x\\", false).is_err());
    }

    /// The definition, by recursion.
    fn slow(tokens: &[Token], text: &[char]) -> bool {
        match (tokens, text) {
            ([], []) => true,
            ([Token::AnyRun, rest @ ..], text) => (0..=text.len()).any(|n| slow(rest, &text[n..])),
            ([Token::AnyOne, rest @ ..], [_, text @ ..]) => slow(rest, text),
            ([Token::One(c), rest @ ..], [d, text @ ..]) if c == d => slow(rest, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab%_]{0,7}", text in "[ab]{0,9}") {
            let tokens: Vec<Token> = pattern.chars().map(|c| match c {
                '%' => Token::AnyRun,
                '_' => Token::AnyOne,
                c => Token::One(c),
            }).collect();
            prop_assert_eq!(like(&text, &pattern), slow(&tokens, &text.chars().collect::<Vec<_>>()));
        }
    }
}
