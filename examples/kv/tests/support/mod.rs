//! A cluster on simulated hosts, what goes wrong with it, and whether its answers fit together.
pub mod checker;
pub mod cluster;
pub mod history;
pub mod load;
