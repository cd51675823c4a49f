//! The contestant that does nothing: an axum handler with a constant body.

use axum::{Router, routing::post};
use tokio::net::TcpListener;

pub async fn serve(size: usize) -> anyhow::Result<()> {
    let body = bytes::Bytes::from(vec![b'x'; size]);
    let router = Router::new().route("/oauth2/token", post(move || std::future::ready(body.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the parent process reads the address")]
fn announce(address: std::net::SocketAddr) {
    println!("listening on {address}");
}
