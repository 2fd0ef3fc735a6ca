//! Which requests are refused: those that a page of another host could make.
//!
//! A browser runs scripts of any host, and they can send requests to loopback. Two ways lead from
//! there to an answer that they may read, or to an effect:
//!
//! - *DNS rebinding.* The page's own name, say `evil.example`, is made to point to 127.0.0.1. For
//!   the browser that is the same host. The request names it: `Host: evil.example:7070`. So
//!   [`check`] takes no name but `localhost`, and numbers of loopback. Any port is taken, since the
//!   near end of an ssh tunnel has a port of its own.
//! - *Requests across sites.* Their answers cannot be read, but they have effects. Browsers mark
//!   them: by `Sec-Fetch-Site`, and by `Origin` if they could have one. A request without both is
//!   no browser's, or was typed by the user.
//!
//! What has an effect needs the token besides, in a header that no form and no image can send.

use std::net::IpAddr;

use super::http::Request;

/// The header with the token.
pub(super) const TOKEN: &str = "x-ws-inspect";

/// Why a request is refused, if it is.
pub(super) fn check(request: &Request) -> Result<(), (u16, &'static str)> {
    let Some(host) = request.header("host") else {
        return Err((400, "a request needs one `Host`"));
    };
    if !is_loopback(host) {
        return Err((
            403,
            "this page is for `localhost`, and not for other names that point here",
        ));
    }
    let origin = request.header("origin");
    let foreign_origin = match origin {
        Some(origin) => origin.strip_prefix("http://") != Some(host),
        None => request.has("origin"),
    };
    let foreign_site = match request.header("sec-fetch-site") {
        Some(site) => !matches!(site, "same-origin" | "none"),
        None => request.has("sec-fetch-site"),
    };
    if foreign_origin || foreign_site {
        return Err((
            403,
            "another page asks for this: if it was you, type the address into the browser",
        ));
    }
    Ok(())
}

/// Whether a `Host` is of this machine, by number or as `localhost`, with a port or without.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let number = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || number
            .unwrap_or(name)
            .parse()
            .is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The colon may be there without a port, as in `localhost:`.
fn is_port(port: &str) -> bool {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    is_number && (port.is_empty() || port.parse::<u16>().is_ok())
}

/// Whether a request has the token. It takes the same time whichever byte differs.
pub(super) fn has_token(request: &Request, token: &str) -> bool {
    let given = request.header(TOKEN).unwrap_or_default();
    let pairs = given.bytes().zip(token.bytes());
    given.len() == token.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_a_host() {
        for host in [
            "localhost",
            "LocalHost:7070",
            "127.0.0.1:7070",
            "127.8.9.1",
            "[::1]:7070",
            "[::1]",
            "localhost:",
            "127.0.0.1:",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example:7070",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "10.0.0.1:7070",
            "0.0.0.0:7070",
            "localhost:7070:7070",
            "localhost:99999",
            "localhost:+80",
            ":80",
            "[::2]:1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
