//! `ringtrue listen`: what it says about callbacks, good and bad.

mod callback;
mod resume;
pub mod web;

use std::{net::TcpListener, path::Path, process::Stdio, thread};

use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::keys::CallbackSigner;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::{
    callback::{BODY, Callback, KEY, new_key, now, raw, status},
    web::Web,
};
use super::process::{PATIENCE, Server, address, ringtrue, run};

/// The binary with JSON output, on a port of its own.
struct Listening {
    server: Server,
    /// Host and port.
    at: String,
    keys: Web,
    _folder: TempDir,
}

impl Listening {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let keys = Web::key_set(&[&KEY]);
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = ringtrue(folder.path());
        command.args(["listen", "--output", "json", "--listen", &at, "--jwks", &keys.url("/jwks.json")]).args(more);
        // Remarks are for people.
        let server = Server::start(command.stderr(Stdio::null()));
        keys.requests.recv_timeout(PATIENCE).expect("the keys are fetched at the start");
        Listening { server, at, keys, _folder: folder }
    }

    fn callback(&self) -> Callback {
        Callback::new(&self.at, "/callbacks?from=here")
    }

    /// Sends it, and gives what is said about it.
    #[track_caller]
    fn receive(&self, callback: &Callback, answered: u16) -> Value {
        assert_eq!(callback.send(&self.at), answered);
        self.next()
    }

    #[track_caller]
    fn next(&self) -> Value {
        serde_json::from_str(&self.server.wait_for("{")).expect("a line of JSON")
    }

    /// Sends what was spoilt, and sees that the culprit is named, in words that have these in them.
    #[track_caller]
    fn blames(&self, flaw: &str, words: &[&str], spoil: impl FnOnce(&mut Callback)) {
        let mut callback = self.callback();
        spoil(&mut callback);
        self.finds(flaw, words, &callback);
    }

    #[track_caller]
    fn finds(&self, flaw: &str, words: &[&str], callback: &Callback) {
        let said = self.receive(callback, 200);
        assert_eq!((&said["signature"], &said["flaw"]), (&json!("bad"), &json!(flaw)), "{said:#}");
        let why = said["why"].as_str().unwrap();
        for word in words {
            assert!(why.contains(word), "{word:?} is not in: {why}");
        }
    }
}

#[test]
fn a_good_callback_is_called_good() {
    let listening = Listening::start(&[]);
    let said = listening.receive(&listening.callback(), 200);
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
        assert_eq!(said[name], value, "{name}");
    }
    listening.server.stop();
}

#[test]
fn people_get_a_page_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::key_set(&[&KEY]);
    let mut command = ringtrue(folder.path());
    command.args(["listen", "--listen", "127.0.0.1:0", "--jwks", &keys.url("/")]);
    let server = Server::start(&mut command);
    let line = server.wait_for("callback_url");
    let url = line.split_whitespace().last().unwrap();
    let at = address(url).strip_suffix("/callbacks").unwrap();
    server.wait_for("1 from http://127.0.0.1");

    let mut callback = Callback::new(at, "/callbacks");
    assert_eq!(callback.send(at), 200);
    for text in ["  reverse_sms  attempt 1", "check      0199b0a8-", "status     COMPLETED", "match      true"] {
        server.wait_for(text);
    }
    server.wait_for("signature  good, by key ");
    server.wait_for("    \"match\": true");

    callback.target = "/elsewhere".to_owned();
    callback.body = "\u{1b}[2J".to_owned();
    callback.send(at);
    server.wait_for("NOT GOOD: the body is not the one that was signed");
    server.wait_for(r"not JSON: \u{1b}[2J");

    assert_eq!(status(&raw(at, b"GET /favicon.ico HTTP/1.1\r\nhost: x\r\n\r\n")), Some(400));
    server.wait_for("refused  GET /favicon.ico: a callback is a POST");
    server.signal("INT");
    server.wait_for("2 callbacks: 1 with a good signature, 1 without; 1 other request refused.");
}

#[test]
fn what_differs_is_named() {
    let listening = Listening::start(&[]);
    let (at, name) = (listening.at.as_str(), "127.0.0.1");

    listening.blames("body", &["before anything parses", "the header says `SHA-256="], |callback| {
        callback.body = callback.body.replace(':', ": ").replace("  ", " ");
    });
    listening.blames("host", &[&format!("`{at}` was signed, and `{name}` arrived")], |callback| {
        callback.set("host", name);
    });
    let mut without_port = Callback::new(name, "/callbacks");
    without_port.set("host", at);
    listening.finds("host", &[&format!("`{name}` was signed, and `{at}` arrived")], &without_port);
    listening.blames(
        "target",
        &["`/callbacks?from=here` was signed, and `/callbacks/?from=here` arrived"],
        |callback| {
            callback.target = "/callbacks/?from=here".to_owned();
        },
    );
    let mut with_query = Callback::new(at, "/callbacks");
    with_query.target = "/callbacks?added=1".to_owned();
    listening.finds("target", &["`/callbacks` was signed"], &with_query);
    listening.blames("product", &["found `discovery`"], |callback| callback.set("x-service-callback", "discovery"));
    listening.blames("method", &["`PUT` arrived"], |callback| callback.method = "PUT");
    listening.blames("signature", &["no usual change explains it"], |callback| callback.target = "/other".to_owned());
}

#[test]
fn a_clock_that_is_wrong_is_named() {
    let listening = Listening::start(&[]);
    for (minutes, words) in [(-10, "10 min"), (10, "in the future")] {
        let at = now() + jiff::SignedDuration::from_mins(minutes);
        let callback = Callback::signed(&listening.at, "/", at, &KEY);
        listening.finds("date", &["the signature fits", words], &callback);
    }
    let recent = now() - jiff::SignedDuration::from_mins(4);
    assert_eq!(listening.receive(&Callback::signed(&listening.at, "/", recent, &KEY), 200)["signature"], "good");
}

#[test]
fn malformed_headers_are_named() {
    let listening = Listening::start(&[]);
    let authorization = "authorization";
    listening.blames("algorithm", &["rsa-sha256", "found `hs2019`"], |callback| {
        callback.replace(authorization, "rsa-sha256", "hs2019");
    });
    listening.blames("components", &["it covers `(request-target) host date`"], |callback| {
        callback.replace(authorization, " x-service-callback digest", "");
    });
    listening.blames(authorization, &["commas without spaces"], |callback| {
        callback.replace(authorization, ",", ", ");
    });
    listening.blames(authorization, &["the scheme is not `Signature`"], |callback| {
        callback.replace(authorization, "Signature", "Bearer");
    });
    listening.blames("digest", &["found `sha-256=x`"], |callback| callback.set("digest", "sha-256=x"));
    for name in [authorization, "digest", "date", "x-service-callback"] {
        listening.blames("header", &[&format!("`{name}` is missing")], |callback| callback.remove(name));
    }
    let twice = |callback: &mut Callback| callback.headers.push(("date".to_owned(), callback.get("date").to_owned()));
    listening.blames("header", &["`date` is there twice"], twice);
}

#[test]
fn a_new_key_is_fetched_and_an_unknown_one_is_named() {
    let listening = Listening::start(&[]);
    let other = new_key();
    let callback = Callback::signed(&listening.at, "/", now(), &other);
    let known = &KEY.public().kid;
    listening.finds("key", &[&other.public().kid, known, "another server"], &callback);

    listening.keys.publish(&[&KEY, &other]);
    assert_eq!(listening.receive(&callback, 200)["signature"], "good");
    assert_eq!(listening.receive(&listening.callback(), 200)["signature"], "good");
    let fetches = listening.keys.requests.try_iter().count();
    assert_eq!(fetches, 2, "known keys are not fetched again");
}

#[test]
fn many_unknown_keys_are_not_many_fetches() {
    let listening = Listening::start(&[]);
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
fn keys_may_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::start("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_owned());
    let base_url = keys.url("");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/dev.json"), json!({"base_url": base_url}).to_string()).unwrap();
    let mut command = ringtrue(folder.path());
    command.args(["listen", "--data", "data", "--listen", "127.0.0.1:0"]);
    let server = Server::start(&mut command);
    let line = server.wait_for("callback_url");
    let at = address(line.split_whitespace().last().unwrap()).strip_suffix("/callbacks").unwrap().to_owned();
    server.wait_for("none yet: ");
    assert!(keys.requests.recv().unwrap().starts_with("GET /.well-known/jwks.json HTTP/1.1\r\n"));

    keys.publish(&[&KEY]);
    assert_eq!(Callback::new(&at, "/callbacks").send(&at), 200);
    server.wait_for("signature  good");
    server.stop();
}

#[test]
fn without_keys_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let listen = |folder: &Path| run(ringtrue(folder).args(["listen", "--listen", "127.0.0.1:0"])).expect_code(1);
    let refused = listen(folder.path()).errors();
    assert!(refused.contains("ringtrue-data/dev.json") && refused.contains("--jwks URL"), "{refused}");
}

#[test]
fn another_answer_can_be_asked_for() {
    let listening = Listening::start(&["--answer", "503"]);
    let said = listening.receive(&listening.callback(), 503);
    assert_eq!((&said["signature"], &said["answered"]), (&json!("good"), &json!(503)));
}

#[test]
fn callbacks_are_passed_on_as_they_came() {
    let app = Web::start("HTTP/1.1 422 Unprocessable\r\ncontent-length: 5\r\n\r\nwhat?".to_owned());
    let listening = Listening::start(&["--forward", &app.url("")]);
    let callback = listening.callback();
    let said = listening.receive(&callback, 422);
    assert_eq!(said["forwarded"], json!({"status": 422, "body": "what?"}));
    let request = app.requests.recv_timeout(PATIENCE).unwrap();
    assert!(request.starts_with("POST /callbacks?from=here HTTP/1.1\r\n"), "{request}");
    for (name, value) in &callback.headers {
        assert!(request.contains(&format!("\r\n{name}: {value}\r\n")), "{name} is not in {request}");
    }
    assert!(request.ends_with(&format!("\r\n\r\n{BODY}")), "{request}");

    let listening = Listening::start(&["--forward", &app.url("/hook"), "--answer", "200"]);
    listening.receive(&listening.callback(), 200);
    assert!(app.requests.recv_timeout(PATIENCE).unwrap().starts_with("POST /hook HTTP/1.1\r\n"));
}

#[test]
fn a_sandbox_key_is_refused_unless_it_is_expected() {
    let sandbox = CallbackSigner::for_mode(Mode::Sandbox, &CallbackSigner::generate()).unwrap();
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    for (more, answered, verdict) in [(&[][..], 401, "bad"), (&["--accept-sandbox"], 200, "good")] {
        let listening = Listening::start(&[&["--forward", &app.url("")], more].concat());
        listening.keys.publish(&[&KEY, &sandbox]);
        let said = listening.receive(&Callback::signed(&listening.at, "/", now(), &sandbox), answered);
        assert_eq!(said["signature"], verdict, "{said:#}");
        assert_eq!(app.requests.try_iter().count(), usize::from(verdict == "good"));
        if verdict == "bad" {
            assert_eq!(said["flaw"], "mode");
            let why = said["why"].as_str().unwrap();
            assert!(why.contains("--accept-sandbox") && why.contains("`check_id` that you did not create"), "{why}");
        }
        listening.receive(&listening.callback(), 200);
        app.requests.recv_timeout(PATIENCE).expect("a live callback is forwarded");
    }
}

#[test]
fn only_valid_signatures_are_forwarded_unless_asked_otherwise() {
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    for (more, answered) in [(&[][..], 401), (&["--forward-unverified"], 200)] {
        let listening = Listening::start(&[&["--forward", &app.url("")], more].concat());
        let (mut altered, mut unsigned) = (listening.callback(), listening.callback());
        altered.body = altered.body.replace("true", "false");
        unsigned.remove("authorization");
        for callback in [altered, unsigned] {
            let said = listening.receive(&callback, answered);
            assert_eq!((&said["signature"], said["forwarded"].is_null()), (&json!("bad"), answered == 401), "{said:#}");
        }
        assert_eq!(app.requests.try_iter().count(), if answered == 401 { 0 } else { 2 });
    }
}

#[test]
fn requests_of_web_pages_are_refused() {
    let app = Web::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    let listening = Listening::start(&["--forward", &app.url(""), "--forward-unverified"]);
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
        let mut callback = listening.callback();
        callback.headers.push((name.to_owned(), value.to_owned()));
        assert_eq!(callback.send(&listening.at), 403, "{name}: {value}");
    }
    listening.receive(&listening.callback(), 200);
    assert_eq!(app.requests.try_iter().count(), 1, "only the callback of a server is forwarded");
}

#[test]
fn terminal_controls_are_escaped_in_every_output_form() {
    let controls = ['\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'];
    let reference: String = controls.iter().collect();
    for output in ["table", "json", "csv"] {
        let folder = tempfile::tempdir().unwrap();
        let keys = Web::key_set(&[&KEY]);
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = ringtrue(folder.path());
        command.args(["listen", "--output", output, "--listen", &at, "--jwks", &keys.url("/"), "--once"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        keys.requests.recv_timeout(PATIENCE).expect("the keys are fetched at the start");
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
fn an_application_that_is_away_is_said_to_be_away() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let away = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let listening = Listening::start(&["--forward", &away]);
    let said = listening.receive(&listening.callback(), 502);
    assert!(said["forwarded"]["problem"].as_str().unwrap().contains("cannot be reached"), "{said}");
}

#[test]
fn garbage_is_refused_and_does_no_harm() {
    let listening = Listening::start(&[]);
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
        // A connection that is closed while the peer still writes may swallow the answer.
        assert!(status(&answer).is_none_or(|status| status == expected), "{expected}: {answer}");
    }
    let mut binary = listening.callback();
    binary.body = "{\"a\":\"\u{0}\u{fffd}\"".to_owned();
    assert_eq!(listening.receive(&binary, 200)["flaw"], "body");
    assert_eq!(listening.receive(&listening.callback(), 200)["signature"], "good");
}

#[test]
fn spreadsheets_get_a_line_for_each_callback() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Web::key_set(&[&KEY]);
    let mut command = ringtrue(folder.path());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    command.args(["listen", "--output", "csv", "--listen", &free, "--jwks", &keys.url("/"), "--once", "2"]);
    let mut server = Server::start(command.stderr(Stdio::null()));
    keys.requests.recv_timeout(PATIENCE).expect("the keys are fetched at the start");
    for _ in 0..2 {
        assert_eq!(Callback::new(&free, "/").send(&free), 200);
    }
    server.wait_for("received_at,target,product,attempt,check_id,status,match,signature,");
    for _ in 0..2 {
        server.wait_for(",/,reverse_sms,1,0199b0a8-0000-7000-8000-000000000000,COMPLETED,true,good,");
    }
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn it_can_end_by_itself() {
    let mut listening = Listening::start(&["--once", "2"]);
    listening.receive(&listening.callback(), 200);
    listening.receive(&listening.callback(), 200);
    assert_eq!(listening.server.end().code(), Some(0));
}
