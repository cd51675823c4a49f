//! A callback receiver, such as a customer would run.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use aws_lc_rs::{
    digest,
    signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents},
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::mpsc, time::timeout};

use crate::{
    WAIT_LIMIT,
    http_server::{ReceivedRequest, TestServer},
};

/// The loopback address that test nodes allow for callbacks.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 77);

/// Receives callbacks and keeps them. Responds with 200 by default.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    callbacks: mpsc::UnboundedReceiver<ReceivedRequest>,
    responses: Arc<Mutex<VecDeque<&'static str>>>,
}

impl Receiver {
    pub async fn start() -> Self {
        let responses: Arc<Mutex<VecDeque<&'static str>>> = Arc::default();
        let (sender, callbacks) = mpsc::unbounded_channel();
        let script = Arc::clone(&responses);
        let serve = move |mut stream: TcpStream, _| {
            let (sender, script) = (sender.clone(), Arc::clone(&script));
            async move {
                let mut buffer = vec![];
                while let Some(callback) = ReceivedRequest::read(&mut stream, &mut buffer).await {
                    assert_eq!(callback.method, "POST");
                    let response = script.lock().pop_front();
                    let response = response.unwrap_or("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                    let is_kept = sender.send(callback).is_ok() && !response.is_empty();
                    if !is_kept || stream.write_all(response.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        };
        let port = TestServer::start(&format!("{ADDRESS}:0"), serve).await.port;
        Receiver { address: (ADDRESS, port).into(), callbacks, responses }
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }

    /// Sets the raw responses to the next requests. An empty response closes the connection.
    pub fn respond_with(&self, responses: impl IntoIterator<Item = &'static str>) {
        self.responses.lock().extend(responses);
    }

    pub async fn next(&mut self) -> ReceivedRequest {
        timeout(WAIT_LIMIT, self.callbacks.recv()).await.expect("a callback in time").expect("a receiver")
    }

    /// Returns whether all received callbacks were read. If not, discards the next one.
    pub fn is_quiet(&mut self) -> bool {
        self.callbacks.try_recv().is_err()
    }
}

/// Checks the signature of a callback.
impl ReceivedRequest {
    pub fn key_id(&self) -> String {
        self.signature_parameter("keyId")
    }

    /// Verifies the signature as the specification describes it, without using our own code.
    #[track_caller]
    pub fn assert_signed_by(&self, jwks: &Value) {
        let digest = BASE64_STANDARD.encode(digest::digest(&digest::SHA256, &self.body));
        assert_eq!(self.header("digest"), format!("SHA-256={digest}"));

        assert_eq!(self.signature_parameter("algorithm"), "rsa-sha256");
        let signed = "(request-target) host date x-service-callback digest";
        assert_eq!(self.signature_parameter("headers"), signed);
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
        assert!(verified.is_ok(), "the signature is not valid for {signing_string}");
    }

    fn signature(&self) -> &str {
        self.header("authorization").strip_prefix("Signature ").expect("the scheme")
    }

    fn signature_parameter(&self, name: &str) -> String {
        let mut parts = self.signature().split(',').filter_map(|part| part.split_once('='));
        let (_, value) = parts.find(|(part, _)| *part == name).expect("the parameter");
        value.trim_matches('"').to_owned()
    }
}
