//! Proof 4: a tonic server and channel: unary calls, streams in both directions, and the health
//! service.
//!
//! The service is written out, as `tonic-build` would generate it, so that no `protoc` is needed.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::http;
use futures::{Stream, StreamExt, future::BoxFuture, stream};
use hyper::server::conn::http2;
use hyper_util::service::TowerToHyperService;
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    client::Grpc as Client,
    codegen::http::uri::PathAndQuery,
    server::{Grpc as Server, NamedService, StreamingService, UnaryService},
    service::Routes,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_prost::ProstCodec;
use tower_service::Service;
use ws::{
    hyper::{Executor, Io, Timer},
    hyper_util::Connector,
    net::TcpListener,
};

use crate::harness::proofs;

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

/// The service `proof.Sums`.
#[derive(Clone)]
struct Sums;

impl NamedService for Sums {
    const NAME: &'static str = "proof.Sums";
}

/// `rpc Sum(Numbers) returns (Numbers)`: the sum of all; no numbers are an error.
impl UnaryService<Numbers> for Sums {
    type Response = Numbers;
    type Future = BoxFuture<'static, Result<Response<Numbers>, Status>>;

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

type Answers = Pin<Box<dyn Stream<Item = Result<Numbers, Status>> + Send>>;

/// `rpc Running(stream Numbers) returns (stream Numbers)`: for each message the sum so far.
impl StreamingService<Numbers> for Sums {
    type Response = Numbers;
    type ResponseStream = Answers;
    type Future = BoxFuture<'static, Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<Numbers>>) -> Self::Future {
        let answers = request.into_inner().scan(0, |sum, message| {
            let answer = message.map(|message| {
                *sum += message.numbers.iter().sum::<u64>();
                numbers([*sum])
            });
            futures::future::ready(Some(answer))
        });
        Box::pin(async move { Ok(Response::new(answers.boxed() as Answers)) })
    }
}

impl Service<http::Request<Body>> for Sums {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Server::new(ProstCodec::<Numbers, Numbers>::default());
            Ok(match request.uri().path() {
                "/proof.Sums/Sum" => grpc.unary(Sums, request).await,
                "/proof.Sums/Running" => grpc.streaming(Sums, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// Serves `routes`, and connects to them.
async fn connect(routes: Routes) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TowerToHyperService::new(routes.into_axum_router());
    ws::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = http2::Builder::new(Executor)
                .timer(Timer)
                .serve_connection(Io::socket(stream), service.clone());
            ws::spawn(connection);
        }
    });
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .executor(Executor)
        .connect_with_connector(Connector::new())
        .await
        .unwrap()
}

async fn sum(channel: Channel, given: Numbers) -> Result<Numbers, Status> {
    let mut client = Client::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/proof.Sums/Sum");
    let answer = client
        .unary(
            Request::new(given),
            path,
            ProstCodec::<Numbers, Numbers>::default(),
        )
        .await?;
    Ok(answer.into_inner())
}

proofs! {
    /// 2,000 calls, 32 at a time on one connection, each with its own answer; an error keeps its
    /// code.
    async fn unary(env) {
        let channel = connect(Routes::new(Sums)).await;
        let answers: Vec<Numbers> = stream::iter(0..2_000)
            .map(|n| ws::spawn(sum(channel.clone(), numbers(0..=n))))
            .buffered(32)
            .map(|answer| answer.unwrap().unwrap())
            .collect()
            .await;
        assert_eq!(answers.len(), 2_000);
        for (n, answer) in (0..).zip(answers) {
            assert_eq!(answer, numbers([n * (n + 1) / 2]));
        }

        let status = sum(channel.clone(), numbers([])).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "no numbers"));
    }

    /// 1,000 messages up and 1,000 down in one call, each answer to the messages so far.
    async fn streaming(env) {
        let channel = connect(Routes::new(Sums)).await;
        let mut client = Client::new(channel);
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/proof.Sums/Running");
        let sent = stream::iter(0..1_000).map(|n| numbers([n; 10]));
        let codec = ProstCodec::<Numbers, Numbers>::default();
        let mut answers = client.streaming(Request::new(sent), path, codec).await.unwrap().into_inner();
        let mut expected = 0;
        for n in 0..1_000 {
            expected += n * 10;
            assert_eq!(answers.message().await.unwrap(), Some(numbers([expected])));
        }
        assert_eq!(answers.message().await.unwrap(), None);
    }

    /// The health service answers, and tells its watchers of each change.
    async fn health(env) {
        let (reporter, health) = tonic_health::server::health_reporter();
        let channel = connect(Routes::new(Sums).add_service(health)).await;
        let mut client = HealthClient::new(channel.clone());
        let service = || HealthCheckRequest { service: Sums::NAME.to_owned() };

        assert_eq!(client.check(service()).await.unwrap_err().code(), Code::NotFound);
        reporter.set_serving::<Sums>().await;
        assert_eq!(client.check(service()).await.unwrap().into_inner().status(), ServingStatus::Serving);

        let mut changes = client.watch(service()).await.unwrap().into_inner();
        assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        for _ in 0..100 {
            reporter.set_not_serving::<Sums>().await;
            assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
            reporter.set_serving::<Sums>().await;
            assert_eq!(changes.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        }
        assert_eq!(sum(channel, numbers([1, 2])).await.unwrap(), numbers([3]));
    }
}
