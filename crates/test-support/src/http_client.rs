//! A minimal HTTP/1.1 client that sends exact bytes and exposes the whole response.

use std::net::SocketAddr;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::WAIT_LIMIT;

#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Returns the value of a header. Panics if the header occurs more than once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} occurs twice: {:?}", self.headers);
        value
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("not JSON ({error}): {:?}", self.text()))
    }

    pub fn code(&self) -> String {
        self.json()["error_code"].as_str().unwrap_or_else(|| panic!("not a problem: {}", self.text())).to_owned()
    }

    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or_else(|| panic!("not a problem: {}", self.text())).to_owned()
    }

    /// Returns the access token from the response to a token request.
    #[track_caller]
    pub fn access_token(self) -> String {
        let response = self.assert(200);
        response.json()["access_token"].as_str().expect("a token").to_owned()
    }

    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "often the last step of a test")]
    pub fn assert(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "often the last step of a test")]
    pub fn assert_problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        self
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Option<Vec<u8>>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        Request { method: method.to_owned(), target: target.to_owned(), headers: vec![], body: None }
    }

    pub fn get(target: &str) -> Self {
        Request::new("GET", target)
    }

    pub fn post(target: &str) -> Self {
        Request::new("POST", target)
    }

    pub fn put(target: &str) -> Self {
        Request::new("PUT", target)
    }

    pub fn patch(target: &str) -> Self {
        Request::new("PATCH", target)
    }

    pub fn delete(target: &str) -> Self {
        Request::new("DELETE", target)
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    #[must_use]
    pub fn basic(self, id: &str, secret: &str) -> Self {
        self.header("Authorization", basic_auth(id, secret))
    }

    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self.header("Content-Type", content_type)
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    #[must_use]
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body("application/x-www-form-urlencoded", form)
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name))
    }

    /// Returns the bytes to send, with `Connection: close` by default.
    pub fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if !self.has("Host") {
            bytes.extend(format!("Host: {address}\r\n").bytes());
        }
        for (name, value) in &self.headers {
            bytes.extend(name.bytes());
            bytes.extend(b": ");
            bytes.extend(value);
            bytes.extend(b"\r\n");
        }
        if let Some(body) = &self.body
            && !self.has("Content-Length")
            && !self.has("Transfer-Encoding")
        {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        if !self.has("Connection") {
            bytes.extend(b"Connection: close\r\n");
        }
        bytes.extend(b"\r\n");
        bytes.extend(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// Returns the value of an `Authorization` header for HTTP Basic authentication.
pub fn basic_auth(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

/// Builds a token request with the grant type `client_credentials`.
pub fn token_request(id: &str, secret: &str, scope: &str) -> Request {
    Request::post("/oauth2/token").basic(id, secret).form(&[("grant_type", "client_credentials"), ("scope", scope)])
}

/// Sends a request on a new connection and reads the response.
pub async fn send(address: SocketAddr, request: &Request) -> HttpResponse {
    let response = send_raw(address, &request.bytes(address)).await;
    parse(&response, request.method == "HEAD")
}

/// Sends a request. `None`: the connection failed, or closed before the response was complete. The result is then
/// unknown.
pub async fn try_send(address: SocketAddr, request: &Request) -> Option<HttpResponse> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(&request.bytes(address)).await.ok()?;
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).await.ok()?;
    try_parse(&bytes)
}

/// Sends raw bytes, and returns everything that the server sends until it closes the connection.
pub async fn send_raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let (mut read, mut write) = stream.split();
    // Ignores a failed write: the server may close the connection before everything is sent.
    let (_, response) = tokio::join!(write.write_all(bytes), read_until_closed(&mut read));
    response
}

pub async fn read_until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut response = vec![];
    let ended = timeout(WAIT_LIMIT, stream.read_to_end(&mut response)).await;
    assert!(ended.is_ok(), "the connection stays open after {:?}", String::from_utf8_lossy(&response));
    response
}

/// Parses a response. `None`: the response is incomplete.
pub fn try_parse(bytes: &[u8]) -> Option<HttpResponse> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let length = String::from_utf8_lossy(&bytes[..head]).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse::<usize>().ok() } else { None }
    });
    (bytes.len() == head + 4 + length.unwrap_or(0)).then(|| parse(bytes, false))
}

pub fn parse(bytes: &[u8], is_head: bool) -> HttpResponse {
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no response: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8(bytes[..end].to_vec()).expect("an ASCII head");
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').expect("a header");
            (name.to_owned(), value.trim().to_owned())
        })
        .collect();
    let body = bytes[end + 4..].to_vec();
    let response = HttpResponse { status: status.expect("a status"), headers, body };
    if let Some(length) = response.header("content-length")
        && !is_head
        && response.status != 304
    {
        assert_eq!(length.parse(), Ok(response.body.len()), "the body has the announced length");
    }
    response
}
