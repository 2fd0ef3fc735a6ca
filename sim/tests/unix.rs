//! Unix sockets in a host answer as the kernel's: each program runs on both, and must see the same.
//!
//! All calls go through libc, so a program is the same code inside of a host and outside. A Unix
//! socket is ready at once: no program waits.
#![cfg(target_os = "linux")]

#[path = "unix/programs.rs"]
mod programs;
#[path = "unix/tasks.rs"]
mod tasks;
#[path = "unix/world.rs"]
mod world;

use std::{cell::RefCell, rc::Rc};

use world::World;
use ws_sim::Sim;

/// Runs a program outside of a host, and in one.
#[track_caller]
fn compare(name: &str, program: fn(&mut World)) {
    let folder = std::env::temp_dir().join(format!("ws-sim-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = move |folder| {
        let mut world = World::new(folder);
        program(&mut world);
        world.lines
    };
    let real = run(folder.clone());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (sees, path) = (seen.clone(), folder.clone());
    let sim = Sim::new(1);
    sim.client("host", async move {
        std::fs::create_dir_all(&path).unwrap();
        *sees.borrow_mut() = run(path);
    });
    sim.try_run().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(real.len() > 2, "a program that notes nothing shows nothing");
    assert_eq!(
        seen.borrow().join("\n"),
        real.join("\n"),
        "simulated, and real"
    );
}

/// Makes a test of each program.
macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name), programs::$name);
            }
        )*
    };
}

/// The limit of the model. A machine may have another one.
#[test]
fn full_inbox() {
    let limit = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
    if limit.trim() == "10" {
        compare("full_inbox", programs::full_inbox);
    } else {
        eprintln!(
            "left out: net.unix.max_dgram_qlen is {}, and not 10",
            limit.trim()
        );
    }
}

tests! {
    pairs names_of_sockets connect_errors bind_errors listen_errors accept_and_names backlog
    half_close close_ends_the_peer unread_data_resets listener_closes_its_backlog
    unconnected_streams datagrams datagram_errors connected_datagrams datagrams_of_a_closed_peer
    back_pressure packets abstract_names made_up_names options peeks_and_truncation
    paths_stay paths_are_files paths_have_folders shutdown_of_listener readiness empty_messages
    reconnected_datagrams
}
