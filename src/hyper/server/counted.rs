//! The service with its requests counted: each from its head to the end of its answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming, SizeHint},
    service::Service,
};
use pin_project_lite::pin_project;

use super::{InFlight, Open};

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
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // Not at its first poll: hyper looks for the client's end before that.
        let in_flight = InFlight::new(self.open.clone());
        Answering {
            connects: request.method() == Method::CONNECT,
            future: self.service.call(request),
            in_flight: Some(in_flight),
            open: self.open.clone(),
        }
    }
}

pin_project! {
    /// The future of an answer.
    pub(super) struct Answering<F> {
        #[pin]
        future: F,
        in_flight: Option<InFlight>,
        open: Arc<Open>,
        connects: bool,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<CountedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.future.poll(cx));
        let in_flight = this.in_flight.take();
        Poll::Ready(answer.map(|answer| {
            let status = answer.status();
            if status == StatusCode::SWITCHING_PROTOCOLS || *this.connects && status.is_success() {
                this.open.upgrade();
            }
            answer.map(|body| CountedBody {
                body,
                _in_flight: in_flight,
            })
        }))
    }
}

pin_project! {
    /// The body of an answer.
    pub(super) struct CountedBody<B> {
        #[pin]
        body: B,
        _in_flight: Option<InFlight>,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
