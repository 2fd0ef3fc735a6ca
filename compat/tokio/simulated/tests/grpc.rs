//! tonic's server and channel: calls with one answer, with many, and with streams both ways.
//!
//! The service is written out, as `tonic-build` would generate it, so that no `protoc` is needed.

use tokio::{net::TcpListener, sync::mpsc};
use tokio_simulated::{Error, Faults, Protocol, again, check};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    client::Grpc as Client,
    codegen::{BoxFuture, BoxStream, Context, Poll, Service, http},
    server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService},
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

type Codec = ProstCodec<Numbers, Numbers>;

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

/// `rpc Each(Numbers) returns (stream Numbers)`: each number alone.
struct Each;

impl ServerStreamingService<Numbers> for Each {
    type Response = Numbers;
    type ResponseStream = BoxStream<Numbers>;
    type Future = BoxFuture<Response<BoxStream<Numbers>>, Status>;

    fn call(&mut self, request: Request<Numbers>) -> Self::Future {
        let given = request.into_inner().numbers;
        let each = tokio_stream::iter(given).map(|number| Ok(numbers([number])));
        Box::pin(async move { Ok(Response::new(Box::pin(each) as BoxStream<Numbers>)) })
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
        Box::pin(async move {
            let mut grpc = Grpc::new(Codec::default());
            Ok(match request.uri().path() {
                "/proof.Sums/Sum" => grpc.unary(Sum, request).await,
                "/proof.Sums/Each" => grpc.server_streaming(Each, request).await,
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
    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))
    }

    async fn sum(&mut self, given: Numbers) -> Result<u64, Status> {
        self.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/proof.Sums/Sum");
        let answer = self.0.unary(Request::new(given), path, Codec::default());
        Ok(answer.await?.into_inner().numbers[0])
    }

    async fn each(&mut self, given: Numbers) -> Result<Streaming<Numbers>, Status> {
        self.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/proof.Sums/Each");
        let answers = self
            .0
            .server_streaming(Request::new(given), path, Codec::default());
        Ok(answers.await?.into_inner())
    }

    async fn running(
        &mut self,
        messages: ReceiverStream<Numbers>,
    ) -> Result<Streaming<Numbers>, Status> {
        self.ready().await?;
        let path = http::uri::PathAndQuery::from_static("/proof.Sums/Running");
        let answers = self
            .0
            .streaming(Request::new(messages), path, Codec::default());
        Ok(answers.await?.into_inner())
    }
}

async fn serve(listener: TcpListener) -> Result<(), Error> {
    let router = Server::builder().add_service(Sums);
    Ok(router
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?)
}

fn channel(server: &str) -> Result<Endpoint, Error> {
    Ok(Endpoint::from_shared(format!("http://{server}"))?)
}

struct Calls;

impl Protocol for Calls {
    type Answers = Vec<String>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<String>, Error> {
        let mut client = SumsClient(Client::new(channel(&server)?.connect().await?));
        let mut said = Vec::new();
        let side_by_side: Vec<_> = (0..10)
            .map(|n| {
                let mut client = client.clone();
                tokio::spawn(async move { client.sum(numbers(0..=n)).await })
            })
            .collect();
        for call in side_by_side {
            said.push(call.await??.to_string());
        }
        let refused = client.sum(numbers([])).await.unwrap_err();
        said.push(format!("{:?}: {}", refused.code(), refused.message()));
        let mut each = client.each(numbers(0..30)).await?;
        while let Some(answer) = each.message().await? {
            said.push(format!("{answer:?}"));
        }
        // Each message is sent when the answer to the one before has come.
        let (send, messages) = mpsc::channel(1);
        let mut answers = client.running(ReceiverStream::new(messages)).await?;
        for n in 1..=10 {
            send.send(numbers([n; 1_000])).await?;
            said.push(format!("{:?}", answers.message().await?));
        }
        drop(send);
        said.push(format!("{:?}", answers.message().await?));
        Ok(said)
    }
}

/// A channel that connects by itself, and calls that are tried again.
struct Stubborn;

impl Protocol for Stubborn {
    type Answers = Vec<u64>;

    async fn serve(listener: TcpListener) -> Result<(), Error> {
        serve(listener).await
    }

    async fn ask(server: String) -> Result<Vec<u64>, Error> {
        let client = SumsClient(Client::new(channel(&server)?.connect_lazy()));
        let mut answers = Vec::new();
        for n in 0..20 {
            let call = again(|| async { Ok(client.clone().sum(numbers(0..n + 1)).await?) });
            answers.push(call.await);
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(answers)
    }
}

#[test]
fn calls_are_as_on_sockets() {
    check::<Calls>(0..200, Faults::Network);
}

#[test]
fn calls_are_answered_by_a_server_that_crashes() {
    check::<Stubborn>(0..200, Faults::Crashes);
}
