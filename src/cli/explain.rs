//! `slackwater explain`: the plan, and what lateness means for it.

use super::{ProgramArgs, exit, print_out};
use crate::error::Result;
use clap::Args;

/// Arguments of `slackwater explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    program: ProgramArgs,
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> Result<u8> {
    let program = args.program.plan()?;
    print_out(&crate::sql::explain(&program))?;
    Ok(exit::SUCCESS)
}
