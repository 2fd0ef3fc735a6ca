//! Docs, visibility, lint levels, `cfg` and inner attributes stay where they mean something.

#![deny(warnings)]

#[cfg(any())]
#[ws::main]
async fn main() {
    this_is_configured_away()
}

/// Docs stay on the function.
#[ws::main]
#[cfg(all())]
#[allow(clippy::unused_async, reason = "the body waits for nothing")]
#[expect(unused_variables, reason = "the lint level reaches the body")]
pub async fn main() {
    #![allow(unused_mut)]
    //! Docs inside, too.
    let mut unused = 1;
}
