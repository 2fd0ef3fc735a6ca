//! Calls of libc inside a host, as C code and libraries other than the runtime make them.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Duration,
};

use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, c_int,
};
use socket2::{MaybeUninitSlice, SockRef};
use ws::time::sleep;
use ws_sim::Sim;

/// Runs `f` in a host.
fn in_host(f: impl AsyncFnOnce() + 'static) {
    let sim = Sim::new(1);
    sim.client("host", async move { f().await });
    sim.try_run().unwrap();
}

/// A packet within a host has arrived after this time.
async fn arrival() {
    sleep(Duration::from_micros(1)).await;
}

fn pair() -> (UdpSocket, UdpSocket) {
    let (a, b) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

fn errno(answer: c_int) -> Option<i32> {
    assert_eq!(answer, -1);
    io::Error::last_os_error().raw_os_error()
}

struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Self {
        // SAFETY: it takes no pointers, and gives a new descriptor.
        unsafe { Self(OwnedFd::from_raw_fd(libc::epoll_create1(0))) }
    }

    fn control(&self, call: c_int, fd: c_int, events: c_int, data: u64) -> c_int {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        // SAFETY: the event is valid.
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), call, fd, &mut event) }
    }

    fn ready(&self) -> Vec<(u64, c_int)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
        // SAFETY: there is room for 8 events.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 8, 0) };
        let events = &events[..usize::try_from(count).unwrap()];
        let known = EPOLLIN | EPOLLOUT;
        events
            .iter()
            .map(|one| (one.u64, one.events as c_int & known))
            .collect()
    }
}

#[test]
fn epoll_reports_levels_edges_and_single_shots() {
    in_host(async || {
        let (a, b) = pair();
        let (level, edge, once) = (Epoll::new(), Epoll::new(), Epoll::new());
        let fd = b.as_raw_fd();
        assert_eq!(level.control(EPOLL_CTL_ADD, fd, EPOLLIN, 1), 0);
        assert_eq!(edge.control(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 2), 0);
        assert_eq!(
            once.control(EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLONESHOT, 3),
            0
        );
        assert!(level.ready().is_empty() && edge.ready().is_empty() && once.ready().is_empty());
        a.send(b"x").unwrap();
        assert!(level.ready().is_empty(), "it is on its way");
        arrival().await;
        for _ in 0..2 {
            assert_eq!(level.ready(), [(1, EPOLLIN)]);
        }
        assert_eq!(edge.ready(), [(2, EPOLLIN)]);
        assert_eq!(edge.ready(), []);
        assert_eq!(once.ready(), [(3, EPOLLIN)]);
        a.send(b"y").unwrap();
        arrival().await;
        assert_eq!(edge.ready(), [(2, EPOLLIN)]);
        assert_eq!(once.ready(), []);
        // A change reports what is so now.
        assert_eq!(
            once.control(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLONESHOT, 4),
            0
        );
        assert_eq!(once.ready(), [(4, EPOLLIN)]);
        assert_eq!(
            edge.control(EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 5),
            0
        );
        assert_eq!(edge.ready(), [(5, EPOLLIN | EPOLLOUT)]);
        for _ in 0..2 {
            b.recv(&mut [0]).unwrap();
        }
        assert_eq!(level.ready(), []);
        a.send(b"z").unwrap();
        arrival().await;
        assert_eq!(level.control(EPOLL_CTL_DEL, fd, 0, 0), 0);
        assert_eq!(level.ready(), []);
        // One that is closed is watched no more.
        drop(b);
        assert_eq!(edge.ready(), []);
    });
}

#[test]
fn mistakes_with_epoll_are_those_of_linux() {
    in_host(async || {
        let (a, _b) = pair();
        let epoll = Epoll::new();
        let (fd, itself) = (a.as_raw_fd(), epoll.0.as_raw_fd());
        assert_eq!(
            errno(epoll.control(EPOLL_CTL_MOD, fd, EPOLLIN, 1)),
            Some(libc::ENOENT)
        );
        assert_eq!(
            errno(epoll.control(EPOLL_CTL_DEL, fd, EPOLLIN, 1)),
            Some(libc::ENOENT)
        );
        assert_eq!(epoll.control(EPOLL_CTL_ADD, fd, EPOLLIN, 1), 0);
        assert_eq!(
            errno(epoll.control(EPOLL_CTL_ADD, fd, EPOLLIN, 1)),
            Some(libc::EEXIST)
        );
        assert_eq!(
            errno(epoll.control(EPOLL_CTL_ADD, itself, EPOLLIN, 1)),
            Some(libc::EINVAL)
        );
        // A real descriptor: standard output.
        assert_eq!(
            errno(epoll.control(EPOLL_CTL_ADD, 1, EPOLLIN, 1)),
            Some(libc::EPERM)
        );
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event.
        let waits = unsafe { libc::epoll_wait(itself, &mut event, 1, -1) };
        assert_eq!(errno(waits), Some(libc::EDEADLK));
    });
}

#[test]
fn an_eventfd_counts() {
    in_host(async || {
        // SAFETY: it takes no pointers, and gives a new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)) };
        let epoll = Epoll::new();
        assert_eq!(
            epoll.control(EPOLL_CTL_ADD, fd.as_raw_fd(), EPOLLIN | EPOLLET, 9),
            0
        );
        let mut file = std::fs::File::from(fd);
        let mut count = [0; 8];
        let empty = file.read(&mut count).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        for add in [2_u64, 3] {
            file.write_all(&add.to_ne_bytes()).unwrap();
        }
        assert_eq!(epoll.ready(), [(9, EPOLLIN)]);
        file.read_exact(&mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 5);
        assert_eq!(epoll.ready(), []);
    });
}

#[test]
fn poll_looks_and_does_not_wait() {
    in_host(async || {
        let (a, b) = pair();
        let look = |timeout| {
            let events = libc::POLLIN | libc::POLLOUT;
            let mut one = libc::pollfd {
                fd: b.as_raw_fd(),
                events,
                revents: 0,
            };
            // SAFETY: it is one entry.
            let count = unsafe { libc::poll(&mut one, 1, timeout) };
            (count, one.revents)
        };
        assert_eq!(look(0), (1, libc::POLLOUT));
        a.send(b"x").unwrap();
        arrival().await;
        assert_eq!(look(1_000), (1, libc::POLLIN | libc::POLLOUT));
        let mut gone = libc::pollfd {
            fd: 1 << 29,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: it is one entry.
        assert_eq!(unsafe { libc::poll(&mut gone, 1, 0) }, 1);
        assert_eq!(gone.revents, libc::POLLNVAL);
    });
}

#[test]
fn flags_of_receives_are_those_of_linux() {
    in_host(async || {
        let (a, b) = pair();
        SockRef::from(&a)
            .send_vectored(&[IoSlice::new(b"long"), IoSlice::new(b"er")])
            .unwrap();
        arrival().await;
        let socket = SockRef::from(&b);
        let mut buffer = [MaybeUninit::new(0); 4];
        let flags = libc::MSG_PEEK | libc::MSG_TRUNC;
        assert_eq!(
            socket.recv_with_flags(&mut buffer, flags).unwrap(),
            6,
            "its whole length"
        );
        assert_eq!(b.peek(&mut [0; 4]).unwrap(), 4);
        let mut waits: c_int = 0;
        // SAFETY: this request writes a number.
        unsafe { libc::ioctl(b.as_raw_fd(), libc::FIONREAD, &mut waits) };
        assert_eq!(waits, 6);
        let (mut first, mut second) = ([MaybeUninit::new(0); 1], [MaybeUninit::new(0); 3]);
        let mut buffers = [
            MaybeUninitSlice::new(&mut first),
            MaybeUninitSlice::new(&mut second),
        ];
        let (len, flags, from) = socket.recv_from_vectored(&mut buffers).unwrap();
        assert_eq!((len, flags.is_truncated()), (4, true));
        assert_eq!(from.as_socket(), Some(a.local_addr().unwrap()));
        // SAFETY: all of them were initialised from the begin.
        let bytes = [first[0], second[0], second[1], second[2]].map(|b| unsafe { b.assume_init() });
        assert_eq!(&bytes, b"long");
        // The rest is lost.
        let none = socket
            .recv_with_flags(&mut buffer, libc::MSG_DONTWAIT)
            .unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        let none = socket
            .recv_with_flags(&mut buffer, libc::MSG_OOB)
            .unwrap_err();
        assert_eq!(none.raw_os_error(), Some(libc::EINVAL));
    });
}

#[test]
fn two_numbers_of_one_socket_share_its_flags() {
    in_host(async || {
        let (a, b) = pair();
        let again = b.try_clone().unwrap();
        assert_ne!(again.as_raw_fd(), b.as_raw_fd());
        again.set_nonblocking(true).unwrap();
        let none = b.recv(&mut [0]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        drop(b);
        a.send(b"x").unwrap();
        arrival().await;
        assert_eq!(again.recv(&mut [0]).unwrap(), 1);
    });
}

// std aborts the process if a descriptor that it owns is not open.
#[test]
fn a_socket_that_outlives_its_run_is_closed_by_its_owner() {
    let kept = std::rc::Rc::new(std::cell::RefCell::new(None));
    let keeps = kept.clone();
    in_host(async move || {
        *keeps.borrow_mut() = Some(UdpSocket::bind("0.0.0.0:7").unwrap());
    });
    let outlives: UdpSocket = kept.take().expect("it was bound");
    let error = outlives.local_addr().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    in_host(async move || {
        let own = UdpSocket::bind("0.0.0.0:7").unwrap();
        assert_ne!(own.as_raw_fd(), outlives.as_raw_fd());
        drop(outlives);
        own.local_addr().expect("it is another one");
    });
}

// With a count that a slice cannot have.
#[test]
fn a_wrong_count_of_buffers_is_refused() {
    in_host(async || {
        let (socket, _peer) = pair();
        let fd = socket.as_raw_fd();
        for count in [-1, 1025] {
            // SAFETY: such a count is refused before a buffer is looked at.
            let (read, written) = unsafe {
                let read = libc::readv(fd, std::ptr::null(), count);
                let einval = io::Error::last_os_error().raw_os_error();
                assert_eq!(einval, Some(libc::EINVAL));
                (read, libc::writev(fd, std::ptr::null(), count))
            };
            assert_eq!((read, errno(written as c_int)), (-1, Some(libc::EINVAL)));
        }
        // SAFETY: nothing is written.
        let nothing = unsafe { libc::getrandom(std::ptr::null_mut(), 0, 0) };
        assert_eq!(nothing, 0);
    });
}

#[test]
fn outside_of_a_host_all_is_the_systems() {
    let (a, b) = pair();
    a.send(b"real").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(b.recv(&mut buffer).unwrap(), 4);
    assert!(b.as_raw_fd() < 1 << 28);
    let (mut left, mut right) = std::os::unix::net::UnixStream::pair().unwrap();
    left.write_all(b"pair").unwrap();
    right.read_exact(&mut buffer[..4]).unwrap();
    let epoll = Epoll::new();
    assert_eq!(epoll.control(EPOLL_CTL_ADD, a.as_raw_fd(), EPOLLOUT, 7), 0);
    assert_eq!(epoll.ready(), [(7, EPOLLOUT)]);
    let local = std::net::ToSocketAddrs::to_socket_addrs("localhost:80");
    assert!(local.unwrap().all(|addr| addr.ip().is_loopback()));
}

#[test]
fn random_bytes_by_the_number_of_the_call_are_the_seeds() {
    let bytes = || {
        let (send, receive) = std::sync::mpsc::channel();
        in_host(async move || {
            let mut bytes = [0u8; 16];
            let out = bytes.as_mut_ptr();
            // SAFETY: there are as many bytes.
            let got = unsafe { libc::syscall(libc::SYS_getrandom, out, bytes.len(), 0) };
            assert_eq!(got, 16);
            send.send(bytes).unwrap();
        });
        receive.recv().unwrap()
    };
    let first = bytes();
    assert_ne!(first, [0; 16]);
    assert_eq!(first, bytes());
}

unsafe extern "C" {
    fn get_nprocs() -> c_int;
    fn get_nprocs_conf() -> c_int;
    fn get_phys_pages() -> libc::c_long;
    fn get_avphys_pages() -> libc::c_long;
}

/// What libc tells of the memory, the load, and the time since the machine was started.
fn machine() -> (libc::sysinfo, [f64; 3], [libc::c_long; 4]) {
    // SAFETY: plain data.
    let mut about: [libc::sysinfo; 2] = unsafe { std::mem::zeroed() };
    let mut loads = [9.0; 3];
    // SAFETY: there is room for each answer.
    unsafe {
        assert_eq!(libc::sysinfo(&raw mut about[0]), 0);
        assert_eq!(libc::syscall(libc::SYS_sysinfo, &raw mut about[1]), 0);
        assert_eq!(libc::getloadavg(loads.as_mut_ptr(), 9), 3);
        let page = libc::sysconf(libc::_SC_PAGESIZE);
        let pages = [
            get_phys_pages(),
            get_avphys_pages(),
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_AVPHYS_PAGES),
        ];
        assert_eq!(about[0].totalram, about[1].totalram);
        (about[0], loads, pages.map(|pages| pages * page))
    }
}

#[test]
fn a_host_has_the_same_memory_and_no_load() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let (about, loads, [total, free, same_total, same_free]) = machine();
        assert_eq!((total, free), (same_total, same_free));
        let unit = u64::from(about.mem_unit);
        assert_eq!(total as u64, about.totalram * unit);
        assert_eq!(free as u64, about.freeram * unit);
        assert_eq!((total, free), (8 << 30, 4 << 30));
        assert_eq!((loads, about.loads), ([0.0; 3], [0; 3]));
        // SAFETY: plain data.
        let mut shown: libc::timespec = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for it.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut shown) };
        let uptime = i128::from(about.uptime);
        let seconds = i128::from(shown.tv_sec) + i128::from(shown.tv_nsec > 0);
        assert_eq!(uptime, seconds);
        ws::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(i128::from(machine().0.uptime), uptime + 90);
    });
    sim.try_run().unwrap();
    assert_ne!(machine().2[0], 0, "the machine's are as before");
}

#[test]
fn a_host_has_as_many_cpus_as_workers() {
    for workers in [1, 3, 70] {
        let sim = Sim::builder().workers(workers).build();
        sim.client("client", async move {
            let counted = std::thread::available_parallelism().unwrap().get();
            assert_eq!(counted, workers);
            // SAFETY: it takes no pointers.
            let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
            assert_eq!(online, workers as libc::c_long);
            // SAFETY: these take no pointers.
            let others = unsafe { [get_nprocs(), get_nprocs_conf(), libc::sched_getcpu()] };
            assert_eq!(others, [workers as c_int, workers as c_int, 0]);
            let (mut cpu, mut node) = (9_u32, 9_u32);
            // SAFETY: both numbers are valid for writes.
            let done = unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node) };
            assert_eq!((done, cpu, node), (0, 0, 0));
            // SAFETY: it takes no pointers.
            let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            assert!(page >= 4096, "{page}");
        });
        sim.try_run().unwrap();
    }
    let machine = std::thread::available_parallelism().unwrap().get();
    // SAFETY: it takes no pointers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    assert!(machine <= online as usize, "the machine's are as before");
}

#[test]
fn the_clocks_of_c_are_those_of_rust() {
    unsafe extern "C" {
        fn timespec_get(out: *mut libc::timespec, base: c_int) -> c_int;
        fn arc4random() -> u32;
    }
    let drawn = |seed| {
        let drawn = std::rc::Rc::new(std::cell::Cell::new(0));
        let told = drawn.clone();
        let sim = Sim::new(seed);
        sim.client("client", async move {
            sleep(Duration::from_millis(1_500)).await;
            let calendar = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap();
            let mut spec = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let mut seconds = 0;
            // SAFETY: the pointers are valid for a write.
            let answers = unsafe { (libc::time(&raw mut seconds), timespec_get(&raw mut spec, 1)) };
            assert_eq!(answers, (seconds, 1));
            assert_eq!(seconds as u64, calendar.as_secs());
            assert_eq!(
                (spec.tv_sec as u64, spec.tv_nsec as u32),
                (calendar.as_secs(), calendar.subsec_nanos())
            );
            // SAFETY: it takes no pointers.
            told.set(unsafe { arc4random() });
        });
        sim.try_run().unwrap();
        drawn.get()
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_mask_without_room_for_all_cpus_and_too_many_random_bytes_are_refused() {
    let error = || std::io::Error::last_os_error().raw_os_error();
    let sim = Sim::builder().workers(70).build();
    sim.client("client", async move {
        let mut mask = [0_u64; 2];
        let mut get = |size| {
            // SAFETY: there is room for 16 bytes.
            let got = unsafe { libc::sched_getaffinity(0, size, mask.as_mut_ptr().cast()) };
            (got, mask)
        };
        assert_eq!(get(8), (-1, [0; 2]));
        assert_eq!(error(), Some(libc::EINVAL));
        assert_eq!(get(16), (0, [u64::MAX, 0x3f]));
        let mut bytes = [0_u8; 257];
        // SAFETY: there is room for so many bytes.
        let mut draw = |len| unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), len) };
        assert_eq!((draw(256), draw(257)), (0, -1));
        assert_eq!(error(), Some(libc::EIO));
    });
    sim.try_run().unwrap();
}

#[test]
fn loads_are_three_and_atomic_time_is_the_calendar() {
    let sim = Sim::new(1);
    sim.client("client", async {
        let mut loads = [7.0; 5];
        // SAFETY: there is room for so many.
        let told = unsafe { libc::getloadavg(loads.as_mut_ptr(), 5) };
        assert_eq!((told, loads), (3, [0.0, 0.0, 0.0, 7.0, 7.0]));
        let shown = [libc::CLOCK_TAI, libc::CLOCK_REALTIME].map(|clock| {
            // SAFETY: plain data, which the call writes.
            unsafe {
                let mut now: libc::timespec = std::mem::zeroed();
                assert_eq!(libc::clock_gettime(clock, &raw mut now), 0);
                (now.tv_sec, now.tv_nsec)
            }
        });
        assert_eq!(shown[0], shown[1]);
    });
    sim.try_run().unwrap();
}
