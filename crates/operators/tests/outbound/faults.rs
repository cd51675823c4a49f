use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ringtrue_engine::ports::Undelivered;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::{
    loopback,
    peer::{Peer, read_request},
    post,
};

/// Beyond the client's own deadline in these tests, and some slack for a busy machine.
const IN_TIME: Duration = Duration::from_secs(4);

#[tokio::test]
async fn a_closed_port_and_a_reset_are_lost_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    assert_eq!(post(&loopback(), &closed).await, Err(Undelivered::Connection));

    let reset = Peer::serving("127.0.0.1:0", |stream| async move {
        // Unread bytes make the closing a reset.
        sleep(Duration::from_millis(50)).await;
        drop(stream);
    })
    .await;
    assert_eq!(post(&loopback(), &reset.url("/")).await, Err(Undelivered::Connection));
    assert_eq!(reset.connections(), 1, "a lost answer is not asked for again by the client itself");
}

#[tokio::test]
async fn silence_ends_by_the_deadline() {
    let peer = Peer::serving("127.0.0.1:0", |stream| async move {
        sleep(Duration::from_mins(1)).await;
        drop(stream);
    })
    .await;
    let begun = Instant::now();
    assert_eq!(post(&loopback(), &peer.url("/")).await, Err(Undelivered::Timeout));
    assert!(begun.elapsed() < IN_TIME);
}

async fn drip(mut stream: TcpStream, head: &'static str) {
    read_request(&mut stream).await;
    let _ = stream.write_all(head.as_bytes()).await;
    while stream.write_all(b"x").await.is_ok() {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn drip_feeding_ends_by_the_deadline() {
    let head = Peer::serving("127.0.0.1:0", |stream| drip(stream, "HTTP/1.1 200 OK\r\nx-y: ")).await;
    let begun = Instant::now();
    assert_eq!(post(&loopback(), &head.url("/")).await, Err(Undelivered::Timeout));
    assert!(begun.elapsed() < IN_TIME);

    // The status has been said; the body would only have gone into the log.
    let body = Peer::serving("127.0.0.1:0", |stream| drip(stream, "HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n"));
    let body = body.await;
    let begun = Instant::now();
    assert_eq!(post(&loopback(), &body.url("/")).await.unwrap().status, 200);
    assert!(begun.elapsed() < IN_TIME);
}

/// Sends the head, then as much of the rest as anybody takes, and counts it.
async fn flooding(head: &'static str, piece: &'static str) -> (Peer, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&taken);
    let peer = Peer::serving("127.0.0.1:0", move |mut stream| {
        let counter = Arc::clone(&counter);
        async move {
            read_request(&mut stream).await;
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

/// What the sockets of both sides hold, at most, and the client's own bound.
const TAKEN: usize = 16 * 1_024 * 1_024;

#[tokio::test]
async fn a_body_without_end_is_not_read_to_its_end() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n",
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
    ] {
        let (peer, taken) = flooding(head, "0123456789").await;
        let begun = Instant::now();
        let answer = post(&loopback(), &peer.url("/")).await.unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 4 * 1_024));
        assert!(begun.elapsed() < IN_TIME);
        assert!(taken.load(Ordering::SeqCst) < TAKEN, "{} bytes", taken.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn headers_without_end_are_too_large() {
    for (head, piece) in
        [("HTTP/1.1 200 OK\r\n", "x-more: and more\r\n"), ("HTTP/1.1 200 OK\r\nx-long: ", "and longer ")]
    {
        let (peer, taken) = flooding(head, piece).await;
        assert_eq!(post(&loopback(), &peer.url("/")).await, Err(Undelivered::TooLarge));
        assert!(taken.load(Ordering::SeqCst) < TAKEN);
    }
}

#[tokio::test]
async fn endless_interim_answers_end_by_the_deadline() {
    let (peer, _) = flooding("", "HTTP/1.1 103 Early Hints\r\n\r\n").await;
    let begun = Instant::now();
    assert!(post(&loopback(), &peer.url("/")).await.is_err());
    assert!(begun.elapsed() < IN_TIME);
}

#[tokio::test]
async fn what_is_not_http_is_said_to_be_so() {
    for answer in [
        &b"hello from 1991\r\n\r\n"[..],
        b"<html>200 OK</html>\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x00\xff\x16\x03\x01\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    ] {
        let peer = Peer::answering(answer).await;
        let outcome = post(&loopback(), &peer.url("/")).await;
        assert_eq!(outcome, Err(Undelivered::Protocol), "{}", String::from_utf8_lossy(answer));
    }
}
