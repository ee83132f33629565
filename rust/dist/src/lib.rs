//! How processes find each other, a store of keys and values that one of them serves to the others over TCP, and how they
//! exchange tensors: `group` within a machine, `companion` between machines.
//!
//! `table` is the store itself, `request` has the requests and responses, `wire` their encoding, `server` and `client`
//! the two ends. A peer is not trusted: it shows a token first if the server has one, no length that it claims is
//! believed, and the table holds a bounded number of bytes.

mod client;
pub mod companion;
pub mod group;
mod request;
mod server;
mod table;
mod wire;

pub use client::Client;
pub use request::{Request, Response};
pub use server::Server;
pub use table::Table;

#[cfg(test)]
mod tests;
