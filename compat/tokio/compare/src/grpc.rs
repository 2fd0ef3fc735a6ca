//! tonic.

use std::time::Duration;

use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    Result,
    measure::{Numbers, calls},
};

const TASKS: usize = 32;

/// Unary calls of many tasks on one channel. Client and server are in this process.
pub async fn unary(length: Duration) -> Result<Numbers> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = incoming.local_addr()?;
    let (_reporter, service) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder()
            .add_service(service)
            .serve_with_incoming(incoming),
    );
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let clients = vec![HealthClient::new(channel); TASKS];
    calls(clients, length, async |mut client| {
        let request = HealthCheckRequest::default();
        let answer = client.check(request).await?;
        // It is serving.
        assert_eq!(answer.get_ref().status, 1);
        Ok(client)
    })
    .await
}
