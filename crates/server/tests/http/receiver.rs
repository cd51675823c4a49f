//! A callback receiver, as a customer would run one.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use aws_lc_rs::{
    digest,
    signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents},
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use crate::client::WAIT_LIMIT;

/// The loopback address that test nodes allow for callbacks.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

/// Responds with 200 by default and keeps the callbacks.
pub struct Receiver {
    address: SocketAddr,
    callbacks: mpsc::UnboundedReceiver<Callback>,
    responses: Arc<Mutex<VecDeque<&'static str>>>,
    task: JoinHandle<()>,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Callback {
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Receiver {
    #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind((ADDRESS, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let responses: Arc<Mutex<VecDeque<&'static str>>> = Arc::default();
        let (sender, callbacks) = mpsc::unbounded_channel();
        let script = Arc::clone(&responses);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, sender.clone(), Arc::clone(&script)));
            }
        });
        Receiver { address, callbacks, responses, task }
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Raw responses to the next requests. An empty one closes the connection.
    pub fn respond_with(&self, responses: impl IntoIterator<Item = &'static str>) {
        self.responses.lock().expect("no panic").extend(responses);
    }

    pub async fn next(&mut self) -> Callback {
        timeout(WAIT_LIMIT, self.callbacks.recv()).await.expect("a callback in time").expect("a receiver")
    }

    /// Whether no unread callback is pending.
    pub fn is_quiet(&mut self) -> bool {
        self.callbacks.try_recv().is_err()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    sender: mpsc::UnboundedSender<Callback>,
    script: Arc<Mutex<VecDeque<&'static str>>>,
) {
    let mut buffer = vec![];
    while let Some(callback) = read(&mut stream, &mut buffer).await {
        let response = script.lock().expect("no panic").pop_front();
        let response = response.unwrap_or("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        if sender.send(callback).is_err() || response.is_empty() || stream.write_all(response.as_bytes()).await.is_err()
        {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Callback> {
    loop {
        if let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8(buffer[..head].to_vec()).ok()?;
            let mut lines = text.split("\r\n");
            let target = lines.next()?.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?.to_owned();
            let headers: Vec<(String, String)> = lines
                .map(|line| line.split_once(": ").expect("a header"))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let callback = Callback { target, headers, body: vec![] };
            let length: usize = callback.header("content-length").parse().ok()?;
            if buffer.len() >= head + 4 + length {
                let body = buffer[head + 4..head + 4 + length].to_vec();
                buffer.drain(..head + 4 + length);
                return Some(Callback { body, ..callback });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

impl Callback {
    /// The value of a header that must occur once.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .collect();
        assert_eq!(values.len(), 1, "{name} in {:?}", self.headers);
        values[0]
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    pub fn key_id(&self) -> String {
        self.parameter("keyId")
    }

    fn signature(&self) -> &str {
        self.header("authorization").strip_prefix("Signature ").expect("the scheme")
    }

    fn parameter(&self, name: &str) -> String {
        let mut parts = self.signature().split(',').filter_map(|part| part.split_once('='));
        let (_, value) = parts.find(|(part, _)| *part == name).expect("the parameter");
        value.trim_matches('"').to_owned()
    }

    /// Verifies the signature according to the specification, without our own code.
    #[track_caller]
    pub fn assert_signed_by(&self, jwks: &Value) {
        let digest = BASE64_STANDARD.encode(digest::digest(&digest::SHA256, &self.body));
        assert_eq!(self.header("digest"), format!("SHA-256={digest}"));

        assert_eq!(self.parameter("algorithm"), "rsa-sha256");
        let signed = "(request-target) host date x-service-callback digest";
        assert_eq!(self.parameter("headers"), signed);
        let lines = signed.split(' ').map(|name| match name {
            "(request-target)" => format!("{name}: post {}", self.target),
            name => format!("{name}: {}", self.header(name)),
        });
        let signing_string = lines.collect::<Vec<_>>().join("\n");

        let kid = self.key_id();
        let key = jwks["keys"].as_array().expect("keys").iter().find(|key| key["kid"] == kid.as_str());
        let key = key.expect("a published key");
        let number =
            |name: &str| BASE64_URL_SAFE_NO_PAD.decode(key[name].as_str().expect("a number")).expect("base64url");
        let key = RsaPublicKeyComponents { n: number("n"), e: number("e") };
        let signature = self.signature().rsplit_once("signature=\"").expect("a signature").1.trim_end_matches('"');
        let signature = BASE64_STANDARD.decode(signature).expect("base64");
        let verified = key.verify(&RSA_PKCS1_2048_8192_SHA256, signing_string.as_bytes(), &signature);
        assert!(verified.is_ok(), "the signature is not good for {signing_string}");
    }
}
