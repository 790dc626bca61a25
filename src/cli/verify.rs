//! `slackwater verify` (in the making).
use super::{ProgramArgs, exit};
use crate::error::Result;
use clap::Args;

/// Arguments of `slackwater verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the command.
pub(super) fn run(args: &VerifyArgs) -> Result<u8> {
    let _ = args.program.plan()?;
    Ok(exit::SUCCESS)
}
