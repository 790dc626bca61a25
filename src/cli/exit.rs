//! Exit statuses.

/// All went well; also when the reader of stdout went away.
pub const SUCCESS: u8 = 0;
/// The run failed: unreadable input, a result that cannot be published or written, or a reject under `on_error = 'fail'`.
pub const FAILURE: u8 = 1;
/// The query, a setting or the arguments are wrong; nothing was read.
pub const USAGE: u8 = 2;
/// `verify` found a difference between the engine and the oracle.
pub const DIFFERENCE: u8 = 3;
/// A run of several processes failed because of another one: they did not come together, one was lost, or one failed. If one
/// failed, its own message says what for, and it ends with the status of that.
pub const CLUSTER: u8 = 4;
/// Ended by Ctrl-C (or SIGTERM); what was final has been published.
pub const INTERRUPTED: u8 = 130;
