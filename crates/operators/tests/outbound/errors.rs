use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringtrue_engine::ports::transport::TransportError;
use ringtrue_test_support::http_server::{ReceivedRequest, TestServer};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::{loopback, post, responding};

/// Maximum duration of a request: the client's deadline, and slack for a busy machine.
const MAX_ELAPSED: Duration = Duration::from_secs(4);

#[tokio::test]
async fn closed_port_and_reset_are_connection_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    assert_eq!(post(&loopback(), &closed).await, Err(TransportError::Connection));

    let reset = TestServer::start("127.0.0.1:0", |stream, _| async move {
        // Closing with unread bytes sends a reset.
        sleep(Duration::from_millis(50)).await;
        drop(stream);
    })
    .await;
    assert_eq!(post(&loopback(), &reset.url("/")).await, Err(TransportError::Connection));
    assert_eq!(reset.connections(), 1, "the client does not retry");
}

#[tokio::test]
async fn silent_peer_times_out() {
    let peer = TestServer::start("127.0.0.1:0", |stream, _| async move {
        sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    let started_at = Instant::now();
    assert_eq!(post(&loopback(), &peer.url("/")).await, Err(TransportError::Timeout));
    assert!(started_at.elapsed() < MAX_ELAPSED);
}

async fn drip(mut stream: TcpStream, head: &'static str) {
    ReceivedRequest::read(&mut stream, &mut vec![]).await;
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(b"x").await.is_ok() {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn drip_feeding_peer_times_out() {
    let head = TestServer::start("127.0.0.1:0", |stream, _| drip(stream, "HTTP/1.1 200 OK\r\nx-y: ")).await;
    let started_at = Instant::now();
    assert_eq!(post(&loopback(), &head.url("/")).await, Err(TransportError::Timeout));
    assert!(started_at.elapsed() < MAX_ELAPSED);

    // The status decides. A slow body does not fail the request, because it is only for the delivery log.
    let body =
        TestServer::start("127.0.0.1:0", |stream, _| drip(stream, "HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"));
    let body = body.await;
    let started_at = Instant::now();
    assert_eq!(post(&loopback(), &body.url("/")).await.unwrap().status, 200);
    assert!(started_at.elapsed() < MAX_ELAPSED);
}

/// Starts a peer that sends the head and then repeats `piece` for as long as the client reads. Also returns the number
/// of bytes that the peer has sent after the head.
async fn flooding_peer(head: &'static str, piece: &'static str) -> (TestServer, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let peer = TestServer::start("127.0.0.1:0", move |mut stream, _| {
        let counter = Arc::clone(&counter);
        async move {
            ReceivedRequest::read(&mut stream, &mut vec![]).await;
            let _ = stream.write_all(head.as_bytes()).await;
            let pieces = piece.repeat(100);
            while stream.write_all(pieces.as_bytes()).await.is_ok() {
                counter.fetch_add(pieces.len(), Ordering::SeqCst);
            }
        }
    })
    .await;
    (peer, taken)
}

/// Limit for the bytes that a flooding peer can send: more than the socket buffers of both sides and the client's own
/// limit hold together.
const MAX_BYTES_SENT: usize = 16 * 1_024 * 1_024;

#[tokio::test]
async fn endless_body_is_cut_off() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
    ] {
        let (peer, taken) = flooding_peer(head, "0123456789").await;
        let started_at = Instant::now();
        let response = post(&loopback(), &peer.url("/")).await.unwrap();
        assert_eq!((response.status, response.body.len()), (200, 4 * 1_024));
        assert!(started_at.elapsed() < MAX_ELAPSED);
        assert!(taken.load(Ordering::SeqCst) < MAX_BYTES_SENT, "{} bytes", taken.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn endless_headers_are_too_large() {
    for (head, piece) in
        [("HTTP/1.1 200 OK\r\n", "x-more: and more\r\n"), ("HTTP/1.1 200 OK\r\nx-long: ", "and longer ")]
    {
        let (peer, taken) = flooding_peer(head, piece).await;
        assert_eq!(post(&loopback(), &peer.url("/")).await, Err(TransportError::TooLarge));
        assert!(taken.load(Ordering::SeqCst) < MAX_BYTES_SENT);
    }
}

#[tokio::test]
async fn endless_interim_responses_time_out() {
    let (peer, _) = flooding_peer("", "HTTP/1.1 103 Early Hints\r\n\r\n").await;
    let started_at = Instant::now();
    assert!(post(&loopback(), &peer.url("/")).await.is_err());
    assert!(started_at.elapsed() < MAX_ELAPSED);
}

#[tokio::test]
async fn invalid_http_is_a_protocol_error() {
    for response in [
        &b"hello from 1991\r\n\r\n"[..],
        b"<html>200 OK</html>\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x00\xff\x16\x03\x01\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    ] {
        let peer = responding(response).await;
        let outcome = post(&loopback(), &peer.url("/")).await;
        assert_eq!(outcome, Err(TransportError::Protocol), "{}", String::from_utf8_lossy(response));
    }
}
