//! The flags of a cluster run, and what its processes agree on before they start.

use super::run::say;
use crate::cluster::{self, ClusterConfig, InputFile, Mesh, Terms, hosts};
use crate::dataflow::deal;
use crate::engine::ingest::wanted_columns;
use crate::error::{Error, Result};
use crate::plan::{Program, SinkTarget};
use crate::sink::target::PROCESS;
use crate::source::{self, ListedFile, Source, SourceOptions};
use clap::Args;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Arguments of a run on several processes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several processes")]
pub struct ClusterArgs {
    /// Processes of the cluster; each is started with its own -p. Results do not depend on it.
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    processes: u16,
    /// Index of this process, from 0. Process 0 writes the outputs.
    #[arg(short = 'p', long, default_value_t = 0, value_name = "I")]
    process: u16,
    /// File with the address of every process, `host:port` a line [default: ports of this machine from 2101].
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Start N processes on this machine and see to them.
    #[arg(long, value_name = "N", conflicts_with_all = ["processes", "process", "hostfile"],
          value_parser = clap::value_parser!(u16).range(1..=64))]
    local_processes: Option<u16>,
    /// File with the cluster's shared secret [default: the environment variable SLACKWATER_CLUSTER_SECRET].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// How long the processes may take to find each other.
    #[arg(long, value_name = "DURATION", default_value = "30s", hide_short_help = true)]
    start_timeout: String,
    /// How long a process may be silent before it counts as lost.
    #[arg(long, value_name = "DURATION", default_value = "10s", hide_short_help = true)]
    peer_timeout: String,
}

fn duration(flag: &str, text: &str) -> Result<Duration> {
    let us = crate::time::parse_duration(text)
        .map_err(|e| Error::usage(format!("{flag}: {e}")).with_hint("write it as 500ms, 30s or 2m"))?;
    u64::try_from(us)
        .map(Duration::from_micros)
        .map_err(|_| Error::usage(format!("{flag}: expected a duration of at least 0, found a negative one")))
}

impl ClusterArgs {
    /// The flag that asks for several processes, if one does.
    pub fn several(&self) -> Option<&'static str> {
        match self.local_processes {
            Some(_) => Some("--local-processes"),
            None => (self.processes > 1).then_some("-n"),
        }
    }

    /// How many processes this one is to start and see to.
    pub fn local_processes(&self) -> Option<usize> {
        self.local_processes.map(usize::from)
    }

    /// Who takes part, if there is more than one process.
    pub fn config(&self, threads: usize) -> Result<Option<ClusterConfig>> {
        let (processes, process) = (usize::from(self.processes), usize::from(self.process));
        if process >= processes {
            return Err(Error::usage(format!("-p: expected an index below -n {processes}, found {process}"))
                .with_hint("processes are numbered from 0"));
        }
        if processes == 1 {
            return Ok(None);
        }
        let addresses = match &self.hostfile {
            Some(file) => hosts::read(file, processes)?,
            None => hosts::local(processes),
        };
        let mut config = ClusterConfig::new(process, threads, addresses);
        config.secret = cluster::read_secret(self.secret_file.as_deref())?;
        config.start_deadline = duration("--start-timeout", &self.start_timeout)?;
        config.silence = duration("--peer-timeout", &self.peer_timeout)?;
        let bounds = [
            ("--start-timeout", &self.start_timeout, config.start_deadline, Duration::from_micros(1), "more than 0 s"),
            ("--peer-timeout", &self.peer_timeout, config.silence, cluster::SILENCE_MIN, "at least 100ms"),
        ];
        if let Some((flag, text, _, _, expected)) = bounds.into_iter().find(|(_, _, found, least, _)| found < least) {
            return Err(Error::usage(format!("{flag}: expected {expected}, found {text}")));
        }
        Ok(Some(config))
    }
}

/// This process as part of a cluster that has come together.
pub(super) struct Joined {
    pub mesh: Mesh,
    pub sources: Vec<Arc<dyn Source>>,
}

/// What processes must have in common.
pub(super) struct Agreed {
    /// The program's text.
    pub text: String,
    /// Settings by name.
    pub settings: Vec<(String, String)>,
    /// Say nothing of the start.
    pub quiet: bool,
}

/// Connects with the other processes. Process 0's list of input files rules; the others look at those that they read.
/// `None`: `stop` was set before all had come together.
pub(super) fn join(
    agreed: Agreed,
    program: &Program,
    options: &SourceOptions,
    config: &ClusterConfig,
    own_sources: Vec<Arc<dyn Source>>,
    stop: &AtomicBool,
) -> Result<Option<Joined>> {
    let inputs = program.tables.iter().zip(&own_sources).flat_map(|(table, source)| {
        let file = |f: ListedFile| InputFile { table: table.name.clone(), path: f.path, bytes: f.bytes };
        source.files().into_iter().map(file)
    });
    let terms = Terms::new(&agreed.text, agreed.settings, config.threads, inputs.collect());
    let sources = RefCell::new(own_sources);
    let check = |inputs: &[InputFile]| match open_listed(program, options, inputs, config) {
        Ok(opened) => {
            *sources.borrow_mut() = opened;
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let progress = |line: &str| {
        if !agreed.quiet {
            say(&format!("slackwater: {line}\n"));
        }
    };
    let check: Option<cluster::InputsCheck<'_>> = if config.process == 0 { None } else { Some(&check) };
    let mesh = cluster::connect_until(config, &terms, check, &progress, stop)?;
    Ok(mesh.map(|mesh| Joined { mesh, sources: sources.into_inner() }))
}

/// Opens the sources of every table over the files of process 0.
fn open_listed(
    program: &Program,
    options: &SourceOptions,
    inputs: &[InputFile],
    config: &ClusterConfig,
) -> Result<Vec<Arc<dyn Source>>> {
    let tables = program.tables.iter().enumerate();
    let opened = tables.map(|(t, table)| {
        let mine = inputs.iter().filter(|f| f.table == table.name);
        let listed: Vec<_> = mine.map(|f| ListedFile { path: f.path.clone(), bytes: f.bytes }).collect();
        source::open_listed(table, &wanted_columns(program, t), options, &listed, &|lanes, lane| {
            deal::reads(table, lanes, lane, config.process, config.processes)
        })
    });
    opened.collect()
}

/// Views of which some sink is written by every process for its own keys.
pub(super) fn partitioned(program: &Program) -> Vec<usize> {
    let per_process = |target: &SinkTarget| matches!(target, SinkTarget::File(path, _) if path.contains(PROCESS));
    let has = |view: &usize| program.sinks.iter().any(|s| s.view == *view && per_process(&s.target));
    (0..program.views.len()).filter(has).collect()
}

/// Only sinks can be written by every process.
///
/// # Errors
/// Names the option that has `{process}` in its path.
pub(super) fn check_paths(program: &Program) -> Result<()> {
    let late = program.views.iter().filter_map(|v| v.late.as_ref().map(|path| ("late", path)));
    let rejects = program.tables.iter().filter_map(|t| t.rejects.as_ref().map(|path| ("rejects", path)));
    match late.chain(rejects).find(|(_, path)| path.contains(PROCESS)) {
        Some((option, path)) => {
            Err(Error::usage(format!("{option} = '{path}': only a sink's path can have {PROCESS} in it"))
                .with_hint("process 0 writes the late and the reject output for all"))
        }
        None => Ok(()),
    }
}
