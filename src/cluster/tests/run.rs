//! Links while the run goes on, and how it ends.

use super::*;
use crate::cluster::frame::{Kind, encode};
use crate::cluster::{Link, Loss, LossReason};
use std::io::Write;
use timely::communication::allocator::zero_copy::stream::Stream;

fn link(mesh: &Mesh, peer: usize) -> Link {
    mesh.links[peer].clone().unwrap()
}

/// What the raw socket of a link does; for peers that misbehave.
fn raw(mesh: &Mesh, peer: usize) -> Arc<TcpStream> {
    mesh.watch().connections().iter().find(|c| c.peer == peer).unwrap().socket()
}

fn pair() -> (Mesh, Mesh) {
    let mut meshes = mesh_of(members(2));
    let one = meshes.pop().unwrap();
    (meshes.pop().unwrap(), one)
}

#[test]
fn bytes_arrive_and_are_counted() {
    let (zero, one) = pair();
    let heard = read_all(&one, 0);
    let sent: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
    link(&zero, 1).write_all(&sent).unwrap();
    wait_for(|| (heard.lock().unwrap().0.len() == sent.len()).then_some(()));
    assert_eq!(heard.lock().unwrap().0, sent);
    let (from, to) = (zero.traffic()[0], one.traffic()[0]);
    assert_eq!((from.process, from.sent_payload_bytes), (1, 1_000_000));
    assert_eq!((to.process, to.received_payload_bytes), (0, 1_000_000));
    assert!(from.sent_bytes > 1_000_000 && to.received_bytes > 1_000_000);
}

#[test]
fn a_goodbye_is_a_clean_end_whoever_says_it_first() {
    let (zero, one) = pair();
    let (at_zero, at_one) = (read_all(&zero, 1), read_all(&one, 0));
    link(&zero, 1).write_all(b"last").unwrap();
    link(&zero, 1).shutdown(std::net::Shutdown::Write).unwrap();
    wait_for(|| at_one.lock().unwrap().1.then_some(()));
    assert_eq!(at_one.lock().unwrap().0, b"last");
    // The other one goes on, and says goodbye later.
    link(&one, 0).write_all(b"later").unwrap();
    link(&one, 0).shutdown(std::net::Shutdown::Write).unwrap();
    wait_for(|| at_zero.lock().unwrap().1.then_some(()));
    assert_eq!(at_zero.lock().unwrap().0, b"later");
    assert!(zero.watch().wait_for_end() && one.watch().wait_for_end());
    // Closing after the goodbyes is no loss, and neither is writing to a closed one.
    raw(&one, 0).shutdown(std::net::Shutdown::Both).unwrap();
    link(&zero, 1).write_all(b"void").unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!((zero.watch().lost(), one.watch().lost()), (None, None));
}

#[test]
fn a_closed_connection_is_a_loss_and_the_others_hear_whose() {
    let mut meshes = mesh_of(members(3));
    let watches: Vec<_> = meshes.iter().map(Mesh::watch).collect();
    let called = Arc::new(Mutex::new(None));
    let caller = Arc::clone(&called);
    watches[0].on_loss(move |loss| *caller.lock().unwrap() = Some(loss.clone()));
    let _readers = [read_all(&meshes[0], 1), read_all(&meshes[0], 2), read_all(&meshes[1], 0), read_all(&meshes[1], 2)];
    // As if process 2 had been killed: towards process 0 alone first.
    raw(&meshes[2], 0).shutdown(std::net::Shutdown::Both).unwrap();
    let loss = lost(&watches[0]);
    assert_eq!((loss.process, &loss.reason), (2, &LossReason::Closed));
    assert!(loss.to_string().starts_with("lost process 2 (127.0.0.1:"), "{loss}");
    assert!(loss.to_string().ends_with("): closed the connection"), "{loss}");
    assert_eq!(wait_for(|| called.lock().unwrap().clone()), loss);
    // Process 1 hears it from process 0, in its words.
    let told = lost(&watches[1]);
    assert_eq!((told.process, &told.reason), (0, &LossReason::Aborted(loss.to_string())));
    assert!(told.to_string().contains(") gave up: lost process 2 (127.0.0.1:"), "{told}");
    // Writes vanish, and late callbacks are called at once.
    link(&meshes[0], 2).write_all(&[0; 100_000]).unwrap();
    let late = Arc::new(Mutex::new(false));
    let set = Arc::clone(&late);
    watches[0].on_loss(move |_| *set.lock().unwrap() = true);
    assert!(*late.lock().unwrap());
    watches.iter().for_each(|w| w.release());
    drop(meshes.pop());
}

#[test]
fn silence_is_a_loss() {
    let mut two = members(2);
    two.iter_mut().for_each(|m| m.config.silence = Duration::from_millis(300));
    two[1].tuning.beats = false;
    let meshes = mesh_of(two);
    let _reader = read_all(&meshes[0], 1);
    let loss = lost(&meshes[0].watch());
    assert_eq!((loss.process, loss.reason), (1, LossReason::Silent(Duration::from_millis(300))));
    // The silent one is told as well, should it wake up.
    let _reader = read_all(&meshes[1], 0);
    let told = lost(&meshes[1].watch());
    assert!(told.to_string().ends_with("): silent for 0.3 s"), "{told}");
    meshes.iter().for_each(|m| m.watch().release());
}

#[test]
fn heartbeats_keep_an_idle_link() {
    let mut two = members(2);
    two.iter_mut().for_each(|m| m.config.silence = Duration::from_secs(2));
    let meshes = mesh_of(two);
    let _readers = [read_all(&meshes[0], 1), read_all(&meshes[1], 0)];
    thread::sleep(Duration::from_secs(4));
    assert_eq!((meshes[0].watch().lost(), meshes[1].watch().lost()), (None, None));
    assert_eq!(meshes[0].traffic()[0].sent_payload_bytes, 0);
    assert!(meshes[0].traffic()[0].sent_bytes > 0);
}

#[test]
fn a_peer_that_reads_nothing_is_lost_to_the_one_that_writes() {
    let mut two = members(2);
    two[0].config.silence = Duration::from_millis(300);
    let meshes = mesh_of(two);
    // More than any socket buffers; without a reader on this side either.
    link(&meshes[0], 1).write_all(&vec![0; 64 << 20]).unwrap();
    let loss = lost(&meshes[0].watch());
    assert_eq!(loss.reason, LossReason::Silent(Duration::from_millis(300)));
}

#[test]
fn an_abort_travels_with_its_reason() {
    let mut meshes = mesh_of(members(3));
    let _readers: Vec<_> = (0..3)
        .flat_map(|i| (0..3).filter(move |j| *j != i).map(move |j| (i, j)))
        .map(|(i, j)| read_all(&meshes[i], j))
        .collect();
    meshes[1].watch().abort_all("disk full");
    assert_eq!(meshes[1].watch().lost(), None);
    for i in [0, 2] {
        let loss = lost(&meshes[i].watch());
        assert_eq!((loss.process, loss.reason), (1, LossReason::Aborted("disk full".into())));
    }
    let error = Error::from(lost(&meshes[0].watch()));
    assert_eq!(error.kind(), crate::error::ErrorKind::Cluster);
    assert!(error.to_string().ends_with(") gave up: disk full"), "{error}");
    meshes.iter().for_each(|m| m.watch().release());
    meshes.clear();
}

#[test]
fn a_mesh_that_is_dropped_tells_the_others() {
    let (zero, one) = pair();
    let _reader = read_all(&zero, 1);
    drop(one);
    assert!(lost(&zero.watch()).to_string().ends_with(") gave up: the run ended early"));
    zero.watch().release();
}

#[test]
fn an_alarm_goes_off_unless_it_is_disarmed() {
    let (zero, one) = pair();
    let _reader = read_all(&zero, 1);
    one.watch().alarm().disarm();
    assert!(!one.watch().is_given_up());
    let watch = one.watch();
    let worker = thread::spawn(move || {
        let _alarm = watch.alarm();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(worker.join().is_err());
    assert!(lost(&zero.watch()).to_string().ends_with(") gave up: a worker ended early"));
    // Its goodbye comes too late to be believed.
    link(&one, 0).shutdown(std::net::Shutdown::Write).unwrap();
    assert!(!one.watch().wait_for_end());
    zero.watch().release();
}

#[test]
fn garbage_in_a_running_link_is_a_loss() {
    for garbage in [vec![77; 20], encode(Kind::Go, &[]), encode(Kind::Hello, &[1; 30])] {
        let (zero, one) = pair();
        let _reader = read_all(&zero, 1);
        (&*raw(&one, 0)).write_all(&garbage).unwrap();
        let loss = lost(&zero.watch());
        assert!(matches!(&loss, Loss { process: 1, reason: LossReason::Garbled(_), .. }), "{loss}");
        zero.watch().release();
    }
}

#[test]
fn an_end_in_the_middle_of_a_frame_is_a_loss() {
    let (zero, one) = pair();
    let heard = read_all(&zero, 1);
    let frame = encode(Kind::Data, &[5; 100]);
    (&*raw(&one, 0)).write_all(&frame[..50]).unwrap();
    raw(&one, 0).shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(lost(&zero.watch()).reason, LossReason::Closed);
    assert!(!heard.lock().unwrap().1);
    zero.watch().release();
}
