//! `ringtrue listen --project`: callbacks arrive over a connection that the command opens.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
};

use serde_json::Value;

use crate::{
    client::{TestClient, text},
    process::RunningCommand,
};

fn listen(client: &TestClient, more: &str) -> RunningCommand {
    let listening = client.start_command(&format!("listen --project --output json{more}"));
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

/// Concludes a check without a callback URL, and returns its id.
fn conclude(client: &TestClient, index: usize) -> String {
    let created = client.json(&format!("reverse-sms create +99012345{index:02}00"));
    let id = text(&created, "check_id").to_owned();
    client.run(&format!("trigger {id}")).expect_code(0);
    client.run(&format!("reverse-sms watch {id}")).expect_code(0);
    id
}

#[test]
fn callbacks_are_received_and_resumed_without_a_callback_url() {
    let mut client = TestClient::signed_in();
    conclude(&client, 0);
    let mut listening = listen(&client, "");
    let first = conclude(&client, 1);
    assert_eq!(next(&listening), first, "callbacks from before the first `listen` are not received");

    // A second listener on the same machine gets the callbacks, too.
    let second = client.start_command("listen --project --output json");
    second.wait_for("another `ringtrue listen` is listening to this project");
    second.wait_for("To stop");
    let both = conclude(&client, 2);
    assert_eq!((next(&listening), next(&second)), (both.clone(), both));
    second.signal("INT");
    second.wait_for("1 callback: 1 with a valid signature, 0 without.");

    // The server restarts.
    client.stop();
    listening.wait_for("The connection was lost");
    client.restart_server();
    listening.wait_for("Connected again.");
    let after_restart = conclude(&client, 3);
    assert_eq!(next(&listening), after_restart);

    // The listener is killed.
    listening.signal("KILL");
    listening.wait_for_exit();
    let missed = [conclude(&client, 4), conclude(&client, 5)];
    let listening = listen(&client, "");
    let mut received = next(&listening);
    // If the kill came before its last callback was in the journal, the next listener receives it again.
    let is_repeated = received == after_restart;
    if is_repeated {
        received = next(&listening);
    }
    assert_eq!([received, next(&listening)], missed);
    let newest = conclude(&client, 6);
    assert_eq!(next(&listening), newest, "each callback is received once");
    listening.signal("INT");
    let count = 3 + usize::from(is_repeated);
    listening.wait_for(&format!("{count} callbacks: {count} with a valid signature, 0 without"));

    let other = "listen --project 00000000-0000-4000-8000-000000000000 --once";
    let unknown = client.run(other).expect_code(1);
    assert!(unknown.errors().contains("project_not_found"), "{}", unknown.errors());
    for conflict in ["--listen 127.0.0.1:0", "--jwks https://example.com/keys", "--answer 500"] {
        client.run(&format!("listen --project {conflict}")).expect_code(2);
    }
}

/// Reads a request, and responds with a status.
fn respond(stream: &TcpStream, status: &str) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0);
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    { stream }.write_all(response.as_bytes()).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn callbacks_are_signed_for_the_application_behind_forward() {
    let client = TestClient::signed_in();
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = application.local_addr().unwrap().port();
    let forward = format!(" --forward http://localhost:{port}/hooks/ringtrue");
    let mut listening = listen(&client, &forward);
    let id = conclude(&client, 1);
    // The application fails.
    let (head, body) = respond(&application.accept().unwrap().0, "500 Oops");
    assert!(head.starts_with("POST /hooks/ringtrue HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: localhost:{port}\r\n")), "{head}");
    assert!(head.contains("\r\nauthorization: Signature keyId=") && body.contains(&id), "{head}{body}");
    assert_eq!(next(&listening), id);
    listening.signal("INT");
    listening.wait_for_exit();
    // The application gets the callback again when `listen` is started again.
    let listening = listen(&client, &forward);
    let (_, again) = respond(&application.accept().unwrap().0, "200 OK");
    assert_eq!(again, body);
    assert_eq!(next(&listening), id);
    listening.stop();
}
