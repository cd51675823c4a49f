use std::time::Duration;

use ringtrue_sandbox::directory::{EnumFault, Fault, HlrFault};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::Instant,
};

use crate::{
    directory,
    wire::{
        NAPTR, REFUSED, SERVER_FAILURE, Told, by_datagram, hear_over_tcp, hlr_address, http, name, over_tcp,
        put_over_tcp, question,
    },
};

const ASKED: &str = "GET /hlr?number=447700900123";

fn asked() -> Vec<u8> {
    question(&name("+447700900123", "e164.arpa"), NAPTR)
}

fn usual() -> Told {
    Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")
}

#[tokio::test]
async fn a_name_server_fails_as_it_is_told_to_and_recovers() {
    let directory = directory(|_| {}).await;
    let cut = Told { is_cut: true, ..Told::only(0) };
    for (fault, in_datagrams, over_streams) in [
        (EnumFault::Truncated, cut, usual()),
        (EnumFault::Refused, Told::only(REFUSED), Told::only(REFUSED)),
        (EnumFault::ServerFailure, Told::only(SERVER_FAILURE), Told::only(SERVER_FAILURE)),
    ] {
        directory.set_fault(Fault::Enum(fault));
        assert_eq!(by_datagram(&directory, &asked()).await, in_datagrams, "{fault:?}");
        assert_eq!(over_tcp(&directory, &asked()).await, over_streams, "{fault:?}");
        directory.recover();
        assert_eq!(by_datagram(&directory, &asked()).await, usual(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_silent_name_server_hears_and_says_nothing() {
    let directory = directory(|_| {}).await;
    directory.set_fault(Fault::Enum(EnumFault::Silent));
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    socket.send(&asked()).await.unwrap();
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    put_over_tcp(&mut stream, &asked()).await;
    directory.wait_until(|counts| (counts.by_datagram, counts.over_tcp) == (1, 1)).await;

    directory.recover();
    socket.send(&asked()).await.unwrap();
    put_over_tcp(&mut stream, &asked()).await;
    assert_eq!(hear_over_tcp(&mut stream, &asked()).await, usual());
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    assert_eq!(Told::read(&asked(), &answer[..length]), usual());
    assert!(socket.try_recv(&mut answer).is_err(), "what was not answered then is not answered now");
}

#[tokio::test]
async fn a_slow_name_server_takes_its_time() {
    let late = Duration::from_millis(50);
    let directory = directory(|_| {}).await;
    directory.set_fault(Fault::Enum(EnumFault::Late(late)));
    let begun = Instant::now();
    assert_eq!(by_datagram(&directory, &asked()).await, usual());
    assert!(begun.elapsed() >= late);
    let begun = Instant::now();
    assert_eq!(over_tcp(&directory, &asked()).await, usual());
    assert!(begun.elapsed() >= late);
}

#[tokio::test]
async fn an_hlr_fails_as_it_is_told_to_and_recovers() {
    let directory = directory(|config| config.secret = None).await;
    let usual = http(&directory, ASKED, None).await;

    directory.set_fault(Fault::Hlr(HlrFault::InternalError));
    assert_eq!(http(&directory, ASKED, None).await.status, 500);
    directory.set_fault(Fault::Hlr(HlrFault::TooManyRequests { retry_after: 17 }));
    let busy = http(&directory, ASKED, None).await;
    assert_eq!(busy.status, 429);
    assert!(busy.head.contains("retry-after: 17"), "{busy:?}");
    directory.set_fault(Fault::Hlr(HlrFault::Garbage));
    let garbage = http(&directory, ASKED, None).await;
    assert_eq!((garbage.status, garbage.body), (200, "}".repeat(usual.body.len())));
    // One fault is of no concern to the other side.
    assert_eq!(by_datagram(&directory, &asked()).await, self::usual());

    directory.recover();
    assert_eq!(http(&directory, ASKED, None).await.body, usual.body);
}

#[tokio::test]
async fn an_hlr_that_hangs_keeps_the_connection() {
    let directory = directory(|config| config.secret = None).await;
    directory.set_fault(Fault::Hlr(HlrFault::Hang));
    let mut stream = TcpStream::connect(hlr_address(&directory)).await.unwrap();
    stream.write_all(format!("{ASKED} HTTP/1.1\r\nhost: hlr\r\n\r\n").as_bytes()).await.unwrap();
    directory.wait_until(|counts| counts.lookups == 1).await;
    assert!(stream.try_read(&mut [0]).is_err(), "neither an answer nor an end");
    directory.shutdown().await;
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}
