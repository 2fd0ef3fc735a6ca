//! The protocols of sleep, wake and shutdown, one step at a time in the runtime's own environment.
//! Each module is named after the file that it is about. Orders that only memory shows are in the
//! models.

mod env;
mod phase;
mod sleep;
