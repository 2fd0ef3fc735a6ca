//! A host has a name, addresses and a process of its own, and hosts are found by their names.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::{
    cell::RefCell,
    ffi::CStr,
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    rc::Rc,
    time::Duration,
};

use ws_sim::Sim;

/// Runs `f` in the host "n2", which is the second one.
fn in_second_host(f: impl FnOnce() + 'static) {
    let sim = Sim::new(1);
    sim.host("Server", std::future::pending::<()>);
    sim.client("n2", async move { f() });
    sim.try_run().unwrap();
}

fn host_name() -> String {
    let mut text = [0; 65];
    // SAFETY: there is room for so many bytes.
    let answer = unsafe { libc::gethostname(text.as_mut_ptr(), text.len()) };
    assert_eq!(answer, 0);
    // SAFETY: it ends with NUL.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().unwrap().to_owned()
}

fn node_name() -> String {
    // SAFETY: it is plain data, which the call writes. The name ends with NUL.
    unsafe {
        let mut all: libc::utsname = mem::zeroed();
        assert_eq!(libc::uname(&mut all), 0);
        let text = CStr::from_ptr(all.nodename.as_ptr());
        text.to_str().unwrap().to_owned()
    }
}

fn interfaces() -> Vec<(String, IpAddr)> {
    let mut all = Vec::new();
    // SAFETY: the list is read until its end, and freed once.
    unsafe {
        let mut list = ptr::null_mut();
        assert_eq!(libc::getifaddrs(&mut list), 0);
        let mut next = list;
        while let Some(one) = next.as_ref() {
            let name = CStr::from_ptr(one.ifa_name).to_str().unwrap().to_owned();
            let family = one.ifa_addr.as_ref().map(|addr| c_int(addr.sa_family));
            if family == Some(libc::AF_INET) {
                let addr = &*one.ifa_addr.cast::<libc::sockaddr_in>();
                let ip = u32::from_be(addr.sin_addr.s_addr);
                all.push((name, Ipv4Addr::from(ip).into()));
            } else if family == Some(libc::AF_INET6) {
                let addr = &*one.ifa_addr.cast::<libc::sockaddr_in6>();
                all.push((name, Ipv6Addr::from(addr.sin6_addr.s6_addr).into()));
            }
            next = one.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    all
}

fn numbers_of_interfaces() -> Vec<(u32, String)> {
    let mut all = Vec::new();
    // SAFETY: the list ends with zeros, and is freed once.
    unsafe {
        let list = libc::if_nameindex();
        assert!(!list.is_null());
        let mut next = list;
        while (*next).if_index != 0 {
            let name = CStr::from_ptr((*next).if_name).to_str().unwrap();
            all.push(((*next).if_index, name.to_owned()));
            next = next.add(1);
        }
        assert!((*next).if_name.is_null());
        libc::if_freenameindex(list);
    }
    all
}

fn c_int(family: libc::sa_family_t) -> libc::c_int {
    family.into()
}

#[test]
fn a_host_has_the_name_that_the_test_gave_it() {
    let real = (host_name(), node_name());
    assert_eq!(real.0, real.1);
    in_second_host(|| {
        assert_eq!((host_name(), node_name()), ("n2".into(), "n2".into()));
        let mut short = [0; 2];
        // SAFETY: there is room for so many bytes.
        let answer = unsafe { libc::gethostname(short.as_mut_ptr(), short.len()) };
        assert_eq!(answer, -1);
        assert_eq!(
            io::Error::last_os_error().raw_os_error(),
            Some(libc::ENAMETOOLONG)
        );
    });
    assert_eq!((host_name(), node_name()), real);
}

#[test]
fn a_host_sees_its_own_addresses() {
    assert!(!interfaces().is_empty());
    in_second_host(|| {
        let expected = [
            ("lo", "127.0.0.1"),
            ("lo", "::1"),
            ("eth0", "10.0.0.2"),
            ("eth0", "fd00::2"),
        ];
        let expected = expected.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap()));
        assert_eq!(interfaces(), expected);
        // SAFETY: the names end with NUL, and there is room for one.
        unsafe {
            assert_eq!(libc::if_nametoindex(c"eth0".as_ptr()), 2);
            assert_eq!(libc::if_nametoindex(c"wlan0".as_ptr()), 0);
            let mut name = [0; libc::IF_NAMESIZE];
            assert!(!libc::if_indextoname(1, name.as_mut_ptr()).is_null());
            assert_eq!(CStr::from_ptr(name.as_ptr()), c"lo");
            assert!(libc::if_indextoname(3, name.as_mut_ptr()).is_null());
        }
        let numbers = [(1, "lo".to_owned()), (2, "eth0".to_owned())];
        assert_eq!(numbers_of_interfaces(), numbers);
    });
    assert!(!numbers_of_interfaces().is_empty());
}

/// The numbers of the processes of two hosts. One of them starts again.
fn processes() -> Vec<(&'static str, u32)> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sim = Sim::new(3);
    let sees = seen.clone();
    sim.host("server", move || {
        sees.borrow_mut().push(("server", std::process::id()));
        std::future::pending::<()>()
    });
    let sees = seen.clone();
    sim.client("client", async move {
        sees.borrow_mut().push(("client", std::process::id()));
        ws::time::sleep(Duration::from_secs(2)).await;
        sees.borrow_mut().push(("client", std::process::id()));
    });
    sim.after(Duration::from_secs(1), |sim| {
        sim.crash("server");
        sim.restart("server");
    });
    sim.try_run().unwrap();
    seen.take()
}

#[test]
fn each_start_of_a_program_is_a_process_of_its_own() {
    let all = processes();
    assert_eq!(all, processes());
    let of = |name| {
        let own = all.iter().filter(move |(host, _)| *host == name);
        own.map(|(_, number)| *number).collect::<Vec<_>>()
    };
    let (server, client) = (of("server"), of("client"));
    assert_eq!((server.len(), client.len()), (2, 2), "{all:?}");
    assert_ne!(server[0], server[1]);
    assert_eq!(client[0], client[1]);
    assert!(!server.contains(&client[0]) && !client.contains(&std::process::id()));
}

#[test]
fn a_signal_of_a_host_to_itself_is_refused_and_reaches_nobody_else() {
    let outside = std::process::id() as libc::pid_t;
    in_second_host(move || {
        let own = std::process::id() as libc::pid_t;
        let send = |process, signal| {
            // SAFETY: it takes no pointers.
            match unsafe { libc::kill(process, signal) } {
                0 => 0,
                _ => io::Error::last_os_error().raw_os_error().unwrap(),
            }
        };
        assert_eq!(send(own, 0), 0);
        assert_eq!(send(outside, 0), libc::ESRCH);
        assert_eq!(send(outside, libc::SIGKILL), libc::ESRCH);
        assert_eq!(send(own, libc::SIGTERM), libc::ENOSYS);
    });
}

/// What changes nothing is allowed.
#[test]
fn who_a_process_is_and_its_limits_can_be_asked_for() {
    let outside = std::process::id() as libc::pid_t;
    let limit = |process| {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let resource = libc::RLIMIT_NOFILE;
        // SAFETY: there is room for a limit.
        let answer = unsafe { libc::prlimit(process, resource, ptr::null(), &mut limit) };
        (answer == 0).then_some((limit.rlim_cur, limit.rlim_max))
    };
    let real = limit(0);
    assert!(real.is_some());
    in_second_host(move || {
        let own = std::process::id() as libc::pid_t;
        assert_eq!((limit(0), limit(own), limit(outside)), (real, real, None));
        // SAFETY: the limit is valid, and the thread is there.
        unsafe {
            let mut limit = mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            assert_eq!(Some((limit.rlim_cur, limit.rlim_max)), real);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
            assert_eq!(libc::setuid(libc::getuid()), 0);
            assert_eq!(libc::setegid(libc::getegid()), 0);
            assert_eq!(libc::setreuid(libc::uid_t::MAX, libc::uid_t::MAX), 0);
            assert_eq!(libc::pthread_kill(libc::pthread_self(), 0), 0);
            let value = libc::sigval {
                sival_ptr: ptr::null_mut(),
            };
            assert_eq!(libc::sigqueue(own, 0, value), 0);
            assert_eq!(libc::sigqueue(outside, libc::SIGKILL, value), -1);
        }
    });
}

#[test]
fn names_of_hosts_have_no_case_and_may_end_with_a_dot() {
    let sim = Sim::new(1);
    sim.host("Server", std::future::pending::<()>);
    sim.client("client", async {
        for name in ["Server:1", "server:1", "SERVER:1", "server.:1"] {
            let all: Vec<_> = ws::net::lookup_host(name).await?.collect();
            let ips = ["10.0.0.1:1", "[fd00::1]:1"].map(|addr| addr.parse().unwrap());
            assert_eq!(all, ips, "{name}");
        }
        let own: Vec<_> = ws::net::lookup_host("LocalHost:1").await?.collect();
        assert_eq!(own.len(), 2);
        assert!(ws::net::lookup_host("server..:1").await.is_err());
        io::Result::Ok(())
    });
    sim.try_run().unwrap();
}

/// Asks for the name of an address.
fn name_of(ip: &str, flags: libc::c_int) -> Result<String, libc::c_int> {
    let mut text = [0; 128];
    // SAFETY: the address is one, and there is room for so many bytes.
    unsafe {
        let mut addr: libc::sockaddr_in = mem::zeroed();
        addr.sin_family = libc::AF_INET as libc::sa_family_t;
        addr.sin_port = 7_u16.to_be();
        addr.sin_addr.s_addr = u32::from(ip.parse::<Ipv4Addr>().unwrap()).to_be();
        let (room, no) = (text.len() as libc::socklen_t, ptr::null_mut());
        let len = mem::size_of_val(&addr) as libc::socklen_t;
        let at = (&raw const addr).cast();
        match libc::getnameinfo(at, len, text.as_mut_ptr(), room, no, 0, flags) {
            0 => Ok(CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_owned()),
            error => Err(error),
        }
    }
}

#[test]
fn an_address_of_a_host_has_its_name() {
    in_second_host(|| {
        let must = libc::NI_NAMEREQD;
        assert_eq!(name_of("10.0.0.1", must), Ok("Server".into()));
        assert_eq!(name_of("127.0.0.1", must), Ok("localhost".into()));
        assert_eq!(name_of("10.0.0.9", must), Err(libc::EAI_NONAME));
        assert_eq!(name_of("10.0.0.9", 0), Ok("10.0.0.9".into()));
        assert_eq!(
            name_of("10.0.0.1", libc::NI_NUMERICHOST),
            Ok("10.0.0.1".into())
        );
    });
}

#[test]
fn a_name_that_nobody_can_find_is_refused() {
    let long = "n".repeat(65);
    let bad = ["", "localhost", "LOCALHOST", "10.0.0.2", "fd00::2", "a\0b"];
    for name in bad.into_iter().chain(["a b", "a.", &long]) {
        let add = AssertUnwindSafe(|| Sim::new(1).host(name, std::future::pending::<()>));
        let panic = catch_unwind(add).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(
            text.contains("cannot be the name of a host: give"),
            "{text}"
        );
    }
    let sim = Sim::new(1);
    sim.host("server", std::future::pending::<()>);
    let again = AssertUnwindSafe(|| sim.host("SERVER", std::future::pending::<()>));
    assert!(catch_unwind(again).is_err());
}

#[test]
fn a_name_fits_if_there_is_room_for_it_and_its_nul() {
    in_second_host(|| {
        let mut text = [1; 4];
        // SAFETY: there is room for so many bytes.
        assert_eq!(unsafe { libc::gethostname(text.as_mut_ptr(), 3) }, 0);
        assert_eq!(text, [b'n', b'2', 0, 1].map(|byte| byte as libc::c_char));
    });
}

#[test]
fn a_host_is_a_group_of_processes_of_its_own() {
    in_second_host(|| {
        let own = std::process::id() as libc::pid_t;
        // SAFETY: these take no pointers.
        unsafe {
            for process in [own, -own, 0, -1] {
                assert_eq!(libc::kill(process, 0), 0, "{process}");
            }
            assert_eq!(libc::killpg(own, 0), 0);
            assert_eq!(libc::kill(-own - 1, 0), -1);
        }
    });
}

#[test]
fn interfaces_have_flags_and_masks() {
    in_second_host(|| {
        let mut seen = Vec::new();
        // SAFETY: the list is read until its end, and freed once. Each address has its mask.
        unsafe {
            let mut list = ptr::null_mut();
            assert_eq!(libc::getifaddrs(&mut list), 0);
            let mut next = list;
            while let Some(one) = next.as_ref() {
                let is_loop = one.ifa_flags & libc::IFF_LOOPBACK as u32 != 0;
                let mask = if c_int((*one.ifa_addr).sa_family) == libc::AF_INET {
                    let mask = &*one.ifa_netmask.cast::<libc::sockaddr_in>();
                    u32::from_be(mask.sin_addr.s_addr).count_ones()
                } else {
                    let mask = &*one.ifa_netmask.cast::<libc::sockaddr_in6>();
                    u128::from_be_bytes(mask.sin6_addr.s6_addr).count_ones()
                };
                seen.push((is_loop, mask));
                next = one.ifa_next;
            }
            libc::freeifaddrs(list);
        }
        assert_eq!(seen, [(true, 8), (true, 128), (false, 8), (false, 8)]);
    });
}

#[test]
fn a_text_without_room_for_its_nul_is_not_written() {
    in_second_host(|| {
        let ask = |room: libc::socklen_t, port_room: libc::socklen_t| {
            let (mut text, mut port) = ([1; 8], [1; 8]);
            // SAFETY: the address is one, and there is room for so many bytes.
            let answer = unsafe {
                let mut addr: libc::sockaddr_in = mem::zeroed();
                addr.sin_family = libc::AF_INET as libc::sa_family_t;
                addr.sin_port = 4_567_u16.to_be();
                addr.sin_addr.s_addr = u32::from(Ipv4Addr::new(10, 0, 0, 1)).to_be();
                let len = mem::size_of_val(&addr) as libc::socklen_t;
                let at = (&raw const addr).cast();
                let (text, port) = (text.as_mut_ptr(), port.as_mut_ptr());
                libc::getnameinfo(at, len, text, room, port, port_room, 0)
            };
            let bytes = |text: [libc::c_char; 8]| text.map(|one| one as u8);
            (answer, bytes(text), bytes(port))
        };
        let (kept, full) = ([1; 8], libc::EAI_OVERFLOW);
        assert_eq!(ask(6, 8), (full, kept, kept));
        let (name, port) = (*b"Server\0\x01", *b"4567\0\x01\x01\x01");
        assert_eq!(ask(7, 4), (full, name, kept));
        assert_eq!(ask(7, 5), (0, name, port));
    });
}
