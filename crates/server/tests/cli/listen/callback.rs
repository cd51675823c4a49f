//! Signed callbacks that tests can alter.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::TcpStream,
    sync::LazyLock,
};

use jiff::Timestamp;
use ringtrue_callback_signature::{
    CallbackSigner, CoveredComponents, authorization_header, digest_header, format_date,
};
use ringtrue_domain::tenancy::Mode;

use crate::process::TIMEOUT;

pub const BODY: &str = r#"{"check_id":"0199b0a8-0000-7000-8000-000000000000","status":"COMPLETED","match":true}"#;

/// Signing key that all tests share, because key generation is slow in debug builds.
pub static KEY: LazyLock<CallbackSigner> = LazyLock::new(new_key);

pub fn new_key() -> CallbackSigner {
    CallbackSigner::from_pkcs8(Mode::Live, &CallbackSigner::generate_pkcs8()).expect("an RSA key")
}

/// A signed callback request that tests can alter after signing.
#[derive(Clone)]
pub struct Callback {
    pub method: &'static str,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Callback {
    pub fn new(host: &str, target: &str) -> Self {
        Callback::signed(host, target, now(), &KEY)
    }

    pub fn signed(host: &str, target: &str, at: Timestamp, key: &CallbackSigner) -> Self {
        let (date, digest) = (format_date(at), digest_header(BODY.as_bytes()));
        let product = "reverse_sms";
        let covered = CoveredComponents { method: "POST", target, host, date: &date, product, digest: &digest };
        let headers = [
            ("host", host.to_owned()),
            ("authorization", authorization_header(&covered, key)),
            ("date", date.clone()),
            ("x-service-callback", product.to_owned()),
            ("digest", digest.clone()),
            ("content-type", "application/json".to_owned()),
            ("x-service-callback-attempt", "1".to_owned()),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Callback { method: "POST", target: target.to_owned(), headers, body: BODY.to_owned() }
    }

    pub fn get(&self, header_name: &str) -> &str {
        &self.headers.iter().find(|(name, _)| name == header_name).expect("the header exists").1
    }

    pub fn set(&mut self, header_name: &str, value: &str) {
        let header = self.headers.iter_mut().find(|(name, _)| name == header_name).expect("the header exists");
        value.clone_into(&mut header.1);
    }

    pub fn replace(&mut self, name: &str, old: &str, new: &str) {
        let value = self.get(name).replacen(old, new, 1);
        assert_ne!(value, self.get(name), "{name} does not contain {old}");
        self.set(name, &value);
    }

    pub fn remove(&mut self, header_name: &str) {
        self.headers.retain(|(name, _)| name != header_name);
    }

    /// Sends the callback, and returns the status of the response.
    pub fn send(&self, address: &str) -> u16 {
        let mut request = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        write!(request, "content-length: {}\r\n\r\n{}", self.body.len(), self.body).unwrap();
        status(&raw(address, request.as_bytes())).expect("a response")
    }
}

#[expect(clippy::disallowed_methods, reason = "the binary uses the system clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Sends bytes, and returns the response until the connection closes.
pub fn raw(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("a server listens");
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // Errors are ignored, because `listen` may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut response = vec![];
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

pub fn status(response: &str) -> Option<u16> {
    response.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
