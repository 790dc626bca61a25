//! What kind of answer a line of the changelog is. Only the head of the line is looked at.

use crate::time::parse_timestamp;

/// The two kinds of answers, and what comes before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first result of a window, published because the watermark has reached its end.
    First,
    /// A row that replaces another, comes late, or leaves for good.
    Correction,
    /// The old row of a correction; the new one follows.
    Retraction,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of which kind.
    pub kind: Kind,
    /// The logical time of the change.
    pub watermark_us: i64,
}

/// Reads the head of a line of a changelog in NDJSON: `op`, `watermark`, `revision` and `late_count`, as the program
/// writes them. `None` if it is something else.
pub fn read(line: &[u8]) -> Option<Answer> {
    let rest = line.strip_prefix(b"{\"op\":\"")?;
    let (op, rest) = rest.split_at_checked(2)?;
    let rest = rest.strip_prefix(b"\",\"watermark\":\"")?;
    let (watermark, rest) = rest.split_at_checked(memchr::memchr(b'"', rest)?)?;
    let rest = rest.strip_prefix(b"\",\"revision\":")?;
    let rest = rest.get(digits(rest)?..)?.strip_prefix(b",\"late_count\":")?;
    let late_count = rest.get(..digits(rest)?)?;
    let kind = match op {
        // A first result on closing holds no late record; a row that appears late does.
        b"+I" if late_count == b"0" => Kind::First,
        b"+I" | b"+U" | b"-D" => Kind::Correction,
        b"-U" => Kind::Retraction,
        _ => return None,
    };
    Some(Answer { kind, watermark_us: parse_timestamp(watermark)? })
}

/// How many digits the text begins with, if any.
fn digits(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    (digits > 0).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let line = |op: &str, late: u32| {
            format!(
                r#"{{"op":"{op}","watermark":"1970-01-01T00:01:00Z","revision":12,"late_count":{late},"window_start":1}}"#
            )
        };
        let kinds = [
            ("+I", 0, Kind::First),
            ("+I", 10, Kind::Correction),
            ("-U", 0, Kind::Retraction),
            ("+U", 2, Kind::Correction),
            ("-D", 0, Kind::Correction),
        ];
        for (op, late, kind) in kinds {
            assert_eq!(read(line(op, late).as_bytes()), Some(Answer { kind, watermark_us: 60_000_000 }), "{op} {late}");
        }
        let good = line("+I", 0);
        for end in 0..good.find(",\"window_start").unwrap() {
            // A number cut short is a number still.
            assert!(
                end > good.find("count\":").unwrap() || read(&good.as_bytes()[..end]).is_none(),
                "{}",
                &good[..end]
            );
        }
        assert_eq!(read(line("?I", 0).as_bytes()), None);
        assert_eq!(read(b"op,watermark\n"), None);
    }
}
