//! The addresses of a cluster's processes, and listening on one's own.

use super::{ClusterConfig, PROCESSES_MAX};
use crate::error::{Error, Result};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;

/// Port of process 0 when there is no host file; process `i` has this plus `i`. Timely's own default.
pub const FIRST_PORT: u16 = 2101;
/// The most bytes of a host file.
pub const HOST_FILE_BYTES_MAX: u64 = 1 << 20;

/// Addresses of a cluster on this machine: `127.0.0.1`, ports from [`FIRST_PORT`].
pub fn local(processes: usize) -> Vec<String> {
    (0..processes.min(PROCESSES_MAX)).map(|i| format!("127.0.0.1:{}", usize::from(FIRST_PORT) + i)).collect()
}

/// Reads a host file: see [`parse`].
///
/// # Errors
/// The file cannot be read or is longer than [`HOST_FILE_BYTES_MAX`], and those of [`parse`].
pub fn read(path: &Path, processes: usize) -> Result<Vec<String>> {
    let name = path.display().to_string();
    let mut text = String::new();
    let bytes = std::fs::File::open(path)
        .and_then(|file| file.take(HOST_FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|e| Error::usage("cannot read the host file").at(name.clone()).with_source(e))?;
    if bytes as u64 > HOST_FILE_BYTES_MAX {
        let message = format!("expected a host file of at most {HOST_FILE_BYTES_MAX} bytes, found more");
        return Err(Error::usage(message).at(name));
    }
    parse(&name, &text, processes)
}

/// The first `processes` addresses of a host file: one `host:port` a line, in the order of the processes. Empty lines
/// do not count, nor does what follows a `#`. IPv6 addresses stand in brackets.
///
/// # Errors
/// A line that is no address, an address that stands twice, and fewer addresses than processes.
pub fn parse(name: &str, text: &str, processes: usize) -> Result<Vec<String>> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        let address = line.split('#').next().unwrap_or_default().trim();
        if address.is_empty() {
            continue;
        }
        let place = format!("{name}:{number}");
        if split(address).is_none() {
            let message = format!("expected host:port, found \"{address}\"");
            return Err(Error::usage(message).at(place).with_hint("for example 10.0.0.3:2101 or [fd00::3]:2101"));
        }
        if let Some((first, _)) = found.iter().find(|(_, other)| other.eq_ignore_ascii_case(address)) {
            let message = format!("expected an address for each process, found {address} again (line {first})");
            return Err(Error::usage(message).at(place));
        }
        found.push((number, address.to_owned()));
    }
    if found.len() < processes {
        let message = format!("expected {processes} addresses (-n {processes}), found {}", found.len());
        return Err(Error::usage(message).at(name).with_hint("add a host:port line for each process, or lower -n"));
    }
    found.truncate(processes);
    Ok(found.into_iter().map(|(_, address)| address).collect())
}

/// Host and port of `host:port`.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let sound = match bare {
        Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '[', ']', '/']) && !host.contains(char::is_whitespace),
    };
    let digits = port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| *port > 0 && digits)?;
    sound.then_some((bare.unwrap_or(host), port))
}

/// Where a process is found.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// On this machine; resolved once, so that nothing else is used than what was looked at.
    Loopback(Vec<SocketAddr>),
    /// Resolved whenever it is used: the name may come up, or move, while the cluster forms. Only with a secret.
    Anywhere(String),
}

impl Place {
    /// Where to connect or listen now.
    pub(super) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Place::Loopback(addresses) => Ok(addresses.clone()),
            Place::Anywhere(address) => address.to_socket_addrs().map(Iterator::collect),
        }
    }
}

/// The places of all processes. Without a secret they must be on this machine.
pub(super) fn places(config: &ClusterConfig) -> Result<Vec<Place>> {
    let place = |address: &String| {
        if config.secret.is_set() {
            return Ok(Place::Anywhere(address.clone()));
        }
        loopback(address).map(Place::Loopback).ok_or_else(|| {
            let message = format!("a cluster that leaves this machine ({address}) needs a secret, and none is set");
            Error::usage(message).with_hint(super::secret::HINT)
        })
    };
    config.addresses.iter().map(place).collect()
}

/// What the address resolves to, if all of that is on this machine.
fn loopback(address: &str) -> Option<Vec<SocketAddr>> {
    let resolved: Vec<_> = split(address)?.to_socket_addrs().ok()?.collect();
    (!resolved.is_empty() && resolved.iter().all(|a| a.ip().is_loopback())).then_some(resolved)
}

/// Listens on the process's own address, and on no other.
pub(super) fn listen(config: &ClusterConfig, places: &[Place]) -> Result<TcpListener> {
    let process = config.process;
    let address = config.addresses.get(process).map(String::as_str).unwrap_or_default();
    let trouble = |what: &str| Error::cluster(format!("process {process} cannot listen on {address}: {what}"));
    let resolved = places
        .get(process)
        .map_or_else(|| Ok(Vec::new()), Place::resolve)
        .map_err(|e| trouble("cannot resolve it").with_source(e).with_hint("check the name in the host file"))?;
    let mut last = None;
    for candidate in resolved {
        match TcpListener::bind(candidate) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        None => trouble("it resolves to nothing").with_hint("check the name in the host file"),
        Some(error) => {
            let (what, hint) = refusal(error.kind(), process);
            if hint.is_empty() { trouble(what).with_source(error) } else { trouble(what).with_hint(hint) }
        }
    })
}

/// Why the system does not let this process listen, and what to do.
fn refusal(kind: ErrorKind, process: usize) -> (&'static str, String) {
    match kind {
        ErrorKind::AddrInUse => (
            "the port is in use",
            format!("is another process with -p {process} running? Each process has its own line of the host file"),
        ),
        ErrorKind::AddrNotAvailable => (
            "it is not an address of this machine",
            format!("-p {process} belongs on the host of address {} of the host file", process + 1),
        ),
        _ => ("the system refuses", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text = "# hosts\n\n10.0.0.1:2101 # first\n  host-b:2101\n[fd00::3]:2101\n";
        assert_eq!(parse("hosts", text, 2).unwrap(), ["10.0.0.1:2101", "host-b:2101"]);
        assert_eq!(parse("hosts", text, 3).unwrap().len(), 3);
    }

    #[test]
    fn too_few_lines_name_both_numbers() {
        let error = parse("hosts", "a:1\nb:1\n", 3).unwrap_err();
        assert_eq!(error.to_string(), "hosts: expected 3 addresses (-n 3), found 2");
    }

    #[test]
    fn duplicates_name_both_lines() {
        let error = parse("hosts", "a:1\n\nA:1\n", 2).unwrap_err();
        assert_eq!(error.to_string(), "hosts:3: expected an address for each process, found A:1 again (line 1)");
    }

    #[test]
    fn what_is_no_address_is_refused_with_its_line() {
        for wrong in [
            "a",
            "a:",
            ":1",
            "a:0",
            "a:65536",
            "a:+1",
            "a b:1",
            "::1:2101",
            "[::1:2101",
            "[a]:1",
            "a:1:2",
            "http://a:1",
        ] {
            let error = parse("hosts", &format!("ok:1\n{wrong}\n"), 1).unwrap_err();
            assert_eq!(error.to_string(), format!("hosts:2: expected host:port, found \"{wrong}\""));
        }
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        for near in ["127.0.0.1:1", "[::1]:1", "127.3.2.1:1"] {
            assert!(loopback(near).is_some(), "{near}");
        }
        for far in ["10.0.0.1:1", "0.0.0.0:1", "nonsense"] {
            assert_eq!(loopback(far), None, "{far}");
        }
    }

    #[test]
    fn without_a_secret_addresses_are_resolved_once() {
        let mut config = ClusterConfig::new(0, 1, vec!["127.0.0.1:1".into(), "[::1]:2".into()]);
        let kept = places(&config).unwrap();
        assert!(kept.iter().all(|place| matches!(place, Place::Loopback(_))), "{kept:?}");
        assert_eq!(kept[1].resolve().unwrap(), ["[::1]:2".parse().unwrap()]);
        config.secret = super::super::Secret::new(*b"tide");
        assert!(places(&config).unwrap().iter().all(|place| matches!(place, Place::Anywhere(_))));
    }

    #[test]
    fn local_addresses_begin_at_the_first_port() {
        assert_eq!(local(2), ["127.0.0.1:2101", "127.0.0.1:2102"]);
    }

    #[test]
    fn a_port_in_use_and_a_foreign_address_are_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = ClusterConfig::new(0, 1, vec![taken.local_addr().unwrap().to_string()]);
        let error = listen(&config, &places(&config).unwrap()).unwrap_err();
        assert!(error.to_string().ends_with("the port is in use"), "{error}");
        assert_eq!(refusal(ErrorKind::AddrNotAvailable, 1).0, "it is not an address of this machine");
    }
}
