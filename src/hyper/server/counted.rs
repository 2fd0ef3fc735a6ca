//! The service with its requests counted: each from its head to the end of its answer.
//!
//! The end is there when hyper has sent the last part of the body, and not when it has taken it. On
//! HTTP/2, a part stays with hyper until the client has opened its window for all of it, and the
//! body may be dropped before.
//!
//! An error of the service or of a body is told here, since hyper keeps those of HTTP/2 to itself.
//! hyper gets it as a [`Failed`], so that it is told once.

use std::{
    error::Error,
    fmt,
    io::IoSlice,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::hyper::{
    Method, Request, Response, StatusCode, Version,
    body::{Body, Buf, Bytes, Frame, Incoming, SizeHint},
    service::Service,
};
use pin_project_lite::pin_project;

use super::{BoxError, InFlight, Open, Unsent};

#[derive(Clone, Debug)]
pub(super) struct Counted<S> {
    service: S,
    open: Arc<Open>,
}

impl<S> Counted<S> {
    pub(super) fn new(service: S, open: Arc<Open>) -> Self {
        Self { service, open }
    }
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    type Response = Response<CountedBody<B>>;
    type Error = Failed;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // Not at its first poll: hyper looks for the client's end before that.
        let in_flight = Arc::new(InFlight::new(self.open.clone()));
        Answering {
            connects: request.method() == Method::CONNECT,
            version: request.version(),
            future: self.service.call(request),
            in_flight,
            open: self.open.clone(),
        }
    }
}

pin_project! {
    /// The future of an answer.
    pub(super) struct Answering<F> {
        #[pin]
        future: F,
        in_flight: Arc<InFlight>,
        open: Arc<Open>,
        connects: bool,
        version: Version,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<CountedBody<B>>, Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.future.poll(cx));
        let in_flight = this.in_flight.clone();
        let answer =
            answer.map_err(|error| Failed::told("the service failed", error, this.open))?;
        let status = answer.status();
        match *this.version {
            Version::HTTP_2 if *this.connects && status.is_success() => this.open.add_tunnel(),
            Version::HTTP_2 => {}
            _ if status == StatusCode::SWITCHING_PROTOCOLS
                || *this.connects && status.is_success() =>
            {
                this.open.upgrade();
            }
            _ => {}
        }
        Poll::Ready(Ok(answer.map(|body| CountedBody { body, in_flight })))
    }
}

pin_project! {
    /// The body of an answer.
    pub(super) struct CountedBody<B> {
        #[pin]
        body: B,
        in_flight: Arc<InFlight>,
    }
}

impl<B: Body<Error: Into<BoxError>>> Body for CountedBody<B> {
    type Data = CountedData<B::Data>;
    type Error = Failed;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Failed>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame.map_err(|error| {
                Failed::told("the body of an answer failed", error, this.in_flight.open())
            })?;
            Ok(frame.map_data(|data| CountedData {
                data,
                unsent: Unsent::new(this.in_flight.clone()),
            }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A part of the body of an answer.
pub(super) struct CountedData<D> {
    data: D,
    unsent: Unsent,
}

impl<D: Buf> Buf for CountedData<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, len: usize) {
        self.unsent.step();
        self.data.advance(len);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        self.unsent.step();
        self.data.copy_to_bytes(len)
    }
}

/// What failed. Its source is the error, which hyper may look into for a reset's reason of HTTP/2.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    what: &'static str,
    error: Arc<dyn Error + Send + Sync>,
}

impl Failed {
    fn told(what: &'static str, error: impl Into<BoxError>, open: &Open) -> Self {
        let error = error.into().into();
        let this = Self { what, error };
        open.tell(this.clone().into());
        this
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.error)
    }
}
