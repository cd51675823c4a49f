//! A callback receiver that outlives the sending processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use ringtrue_test_support::{WAIT_LIMIT, http_server::ReceivedRequest};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// A received callback of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedCallback {
    /// Round of the test in which the process that sent the callback ran.
    pub round: usize,
    pub attempt: u32,
    pub body: Vec<u8>,
    status: u16,
}

impl ReceivedCallback {
    pub fn was_accepted(&self) -> bool {
        self.status == 200
    }
}

/// Callback receiver that responds with 200, but with 500 to the first attempt of every fourth check.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    is_holding: Arc<watch::Sender<bool>>,
    contents: Arc<watch::Sender<Contents>>,
}

#[derive(Default)]
struct Contents {
    round: usize,
    /// Connections that may still deliver data, by peer address.
    open: BTreeSet<SocketAddr>,
    received: BTreeMap<String, Vec<ReceivedCallback>>,
}

impl Contents {
    /// Returns whether the last callback of a check got a 200.
    fn has_accepted(&self, check: &str) -> bool {
        self.received.get(check).and_then(|all| all.last()).is_some_and(ReceivedCallback::was_accepted)
    }
}

impl Receiver {
    #[expect(clippy::disallowed_methods, reason = "the task ends with the test")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.77:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Receiver { address, is_holding: Arc::default(), contents: Arc::default() };
        let server = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let server = server.clone();
                server.contents.send_modify(|contents| _ = contents.open.insert(peer));
                tokio::spawn(async move {
                    server.serve(stream).await;
                    server.contents.send_modify(|contents| _ = contents.open.remove(&peer));
                });
            }
        });
        receiver
    }

    pub fn url(&self) -> String {
        format!("http://{}/callbacks", self.address)
    }

    /// Accepts callbacks, but delays the responses until [`release`](Self::release).
    pub fn hold(&self) {
        self.is_holding.send_replace(true);
    }

    pub fn release(&self) {
        self.is_holding.send_replace(false);
    }

    /// Starts the next round. First waits until all connections of the dead process are read, so that its callbacks
    /// still count for the round that ends.
    pub async fn next_round(&self) {
        // Connections are accepted in order, so when ours is accepted, all earlier ones were.
        let ours = TcpStream::connect(self.address).await.unwrap();
        let last = BTreeSet::from([ours.local_addr().unwrap()]);
        let is_read = self.wait_for(WAIT_LIMIT, |contents| contents.open == last).await;
        assert!(is_read, "a connection of a dead process stays open");
        self.contents.send_modify(|contents| contents.round += 1);
    }

    pub fn received(&self) -> BTreeMap<String, Vec<ReceivedCallback>> {
        self.contents.borrow().received.clone()
    }

    /// Waits for the first callback of a check.
    pub async fn wait_for_callback(&self, check: &str, limit: Duration) {
        let is_received = self.wait_for(limit, |contents| contents.received.contains_key(check)).await;
        assert!(is_received, "no callback of {check}");
    }

    /// Waits until the callbacks of these checks were accepted.
    pub async fn wait_for_all(&self, checks: &BTreeSet<String>, limit: Duration) {
        let all_accepted = async {
            let mut contents = self.contents.subscribe();
            // Waits for one check after the other: a condition on all of them would examine all of them at every
            // callback.
            for check in checks {
                contents.wait_for(|contents| contents.has_accepted(check)).await.expect("the receiver runs");
            }
        };
        if timeout(limit, all_accepted).await.is_err() {
            let contents = self.contents.borrow();
            let missing: Vec<_> = checks.iter().filter(|check| !contents.has_accepted(check)).collect();
            panic!("{} callbacks are missing: {missing:?}", missing.len());
        }
    }

    /// Waits for a condition. Returns whether it was met in time.
    async fn wait_for(&self, limit: Duration, condition: impl Fn(&Contents) -> bool) -> bool {
        timeout(limit, self.contents.subscribe().wait_for(condition)).await.is_ok()
    }

    /// Serves a connection. Returns `None` when the peer has closed it.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut buffer = vec![];
        loop {
            let request = ReceivedRequest::read(&mut stream, &mut buffer).await?;
            let response = match self.take(request) {
                200 => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                _ => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            };
            self.is_holding.subscribe().wait_for(|is_holding| !is_holding).await.ok()?;
            stream.write_all(response.as_bytes()).await.ok()?;
        }
    }

    fn take(&self, request: ReceivedRequest) -> u16 {
        let attempt = request.header("x-service-callback-attempt").parse().unwrap();
        let callback = request.json();
        let id = callback.get("check_id").or(callback.get("verification_id"));
        let check = id.and_then(Value::as_str).expect("the id of a check or verification").to_owned();
        let is_fourth = check.ends_with(['0', '4', '8', 'c']);
        let status = if is_fourth && attempt == 1 { 500 } else { 200 };
        self.contents.send_modify(|contents| {
            let round = contents.round;
            contents.received.entry(check).or_default().push(ReceivedCallback {
                round,
                attempt,
                body: request.body,
                status,
            });
        });
        status
    }
}
