//! Connections, and what is answered to what.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | the page |
//! | `GET /state?…` | what the page shows, in JSON: see [`Ask`] |
//! | `GET /perfetto` | a snapshot, to download |
//! | `POST /snapshot`, with the token | has a snapshot written into the program's folder |

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{
    TASKS, aside, guard,
    http::{Answer, Connection, NoRequest, Request},
    page,
    source::{Ask, Source},
};
use crate::{
    net::{TcpListener, TcpStream},
    task, time,
};

/// Connections at a time. A browser opens six for a page.
const CONNECTIONS: usize = 24;

/// How often it is looked whether pages have gone.
const TIDY_EVERY: Duration = Duration::from_secs(1);

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const FILE: &str = "application/octet-stream";

struct App {
    source: Arc<dyn Source>,
    token: String,
    /// A task looks whether pages have gone.
    tidies: AtomicBool,
}

/// Serves until it is dropped.
pub(super) fn run(
    listener: TcpListener,
    source: Arc<dyn Source>,
) -> io::Result<impl Future<Output = ()> + Send> {
    let app = Arc::new(App {
        source,
        token: page::random()?,
        tidies: AtomicBool::new(false),
    });
    Ok(async move {
        let places = Arc::new(());
        // They end with the server.
        let mut connections = task::JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // The system is short of something.
                time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            if Arc::strong_count(&places) > CONNECTIONS {
                continue;
            }
            let (app, place) = (app.clone(), places.clone());
            let connection = async move {
                serve(&app, stream).await;
                drop(place);
            };
            connections.insert(task::Builder::new().name(TASKS).spawn(connection));
        }
    })
}

async fn serve(app: &Arc<App>, stream: TcpStream) {
    // Without it, the end of an answer may wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut connection = Connection::new(stream);
    loop {
        let (answer, head_alone) = match connection.request().await {
            Ok(request) => {
                let mut answer = answer(app, &request).await;
                answer.last |= request.closes;
                (answer, request.method == "HEAD")
            }
            Err(NoRequest::Refused(status, why)) => (Answer::refusal(status, why), false),
            Err(NoRequest::Gone) => return,
        };
        let last = answer.last;
        if connection.send(answer, head_alone).await.is_err() || last {
            return;
        }
    }
}

async fn answer(app: &Arc<App>, request: &Request) -> Answer {
    if let Err((status, why)) = guard::check(request) {
        return Answer::refusal(status, why);
    }
    let reads = matches!(&*request.method, "GET" | "HEAD");
    match &*request.path {
        "/" if reads => match page::page(&app.token) {
            Ok((page, policy)) => Answer {
                headers: policy,
                ..Answer::new(HTML, page)
            },
            Err(error) => Answer::refusal(500, &error.to_string()),
        },
        "/state" if reads => {
            let trusted = guard::has_token(request, &app.token);
            let ask = Ask::parse(&request.query, trusted);
            let source = app.source.clone();
            let json = if source.is_large() {
                aside(move || source.answer(&ask)).await
            } else {
                Ok(source.answer(&ask))
            };
            tidy_later(app);
            json.map_or_else(failed, |json| Answer::new(JSON, json))
        }
        "/perfetto" if reads => {
            let source = app.source.clone();
            let file = aside(move || source.file()).await;
            let file = file.and_then(|file| Answer::file(FILE, file?));
            match file {
                Ok(answer) => Answer {
                    headers: "content-disposition: attachment; filename=\"snapshot.pftrace\"\r\n"
                        .to_owned(),
                    ..answer
                },
                Err(error) => failed(error),
            }
        }
        "/snapshot" if request.method == "POST" => {
            if !guard::has_token(request, &app.token) {
                return Answer::refusal(403, "only the page may ask for a snapshot");
            }
            let written = app.source.snapshot();
            Answer::new(JSON, format!("{{\"written\":{written}}}"))
        }
        "/" | "/state" | "/perfetto" => by_another_method("GET, HEAD"),
        "/snapshot" => by_another_method("POST"),
        "/favicon.ico" => Answer {
            status: 404,
            ..Answer::new(TEXT, "")
        },
        _ => Answer::refusal(404, "nothing is here; the page is at /"),
    }
}

fn by_another_method(allowed: &str) -> Answer {
    Answer {
        headers: format!("allow: {allowed}\r\n"),
        ..Answer::refusal(405, "not by this method")
    }
}

fn failed(error: io::Error) -> Answer {
    Answer::refusal(500, &error.to_string())
}

/// Looks from time to time whether pages have gone, while there is one.
fn tidy_later(app: &Arc<App>) {
    if app.tidies.swap(true, Relaxed) {
        return;
    }
    let app = app.clone();
    task::Builder::new().name(TASKS).spawn(async move {
        loop {
            time::sleep(TIDY_EVERY).await;
            // Before it looks: a page that asks meanwhile starts another task.
            app.tidies.store(false, Relaxed);
            if !app.source.tidy() || app.tidies.swap(true, Relaxed) {
                return;
            }
        }
    });
}
