//! `--local-processes`: starts the processes of a cluster on this machine, and sees that all of them end.

use super::exit;
use super::stderr::Stderr;
use crate::cluster::secret::VARIABLE;
use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Tells a process that it was started by another, and dies with it.
pub(super) const SUPERVISED: &str = "SLACKWATER_SUPERVISED";
/// How often the processes are looked at.
const STEP: Duration = Duration::from_millis(10);
/// How long the others may take to end after one has failed: they find out by themselves.
const GRACE_STEPS: u32 = 500;

/// One process.
struct Member {
    child: Child,
    /// Whether it gets the terminal's signals by itself.
    grouped: bool,
    status: Option<ExitStatus>,
    stderr: Stderr,
}

/// Runs this very command on `processes` processes. Their standard output is process 0's, as is standard error, unless
/// another process fails and process 0 does not say so.
pub(super) fn run(processes: usize, stop: &Arc<AtomicBool>) -> Result<u8> {
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&terminated))
        .map_err(|e| Error::output("cannot watch for signals").with_source(e))?;
    let hosts = host_file(processes)?;
    let secret = random_secret()?;
    let mut members = Vec::with_capacity(processes);
    for process in 0..processes {
        match start(process, processes, hosts.path(), &secret) {
            Ok(member) => members.push(member),
            Err(error) => {
                end_all(&members, Signal::KILL);
                return Err(error);
            }
        }
    }
    wait(&mut members, stop, &terminated)?;
    Ok(outcome(members))
}

/// Listens on a free port of this machine. From below the range that systems take ports for outgoing connections from, one
/// of which could have it before the process listens there; from anywhere if none is found.
fn free_port() -> std::io::Result<TcpListener> {
    const FIRST: u16 = 20_000;
    const PORTS: u16 = 12_000;
    for _ in 0..64 {
        let mut random = [0; 2];
        if getrandom::fill(&mut random).is_err() {
            break;
        }
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", FIRST + u16::from_le_bytes(random) % PORTS)) {
            return Ok(listener);
        }
    }
    TcpListener::bind("127.0.0.1:0")
}

/// A host file with free ports of this machine.
fn host_file(processes: usize) -> Result<tempfile::NamedTempFile> {
    let failed = |what: &str, e: std::io::Error| Error::cluster(format!("cannot {what}")).with_source(e);
    let mut file = tempfile::NamedTempFile::new().map_err(|e| failed("write a host file", e))?;
    // All are held until the last is found, so that they differ.
    let listeners: Vec<TcpListener> = (0..processes)
        .map(|_| free_port())
        .collect::<std::io::Result<_>>()
        .map_err(|e| failed("find a free port on 127.0.0.1", e))?;
    for listener in &listeners {
        let address = listener.local_addr().map_err(|e| failed("find a free port on 127.0.0.1", e))?;
        writeln!(file, "{address}").map_err(|e| failed("write a host file", e))?;
    }
    Ok(file)
}

/// The arguments of a process: this one's, but for the flag that asks for processes, and with `more` flags of the command.
fn arguments(own: impl Iterator<Item = OsString>, more: &[OsString]) -> Vec<OsString> {
    let mut out = Vec::new();
    let (mut skip, mut flags) = (false, true);
    for argument in own {
        let text = argument.to_string_lossy();
        if std::mem::take(&mut skip) || (flags && text.starts_with("--local-processes=")) {
            continue;
        }
        if flags && text == "--local-processes" {
            skip = true;
            continue;
        }
        flags &= text != "--";
        out.push(argument);
        if out.len() == 1 {
            // After the name of the command: at the end they could stand after `--`.
            out.extend_from_slice(more);
        }
    }
    out
}

/// What only this process and those it starts know.
fn random_secret() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| Error::cluster(format!("the system gives no random bytes: {e}")))?;
    Ok(crate::cluster::digest::hex(&bytes))
}

fn start(process: usize, processes: usize, hosts: &Path, secret: &str) -> Result<Member> {
    let failed = |e: std::io::Error| Error::cluster(format!("cannot start process {process}")).with_source(e);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    let mut flags =
        ["-n", &processes.to_string(), "-p", &process.to_string(), "--hostfile"].map(OsString::from).to_vec();
    flags.push(hosts.as_os_str().to_owned());
    command.args(arguments(std::env::args_os().skip(1), &flags));
    command.env(SUPERVISED, std::process::id().to_string());
    if !std::env::args_os().any(|a| a.to_string_lossy().starts_with("--secret-file")) {
        command.env(VARIABLE, secret);
    }
    // Ctrl-C on a terminal goes to all of a group, and would reach a process twice. One that reads the terminal must stay in
    // its group.
    let grouped = process == 0 && std::io::stdin().is_terminal();
    if !grouped {
        command.process_group(0);
    }
    if process > 0 {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(failed)?;
    let stderr = Stderr::of(&mut child);
    Ok(Member { child, grouped, status: None, stderr })
}

fn end(member: &Member, signal: Signal) {
    if member.status.is_none()
        && let Some(pid) = i32::try_from(member.child.id()).ok().and_then(Pid::from_raw)
    {
        // One that has just ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn end_all(members: &[Member], signal: Signal) {
    members.iter().for_each(|member| end(member, signal));
}

/// Waits until all have ended. A signal is passed on; a failure ends the others if they do not end by themselves.
fn wait(members: &mut [Member], stop: &AtomicBool, terminated: &AtomicBool) -> Result<()> {
    let (mut failing_steps, mut told) = (0u32, false);
    loop {
        for member in members.iter_mut().filter(|m| m.status.is_none()) {
            member.status =
                member.child.try_wait().map_err(|e| Error::cluster("cannot wait for a process").with_source(e))?;
        }
        if members.iter().all(|m| m.status.is_some()) {
            return Ok(());
        }
        if stop.load(Ordering::SeqCst) && !std::mem::replace(&mut told, true) {
            // The terminal has told those of this group, unless the signal came from elsewhere.
            let all = terminated.load(Ordering::SeqCst);
            members.iter().filter(|m| all || !m.grouped).for_each(|member| end(member, Signal::INT));
        }
        if members.iter().any(|m| m.status.is_some_and(|s| !s.success())) {
            failing_steps += 1;
            if failing_steps > GRACE_STEPS {
                end_all(members, Signal::KILL);
            }
        }
        std::thread::sleep(STEP);
    }
}

/// The exit status of all: process 0's if it failed, else that of the first that did.
fn outcome(members: Vec<Member>) -> u8 {
    let code = |status: Option<ExitStatus>| {
        status.and_then(|s| s.code()).map_or(exit::CLUSTER, |code| u8::try_from(code).unwrap_or(exit::FAILURE))
    };
    let mut first = None;
    // Process 0 has said what it knows, unless it was killed. One that failed by itself knows more than those it took along.
    let mut said = false;
    let mut texts = Vec::new();
    for (process, member) in members.into_iter().enumerate() {
        let status = code(member.status);
        if status != exit::SUCCESS {
            first = first.or(Some(status));
        }
        let killed = member.status.is_none_or(|s| s.code().is_none());
        let text = member.stderr.finish();
        if process == 0 {
            said = status != exit::SUCCESS && !killed;
        } else if status != exit::SUCCESS && !text.is_empty() {
            texts.push((status == exit::CLUSTER, text));
        }
    }
    texts.sort_by_key(|(taken_along, _)| *taken_along);
    if let Some((_, text)) = texts.first().filter(|_| !said) {
        // If stderr is closed there is nobody to tell.
        let _ = std::io::stderr().write_all(text);
    }
    first.unwrap_or(exit::SUCCESS)
}

/// Ends this process when the one that started it ends.
pub(super) fn die_with_parent() {
    let Some(parent) = std::env::var(SUPERVISED).ok().and_then(|text| text.parse::<u32>().ok()) else { return };
    #[cfg(target_os = "linux")]
    {
        // Where the system cannot do that, an orphan runs on until its peers are gone.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
    // It may have ended before.
    if std::os::unix::process::parent_id() != parent {
        std::process::exit(i32::from(exit::CLUSTER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_left_out_and_nothing_else() {
        let given = ["run", "--local-processes", "3", "-w", "2", "--local-processes=4", "--", "--local-processes"];
        let found = arguments(given.iter().map(OsString::from), &["-n".into(), "3".into()]);
        assert_eq!(found, ["run", "-n", "3", "-w", "2", "--", "--local-processes"].map(OsString::from));
    }

    #[test]
    fn ports_of_a_host_file_differ() {
        let file = host_file(3).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let ports: std::collections::BTreeSet<&str> = text.lines().collect();
        assert_eq!(ports.len(), 3, "{text}");
        assert!(ports.iter().all(|a| a.starts_with("127.0.0.1:")), "{text}");
    }
}
