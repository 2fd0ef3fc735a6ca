//! Options of sockets that are kept for `getsockopt`, and have no effect.
//!
//! Linux has them, and a program that sets one has to find its value again. A rule of Linux says
//! what the option is at first, and which values it takes. A connection that a listener accepts
//! begins with the values of the listener.

use std::{collections::BTreeMap, io};

use libc::{c_int, linger, timeval};

use crate::error::os;

/// The kinds of congestion control that are known, the usual one first.
pub(super) const CONGESTIONS: [&[u8]; 3] = [b"cubic", b"reno", b"bbr"];

/// What a socket is, as far as its options depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Tcp { v6: bool },
    Udp { v6: bool },
    Unix,
}

/// The values that were set.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    numbers: BTreeMap<(c_int, c_int), c_int>,
    /// The interface that it is bound to, and the congestion control. Both without effect.
    pub(super) device: Vec<u8>,
    pub(super) congestion: &'static [u8],
    /// 0 until somebody asks.
    pub(super) cookie: u64,
    pub(super) linger: linger,
    pub(super) receive_time: timeval,
    pub(super) send_time: timeval,
}

impl Default for Kept {
    fn default() -> Self {
        let no_time = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        Self {
            numbers: BTreeMap::new(),
            device: Vec::new(),
            congestion: CONGESTIONS[0],
            cookie: 0,
            linger: linger {
                l_onoff: 0,
                l_linger: 0,
            },
            receive_time: no_time,
            send_time: no_time,
        }
    }
}

/// What an option is at first, and what is kept of a value. None: Linux refuses it.
type Rule = (c_int, fn(c_int) -> Option<c_int>);

const SWITCH: Rule = (0, |value| Some((value != 0).into()));
const SWITCHED_ON: Rule = (1, |value| Some((value != 0).into()));
const NUMBER: Rule = (0, Some);

/// The bytes of a segment, whatever a program sets.
const SEGMENT: c_int = 1_460;

fn rule(of: Of, level: c_int, name: c_int) -> Option<Rule> {
    match (level, of) {
        (libc::SOL_SOCKET, _) => of_all(of, name),
        (libc::IPPROTO_TCP, Of::Tcp { .. }) => of_tcp(name),
        (libc::IPPROTO_IP, Of::Tcp { .. } | Of::Udp { .. }) => of_v4(of, name),
        (libc::IPPROTO_IPV6, Of::Tcp { v6: true } | Of::Udp { v6: true }) => of_v6(name),
        _ => None,
    }
}

fn of_all(of: Of, name: c_int) -> Option<Rule> {
    Some(match name {
        libc::SO_BROADCAST | libc::SO_OOBINLINE | libc::SO_KEEPALIVE => SWITCH,
        libc::SO_DEBUG | libc::SO_DONTROUTE => SWITCH,
        libc::SO_BUSY_POLL => (0, |value| (value >= 0).then_some(value)),
        libc::SO_REUSEADDR | libc::SO_PASSCRED if of == Of::Unix => SWITCH,
        libc::SO_PRIORITY | libc::SO_MARK => NUMBER,
        libc::SO_INCOMING_CPU => (-1, Some),
        libc::SO_RCVLOWAT => (1, |value| {
            Some(match value {
                ..0 => c_int::MAX,
                0 => 1,
                value => value,
            })
        }),
        _ => return None,
    })
}

fn of_tcp(name: c_int) -> Option<Rule> {
    Some(match name {
        libc::TCP_CORK | libc::TCP_THIN_LINEAR_TIMEOUTS => SWITCH,
        libc::TCP_QUICKACK => SWITCHED_ON,
        libc::TCP_DEFER_ACCEPT | libc::TCP_NOTSENT_LOWAT => NUMBER,
        libc::TCP_SYNCNT => (6, |value| (1..=127).contains(&value).then_some(value)),
        libc::TCP_MAXSEG => (SEGMENT, |value| match value {
            0 => Some(SEGMENT),
            88..=32_767 => Some(value),
            _ => None,
        }),
        _ => return None,
    })
}

fn of_v4(of: Of, name: c_int) -> Option<Rule> {
    Some(match name {
        libc::IP_TOS => match of {
            // The bits of ECN are TCP's own.
            Of::Tcp { .. } => (0, |value| Some(value & 0xfc)),
            _ => (0, |value| Some(value & 0xff)),
        },
        libc::IP_RECVTOS | libc::IP_PKTINFO | libc::IP_BIND_ADDRESS_NO_PORT => SWITCH,
        libc::IP_FREEBIND | libc::IP_TRANSPARENT => SWITCH,
        libc::IP_MTU_DISCOVER => (libc::IP_PMTUDISC_WANT, |value| {
            (libc::IP_PMTUDISC_DONT..=libc::IP_PMTUDISC_OMIT)
                .contains(&value)
                .then_some(value)
        }),
        libc::IP_MULTICAST_LOOP => SWITCHED_ON,
        libc::IP_MULTICAST_TTL => (1, |value| match value {
            -1 => Some(1),
            0..=255 => Some(value),
            _ => None,
        }),
        _ => return None,
    })
}

fn of_v6(name: c_int) -> Option<Rule> {
    /// -1 is the default again.
    fn hops<const DEFAULT: c_int>(value: c_int) -> Option<c_int> {
        match value {
            -1 => Some(DEFAULT),
            0..=255 => Some(value),
            _ => None,
        }
    }
    Some(match name {
        libc::IPV6_TCLASS => (0, hops::<0>),
        libc::IPV6_UNICAST_HOPS => (64, hops::<64>),
        libc::IPV6_MULTICAST_HOPS => (1, hops::<1>),
        libc::IPV6_RECVTCLASS | libc::IPV6_RECVPKTINFO | libc::IPV6_FREEBIND => SWITCH,
        libc::IPV6_DONTFRAG => SWITCH,
        libc::IPV6_MTU_DISCOVER => (libc::IP_PMTUDISC_WANT, |value| {
            (libc::IP_PMTUDISC_DONT..=libc::IP_PMTUDISC_OMIT)
                .contains(&value)
                .then_some(value)
        }),
        libc::IPV6_MULTICAST_LOOP => SWITCHED_ON,
        _ => return None,
    })
}

impl Kept {
    /// Whether a datagram must not be sent in fragments: `ip_sk_ignore_df` of Linux.
    pub(super) fn is_whole(&self, v6_socket: bool, to_v6: bool) -> bool {
        let of = Of::Udp { v6: v6_socket };
        let get = |level, name| self.get(of, level, name);
        let discover = if to_v6 {
            get(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER)
        } else {
            get(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        };
        let kept = to_v6 && get(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) == Some(1);
        kept || matches!(
            discover,
            Some(libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE | libc::IP_PMTUDISC_INTERFACE)
        )
    }

    /// The value of an option. None if it is none of these.
    pub(super) fn get(&self, of: Of, level: c_int, name: c_int) -> Option<c_int> {
        let (first, _) = rule(of, level, name)?;
        Some(self.numbers.get(&(level, name)).copied().unwrap_or(first))
    }

    /// Keeps the value of an option. None if it is none of these.
    pub(super) fn set(
        &mut self,
        of: Of,
        level: c_int,
        name: c_int,
        value: c_int,
    ) -> Option<io::Result<()>> {
        let (_, take) = rule(of, level, name)?;
        let kept = take(value).ok_or_else(|| os(libc::EINVAL));
        Some(kept.map(|kept| {
            self.numbers.insert((level, name), kept);
        }))
    }
}
