//! Processes that do not belong together, and arguments that cannot be: told in words, on every process, before anything
//! is read.

use crate::data::{Part, Random, gzip, ndjson};
use crate::harness::{Cluster, Ended, Folder, Running, end_all, free_addresses};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

const USAGE: i32 = 2;
const CLUSTER: i32 = 4;

const SQL: &str = "CREATE TABLE t (k TEXT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at) WITH (path = 'in/*', format = 'json', time_unit = 'ms');
    CREATE MATERIALIZED VIEW v AS SELECT k, window_start, count(*) AS n FROM TUMBLE(t, at, INTERVAL '5 seconds') GROUP BY k, window_start;
    CREATE SINK a FROM v WITH (path = 'out/changes.ndjson');";

fn folder() -> Folder {
    let folder = Folder::new();
    let mut random = Random::new(51);
    folder.write("in/a.ndjson", ndjson(Part::of(20), &mut random));
    folder.write("in/b.ndjson", ndjson(Part::of(20), &mut random));
    folder.write("q.sql", SQL);
    folder
}

#[track_caller]
fn no_outputs(folder: &Folder) {
    let names = folder.names();
    assert!(!names.iter().any(|name| name.starts_with("out/") || name.contains(".tmp")), "{names:?}");
}

/// Starts two processes, process 1 with other arguments (after those of the cluster), and gives their ends.
#[track_caller]
fn two(folder: &Folder, change: impl FnOnce(&Cluster, &mut std::process::Command)) -> (Cluster<'_>, [Ended; 2]) {
    let cluster = Cluster::new(folder, 2);
    let mut other = cluster.command(1);
    change(&cluster, &mut other);
    let running = vec![cluster.start(0), Running::start("process 1".into(), other)];
    let ended = end_all(running).try_into().expect("two");
    no_outputs(folder);
    (cluster, ended)
}

#[test]
fn other_sql() {
    let folder = folder();
    folder.write("other.sql", SQL.replace("5 seconds", "6 seconds"));
    let (cluster, ended) = two(&folder, |cluster, command| *command = cluster.command_of(1, "other.sql"));
    let said = "the processes do not run the same thing: digest of the SQL: ";
    let [zero, one] = ended;
    zero.fails(USAGE, &[&format!("{} gave up: {said}", cluster.name(1)), &cluster.name(0)]);
    one.fails(USAGE, &[said, &cluster.name(0), &cluster.name(1), "hint: all processes take the same program"]);
}

#[test]
fn another_setting() {
    let folder = folder();
    let (cluster, [zero, one]) = two(&folder, |_, command| {
        command.args(["--block-bytes", "4096"]);
    });
    let said = format!(
        "the processes do not run the same thing: setting \"--block-bytes\": {} has '1048576', {} has '4096'",
        cluster.name(0),
        cluster.name(1)
    );
    zero.fails(USAGE, &[&format!("{} gave up: {said}", cluster.name(1))]);
    one.fails(USAGE, &[&said]);
}

#[test]
fn other_threads() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2);
    let other = Cluster { addresses: cluster.addresses.clone(), ..Cluster::new(&folder, 2) }.threads(3);
    cluster.write_hosts(1, &cluster.addresses);
    cluster.write_hosts(0, &cluster.addresses);
    let ended = end_all(vec![cluster.start(0), other.start(1)]);
    for ended in ended {
        ended.fails(USAGE, &["was started differently", "-w", "3", "1"]);
    }
    no_outputs(&folder);
}

#[test]
fn another_number_of_processes() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2);
    let three = Cluster::new(&folder, 3);
    let mut addresses = cluster.addresses.clone();
    addresses.extend(free_addresses(1));
    cluster.write_hosts(0, &cluster.addresses);
    three.write_hosts(1, &addresses);
    let ended = end_all(vec![cluster.start(0), three.start(1)]);
    for ended in ended {
        ended.fails(USAGE, &["was started differently", "-n", "2", "3"]);
    }
    no_outputs(&folder);
}

#[test]
fn an_index_that_is_taken() {
    // On one machine the second finds the port in use.
    let folder = folder();
    let cluster = Cluster::new(&folder, 3).args(&["--start-timeout", "60s"]);
    let (zero, one) = (cluster.start(0), cluster.start(1));
    let address = cluster.addresses[1].clone();
    crate::harness::wait_for("process 1 listens", || std::net::TcpStream::connect(&address).ok());
    let second = cluster.start(1).end();
    second.fails(
        CLUSTER,
        &[
            &format!("process 1 cannot listen on {address}: the port is in use"),
            "hint: is another process with -p 1 running?",
        ],
    );
    // On several machines process 0 refuses it, and goes on with the first.
    zero.complains(&format!(": waiting for {}, ", cluster.name(2)));
    let mut addresses = cluster.addresses.clone();
    addresses[1] = free_addresses(1).remove(0);
    cluster.write_hosts(1, &addresses);
    let second = cluster.start(1).end();
    second.fails(
        USAGE,
        &[
            &format!("{} and this process do not come together", cluster.name(0)),
            "already connected",
            "hint: give each process its own -p",
        ],
    );
    let ended = end_all(vec![zero, one, cluster.start(2)]);
    let first = crate::harness::all_ok(ended);
    assert!(first.stderr.contains("refused a second process with -p 1"), "{}", first.stderr);
    assert!(folder.path("out/changes.ndjson").exists());
}

#[test]
fn another_secret() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2).args(&["--start-timeout", "3s"]);
    let mut other = cluster.command(1);
    other.env("SLACKWATER_CLUSTER_SECRET", "ebb");
    let mut ended = end_all(vec![cluster.start(0), Running::start("process 1".into(), other)]).into_iter();
    let zero = ended.next().expect("two");
    let one = ended.next().expect("two");
    let one = one.fails(USAGE, &[&cluster.name(0), "secret", "hint: set SLACKWATER_CLUSTER_SECRET"]);
    // Whoever does not know the secret is a stranger: process 0 waits for the true one.
    let zero = zero.fails(CLUSTER, &["did not start within 3 s", &cluster.name(1), "secret"]);
    assert!([zero, one].iter().all(|e| !e.stderr.contains("tide") && !e.stderr.contains("ebb")));
    no_outputs(&folder);
}

#[test]
fn no_secret_where_one_is_needed() {
    let folder = folder();
    let mut cluster = Cluster::new(&folder, 2);
    cluster.secret = None;
    // Reserved for documentation: nobody has it, and nothing is sent there.
    cluster.write_hosts(0, &["192.0.2.1:2101".to_owned(), "127.0.0.1:2102".to_owned()]);
    cluster.write_hosts(1, &["127.0.0.1:2101".to_owned(), "192.0.2.1:2102".to_owned()]);
    for process in [0, 1] {
        let said = "a cluster that leaves this machine (192.0.2.1:210";
        cluster
            .start(process)
            .end()
            .fails(USAGE, &[said, "needs a secret, and none is set", "SLACKWATER_CLUSTER_SECRET"]);
    }
    no_outputs(&folder);
}

#[test]
fn a_secret_from_a_file() {
    let folder = folder();
    let mut cluster = Cluster::new(&folder, 2).args(&["--secret-file", "secret"]);
    cluster.secret = None;
    folder.write("secret", "tide\n");
    let mode =
        |mode| std::fs::set_permissions(folder.path("secret"), std::fs::Permissions::from_mode(mode)).expect("a mode");
    mode(0o644);
    cluster
        .start(0)
        .end()
        .fails(USAGE, &["secret: expected a secret that only its owner can read, found mode 644", "chmod 600 secret"]);
    mode(0o600);
    // The others may have it from elsewhere.
    let mut other = cluster.command(1);
    folder.write("again", "tide");
    std::fs::set_permissions(folder.path("again"), std::fs::Permissions::from_mode(0o400)).expect("a mode");
    other = {
        let mut args: Vec<_> = other.get_args().map(ToOwned::to_owned).collect();
        let at = args.iter().position(|a| a == "secret").expect("the flag");
        args[at] = "again".into();
        let mut command = folder.command(&[]);
        command.args(args);
        command
    };
    crate::harness::all_ok(end_all(vec![cluster.start(0), Running::start("process 1".into(), other)]));
    folder.run(&["run", "q.sql", "-n", "2", "--secret-file", "none"]).fails(USAGE, &["none: cannot read the secret"]);
}

#[test]
fn nobody_comes() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 3).args(&["--start-timeout", "1s"]);
    let said = "the cluster did not start within 1 s: waiting for ";
    cluster
        .start(0)
        .end()
        .fails(CLUSTER, &[said, &cluster.name(1), &cluster.name(2), "hint: are all processes running"]);
    cluster.start(2).end().fails(CLUSTER, &[said, &cluster.name(0), "cannot connect"]);
    no_outputs(&folder);
}

#[test]
fn ctrl_c_ends_a_process_that_waits_for_others() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 3);
    let (one, other) = (cluster.start(1), cluster.start(2));
    // Whether it catches the signal yet is the machine's affair; without a handler the status would be another.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    one.signal(rustix::process::Signal::INT);
    assert_eq!(one.end().status, 130);
    other.signal(rustix::process::Signal::TERM);
    assert_eq!(other.end().status, 130);
    no_outputs(&folder);
}

#[test]
fn names_that_cannot_be_resolved() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2).args(&["--start-timeout", "1s"]);
    // Names under .invalid are never resolved.
    let mut addresses = cluster.addresses.clone();
    addresses[0] = "nowhere.invalid:2101".to_owned();
    cluster.write_hosts(0, &addresses);
    cluster.write_hosts(1, &addresses);
    cluster
        .start(1)
        .end()
        .fails(CLUSTER, &["waiting for process 0 (nowhere.invalid:2101)", "cannot resolve nowhere.invalid:2101"]);
    cluster.start(0).end().fails(
        CLUSTER,
        &["process 0 cannot listen on nowhere.invalid:2101: cannot resolve it", "hint: check the name"],
    );
    no_outputs(&folder);
}

#[test]
fn a_port_in_use() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    cluster.write_hosts(0, &[address.clone(), cluster.addresses[1].clone()]);
    cluster.start(0).end().fails(CLUSTER, &[&format!("process 0 cannot listen on {address}: the port is in use")]);
    no_outputs(&folder);
}

#[test]
fn an_address_of_another_machine() {
    let folder = folder();
    let cluster = Cluster::new(&folder, 2);
    cluster.write_hosts(0, &["192.0.2.1:2101".to_owned(), cluster.addresses[1].clone()]);
    cluster.start(0).end().fails(
        CLUSTER,
        &["cannot listen on 192.0.2.1:2101: it is not an address of this machine", "hint: -p 0 belongs on the host"],
    );
}

#[test]
fn host_files_that_are_none() {
    let folder = folder();
    let run = |text: &str| {
        folder.write("hosts", text);
        folder.run(&["run", "q.sql", "-n", "2", "-p", "0", "--hostfile", "hosts"])
    };
    run("127.0.0.1:2101\n").fails(USAGE, &["hosts: expected 2 addresses (-n 2), found 1"]);
    run("127.0.0.1:2101\nwhere\n").fails(USAGE, &["hosts:2: expected host:port, found \"where\""]);
    run("127.0.0.1:2101\n127.0.0.1:2101\n")
        .fails(USAGE, &["hosts:2: expected an address for each process", "(line 1)"]);
    folder
        .run(&["run", "q.sql", "-n", "2", "--hostfile", "missing"])
        .fails(USAGE, &["missing: cannot read the host file"]);
    no_outputs(&folder);
}

#[test]
fn arguments_that_cannot_be() {
    let folder = folder();
    let run = |args: &[&str]| {
        let mut all = vec!["run"];
        all.extend(args);
        folder.run(&all)
    };
    run(&["-", "-n", "2"]).fails(USAGE, &["-n: every process reads the program", "hint: keep the program in a file"]);
    run(&["-", "--local-processes", "2"]).fails(USAGE, &["--local-processes: every process reads the program"]);
    run(&["q.sql", "-n", "2", "-p", "2"]).fails(USAGE, &["-p: expected an index below -n 2, found 2"]);
    run(&["q.sql", "-p", "1"]).fails(USAGE, &["-p: expected an index below -n 1, found 1"]);
    run(&["q.sql", "-n", "0"]).fails(USAGE, &["--processes"]);
    run(&["q.sql", "-n", "2", "--local-processes", "2"]).fails(USAGE, &["cannot be used with"]);
    run(&["q.sql", "-n", "2", "--peer-timeout", "10"]).fails(USAGE, &["--peer-timeout: expected a unit", "500ms"]);
    run(&["q.sql", "-n", "2", "--peer-timeout", "10ms"])
        .fails(USAGE, &["--peer-timeout: expected at least 100ms, found 10ms"]);
    run(&["q.sql", "-n", "2", "--start-timeout", "0s"])
        .fails(USAGE, &["--start-timeout: expected more than 0 s, found 0s"]);
    run(&["q.sql", "-n", "2", "--start-timeout=-1s"])
        .fails(USAGE, &["--start-timeout: expected a duration of at least 0"]);
    no_outputs(&folder);
}

/// Each process has what it reads in a folder of its own, under the same paths.
#[test]
fn files_of_its_share_are_missing_or_others() {
    let mut random = Random::new(52);
    for zipped in [false, true] {
        let bytes = |random: &mut Random| {
            let bytes = ndjson(Part::of(60), random);
            if zipped { gzip(&bytes) } else { bytes }
        };
        let name = |letter: &str| format!("in/{letter}.ndjson{}", if zipped { ".gz" } else { "" });
        let folders = [Folder::new(), Folder::new()];
        let [a, b] = [bytes(&mut random), bytes(&mut random)];
        for folder in &folders {
            folder.write("q.sql", SQL);
        }
        folders[0].write(&name("a"), &a);
        folders[0].write(&name("b"), &b);
        let run = || {
            let cluster = Cluster::over(folders.iter().collect());
            let ended: [Ended; 2] = cluster.run().try_into().expect("two");
            (cluster.name(1), ended)
        };
        let (who, [zero, one]) = run();
        zero.fails(USAGE, &[&who, &name("b"), "expected a file, found nothing"]);
        one.fails(USAGE, &[&name("b"), "expected a file, found nothing"]);
        no_outputs(&folders[0]);
        // One byte more.
        folders[1].write(&name("b"), [b.as_slice(), b"\n"].concat());
        let (who, [zero, one]) = run();
        for ended in [zero, one] {
            ended.fails(USAGE, &[&who, &name("b"), &b.len().to_string(), &(b.len() + 1).to_string()]);
        }
        no_outputs(&folders[0]);
        // Its own share is enough; what process 0 reads is not asked for.
        folders[1].write(&name("b"), &b);
        let (_, ended) = run();
        crate::harness::all_ok(ended.into());
        assert!(folders[0].path("out/changes.ndjson").exists() && !folders[1].path("out").exists());
    }
}
