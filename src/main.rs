//! The `slackwater` command: parse, run, exit code.

fn main() -> std::process::ExitCode {
    slackwater::cli::main()
}
