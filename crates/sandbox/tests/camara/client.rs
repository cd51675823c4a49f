use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use aws_lc_rs::{
    encoding::AsDer,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};
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

    /// Returns the status and the error code, which is in OAuth or CAMARA format.
    pub fn error(&self) -> (u16, String) {
        let body = self.json();
        let code = body.get("error").or(body.get("code")).and_then(Value::as_str);
        (self.status, code.unwrap_or_default().to_owned())
    }
}

/// Sends a request on its own connection. Fails if there is no complete response.
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

/// Signing key of a client, with its public JWK.
pub struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
    pub jwk: Value,
}

impl Signer {
    pub fn es256() -> Self {
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        Self::new(EncodingKey::from_ec_der(key.as_ref()), Algorithm::ES256)
    }

    pub fn eddsa() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).unwrap();
        Self::new(EncodingKey::from_ed_der(key.as_ref()), Algorithm::EdDSA)
    }

    pub fn rsa(algorithm: Algorithm) -> Self {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let wrapped: aws_lc_rs::encoding::Pkcs8V1Der<'_> = key.as_der().unwrap();
        // `EncodingKey` expects PKCS #1, which follows the PKCS #8 prefix of 26 octets.
        Self::new(EncodingKey::from_rsa_der(&wrapped.as_ref()[26..]), algorithm)
    }

    fn new(key: EncodingKey, algorithm: Algorithm) -> Self {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).unwrap()).unwrap();
        jwk["kid"] = json!("the key");
        Self { key, algorithm, jwk }
    }

    pub fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some("the key".to_owned()), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key).unwrap()
    }
}

pub fn fresh_jti() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).to_string()
}
