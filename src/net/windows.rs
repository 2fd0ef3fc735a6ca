//! What Windows alone has: named pipes.

pub mod named_pipe;
