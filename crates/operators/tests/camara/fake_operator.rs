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

#[derive(Clone)]
pub enum ScriptedResponse {
    Json(u16, Value),
    /// Status, headers and body.
    Plain(u16, &'static str, Vec<u8>),
    Octets(Vec<u8>),
    Silence,
    HangUp,
}

pub fn token_response() -> Value {
    json!({ "access_token": "token-of-the-device", "token_type": "Bearer", "expires_in": 60 })
}

#[derive(Clone, Debug)]
pub struct Request {
    pub line: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    pub body: String,
    /// Number of the connection.
    pub connection: usize,
}

impl Request {
    pub fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// A scripted operator: sends the responses of a path in order, and repeats the last one.
#[derive(Clone)]
pub struct FakeOperator {
    pub port: u16,
    responses: Arc<Mutex<HashMap<&'static str, VecDeque<ScriptedResponse>>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

pub const DISCOVERY: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/keys";
pub const TOKEN: &str = "/token";
pub const VERIFY: &str = "/number-verification/v2/verify";
pub const NUMBER: &str = "/number-verification/v2/device-phone-number";
pub const BACKCHANNEL: &str = "/bc-authorize";
pub const DATE: &str = "/sim-swap/v2/retrieve-date";
pub const CHECK: &str = "/sim-swap/v2/check";

impl FakeOperator {
    pub async fn start() -> Self {
        let recorder = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = recorder.local_addr().unwrap().port();
        let operator = FakeOperator { port, responses: Arc::default(), requests: Arc::default() };
        operator.respond(DISCOVERY, ScriptedResponse::Json(200, operator.metadata()));
        operator.respond(KEYS, ScriptedResponse::Json(200, json!({ "keys": [] })));
        operator.respond(TOKEN, ScriptedResponse::Json(200, token_response()));
        operator.respond(VERIFY, ScriptedResponse::Json(200, json!({ "devicePhoneNumberVerified": true })));
        operator.respond(NUMBER, ScriptedResponse::Json(200, json!({ "devicePhoneNumber": "+447700900123" })));
        operator.respond(
            BACKCHANNEL,
            ScriptedResponse::Json(200, json!({ "auth_req_id": "request-of-ours", "expires_in": 120 })),
        );
        operator.respond(DATE, ScriptedResponse::Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" })));
        operator.respond(CHECK, ScriptedResponse::Json(200, json!({ "swapped": true })));
        let tasks = TaskTracker::new();
        let serving = operator.clone();
        tasks.clone().spawn(async move {
            for connection in 0.. {
                let (stream, _) = recorder.accept().await.unwrap();
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

    pub fn metadata(&self) -> Value {
        json!({
            "issuer": self.issuer(),
            "authorization_endpoint": format!("{}/authorize?tenant=a%20b", self.issuer()),
            "token_endpoint": format!("{}{TOKEN}", self.issuer()),
            "jwks_uri": format!("{}{KEYS}", self.issuer()),
            "backchannel_authentication_endpoint": format!("{}{BACKCHANNEL}", self.issuer()),
        })
    }

    pub fn respond(&self, path: &'static str, response: ScriptedResponse) {
        self.respond_in_order(path, vec![response]);
    }

    pub fn respond_in_order(&self, path: &'static str, responses: Vec<ScriptedResponse>) {
        self.responses.lock().unwrap().insert(path, responses.into());
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub fn requests_to(&self, path: &str) -> Vec<Request> {
        let is_for = |request: &Request| request.line.split(' ').nth(1) == Some(path);
        self.requests().into_iter().filter(is_for).collect()
    }

    async fn serve(self, mut stream: TcpStream, connection: usize) {
        while let Some(request) = read_request(&mut stream, connection).await {
            let path = request.line.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
            self.requests.lock().unwrap().push(request);
            let response = self.next(&path);
            let octets = match response {
                ScriptedResponse::Silence => {
                    // Until the client closes the connection.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                ScriptedResponse::HangUp => return,
                ScriptedResponse::Octets(octets) => octets,
                ScriptedResponse::Json(status, body) => {
                    http_response(status, "content-type: application/json\r\n", body.to_string().as_bytes())
                }
                ScriptedResponse::Plain(status, headers, body) => http_response(status, headers, &body),
            };
            if stream.write_all(&octets).await.is_err() {
                return;
            }
        }
    }

    fn next(&self, path: &str) -> ScriptedResponse {
        let mut responses = self.responses.lock().unwrap();
        let Some(responses) = responses.get_mut(path) else { return ScriptedResponse::Plain(404, "", vec![]) };
        let next = if responses.len() > 1 { responses.pop_front() } else { responses.front().cloned() };
        next.unwrap()
    }
}

fn http_response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
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
            // TLS handshake on a plain port.
            let _ = stream.write_all(&http_response(400, "", b"")).await;
            return None;
        }
    }
}
