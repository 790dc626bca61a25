//! How clusters form, and why they do not.

use super::*;
use crate::cluster::connect;
use crate::cluster::frame::encode_refusal;
use crate::error::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn three_processes_form_a_mesh() {
    let meshes = mesh_of(members(3));
    for (process, mesh) in meshes.iter().enumerate() {
        let peers: Vec<_> = mesh.links.iter().map(|link| link.as_ref().map(super::super::Link::peer)).collect();
        let expected: Vec<_> = (0..3).map(|i| (i != process).then_some(i)).collect();
        assert_eq!(peers, expected);
        assert_eq!(mesh.watch().lost(), None);
    }
}

#[test]
fn one_process_is_a_cluster_too() {
    assert_eq!(mesh_of(members(1))[0].traffic(), []);
}

/// Both errors of a cluster of two whose second member is changed.
fn two(change: impl FnOnce(&mut Member)) -> Vec<Error> {
    let mut members = members(2);
    change(&mut members[1]);
    errors_of(members)
}

#[test]
fn another_number_of_processes_is_named_on_both_sides() {
    let errors = two(|m| {
        m.config.processes = 3;
        m.config.addresses.push("127.0.0.1:1".into());
    });
    assert!(errors[0].to_string().ends_with("it has -n 3, this process (0) has -n 2"), "{}", errors[0]);
    assert!(errors[1].to_string().ends_with("it has -n 2, this process (1) has -n 3"), "{}", errors[1]);
    assert_eq!(errors[0].kind(), ErrorKind::Usage);
}

#[test]
fn another_number_of_threads_is_named_on_both_sides() {
    let errors = two(|m| {
        m.config.threads = 4;
        m.terms.threads = 4;
    });
    assert!(errors[0].to_string().contains("process 1 (127.0.0.1:"), "{}", errors[0]);
    assert!(errors[0].to_string().ends_with("it has -w 4, this process (0) has -w 1"), "{}", errors[0]);
    assert!(errors[1].to_string().ends_with("it has -w 1, this process (1) has -w 4"), "{}", errors[1]);
}

#[test]
fn another_version_is_named_on_both_sides() {
    let errors = two(|m| m.terms.version = "9.9.9".into());
    for error in errors {
        assert!(error.to_string().contains("version: process 0"), "{error}");
        assert!(error.to_string().contains("has 9.9.9"), "{error}");
    }
}

#[test]
fn another_secret_is_told_on_both_sides_when_the_deadline_passes() {
    let mut members = members(2);
    members[1].config.secret = Secret::new(*b"ebb");
    members.iter_mut().for_each(|m| m.config.start_deadline = Duration::from_secs(2));
    let errors = errors_of(members);
    let expected = "(it refuses, and has not proven who it is: the secret is another one)";
    assert!(errors[1].to_string().ends_with(expected), "{}", errors[1]);
    assert_eq!(errors[1].kind(), ErrorKind::Usage);
    assert!(errors[1].hint().unwrap().contains("SLACKWATER_CLUSTER_SECRET"));
    assert_eq!(errors[0].kind(), ErrorKind::Cluster);
    assert!(errors[0].to_string().contains("waiting for process 1 (127.0.0.1:"), "{}", errors[0]);
    assert!(
        errors[0].detail().unwrap().contains("that claims to be process 1: it does not know this cluster's secret")
    );
}

#[test]
fn another_program_or_setting_ends_all_three_with_the_same_words() {
    let mut members = members(3);
    members[2].terms.settings[0].1 = "128".into();
    let errors = errors_of(members);
    for error in &errors {
        assert!(error.to_string().contains("setting \"block_bytes\": process 0 (127.0.0.1:"), "{error}");
        assert!(error.to_string().contains("has '64', process 2 (127.0.0.1:"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
    assert!(
        errors[0].to_string().starts_with("process 2 (127.0.0.1:") && errors[0].to_string().contains(") gave up: ")
    );
}

#[test]
fn a_file_that_one_host_lacks_ends_all_three_and_is_named_with_the_host() {
    let mut members = members(3);
    members[1].terms.inputs.clear();
    for error in errors_of(members) {
        assert!(error.to_string().contains(") lacks in.csv of table \"t\" (7 bytes), which process 0 (127.0.0.1:"));
        assert!(error.to_string().contains("process 1 (127.0.0.1:"), "{error}");
    }
}

#[test]
fn a_long_list_of_files_is_compared() {
    let files = |n: u64| {
        let path = |i| format!("/data/{}/{i:06}.csv", "x".repeat(180));
        (0..n).map(|i| InputFile { table: "t".into(), path: path(i), bytes: Some(i) }).collect::<Vec<_>>()
    };
    let mut good = members(2);
    good.iter_mut().for_each(|m| m.terms.inputs = files(30_000));
    drop(mesh_of(good));
    let mut bad = members(2);
    bad.iter_mut().for_each(|m| m.terms.inputs = files(30_000));
    bad[1].terms.inputs[29_999].bytes = None;
    for error in errors_of(bad) {
        assert!(error.to_string().contains("029999.csv of table \"t\": 29999 bytes on process 0"), "{error}");
        assert!(error.to_string().contains("unknown size on process 1"), "{error}");
    }
}

#[test]
fn an_absent_process_is_named_when_the_deadline_passes() {
    let mut members = members(3);
    members.iter_mut().for_each(|m| m.config.start_deadline = Duration::from_secs(1));
    let absent = members.remove(1);
    drop(absent.listener);
    let name = format!("process 1 ({})", absent.config.addresses[1]);
    let errors = errors_of(members);
    for error in &errors {
        assert_eq!(error.kind(), ErrorKind::Cluster);
        assert!(error.to_string().contains("the cluster did not start within 1 s"), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn an_address_that_does_not_resolve_is_named() {
    let mut member = members(2).pop().unwrap();
    // No name at all, so that nobody is asked for it.
    member.config.addresses[0] = "no name:2101".into();
    member.config.start_deadline = Duration::from_millis(500);
    let error = member.connect().unwrap_err();
    assert!(error.to_string().contains("process 0 (no name:2101) (cannot resolve no name:2101"), "{error}");
}

#[test]
fn something_else_at_a_peers_address_is_named() {
    let mut members = members(2);
    let other = members.remove(0).listener;
    let web = thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream
    });
    members[0].config.start_deadline = Duration::from_millis(700);
    let error = members.remove(0).connect().unwrap_err();
    assert!(error.to_string().contains("it does not speak this program's protocol"), "{error}");
    assert!(error.hint().unwrap().contains("does something else listen there?"));
    drop(web.join());
}

#[test]
fn a_stranger_in_a_peers_place_is_shown_in_plain_text_and_ends_nothing() {
    let mut two = members(2);
    let stranger = two[0].listener.try_clone().unwrap();
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let told = Arc::clone(&lines);
    let one = two.pop().unwrap();
    let one = thread::spawn(move || {
        let progress = |line: &str| told.lock().unwrap().push(line.to_owned());
        one.connect_for(&Caller { check: None, progress: &progress, stop: None })
    });
    let refusal = encode_refusal(1, "\u{1b}[2Jno\nslackwater: done");
    wait_for(|| {
        let (stream, _) = stranger.accept().unwrap();
        std::io::Write::write_all(&mut &stream, &refusal).unwrap();
        (!lines.lock().unwrap().is_empty()).then_some(())
    });
    let line = lines.lock().unwrap()[0].clone();
    let expected = "(it refuses, and has not proven who it is: \\u{1b}[2Jno\\nslackwater: done), ";
    assert!(line.starts_with("waiting for process 0 (127.0.0.1:") && line.contains(expected), "{line}");
    let zero = two.pop().unwrap().connect().unwrap();
    assert_eq!(one.join().unwrap().unwrap().unwrap().processes(), zero.processes());
}

#[test]
fn a_slow_look_at_the_files_keeps_nobody_out() {
    let mut three = members(3);
    three.iter_mut().for_each(|m| m.tuning.handshake = Duration::from_millis(400));
    let member = |member: Member| {
        thread::spawn(move || {
            let check = |_: &[InputFile]| {
                thread::sleep(Duration::from_millis(if member.config.process == 1 { 1500 } else { 0 }));
                None
            };
            let check: crate::cluster::InputsCheck<'_> = &check;
            let (listener, config) = (member.listener, member.config.clone());
            let caller = Caller { check: Some(check), progress: &|_| (), stop: None };
            let places = hosts::places(&config)?;
            connect_on(listener, &config, &places, &member.terms, &caller, &member.tuning)
        })
    };
    let threads: Vec<_> = three.into_iter().map(member).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap().unwrap().processes(), 3);
    }
}

#[test]
fn what_the_look_at_the_files_finds_is_told_to_all() {
    let mut two = members(2);
    let one = two.pop().unwrap();
    let zero = two.pop().unwrap().spawn();
    let check = |inputs: &[InputFile]| Some(format!("cannot read\n{}", inputs[0].path));
    let error = one.connect_for(&Caller { check: Some(&check), progress: &|_| (), stop: None }).unwrap_err();
    assert!(error.to_string().ends_with(") cannot read\\nin.csv"), "{error}");
    assert!(zero.join().unwrap().unwrap_err().to_string().ends_with(&format!(") gave up: {error}")));
}

#[test]
fn an_interrupt_ends_the_start_and_is_told_to_the_others() {
    let mut three = members(3);
    let _absent = three.pop().unwrap();
    let one = three.pop().unwrap();
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let told = Arc::clone(&lines);
    let zero = three.pop().unwrap();
    let zero = thread::spawn(move || {
        let progress = |line: &str| told.lock().unwrap().push(line.to_owned());
        zero.connect_for(&Caller { check: None, progress: &progress, stop: None })
    });
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let one = thread::spawn(move || one.connect_for(&Caller { check: None, progress: &|_| (), stop: Some(&flag) }));
    // Process 0 waits for process 2 alone: process 1 is in.
    wait_for(|| lines.lock().unwrap().iter().any(|l| l.starts_with("waiting for process 2 (")).then_some(()));
    stop.store(true, Ordering::Relaxed);
    assert!(one.join().unwrap().unwrap().is_none());
    let error = zero.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cluster);
    assert!(error.to_string().ends_with(") gave up: interrupted while the cluster was starting"), "{error}");
    assert!(error.to_string().starts_with("process 1 (127.0.0.1:"), "{error}");
}

#[test]
fn a_port_in_use_is_named() {
    let member = members(1).remove(0);
    let error = connect(&member.config, &member.terms, &|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("the port is in use"), "{error}");
    assert!(error.hint().unwrap().contains("-p 0"));
}

#[test]
fn a_second_process_of_the_same_index_is_refused_and_the_first_goes_on() {
    let mut three = members(3);
    let (two, one, zero) = (three.pop().unwrap(), three.pop().unwrap(), three.pop().unwrap());
    let mut second = members(1).remove(0);
    second.config = one.config.clone();
    let lines = Arc::new(Mutex::new(Vec::<String>::new()));
    let told = Arc::clone(&lines);
    let zero = thread::spawn(move || {
        let progress = |line: &str| told.lock().unwrap().push(line.to_owned());
        let caller = Caller { check: None, progress: &progress, stop: None };
        zero.connect_for(&caller).map(|mesh| mesh.unwrap())
    });
    let one = one.spawn();
    // Process 0 has said that it waits for process 2 alone: process 1 is in.
    wait_for(|| {
        let lines = lines.lock().unwrap();
        lines.iter().any(|l| l.starts_with("waiting for process 2 (") && l.ends_with(" s left")).then_some(())
    });
    let error = second.connect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("process 1 is already connected from 127.0.0.1:"), "{error}");
    assert!(error.to_string().contains(", and now from 127.0.0.1:"), "{error}");
    let two = two.spawn();
    let meshes: Vec<_> = [zero, one, two].into_iter().map(|t| t.join().unwrap().unwrap()).collect();
    assert!(meshes.iter().all(|m| m.watch().lost().is_none()));
    assert!(lines.lock().unwrap().iter().any(|l| l.starts_with("refused a second process with -p 1: ")));
}

#[test]
fn seconds_that_have_begun_are_left() {
    let left = |ms| crate::cluster::seconds_left(Duration::from_millis(ms));
    assert_eq!([0, 1, 999, 1_000, 1_001, 30_000].map(left), [1, 1, 1, 1, 2, 30]);
}

#[test]
fn bounds_are_checked_before_anything_is_opened() {
    let error = |change: &dyn Fn(&mut ClusterConfig)| {
        let mut config = ClusterConfig::new(0, 1, vec!["127.0.0.1:2".into(), "127.0.0.1:3".into()]);
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(error(&|c| c.process = 2).to_string(), "-p: expected a process from 0 to 1 (-n 2), found 2");
    assert_eq!(error(&|c| c.processes = 3).to_string(), "expected 3 addresses (-n 3), found 2");
    assert_eq!(error(&|c| c.threads = 0).to_string(), "-w: expected at least 1 worker thread, found 0");
    let short = error(&|c| c.silence = Duration::from_millis(99));
    assert_eq!(short.to_string(), "--peer-timeout: expected at least 100 ms, found 99 ms");
    let no_time = error(&|c| c.start_deadline = Duration::ZERO);
    assert_eq!(no_time.to_string(), "--start-timeout: expected more than 0 s");
    let open = error(&|c| c.addresses[1] = "10.0.0.3:2101".into());
    assert_eq!(open.to_string(), "a cluster that leaves this machine (10.0.0.3:2101) needs a secret, and none is set");
    assert!(open.hint().unwrap().contains("SLACKWATER_CLUSTER_SECRET"));
}

#[test]
fn a_peer_that_leaves_during_the_start_ends_it_at_once() {
    let mut three = members(3);
    let absent = three.pop().unwrap();
    let mut one = three.pop().unwrap();
    one.config.start_deadline = Duration::from_millis(700);
    let zero = three.pop().unwrap().spawn();
    let error = one.connect().unwrap_err();
    assert!(error.to_string().contains(&format!("process 2 ({})", absent.config.addresses[2])), "{error}");
    // Process 0 had a minute, and hears of it from process 1.
    let told = zero.join().unwrap().unwrap_err();
    assert!(told.to_string().starts_with("process 1 (127.0.0.1:"), "{told}");
    assert!(told.to_string().contains(&format!(") gave up: {error}")), "{told}");
}
