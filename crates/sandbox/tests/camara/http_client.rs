use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};

#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl TestResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// Status and error code, in OAuth or CAMARA format.
    pub fn error(&self) -> (u16, String) {
        let body = self.json();
        let code = body.get("error").or(body.get("code")).and_then(Value::as_str);
        (self.status, code.unwrap_or_default().to_owned())
    }
}

/// Sends a request on its own connection. Fails without a complete response.
pub async fn send_request(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<TestResponse, hyper::Error> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let mut running = JoinSet::new();
    running.spawn(connection);
    let mut request = Request::builder().method(method).uri(target).header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, body) =
        sender.send_request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await?.into_parts();
    let body = body.collect().await?.to_bytes().to_vec();
    Ok(TestResponse { status: head.status.as_u16(), headers: head.headers, body })
}
