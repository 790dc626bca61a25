//! Running programs in a test: what a run gives, collected.

pub use slackwater::verify::collect::{Collected, collect};
