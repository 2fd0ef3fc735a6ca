//! Futures and closures that are large go onto the heap at once.
//!
//! A spawn moves its future from call to call until it is in its task, and a debug build copies it
//! each time. With a future of half a megabyte that is more than a thread's stack holds. So what is
//! large is put into a box by the first function that gets it, as in tokio. What is small is not:
//! the box would cost an allocation.

/// The size in bytes from which on a box is taken. As in tokio.
pub(crate) const LARGE: usize = if cfg!(debug_assertions) { 2048 } else { 16384 };

/// Does something with a future or a closure, which is in a box (made by `$boxed`) if its type is
/// large.
///
/// It is a macro, since the type is another one in a box. The constant keeps the compiler from
/// building both.
macro_rules! boxed_if_large {
    ($what:ident: $type:ty, $boxed:path, $do:expr) => {
        if const { size_of::<$type>() > $crate::large::LARGE } {
            let $what = $boxed($what);
            $do
        } else {
            $do
        }
    };
}

pub(crate) use boxed_if_large;
