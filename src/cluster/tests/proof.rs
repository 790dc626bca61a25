//! The handshake without a network.

use crate::cluster::Secret;
use crate::cluster::frame::{BadFrame, Kind, encode, encode_refusal};
use crate::cluster::handshake::{Claims, Fault, Handshake, PROTOCOL, Proven, Role};
use proptest::prelude::*;

fn side(role: Role, process: u32, nonce: u8, secret: &str) -> Handshake {
    let claims = Claims { version: "1.0.0".into(), process, processes: 3, threads: 2 };
    Handshake::new(role, claims, 0, [nonce; 32], Secret::new(secret))
}

fn refused(text: &str, is_proven: bool) -> Fault {
    Fault::Refused { code: 1, text: text.into(), is_proven }
}

/// Everything both sides send, and how it ends for them.
struct Talk {
    connecting: Vec<Vec<u8>>,
    accepting: Vec<Vec<u8>>,
    ends: (Result<Option<Proven>, Fault>, Result<Option<Proven>, Fault>),
}

fn talk(mut a: Handshake, mut b: Handshake) -> Talk {
    let mut talk = Talk { connecting: vec![a.opening()], accepting: Vec::new(), ends: (Ok(None), Ok(None)) };
    for _ in 0..4 {
        let Some(bytes) = talk.connecting.last().filter(|bytes| !bytes.is_empty()) else { break };
        match b.receive(bytes) {
            Ok(step) => {
                let mut bytes = step.send;
                if let Some(proven) = step.proven {
                    bytes.extend(encode(Kind::Admit, &[]));
                    talk.ends.1 = Ok(Some(proven));
                }
                talk.accepting.push(bytes);
            }
            Err(fault) => {
                talk.accepting.push(fault.refusal().unwrap_or_default());
                talk.ends.1 = Err(fault);
            }
        }
        match a.receive(talk.accepting.last().unwrap()) {
            Ok(step) => {
                talk.connecting.push(step.send);
                if step.proven.is_some() {
                    talk.ends.0 = Ok(step.proven);
                    break;
                }
            }
            Err(fault) => {
                talk.ends.0 = Err(fault);
                break;
            }
        }
    }
    talk
}

#[test]
fn both_sides_are_proven() {
    let talk = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
    let (a, b) = (talk.ends.0.unwrap().unwrap(), talk.ends.1.unwrap().unwrap());
    assert_eq!((a.claims.process, a.disagreement), (0, None));
    assert_eq!((b.claims.process, b.disagreement), (2, None));
}

#[test]
fn an_empty_secret_is_a_secret_as_well() {
    let talk = talk(side(Role::Connecting, 2, 1, ""), side(Role::Accepting, 0, 2, ""));
    assert!(talk.ends.0.unwrap().is_some() && talk.ends.1.unwrap().is_some());
}

#[test]
fn another_secret_is_refused_and_the_refusal_says_so() {
    let talk = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "ebb"));
    assert_eq!(talk.ends.1.unwrap_err(), Fault::Secret(2));
    assert_eq!(talk.ends.0.unwrap_err(), refused("the secret is another one", false));
}

#[test]
fn a_refusal_counts_after_the_proof_alone_and_is_fit_to_be_shown() {
    let refusal = encode_refusal(1, "\u{1b}[2J\ngo away");
    let (mut early, mut late) = (side(Role::Connecting, 2, 1, "tide"), side(Role::Connecting, 2, 1, "tide"));
    let fault = early.receive(&refusal).unwrap_err();
    assert_eq!(fault, refused("\\u{1b}[2J\\ngo away", false));
    assert!(!fault.is_proven());
    let mut peer = side(Role::Accepting, 0, 2, "tide");
    let hello = peer.receive(&late.opening()).unwrap().send;
    let proof = late.receive(&hello).unwrap().send;
    assert!(!late.is_waiting());
    let answer = peer.receive(&proof).unwrap().send;
    assert!(late.receive(&answer).unwrap().proven.is_none() && late.is_waiting());
    assert!(late.receive(&refusal).unwrap_err().is_proven());
}

#[test]
fn a_recorded_proof_is_worth_nothing_in_another_connection() {
    let recorded = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
    let mut victim = side(Role::Accepting, 0, 3, "tide");
    let _ = victim.receive(&recorded.connecting[0]).unwrap();
    assert_eq!(victim.receive(&recorded.connecting[1]).unwrap_err(), Fault::Secret(2));
    let mut victim = side(Role::Connecting, 2, 4, "tide");
    let _ = victim.receive(&recorded.accepting[0]).unwrap();
    assert_eq!(victim.receive(&recorded.accepting[1]).unwrap_err(), Fault::Secret(0));
}

#[test]
fn a_sides_own_proof_does_not_prove_the_other() {
    let mut victim = side(Role::Connecting, 2, 1, "tide");
    let (hello, mut helper) = (victim.opening(), side(Role::Accepting, 0, 2, "wrong"));
    let answer = helper.receive(&hello).unwrap().send;
    let own_proof = victim.receive(&answer).unwrap().send;
    assert_eq!(victim.receive(&own_proof).unwrap_err(), Fault::Secret(0));
    // Nor is its hello taken for the other's.
    assert!(matches!(side(Role::Connecting, 2, 1, "tide").receive(&hello), Err(Fault::Bad(_))));
}

#[test]
fn changed_claims_break_the_proof() {
    let honest = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
    // The index, after header, magic, protocol and role.
    let mut hello = honest.connecting[0].clone();
    assert_eq!(hello[19], 2);
    hello[19] = 1;
    let mut victim = side(Role::Accepting, 0, 2, "tide");
    let _ = victim.receive(&hello).unwrap();
    assert_eq!(victim.receive(&honest.connecting[1]).unwrap_err(), Fault::Secret(1));
}

#[test]
fn another_protocol_is_named() {
    let mut hello = side(Role::Connecting, 2, 1, "tide").opening();
    hello[16] = 9;
    let fault = side(Role::Accepting, 0, 2, "tide").receive(&hello).unwrap_err();
    assert_eq!(fault.to_string(), format!("expected version {PROTOCOL} of the protocol, found version 9"));
    assert!(fault.refusal().is_some());
}

#[test]
fn claims_are_compared_after_the_proof() {
    let other = |change: fn(&mut Claims)| {
        let mut claims = Claims { version: "1.0.0".into(), process: 2, processes: 3, threads: 2 };
        change(&mut claims);
        let a = Handshake::new(Role::Connecting, claims, 0, [1; 32], Secret::new(*b"tide"));
        let talk = talk(a, side(Role::Accepting, 0, 2, "tide"));
        let (a, b) = (talk.ends.0.unwrap().unwrap(), talk.ends.1.unwrap().unwrap());
        assert!(a.disagreement.is_some());
        b.disagreement.unwrap()
    };
    assert_eq!(other(|c| c.version = "2.0.0".into()), "it has version 2.0.0, this process (0) has version 1.0.0");
    assert_eq!(other(|c| c.processes = 4), "it has -n 4, this process (0) has -n 3");
    assert_eq!(other(|c| c.threads = 1), "it has -w 1, this process (0) has -w 2");
    assert!(other(|c| c.process = 0).ends_with("the host files differ"));
}

#[test]
fn long_frames_are_refused_at_their_first_byte_before_the_proof() {
    for kind in [Kind::Terms, Kind::Inputs, Kind::Abort, Kind::Data, Kind::Go] {
        let fault = side(Role::Accepting, 0, 2, "tide").receive(&[kind as u8]).unwrap_err();
        assert_eq!(fault, Fault::Bad(BadFrame::Order(kind)));
    }
}

#[test]
fn a_truncated_handshake_waits_and_proves_nothing() {
    let honest = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
    let all = honest.connecting.concat();
    for end in 0..all.len() {
        let mut victim = side(Role::Accepting, 0, 2, "tide");
        assert!(victim.receive(&all[..end]).unwrap().proven.is_none(), "{end} bytes");
    }
}

proptest! {
    #[test]
    fn bytes_may_come_in_any_pieces(piece in 1..40_usize) {
        let honest = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
        let mut victim = side(Role::Accepting, 0, 2, "tide");
        let all = [honest.connecting.concat(), vec![9, 9]].concat();
        let steps: Vec<_> = all.chunks(piece).map(|bytes| victim.receive(bytes).unwrap()).collect();
        prop_assert_eq!(steps.iter().map(|s| s.send.clone()).collect::<Vec<_>>().concat(),
            [honest.accepting[0].clone(), honest.accepting[1][..40].to_vec()].concat());
        let proven = steps.into_iter().find_map(|s| s.proven).unwrap();
        prop_assert!([9, 9].starts_with(&proven.rest));
    }

    #[test]
    fn no_bytes_make_a_side_panic_or_prove_anything(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        at in 0..120_usize,
        piece in 1..50_usize,
    ) {
        let honest = talk(side(Role::Connecting, 2, 1, "tide"), side(Role::Accepting, 0, 2, "tide"));
        for (role, process, spoken) in [(Role::Connecting, 2, honest.accepting), (Role::Accepting, 0, honest.connecting)] {
            let mut forged = spoken.concat();
            forged.truncate(at.min(forged.len() - 1));
            forged.extend(&bytes);
            let mut side = side(role, process, 5, "tide");
            for piece in forged.chunks(piece) {
                match side.receive(piece) {
                    Ok(step) => prop_assert!(step.proven.is_none()),
                    Err(_) => break,
                }
            }
        }
    }
}
