use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::task::TaskTracker;

/// A server that counts connections and handles each with the test's function.
pub struct Peer {
    pub port: u16,
    connections: Arc<AtomicUsize>,
}

impl Peer {
    pub async fn serving<F, D>(address: &str, serve: F) -> Peer
    where
        F: Fn(TcpStream) -> D + Send + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&connections);
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                tasks.spawn(serve(stream));
            }
        });
        Peer { port, connections }
    }

    /// Sends the same bytes for every request and keeps the connection open.
    pub async fn responding(response: impl Into<Vec<u8>>) -> Peer {
        let response = Arc::new(response.into());
        Peer::serving("127.0.0.1:0", move |mut stream| {
            let response = Arc::clone(&response);
            async move {
                while read_request(&mut stream).await.is_some() {
                    if stream.write_all(&response).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Responds 200 and returns the received requests.
    pub async fn recording() -> (Peer, mpsc::UnboundedReceiver<String>) {
        let (sender, requests) = mpsc::unbounded_channel();
        let peer = Peer::serving("127.0.0.1:0", move |mut stream| {
            let sender = sender.clone();
            async move {
                while let Some(request) = read_request(&mut stream).await {
                    sender.send(request).unwrap();
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                }
            }
        })
        .await;
        (peer, requests)
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://127.0.0.1:{}{target}", self.port)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads one raw request. `None`: the connection was closed.
pub async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
