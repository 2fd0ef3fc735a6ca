//! What these tests share.

pub(crate) mod child;
pub(crate) mod seccomp;
pub(crate) mod work;
