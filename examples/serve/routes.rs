//! What is answered to what.

use std::{fmt::Display, path::PathBuf, str::FromStr, time::Duration};

use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
};

use ws::hyper::Counts;

use crate::{body::Content, files, metrics, server::warn};

const INDEX: &str = "\
/hello       a greeting
/files/PATH  a file of the folder
/fib/N       the Nth Fibonacci number, the slow way
/sleep/MS    an answer after that many milliseconds
/metrics     what the scheduler has counted, for Prometheus
";

/// About a second of work in a release build; each step up takes 1.6 times as long.
const FIB_MAX: u32 = 42;
const SLEEP_MS_MAX: u64 = 60_000;

/// What all requests share.
pub(crate) struct App {
    pub(crate) dir: PathBuf,
    pub(crate) counts: Counts,
}

/// An answer that went well.
pub(crate) struct Answer {
    pub(crate) content_type: HeaderValue,
    pub(crate) content: Content,
}

impl Answer {
    fn text(text: impl Display) -> Self {
        Self {
            content_type: HeaderValue::from_static("text/plain; charset=utf-8"),
            content: Content::from(format!("{text}\n")),
        }
    }
}

/// An answer that says why there is none.
pub(crate) struct Fault {
    status: StatusCode,
    message: String,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// A fault of ours: the operator reads what it was, the client only that it was one.
    pub(crate) fn internal(error: &dyn Display) -> Self {
        warn(error);
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "a fault of the server")
    }
}

/// Answers one request, in any case.
pub(crate) async fn respond(app: &App, request: &Request<Incoming>) -> Response<Content> {
    let (status, answer) = match route(app, request).await {
        Ok(answer) => (StatusCode::OK, answer),
        Err(fault) => (fault.status, Answer::text(fault.message)),
    };
    // Said outright, because hyper derives it from the body, and a reply to HEAD sends none.
    let len = answer.content.len();
    let mut response = Response::new(answer.content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, answer.content_type);
    headers.insert(CONTENT_LENGTH, len.into());
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

async fn route(app: &App, request: &Request<Incoming>) -> Result<Answer, Fault> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let message = format!("{} is not served, only GET and HEAD", request.method());
        return Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let path = request.uri().path();
    match path {
        "/" => return Ok(Answer::text(INDEX.trim_end())),
        "/hello" => return Ok(Answer::text("hello")),
        "/metrics" => return Ok(metrics::answer(&app.counts)),
        _ => {}
    }
    if let Some(path) = path.strip_prefix("/files/") {
        files::get(&app.dir, path).await
    } else if let Some(n) = path.strip_prefix("/fib/") {
        let n = number(n, FIB_MAX)?;
        Ok(Answer::text(fib(n)))
    } else if let Some(ms) = path.strip_prefix("/sleep/") {
        let ms = number(ms, SLEEP_MS_MAX)?;
        ws::time::sleep(Duration::from_millis(ms)).await;
        Ok(Answer::text(format_args!("slept {ms} ms")))
    } else {
        Err(Fault::new(
            StatusCode::NOT_FOUND,
            "nothing here; / lists what there is",
        ))
    }
}

/// A number of the path, up to `max`.
fn number<N: FromStr + PartialOrd + Display>(text: &str, max: N) -> Result<N, Fault> {
    match text.parse() {
        Ok(n) if n <= max => Ok(n),
        _ => Err(Fault::new(
            StatusCode::BAD_REQUEST,
            format!("expected a number from 0 to {max}"),
        )),
    }
}

/// Work for the CPU, and nothing else: no await, no word to the runtime.
fn fib(n: u32) -> u64 {
    if n < 2 {
        n.into()
    } else {
        fib(n - 1) + fib(n - 2)
    }
}
