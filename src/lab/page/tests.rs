//! The page is whole, escapes what it shows, and loads nothing.

use super::*;

#[test]
fn text_is_escaped() {
    let mut out = String::new();
    escape("a<b> & \"c\"", &mut out);
    assert_eq!(out, "a&lt;b&gt; &amp; &quot;c&quot;");
}
