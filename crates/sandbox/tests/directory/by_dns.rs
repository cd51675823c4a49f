use ringtrue_sandbox::directory::{Directory, DirectoryConfig, RecordStyle};
use tokio::net::{TcpStream, UdpSocket};

use crate::{
    directory,
    wire::{
        FORMAT_ERROR, NAPTR, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED, Told, by_datagram, hear_over_tcp, name, over_tcp,
        put_over_tcp, question, with_edns,
    },
};

const ZONE: &str = "e164.arpa";

async fn is_told(directory: &Directory, name: &str, kind: u16, told: &Told) {
    let question = question(name, kind);
    assert_eq!(by_datagram(directory, &question).await, *told, "{name} by datagram");
    assert_eq!(over_tcp(directory, &question).await, *told, "{name} over TCP");
}

#[tokio::test]
async fn a_number_has_its_networks_codes_and_others_have_no_name() {
    let directory = directory(|_| {}).await;
    for (number, told) in [
        ("+447700900123", Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        ("+447700900124", Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!")),
        // A portability database does not know whether a phone is on.
        ("+447700900125", Told::record(r"!^(.*)$!tel:\1;mcc=310;mnc=012!")),
        ("+447700900126", Told::nothing(NO_SUCH_NAME)),
        ("+447700900127", Told::nothing(NO_SUCH_NAME)),
        ("+4477009001234", Told::nothing(NO_SUCH_NAME)),
        // Part of a number's name: the name exists, for the sake of those below it.
        ("+4477", Told::nothing(0)),
        ("", Told::nothing(0)),
    ] {
        is_told(&directory, &name(number, ZONE), NAPTR, &told).await;
    }
    let counts = directory.counts();
    assert_eq!((counts.by_datagram, counts.over_tcp, counts.lookups), (8, 8, 0));
}

#[tokio::test]
async fn names_and_kinds_that_no_number_has() {
    let directory = directory(|_| {}).await;
    let own = name("+447700900123", ZONE);
    let (own, in_capitals) = (own.as_str(), own.to_uppercase());
    for (name, kind, told) in [
        (own, 255, Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        (in_capitals.as_str(), NAPTR, Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!")),
        (own, 1, Told::nothing(0)),
        ("www.e164.arpa", NAPTR, Told::nothing(NO_SUCH_NAME)),
        ("32.1.e164.arpa", NAPTR, Told::nothing(NO_SUCH_NAME)),
        ("3.2.1.0.0.9.0.0.7.7.4.4.e164.example", NAPTR, Told::only(REFUSED)),
        ("arpa", NAPTR, Told::only(REFUSED)),
        ("", NAPTR, Told::only(REFUSED)),
    ] {
        is_told(&directory, name, kind, &told).await;
    }
}

#[tokio::test]
async fn a_directory_may_tell_by_routing_numbers_under_a_suffix_of_its_own() {
    let directory = directory(|config| {
        config.suffix = "e164enum.net.".to_owned();
        config.records = RecordStyle::RoutingNumber;
    })
    .await;
    let ported = "!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!";
    for (number, told) in [
        ("+447700900123", Told::record("!^.*$!tel:+447700900123;npdi!")),
        ("+447700900124", Told::record(ported)),
        ("+447700900126", Told::nothing(NO_SUCH_NAME)),
    ] {
        is_told(&directory, &name(number, "e164enum.net"), NAPTR, &told).await;
    }
    is_told(&directory, &name("+447700900123", ZONE), NAPTR, &Told::only(REFUSED)).await;
}

#[tokio::test]
async fn a_directory_may_know_of_ported_numbers_only() {
    let directory = directory(|config| config.ported_only = true).await;
    for (number, told) in [
        ("+447700900123", Told::nothing(0)),
        ("+447700900124", Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!")),
        ("+447700900127", Told::nothing(NO_SUCH_NAME)),
    ] {
        is_told(&directory, &name(number, ZONE), NAPTR, &told).await;
    }
}

#[tokio::test]
async fn edns_is_answered_with_edns() {
    let directory = directory(|_| {}).await;
    let plain = question(&name("+447700900124", ZONE), NAPTR);
    let mut told = Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!");
    told.others = vec![41];
    assert_eq!(by_datagram(&directory, &with_edns(plain.clone(), 0)).await, told);
    told = Told { others: vec![41], ..Told::only(0) };
    assert_eq!(by_datagram(&directory, &with_edns(plain, 1)).await, told, "a version that nobody knows");
}

#[tokio::test]
async fn what_is_no_question_is_told_so_or_not_answered() {
    let directory = directory(|_| {}).await;
    let good = question(&name("+447700900124", ZONE), NAPTR);
    let changed = |at: usize, octet: u8| {
        let mut message = good.clone();
        message[at] = octet;
        message
    };
    for (message, code) in [
        (changed(2, 0x29), NOT_IMPLEMENTED),
        (changed(5, 2), FORMAT_ERROR),
        (changed(7, 1), FORMAT_ERROR),
        (changed(12, 0xC0), FORMAT_ERROR),
        (good[..20].to_vec(), FORMAT_ERROR),
        (good[..12].to_vec(), FORMAT_ERROR),
    ] {
        let answer = by_datagram_unread(&directory, &message).await;
        assert_eq!((answer[2] & 0x80, answer[3] & 15, &answer[4..12]), (0x80, code, &[0; 8][..]), "{message:?}");
    }
    // Neither what is too short nor an answer is answered; what follows is.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(directory.dns_address().unwrap()).await.unwrap();
    for message in [&[][..], &good[..11], &changed(2, 0x81), &good] {
        socket.send(message).await.unwrap();
    }
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    assert_eq!(Told::read(&good, &answer[..length]), Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=10!"));
}

async fn by_datagram_unread(directory: &Directory, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(message, directory.dns_address().unwrap()).await.unwrap();
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer).await.unwrap();
    answer.truncate(length);
    answer
}

#[tokio::test]
async fn one_connection_carries_many_questions() {
    let directory = directory(|_| {}).await;
    let mut stream = TcpStream::connect(directory.dns_address().unwrap()).await.unwrap();
    let first = question(&name("+447700900123", ZONE), NAPTR);
    let second = question(&name("+447700900127", ZONE), NAPTR);
    put_over_tcp(&mut stream, &first).await;
    put_over_tcp(&mut stream, &second).await;
    assert_eq!(hear_over_tcp(&mut stream, &first).await, Told::record(r"!^(.*)$!tel:\1;mcc=234;mnc=30!"));
    assert_eq!(hear_over_tcp(&mut stream, &second).await, Told::nothing(NO_SUCH_NAME));
}

#[tokio::test]
async fn a_suffix_that_is_no_name_is_refused() {
    for suffix in ["", ".", "a..b", &"a".repeat(64), &["a"; 120].join(".")] {
        let config = DirectoryConfig { suffix: suffix.to_owned(), ..DirectoryConfig::default() };
        assert!(Directory::start(config).await.is_err(), "{suffix}");
    }
}
