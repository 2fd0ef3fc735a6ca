//! Libraries that people use, unmodified, on `ws`, against servers and clients that nobody here
//! wrote.
//!
//! One file for each proof; `harness` says how they run. Each asserts what came byte by byte or
//! count by count, and that no thread of another runtime was in its process.

mod harness;

mod adapters;
mod axum_router;
mod coexistence;
mod databases;
mod dbus;
mod dns;
mod grpc;
mod http_client;
mod http_server;
mod opentelemetry;
mod polling_only;
mod ported;
mod quic;
mod rabbitmq;
mod tokio_pieces;
