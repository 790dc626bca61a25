//! `scripts/cluster`, and hosts of their own.
