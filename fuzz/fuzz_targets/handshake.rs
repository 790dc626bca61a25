//! Bytes of a stranger, and of a peer, to everything in a cluster's network that reads bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| slackwater::fuzzing::handshake(data));
