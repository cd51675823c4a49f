use ringtrue_test_support::http_server::{ReceivedRequest, TestServer};
use tokio::io::AsyncWriteExt;

use super::{loopback, post, recording, responding};

#[tokio::test]
async fn request_is_sent_as_signed() {
    let (peer, mut requests) = recording().await;
    let client = loopback();
    for target in ["/", "/a%2Fb//c?x=%7e&y[]=1&", "//double/?", "/hook?", "/%c3%a9/~!$&'()*+,;=:@?/?"] {
        assert_eq!(post(&client, &peer.url(target)).await.unwrap().status, 200, "{target}");
        let host = format!("127.0.0.1:{}", peer.port);
        let received = requests.recv().await.unwrap();
        assert_eq!(received.line(), format!("POST {target}"));
        let headers: Vec<_> = received.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("host", host.as_str()),
            ("x-service-callback", "reverse_sms"),
            ("authorization", "Signature keyId=\"k\""),
            ("digest", "SHA-256=x"),
            ("date", "Sat, 14 Nov 2026 09:30:00 GMT"),
            ("content-type", "application/json"),
            ("content-length", "22"),
        ];
        assert_eq!((headers.as_slice(), received.text()), (&expected[..], r#"{"status":"COMPLETED"}"#));
    }
}

#[tokio::test]
async fn every_status_is_returned() {
    let client = loopback();
    for status in [200, 201, 204, 400, 404, 410, 429, 500, 503] {
        let response = format!("HTTP/1.1 {status} Whatever\r\nretry-after: 1\r\nconnection: close\r\n\r\n");
        let peer = TestServer::start("127.0.0.1:0", move |mut stream, _| {
            let response = response.clone();
            async move {
                ReceivedRequest::read(&mut stream, &mut vec![]).await;
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        })
        .await;
        let response = post(&client, &peer.url("/")).await.unwrap();
        assert_eq!(response.status, status);
        assert!(response.headers.contains(&("retry-after".to_owned(), "1".to_owned())));
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (redirect_target, _requests) = recording().await;
    for status in [301, 302, 303, 307, 308] {
        for location in [redirect_target.url("/"), "http://169.254.169.254/latest/meta-data".to_owned()] {
            let response = format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            let peer = responding(response).await;
            assert_eq!(post(&loopback(), &peer.url("/")).await.unwrap().status, status);
        }
    }
    assert_eq!(redirect_target.connections(), 0);
}

#[tokio::test]
async fn connections_are_reused() {
    let (peer, _requests) = recording().await;
    let client = loopback();
    for _ in 0..20 {
        assert_eq!(post(&client, &peer.url("/")).await.unwrap().status, 200);
    }
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn closed_pooled_connection_is_replaced() {
    // The peer closes the connection after each response, without announcing it by `connection: close`.
    let peer = TestServer::start("127.0.0.1:0", |mut stream, _| async move {
        ReceivedRequest::read(&mut stream, &mut vec![]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let client = loopback();
    for _ in 0..20 {
        assert_eq!(post(&client, &peer.url("/")).await.map(|response| response.status), Ok(200));
    }
    assert_eq!(peer.connections(), 20);
}

/// The peer closes a reused connection when the next request arrives.
#[tokio::test]
async fn request_on_a_stale_connection_is_sent_again_once() {
    let peer = TestServer::start("127.0.0.1:0", |mut stream, _| async move {
        ReceivedRequest::read(&mut stream, &mut vec![]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        ReceivedRequest::read(&mut stream, &mut vec![]).await;
    })
    .await;
    let client = loopback();
    for connections in [1, 2, 3] {
        assert_eq!(post(&client, &peer.url("/")).await.map(|response| response.status), Ok(200));
        assert_eq!(peer.connections(), connections);
    }
}

#[tokio::test]
async fn body_is_truncated_and_not_decoded() {
    let body = "x".repeat(20_000);
    let peer = responding(format!("HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n{body}")).await;
    let client = loopback();
    assert_eq!(post(&client, &peer.url("/")).await.unwrap().body.len(), 4 * 1_024);
    post(&client, &peer.url("/")).await.unwrap();
    assert_eq!(peer.connections(), 1, "the connection is reused after a truncated body");

    let claimed = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x0b\x08\x00";
    let peer = responding(claimed).await;
    assert_eq!(post(&client, &peer.url("/")).await.unwrap().body, b"\x1f\x0b\x08\x00");
}
