//! `ringtrue listen --profile`: missed callbacks are replayed, duplicates are skipped.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
};

use serde_json::Value;

use crate::{
    client::{TestClient, text},
    process::{RunningCommand, request},
};

/// Returns an address with a free port.
fn free_port() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

fn listen(client: &TestClient, at: &str) -> RunningCommand {
    let listening =
        client.start_command(&format!("listen --profile default --accept-sandbox --output json --listen {at}"));
    listening.wait_for("To stop");
    listening
}

/// Returns the check id in the next line of output.
#[track_caller]
fn next(listening: &RunningCommand) -> String {
    let line: Value = serde_json::from_str(&listening.wait_for("{\"")).expect("a line of JSON");
    assert_eq!(line["signature"], "good", "{line:#}");
    text(&line, "check_id").to_owned()
}

/// Responds with 200 to this many callbacks at an address and drops them, while `meanwhile` runs.
fn acknowledge_and_drop(at: &str, count: usize, meanwhile: impl FnOnce()) {
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
fn missed_callbacks_are_replayed_once() {
    let client = TestClient::signed_in();
    let at = free_port();
    let url = format!("http://{at}/callbacks");
    // Callbacks before the first `listen` are not replayed.
    acknowledge_and_drop(&at, 1, || drop(client.conclude_check(&number(0), &url)));

    let mut listening = listen(&client, &at);
    let seen = client.conclude_check(&number(1), &url);
    assert_eq!(next(&listening), seen);
    listening.signal("KILL");
    listening.wait_for_exit();

    // All delivery attempts have ended before `listen` starts again, so only a resend can deliver these callbacks.
    let mut missed = vec![];
    acknowledge_and_drop(&at, 3, || missed.extend((2..5).map(|index| client.conclude_check(&number(index), &url))));
    let listening = listen(&client, &at);
    let mut replayed: Vec<String> = (0..3).map(|_| next(&listening)).collect();
    replayed.sort();
    missed.sort();
    assert_eq!(replayed, missed);

    // Duplicates are acknowledged and not printed.
    for id in &missed {
        while client.run(&format!("callbacks resend {id}")).code() != Some(0) {}
    }
    let last = client.conclude_check(&number(5), &url);
    assert_eq!(next(&listening), last);
    let mut listening = listening;
    listening.signal("KILL");
    listening.wait_for_exit();

    let listening = listen(&client, &at);
    let newest = client.conclude_check(&number(6), &url);
    assert_eq!(next(&listening), newest, "nothing else was missed");
    listening.signal("INT");
    listening.wait_for("1 callback: 1 with a valid signature, 0 without.");
}

#[test]
fn profile_is_locked_by_one_listener() {
    let client = TestClient::signed_in();
    let at = free_port();
    let listening = listen(&client, &at);
    let second = client.run("listen --profile default --listen 127.0.0.1:0").expect_code(1);
    assert!(second.errors().contains("another `ringtrue listen` is using the profile"), "{}", second.errors());
    client.run("listen --profile nobody --listen 127.0.0.1:0").expect_code(6);
    // Callbacks with an invalid signature are printed each time, because `listen` does not record them as received.
    for _ in 0..2 {
        let forged = r#"{"check_id": "a", "status": "COMPLETED"}"#;
        let head = "POST /callbacks HTTP/1.1\r\ncontent-type: application/json";
        assert_eq!(request(&format!("http://{at}"), head, forged).0, 200);
        let line: Value = serde_json::from_str(&listening.wait_for("{\"")).unwrap();
        assert_eq!(line["signature"], "bad");
    }
    listening.stop();
}
