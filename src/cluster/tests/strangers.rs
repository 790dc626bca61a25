//! Strangers at the ports of a cluster that forms: none of them keeps it from forming.

use super::*;
use crate::cluster::frame::{Header, Kind};
use crate::cluster::gate::WAITING_MAX;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Forms a cluster of three while strangers do what they like to process 0.
fn form_despite(strangers: impl FnOnce(&str)) {
    let mut three = members(3);
    let address = three[0].config.addresses[0].clone();
    let rest = three.split_off(1);
    let zero = three.remove(0).spawn();
    strangers(&address);
    let rest: Vec<_> = rest.into_iter().map(Member::spawn).collect();
    let all = std::iter::once(zero).chain(rest).map(|t| t.join().unwrap().unwrap());
    assert!(all.collect::<Vec<_>>().iter().all(|mesh| mesh.watch().lost().is_none()));
}

#[test]
fn garbage_is_closed() {
    form_despite(|address| {
        let huge = Header { kind: Kind::Data, length: 1 << 20 }.encode();
        for garbage in [&[0; 8][..], &[255; 4096], b"GET / HTTP/1.1\r\n\r\n", &huge] {
            let mut stream = dial(address);
            // It may be closed while it is still written to.
            let _ = stream.write_all(garbage);
            let _ = stream.set_read_timeout(Some(LONG));
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty(), "a stranger learns nothing");
        }
    });
}

#[test]
fn the_silent_and_the_slow_wait_in_vain() {
    let mut kept = Vec::new();
    form_despite(|address| {
        for byte in 0..2 * WAITING_MAX {
            let mut stream = dial(address);
            if byte % 2 == 0 {
                let _ = stream.write_all(&[1]);
            }
            kept.push(stream);
        }
    });
    assert_eq!(kept.len(), 2 * WAITING_MAX);
}

#[test]
fn a_truncated_handshake_is_forgotten() {
    form_despite(|address| {
        let claims = crate::cluster::handshake::Claims { version: "0".into(), process: 1, processes: 3, threads: 1 };
        let role = crate::cluster::handshake::Role::Connecting;
        let hello = crate::cluster::handshake::Handshake::new(role, claims, 0, [1; 32], Secret::default()).opening();
        for end in [1, 8, 40, hello.len() - 1, hello.len()] {
            dial(address).write_all(&hello[..end]).unwrap();
        }
    });
}

#[test]
fn a_flood_keeps_nobody_out() {
    let stop = Arc::new(AtomicBool::new(false));
    let mut floods = Vec::new();
    form_despite(|address| {
        for _ in 0..2 {
            let (stop, address) = (Arc::clone(&stop), address.to_owned());
            floods.push(thread::spawn(move || {
                let mut held = std::collections::VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    // The queue of the port may be full; that is the flood's trouble.
                    held.extend(TcpStream::connect(&address));
                    if held.len() > WAITING_MAX {
                        let _ = held.pop_front();
                    }
                    // A few thousand a second, and still some time for others on a small machine.
                    thread::sleep(Duration::from_micros(300));
                }
            }));
        }
    });
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}
