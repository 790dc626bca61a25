//! The commands.

pub mod r#gen;
