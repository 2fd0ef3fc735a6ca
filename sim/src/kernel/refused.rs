//! What a host may not do: a message on stderr that names the host, the seed and the place.
//!
//! A library mostly hides the error number that it gets, or panics with a place in std. So the
//! message has the frames of the stack that are neither std's nor the runtime's.
//!
//! The stack is read outside of the host. Its symbols come from the program's file, once in a
//! process. Inside, the first run of a seed would read that file on the host's disk, and the second
//! run would not.

use std::{
    backtrace::Backtrace,
    env,
    io::{self, Write},
    iter, mem,
    path::{Component, Path},
};

use crate::world;

/// Most frames of a message.
const FRAMES: usize = 12;

/// How the name of the first frame begins that has the hosts take their steps.
const DRIVER: &str = "ws_sim::sim::";

/// How names of frames begin that say nothing of the place.
const OURS: [&str; 14] = [
    "std::",
    "core::",
    "alloc::",
    "__",
    "pthread_create",
    "posix_spawn",
    "ws_sim::",
    "ws_executor::",
    "ws_net::",
    "ws_queue::",
    "tokio::context::",
    "tokio::runtime::context::",
    "tokio::runtime::handle::",
    "tokio::runtime::park::",
];

/// Whether a host asks, and so is told that it cannot. `what` it does, and what to do `instead`.
pub(super) fn is_refused(what: &str, instead: &str) -> bool {
    let Some(host) = world::with_host(|world, host| world.name(host).to_owned()) else {
        return world::current_host().is_some();
    };
    let seed = world::with(|world| world.seed).unwrap_or_default();
    tell(&format!(
        "host {host:?} {what}, which seed {seed} could not repeat: {instead}"
    ));
    true
}

/// Tells a host that a call would wait for ever: the first one of each host.
pub(super) fn would_wait() {
    let first = world::with_host(|world, host| {
        let first = world.hosts.get_mut(host)?;
        let name = (!mem::replace(&mut first.is_told, true)).then(|| world.name(host).to_owned());
        Some((name?, world.seed))
    });
    if let Some((host, seed)) = first.flatten() {
        tell(&format!(
            "host {host:?} waits in a blocking call, which would last for ever, since all hosts \
             share one thread (seed {seed}): set the socket nonblocking, or use ws::net"
        ));
    }
}

/// Writes a message, with the place of the call.
fn tell(what: &str) {
    let frames = world::outside(|| frames(&Backtrace::force_capture().to_string()));
    let text = format!("ws-sim: {what}. It does so here:\n{frames}");
    // If stderr takes nothing, the error number has to be enough.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The frames of a backtrace that say something of the place, a line each, and a line for its file.
/// Beyond the driver of the simulation is the test.
fn frames(backtrace: &str) -> String {
    let mut lines = backtrace.lines().map(str::trim).peekable();
    let (mut text, mut count) = (String::new(), 0);
    while let Some(line) = lines.next() {
        let Some((_, name)) = line
            .split_once(": ")
            .filter(|(number, _)| number.parse::<u32>().is_ok())
        else {
            continue;
        };
        let name = name.trim_start_matches('<');
        let file = lines.next_if(|next| next.starts_with("at "));
        if name.starts_with(DRIVER) || count == FRAMES {
            break;
        }
        if OURS.iter().any(|start| name.starts_with(start)) || file.is_some_and(is_of_no_user) {
            continue;
        }
        count += 1;
        for line in iter::once(line).chain(file) {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Whether a file is std's, or one of these packages: an inlined frame has no more than its last
/// name. The packages are neighbours, in the repository and in a registry.
fn is_of_no_user(file: &str) -> bool {
    const PACKAGES: [&str; 6] = ["executor", "net", "queue", "reactor", "sim", "stack"];
    let file = file.trim_start_matches("at ");
    if file.starts_with("/rustc/") {
        return true;
    }
    let here = env::current_dir().unwrap_or_default().join(file);
    let neighbours = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let inside = neighbours.and_then(|folder| here.strip_prefix(folder).ok());
    let mut parts = inside.into_iter().flat_map(|path| {
        path.components()
            .filter(|part| !matches!(part, Component::CurDir))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
    });
    match (parts.next(), parts.next()) {
        (Some(package), Some(folder)) => {
            let name = package.trim_start_matches("ws-");
            let name = name.split('-').next().unwrap_or_default();
            PACKAGES.contains(&name) && folder == "src"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_std_and_of_the_runtime_are_left_out() {
        let backtrace = concat!(
            "   0: is_refused\n",
            "             at ./src/kernel/refused.rs:7:9\n",
            "   0: std::backtrace::Backtrace::create\n",
            "             at /rustc/x.rs:1:2\n",
            "   1: <core::x as core::y>::poll\n",
            "   1: spawn_unchecked<program::main>\n",
            "             at /rustc/x/library/std/src/thread.rs:1:2\n",
            "   2: library::begin\n",
            "             at library/src/lib.rs:7:9\n",
            "   3: {async_block#0}\n",
            "             at ./tests/program.rs:3:4\n",
            "  13: <program::Main as program::Run>::run\n",
            "  14: ws_executor::poll\n",
            "             at executor/src/poll.rs:3:4\n",
            "  15: <ws_sim::sim::Sim>::try_run\n",
            "  16: test::main\n",
        );
        assert_eq!(
            frames(backtrace),
            "  2: library::begin\n  at library/src/lib.rs:7:9\n  \
             3: {async_block#0}\n  at ./tests/program.rs:3:4\n  \
             13: <program::Main as program::Run>::run\n"
        );
        let many: String = (0..40).map(|n| format!("  {n}: library::f{n}\n")).collect();
        assert_eq!(frames(&many).lines().count(), FRAMES);
    }
}
