//! The binary, run in a folder of its own.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder in which the binary runs; it goes when dropped.
pub struct Folder(tempfile::TempDir);

/// What a run gave.
#[derive(Debug)]
pub struct Ran {
    /// The exit status; −1 if a signal ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Folder {
    /// An empty folder.
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder with one file.
    pub fn with(name: &str, bytes: impl AsRef<[u8]>) -> Folder {
        let folder = Folder::new();
        folder.write(name, bytes);
        folder
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).expect("a file written");
    }

    /// Reads a file.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Reads a file of JSON lines.
    #[track_caller]
    pub fn rows(&self, name: &str) -> Vec<Value> {
        lines(&self.read(name))
    }

    /// Reads a file of JSON.
    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("JSON")
    }

    /// Names of all files, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command, to be run in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        command(self.0.path(), args)
    }

    /// Runs the binary.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs the binary with bytes on standard input.
    pub fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // From a thread: the child may write before it has read everything.
        let writer = std::thread::spawn(move || {
            // A run that is refused does not read its input.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("the binary ends");
        writer.join().expect("the writer ends");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Ran { status: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// `slackwater run -e SQL` with more arguments.
    pub fn sql(&self, sql: &str, more: &[&str]) -> Ran {
        let mut args = vec!["run", "-e", sql];
        args.extend(more);
        self.run(&args)
    }
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.current_dir(folder).args(args).env_remove("SLACKWATER_LOG");
    command
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

impl Ran {
    /// Checks that all went well.
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.status, 0, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Checks the status, and that the message holds all the parts.
    #[track_caller]
    pub fn fails(self, status: i32, parts: &[&str]) -> Ran {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "expected {part:?} in:\n{}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub fn rows(&self) -> Vec<Value> {
        lines(&self.stdout)
    }
}

/// Checks that the classes of every view sum to what was read, in total and per partition; gives the ledger of the first.
#[track_caller]
pub fn balanced(summary: &Value) -> Value {
    let sum = |counts: &Value| {
        let number = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name} in {counts}"));
        let rejected: u64 = counts["rejected"].as_object().expect("reasons").values().filter_map(Value::as_u64).sum();
        let classes = ["on_time", "corrected", "partly_too_late", "too_late", "filtered"];
        let total = classes.iter().map(|c| number(c)).sum::<u64>() + rejected;
        assert_eq!(total, number("read"), "{counts}");
        number("read")
    };
    for view in summary["views"].as_array().expect("views") {
        let ledger = &view["ledger"];
        let partitions = ledger["partitions"].as_object().expect("partitions");
        let unreadable = ledger.get("unreadable_partition").map_or(0, sum);
        assert_eq!(partitions.values().map(sum).sum::<u64>() + unreadable, sum(&ledger["records"]), "{ledger}");
    }
    summary["views"][0]["ledger"].clone()
}
