//! Third-party verifiers accept signed callbacks and reject changed ones.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_engine::{
    callback::signature::{CallbackRequest, CoveredComponents, digest_header, sign, verify},
    keys::CallbackSigner,
};
use serde_json::{Value, json};

#[derive(Clone)]
struct Callback {
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Callback {
    fn signed(signer: &CallbackSigner, target: &str, host: &str) -> Callback {
        let body = br#"{"check_id":"018f","status":"COMPLETED","match":true}"#.to_vec();
        let (date, source, digest) = ("Sat, 14 Nov 2026 09:30:00 GMT", "reverse_sms", digest_header(&body));
        let covered = CoveredComponents { method: "POST", target, host, date, source, digest: &digest };
        let authorization = sign(&covered, signer);
        let headers = [
            ("host", host),
            ("date", date),
            ("x-service-callback", source),
            ("digest", &digest),
            ("authorization", &authorization),
            ("content-type", "application/json"),
            ("x-service-callback-attempt", "1"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Callback { target: target.to_owned(), headers, body }
    }

    fn with_header(&self, wanted: &str, change: impl Fn(&str) -> String) -> Callback {
        let mut changed = self.clone();
        let (_, value) = changed.headers.iter_mut().find(|(name, _)| name == wanted).unwrap();
        *value = change(value);
        changed
    }

    fn with_target(&self, from: &str, to: &str) -> Callback {
        assert!(self.target.contains(from));
        Callback { target: self.target.replacen(from, to, 1), ..self.clone() }
    }

    fn json(&self) -> Value {
        let headers: serde_json::Map<_, _> =
            self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({
            "method": "POST", "target": self.target, "headers": headers, "body": BASE64_STANDARD.encode(&self.body),
        })
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The error of each callback, or `None` if it verified.
fn run_verifier(program: &Path, script: &str, signer: &CallbackSigner, callbacks: &[Callback]) -> Vec<Option<String>> {
    let public = signer.public();
    let key = json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": public.kid, "n": public.n, "e": public.e });
    let input = json!({ "keys": [key], "requests": callbacks.iter().map(Callback::json).collect::<Vec<_>>() });
    let mut child = Command::new(program)
        .arg(root().join("e2e/callbacks").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; `make setup` installs it", program.display()));
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed; `make setup` installs what it needs\n{complaint}");
    serde_json::from_slice(&output.stdout).expect("a list of verdicts")
}

fn is_verified_by_engine(callback: &Callback, signer: &CallbackSigner) -> bool {
    let Callback { target, headers, body } = callback;
    verify(&CallbackRequest { method: "POST", target, headers, body }, &[signer.public().clone()]).is_ok()
}

#[test]
fn third_party_verifiers_accept_callbacks_and_reject_changes() {
    let signer = CallbackSigner::from_pkcs8(&CallbackSigner::generate()).unwrap();
    let other = CallbackSigner::from_pkcs8(&CallbackSigner::generate()).unwrap();
    let good: Vec<Callback> = [
        ("/hook", "receiver.example"),
        ("/", "receiver.example:8443"),
        ("/a%2Fb//c?order=7&x=%7e&y[]=1", "127.0.0.1:9000"),
        ("/hook?", "[2a00:1450::1]:8443"),
    ]
    .map(|(target, host)| Callback::signed(&signer, target, host))
    .to_vec();
    let sample = &good[2];
    let forged = Callback::signed(&other, "/hook", "receiver.example")
        .with_header("authorization", |value| value.replace(&other.public().kid, &signer.public().kid));
    let bad: Vec<(&str, Callback)> = vec![
        ("body", Callback { body: sample.body.iter().map(u8::to_ascii_lowercase).collect(), ..sample.clone() }),
        ("date", sample.with_header("date", |date| date.replace(":00 GMT", ":01 GMT"))),
        ("host", sample.with_header("host", |host| host.replace("9000", "9001"))),
        ("path", sample.with_target("%2F", "%2f")),
        ("slashes of the path", sample.with_target("//", "/")),
        ("query", sample.with_target("order=7", "order=8")),
        ("source", sample.with_header("x-service-callback", |_| "secure_sna".to_owned())),
        ("digest", sample.with_header("digest", |_| digest_header(b"{}"))),
        ("signature of another key", forged),
    ];
    let callbacks: Vec<Callback> =
        good.iter().cloned().chain(bad.iter().map(|(_, callback)| callback.clone())).collect();

    let python = root().join("target/python/bin/python");
    for (program, script) in [(Path::new("node"), "verify.mjs"), (python.as_path(), "verify.py")] {
        let verdicts = run_verifier(program, script, &signer, &callbacks);
        assert_eq!(verdicts.len(), callbacks.len(), "{script}");
        for (callback, verdict) in good.iter().zip(&verdicts) {
            assert_eq!(*verdict, None, "{script}: {} at {}", callback.target, callback.headers[0].1);
        }
        for ((what, _), verdict) in bad.iter().zip(&verdicts[good.len()..]) {
            assert!(verdict.is_some(), "{script} accepts a changed {what}");
        }
    }
    assert!(good.iter().all(|callback| is_verified_by_engine(callback, &signer)));
    assert!(bad.iter().all(|(_, callback)| !is_verified_by_engine(callback, &signer)));
}
