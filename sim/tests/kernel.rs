//! The specification of the simulated network is the kernel. Each program here runs on real
//! nonblocking sockets of 127.0.0.1 and on simulated ones, and must see the same answers.
//!
//! A program notes values and numbers of errors in a `Trace`. Ports are noted as `p0`, `p1`, in the
//! order in which they are seen, since ephemeral ones differ. A program waits by `poll` until a
//! socket is ready for something; it never sleeps.

#![cfg(target_os = "linux")]

#[path = "kernel/programs.rs"]
mod programs;
#[path = "kernel/real.rs"]
mod real;
#[path = "kernel/simulated.rs"]
mod simulated;
#[path = "kernel/tcp_ends.rs"]
mod tcp_ends;
#[path = "kernel/udp.rs"]
mod udp;
#[path = "kernel/world.rs"]
mod world;

use world::{Trace, World};

/// Runs a program on both kinds of sockets.
#[track_caller]
fn compare(program: fn(&mut dyn World, &mut Trace)) {
    let (mut real, mut simulated) = (Trace::default(), Trace::default());
    program(&mut real::Real::default(), &mut real);
    program(&mut simulated::Simulated::new(), &mut simulated);
    assert!(
        real.lines.len() > 2,
        "a program that notes nothing shows nothing"
    );
    assert_eq!(
        simulated.lines.join("\n"),
        real.lines.join("\n"),
        "simulated, and real"
    );
}

/// Makes a test of each program.
macro_rules! tests {
    ($($module:ident: $($name:ident)*;)*) => {
        $($(
            #[test]
            fn $name() {
                compare($module::$name);
            }
        )*)*
    };
}

tests! {
    programs:
        refused_connect refused_connect_then_write connect_tells_once connect_twice_in_progress
        bind_twice bind_without_address address_in_use reuse_address_and_listeners
        reuse_address_after_close address_in_use_after_close ephemeral_port
        listen_without_bind listen_twice accept_on_what_does_not_listen read_and_write_unconnected
        shutdown_unconnected backlog wrong_family dual_stack only_v6 peek_leaves_data
        zero_length buffers_and_options accepted_has_options connect_from_bound_port
        readiness_of_new_sockets calls_on_listener shutdown_of_listener;
    tcp_ends:
        connect_then_close_before_accept reset_before_accept half_close_of_client
        half_close_of_server both_halves_closed read_after_reset data_then_reset
        write_after_close_of_peer write_after_shutdown double_shutdown close_with_unread_data
        linger_of_zero shutdown_read data_for_shut_socket reset_in_close_wait
        take_error_takes_it big_transfer back_pressure listener_closed_with_backlog
        peer_addr_after_end;
    udp:
        refused refused_once_for_each truncation self_send too_long unconnected_send
        connected_hears_peer_alone shutdown_of_datagrams empty_datagram peek_of_datagrams
        port_zero udp_address_in_use udp_dual_stack udp_reads_without_data connect_again
        calls_of_streams;
}
