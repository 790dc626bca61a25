//! Bytes that claim to come from another process.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| slackwater::fuzzing::row_codec(bytes));
