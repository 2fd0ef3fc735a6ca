//! Names of hosts.
//!
//! Inside a host, `getaddrinfo` knows the names of the simulated hosts, `localhost` and addresses
//! in numbers. Any other name is `EAI_NONAME`: the system's resolver is not asked.
//!
//! An answer is a list of [`Entry`]s, each a box of its own. `freeaddrinfo` tells them from the
//! system's by the table of those that are alive.
#![allow(unsafe_code)]

use std::{
    collections::BTreeSet,
    ffi::{CStr, CString},
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ptr,
    sync::{Mutex, PoisonError},
};

use libc::{addrinfo, c_char, c_int, c_void, sockaddr_storage, socklen_t};

use super::{addr, system::Function};
use crate::world;

/// One address of an answer.
#[repr(C)]
struct Entry {
    /// The first field, so that a pointer to it is one to the entry.
    info: addrinfo,
    addr: sockaddr_storage,
}

/// The addresses of the lists that are alive.
static ALIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

type GetAddrInfo = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const addrinfo,
    *mut *mut addrinfo,
) -> c_int;
type FreeAddrInfo = unsafe extern "C" fn(*mut addrinfo);

static GETADDRINFO: Function = Function::new(c"getaddrinfo");
static FREEADDRINFO: Function = Function::new(c"freeaddrinfo");

fn system_lookup() -> GetAddrInfo {
    // SAFETY: it is the function of that name.
    unsafe { mem::transmute(GETADDRINFO.address()) }
}

fn system_free() -> FreeAddrInfo {
    // SAFETY: it is the function of that name.
    unsafe { mem::transmute(FREEADDRINFO.address()) }
}

/// What a caller asks for.
struct Question<'a> {
    node: Option<&'a str>,
    service: Option<&'a str>,
    family: c_int,
    kind: c_int,
    protocol: c_int,
    flags: c_int,
}

/// Ports with names: those of `/etc/services` that programs use.
fn port_of(service: &str) -> Option<u16> {
    Some(match service {
        "ftp" => 21,
        "ssh" => 22,
        "telnet" => 23,
        "smtp" => 25,
        "domain" => 53,
        "http" => 80,
        "ntp" => 123,
        "imap2" => 143,
        "ldap" => 389,
        "https" => 443,
        "submission" => 587,
        "imaps" => 993,
        "mysql" => 3306,
        "postgresql" => 5432,
        "amqp" => 5672,
        "redis" => 6379,
        _ => return None,
    })
}

impl Question<'_> {
    fn addresses(&self) -> Result<Vec<SocketAddr>, c_int> {
        let port = match self.service {
            None => 0,
            Some(service) => match service.parse() {
                Ok(port) => port,
                Err(_) if self.flags & libc::AI_NUMERICSERV != 0 => return Err(libc::EAI_NONAME),
                Err(_) => port_of(service).ok_or(libc::EAI_SERVICE)?,
            },
        };
        let passive = self.flags & libc::AI_PASSIVE != 0;
        let all = match self.node {
            None if self.service.is_none() => return Err(libc::EAI_NONAME),
            None if passive => vec![
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ],
            None => vec![
                IpAddr::V6(Ipv6Addr::LOCALHOST),
                IpAddr::V4(Ipv4Addr::LOCALHOST),
            ],
            Some(node) => match node.parse() {
                Ok(ip) => vec![ip],
                Err(_) if self.flags & libc::AI_NUMERICHOST != 0 => return Err(libc::EAI_NONAME),
                Err(_) => world::with(|world| world.net.lookup(node)).unwrap_or_default(),
            },
        };
        let fits = |ip: &IpAddr| match self.family {
            libc::AF_INET => ip.is_ipv4(),
            libc::AF_INET6 => ip.is_ipv6(),
            _ => true,
        };
        let all = all.into_iter().filter(fits);
        let all: Vec<_> = all.map(|ip| SocketAddr::new(ip, port)).collect();
        if all.is_empty() {
            Err(libc::EAI_NONAME)
        } else {
            Ok(all)
        }
    }

    /// Kinds of sockets and their protocols, one entry of the answer each.
    fn kinds(&self) -> Vec<(c_int, c_int)> {
        let all = [
            (libc::SOCK_STREAM, libc::IPPROTO_TCP),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
        ];
        let fits = |(kind, protocol): &(c_int, c_int)| {
            [0, *kind].contains(&self.kind) && [0, *protocol].contains(&self.protocol)
        };
        all.into_iter().filter(fits).collect()
    }

    fn answer(&self) -> Result<*mut addrinfo, c_int> {
        if ![libc::AF_UNSPEC, libc::AF_INET, libc::AF_INET6].contains(&self.family) {
            return Err(libc::EAI_FAMILY);
        }
        let kinds = self.kinds();
        if kinds.is_empty() {
            return Err(libc::EAI_SOCKTYPE);
        }
        let mut list: *mut addrinfo = ptr::null_mut();
        let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
        for addr in self.addresses()?.into_iter().rev() {
            for &(kind, protocol) in kinds.iter().rev() {
                list = Entry::leak(addr, kind, protocol, list);
                alive.insert(list as usize);
            }
        }
        if let (Some(node), true) = (self.node, self.flags & libc::AI_CANONNAME != 0) {
            // A host has one name.
            let name = CString::new(node).map_err(|_| libc::EAI_NONAME)?;
            // SAFETY: the list has an entry, which came from `Entry::leak` just now.
            unsafe { (*list).ai_canonname = name.into_raw() };
        }
        Ok(list)
    }
}

impl Entry {
    fn leak(to: SocketAddr, kind: c_int, protocol: c_int, next: *mut addrinfo) -> *mut addrinfo {
        // SAFETY: it is plain data, and zero is a value of each field.
        let mut entry: Box<Self> = Box::new(unsafe { mem::zeroed() });
        let mut len = mem::size_of::<sockaddr_storage>() as socklen_t;
        let out = (&raw mut entry.addr).cast();
        // SAFETY: there is room for any address.
        unsafe { addr::write(to, out, &raw mut len) };
        entry.info.ai_family = if to.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        entry.info.ai_socktype = kind;
        entry.info.ai_protocol = protocol;
        entry.info.ai_addrlen = len;
        entry.info.ai_next = next;
        let entry = Box::into_raw(entry);
        // SAFETY: it was a box just now.
        unsafe { (*entry).info.ai_addr = (&raw mut (*entry).addr).cast() };
        entry.cast()
    }
}

/// # Safety
///
/// - It is null, or ends with NUL and lives long enough.
unsafe fn text<'a>(text: *const c_char) -> Result<Option<&'a str>, c_int> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: by contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| libc::EAI_NONAME)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    out: *mut *mut addrinfo,
) -> c_int {
    if world::current_host().is_none() {
        // SAFETY: by the contract of libc.
        return unsafe { system_lookup()(node, service, hints, out) };
    }
    // SAFETY: by the contract of libc.
    let (node, service, hints) = unsafe { (text(node), text(service), hints.as_ref()) };
    let answer = node.and_then(|node| {
        let question = Question {
            node,
            service: service?,
            family: hints.map_or(libc::AF_UNSPEC, |hints| hints.ai_family),
            kind: hints.map_or(0, |hints| hints.ai_socktype),
            protocol: hints.map_or(0, |hints| hints.ai_protocol),
            flags: hints.map_or(0, |hints| hints.ai_flags),
        };
        question.answer()
    });
    match answer {
        Ok(list) => {
            // SAFETY: by the contract of libc.
            unsafe { ptr::write(out, list) };
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeaddrinfo(list: *mut addrinfo) {
    let mut next = list;
    while !next.is_null() {
        let ours = {
            let mut alive = ALIVE.lock().unwrap_or_else(PoisonError::into_inner);
            alive.remove(&(next as usize))
        };
        if !ours {
            // A list is all ours or all the system's.
            // SAFETY: by the contract of libc.
            return unsafe { system_free()(next) };
        }
        // SAFETY: it came from `Entry::leak`, and is not alive any more.
        let entry = unsafe { Box::from_raw(next.cast::<Entry>()) };
        if !entry.info.ai_canonname.is_null() {
            // SAFETY: it came from `CString::into_raw`, and is freed once.
            drop(unsafe { CString::from_raw(entry.info.ai_canonname) });
        }
        next = entry.info.ai_next;
    }
}

/// The functions of this file, for [`is_linked`](super::is_linked).
pub(super) const PART: &[*const c_void] =
    &[getaddrinfo as *const c_void, freeaddrinfo as *const c_void];
