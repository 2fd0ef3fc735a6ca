//! Loom models of the protocols, one file for each.
