//! Traces: a request of the real binary reaches a collector.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use super::process::{Server, get, ringtrue};

/// Takes one export, answers it, and gives its bytes.
fn collect(listener: &TcpListener) -> Vec<u8> {
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
        assert!(read > 0, "the export broke off");
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    bytes
}

#[test]
fn a_request_reaches_the_collector_with_its_route_and_without_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let (sender, exports) = mpsc::channel();
    thread::spawn(move || while sender.send(collect(&collector)).is_ok() {});

    let mut command = ringtrue(folder.path());
    command.args(["dev", "--data", "data", "--listen", "127.0.0.1:0"]);
    let server = Server::start(command.env("RINGTRUE_TELEMETRY__OTLP_ENDPOINT", endpoint));
    let ready = server.wait_for("Ringtrue is ready at ");
    let base_url = ready.split_whitespace().last().unwrap().to_owned();
    let (status, _) = get(&base_url, "/errors/forbidden?access_token=not-for-traces");
    assert_eq!(status, 200);
    let (status, _) = get(&base_url, "/v1/eligibility/phone-numbers/%2B447700900123");
    assert_eq!(status, 401);
    server.stop();

    let export = exports.iter().next().unwrap();
    let has = |text: &str| export.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("POST /v1/traces"));
    assert!(has("/errors/{error_code}") && has("ringtrue"));
    assert!(!has("not-for-traces") && !has("/errors/forbidden"));
    assert!(has("/v1/eligibility/phone-numbers/{phone_number}") && !has("7700900123"));
}
