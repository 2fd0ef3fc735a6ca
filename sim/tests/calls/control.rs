//! Control messages of datagrams: classes of traffic, own addresses and segments.

use std::{
    cell::RefCell,
    mem,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    ptr,
    rc::Rc,
    time::Duration,
};

use libc::c_int;
use socket2::{Domain, Socket, Type};
use ws::{runtime::Runtime, time::sleep};
use ws_sim::Sim;

use super::{Seen, compare, result, same, say, set};

/// Runs a program that waits outside of a host, and in one.
#[track_caller]
fn compare_waits(program: impl AsyncFn(&mut Seen) + Clone + 'static) {
    let mut real = Seen::new();
    Runtime::new().unwrap().block_on(program(&mut real));
    let seen = Rc::new(RefCell::new(Seen::new()));
    let sees = seen.clone();
    let sim = Sim::new(1);
    sim.client("host", async move {
        let mut seen = Seen::new();
        program(&mut seen).await;
        *sees.borrow_mut() = seen;
    });
    sim.try_run().unwrap();
    same(&seen.borrow(), &real);
}

/// A socket that is connected to itself.
fn to_itself(ip: &str) -> Socket {
    let socket = UdpSocket::bind(format!("{ip}:0")).unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket.into()
}

/// Sends one byte with a control message of this level and type.
fn send<T: Copy>(
    socket: &Socket,
    (level, name): (c_int, c_int),
    value: T,
) -> Result<isize, Option<i32>> {
    let (mut control, mut byte) = ([0_u64; 8], 1_u8);
    let mut part = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let size = size_of::<T>() as u32;
    // SAFETY: it is plain data; the buffer has room for the header and the value.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let header = &mut *libc::CMSG_FIRSTHDR(&message);
        (header.cmsg_level, header.cmsg_type) = (level, name);
        header.cmsg_len = libc::CMSG_LEN(size) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), value);
        result(libc::sendmsg(socket.as_raw_fd(), &message, 0))
    }
}

/// Waits until one of them has a datagram, and gives which.
async fn reached<const N: usize>(sockets: &[Socket; N]) -> [bool; N] {
    loop {
        let mut waits = sockets.each_ref().map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: there are so many entries.
        if unsafe { libc::poll(waits.as_mut_ptr(), N as libc::nfds_t, 0) } > 0 {
            return waits.map(|wait| wait.revents != 0);
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// The first bytes of the control message of a datagram if it fits, and whether one did not.
async fn receive(socket: &[Socket; 1], room: usize) -> (Option<[u8; 4]>, bool) {
    reached(socket).await;
    let mut control = [0_u64; 8];
    // SAFETY: it is plain data; the buffer is longer than the room that is told.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = room as _;
        assert_eq!(libc::recvmsg(socket[0].as_raw_fd(), &mut message, 0), 0);
        let header = libc::CMSG_FIRSTHDR(&message);
        let data = (!header.is_null()).then(|| libc::CMSG_DATA(header).cast::<[u8; 4]>());
        let first = data.map(|data| ptr::read_unaligned(data));
        (first, message.msg_flags & libc::MSG_CTRUNC != 0)
    }
}

#[test]
fn a_class_of_traffic_is_a_byte_or_a_number_that_fits_in_one() {
    compare(|seen| {
        let (socket, class) = (to_itself("127.0.0.1"), (libc::IPPROTO_IP, libc::IP_TOS));
        say(seen, "a byte", send(&socket, class, 4_u8));
        for number in [-2, -1, 0, 4, 255, 256, 260, c_int::MAX] {
            say(seen, "a number", (number, send(&socket, class, number)));
        }
    });
}

#[test]
fn a_class_of_version_6_is_minus_one_or_fits_in_a_byte() {
    compare_waits(async |seen| {
        let (socket, level, name) = ([to_itself("[::1]")], libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
        socket[0].set_recv_tclass_v6(true).unwrap();
        for number in [-2, -1, 0, 8, 255, 256, 16] {
            let done = set(&socket[0], level, name, number);
            say(seen, "option", (number, done));
        }
        for number in [-2, -1, 0, 8, 255, 256] {
            let sent = send(&socket[0], (level, name), number);
            say(seen, "message", (number, sent));
            if sent.is_ok() {
                say(seen, "arrives", receive(&socket, 64).await);
            }
        }
    });
}

#[test]
fn what_a_socket_sends_has_its_class() {
    compare_waits(async |seen| {
        let socket = [to_itself("127.0.0.1")];
        socket[0].set_recv_tos_v4(true).unwrap();
        for class in [0, 8, 16] {
            socket[0].set_tos_v4(class).unwrap();
            say(seen, "send", socket[0].send(b"x").unwrap());
            let (class, is_cut) = receive(&socket, 64).await;
            say(seen, "class", (class.unwrap()[0], is_cut));
        }
    });
}

#[test]
fn a_control_message_without_room_is_told() {
    compare_waits(async |seen| {
        let socket = [to_itself("127.0.0.1")];
        let on = set(&socket[0], libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
        say(seen, "asks", on);
        for room in [0, 15, 16, 64] {
            say(seen, "send", socket[0].send(b"x").unwrap());
            say(seen, "is cut", receive(&socket, room).await.1);
        }
    });
}

#[test]
fn nobody_sends_from_an_address_that_is_not_its_own() {
    compare(|seen| {
        let info = (libc::IPPROTO_IP, libc::IP_PKTINFO);
        for from in [[127, 0, 0, 1], [203, 0, 113, 9], [0; 4]] {
            let own = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(from),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let sent = send(&to_itself("127.0.0.1"), info, own);
            // The error depends on the routes of the machine.
            say(seen, "from", (from, sent.is_ok()));
        }
    });
}

#[test]
fn more_segments_than_linux_takes_are_refused() {
    compare(|seen| {
        let socket = to_itself("127.0.0.1");
        let on = set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1);
        say(seen, "segments of a byte", on);
        for count in [1, 64, 129, 500] {
            let sent = socket.send(&vec![0; count]);
            say(
                seen,
                "sent",
                (count, sent.map_err(|error| error.raw_os_error())),
            );
        }
    });
}

/// Two sockets of these addresses, in this order, which share a port.
fn pair(ips: [&str; 2]) -> [Socket; 2] {
    let mut port = 0;
    ips.map(|ip| {
        let addr = SocketAddr::new(ip.parse().unwrap(), port);
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&addr.into()).unwrap();
        port = port_of(&socket);
        socket
    })
}

fn port_of(socket: &Socket) -> u16 {
    socket.local_addr().unwrap().as_socket().unwrap().port()
}

#[test]
fn of_two_sockets_of_a_port_the_one_of_the_family_is_reached() {
    compare_waits(async |seen| {
        for ips in [["0.0.0.0", "::"], ["::", "0.0.0.0"]] {
            let sockets = pair(ips);
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let to = ("127.0.0.1", port_of(&sockets[0]));
            sender.send_to(b"x", to).unwrap();
            say(seen, "sockets", ips);
            say(seen, "reached", reached(&sockets).await);
        }
    });
}

#[test]
fn of_two_sockets_of_a_port_the_one_that_is_connected_is_reached() {
    compare_waits(async |seen| {
        for connected in [0, 1] {
            let sockets = pair(["127.0.0.1"; 2]);
            let to = ("127.0.0.1", port_of(&sockets[0]));
            let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
            let addr = peer.local_addr().unwrap();
            sockets[connected].connect(&addr.into()).unwrap();
            peer.send_to(b"x", to).unwrap();
            say(seen, "connected", connected);
            say(seen, "reached", reached(&sockets).await);
        }
    });
}

#[test]
fn all_segments_of_a_send_leave_if_there_is_room_for_the_first() {
    let sim = Sim::new(1);
    sim.set_default_link(ws_sim::network::Link {
        bandwidth: Some(10_000),
        ..Default::default()
    });
    sim.host("server", std::future::pending::<()>);
    sim.client("host", async {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let socket = Socket::from(socket);
        socket.set_send_buffer_size(5_000).unwrap();
        let to = "10.0.0.1:1".parse::<SocketAddr>().unwrap().into();
        let on = set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1_000);
        assert_eq!(on, Ok(0));
        assert_eq!(socket.send_to(&[0; 20_000], &to).unwrap(), 20_000);
        let full = socket.send_to(&[0; 2_000], &to).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::EAGAIN));
        // Newer systems take more.
        let many = socket.send_to(&[0; 64_001], &to).unwrap_err();
        assert_eq!(many.raw_os_error(), Some(libc::EINVAL));
    });
    sim.try_run().unwrap();
}

#[test]
fn a_datagram_tells_on_which_interface_it_came() {
    let sim = Sim::new(1);
    sim.host("a", || async {
        for ip in ["127.0.0.1", "10.0.0.2"] {
            sleep(Duration::from_secs(1)).await;
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(&[], (ip, 7)).unwrap();
        }
    });
    sim.client("b", async {
        let socket = [UdpSocket::bind("0.0.0.0:7").unwrap().into()];
        let on = set(&socket[0], libc::IPPROTO_IP, libc::IP_PKTINFO, 1);
        assert_eq!(on, Ok(0));
        let own = UdpSocket::bind("0.0.0.0:0").unwrap();
        own.send_to(&[], "127.0.0.1:7").unwrap();
        let number = |first: (Option<[u8; 4]>, bool)| first.0.map(u32::from_ne_bytes);
        assert_eq!(number(receive(&socket, 64).await), Some(1));
        assert_eq!(number(receive(&socket, 64).await), Some(2));
    });
    sim.try_run().unwrap();
}
