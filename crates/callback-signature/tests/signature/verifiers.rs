//! Tests that third-party verifiers accept signed callbacks and reject changed ones.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_callback_signature::{CallbackSigner, digest_header};
use serde_json::{Map, Value, json};

use super::{DATE, OTHER, ReceivedCallback, SIGNER};

fn to_json(callback: &ReceivedCallback) -> Value {
    let ReceivedCallback { method, target, headers, body } = callback;
    let headers: Map<_, _> = headers.iter().map(|(name, value)| (name.to_lowercase(), json!(value))).collect();
    json!({"method": method, "target": target, "headers": headers, "body": BASE64_STANDARD.encode(body)})
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a verifier. Returns the error for each callback, or `None` if the callback is valid.
fn run_verifier(program: &Path, script: &str, callbacks: &[ReceivedCallback]) -> Vec<Option<String>> {
    let public = SIGNER.public();
    let key = json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": public.kid, "n": public.n, "e": public.e });
    let input = json!({ "keys": [key], "requests": callbacks.iter().map(to_json).collect::<Vec<_>>() });
    let mut child = Command::new(program)
        .arg(root().join("e2e/callbacks").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; `make setup` installs it", program.display()));
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed; `make setup` installs its dependencies\n{stderr}");
    serde_json::from_slice(&output.stdout).expect("a list of verdicts")
}

#[test]
fn third_party_verifiers_accept_callbacks_and_reject_changes() {
    let signed = |signer: &CallbackSigner, target: &str, host: &str| {
        let body = br#"{"check_id":"018f","status":"COMPLETED","match":true}"#;
        ReceivedCallback::new(signer, target, host, DATE, "reverse_sms", body)
    };
    let good = [
        ("/hook", "receiver.example"),
        ("/", "receiver.example:8443"),
        ("/a%2Fb//c?order=7&x=%7e&y[]=1", "127.0.0.1:9000"),
        ("/hook?", "[2a00:1450::1]:8443"),
    ]
    .map(|(target, host)| signed(&SIGNER, target, host));
    let sample = || good[2].clone();
    let with_target = |from: &str, to: &str| {
        assert!(sample().target.contains(from));
        ReceivedCallback { target: sample().target.replacen(from, to, 1), ..sample() }
    };
    let mut forged = signed(&OTHER, "/hook", "receiver.example");
    let authorization = forged.header("authorization").replace(&OTHER.public().kid, &SIGNER.public().kid);
    let bad = [
        ("body", ReceivedCallback { body: sample().body.to_ascii_lowercase(), ..sample() }),
        ("date", sample().with_header("date", &DATE.replace(":00 GMT", ":01 GMT"))),
        ("host", sample().with_header("host", "127.0.0.1:9001")),
        ("path", with_target("%2F", "%2f")),
        ("slashes of the path", with_target("//", "/")),
        ("query", with_target("order=7", "order=8")),
        ("product", sample().with_header("x-service-callback", "secure_sna")),
        ("digest", sample().with_header("digest", &digest_header(b"{}"))),
        ("signature of another key", forged.with_header("authorization", &authorization)),
    ];
    let callbacks: Vec<_> = good.iter().chain(bad.iter().map(|(_, callback)| callback)).cloned().collect();

    let python = root().join("target/python/bin/python");
    for (program, script) in [(Path::new("node"), "verify.mjs"), (python.as_path(), "verify.py")] {
        let verdicts = run_verifier(program, script, &callbacks);
        assert_eq!(verdicts.len(), callbacks.len(), "{script}");
        for (callback, verdict) in good.iter().zip(&verdicts) {
            assert_eq!(*verdict, None, "{script}: {} at {}", callback.target, callback.headers[0].1);
        }
        for ((what, _), verdict) in bad.iter().zip(&verdicts[good.len()..]) {
            assert!(verdict.is_some(), "{script} accepts a changed {what}");
        }
    }
    assert!(good.iter().all(|callback| callback.verify_received().is_ok()));
    assert!(bad.iter().all(|(_, callback)| callback.verify_received().is_err()));
}
