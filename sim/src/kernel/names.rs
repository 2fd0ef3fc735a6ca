//! Names of hosts.
//!
//! Inside a host, `getaddrinfo` knows the names of the simulated hosts, `localhost` and addresses
//! in numbers. Any other name is `EAI_NONAME`: the system's resolver is not asked. `getnameinfo`
//! knows the same hosts. The older `gethostbyname` and its kin are refused.
//!
//! An answer is a list of [`Entry`]s, each a box of its own. `freeaddrinfo` tells them from the
//! system's by the table of those that are alive.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString},
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ptr,
};

use libc::{addrinfo, c_char, c_int, c_void, sockaddr_storage, socklen_t};

use super::{addr, lists::Lists, system::system};
use crate::world;

/// One address of an answer.
#[repr(C)]
struct Entry {
    /// The first field, so that a pointer to it is one to the entry.
    info: addrinfo,
    addr: sockaddr_storage,
}

/// An address of another family than the one that is asked for. The package `libc` has no name for
/// it.
const EAI_ADDRFAMILY: c_int = -9;

/// The addresses of the lists that are alive.
static ALIVE: Lists = Lists::new();

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

/// The port that a number stands for, as glibc reads it: with spaces and a sign before it, and the
/// lower bits of a large one. None if it is no number, and no port if it is below zero.
fn number_of(service: &str) -> Option<Option<u16>> {
    let text = service.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = match digits.parse::<u64>() {
        Ok(number) if is_negative => number.wrapping_neg(),
        Ok(number) => number,
        Err(_) => u64::MAX,
    } as c_int;
    Some((number >= 0).then_some(number as u16))
}

impl Question<'_> {
    fn addresses(&self) -> Result<Vec<SocketAddr>, c_int> {
        let port = match self.service {
            None => 0,
            Some("") => 0,
            Some(service) => match number_of(service) {
                // A name may begin with a sign, but has no port then.
                Some(number) => number.ok_or(libc::EAI_SERVICE)?,
                None if self.flags & libc::AI_NUMERICSERV != 0 => return Err(libc::EAI_NONAME),
                None => port_of(service).ok_or(libc::EAI_SERVICE)?,
            },
        };
        let passive = self.flags & libc::AI_PASSIVE != 0;
        let is_number = |node: &str| node.parse::<IpAddr>().is_ok();
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
        let all = self.of_family(&all);
        match self.node {
            _ if !all.is_empty() => Ok(all.iter().map(|ip| SocketAddr::new(*ip, port)).collect()),
            Some(node) if is_number(node) => Err(EAI_ADDRFAMILY),
            _ => Err(libc::EAI_NONAME),
        }
    }

    /// The addresses of the family that is asked for. Those of IPv4 may be given as ones of
    /// IPv6, and are understood so.
    fn of_family(&self, all: &[IpAddr]) -> Vec<IpAddr> {
        let fits = |ip: &IpAddr| match self.family {
            libc::AF_INET => Some(ip.to_canonical()).filter(IpAddr::is_ipv4),
            libc::AF_INET6 => Some(*ip).filter(IpAddr::is_ipv6),
            _ => Some(*ip),
        };
        let mut fit: Vec<_> = all.iter().filter_map(fits).collect();
        let maps = self.family == libc::AF_INET6 && self.flags & libc::AI_V4MAPPED != 0;
        if maps && (fit.is_empty() || self.flags & libc::AI_ALL != 0) {
            fit.extend(all.iter().filter_map(|ip| match ip {
                IpAddr::V4(ip) => Some(IpAddr::V6(ip.to_ipv6_mapped())),
                IpAddr::V6(_) => None,
            }));
        }
        fit
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
        for addr in self.addresses()?.into_iter().rev() {
            for &(kind, protocol) in kinds.iter().rev() {
                list = Entry::leak(addr, kind, protocol, list);
                ALIVE.add(list);
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
        let system = system!(getaddrinfo: fn(
            *const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo
        ) -> c_int);
        // SAFETY: by the contract of libc.
        return unsafe { system(node, service, hints, out) };
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
        if !ALIVE.remove(next) {
            // A list is all ours or all the system's.
            let system = system!(freeaddrinfo: fn(*mut addrinfo) -> ());
            // SAFETY: by the contract of libc.
            return unsafe { system(next) };
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
