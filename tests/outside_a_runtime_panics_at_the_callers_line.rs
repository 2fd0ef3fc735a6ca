//! Making a socket or a listener for signals outside of a runtime panics at the user's line, and
//! the message says the way out.
//!
//! Fails if a `#[track_caller]` is lost anywhere on the way.

use std::cell::Cell;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Once;
use std::task::{Context, Waker};

use ws::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};
use ws::process::Child;
use ws::signal::ctrl_c;

thread_local! {
    /// Where the next panic of this thread is expected.
    static EXPECTED: Cell<Option<u32>> = const { Cell::new(None) };
    /// Where it was, and what it said.
    static SEEN: Cell<Option<(String, u32, String)>> = const { Cell::new(None) };
}

/// Says that the line after this one panics.
fn below(line: u32) {
    EXPECTED.set(Some(line + 1));
}

/// Runs `code`, which has to say [`below`] and panic there, and returns the message.
fn panics(code: impl FnOnce()) -> String {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if EXPECTED.get().is_none() {
                return others(info);
            }
            let location = info.location().expect("it is known in every panic");
            let message = info.payload().downcast_ref::<String>();
            SEEN.set(Some((
                location.file().to_owned(),
                location.line(),
                message.cloned().unwrap_or_default(),
            )));
        }));
    });
    let caught = panic::catch_unwind(AssertUnwindSafe(code));
    let expected = EXPECTED.take().expect("the code says where it panics");
    assert!(caught.is_err(), "no panic on line {expected}");
    let (file, line, message) = SEEN.take().expect("the hook was called");
    assert_eq!((file.as_str(), line), (file!(), expected), "{message}");
    assert!(message.contains("outside of a ws runtime"), "{message}");
    assert!(message.contains("`Handle::enter`"), "{message}");
    message
}

/// Polls once, as a foreign executor would.
#[track_caller]
fn poll(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn functions_panic_where_they_are_called() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpSocket::new_v4().unwrap();

    let message = panics(|| {
        below(line!());
        drop(TcpListener::from_std(tcp));
    });
    assert!(
        message.starts_with("ws::net::TcpListener was used"),
        "{message}"
    );
    panics(|| {
        below(line!());
        drop(socket.listen(1));
    });
    panics(|| {
        let ends_at_once = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(ends_at_once);
        let child = child.arg("--list").stdout(Stdio::null()).spawn().unwrap();
        below(line!());
        drop(Child::new(child));
    });
}

/// What Unix alone has.
#[cfg(unix)]
mod unix {
    use ws::{
        io::AsyncFd,
        net::{UnixDatagram, UnixListener, UnixStream},
        signal::unix::{SignalKind, signal},
    };

    use super::{below, panics, poll};

    #[test]
    fn functions_panic_where_they_are_called() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (number, mio) = ws_reactor::pipe::new().unwrap();

        let message = panics(|| {
            below(line!());
            drop(UnixStream::from_std(one));
        });
        assert!(
            message.starts_with("ws::net::UnixStream was used"),
            "{message}"
        );
        panics(|| {
            below(line!());
            drop(UnixStream::try_from(other));
        });
        panics(|| {
            below(line!());
            drop(UnixStream::pair());
        });
        panics(|| {
            below(line!());
            drop(UnixDatagram::pair());
        });
        panics(|| {
            below(line!());
            drop(UnixDatagram::unbound());
        });
        panics(|| {
            below(line!());
            drop(AsyncFd::new(number));
        });
        panics(|| {
            below(line!());
            drop(AsyncFd::from_source(mio));
        });
        panics(|| {
            below(line!());
            drop(signal(SignalKind::user_defined1()));
        });
    }

    #[test]
    fn a_path_is_not_made_before_the_panic() {
        let path = std::env::temp_dir().join(format!("ws-test-outside-{}", std::process::id()));
        panics(|| {
            below(line!());
            drop(UnixListener::bind(&path));
        });
        assert!(!path.exists());
        panics(|| {
            below(line!());
            drop(UnixDatagram::bind(&path));
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_connect_panics_where_it_is_awaited() {
        panics(|| {
            poll(async {
                below(line!());
                drop(UnixStream::connect("nowhere").await);
            })
        });
    }
}

#[test]
fn futures_panic_where_they_are_awaited() {
    panics(|| {
        poll(async {
            let connect = TcpStream::connect("127.0.0.1:1");
            below(line!());
            drop(connect.await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(TcpListener::bind("127.0.0.1:0").await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(UdpSocket::bind("127.0.0.1:0").await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(lookup_host("localhost:80").await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(ctrl_c().await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(ws::fs::read("Cargo.toml").await);
        })
    });
    panics(|| {
        poll(async {
            below(line!());
            drop(ws::fs::File::open("Cargo.toml").await);
        })
    });
    panics(|| {
        let file = ws::fs::File::from_std(std::fs::File::open("Cargo.toml").unwrap());
        poll(async {
            below(line!());
            drop(file.metadata().await);
        })
    });
}

// For futures that are polled by a combinator of somebody else's, whose line the panic then has.
#[test]
fn the_place_of_the_call_is_in_the_message() {
    let (called_at, connect) = (line!(), TcpStream::connect("127.0.0.1:1"));
    let message = panics(|| {
        below(line!());
        poll(connect);
    });
    assert!(
        message.contains(&format!("{}:{called_at}:", file!())),
        "{message}"
    );
}

#[test]
fn what_is_made_outside_and_awaited_inside_works() {
    let runtime = ws::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let _guard = runtime.enter();
    let listener = TcpListener::from_std(listener.into_std().unwrap());
    drop(listener.unwrap());
}
