//! Names as a reader pastes them into SQL.

/// Words that cannot stand for a column or table without quotes, or would confuse a reader.
const WORDS: [&str; 62] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "check",
    "create",
    "cross",
    "current",
    "date",
    "default",
    "desc",
    "distinct",
    "else",
    "end",
    "exists",
    "extract",
    "false",
    "fetch",
    "for",
    "from",
    "full",
    "group",
    "having",
    "hop",
    "in",
    "inner",
    "interval",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "right",
    "select",
    "session",
    "set",
    "table",
    "then",
    "time",
    "timestamp",
    "true",
    "tumble",
    "union",
    "user",
    "watermark",
    "when",
    "where",
    "with",
];

/// A name as SQL needs it: in quotes if it could be read as something else, or `always`.
pub fn quoted(name: &str, always: bool) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !WORDS.contains(&name.to_ascii_lowercase().as_str());
    if plain && !always { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A column's path as SQL needs it, part by part; in quotes too if another of `columns` differs from it in case alone.
pub fn quoted_path<'a>(path: &[String], columns: impl Iterator<Item = &'a [String]>) -> String {
    let same =
        |other: &&[String]| other.len() == path.len() && other.iter().zip(path).all(|(a, b)| a.eq_ignore_ascii_case(b));
    let ambiguous = columns.filter(same).count() > 1;
    path.iter().map(|part| quoted(part, ambiguous)).collect::<Vec<_>>().join(".")
}
