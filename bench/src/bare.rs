//! Baseline server: an axum handler with a constant body.

use std::{net::SocketAddr, process::Command};

use axum::{
    Router,
    routing::{get, post},
};
use tokio::net::TcpListener;

use crate::process::Process;

pub struct BareServer {
    _process: Process,
    pub address: SocketAddr,
}

/// Starts the server as a separate process, like the measured server.
pub fn start(size: usize) -> anyhow::Result<BareServer> {
    let binary = std::env::current_exe()?;
    let process = Process::start(Command::new(binary).args(["bare", &size.to_string()]), "listening on ")?;
    let address = process.address()?;
    Ok(BareServer { _process: process, address })
}

pub async fn serve(size: usize) -> anyhow::Result<()> {
    let body = bytes::Bytes::from(vec![b'x'; size]);
    let read_body = body.clone();
    let router = Router::new().route("/oauth2/token", post(move || std::future::ready(body.clone()))).route(
        "/v1/number-verification/reverse-sms-checks/{check_id}",
        get(move || std::future::ready(read_body.clone())),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    print_address(listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the parent process reads the address")]
pub fn print_address(address: std::net::SocketAddr) {
    println!("listening on {address}");
}
