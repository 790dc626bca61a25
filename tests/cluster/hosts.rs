//! Hosts of their own: `scripts/cluster` with a stand-in for ssh, and network namespaces.

use crate::data::{FIRST_ROW, Part, Random, first_window, live_program, program, seed, write_parts};
use crate::harness::{Cluster, Ended, Folder, Running, all_ok, clear, digest, end_all, free_addresses, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Called as ssh is, runs the command in the host's folder; notes what it was called with.
const STUB: &str = "#!/bin/sh
printf '%s\\n' \"$*\" >> \"$STUB_ROOT/log\"
cd \"$STUB_ROOT/$1\" && exec sh -c \"$2\"
";

const HOSTS: [&str; 3] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
const SECRET: &str = "neap'tide 7f3a";

/// Folders of three hosts in one, and the program and host file to run.
struct Hosts {
    folder: Folder,
}

impl Hosts {
    /// Each host has the inputs of its share.
    fn new(sql: &str, random: &mut Random) -> Hosts {
        let folder = Folder::new();
        let whole = Folder::new();
        write_parts(&whole, &[Part::of(120); 5], Some(1), random);
        for (h, host) in HOSTS.iter().enumerate() {
            for i in (0..5).filter(|i| h == 0 || i % 3 == h) {
                let name = if i == 1 { "in/p1.ndjson.gz".to_owned() } else { format!("in/p{i}.ndjson") };
                folder.write(&format!("{host}/{name}"), std::fs::read(whole.path(&name)).expect("a file"));
            }
            // One file is read by all.
            folder.write(&format!("{host}/csv/only.csv"), whole.read("csv/only.csv"));
        }
        folder.write("q.sql", sql);
        folder.write("stub", STUB);
        std::fs::set_permissions(folder.path("stub"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
        std::fs::create_dir(folder.path("tmp")).expect("a folder");
        let ports = free_addresses(3);
        let line = |(host, port): (&&str, &String)| format!("{host}:{}\n", port.rsplit(':').next().expect("a port"));
        let lines: String = HOSTS.iter().zip(&ports).map(line).collect();
        folder.write("hosts.txt", format!("# three hosts\n\n{lines}"));
        Hosts { folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/cluster");
        let mut command = Command::new(script);
        command.current_dir(self.folder.root()).args(["hosts.txt", "q.sql"]).args(args);
        command.env("SLACKWATER", env!("CARGO_BIN_EXE_slackwater"));
        command.env("SLACKWATER_DIR", ".").env("SLACKWATER_SSH", self.folder.path("stub"));
        command.env("SLACKWATER_CLUSTER_SECRET", SECRET).env_remove("SLACKWATER_LOG");
        command.env("STUB_ROOT", self.folder.root()).env("TMPDIR", self.folder.path("tmp"));
        command
    }

    fn start(&self, args: &[&str]) -> Running {
        Running::start("scripts/cluster".into(), self.command(args))
    }

    /// The process of an index, once it runs.
    fn pid(&self, process: usize) -> Pid {
        let place = format!(" -p {process} ");
        let pid = wait_for("the process", || {
            let log = self.folder.read("log");
            let line = log.lines().find(|line| line.contains(&place))?;
            let file = line.split("echo $$ > ").nth(1)?.split(' ').next()?;
            std::fs::read_to_string(file).ok()?.trim().parse::<i32>().ok()
        });
        Pid::from_raw(pid).expect("an id")
    }

    /// Nothing is left on the hosts, and the secret stood on no command line.
    #[track_caller]
    fn is_clean(&self) {
        let left: Vec<_> = std::fs::read_dir(self.folder.path("tmp")).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.folder.read("log").contains("tide"), "{}", self.folder.read("log"));
    }
}

#[test]
fn a_program_over_three_hosts() {
    let mut random = Random::new(seed(81));
    let sql =
        program("source", ", idle_timeout = '5s'") + "CREATE SINK z FROM hopping WITH (path = 'part-{process}.csv');";
    let hosts = Hosts::new(&sql, &mut random);
    let alone = Folder::new();
    for (name, bytes) in hosts.folder.files() {
        if let Some(name) = name.strip_prefix("127.0.0.1/") {
            alone.write(name, bytes);
        }
    }
    alone.write("q.sql", &sql);
    let before = alone.names();
    let stdout = alone.run(&["run", "q.sql", "--summary", "summary.json"]).ok().stdout;
    std::fs::remove_file(alone.path("part-0.csv")).expect("removed");
    let expected = digest(&stdout, &alone, &before);
    clear(&alone, &before);
    let mut running =
        hosts.start(&["-w", "2", "--summary", "summary.json", "--start-timeout", "80s", "--block-bytes", "1000"]);
    running.close();
    let ended = running.end().ok();
    // What came about on the first host, beside the inputs.
    for (name, bytes) in hosts.folder.files() {
        if let Some(name) = name.strip_prefix("127.0.0.1/").filter(|name| !before.contains(&(*name).to_owned())) {
            alone.write(name, bytes);
        }
    }
    std::fs::remove_file(alone.path("part-0.csv")).expect("a part on the first host");
    assert_eq!(digest(&ended.stdout, &alone, &before), expected);
    assert!(hosts.folder.path("127.0.0.3/part-2.csv").exists() && !hosts.folder.path("127.0.0.2/out").exists());
    hosts.is_clean();
}

#[test]
fn one_host_fails_and_all_end() {
    let hosts = Hosts::new(&live_program(""), &mut Random::new(82));
    let mut running = hosts.start(&["--start-timeout", "80s", "--peer-timeout", "60s"]);
    running.feed(&first_window());
    running.says(FIRST_ROW);
    kill_process(hosts.pid(1), Signal::KILL).expect("a signal sent");
    let ended = running.end();
    assert_eq!(ended.status, 4, "{ended:?}");
    // Each says what it saw, or heard from another; process 0's lines stand as they are.
    for who in ["error: ", "process 2: error: "] {
        let said = |line: &str| line.starts_with(who) && line.contains("lost process 1 (127.0.0.2:");
        assert!(ended.stderr.lines().any(said), "{ended:?}");
    }
    hosts.is_clean();
}

#[test]
fn ctrl_c_to_the_script_ends_all() {
    let hosts = Hosts::new(&live_program(""), &mut Random::new(83));
    let mut running = hosts.start(&["--start-timeout", "80s", "--peer-timeout", "60s", "--summary", "summary.json"]);
    running.feed(&first_window());
    running.says(FIRST_ROW);
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!(ended.status, 130, "{ended:?}");
    assert!(ended.stderr.contains("slackwater: interrupted after "), "{ended:?}");
    assert!(hosts.folder.read("127.0.0.1/summary.json").contains("\"complete\": false"));
    hosts.is_clean();
}

#[test]
fn what_the_script_refuses() {
    let hosts = Hosts::new(&program("source", ""), &mut Random::new(84));
    let run = |args: &[&str]| -> Ended {
        let mut command = hosts.command(&[]);
        let mut bare = Command::new(command.get_program());
        bare.current_dir(hosts.folder.root()).args(args);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => bare.env(name, value),
                None => bare.env_remove(name),
            };
        }
        command = bare;
        Running::start("scripts/cluster".into(), command).end()
    };
    hosts.folder.write("bad.txt", "127.0.0.1:2101\n-oProxyCommand=x:1\n");
    for (args, said) in [
        (&["hosts.txt"][..], "scripts/cluster HOSTFILE PROGRAM.sql"),
        (&["none.txt", "q.sql"], "cannot read the host file none.txt"),
        (&["hosts.txt", "none.sql"], "cannot read the program none.sql"),
        (&["bad.txt", "q.sql"], "bad.txt: expected host:port, found \"-oProxyCommand=x:1\""),
    ] {
        let ended = run(args);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains(said), "{ended:?}");
    }
    assert!(!hosts.folder.path("log").exists(), "no host was called");
}

/// Two namespaces with a cable between them; they go when dropped.
struct Namespaces([String; 2]);

const INSIDE: [&str; 2] = ["10.83.0.1", "10.83.0.2"];

fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip").args(args.split(' ')).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

impl Namespaces {
    /// None where that is not permitted.
    fn new(letter: char) -> Option<Namespaces> {
        let names = ["a", "b"].map(|side| format!("slackwater-{}{letter}{side}", std::process::id()));
        let namespaces = Namespaces(names);
        let [a, b] = &namespaces.0;
        let set_up = || {
            ip(&format!("netns add {a}"))?;
            ip(&format!("netns add {b}"))?;
            ip(&format!("-n {a} link add cable type veth peer name cable netns {b}"))?;
            for (name, address) in [a, b].into_iter().zip(INSIDE) {
                ip(&format!("-n {name} address add {address}/24 dev cable"))?;
                ip(&format!("-n {name} link set lo up"))?;
                ip(&format!("-n {name} link set cable up"))?;
            }
            Ok::<(), String>(())
        };
        match set_up() {
            Ok(()) => Some(namespaces),
            Err(error) => {
                println!("SKIPPED: no network namespaces here: {error}");
                None
            }
        }
    }

    /// Packets take their time on both ways, and some get lost.
    fn slow_down(&self) {
        for name in &self.0 {
            let netem = "tc qdisc add dev cable root netem delay 8ms 6ms loss 1%";
            if let Err(error) = ip(&format!("netns exec {name} {netem}")) {
                println!("no delay on the cable, netem is not available: {error}");
            }
        }
    }

    /// A process of the cluster in its namespace: the first is in one, the others in the other.
    fn start(&self, cluster: &Cluster, process: usize) -> Running {
        let inner = cluster.command(process);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[process.min(1)]]).arg(inner.get_program()).args(inner.get_args());
        command.current_dir(inner.get_current_dir().expect("a folder"));
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Running::start(format!("process {process}"), command)
    }

    fn cluster<'a>(&self, folder: &'a Folder, processes: usize, args: &[&str]) -> Cluster<'a> {
        let mut cluster = Cluster::new(folder, processes).args(args);
        cluster.addresses = (0..processes).map(|p| format!("{}:{}", INSIDE[p.min(1)], 2101 + p)).collect();
        (0..processes).for_each(|process| cluster.write_hosts(process, &cluster.addresses));
        cluster
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // It may not have come to be.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

#[test]
fn hosts_with_a_slow_cable_between_them() {
    let Some(namespaces) = Namespaces::new('s') else { return };
    namespaces.slow_down();
    let mut random = Random::new(seed(85));
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(100); 3], Some(0), &mut random);
    folder.write("q.sql", program("source", ""));
    let before = folder.names();
    let stdout = folder.run(&["run", "q.sql", "--summary", "summary.json"]).ok().stdout;
    let expected = digest(&stdout, &folder, &before);
    clear(&folder, &before);
    let cluster = namespaces.cluster(&folder, 3, &["--summary", "summary.json", "--block-bytes", "2000"]);
    let running: Vec<Running> = (0..3).map(|process| namespaces.start(&cluster, process)).collect();
    let stdout = all_ok(end_all(running)).stdout;
    assert_eq!(digest(&stdout, &folder, &before), expected);
}

/// No connection is closed when a cable breaks; both sides notice by the silence.
#[test]
fn a_broken_cable_is_a_loss_on_both_sides() {
    let Some(namespaces) = Namespaces::new('b') else { return };
    let folder = Folder::new();
    write_parts(&folder, &[Part::of(30); 2], None, &mut Random::new(86));
    folder.write("q.sql", live_program(""));
    let before = folder.names();
    let cluster = namespaces.cluster(&folder, 2, &["--summary", "summary.json", "--peer-timeout", "2s"]);
    let mut running = vec![namespaces.start(&cluster, 0), namespaces.start(&cluster, 1)];
    running[0].feed(&first_window());
    running[0].says(FIRST_ROW);
    ip(&format!("-n {} link set cable down", namespaces.0[0])).expect("the cable breaks");
    for (ended, other) in running.into_iter().map(Running::end).zip([1, 0]) {
        ended.fails(4, &[&format!("lost {}: silent for 2 s, at watermark 1970-01-01T00:00:31Z", cluster.name(other))]);
    }
    let left: Vec<String> =
        folder.names().into_iter().filter(|n| !before.contains(n) && !n.starts_with("hosts/")).collect();
    assert_eq!(left, Vec::<String>::new());
}
