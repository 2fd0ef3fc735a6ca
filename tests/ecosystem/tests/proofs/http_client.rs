//! Proof 3: the client of hyper-util, with its pool, against nginx.

use std::{collections::BTreeSet, fs, process::Command};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, StatusCode,
    body::{Bytes, Incoming},
    header,
};
use hyper_util::client::legacy::Client;
use tower_service::Service;
use ws::{
    hyper::{Executor, Timer},
    hyper_util::Connector,
    task::JoinSet,
};

use crate::harness::{Env, Server, bytes, free_port, proofs};

/// nginx, as one process, which serves the folder `www`, and says at `/connection` on which of its
/// connections a request came.
fn nginx(env: &Env) -> Option<(Server, u16)> {
    let nginx = crate::harness::find("nginx")?;
    let (dir, port) = (env.dir.display(), free_port());
    let config = env.dir.join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr;
         user root;
         events {{ worker_connections 256; }}
         http {{
             access_log off; keepalive_requests 100000;
             client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
             uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
             server {{
                 listen 127.0.0.1:{port};
                 location / {{ root {dir}/www; }}
                 location /connection {{ return 200 $connection; }}
             }}
         }}"
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(nginx);
    command.arg("-e").arg("stderr").arg("-c").arg(&config);
    let server = Server::start(&mut command, libc::SIGQUIT, env.dir.join("nginx.log"));
    Some((server.listening(port), port))
}

async fn body(answer: hyper::Response<Incoming>) -> Bytes {
    assert_eq!(answer.status(), StatusCode::OK);
    answer.into_body().collect().await.unwrap().to_bytes()
}

fn client() -> Client<Connector, Full<Bytes>> {
    Client::builder(Executor)
        .timer(Timer)
        .pool_timer(Timer)
        .build(Connector::new())
}

proofs! {
    /// A file of 3 MB comes byte by byte, and so do 1,600 parts of it, by 16 clones of the client
    /// at a time.
    async fn files_from_nginx(env) {
        let www = env.dir.join("www");
        let file = bytes(3_000_000, 3);
        fs::create_dir(&www).unwrap();
        fs::write(www.join("file"), &file).unwrap();
        let Some((_nginx, port)) = nginx(&env) else { return };
        let client = client();
        let url = format!("http://localhost:{port}/file"); // a name, that is looked up

        let whole = body(client.get(url.parse().unwrap()).await.unwrap()).await;
        assert!(whole == file, "another file");

        let mut tasks = JoinSet::new();
        for worker in 0..16 {
            let (client, url, file) = (client.clone(), url.clone(), file.clone());
            tasks.spawn(async move {
                for n in 0..100_usize {
                    let start = (worker * 100 + n) * 1_733;
                    let request = Request::get(&url)
                        .header(header::RANGE, format!("bytes={start}-{}", start + 9_999))
                        .body(Full::default())
                        .unwrap();
                    let answer = client.request(request).await.unwrap();
                    assert_eq!(answer.status(), StatusCode::PARTIAL_CONTENT);
                    let part = answer.into_body().collect().await.unwrap().to_bytes();
                    let end = (start + 10_000).min(file.len());
                    assert!(part == file[start..end], "another part at {start}");
                }
            });
        }
        let mut done = 0;
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
            done += 1;
        }
        assert_eq!(done, 16);
    }

    /// Requests one after the other share a connection, and the server says so. Some make a new
    /// one: hyper-util puts a connection back by a task of its own, and a request that comes before
    /// that connects meanwhile.
    async fn connections_are_pooled(env) {
        let Some((_nginx, port)) = nginx(&env) else { return };
        let client = client();
        let mut connections = BTreeSet::new();
        for _ in 0..1_000 {
            let uri = format!("http://127.0.0.1:{port}/connection").parse().unwrap();
            connections.insert(body(client.get(uri).await.unwrap()).await);
        }
        assert!(connections.len() <= 500, "{} connections for 1,000 requests", connections.len());
    }

    /// Without a server there is an error that says why, and a URI for others is refused.
    async fn errors_have_their_reason(env) {
        let port = free_port();
        let error = client().get(format!("http://127.0.0.1:{port}/").parse().unwrap()).await.unwrap_err();
        assert!(error.is_connect());

        let mut connector = Connector::new();
        let refused = connector.call(format!("http://127.0.0.1:{port}/").parse().unwrap()).await;
        assert_eq!(refused.err().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
        let tls = connector.call("https://localhost/".parse().unwrap()).await;
        assert_eq!(tls.err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
    }
}
