//! The calls of a random program, and how they are drawn.
//!
//! A call names a socket by a number. It stands for one of those that are open, counted around. So
//! nearly every call of a program has a socket, whatever the calls before it did.

use std::net::Shutdown;

use libc::c_int;
use proptest::prelude::*;

/// A socket of those that are open.
pub(crate) type Sock = u8;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
    Stream,
    Datagram,
    Packets,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Addr {
    /// A port of the program's own address of IPv4.
    V4(u8),
    /// The same as an address of IPv6.
    Mapped(u8),
    /// Port 0 of an address.
    AnyPort4,
    AnyPort6,
    Wild4,
    Wild6,
    /// The address of another socket.
    Of(Sock),
    Unspecified,
    /// A Unix address without a name.
    Unnamed,
    Path(u8),
    Abstract(u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Call {
    Socket(Kind),
    /// `socketpair`.
    Pair(Kind),
    /// A listener, a client and the accepted end: they become three sockets.
    Connection(Kind),
    /// Two datagram sockets that have names, the first one connected to the second.
    Datagrams(Kind),
    Bind(Sock, Addr),
    Listen(Sock),
    Connect(Sock, Addr),
    Accept(Sock),
    Send(Sock, u16, c_int),
    SendTo(Sock, u16, Addr),
    /// `writev` with three buffers of this length.
    SendParts(Sock, u16),
    Receive(Sock, u16, c_int),
    /// `recvmsg` with two buffers of this length.
    ReceiveParts(Sock, u16, c_int),
    Shutdown(Sock, Shutdown),
    Close(Sock),
    Dup(Sock),
    Set(Sock, (c_int, c_int), c_int),
    Get(Sock, (c_int, c_int)),
    /// `SO_LINGER` with a time of 0: a close sends a RST.
    ResetOnClose(Sock),
    Names(Sock),
    Unread(Sock),
    /// `epoll_ctl`, with the program's one epoll file.
    Watch(Sock, c_int, u32),
}

const OPTIONS: &[(c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_ERROR),
    (libc::SOL_SOCKET, libc::SO_ERROR),
    (libc::SOL_SOCKET, libc::SO_TYPE),
    (libc::SOL_SOCKET, libc::SO_DOMAIN),
    (libc::SOL_SOCKET, libc::SO_PROTOCOL),
    (libc::SOL_SOCKET, libc::SO_ACCEPTCONN),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
];

/// Options that change nothing in what the program does, so any value may be set.
pub(crate) const SETTABLE: &[(c_int, c_int)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_TYPE),
    (libc::SOL_SOCKET, libc::SO_ERROR),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
];

fn kind() -> impl Strategy<Value = Kind> {
    use Kind::*;
    prop::sample::select(vec![
        Tcp4, Tcp4, Tcp6, Udp4, Udp6, Stream, Datagram, Packets,
    ])
}

fn unix() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Stream, Kind::Datagram, Kind::Packets])
}

fn addr() -> impl Strategy<Value = Addr> {
    prop_oneof![
        4 => (0_u8..4).prop_map(Addr::V4),
        2 => (0_u8..4).prop_map(Addr::Mapped),
        1 => Just(Addr::AnyPort4),
        1 => Just(Addr::AnyPort6),
        1 => Just(Addr::Wild4),
        1 => Just(Addr::Wild6),
        6 => any::<u8>().prop_map(Addr::Of),
        1 => Just(Addr::Unspecified),
        1 => Just(Addr::Unnamed),
        3 => (0_u8..3).prop_map(Addr::Path),
        3 => (0_u8..3).prop_map(Addr::Abstract),
    ]
}

fn how() -> impl Strategy<Value = Shutdown> {
    use Shutdown::*;
    prop::sample::select(vec![Read, Write, Write, Both])
}

fn len() -> impl Strategy<Value = u16> {
    prop_oneof![1 => Just(0_u16), 6 => 1_u16..40, 2 => 40_u16..3_000]
}

fn receive_flags() -> impl Strategy<Value = c_int> {
    prop::sample::select(vec![
        0,
        0,
        0,
        libc::MSG_PEEK,
        libc::MSG_TRUNC,
        libc::MSG_PEEK | libc::MSG_TRUNC,
        libc::MSG_DONTWAIT,
        libc::MSG_WAITALL,
    ])
}

fn events() -> impl Strategy<Value = u32> {
    let all = [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLRDHUP];
    let bits = [0, 0, 0, libc::EPOLLONESHOT];
    let all = prop::sample::subsequence(all.to_vec(), 0..=3);
    (all, prop::sample::select(bits.to_vec()))
        .prop_map(|(all, more)| all.into_iter().fold(more, |sum, bit| sum | bit) as u32)
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    use Call::*;
    let s = any::<Sock>;
    let option = prop::sample::select(OPTIONS.to_vec());
    let settable = prop::sample::select(SETTABLE.to_vec());
    let operation = prop::sample::select(vec![
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_ADD,
        libc::EPOLL_CTL_MOD,
        libc::EPOLL_CTL_DEL,
    ]);
    let values = prop::sample::select(vec![-1, 0, 1, 1, 7, 255, 256]);
    let ends = prop_oneof![
        6 => (s(), how()).prop_map(|(s, how)| Shutdown(s, how)),
        6 => s().prop_map(Close),
        2 => s().prop_map(ResetOnClose),
        1 => s().prop_map(Dup),
    ];
    let begins = prop_oneof![
        5 => kind().prop_map(Socket),
        2 => unix().prop_map(Pair),
        4 => kind().prop_map(Connection),
        2 => kind().prop_map(Datagrams),
        5 => (s(), addr()).prop_map(|(s, addr)| Bind(s, addr)),
        3 => s().prop_map(Listen),
        7 => (s(), addr()).prop_map(|(s, addr)| Connect(s, addr)),
        4 => s().prop_map(Accept),
    ];
    let data = prop_oneof![
        8 => (s(), len()).prop_map(|(s, len)| Send(s, len, libc::MSG_NOSIGNAL)),
        1 => (s(), len()).prop_map(|(s, len)| Send(s, len, libc::MSG_NOSIGNAL | libc::MSG_MORE)),
        4 => (s(), len(), addr()).prop_map(|(s, len, addr)| SendTo(s, len, addr)),
        1 => (s(), 0_u16..20).prop_map(|(s, len)| SendParts(s, len)),
        10 => (s(), len(), receive_flags()).prop_map(|(s, len, flags)| Receive(s, len, flags)),
        2 => (s(), 0_u16..30, receive_flags())
            .prop_map(|(s, len, flags)| ReceiveParts(s, len, flags)),
    ];
    let state = prop_oneof![
        2 => (s(), settable, values).prop_map(|(s, option, value)| Set(s, option, value)),
        3 => (s(), option).prop_map(|(s, option)| Get(s, option)),
        2 => s().prop_map(Names),
        1 => s().prop_map(Unread),
        2 => (s(), operation, events()).prop_map(|(s, call, events)| Watch(s, call, events)),
    ];
    prop_oneof![30 => begins, 26 => data, 14 => ends, 10 => state]
}
