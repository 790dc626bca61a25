//! Standard input, or any other reader, as a source of one lane.
//!
//! A thread reads ahead ([`super::stream`]); the lane hands over what is there up to the last complete record, and says
//! [`Next::Pending`](super::Next::Pending) when there is nothing. Where blocks begin depends on how the input arrives;
//! positions, records and rejects do not.

use super::decode::DecodePlan;
use super::stream::StreamReader;
use super::{LaneInfo, LaneReader, Source, SourceOptions, Turns, failing};
use crate::error::{Error, Result};
use crate::plan::Format;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// A live input; can be read once.
pub(super) struct LiveSource {
    lanes: [LaneInfo; 1],
    input: Mutex<Option<Box<dyn Read + Send>>>,
    format: Format,
    plan: DecodePlan,
    block_bytes: usize,
}

impl LiveSource {
    pub(super) fn new(
        input: Box<dyn Read + Send>,
        format: &Format,
        plan: DecodePlan,
        options: &SourceOptions,
    ) -> Result<Self> {
        if *format == Format::Parquet {
            let error = Error::usage("expected NDJSON or CSV on standard input, found format 'parquet'");
            return Err(error.with_hint("Parquet is read from its end; give the file's path instead"));
        }
        let lane =
            LaneInfo { name: "stdin".to_owned(), files: vec!["stdin".to_owned()], bytes: None, splittable: false };
        let block_bytes = options.block_bytes.clamp(1, 1 << 30);
        Ok(LiveSource { lanes: [lane], input: Mutex::new(Some(input)), format: format.clone(), plan, block_bytes })
    }
}

impl Source for LiveSource {
    fn lanes(&self) -> &[LaneInfo] {
        &self.lanes
    }

    fn open(&self, _lane: usize, _turns: Turns) -> Box<dyn LaneReader> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(input) = input else {
            return failing(Error::input("standard input can be read only once").at("stdin"));
        };
        match StreamReader::live(input, &self.format, &self.plan, self.block_bytes) {
            Ok(Some(reader)) => Box::new(reader),
            Ok(None) => failing(Error::usage("expected NDJSON or CSV").at("stdin")),
            Err(error) => failing(error),
        }
    }
}
