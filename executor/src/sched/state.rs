//! What the parts of the scheduler keep. A file here has the fields of a part and little else: no
//! worker, and of [`Shared`](super::Shared) only what a part refers to. The file that it names at
//! its head has what is done with them.

pub(crate) mod clocks;
pub(crate) mod hooks;
pub(crate) mod io;
pub(crate) mod parts;
pub(crate) mod priority_queues;
pub(crate) mod runtime_threads;
pub(crate) mod sampling;
pub(crate) mod seen;
pub(crate) mod snapshot_files;
