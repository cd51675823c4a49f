//! HTTP/1.1 servers on loopback sockets. They record the requests, and send scripted responses.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_util::task::TaskTracker;
use url::Url;

use crate::WAIT_LIMIT;

/// Key of the script for all paths that have no script of their own.
pub const ANY_PATH: &str = "";

#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub target: String,
    /// Headers in the order of the request, with their original names.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Number of the connection, in the order in which connections were accepted.
    pub connection: usize,
}

#[derive(Clone, Debug)]
pub enum ScriptedResponse {
    Json(u16, Value),
    /// A status, header lines that each end with CRLF, and a body.
    Plain(u16, &'static str, Vec<u8>),
    /// The bytes of the whole response.
    Raw(Vec<u8>),
    /// Keeps the connection open without a response.
    Silence,
    /// Closes the connection without a response.
    HangUp,
}

/// A server that counts its connections, and handles each with a function from the test.
#[derive(Debug)]
pub struct TestServer {
    pub port: u16,
    connections: Arc<watch::Sender<usize>>,
}

/// A server that sends the scripted responses of a path in order, and repeats the last one. Paths without a script get
/// a 404.
#[derive(Clone, Debug)]
pub struct ScriptedServer {
    pub port: u16,
    responses: Arc<Mutex<HashMap<&'static str, VecDeque<ScriptedResponse>>>>,
    requests: Arc<watch::Sender<Vec<ReceivedRequest>>>,
}

impl ReceivedRequest {
    /// Parses the request at the beginning of the bytes, and returns it with its length. `None`: the request is
    /// incomplete.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let text = String::from_utf8(bytes[..head].to_vec()).expect("an ASCII head");
        let mut lines = text.split("\r\n");
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let headers = lines.map(|line| header(line).expect("a header")).collect();
        let request = ReceivedRequest { method, target, headers, body: vec![], connection: 0 };
        let length = request.find_header("content-length").map_or(0, |length| length.parse().expect("a number"));
        let body = bytes.get(head + 4..head + 4 + length)?.to_vec();
        Some((ReceivedRequest { body, ..request }, head + 4 + length))
    }

    /// Reads the next request of a connection. `buffer` keeps bytes of later requests. `None`: the connection was
    /// closed.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Self> {
        loop {
            if let Some((request, length)) = ReceivedRequest::parse(buffer) {
                buffer.drain(..length);
                return Some(request);
            }
            if stream.read_buf(buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    /// Returns the method and the target, separated by a space.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the value of a header. Panics unless the header occurs exactly once.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.find_header(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    /// Returns the value of a header. Panics if the header occurs more than once.
    #[track_caller]
    pub fn find_header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} occurs twice: {:?}", self.headers);
        value
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(&self.body).into_owned().collect()
    }
}

impl TestServer {
    /// Binds `address`, and passes each connection and its number to `serve`.
    pub async fn start<F, D>(address: &str, serve: F) -> Self
    where
        F: Fn(TcpStream, usize) -> D + Send + 'static,
        D: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections: Arc<watch::Sender<usize>> = Arc::default();
        let counter = Arc::clone(&connections);
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                counter.send_replace(connection + 1);
                tasks.spawn(serve(stream, connection));
            }
        });
        TestServer { port, connections }
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://127.0.0.1:{}{target}", self.port)
    }

    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    pub async fn wait_for_connections(&self, count: usize) {
        let mut connections = self.connections.subscribe();
        let opened = timeout(WAIT_LIMIT, connections.wait_for(|opened| *opened >= count)).await;
        opened.expect("connections in time").expect("a running server");
    }
}

impl ScriptedServer {
    pub async fn start() -> Self {
        let (responses, requests) = (Arc::default(), Arc::default());
        let mut server = ScriptedServer { port: 0, responses, requests };
        let serving = server.clone();
        let serve = move |stream, connection| serving.clone().serve(stream, connection);
        server.port = TestServer::start("127.0.0.1:0", serve).await.port;
        server
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    pub fn respond(&self, path: &'static str, responses: impl IntoIterator<Item = ScriptedResponse>) {
        self.responses.lock().insert(path, responses.into_iter().collect());
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.borrow().clone()
    }

    /// Returns the requests with exactly this target.
    pub fn requests_to(&self, target: &str) -> Vec<ReceivedRequest> {
        self.requests.borrow().iter().filter(|request| request.target == target).cloned().collect()
    }

    /// Returns and forgets the requests since the last call.
    pub fn take_requests(&self) -> Vec<ReceivedRequest> {
        self.requests.send_replace(vec![])
    }

    /// Waits until this many requests were received since the last [`take_requests`](Self::take_requests).
    pub async fn wait_for_requests(&self, count: usize) {
        let mut requests = self.requests.subscribe();
        let received = timeout(WAIT_LIMIT, requests.wait_for(|requests| requests.len() >= count)).await;
        assert!(received.is_ok(), "only {} of {count} requests were received", self.requests.borrow().len());
    }

    async fn serve(self, mut stream: TcpStream, connection: usize) {
        let mut buffer = vec![];
        while let Some(request) = read_plain_request(&mut stream, &mut buffer).await {
            let response = self.next_response(request.path());
            self.requests.send_modify(|requests| requests.push(ReceivedRequest { connection, ..request }));
            let bytes = match response {
                ScriptedResponse::Silence => {
                    // Waits until the client closes the connection.
                    let _ = stream.read(&mut [0]).await;
                    return;
                }
                ScriptedResponse::HangUp => return,
                ScriptedResponse::Raw(bytes) => bytes,
                ScriptedResponse::Json(status, body) => {
                    render(status, "content-type: application/json\r\n", body.to_string().as_bytes())
                }
                ScriptedResponse::Plain(status, headers, body) => render(status, headers, &body),
            };
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }

    fn next_response(&self, path: &str) -> ScriptedResponse {
        let mut scripts = self.responses.lock();
        let path = if scripts.contains_key(path) { path } else { ANY_PATH };
        let Some(script) = scripts.get_mut(path) else { return ScriptedResponse::Plain(404, "", vec![]) };
        let next = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
        next.expect("a response")
    }
}

/// Reads a request. Responds with 400 to a TLS handshake, as web servers do.
async fn read_plain_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<ReceivedRequest> {
    let mut first = [0];
    if buffer.is_empty() && stream.peek(&mut first).await.ok()? == 1 && first == [0x16] {
        let _ = stream.write_all(&render(400, "", b"")).await;
        return None;
    }
    ReceivedRequest::read(stream, buffer).await
}

fn render(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
