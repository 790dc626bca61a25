//! Frames, terms and messages: what is written is read, in any pieces, and no bytes make a reader panic.

use crate::cluster::bytes::shown;
use crate::cluster::frame::{Abort, DATA_BYTES_MAX, Frames, HEADER_BYTES, Header, Inbound, Kind, Taken, encode};
use crate::cluster::frame::{decode_refusal, encode_refusal};
use crate::cluster::terms::{TermsReader, WIRE_LAYOUT};
use crate::cluster::{InputFile, Terms};
use proptest::prelude::*;

/// Everything that [`Inbound`] gives for bytes that arrive in pieces.
fn inbound(bytes: &[u8], piece: usize, room: usize) -> (Vec<u8>, Option<Taken>) {
    let (mut inbound, mut given, mut out) = (Inbound::new(Vec::new()), Vec::new(), vec![0; room]);
    let mut pieces = bytes.chunks(piece);
    loop {
        match inbound.take(&mut out) {
            Ok(Taken::Data(n)) => given.extend_from_slice(&out[..n]),
            Ok(Taken::More) => {
                let Some(piece) = pieces.next() else { return (given, Some(Taken::More)) };
                let space = inbound.space();
                assert!(space.len() >= piece.len());
                space[..piece.len()].copy_from_slice(piece);
                inbound.received(piece.len());
            }
            Ok(end) => return (given, Some(end)),
            Err(_) => return (given, None),
        }
    }
}

/// The terms that the frames hold, arriving in pieces.
fn read_terms(bytes: &[u8], piece: usize) -> Option<Terms> {
    let (mut frames, mut reader) = (Frames::default(), TermsReader::default());
    let mut terms = None;
    for piece in bytes.chunks(piece) {
        frames.push(piece);
        while let Some((kind, payload)) = frames.next().ok()? {
            terms = reader.take(kind, &payload).ok()?;
        }
    }
    terms
}

fn file() -> impl Strategy<Value = InputFile> {
    let text = || proptest::collection::vec(any::<char>(), 0..12).prop_map(String::from_iter);
    (text(), text(), any::<Option<u64>>()).prop_map(|(table, path, bytes)| InputFile { table, path, bytes })
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written_or_refused(bytes in any::<[u8; HEADER_BYTES]>()) {
        if let Ok(header) = Header::decode(bytes) {
            prop_assert_eq!(header.encode(), bytes);
            prop_assert!(header.length <= header.kind.bytes_max());
        }
    }

    #[test]
    fn data_comes_out_as_it_went_in(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
        piece in 1..200_usize,
        room in 1..200_usize,
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend(encode(Kind::Data, chunk));
            bytes.extend(encode(Kind::Heartbeat, &[]));
        }
        prop_assert_eq!(inbound(&bytes, piece, room), (chunks.concat(), Some(Taken::More)));
        bytes.extend(encode(Kind::Goodbye, &[]));
        bytes.extend([1, 2, 3]);
        prop_assert_eq!(inbound(&bytes, piece, room), (chunks.concat(), Some(Taken::Goodbye)));
    }

    #[test]
    fn any_bytes_can_arrive(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1..100_usize) {
        let _ = inbound(&bytes, piece, 50);
        let _ = read_terms(&bytes, piece);
        for kind in [Kind::Terms, Kind::Inputs] {
            let _ = TermsReader::default().take(kind, &bytes);
        }
        let _ = Abort::decode(&bytes);
        let _ = decode_refusal(&bytes);
    }

    #[test]
    fn changed_bytes_can_arrive(at in 0..200_usize, to in any::<u8>(), files in proptest::collection::vec(file(), 0..5)) {
        let terms = Terms::new("SELECT", vec![("a".into(), "b".into())], 2, files);
        let mut bytes = terms.encode().unwrap();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = to;
        }
        let _ = read_terms(&bytes, 64);
    }

    #[test]
    fn terms_arrive_whole(files in proptest::collection::vec(file(), 0..40), piece in 1..500_usize) {
        let terms = Terms::new("SELECT 1", vec![("a".into(), "1".into()), ("b".into(), String::new())], 3, files);
        prop_assert_eq!(read_terms(&terms.encode().unwrap(), piece), Some(terms));
    }

    #[test]
    fn reasons_arrive(origin in any::<u32>(), is_usage in any::<bool>(), reason in ".{0,40}", code in any::<u8>()) {
        let abort = Abort { origin, is_usage, reason: reason.clone() }.encode();
        let read = shown(&reason, 300);
        let expected = Abort { origin, is_usage, reason: read.clone() };
        prop_assert_eq!(inbound(&abort, 7, 10), (Vec::new(), Some(Taken::Abort(expected))));
        prop_assert_eq!(decode_refusal(&encode_refusal(code, &reason)[HEADER_BYTES..]), Ok((code, read)));
    }
}

#[test]
fn a_long_reason_is_cut_and_still_arrives() {
    let abort = Abort { origin: 1, is_usage: false, reason: "é".repeat(5000) };
    let (_, taken) = inbound(&abort.encode(), 1000, 10);
    assert_eq!(taken, Some(Taken::Abort(Abort { reason: "é".repeat(2048), ..abort })));
}

#[test]
fn a_length_beyond_its_kind_is_refused_before_the_payload_comes() {
    let head = Header { kind: Kind::Data, length: DATA_BYTES_MAX + 1 }.encode();
    assert_eq!(inbound(&head, 8, 10), (Vec::new(), None));
    let mut frames = Frames::default();
    frames.push(&Header { kind: Kind::Hello, length: 257 }.encode());
    assert!(frames.next().is_err());
}

#[test]
fn frames_of_the_start_stop_before_the_run() {
    let mut frames = Frames::default();
    let data = encode(Kind::Data, &[5; 9]);
    frames.push(&[encode(Kind::Go, &[]), data.clone()].concat());
    assert_eq!(frames.next(), Ok(Some((Kind::Go, Vec::new()))));
    assert!(frames.is_at_run());
    assert_eq!(frames.next(), Ok(None));
    assert_eq!(frames.into_rest(), data);
}

#[test]
fn many_input_files_arrive_in_chunks_and_too_many_are_refused() {
    let files = |n: usize| -> Vec<_> {
        let path = |i| format!("{}/{i}", "d".repeat(200));
        (0..n).map(|i| InputFile { table: "t".into(), path: path(i), bytes: Some(1) }).collect()
    };
    let terms = Terms::new("", Vec::new(), 1, files(5000));
    assert_eq!(read_terms(&terms.encode().unwrap(), 64 << 10), Some(terms));
    let error = Terms::new("", Vec::new(), 1, files(100_000)).encode().unwrap_err();
    assert!(error.to_string().contains("the list of 100000 input files is too long for a cluster"), "{error}");
}

#[test]
fn differences_name_the_term_and_both_values() {
    let files = |list: &[(&str, u64)]| -> Vec<_> {
        list.iter().map(|(p, b)| InputFile { table: "t".into(), path: (*p).into(), bytes: Some(*b) }).collect()
    };
    let settings = |value: &str| vec![("late".to_owned(), value.to_owned())];
    let rule = Terms::new("a", settings("x"), 1, files(&[("f", 1), ("g", 2)]));
    let differs = |own: Terms| {
        rule.differences(&own, "A", "B").or_else(|| rule.different_inputs(&own, "A", "B")).unwrap_or_default()
    };
    assert_eq!(differs(rule.clone()), "");
    let text = differs(Terms { version: "9.9.9".into(), ..rule.clone() });
    assert!(text.ends_with(&format!("version: A has {}, B has 9.9.9", env!("CARGO_PKG_VERSION"))), "{text}");
    let text = differs(Terms { layout: WIRE_LAYOUT + 1, ..rule.clone() });
    let expected = format!("(builds of the same version that differ): A has {WIRE_LAYOUT}, B has {}", WIRE_LAYOUT + 1);
    assert!(text.ends_with(&expected), "{text}");
    let text = differs(Terms { threads: 2, ..rule.clone() });
    assert!(text.ends_with("worker threads: A has 1, B has 2"), "{text}");
    let text = differs(Terms { sql: "ff".into(), ..rule.clone() });
    assert!(text.contains("digest of the SQL: A has ca978112") && text.ends_with("B has ff"), "{text}");
    let text = differs(Terms { settings: settings("y"), ..rule.clone() });
    assert!(text.ends_with("setting \"late\": A has 'x', B has 'y'"), "{text}");
    let text = differs(Terms { settings: Vec::new(), ..rule.clone() });
    assert!(text.ends_with("setting \"late\": A has 'x', B has none"), "{text}");
    let forged = Terms { settings: settings("\u{1b}[2J\nok"), ..rule.clone() };
    assert!(forged.differences(&rule, "A", "B").unwrap().ends_with("A has '\\u{1b}[2J\\nok', B has 'x'"));
    let text = differs(Terms { inputs: files(&[("f", 3), ("h", 4)]), ..rule.clone() });
    let parts = [
        "f of table \"t\": 1 bytes on A, 3 bytes on B",
        "B lacks g of table \"t\" (2 bytes), which A has",
        "A lacks h of table \"t\" (4 bytes), which B has",
    ];
    assert!(text.ends_with(&parts.join("; ")), "{text}");
}
