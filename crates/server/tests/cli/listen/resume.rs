//! `ringtrue listen --profile`: nothing is lost while nobody listens, and nothing is told twice.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};

use serde_json::Value;

use crate::{
    caller::{World, text},
    process::{Server, request},
};

/// A port that is free now.
fn free_port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

fn listen(world: &World, at: &str) -> Server {
    let listening = world.going_on(&format!("listen --profile default --accept-sandbox --output json --listen {at}"));
    listening.wait_for("To stop");
    listening
}

/// The check that the next line is about.
#[track_caller]
fn next(listening: &Server) -> String {
    let line: Value = serde_json::from_str(&listening.wait_for("{\"")).expect("a line of JSON");
    assert_eq!(line["signature"], "good", "{line:#}");
    text(&line, "check_id").to_owned()
}

/// Takes so many callbacks at an address, says that all is well, and forgets them.
fn swallow(at: &str, count: usize, meanwhile: impl FnOnce()) {
    let listener = TcpListener::bind(at).expect("the port is free again");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..count {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(&stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(reader.read_line(&mut head).unwrap(), 0);
                }
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                reader.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
                (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
            }
        });
        meanwhile();
    });
}

fn number(index: usize) -> String {
    format!("+99012345{index:02}00")
}

#[test]
fn what_ended_while_nobody_listened_is_told_once() {
    let world = World::signed_in();
    let at = free_port();
    let url = format!("http://{at}/callbacks");
    // What ended before anybody ever listened is nobody's.
    swallow(&at, 1, || drop(world.ended(&number(0), &url)));

    let mut listening = listen(&world, &at);
    let seen = world.ended(&number(1), &url);
    assert_eq!(next(&listening), seen);
    listening.signal("KILL");
    listening.end();

    // All attempts are over when it starts again: only asking for them brings them back.
    let mut missed = vec![];
    swallow(&at, 3, || missed.extend((2..5).map(|index| world.ended(&number(index), &url))));
    let listening = listen(&world, &at);
    let mut told: Vec<String> = (0..3).map(|_| next(&listening)).collect();
    told.sort();
    missed.sort();
    assert_eq!(told, missed);

    // What comes again is taken, and not told again.
    for id in &missed {
        while world.run(&format!("callbacks resend {id}")).code() != Some(0) {}
    }
    let last = world.ended(&number(5), &url);
    assert_eq!(next(&listening), last);
    let mut again = listening;
    again.signal("KILL");
    again.end();

    let listening = listen(&world, &at);
    let newest = world.ended(&number(6), &url);
    assert_eq!(next(&listening), newest, "nothing else was missed");
    listening.signal("INT");
    listening.wait_for("1 callback: 1 with a good signature, 0 without.");
}

#[test]
fn a_profile_has_one_listener() {
    let world = World::signed_in();
    let at = free_port();
    let listening = listen(&world, &at);
    let second = world.run("listen --profile default --listen 127.0.0.1:0").expect_code(1);
    assert!(second.errors().contains("another `ringtrue listen` uses the profile"), "{}", second.errors());
    world.run("listen --profile nobody --listen 127.0.0.1:0").expect_code(6);
    // What nobody vouches for is told each time, and booked nowhere.
    for _ in 0..2 {
        let forged = r#"{"check_id": "a", "status": "COMPLETED"}"#;
        let head = "POST /callbacks HTTP/1.1\r\ncontent-type: application/json";
        assert_eq!(request(&format!("http://{at}"), head, forged).0, 200);
        let line: Value = serde_json::from_str(&listening.wait_for("{\"")).unwrap();
        assert_eq!(line["signature"], "bad");
    }
    listening.stop();
}
