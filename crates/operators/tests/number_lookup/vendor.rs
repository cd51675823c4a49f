//! A vendor's HTTP endpoint that says what a test wants.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::ManualClock;
use ringtrue_operators::{
    client::{Client, ClientSettings},
    number_lookup::BreakerSettings,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::TaskTracker;
use url::Url;

/// When these tests take place.
pub const SECOND: i64 = 1_794_700_000;

#[derive(Clone, Debug)]
pub enum Saying {
    /// Status and body.
    Body(u16, String),
    /// Status and a header.
    Head(u16, &'static str),
    Silence,
    HangUp,
}

pub fn json(status: u16, body: &(impl ToString + ?Sized)) -> Saying {
    Saying::Body(status, body.to_string())
}

#[derive(Clone, Debug)]
pub struct Heard {
    /// Method and target.
    pub line: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Heard {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// Gives each request the next of its sayings for the path, the last one for ever.
#[derive(Clone)]
pub struct Vendor {
    port: u16,
    sayings: Arc<Mutex<HashMap<&'static str, VecDeque<Saying>>>>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// For any path that has no sayings of its own.
pub const ANYWHERE: &str = "";

impl Vendor {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let vendor = Vendor { port, sayings: Arc::default(), heard: Arc::default() };
        let serving = vendor.clone();
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tasks.spawn(serving.clone().serve(stream));
            }
        });
        vendor
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    pub fn says(&self, sayings: &[Saying]) {
        self.says_at(ANYWHERE, sayings);
    }

    pub fn says_at(&self, path: &'static str, sayings: &[Saying]) {
        self.sayings.lock().unwrap().insert(path, sayings.iter().cloned().collect());
    }

    /// What came since this was asked for last.
    pub fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    async fn serve(self, mut stream: TcpStream) {
        while let Some(heard) = read(&mut stream).await {
            let path = heard.line.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            self.heard.lock().unwrap().push(heard);
            let (status, head, body) = match self.next(&path) {
                Saying::Body(status, body) => (status, "content-type: application/json", body),
                Saying::Head(status, head) => (status, head, String::new()),
                Saying::Silence => {
                    // Until the other side gives up.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                Saying::HangUp => return,
            };
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} Said\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn next(&self, path: &str) -> Saying {
        let mut all = self.sayings.lock().unwrap();
        let place = if all.contains_key(path) { path } else { ANYWHERE };
        let sayings = all.get_mut(place).unwrap();
        if sayings.len() > 1 { sayings.pop_front().unwrap() } else { sayings[0].clone() }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Heard> {
    let mut octets = vec![];
    let end = loop {
        if let Some(end) = octets.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        octets.push(stream.read_u8().await.ok()?);
    };
    let head = String::from_utf8(octets[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let headers: HashMap<_, _> = lines.filter_map(header).collect();
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(Heard { line, headers, body: String::from_utf8(body).unwrap() })
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_second(SECOND).unwrap()))
}

/// Its patience is long: what ends it early in a test is not time. Making one reads every certificate of the machine.
pub fn client() -> Arc<Client> {
    with_patience(Duration::from_secs(20))
}

pub fn with_patience(total: Duration) -> Arc<Client> {
    let settings = ClientSettings { connect: total, total, ..ClientSettings::default() };
    Arc::new(Client::new(&settings).unwrap())
}

/// Never open for longer than no time at all.
pub const NO_BREAKER: BreakerSettings =
    BreakerSettings { failures: 1_000_000, open_for: SignedDuration::ZERO, longest: SignedDuration::ZERO };
