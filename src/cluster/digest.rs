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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sql("abc"), abc);
    }
}
