//! tonic's server and channel on its default transport.
//!
//! The service is written out, as `tonic-build` would generate it, so that no `protoc` is needed.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{
    Code, GrpcMethod, Request, Response, Status, Streaming,
    body::Body,
    client::Grpc as Client,
    codegen::{BoxFuture, BoxStream, Context, Poll, Service, http},
    server::{Grpc, NamedService, StreamingService, UnaryService},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct Numbers {
    #[prost(uint64, repeated, tag = "1")]
    numbers: Vec<u64>,
}

fn numbers(numbers: impl IntoIterator<Item = u64>) -> Numbers {
    Numbers {
        numbers: numbers.into_iter().collect(),
    }
}

/// The service `proof.Sums`. It knows how many calls of `Wait` run.
#[derive(Clone)]
struct Sums {
    waiting: watch::Sender<usize>,
    go: watch::Sender<bool>,
}

impl Sums {
    fn new() -> Self {
        Self {
            waiting: watch::Sender::new(0),
            go: watch::Sender::new(false),
        }
    }

    /// Waits until so many calls of `Wait` run.
    async fn are_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        waiting.wait_for(|now| *now == count).await.unwrap();
    }
}

impl NamedService for Sums {
    const NAME: &'static str = "proof.Sums";
}

/// `rpc Sum(Numbers) returns (Numbers)`: the sum of all; no numbers are an error.
struct Sum;

impl UnaryService<Numbers> for Sum {
    type Response = Numbers;
    type Future = BoxFuture<Response<Numbers>, Status>;

    fn call(&mut self, request: Request<Numbers>) -> Self::Future {
        Box::pin(async move {
            let given = request.into_inner().numbers;
            if given.is_empty() {
                return Err(Status::invalid_argument("no numbers"));
            }
            Ok(Response::new(numbers([given.iter().sum()])))
        })
    }
}

/// `rpc Wait(Numbers) returns (Numbers)`: the numbers, when the test says so.
struct Wait(Sums);

impl UnaryService<Numbers> for Wait {
    type Response = Numbers;
    type Future = BoxFuture<Response<Numbers>, Status>;

    fn call(&mut self, request: Request<Numbers>) -> Self::Future {
        struct Runs(watch::Sender<usize>);

        impl Drop for Runs {
            fn drop(&mut self) {
                self.0.send_modify(|count| *count -= 1);
            }
        }

        let Sums { waiting, go } = self.0.clone();
        Box::pin(async move {
            waiting.send_modify(|count| *count += 1);
            let _runs = Runs(waiting);
            go.subscribe().wait_for(|go| *go).await.unwrap();
            Ok(Response::new(request.into_inner()))
        })
    }
}

/// `rpc Running(stream Numbers) returns (stream Numbers)`: for each message the sum so far.
struct Running;

impl StreamingService<Numbers> for Running {
    type Response = Numbers;
    type ResponseStream = BoxStream<Numbers>;
    type Future = BoxFuture<Response<BoxStream<Numbers>>, Status>;

    fn call(&mut self, request: Request<Streaming<Numbers>>) -> Self::Future {
        let mut sum = 0;
        let answers = request.into_inner().map(move |message| {
            sum += message?.numbers.iter().sum::<u64>();
            Ok(numbers([sum]))
        });
        Box::pin(async move { Ok(Response::new(Box::pin(answers) as BoxStream<Numbers>)) })
    }
}

impl Service<http::Request<Body>> for Sums {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Numbers, Numbers>::default());
            Ok(match request.uri().path() {
                "/proof.Sums/Sum" => grpc.unary(Sum, request).await,
                "/proof.Sums/Wait" => grpc.unary(Wait(service), request).await,
                "/proof.Sums/Running" => grpc.streaming(Running, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The client of `proof.Sums`.
#[derive(Clone)]
struct SumsClient(Client<Channel>);

impl SumsClient {
    async fn connect(endpoint: &Endpoint) -> Result<Self, tonic::transport::Error> {
        Ok(Self(Client::new(endpoint.connect().await?)))
    }

    async fn unary(
        &mut self,
        path: &'static str,
        mut request: Request<Numbers>,
    ) -> Result<Numbers, Status> {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::unknown(error.to_string()))?;
        let method = GrpcMethod::new("proof.Sums", path);
        request.extensions_mut().insert(method);
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = ProstCodec::<Numbers, Numbers>::default();
        Ok(self.0.unary(request, path, codec).await?.into_inner())
    }

    async fn sum(&mut self, given: Numbers) -> Result<Numbers, Status> {
        self.unary("/proof.Sums/Sum", Request::new(given)).await
    }

    async fn wait(&mut self, request: Request<Numbers>) -> Result<Numbers, Status> {
        self.unary("/proof.Sums/Wait", request).await
    }

    async fn running(
        &mut self,
        messages: ReceiverStream<Numbers>,
    ) -> Result<Streaming<Numbers>, Status> {
        self.0.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/proof.Sums/Running");
        let codec = ProstCodec::<Numbers, Numbers>::default();
        let answers = self.0.streaming(Request::new(messages), path, codec);
        Ok(answers.await?.into_inner())
    }
}

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

/// Serves on a port of its own.
fn serve(mut server: Server, sums: &Sums) -> SocketAddr {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap();
    let router = server.add_service(sums.clone());
    tokio::spawn(router.serve_with_incoming(incoming));
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn unary_calls_are_answered() {
    let address = serve(Server::builder(), &Sums::new());
    let mut client = SumsClient::connect(&endpoint(address)).await.unwrap();
    let calls = (0..500).map(|n| {
        let mut client = client.clone();
        tokio::spawn(async move { client.sum(numbers(0..=n)).await })
    });
    for (n, call) in (0..).zip(calls.collect::<Vec<_>>()) {
        assert_eq!(call.await.unwrap().unwrap(), numbers([n * (n + 1) / 2]));
    }

    let status = client.sum(numbers([])).await.unwrap_err();
    let expected = (Code::InvalidArgument, "no numbers");
    assert_eq!((status.code(), status.message()), expected);
    let nothing = client.unary("/proof.Sums/Nothing", Request::new(numbers([])));
    assert_eq!(nothing.await.unwrap_err().code(), Code::Unimplemented);
}

/// Each message is sent when the answer to the one before has come.
#[tokio::test]
async fn streams_go_both_ways_at_once() {
    let address = serve(Server::builder(), &Sums::new());
    let mut client = SumsClient::connect(&endpoint(address)).await.unwrap();
    let (send, messages) = mpsc::channel(1);
    let mut answers = client.running(ReceiverStream::new(messages)).await.unwrap();
    for n in 1..=200 {
        send.send(numbers([n; 1_000])).await.unwrap();
        let sum = 1_000 * n * (n + 1) / 2;
        assert_eq!(answers.message().await.unwrap(), Some(numbers([sum])));
    }
    drop(send);
    assert_eq!(answers.message().await.unwrap(), None);
}

/// A deadline of the request, of the channel, and of the server. The server drops the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_at_its_deadline() {
    let limit = Duration::from_millis(100);
    for by in ["request", "channel", "server"] {
        let (mut server, sums) = (Server::builder(), Sums::new());
        if by == "server" {
            server = server.timeout(limit);
        }
        let mut endpoint = endpoint(serve(server, &sums));
        if by == "channel" {
            endpoint = endpoint.timeout(limit);
        }
        let mut client = SumsClient::connect(&endpoint).await.unwrap();
        let mut request = Request::new(numbers([1]));
        if by == "request" {
            request.set_timeout(limit);
        }
        let status = client.wait(request).await.unwrap_err();
        assert!(
            matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
            "{by}: {status:?}"
        );
        assert_eq!(status.message(), "Timeout expired", "{by}");
        sums.are_waiting(0).await;
    }
}

/// A proxy for one connection, which counts the pings of HTTP/2 and may stand still.
struct Proxy {
    address: SocketAddr,
    client_pings: watch::Sender<usize>,
    stands: oneshot::Sender<()>,
}

impl Proxy {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client_pings = watch::Sender::new(0);
        let pings = client_pings.clone();
        let (stands, stopped) = oneshot::channel();
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(server).await.unwrap();
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let up = async {
                let mut preface = [0; 24];
                from_client.read_exact(&mut preface).await?;
                to_server.write_all(&preface).await?;
                // Each frame begins with its length, its type and its flags.
                let mut frame = vec![0; 9];
                loop {
                    frame.resize(9, 0);
                    from_client.read_exact(&mut frame).await?;
                    let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
                    frame.resize(9 + length as usize, 0);
                    from_client.read_exact(&mut frame[9..]).await?;
                    to_server.write_all(&frame).await?;
                    if frame[3..5] == [6, 0] {
                        pings.send_modify(|count| *count += 1);
                    }
                }
            };
            let down = tokio::io::copy(&mut from_server, &mut to_client);
            tokio::select! {
                end = up => { let _: std::io::Result<()> = end; }
                _ = down => {}
                // Both connections stay open.
                _ = stopped => std::future::pending().await,
            }
        });
        Self {
            address,
            client_pings,
            stands,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_keep_an_idle_connection() {
    let proxy = Proxy::start(serve(Server::builder(), &Sums::new())).await;
    let endpoint = endpoint(proxy.address)
        .http2_keep_alive_interval(Duration::from_millis(20))
        .keep_alive_while_idle(true);
    let mut client = SumsClient::connect(&endpoint).await.unwrap();
    let mut pings = proxy.client_pings.subscribe();
    pings.wait_for(|count| *count >= 10).await.unwrap();
    // The proxy takes no second connection.
    assert_eq!(client.sum(numbers([1, 2])).await.unwrap(), numbers([3]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gives_up_a_server_that_stands_still() {
    let sums = Sums::new();
    let proxy = Proxy::start(serve(Server::builder(), &sums)).await;
    let endpoint = endpoint(proxy.address)
        .http2_keep_alive_interval(Duration::from_millis(50))
        .keep_alive_timeout(Duration::from_secs(1));
    let mut client = SumsClient::connect(&endpoint).await.unwrap();
    let call = tokio::spawn(async move { client.wait(Request::new(numbers([]))).await });
    sums.are_waiting(1).await;
    proxy.stands.send(()).unwrap();
    let status = call.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gives_up_a_client_that_stands_still() {
    let server = Server::builder()
        .http2_keepalive_interval(Some(Duration::from_millis(50)))
        .http2_keepalive_timeout(Some(Duration::from_secs(1)));
    let sums = Sums::new();
    let proxy = Proxy::start(serve(server, &sums)).await;
    let mut client = SumsClient::connect(&endpoint(proxy.address)).await.unwrap();
    let call = tokio::spawn(async move { client.wait(Request::new(numbers([]))).await });
    sums.are_waiting(1).await;
    proxy.stands.send(()).unwrap();
    sums.are_waiting(0).await;
    assert!(!call.is_finished());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_waits_for_the_call_under_way() {
    let sums = Sums::new();
    let (stop, stopped) = oneshot::channel::<()>();
    let address = SocketAddr::from(([127, 0, 0, 1], ws_test_servers::free_port()));
    let router = Server::builder().add_service(sums.clone());
    let server: JoinHandle<_> = tokio::spawn(router.serve_with_shutdown(address, async {
        let _ = stopped.await;
    }));
    let endpoint = endpoint(address);
    let mut client = loop {
        match SumsClient::connect(&endpoint).await {
            Ok(client) => break client,
            Err(error) => assert!(!server.is_finished(), "{error}"),
        }
        tokio::task::yield_now().await;
    };

    let mut second = client.clone();
    let call = tokio::spawn(async move { client.wait(Request::new(numbers([7]))).await });
    sums.are_waiting(1).await;
    stop.send(()).unwrap();
    // No new connection is taken, and the server still runs.
    while SumsClient::connect(&endpoint).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!server.is_finished() && !call.is_finished());
    sums.go.send_replace(true);
    assert_eq!(call.await.unwrap().unwrap(), numbers([7]));
    server.await.unwrap().unwrap();
    let late = second.sum(numbers([1])).await.unwrap_err();
    assert_eq!(late.code(), Code::Unavailable, "{late:?}");
}
