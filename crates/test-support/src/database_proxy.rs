//! A TCP proxy to PostgreSQL that a test can cut or block.

use std::{net::SocketAddr, sync::Arc};

use tokio::{io::copy_bidirectional, net::TcpStream, sync::watch};

use crate::{database::postgres_server_url, http_server::TestServer};

#[derive(Debug)]
pub struct DatabaseProxy {
    pub port: u16,
    state: Arc<watch::Sender<ProxyState>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyState {
    Open,
    /// Closes all open connections, and each new connection immediately.
    Cut,
    /// Keeps connections open, but forwards no data.
    Blocked,
}

impl DatabaseProxy {
    /// Starts a proxy to the PostgreSQL server that `make test` has started.
    pub async fn start() -> Self {
        let url = url::Url::parse(&postgres_server_url()).unwrap();
        let target: SocketAddr = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap()).parse().unwrap();
        let state = Arc::new(watch::Sender::new(ProxyState::Open));
        let watched = Arc::clone(&state);
        let forward = move |stream, _| forward(stream, target, watched.subscribe());
        DatabaseProxy { port: TestServer::start("127.0.0.1:0", forward).await.port, state }
    }

    pub fn set_state(&self, state: ProxyState) {
        self.state.send_replace(state);
    }
}

async fn forward(mut here: TcpStream, target: SocketAddr, mut state: watch::Receiver<ProxyState>) {
    if *state.borrow() == ProxyState::Open
        && let Ok(mut there) = TcpStream::connect(target).await
    {
        tokio::select! {
            _ = copy_bidirectional(&mut here, &mut there) => return,
            _ = state.wait_for(|state| *state != ProxyState::Open) => {}
        }
    }
    // While the proxy is blocked, the connection stays open, so that the client waits. Afterwards the connection is
    // closed.
    let _ = state.wait_for(|state| *state != ProxyState::Blocked).await;
}
