//! `errors.txt` holds texts and the errors they give, to the character.
//!
//! A case is `### text`, or `### orders` for a text behind the usual table (on line 1, so that the text begins on line 2);
//! the text; `---`; the error as the command shows it. `SLACKWATER_BLESS=1` writes the file anew: read the difference.

use super::{ORDERS, failure};

const FILE: &str = include_str!("errors.txt");

/// The cases: whether the usual table stands before, the text, the expected error.
fn cases() -> Vec<(bool, &'static str, &'static str)> {
    let parts = FILE.split("### ").skip(1);
    parts
        // With the cargo feature, these plan.
        .filter(|case| !(cfg!(feature = "parquet") && case.contains(": this build ")))
        .map(|case| {
            let (kind, rest) = case.split_once('\n').expect("a kind");
            let (text, expected) = rest.split_once("\n---\n").expect("a text and an error");
            (kind == "orders", text, expected.trim_end())
        })
        .collect()
}

#[test]
fn errors_are_as_written() {
    let mut wrong = Vec::new();
    let mut anew = String::new();
    for (orders, text, expected) in cases() {
        let found = failure(&if orders { format!("{ORDERS}{text}") } else { text.to_owned() });
        let kind = if orders { "orders" } else { "text" };
        anew.push_str(&format!("### {kind}\n{text}\n---\n{found}\n\n"));
        if found != expected {
            wrong.push(format!("{text}\nexpected:\n{expected}\nfound:\n{found}\n"));
        }
    }
    if std::env::var_os("SLACKWATER_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/tests/errors.txt"), &anew).expect("writable");
        return;
    }
    assert!(wrong.is_empty(), "{} of {} cases\n{}", wrong.len(), cases().len(), wrong.join("\n"));
    assert!(cases().len() > 150);
}

#[test]
fn every_error_has_a_place() {
    for (orders, _, expected) in cases() {
        let place = expected.lines().next().unwrap_or_default();
        assert!(place.starts_with("query.sql:"), "{place}");
        assert!(!orders || !place.starts_with("query.sql:1:"), "{place}");
        assert!(!place.ends_with('.'), "{place}");
    }
}
