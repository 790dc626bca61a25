//! Folders, clusters and processes of them. Every wait has a deadline, counted in sleeps.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Far longer than anything here takes; a hang ends with it.
pub const DEADLINE: Duration = Duration::from_secs(90);
const STEP: Duration = Duration::from_millis(5);

/// Asks until there is an answer.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..DEADLINE.as_millis() / STEP.as_millis() {
        if let Some(answer) = ask() {
            return answer;
        }
        thread::sleep(STEP);
    }
    panic!("{what}: nothing within {DEADLINE:?}");
}

/// Addresses of this machine that nobody listens on. They lie below the range from which the system takes ports for
/// outgoing connections, so that none of those gets in the way until the processes listen.
pub fn free_addresses(count: usize) -> Vec<String> {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    const FIRST: u16 = 11_000;
    const PORTS: u16 = 20_000;
    // Test programs that run at the same time begin in different places.
    let next = NEXT.get_or_init(|| AtomicU16::new((std::process::id().wrapping_mul(977) % u32::from(PORTS)) as u16));
    let mut found = Vec::new();
    for _ in 0..PORTS {
        if found.len() == count {
            return found;
        }
        let port = FIRST + next.fetch_add(1, Ordering::Relaxed) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            found.push(format!("127.0.0.1:{port}"));
        }
    }
    panic!("no {count} free ports");
}

/// A folder in which processes run; it goes when dropped.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file, and the folders it needs.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, bytes).expect("a file written");
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }

    /// All files below it, hidden ones too, by relative path.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn collect(root: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    collect(root, &path, into);
                } else {
                    let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
                    into.insert(name, std::fs::read(&path).expect("a file"));
                }
            }
        }
        let mut files = BTreeMap::new();
        collect(self.root(), self.root(), &mut files);
        files
    }

    /// Names of all files.
    pub fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
        command.current_dir(self.root()).args(args);
        for variable in ["SLACKWATER_LOG", "SLACKWATER_CLUSTER_SECRET", "SLACKWATER_SUPERVISED"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs the binary to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ended {
        let mut running = Running::start(args.join(" "), self.command(args));
        running.close();
        running.end()
    }
}

/// A cluster to be: every process runs the same command in the same folder, unless told otherwise.
pub struct Cluster<'a> {
    pub folders: Vec<&'a Folder>,
    pub addresses: Vec<String>,
    pub threads: usize,
    pub args: Vec<String>,
    pub secret: Option<String>,
}

impl<'a> Cluster<'a> {
    /// Processes that run `q.sql` of the folder.
    pub fn new(folder: &'a Folder, processes: usize) -> Self {
        Cluster::over(vec![folder; processes])
    }

    /// One process a folder.
    pub fn over(folders: Vec<&'a Folder>) -> Self {
        let cluster = Cluster {
            addresses: free_addresses(folders.len()),
            folders,
            threads: 1,
            args: ["--start-timeout", "80s", "--peer-timeout", "60s"].map(str::to_owned).to_vec(),
            secret: Some("tide".to_owned()),
        };
        for process in 0..cluster.folders.len() {
            cluster.write_hosts(process, &cluster.addresses);
        }
        cluster
    }

    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// More arguments for all; of flags given twice the last counts.
    pub fn args(mut self, args: &[&str]) -> Self {
        for pair in args.chunks(2) {
            if let Some(at) = self.args.iter().position(|a| *a == pair[0]) {
                self.args.drain(at..at + pair.len());
            }
            self.args.extend(pair.iter().map(|a| (*a).to_owned()));
        }
        self
    }

    /// Gives a process its own view of the addresses.
    pub fn write_hosts(&self, process: usize, addresses: &[String]) {
        let text = addresses.iter().map(|a| format!("{a}\n")).collect::<String>();
        self.folders[process].write(&format!("hosts/{process}"), text);
    }

    pub fn command(&self, process: usize) -> Command {
        self.command_of(process, "q.sql")
    }

    pub fn command_of(&self, process: usize, program: &str) -> Command {
        let (processes, threads) = (self.folders.len().to_string(), self.threads.to_string());
        let (index, hosts) = (process.to_string(), format!("hosts/{process}"));
        let mut args = vec!["run", program, "-n", &processes, "-p", &index, "-w", &threads, "--hostfile", &hosts];
        args.extend(self.args.iter().map(String::as_str));
        let mut command = self.folders[process].command(&args);
        if let Some(secret) = &self.secret {
            command.env("SLACKWATER_CLUSTER_SECRET", secret);
        }
        command
    }

    pub fn start(&self, process: usize) -> Running {
        Running::start(format!("process {process}"), self.command(process))
    }

    pub fn start_all(&self) -> Vec<Running> {
        (0..self.folders.len()).map(|process| self.start(process)).collect()
    }

    /// Runs all to the end with nothing on standard input.
    #[track_caller]
    pub fn run(&self) -> Vec<Ended> {
        end_all(self.start_all())
    }

    /// `process 1 (127.0.0.1:12345)`.
    pub fn name(&self, process: usize) -> String {
        format!("process {process} ({})", self.addresses[process])
    }
}

/// Closes the standard input of all and waits until they have ended.
#[track_caller]
pub fn end_all(mut all: Vec<Running>) -> Vec<Ended> {
    all.iter_mut().for_each(Running::close);
    all.into_iter().map(Running::end).collect()
}

/// A process under way.
pub struct Running {
    pub name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<Gathering>,
    stderr: Option<Gathering>,
}

/// What a pipe gives, gathered by a thread.
struct Gathering {
    text: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Gathering {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(bytes @ 1..) = pipe.read(&mut buffer) {
                into.lock().expect("no panic").extend_from_slice(&buffer[..bytes]);
            }
        });
        Gathering { text, thread }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no panic")).into_owned()
    }

    /// All of it; of a process that has ended, but perhaps not those it has started.
    fn all(self, name: &str) -> String {
        wait_for(&format!("{name}: the end of its output"), || self.thread.is_finished().then_some(()));
        self.so_far()
    }
}

/// What a process gave.
#[derive(Debug)]
pub struct Ended {
    pub name: String,
    /// The exit status; minus the signal if one ended it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Running {
    pub fn start(name: String, mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn(name, command)
    }

    /// With the standard streams that the command says.
    pub fn spawn(name: String, mut command: Command) -> Running {
        let mut child = command.spawn().expect("the binary starts");
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        Running { name, child, stdin, stdout: stdout.map(Gathering::of), stderr: stderr.map(Gathering::of) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its standard input.
    pub fn feed(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("an open pipe");
        // One that has failed reads nothing any more; its end tells.
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
    }

    /// Its standard input, to be fed by another thread.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.stdin.take().expect("an open pipe")
    }

    /// Ends its standard input.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    pub fn signal(&self, signal: Signal) {
        // It may have ended already, which shows.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Stops it, and waits until none of its threads runs: one that takes the signal late goes on until then.
    #[track_caller]
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.id());
        wait_for("a stop", || {
            let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            let mut states = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
            states.all(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"))).then_some(())
        });
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a status").is_some()
    }

    /// Waits until its standard output holds a text; gives what there is.
    #[track_caller]
    pub fn says(&self, part: &str) -> String {
        self.hears(self.stdout.as_ref(), part)
    }

    /// Waits until its standard error holds a text.
    #[track_caller]
    pub fn complains(&self, part: &str) -> String {
        self.hears(self.stderr.as_ref(), part)
    }

    #[track_caller]
    fn hears(&self, pipe: Option<&Gathering>, part: &str) -> String {
        let text = pipe.expect("a pipe");
        wait_for(&format!("{}: {part:?}", self.name), || {
            let ended = text.thread.is_finished();
            let found = Some(text.so_far()).filter(|text| text.contains(part));
            let stderr = self.stderr.as_ref().map(Gathering::so_far).unwrap_or_default();
            assert!(found.is_some() || !ended, "{} ends without {part:?}\n{stderr}", self.name);
            found
        })
    }

    /// Its end.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        use std::os::unix::process::ExitStatusExt;
        let name = self.name.clone();
        let mut status = None;
        for _ in 0..DEADLINE.as_millis() / STEP.as_millis() {
            status = self.child.try_wait().expect("a status");
            if status.is_some() {
                break;
            }
            thread::sleep(STEP);
        }
        let Some(status) = status else {
            let text = |g: &Option<Gathering>| g.as_ref().map(Gathering::so_far).unwrap_or_default();
            panic!("{name} does not end\nstdout:\n{}\nstderr:\n{}", text(&self.stdout), text(&self.stderr));
        };
        let text = |gathering: Option<Gathering>| gathering.map(|g| g.all(&name)).unwrap_or_default();
        let ended = Ended {
            status: status.code().unwrap_or_else(|| -status.signal().unwrap_or_default()),
            stdout: text(self.stdout.take()),
            stderr: text(self.stderr.take()),
            name: name.clone(),
        };
        for word in ["panicked", "RUST_BACKTRACE", "stack backtrace"] {
            assert!(!ended.stderr.contains(word), "{ended:?}");
        }
        ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    #[track_caller]
    pub fn ok(self) -> Ended {
        assert_eq!(self.status, 0, "{}\nstdout:\n{}\nstderr:\n{}", self.name, self.stdout, self.stderr);
        self
    }

    /// Checks the status, and that the one error has all the parts.
    #[track_caller]
    pub fn fails(self, status: i32, parts: &[&str]) -> Ended {
        assert_eq!(self.status, status, "{}\nstdout:\n{}\nstderr:\n{}", self.name, self.stdout, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "{}: expected {part:?} in:\n{}", self.name, self.stderr);
        }
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{}: one error:\n{}", self.name, self.stderr);
        self
    }
}

/// Checks that all have ended well; the others than process 0 must not have said a word to standard output.
#[track_caller]
pub fn all_ok(ended: Vec<Ended>) -> Ended {
    let mut all = ended.into_iter().map(Ended::ok);
    let first = all.next().expect("a process");
    all.for_each(|other| assert_eq!(other.stdout, "", "{}", other.name));
    first
}

/// One SHA-256 over standard output and all files of a folder but those that were there before. What is physical in a
/// summary does not count, nor do the parts of sinks that every process writes for itself.
pub fn digest(stdout: &str, folder: &Folder, before: &[String]) -> String {
    let mut sha = Sha256::new();
    let mut add = |name: &str, bytes: &[u8]| {
        sha.update(format!("{name} {}\n", bytes.len()));
        sha.update(bytes);
    };
    add("stdout", stdout.as_bytes());
    for (name, bytes) in folder.files() {
        if before.contains(&name) || name.starts_with("hosts/") {
            continue;
        }
        if name == "summary.json" {
            add(&name, logical(&bytes).to_string().as_bytes());
        } else {
            add(&name, &bytes);
        }
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A summary without what is physical.
pub fn logical(summary: &[u8]) -> Value {
    let mut summary: Value = serde_json::from_slice(summary).expect("a summary");
    let physical = summary.as_object_mut().expect("an object").remove("physical");
    assert!(physical.is_some());
    summary
}

/// Removes all files but those that were there before.
pub fn clear(folder: &Folder, before: &[String]) {
    for name in folder.names().iter().filter(|name| !before.contains(name)) {
        std::fs::remove_file(folder.path(name)).expect("a file removed");
    }
}
