//! SHA-256, for saying in a few characters that two processes run the same thing. The same on every platform.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// SHA-256 of the bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Digest of a program's text, 64 hexadecimal digits. Line ends count as they are.
pub fn sql(text: &str) -> String {
    hex(&sha256(text.as_bytes()))
}

/// Digest of settings in the order given, 64 hexadecimal digits. Names and values are told apart by their lengths, so
/// that no two lists share a digest by concatenation.
pub fn settings<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut digest = Sha256::new();
    for (name, value) in settings {
        for text in [name, value] {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        }
    }
    hex(&digest.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sql("abc"), abc);
        assert_eq!(settings([]), sql(""));
        assert_eq!(settings([("a", "1")]), "9fe2af4305790bd0709766d7e53ab693ea9925630833d3c465e6b5d7f517c36f");
    }

    #[test]
    fn settings_do_not_run_together() {
        assert_ne!(settings([("a", "bc")]), settings([("ab", "c")]));
        assert_ne!(settings([("a", "b"), ("c", "d")]), settings([("c", "d"), ("a", "b")]));
    }
}
