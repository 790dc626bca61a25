//! Entry points of the fuzz targets.

use super::Secret;
use super::frame::{Frames, Inbound, Taken};
use super::handshake::{Claims, Handshake, Role};
use super::terms::TermsReader;

/// Feeds the bytes to both sides of a handshake, to the frames of the start, and to the frames of the run. The first byte
/// says how large the pieces are in which they arrive.
///
/// # Panics
/// If the bytes come apart differently in pieces than in one.
pub fn handshake(data: &[u8]) {
    let Some((size, data)) = data.split_first() else { return };
    let size = usize::from(*size).max(1);
    for role in [Role::Connecting, Role::Accepting] {
        let claims = Claims { version: "0".to_owned(), process: 1, processes: 3, threads: 1 };
        let mut handshake = Handshake::new(role, claims, 0, [7; 32], Secret::new(*b"tide"));
        for piece in data.chunks(size) {
            match handshake.receive(piece) {
                Ok(step) if step.proven.is_none() => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
    start(data, size);
    assert_eq!(run(data, size), run(data, data.len().max(1)));
}

fn start(data: &[u8], size: usize) {
    let (mut frames, mut terms) = (Frames::default(), TermsReader::default());
    for piece in data.chunks(size) {
        frames.push(piece);
        loop {
            match frames.next() {
                Ok(Some((kind, payload))) => drop(terms.take(kind, &payload)),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// Timely's bytes, and how they ended.
fn run(data: &[u8], size: usize) -> (Vec<u8>, String) {
    let (mut inbound, mut out, mut given) = (Inbound::new(Vec::new()), vec![0; 97], Vec::new());
    let mut data = data;
    loop {
        match inbound.take(&mut out) {
            Ok(Taken::Data(bytes)) => given.extend_from_slice(out.get(..bytes).unwrap_or_default()),
            Ok(Taken::More) => {
                let space = inbound.space();
                let bytes = size.min(space.len()).min(data.len());
                if bytes == 0 {
                    return (given, "more".to_owned());
                }
                let (head, rest) = data.split_at(bytes);
                space.iter_mut().zip(head).for_each(|(to, from)| *to = *from);
                inbound.received(bytes);
                data = rest;
            }
            end => return (given, format!("{end:?}")),
        }
    }
}
