use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::TaskTracker;
use url::Url;

/// What is said to a request.
#[derive(Clone)]
pub enum Saying {
    Json(u16, Value),
    /// Status, headers and body, as they are.
    Plain(u16, &'static str, Vec<u8>),
    Octets(Vec<u8>),
    Silence,
    HangUp,
}

pub fn granted() -> Value {
    json!({ "access_token": "token-of-the-device", "token_type": "Bearer", "expires_in": 60 })
}

#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
    /// Which connection it came on.
    pub connection: usize,
}

impl Request {
    pub fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// An operator that says what the test wants: for each path the next of its sayings, the last one for ever.
#[derive(Clone)]
pub struct Operator {
    pub port: u16,
    sayings: Arc<Mutex<HashMap<&'static str, VecDeque<Saying>>>>,
    heard: Arc<Mutex<Vec<Request>>>,
}

pub const DISCOVERY: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/keys";
pub const TOKEN: &str = "/token";
pub const VERIFY: &str = "/number-verification/v2/verify";
pub const NUMBER: &str = "/number-verification/v2/device-phone-number";
pub const BACKCHANNEL: &str = "/bc-authorize";
pub const DATE: &str = "/sim-swap/v2/retrieve-date";
pub const CHECK: &str = "/sim-swap/v2/check";

impl Operator {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let operator = Operator { port, sayings: Arc::default(), heard: Arc::default() };
        operator.says(DISCOVERY, Saying::Json(200, operator.description()));
        operator.says(KEYS, Saying::Json(200, json!({ "keys": [] })));
        operator.says(TOKEN, Saying::Json(200, granted()));
        operator.says(VERIFY, Saying::Json(200, json!({ "devicePhoneNumberVerified": true })));
        operator.says(NUMBER, Saying::Json(200, json!({ "devicePhoneNumber": "+447700900123" })));
        operator.says(BACKCHANNEL, Saying::Json(200, json!({ "auth_req_id": "request-of-ours", "expires_in": 120 })));
        operator.says(DATE, Saying::Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" })));
        operator.says(CHECK, Saying::Json(200, json!({ "swapped": true })));
        let tasks = TaskTracker::new();
        let serving = operator.clone();
        tasks.clone().spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                tasks.spawn(serving.clone().serve(stream, connection));
            }
        });
        operator
    }

    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.issuer())).unwrap()
    }

    pub fn description(&self) -> Value {
        json!({
            "issuer": self.issuer(),
            "authorization_endpoint": format!("{}/authorize?tenant=a%20b", self.issuer()),
            "token_endpoint": format!("{}{TOKEN}", self.issuer()),
            "jwks_uri": format!("{}{KEYS}", self.issuer()),
            "backchannel_authentication_endpoint": format!("{}{BACKCHANNEL}", self.issuer()),
        })
    }

    pub fn says(&self, path: &'static str, saying: Saying) {
        self.says_all(path, vec![saying]);
    }

    pub fn says_all(&self, path: &'static str, sayings: Vec<Saying>) {
        self.sayings.lock().unwrap().insert(path, sayings.into());
    }

    pub fn heard(&self) -> Vec<Request> {
        self.heard.lock().unwrap().clone()
    }

    /// The requests for a path.
    pub fn asked(&self, path: &str) -> Vec<Request> {
        let is_for = |request: &Request| request.line.split(' ').nth(1) == Some(path);
        self.heard().into_iter().filter(is_for).collect()
    }

    async fn serve(self, mut stream: TcpStream, connection: usize) {
        while let Some(request) = read_request(&mut stream, connection).await {
            let path = request.line.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            self.heard.lock().unwrap().push(request);
            let saying = self.next(&path);
            let octets = match saying {
                Saying::Silence => {
                    // Until the other side gives up.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                Saying::HangUp => return,
                Saying::Octets(octets) => octets,
                Saying::Json(status, body) => {
                    whole(status, "content-type: application/json\r\n", body.to_string().as_bytes())
                }
                Saying::Plain(status, headers, body) => whole(status, headers, &body),
            };
            if stream.write_all(&octets).await.is_err() {
                return;
            }
        }
    }

    fn next(&self, path: &str) -> Saying {
        let mut sayings = self.sayings.lock().unwrap();
        let Some(sayings) = sayings.get_mut(path) else { return Saying::Plain(404, "", vec![]) };
        let next = if sayings.len() > 1 { sayings.pop_front() } else { sayings.front().cloned() };
        next.unwrap()
    }
}

fn whole(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// `None`: the connection was closed.
async fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Request> {
    let mut octets = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&octets).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let line = lines.next()?.to_owned();
            let header =
                |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let headers: HashMap<_, _> = lines.filter_map(header).collect();
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return Some(Request { line, headers, body: body.to_owned(), connection });
            }
        }
        if stream.read_buf(&mut octets).await.ok()? == 0 {
            return None;
        }
        if octets.starts_with(&[0x16]) {
            // Someone speaks TLS.
            let _ = stream.write_all(&whole(400, "", b"")).await;
            return None;
        }
    }
}
