//! The same on Unix sockets.

use std::{
    future::poll_fn,
    io,
    panic::resume_unwind,
    pin::Pin,
    task::{Context, Poll},
};

use futures::channel::{mpsc, oneshot};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    client::conn::http2,
    service::service_fn,
};
use ws::{
    hyper::{Executor, Io, Listener, Server},
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UnixListener, UnixStream},
};

use super::{SHORT, UNREAD, answer, request};
use crate::net_support::Folder;

/// A body that fails behind its head.
#[derive(Default)]
struct Broken(bool);

impl Body for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0 = !self.0;
        let part = Frame::data(Bytes::from_static(b"part"));
        let part = if self.0 {
            Ok(part)
        } else {
            Err(io::Error::other("broken"))
        };
        Poll::Ready(Some(part))
    }
}

#[ws::test]
async fn a_client_that_is_gone_is_seen_on_a_unix_socket() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = Server::new().ended_time(SHORT);
    let (counts, (stop, stopped)) = (server.counts(), oneshot::channel::<()>());
    let serving = ws::spawn(server.serve(listener, service_fn(answer), stopped));
    let mut client = UnixStream::connect(&path).await.unwrap();
    let said = UNREAD[0].replace("/slow", "/never");
    client.write_all(said.as_bytes()).await.unwrap();
    while counts.requests_in_flight() == 0 {
        ws::task::yield_now().await;
    }
    drop(client);
    while counts.connections_open() > 0 {
        ws::task::yield_now().await;
    }
    drop(stop);
    assert_eq!(serving.await.unwrap().cut_off, 0);
}

#[ws::test]
async fn errors_of_ours_are_told_and_those_of_clients_are_not() {
    let folder = Folder::new();
    let address = folder.path("socket");
    let listener = UnixListener::bind(&address).unwrap();
    let (told, mut errors) = mpsc::unbounded();
    let server = Server::new().on_error(move |error| told.unbounded_send(error).unwrap());
    let broken = service_fn(|request: Request<Incoming>| async move {
        match request.uri().path() {
            "/panic" => resume_unwind(Box::new("on purpose")),
            "/refuse" => Err(io::Error::other("refused")),
            _ => Ok(Response::new(Broken::default())),
        }
    });
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = ws::spawn(server.serve(listener, broken, stopped));
    let mut all = Vec::new();
    for path in [None, Some("/"), Some("/refuse"), Some("/panic")] {
        let said = path.map_or("no http at all\r\n\r\n".to_owned(), request);
        let mut client = UnixStream::connect(&address).await.unwrap();
        client.write_all(said.as_bytes()).await.unwrap();
        all.clear();
        client.read_to_end(&mut all).await.unwrap();
    }
    let client = Io::socket(UnixStream::connect(&address).await.unwrap());
    let (mut send, connection) = http2::handshake(Executor, client).await.unwrap();
    let connection = ws::spawn(connection);
    for path in ["/", "/refuse"] {
        let answer = send.send_request(Request::get(path).body(String::new()).unwrap());
        if let Ok(mut answer) = answer.await {
            let mut body = Pin::new(answer.body_mut());
            while let Some(Ok(_)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {}
        }
    }
    drop((send, stop));
    connection.await.unwrap().unwrap();
    serving.await.unwrap();
    let mut said = Vec::new();
    while let Ok(error) = errors.try_recv() {
        let source = error.source().map(ToString::to_string);
        said.push(source.unwrap_or_else(|| error.to_string()));
    }
    let panic = said.remove(2);
    assert!(panic.contains("panicked"), "{panic}");
    assert_eq!(said, ["broken", "refused", "broken", "refused"]);
}

/// Both kinds of listeners serve, and nothing else has to.
#[test]
fn listeners_are_those_of_net() {
    fn is_listener<L: Listener>() {}
    is_listener::<TcpListener>();
    is_listener::<UnixListener>();
}
