//! `ringtrue listen`.

mod callback;
mod project;
mod resume;
pub mod web;

use std::{net::TcpListener, path::Path, process::Stdio, thread};

use ringtrue_callback_signature::CallbackSigner;
use ringtrue_domain::tenancy::Mode;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::{
    callback::{BODY, Callback, KEY, new_key, now, raw, status},
    web::Web,
};
use super::process::{RunningCommand, TIMEOUT, address, ringtrue, run};

/// A running `ringtrue listen` with JSON output.
struct ListenCommand {
    server: RunningCommand,
    /// Host and port at which the command listens.
    at: String,
    keys: Web,
    _folder: TempDir,
}

impl ListenCommand {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let keys = Web::key_set(&[&KEY]);
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = ringtrue(folder.path());
        command.args(["listen", "--output", "json", "--listen", &at, "--jwks", &keys.url("/jwks.json")]).args(more);
        // These tests do not check the notes that `listen` prints on standard error.
        let server = RunningCommand::start(command.stderr(Stdio::null()));
        keys.requests.recv_timeout(TIMEOUT).expect("the keys are fetched at the start");
        ListenCommand { server, at, keys, _folder: folder }
    }

    fn callback(&self) -> Callback {
        Callback::new(&self.at, "/callbacks?from=here")
    }

    /// Sends a callback, and returns its report.
    #[track_caller]
    fn send(&self, callback: &Callback, answered: u16) -> Value {
        assert_eq!(callback.send(&self.at), answered);
        self.next_report()
    }

    #[track_caller]
    fn next_report(&self) -> Value {
        serde_json::from_str(&self.server.wait_for("{")).expect("a line of JSON")
    }

    /// Sends an altered callback, and asserts the reported flaw and some words of its explanation.
    #[track_caller]
    fn assert_flaw_after(&self, flaw: &str, words: &[&str], alter: impl FnOnce(&mut Callback)) {
        let mut callback = self.callback();
        alter(&mut callback);
        self.assert_flaw(flaw, words, &callback);
    }

    #[track_caller]
    fn assert_flaw(&self, flaw: &str, words: &[&str], callback: &Callback) {
        let report = self.send(callback, 200);
        assert_eq!((&report["signature"], &report["flaw"]), (&json!("bad"), &json!(flaw)), "{report:#}");
        let why = report["why"].as_str().unwrap();
        for word in words {
            assert!(why.contains(word), "{word:?} is not in: {why}");
        }
    }
}

#[test]
fn valid_callback_is_reported() {
    let listening = ListenCommand::start(&[]);
    let report = listening.send(&listening.callback(), 200);
    for (name, value) in [
        ("signature", json!("good")),
        ("key_id", json!(KEY.public().kid)),
        ("product", json!("reverse_sms")),
        ("attempt", json!(1)),
        ("check_id", json!("0199b0a8-0000-7000-8000-000000000000")),
        ("status", json!("COMPLETED")),
        ("match", json!(true)),
        ("target", json!("/callbacks?from=here")),
        ("answered", json!(200)),
        ("flaw", Value::Null),
        ("forwarded", Value::Null),
        ("body", serde_json::from_str(BODY).unwrap()),
    ] {
        assert_eq!(report[name], value, "{name}");
    }
    listening.server.stop();
}

#[test]
fn text_output_has_reports_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::key_set(&[&KEY]);
    let mut command = ringtrue(folder.path());
    command.args(["listen", "--listen", "127.0.0.1:0", "--jwks", &keys.url("/")]);
    let server = RunningCommand::start(&mut command);
    let line = server.wait_for("callback_url");
    let url = line.split_whitespace().last().unwrap();
    let at = address(url).strip_suffix("/callbacks").unwrap();
    server.wait_for("1 from http://127.0.0.1");

    let mut callback = Callback::new(at, "/callbacks");
    assert_eq!(callback.send(at), 200);
    for text in ["  reverse_sms  attempt 1", "check      0199b0a8-", "status     COMPLETED", "match      true"] {
        server.wait_for(text);
    }
    server.wait_for("signature  valid (key ");
    server.wait_for("    \"match\": true");

    callback.target = "/elsewhere".to_owned();
    callback.body = "\u{1b}[2J".to_owned();
    callback.send(at);
    server.wait_for("INVALID: the body was changed");
    server.wait_for(r"not JSON: \u{1b}[2J");

    assert_eq!(status(&raw(at, b"GET /favicon.ico HTTP/1.1\r\nhost: x\r\n\r\n")), Some(400));
    server.wait_for("rejected  GET /favicon.ico: expected a POST request");
    server.signal("INT");
    server.wait_for("2 callbacks: 1 with a valid signature, 1 without; 1 other request rejected.");
}

#[test]
fn altered_parts_are_named() {
    let listening = ListenCommand::start(&[]);
    let (at, name) = (listening.at.as_str(), "127.0.0.1");

    listening.assert_flaw_after("body", &["before anything parses", "header is `SHA-256="], |callback| {
        callback.body = callback.body.replace(':', ": ").replace("  ", " ");
    });
    listening.assert_flaw_after("host", &[&format!("signed `{at}`, received `{name}`")], |callback| {
        callback.set("host", name);
    });
    let mut without_port = Callback::new(name, "/callbacks");
    without_port.set("host", at);
    listening.assert_flaw("host", &[&format!("signed `{name}`, received `{at}`")], &without_port);
    listening.assert_flaw_after(
        "target",
        &["signed `/callbacks?from=here`, received `/callbacks/?from=here`"],
        |callback| {
            callback.target = "/callbacks/?from=here".to_owned();
        },
    );
    let mut with_query = Callback::new(at, "/callbacks");
    with_query.target = "/callbacks?added=1".to_owned();
    listening.assert_flaw("target", &["signed `/callbacks`"], &with_query);
    listening.assert_flaw_after("product", &["received `discovery`"], |callback| {
        callback.set("x-service-callback", "discovery");
    });
    listening.assert_flaw_after("method", &["received `PUT`"], |callback| callback.method = "PUT");
    listening.assert_flaw_after("signature", &["no common change explains it"], |callback| {
        callback.target = "/other".to_owned();
    });
}

#[test]
fn clock_skew_is_named() {
    let listening = ListenCommand::start(&[]);
    for (minutes, words) in [(-10, "10 min"), (10, "in the future")] {
        let at = now() + jiff::SignedDuration::from_mins(minutes);
        let callback = Callback::signed(&listening.at, "/", at, &KEY);
        listening.assert_flaw("date", &["the signature is valid", words], &callback);
    }
    let recent = now() - jiff::SignedDuration::from_mins(4);
    assert_eq!(listening.send(&Callback::signed(&listening.at, "/", recent, &KEY), 200)["signature"], "good");
}

#[test]
fn malformed_headers_are_named() {
    let listening = ListenCommand::start(&[]);
    let authorization = "authorization";
    listening.assert_flaw_after("algorithm", &["rsa-sha256", "unsupported algorithm `hs2019`"], |callback| {
        callback.replace(authorization, "rsa-sha256", "hs2019");
    });
    listening.assert_flaw_after("components", &["but covers `(request-target) host date`"], |callback| {
        callback.replace(authorization, " x-service-callback digest", "");
    });
    listening.assert_flaw_after(authorization, &["commas without spaces"], |callback| {
        callback.replace(authorization, ",", ", ");
    });
    listening.assert_flaw_after(authorization, &["the scheme is not `Signature`"], |callback| {
        callback.replace(authorization, "Signature", "Bearer");
    });
    listening.assert_flaw_after("digest", &["invalid `digest` header `sha-256=x`"], |callback| {
        callback.set("digest", "sha-256=x");
    });
    for name in [authorization, "digest", "date", "x-service-callback"] {
        listening.assert_flaw_after("header", &[&format!("`{name}` is missing")], |callback| callback.remove(name));
    }
    let twice = |callback: &mut Callback| callback.headers.push(("date".to_owned(), callback.get("date").to_owned()));
    listening.assert_flaw_after("header", &["`date` occurs more than once"], twice);
}

#[test]
fn new_key_is_fetched_and_unknown_key_is_named() {
    let listening = ListenCommand::start(&[]);
    let other = new_key();
    let callback = Callback::signed(&listening.at, "/", now(), &other);
    let known = &KEY.public().kid;
    listening.assert_flaw("key", &[&other.public().kid, known, "another server"], &callback);

    listening.keys.publish(&[&KEY, &other]);
    assert_eq!(listening.send(&callback, 200)["signature"], "good");
    assert_eq!(listening.send(&listening.callback(), 200)["signature"], "good");
    let fetches = listening.keys.requests.try_iter().count();
    assert_eq!(fetches, 2, "known keys are not fetched again");
}

#[test]
fn key_fetches_are_rate_limited() {
    let listening = ListenCommand::start(&[]);
    let mut callback = listening.callback();
    callback.replace("authorization", "keyId=\"", "keyId=\"x");
    let senders: Vec<_> = (0..20)
        .map(|_| {
            let (callback, at) = (callback.clone(), listening.at.clone());
            thread::spawn(move || callback.send(&at))
        })
        .collect();
    for sender in senders {
        assert_eq!(sender.join().unwrap(), 200);
    }
    assert!(listening.keys.requests.try_iter().count() < 20);
}

#[test]
fn keys_are_fetched_again_at_the_first_callback() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::start("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned());
    let base_url = keys.url("");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dev.json"), json!({"base_url": base_url}).to_string()).unwrap();
    let mut command = ringtrue(folder.path());
    command.args(["listen", "--data", "data", "--listen", "127.0.0.1:0"]);
    let server = RunningCommand::start(&mut command);
    let line = server.wait_for("callback_url");
    let at = address(line.split_whitespace().last().unwrap()).strip_suffix("/callbacks").unwrap().to_owned();
    server.wait_for("none yet: ");
    assert!(keys.requests.recv().unwrap().starts_with("GET /.well-known/jwks.json HTTP/1.1\r\n"));

    keys.publish(&[&KEY]);
    assert_eq!(Callback::new(&at, "/callbacks").send(&at), 200);
    server.wait_for("signature  valid");
    server.stop();
}

#[test]
fn missing_keys_are_reported_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let listen = |folder: &Path| run(ringtrue(folder).args(["listen", "--listen", "127.0.0.1:0"])).expect_code(1);
    let refused = listen(folder.path()).errors();
    assert!(refused.contains("ringtrue-data/dev.json") && refused.contains("--jwks URL"), "{refused}");
}

#[test]
fn response_status_can_be_set() {
    let listening = ListenCommand::start(&["--answer", "503"]);
    let report = listening.send(&listening.callback(), 503);
    assert_eq!((&report["signature"], &report["answered"]), (&json!("good"), &json!(503)));
}

#[test]
fn callbacks_are_forwarded_unchanged() {
    let app = Web::start("HTTP/1.1 422 Unprocessable\r\ncontent-length: 5\r\n\r\nwhat?".to_owned());
    let listening = ListenCommand::start(&["--forward", &app.url("")]);
    let callback = listening.callback();
    let report = listening.send(&callback, 422);
    assert_eq!(report["forwarded"], json!({"status": 422, "body": "what?"}));
    let request = app.requests.recv_timeout(TIMEOUT).unwrap();
    assert!(request.starts_with("POST /callbacks?from=here HTTP/1.1\r\n"), "{request}");
    for (name, value) in &callback.headers {
        assert!(request.contains(&format!("\r\n{name}: {value}\r\n")), "{name} is not in {request}");
    }
    assert!(request.ends_with(&format!("\r\n\r\n{BODY}")), "{request}");

    let listening = ListenCommand::start(&["--forward", &app.url("/hook"), "--answer", "200"]);
    listening.send(&listening.callback(), 200);
    assert!(app.requests.recv_timeout(TIMEOUT).unwrap().starts_with("POST /hook HTTP/1.1\r\n"));
}

#[test]
fn sandbox_callbacks_need_accept_sandbox() {
    let sandbox = CallbackSigner::from_pkcs8(Mode::Sandbox, &CallbackSigner::generate_pkcs8()).unwrap();
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    for (more, answered, verdict) in [(&[][..], 401, "bad"), (&["--accept-sandbox"], 200, "good")] {
        let listening = ListenCommand::start(&[&["--forward", &app.url("")], more].concat());
        listening.keys.publish(&[&KEY, &sandbox]);
        let report = listening.send(&Callback::signed(&listening.at, "/", now(), &sandbox), answered);
        assert_eq!(report["signature"], verdict, "{report:#}");
        assert_eq!(app.requests.try_iter().count(), usize::from(verdict == "good"));
        if verdict == "bad" {
            assert_eq!(report["flaw"], "mode");
            let why = report["why"].as_str().unwrap();
            assert!(why.contains("--accept-sandbox") && why.contains("`check_id` that you did not create"), "{why}");
        }
        listening.send(&listening.callback(), 200);
        app.requests.recv_timeout(TIMEOUT).expect("a live callback is forwarded");
    }
}

#[test]
fn unverified_callbacks_are_forwarded_only_on_request() {
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    for (more, answered) in [(&[][..], 401), (&["--forward-unverified"], 200)] {
        let listening = ListenCommand::start(&[&["--forward", &app.url("")], more].concat());
        let (mut altered, mut unsigned) = (listening.callback(), listening.callback());
        altered.body = altered.body.replace("true", "false");
        unsigned.remove("authorization");
        for callback in [altered, unsigned] {
            let report = listening.send(&callback, answered);
            assert_eq!(
                (&report["signature"], report["forwarded"].is_null()),
                (&json!("bad"), answered == 401),
                "{report:#}"
            );
        }
        assert_eq!(app.requests.try_iter().count(), if answered == 401 { 0 } else { 2 });
    }
}

#[test]
fn browser_requests_are_rejected() {
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    let listening = ListenCommand::start(&["--forward", &app.url(""), "--forward-unverified"]);
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        let mut callback = listening.callback();
        callback.headers.push((name.to_owned(), value.to_owned()));
        assert_eq!(callback.send(&listening.at), 403, "{name}: {value}");
    }
    listening.send(&listening.callback(), 200);
    assert_eq!(app.requests.try_iter().count(), 1, "only the callback of a server is forwarded");
}

#[test]
fn terminal_controls_are_escaped_in_every_format() {
    let controls = ['\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'];
    let reference: String = controls.iter().collect();
    for output in ["table", "json", "csv"] {
        let folder = tempfile::tempdir().unwrap();
        let keys = Web::key_set(&[&KEY]);
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = ringtrue(folder.path());
        command.args(["listen", "--output", output, "--listen", &at, "--jwks", &keys.url("/"), "--once"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        keys.requests.recv_timeout(TIMEOUT).expect("the keys are fetched at the start");
        let mut callback = Callback::new(&at, "/");
        callback.set("x-service-callback-attempt", "1");
        callback.body = json!({"check_id": reference, "status": reference, "reference_id": reference}).to_string();
        callback.send(&at);
        let ended = child.wait_with_output().unwrap();
        let shown = [ended.stdout, ended.stderr].concat();
        let shown = String::from_utf8(shown).unwrap();
        for control in controls {
            assert!(!shown.contains(control), "{output}: {control:?} in {shown:?}");
        }
        let escape = if output == "json" { "\\u202e" } else { "\\u{202e}" };
        assert!(shown.contains(escape), "{output}: {shown}");
    }
}

#[test]
fn unreachable_application_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let listening = ListenCommand::start(&["--forward", &away]);
    let report = listening.send(&listening.callback(), 502);
    assert!(report["forwarded"]["problem"].as_str().unwrap().contains("connection refused"), "{report}");
}

#[test]
fn invalid_requests_are_rejected() {
    let listening = ListenCommand::start(&[]);
    let at = &listening.at;
    let long = format!("POST / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(20_000));
    let many = format!("POST / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(100));
    let large = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n{}", "a".repeat(70_000));
    for (bytes, expected) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00"[..], 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", 400),
        (many.as_bytes(), 431),
        (long.as_bytes(), 431),
        (large.as_bytes(), 413),
    ] {
        let answer = raw(at, bytes);
        // The response may be lost if `listen` closes the connection while the client still writes.
        assert!(status(&answer).is_none_or(|status| status == expected), "{expected}: {answer}");
    }
    let mut binary = listening.callback();
    binary.body = "{\"a\":\"\u{0}\u{fffd}\"".to_owned();
    assert_eq!(listening.send(&binary, 200)["flaw"], "body");
    assert_eq!(listening.send(&listening.callback(), 200)["signature"], "good");
}

#[test]
fn csv_has_a_row_for_each_callback() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::key_set(&[&KEY]);
    let mut command = ringtrue(folder.path());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    command.args(["listen", "--output", "csv", "--listen", &free, "--jwks", &keys.url("/"), "--once", "2"]);
    let mut server = RunningCommand::start(command.stderr(Stdio::null()));
    keys.requests.recv_timeout(TIMEOUT).expect("the keys are fetched at the start");
    for _ in 0..2 {
        assert_eq!(Callback::new(&free, "/").send(&free), 200);
    }
    server.wait_for("received_at,target,product,attempt,check_id,status,match,signature,");
    for _ in 0..2 {
        server.wait_for(",/,reverse_sms,1,0199b0a8-0000-7000-8000-000000000000,COMPLETED,true,good,");
    }
    assert_eq!(server.wait_for_exit().code(), Some(0));
}

#[test]
fn once_exits_after_this_many_callbacks() {
    let mut listening = ListenCommand::start(&["--once", "2"]);
    listening.send(&listening.callback(), 200);
    listening.send(&listening.callback(), 200);
    assert_eq!(listening.server.wait_for_exit().code(), Some(0));
}
