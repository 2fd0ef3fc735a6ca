//! Makes the calls of a program, and notes what each answers and what all sockets are ready for.
//!
//! All goes through libc, so it is the same code on the system and in a simulated host. Only the
//! way to wait until nothing is under way differs.
//!
//! What may differ is not noted: numbers of descriptors, ephemeral ports and names that the kernel
//! makes up. Buffers are never full: how many bytes fit is the kernel's matter. So the program is
//! kept from sending what nobody reads.

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV6},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    ptr,
};

use libc::c_int;
use socket2::{SockAddr, SockAddrStorage};

use super::{
    ask::{bits, get, poll, set, sum, tcp_state},
    calls::{Addr, Call, Kind, Sock},
};

/// Bytes that may be under way at once, in all.
const BYTES: usize = 40_000;
/// Unix datagrams that may wait at once: one less than `net.unix.max_dgram_qlen` is at least.
const DATAGRAMS: usize = 9;
/// Sockets of a program at once.
const SOCKETS: usize = 12;

/// Where a program runs: what its addresses are made of.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) ip: Ipv4Addr,
    pub(crate) port: u16,
    pub(crate) folder: PathBuf,
}

struct Socket {
    name: usize,
    fd: OwnedFd,
    kind: Kind,
    /// The name of the first descriptor of the same socket.
    first: usize,
}

pub(crate) struct Machine {
    place: Place,
    sockets: Vec<Socket>,
    made: usize,
    /// Sockets of TCP over IPv6 that were to be connected to an address of IPv4.
    mapped: Vec<usize>,
    roles: Roles,
    epoll: OwnedFd,
    waiting_bytes: usize,
    waiting_datagrams: usize,
    pub(crate) lines: Vec<String>,
}

/// What sockets of TCP were used for, on a system that lets none of them listen and connect.
struct Roles {
    is_one_each: bool,
    listened: Vec<usize>,
    connected: Vec<usize>,
}

impl Roles {
    fn may_listen(&mut self, first: usize, kind: Kind) -> bool {
        let may = !self.is_one_each || !kind.is_tcp() || !self.connected.contains(&first);
        self.listened.extend(may.then_some(first));
        may
    }

    fn may_connect(&mut self, first: usize, kind: Kind, addr: Addr) -> bool {
        let ends = matches!(addr, Addr::Unspecified);
        let may = !self.is_one_each || !kind.is_tcp() || ends || !self.listened.contains(&first);
        self.connected.extend((may && !ends).then_some(first));
        may
    }
}

pub(crate) type Answer = Result<isize, String>;

pub(crate) fn answer(result: isize) -> Answer {
    match result {
        -1 => Err(error_name(&io::Error::last_os_error())),
        value => Ok(value),
    }
}

fn error_name(error: &io::Error) -> String {
    // SAFETY: it is a text that ends with NUL.
    let text = unsafe { std::ffi::CStr::from_ptr(libc::strerror(error.raw_os_error().unwrap())) };
    text.to_string_lossy().into_owned()
}

fn owned(fd: RawFd) -> OwnedFd {
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it is a new descriptor, which nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Kind {
    fn numbers(self) -> (c_int, c_int) {
        match self {
            Self::Tcp4 => (libc::AF_INET, libc::SOCK_STREAM),
            Self::Tcp6 => (libc::AF_INET6, libc::SOCK_STREAM),
            Self::Udp4 => (libc::AF_INET, libc::SOCK_DGRAM),
            Self::Udp6 => (libc::AF_INET6, libc::SOCK_DGRAM),
            Self::Stream => (libc::AF_UNIX, libc::SOCK_STREAM),
            Self::Datagram => (libc::AF_UNIX, libc::SOCK_DGRAM),
            Self::Packets => (libc::AF_UNIX, libc::SOCK_SEQPACKET),
        }
    }

    fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp4 | Self::Tcp6)
    }
}

const MODE: c_int = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

impl Machine {
    /// A system may let no socket of TCP both listen and connect, one after the other:
    /// `is_one_role` says so. Such calls are left out then.
    pub(crate) fn new(place: Place, is_one_role: bool) -> Self {
        // SAFETY: it takes no pointers.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
        Self {
            place,
            sockets: Vec::new(),
            made: 0,
            mapped: Vec::new(),
            roles: Roles {
                is_one_each: is_one_role,
                listened: Vec::new(),
                connected: Vec::new(),
            },
            epoll,
            waiting_bytes: 0,
            waiting_datagrams: 0,
            lines: Vec::new(),
        }
    }

    /// Makes all calls. After each one `settle` waits until nothing is under way.
    pub(crate) async fn run(&mut self, calls: &[Call], settle: impl AsyncFn()) {
        for (number, call) in calls.iter().enumerate() {
            let parts = self.parts(call);
            for part in parts {
                let seen = self.call(&part, number);
                self.lines.push(format!("{number} {part:?}: {seen}"));
                settle().await;
                let state = self.state();
                self.lines.push(state);
            }
        }
    }

    /// What a call is made of.
    fn parts(&self, call: &Call) -> Vec<Call> {
        let last = self.sockets.len() as Sock;
        match *call {
            Call::Connection(kind @ (Kind::Udp4 | Kind::Udp6 | Kind::Datagram))
            | Call::Datagrams(kind @ (Kind::Udp4 | Kind::Udp6 | Kind::Datagram)) => vec![
                Call::Socket(kind),
                Call::Bind(last, any(kind)),
                Call::Socket(kind),
                Call::Bind(last + 1, any(kind)),
                Call::Connect(last, Addr::Of(last + 1)),
            ],
            Call::Connection(kind) | Call::Datagrams(kind) => vec![
                Call::Socket(kind),
                Call::Bind(last, any(kind)),
                Call::Listen(last),
                Call::Socket(kind),
                Call::Connect(last + 1, Addr::Of(last)),
                Call::Accept(last),
            ],
            ref call => vec![call.clone()],
        }
    }

    fn place(&self, s: Sock) -> Option<usize> {
        (!self.sockets.is_empty()).then(|| usize::from(s) % self.sockets.len())
    }

    fn add(&mut self, fd: OwnedFd, kind: Kind) -> String {
        if kind.is_tcp() {
            // A small segment that waits for an acknowledgement would be under way for 40 ms.
            set(fd.as_raw_fd(), (libc::IPPROTO_TCP, libc::TCP_NODELAY), &1).unwrap();
        }
        self.made += 1;
        self.sockets.push(Socket {
            name: self.made,
            fd,
            kind,
            first: self.made,
        });
        format!("socket {}", self.made)
    }

    fn call(&mut self, call: &Call, number: usize) -> String {
        match *call {
            Call::Socket(kind) if self.sockets.len() < SOCKETS => {
                let (domain, of) = kind.numbers();
                // SAFETY: it takes no pointers.
                let fd = owned(unsafe { libc::socket(domain, of | MODE, 0) });
                self.add(fd, kind)
            }
            Call::Pair(kind) if self.sockets.len() < SOCKETS => {
                let (domain, of) = kind.numbers();
                let mut both = [-1; 2];
                // SAFETY: there is room for two.
                unsafe { libc::socketpair(domain, of | MODE, 0, both.as_mut_ptr()) };
                both.map(|fd| self.add(owned(fd), kind)).join(", ")
            }
            Call::Bind(s, _)
            | Call::Listen(s)
            | Call::Connect(s, _)
            | Call::Accept(s)
            | Call::Send(s, ..)
            | Call::SendTo(s, ..)
            | Call::SendParts(s, _)
            | Call::Receive(s, ..)
            | Call::ReceiveParts(s, ..)
            | Call::Shutdown(s, _)
            | Call::Close(s)
            | Call::Dup(s)
            | Call::Set(s, ..)
            | Call::Get(s, _)
            | Call::ResetOnClose(s)
            | Call::Names(s)
            | Call::Unread(s)
            | Call::Watch(s, ..) => match self.place(s) {
                Some(place) => {
                    let name = self.sockets[place].name;
                    format!("at {name}: {}", self.call_on(place, call, number))
                }
                None => "no socket".to_owned(),
            },
            _ => "too many sockets".to_owned(),
        }
    }

    fn call_on(&mut self, place: usize, call: &Call, number: usize) -> String {
        let Socket {
            name,
            ref fd,
            kind,
            first,
        } = self.sockets[place];
        let fd = fd.as_raw_fd();
        match *call {
            Call::Bind(_, addr) => {
                let to = self.addr(addr);
                // SAFETY: the address is valid.
                let bound = unsafe { libc::bind(fd, to.as_ptr().cast(), to.len()) };
                format!("{:?}", answer(bound as isize))
            }
            Call::Connect(_, addr) => {
                let to = self.addr(addr);
                if !self.may_connect(first, kind, &to) || !self.roles.may_connect(first, kind, addr)
                {
                    return "left out".to_owned();
                }
                // SAFETY: the address is valid.
                let connected = unsafe { libc::connect(fd, to.as_ptr().cast(), to.len()) };
                format!("{:?}", answer(connected as isize))
            }
            Call::Listen(_) if !self.roles.may_listen(first, kind) => "left out".to_owned(),
            // SAFETY: it takes no pointers.
            Call::Listen(_) => format!("{:?}", answer(unsafe { libc::listen(fd, 40) } as isize)),
            Call::Accept(_) => self.accept(fd, kind),
            Call::Send(_, len, flags) => self.send(fd, kind, (len, number, flags), None),
            Call::SendTo(_, len, addr) => {
                let to = self.addr(addr);
                self.send(fd, kind, (len, number, libc::MSG_NOSIGNAL), Some(&to))
            }
            Call::SendParts(_, len) => self.send_parts(fd, kind, len, number),
            Call::Receive(_, len, flags) => self.receive(fd, kind, len, flags),
            Call::ReceiveParts(_, len, flags) => self.receive_parts(fd, kind, len, flags),
            Call::Shutdown(_, how) => {
                let how = match how {
                    Shutdown::Read => libc::SHUT_RD,
                    Shutdown::Write => libc::SHUT_WR,
                    Shutdown::Both => libc::SHUT_RDWR,
                };
                // SAFETY: it takes no pointers.
                format!("{:?}", answer(unsafe { libc::shutdown(fd, how) } as isize))
            }
            Call::Close(_) => {
                drop(self.sockets.remove(place));
                "closed".to_owned()
            }
            Call::Dup(_) => {
                // SAFETY: it takes no pointers.
                let copy = owned(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) });
                let added = self.add(copy, kind);
                self.sockets.last_mut().unwrap().first = first;
                added
            }
            Call::Set(_, option, value) => format!("{:?}", set(fd, option, &value)),
            Call::Get(_, option) => get(fd, option),
            Call::ResetOnClose(_) => {
                let linger = libc::linger {
                    l_onoff: 1,
                    l_linger: 0,
                };
                format!(
                    "{:?}",
                    set(fd, (libc::SOL_SOCKET, libc::SO_LINGER), &linger)
                )
            }
            Call::Names(_) => {
                let own = self.name_by(libc::getsockname, fd);
                let peer = self.name_by(libc::getpeername, fd);
                format!("{own:?}, peer {peer:?}")
            }
            Call::Unread(_) => {
                let mut waits: c_int = -1;
                // SAFETY: this request writes a number.
                let done = unsafe { libc::ioctl(fd, libc::FIONREAD, &mut waits) };
                format!("{:?} {waits}", answer(done as isize))
            }
            Call::Watch(_, operation, events) => {
                let mut event = libc::epoll_event {
                    events,
                    u64: name as u64,
                };
                let epoll = self.epoll.as_raw_fd();
                // SAFETY: the event is valid.
                let done = unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) };
                format!("{:?}", answer(done as isize))
            }
            Call::Socket(_) | Call::Pair(_) | Call::Connection(_) | Call::Datagrams(_) => {
                unreachable!("they have no socket")
            }
        }
    }

    /// Linux sends the SYN of a socket of IPv6 by IPv4, once it was to be connected to an address
    /// of IPv4. So it is never connected to another one.
    fn may_connect(&mut self, first: usize, kind: Kind, to: &SockAddr) -> bool {
        let ip = to.as_socket().map(|to| to.ip());
        let (Kind::Tcp6, Some(IpAddr::V6(ip))) = (kind, ip) else {
            return true;
        };
        let is_mapped = ip.to_ipv4_mapped().is_some();
        if is_mapped {
            self.mapped.push(first);
        }
        is_mapped || !self.mapped.contains(&first)
    }

    fn accept(&mut self, fd: RawFd, kind: Kind) -> String {
        let mut from = SockAddrStorage::zeroed();
        let mut len = from.size_of();
        let out = (&raw mut from).cast();
        // SAFETY: there is as much room as `len` says.
        let child = unsafe { libc::accept4(fd, out, &mut len, MODE) };
        if child < 0 {
            return format!("{:?}", answer(-1));
        }
        // SAFETY: the call has written an address of this length.
        let from = self.shown(&unsafe { SockAddr::new(from, len) });
        let added = self.add(owned(child), kind);
        self.roles.connected.push(self.made);
        format!("{added} from {from}")
    }

    // --- data ---

    /// The bytes of a send. None if too much is under way.
    fn data(&mut self, kind: Kind, len: u16, number: usize) -> Option<Vec<u8>> {
        // If a packet without bytes is unread at a close, kernels differ in what they do.
        let len = match kind {
            Kind::Packets => len.max(1),
            _ => len,
        };
        let is_too_much = self.waiting_bytes + usize::from(len) > BYTES
            || (matches!(kind, Kind::Datagram) && self.waiting_datagrams >= DATAGRAMS);
        let byte = |place| (number * 7 + usize::from(place) % 51) as u8;
        (!is_too_much).then(|| (0..len).map(byte).collect())
    }

    fn has_sent(&mut self, kind: Kind, sent: Answer) -> String {
        if let Ok(bytes) = sent {
            self.waiting_bytes += bytes as usize;
            self.waiting_datagrams += usize::from(matches!(kind, Kind::Datagram));
        }
        format!("{sent:?}")
    }

    fn has_received(&mut self, kind: Kind, flags: c_int, got: &Answer) {
        if let (Ok(bytes), 0) = (got, flags & libc::MSG_PEEK) {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(*bytes as usize);
            let one = usize::from(matches!(kind, Kind::Datagram));
            self.waiting_datagrams = self.waiting_datagrams.saturating_sub(one);
        }
    }

    fn send(
        &mut self,
        fd: RawFd,
        kind: Kind,
        (len, number, flags): (u16, usize, c_int),
        to: Option<&SockAddr>,
    ) -> String {
        let Some(data) = self.data(kind, len, number) else {
            return "too much".to_owned();
        };
        // A stream may keep the bytes for a time.
        let flags = match kind {
            Kind::Udp4 | Kind::Udp6 => flags,
            _ => flags & !libc::MSG_MORE,
        };
        let (to, to_len) = to.map_or((ptr::null(), 0), |to| (to.as_ptr().cast(), to.len()));
        // SAFETY: the data and the address are valid.
        let sent = unsafe { libc::sendto(fd, data.as_ptr().cast(), data.len(), flags, to, to_len) };
        self.has_sent(kind, answer(sent))
    }

    fn send_parts(&mut self, fd: RawFd, kind: Kind, len: u16, number: usize) -> String {
        let Some(data) = self.data(kind, 3 * len, number) else {
            return "too much".to_owned();
        };
        let parts = [0, 1, 2].map(|part| libc::iovec {
            // It is not written to.
            iov_base: data[part * usize::from(len)..].as_ptr().cast_mut().cast(),
            iov_len: len.into(),
        });
        // SAFETY: there are three buffers.
        let sent = answer(unsafe { libc::writev(fd, parts.as_ptr(), 3) });
        self.has_sent(kind, sent)
    }

    fn receive(&mut self, fd: RawFd, kind: Kind, len: u16, flags: c_int) -> String {
        let mut data = vec![0; len.into()];
        let mut from = SockAddrStorage::zeroed();
        let mut from_len = from.size_of();
        let out = (&raw mut from).cast();
        // SAFETY: there is as much room as the lengths say.
        let got = answer(unsafe {
            let data = data.as_mut_ptr().cast();
            libc::recvfrom(fd, data, len.into(), flags, out, &mut from_len)
        });
        self.has_received(kind, flags, &got);
        // A stream's socket does not write an address. What Linux then says of its length differs.
        let from = match got {
            Ok(_) if !kind.is_tcp() && from_len > 0 => {
                // SAFETY: the call has written an address of this length.
                self.shown(&unsafe { SockAddr::new(from, from_len) })
            }
            _ => "nobody".to_owned(),
        };
        format!("{got:?} {} from {from}", sum(&data))
    }

    fn receive_parts(&mut self, fd: RawFd, kind: Kind, len: u16, flags: c_int) -> String {
        let mut data = [vec![0; len.into()], vec![0; len.into()]];
        let mut parts = data.each_mut().map(|part| libc::iovec {
            iov_base: part.as_mut_ptr().cast(),
            iov_len: part.len(),
        });
        // SAFETY: it is plain data; the buffers are valid.
        let (got, told) = unsafe {
            let mut message: libc::msghdr = mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), 2);
            let got = libc::recvmsg(fd, &mut message, flags);
            (answer(got), message.msg_flags)
        };
        self.has_received(kind, flags, &got);
        let told = if got.is_ok() { told } else { 0 };
        format!("{got:?} {} flags {told:#x}", sum(&data.concat()))
    }

    // --- addresses ---

    fn addr(&self, addr: Addr) -> SockAddr {
        let Place { ip, port, folder } = &self.place;
        let wild6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
        match addr {
            Addr::V4(place) => SocketAddr::new((*ip).into(), port + u16::from(place)).into(),
            Addr::Mapped(place) => {
                SocketAddr::new(ip.to_ipv6_mapped().into(), port + u16::from(place)).into()
            }
            Addr::AnyPort4 => SocketAddr::new((*ip).into(), 0).into(),
            Addr::AnyPort6 => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0).into(),
            Addr::Wild4 => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0).into(),
            Addr::Wild6 => wild6.into(),
            Addr::Of(s) => match self.place(s) {
                Some(place) => name(libc::getsockname, self.sockets[place].fd.as_raw_fd()).unwrap(),
                None => wild6.into(),
            },
            Addr::Unspecified => family(libc::AF_UNSPEC, mem::size_of::<libc::sockaddr_in>()),
            Addr::Unnamed => family(libc::AF_UNIX, mem::size_of::<libc::sa_family_t>()),
            Addr::Path(name) => SockAddr::unix(folder.join(format!("{name}"))).unwrap(),
            Addr::Abstract(name) => {
                let id = folder.file_name().unwrap().to_str().unwrap();
                SockAddr::unix(format!("\0{id}-{name}")).unwrap()
            }
        }
    }

    fn name_by(&self, of: NameOf, fd: RawFd) -> Result<String, String> {
        name(of, fd).map(|name| self.shown(&name))
    }

    /// An address without what may differ.
    fn shown(&self, addr: &SockAddr) -> String {
        let shown_ip = |ip: IpAddr| match ip.to_canonical() {
            IpAddr::V4(v4) if v4 == self.place.ip => format!("own {}", ip.is_ipv6()),
            _ => ip.to_string(),
        };
        match addr.as_socket() {
            Some(inet) => {
                let port = match inet.port() {
                    0 => "none".to_owned(),
                    32_768.. => "some".to_owned(),
                    port => format!("{}", i32::from(port) - i32::from(self.place.port)),
                };
                let scope = match inet {
                    SocketAddr::V6(v6) => SocketAddrV6::scope_id(&v6),
                    SocketAddr::V4(_) => 0,
                };
                format!("{} port {port} scope {scope}", shown_ip(inet.ip()))
            }
            None if addr.is_unnamed() => "unnamed".to_owned(),
            None => match (addr.as_pathname(), addr.as_abstract_namespace()) {
                (Some(path), _) => {
                    let name = path.file_name().unwrap().to_owned();
                    format!("path {name:?} {}", path.as_os_str().as_bytes().len())
                }
                (None, Some(name)) if name.len() == 5 => "made up".to_owned(),
                (None, Some(name)) => format!("abstract {:?}", name.last().map(|b| *b as char)),
                (None, None) => format!("family {} of {}", addr.family(), addr.len()),
            },
        }
    }

    // --- readiness ---

    /// What all sockets are ready for, and what the epoll file tells.
    fn state(&self) -> String {
        let of = |one: &Socket| {
            let fd = one.fd.as_raw_fd();
            let state = if one.kind.is_tcp() {
                tcp_state(fd)
            } else {
                String::new()
            };
            format!("{}:{}{state}", one.name, bits(poll(fd) as u32))
        };
        let sockets: Vec<_> = self.sockets.iter().map(of).collect();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        // SAFETY: there is room for 32 events.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 32, 0) };
        let events = &events[..usize::try_from(count).unwrap()];
        let mut told: Vec<_> = events
            .iter()
            .map(|one| (one.u64, bits(one.events)))
            .collect();
        told.sort();
        format!("    {} | {told:?}", sockets.join(" "))
    }
}

/// An address that is nothing but its family.
fn family(family: c_int, len: usize) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: it is plain data, large enough, and zero beyond the family.
    unsafe {
        storage.view_as::<libc::sockaddr>().sa_family = family as libc::sa_family_t;
        SockAddr::new(storage, len as libc::socklen_t)
    }
}

type NameOf = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut libc::socklen_t) -> c_int;

fn name(of: NameOf, fd: RawFd) -> Result<SockAddr, String> {
    let mut storage = SockAddrStorage::zeroed();
    let mut len = storage.size_of();
    // SAFETY: there is as much room as `len` says.
    let named = unsafe { of(fd, (&raw mut storage).cast(), &mut len) };
    // SAFETY: the call has written an address of this length.
    answer(named as isize).map(|_| unsafe { SockAddr::new(storage, len) })
}

fn any(kind: Kind) -> Addr {
    match kind {
        Kind::Tcp4 | Kind::Udp4 => Addr::AnyPort4,
        Kind::Tcp6 | Kind::Udp6 => Addr::AnyPort6,
        // A name that the kernel makes up.
        Kind::Stream | Kind::Datagram | Kind::Packets => Addr::Unnamed,
    }
}
