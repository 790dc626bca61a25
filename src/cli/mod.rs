//! The commands.

pub mod r#gen;
pub mod schema;
