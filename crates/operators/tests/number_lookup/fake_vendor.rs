//! A scripted HTTP endpoint of a vendor.

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

/// Time of the manual clock.
pub const NOW_SECS: i64 = 1_794_700_000;

#[derive(Clone, Debug)]
pub enum ScriptedResponse {
    /// Status and body.
    Body(u16, String),
    /// Status and a header.
    Head(u16, &'static str),
    Silence,
    HangUp,
}

pub fn json(status: u16, body: &(impl ToString + ?Sized)) -> ScriptedResponse {
    ScriptedResponse::Body(status, body.to_string())
}

#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Method and target.
    pub line: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// Sends the scripted responses of a path in order, and repeats the last one.
#[derive(Clone)]
pub struct FakeVendor {
    port: u16,
    responses: Arc<Mutex<HashMap<&'static str, VecDeque<ScriptedResponse>>>>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

/// Script for all other paths.
pub const ANYWHERE: &str = "";

impl FakeVendor {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let vendor = FakeVendor { port, responses: Arc::default(), requests: Arc::default() };
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

    pub fn respond_with(&self, responses: &[ScriptedResponse]) {
        self.respond_at(ANYWHERE, responses);
    }

    pub fn respond_at(&self, path: &'static str, responses: &[ScriptedResponse]) {
        self.responses.lock().unwrap().insert(path, responses.iter().cloned().collect());
    }

    /// Requests since the last call.
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    async fn serve(self, mut stream: TcpStream) {
        while let Some(request) = read(&mut stream).await {
            let path = request.line.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            self.requests.lock().unwrap().push(request);
            let (status, head, body) = match self.next(&path) {
                ScriptedResponse::Body(status, body) => (status, "content-type: application/json", body),
                ScriptedResponse::Head(status, head) => (status, head, String::new()),
                ScriptedResponse::Silence => {
                    // Until the client closes the connection.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                ScriptedResponse::HangUp => return,
            };
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} Said\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn next(&self, path: &str) -> ScriptedResponse {
        let mut all = self.responses.lock().unwrap();
        let place = if all.contains_key(path) { path } else { ANYWHERE };
        let responses = all.get_mut(place).unwrap();
        if responses.len() > 1 { responses.pop_front().unwrap() } else { responses[0].clone() }
    }
}

async fn read(stream: &mut TcpStream) -> Option<RecordedRequest> {
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
    Some(RecordedRequest { line, headers, body: String::from_utf8(body).unwrap() })
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_second(NOW_SECS).unwrap()))
}

/// With a timeout that tests do not reach. Creating a client reads all system certificates.
pub fn client() -> Arc<Client> {
    client_with_timeout(Duration::from_secs(20))
}

pub fn client_with_timeout(total: Duration) -> Arc<Client> {
    let settings = ClientSettings { connect_timeout: total, total_timeout: total, ..ClientSettings::default() };
    Arc::new(Client::new(&settings).unwrap())
}

/// Never opens.
pub const NO_BREAKER: BreakerSettings = BreakerSettings {
    failure_threshold: 1_000_000,
    open_duration: SignedDuration::ZERO,
    max_open_duration: SignedDuration::ZERO,
};
