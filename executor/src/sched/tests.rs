//! The protocols of sleep, wake and shutdown, one step at a time on the runtime's own ground. Each
//! module is named after the file that it is about. Orders that only memory shows are in the
//! models.

mod closing;
mod ground;
mod sleep;
