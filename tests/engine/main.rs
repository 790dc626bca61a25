//! The engine as a whole against what it must give: worked cases, random streams, real files read in every way, and
//! proof that a broken rule would be noticed. One crate, so that what the modules share is compiled once.

#[path = "../common/mod.rs"]
mod common;

mod baton;
mod canary;
mod cases;
mod dataflow_cases;
mod lab;
mod lab_figures;
mod metamorphic;
mod pace;
mod random_streams;
mod reference;
mod refusal;
mod simulation;
mod stage;
mod standstill;
mod streams;
