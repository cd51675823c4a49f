//! Tests that exported traces contain route templates and no personal data.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc::{self, Receiver},
    thread,
};

use super::{
    client::{TestClient, text},
    process::{get, request},
};

/// Fake OpenTelemetry collector.
struct Collector {
    endpoint: String,
    exports: Receiver<Vec<u8>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, exports) = mpsc::channel();
        thread::spawn(move || while let Ok(()) = collect(&listener, |export| sender.send(export)) {});
        Collector { endpoint, exports }
    }

    /// Starts a server that exports its traces to this collector. Returns a signed-in client of the server.
    fn signed_in_client(&self) -> TestClient {
        let client = TestClient::with(&[("RINGTRUE_TELEMETRY__OTLP_ENDPOINT", &self.endpoint)]);
        client.run("login --data data").expect_code(0);
        client
    }

    /// Returns all exports. Must be called after the server has stopped, so that no export is in progress.
    fn exports(self) -> Exports {
        Exports(self.exports.try_iter().flatten().collect())
    }
}

struct Exports(Vec<u8>);

impl Exports {
    fn has(&self, text: &str) -> bool {
        self.0.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// Reads one export and passes its bytes to `forward` before acknowledging it.
fn collect<E>(listener: &TcpListener, forward: impl FnOnce(Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = vec![];
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let length: Option<usize> =
            text.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let (Some(length), Some(head)) = (length, head)
            && bytes.len() >= head + 4 + length
        {
            break;
        }
        assert!(read > 0, "incomplete export");
    }
    forward(bytes)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    Ok(())
}

#[test]
fn traces_contain_routes_but_no_paths() {
    let collector = Collector::start();
    let mut client = collector.signed_in_client();
    let dev = client.dev();
    let base_url = text(&dev, "base_url");
    let (status, _) = get(base_url, "/errors/forbidden?access_token=not-for-traces");
    assert_eq!(status, 200);
    let (status, _) = get(base_url, "/v1/eligibility/phone-numbers/%2B447700900123");
    assert_eq!(status, 401);
    client.stop();

    let exports = collector.exports();
    assert!(exports.has("POST /v1/traces"));
    assert!(exports.has("/errors/{error_code}") && exports.has("ringtrue"));
    assert!(!exports.has("not-for-traces") && !exports.has("/errors/forbidden"));
    assert!(exports.has("/v1/eligibility/phone-numbers/{phone_number}") && !exports.has("7700900123"));
}

/// Claimed and discovered numbers pass through every step of a silent check: bodies, queries, operator responses and
/// API responses.
#[test]
fn traces_contain_no_numbers_of_silent_checks() {
    const CLAIMED: &str = "990481516300";
    const DISCOVERED: &str = "990481516342";
    let collector = Collector::start();
    let mut client = collector.signed_in_client();
    let dev = client.dev();
    let base_url = text(&dev, "base_url");
    // Nothing listens on this port, so that the test also covers the traces of failed callbacks.
    let callback = "--callback-url http://127.0.0.1:9/done";

    client.run(&format!("secure-sna create +{CLAIMED} {callback}")).expect_code(0);
    let verified = client.json(&format!("trigger --redeem --sim +{CLAIMED}"));
    assert_eq!((text(&verified, "status"), &verified["match"]), ("COMPLETED", &true.into()));
    client.run(&format!("discovery create {callback}")).expect_code(0);
    let found = client.json(&format!("trigger --redeem --sim +{DISCOVERED}"));
    assert_eq!(text(&found, "phone_number"), format!("+{DISCOVERED}"));
    let found = client.json(&format!("discovery get {}", text(&found, "check_id")));
    assert_eq!(text(&found, "phone_number"), format!("+{DISCOVERED}"), "reads return the number too");

    // Numbers must not appear in traces even if a client puts them into the path instead of an id.
    for number in [CLAIMED, DISCOVERED] {
        for plus in ["+", "%2B", ""] {
            get(base_url, &format!("/v1/number-verification/discovery-checks/{plus}{number}"));
            let check = format!("/v1/number-verification/secure-sna-checks/{plus}{number}/redirect");
            get(base_url, &format!("{check}?t={plus}{number}&sim={plus}{number}"));
            request(base_url, &format!("POST /{plus}{number} HTTP/1.1\r\nx-request-id: +{number} x"), number);
        }
    }
    client.stop();

    let exports = collector.exports();
    for route in [
        "/v1/number-verification/secure-sna-checks",
        "/v1/number-verification/secure-sna-checks/{check_id}",
        "/v1/number-verification/discovery-checks",
        "/v1/number-verification/discovery-checks/{check_id}",
        "/v1/number-verification/discovery-checks/{check_id}/redirect",
        "/v1/sandbox/operator/authorize",
        "/southbound/camara/{connector}/callback",
    ] {
        assert!(exports.has(route), "no span of {route}");
    }
    for number in [CLAIMED, DISCOVERED] {
        let national = &number[3..];
        for form in [format!("+{number}"), format!("%2B{number}"), number.to_owned(), national.to_owned()] {
            assert!(!exports.has(&form), "{form} is in a trace");
        }
    }
}
