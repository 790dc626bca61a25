//! Numbers and texts in messages: little endian, texts with their length before them.

/// Reads a message from front to back; every read gives `None` when too few bytes are left.
#[derive(Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }
    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// A text of at most `bytes_max` bytes.
    pub(super) fn text(&mut self, bytes_max: usize) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        if length > bytes_max {
            return None;
        }
        std::str::from_utf8(self.take(length)?).ok()
    }
    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a text with its length; texts here are far below 4 GiB.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The longest prefix of at most `bytes_max` bytes that ends between characters.
pub(super) fn shorten(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The most characters of a peer's text within a message.
pub(super) const SHOWN_MAX: usize = 300;

/// A text that somebody else has written, for people: in one line, without characters that act on a terminal or cannot be
/// seen, and not longer than `chars_max`.
pub(super) fn shown(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    for c in text.chars().take(chars_max.saturating_add(1)) {
        let hidden = matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
        if hidden || c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    if out.chars().count() > chars_max {
        out = out.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortening_keeps_characters_whole() {
        assert_eq!(shorten("aé", 2), "a");
        assert_eq!(shorten("aé", 3), "aé");
        assert_eq!(shorten("é", 1), "");
    }

    #[test]
    fn what_acts_on_a_terminal_is_escaped_and_long_texts_are_cut() {
        assert_eq!(shown("\u{1b}[2J é\nok\r\u{202e}", 300), "\\u{1b}[2J é\\nok\\r\\u{202e}");
        assert_eq!(shown("abcdef", 6), "abcdef");
        assert_eq!(shown("abcdefg", 6), "abcde…");
        assert_eq!(shown("\n\n\n\n", 6), "\\n\\n\\…");
        let once = shown(&"\u{7}é".repeat(500), 300);
        assert_eq!((shown(&once, 300), once.chars().count()), (once.clone(), 300));
    }

    #[test]
    fn a_text_longer_than_its_message_or_its_bound_is_refused() {
        let mut message = Vec::new();
        put_text(&mut message, "abc");
        assert_eq!(Cursor(&message).text(3), Some("abc"));
        assert_eq!(Cursor(&message).text(2), None);
        assert_eq!(Cursor(&message[..6]).text(3), None);
    }
}
