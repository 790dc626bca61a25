//! Inputs as files, and the digests of outputs.

use crate::bench::definition::{Definition, Feed, Input, InputFormat, Sink};
use crate::cli::r#gen::{self, GenArgs, GenFormat};
use crate::cli::run::open_sources;
use crate::error::{Error, Result};
use crate::plan::GeneratorPlan;
use crate::source::SourceOptions;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// An input as files; generated ones go when this is dropped.
pub(super) struct InputFiles {
    /// A path, or a pattern.
    pub path: PathBuf,
    /// How many.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
    /// What they were made from.
    made_from: Option<(Input, InputFormat, u64)>,
    _folder: Option<tempfile::TempDir>,
}

impl InputFiles {
    /// The input of a definition with so many records; of a replay all there are. `old` is given back if it is the same.
    pub fn make(definition: &Definition, rows: u64, old: Option<InputFiles>) -> Result<InputFiles> {
        let made_from = (definition.input.clone(), definition.format, rows);
        if let Some(old) = old.filter(|old| old.made_from.as_ref() == Some(&made_from)) {
            return Ok(old);
        }
        let (path, folder, made_from) = match &definition.input {
            Input::Replay(path) => (path.clone(), None, None),
            Input::Generated { plan, partition_column } => {
                let folder = folder()?;
                let suffix = definition.format.name();
                r#gen::run(GenArgs {
                    partition_column: *partition_column,
                    format: Some(gen_format(definition.format)),
                    out: Some(folder.path().join(format!("input.{suffix}"))),
                    ..GenArgs::of(&GeneratorPlan { rows, ..plan.clone() })
                })?;
                let several = plan.partitions > 1 && !partition_column;
                let name = if several { format!("input-*.{suffix}") } else { format!("input.{suffix}") };
                (folder.path().join(name), Some(folder), Some(made_from))
            }
        };
        let program = definition.program(&Feed::Files(&path), &Sink::Stdout)?;
        let sources = open_sources(&program, &SourceOptions::default())?;
        let lanes: Vec<_> = sources.iter().flat_map(|s| s.lanes()).collect();
        let files = lanes.iter().map(|lane| lane.files.len()).sum();
        let bytes = lanes.iter().filter_map(|lane| lane.bytes).sum();
        Ok(InputFiles { path, files, bytes, made_from, _folder: folder })
    }
}

/// The input of a definition as one stream of text, for the open loop; of generated ones so many records.
pub(super) fn text(definition: &Definition, rows: u64) -> Result<Vec<u8>> {
    let name = &definition.name;
    let one_stream = |hint: &str| {
        Err(Error::usage(format!("{name}: the open loop writes one stream of text")).with_hint(hint.to_owned()))
    };
    if definition.format == InputFormat::Parquet {
        return one_stream("use format = \"ndjson\" or \"csv\"");
    }
    match &definition.input {
        Input::Replay(path) => {
            let failed = |e| Error::input("cannot read the input").at(path.display().to_string()).with_source(e);
            let bytes = std::fs::read(path).map_err(failed)?;
            unpacked(path, bytes).map_err(failed)
        }
        Input::Generated { plan, partition_column } if plan.partitions > 1 && !partition_column => {
            one_stream("use partitions = 1, or partition_column = true")
        }
        Input::Generated { plan, partition_column } => {
            let plan = GeneratorPlan { rows, ..plan.clone() };
            r#gen::render(&plan, gen_format(definition.format), *partition_column)
                .map_err(|e| Error::output("cannot make the input").with_source(e))
        }
    }
}

/// What the generator calls the format.
fn gen_format(format: InputFormat) -> GenFormat {
    match format {
        InputFormat::Ndjson => GenFormat::Ndjson,
        InputFormat::Csv => GenFormat::Csv,
        InputFormat::Parquet => GenFormat::Parquet,
    }
}

/// A compressed file's text, by its suffix.
fn unpacked(path: &Path, bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("gz" | "gzip") => {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut text)?;
            Ok(text)
        }
        Some("zst" | "zstd") => zstd::decode_all(bytes.as_slice()),
        _ => Ok(bytes),
    }
}

/// A folder for files that go with it.
pub(super) fn folder() -> Result<tempfile::TempDir> {
    let failed = |e| Error::output("cannot make a folder for temporary files").with_source(e);
    tempfile::Builder::new().prefix("slackwater-bench-").tempdir().map_err(failed)
}

/// SHA-256 of what is added, and its lines.
#[derive(Default)]
pub(super) struct Digested {
    digest: Sha256,
    lines: u64,
}

impl Digested {
    pub fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }

    /// The digest in hexadecimal, and the number of lines.
    pub fn finish(self) -> (String, u64) {
        (crate::cluster::digest::hex(&self.digest.finalize()), self.lines)
    }

    /// Of a file.
    pub fn of(path: &Path) -> Result<(String, u64)> {
        let failed = |e| Error::output("cannot read what was written").at(path.display().to_string()).with_source(e);
        let mut file = File::open(path).map_err(failed)?;
        let mut buffer = vec![0; 1 << 20];
        let mut out = Digested::default();
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                return Ok(out.finish());
            }
            out.add(buffer.get(..read).unwrap_or_default());
        }
    }
}
