//! A receiver of callbacks that outlives the processes that send them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use super::client::PATIENCE;

/// What came for a check, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Which process sent it.
    pub round: usize,
    pub attempt: u32,
    pub body: Vec<u8>,
    status: u16,
}

impl Arrival {
    pub fn was_taken(&self) -> bool {
        self.status == 200
    }
}

/// Answers 200, but to the first attempt at every fourth check with a 500.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    is_holding: Arc<watch::Sender<bool>>,
    contents: Arc<watch::Sender<Contents>>,
}

#[derive(Default)]
struct Contents {
    round: usize,
    /// Whose connections may still bring something.
    open: BTreeSet<SocketAddr>,
    arrivals: BTreeMap<String, Vec<Arrival>>,
}

impl Contents {
    /// Whether the last that came for a check was answered with a 200.
    fn has_taken(&self, check: &str) -> bool {
        self.arrivals.get(check).and_then(|all| all.last()).is_some_and(Arrival::was_taken)
    }
}

impl Receiver {
    #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
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

    /// Takes what comes, and keeps whoever sent it waiting for an answer.
    pub fn hold(&self) {
        self.is_holding.send_replace(true);
    }

    pub fn let_go(&self) {
        self.is_holding.send_replace(false);
    }

    /// What the dead process had sent belongs to its own round: its connections are read to their ends first.
    pub async fn next_round(&self) {
        // They are accepted in the order in which they were made: ours is the last.
        let ours = TcpStream::connect(self.address).await.unwrap();
        let last = BTreeSet::from([ours.local_addr().unwrap()]);
        let is_read = self.wait_for(PATIENCE, |contents| contents.open == last).await;
        assert!(is_read, "a connection of a dead process stays open");
        self.contents.send_modify(|contents| contents.round += 1);
    }

    pub fn arrivals(&self) -> BTreeMap<String, Vec<Arrival>> {
        self.contents.borrow().arrivals.clone()
    }

    /// Waits until something has come for a check.
    pub async fn hear_of(&self, check: &str, patience: Duration) {
        let has_come = self.wait_for(patience, |contents| contents.arrivals.contains_key(check)).await;
        assert!(has_come, "nobody tells of {check}");
    }

    /// Waits until what was to be told of these checks has been taken.
    pub async fn take_all(&self, checks: &BTreeSet<String>, patience: Duration) {
        let is_all = |contents: &Contents| checks.iter().all(|check| contents.has_taken(check));
        if !self.wait_for(patience, is_all).await {
            let contents = self.contents.borrow();
            let missing: Vec<_> = checks.iter().filter(|check| !contents.has_taken(check)).collect();
            panic!("{} ends were never told: {missing:?}", missing.len());
        }
    }

    /// Whether it has come to this in time.
    async fn wait_for(&self, patience: Duration, is_enough: impl Fn(&Contents) -> bool) -> bool {
        timeout(patience, self.contents.subscribe().wait_for(is_enough)).await.is_ok()
    }

    /// `None` when the peer is gone.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut buffer = vec![];
        loop {
            let (head, end) = loop {
                if let Some(whole) = whole_request(&buffer) {
                    break whole;
                }
                if stream.read_buf(&mut buffer).await.ok()? == 0 {
                    return None;
                }
            };
            let body = buffer[head.len() + 4..end].to_vec();
            buffer.drain(..end);
            let answer = match self.take(&head, body) {
                200 => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                _ => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            };
            self.is_holding.subscribe().wait_for(|is_holding| !is_holding).await.ok()?;
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    fn take(&self, head: &str, body: Vec<u8>) -> u16 {
        let attempt = field(head, "x-service-callback-attempt").unwrap().parse().unwrap();
        let said: Value = serde_json::from_slice(&body).unwrap();
        let check = said["check_id"].as_str().unwrap().to_owned();
        let is_fourth = check.ends_with(['0', '4', '8', 'c']);
        let status = if is_fourth && attempt == 1 { 500 } else { 200 };
        self.contents.send_modify(|contents| {
            let round = contents.round;
            contents.arrivals.entry(check).or_default().push(Arrival { round, attempt, body, status });
        });
        status
    }
}

/// The head of a request that is here as a whole, and where the request ends.
fn whole_request(buffer: &[u8]) -> Option<(String, usize)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8(buffer[..head].to_vec()).unwrap();
    let length: usize = field(&text, "content-length")?.parse().ok()?;
    (buffer.len() >= head + 4 + length).then_some((text, head + 4 + length))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n")
        .filter_map(|line| line.split_once(": "))
        .find(|(field, _)| *field == name)
        .map(|(_, value)| value)
}
