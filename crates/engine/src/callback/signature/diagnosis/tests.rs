//! Kinds of damage, and the reason that each is to be given.

use std::sync::LazyLock;

use super::*;
use crate::{callback::signature::sign, keys::CallbackSigner};

static SIGNER: LazyLock<CallbackSigner> = LazyLock::new(new_signer);
static OTHER: LazyLock<CallbackSigner> = LazyLock::new(new_signer);

const BODY: &str =
    r#"{"check_id":"0199b0a8-0000-7000-8000-000000000000","status":"COMPLETED","match":true,"name":"a b/c"}"#;
const DATE: &str = "Sat, 14 Nov 2026 09:30:00 GMT";
const TARGET: &str = "/api/hooks/a%2Fb?key=1&x=2";
const HOST: &str = "receiver.example:8443";

fn new_signer() -> CallbackSigner {
    CallbackSigner::from_pkcs8(&CallbackSigner::generate()).unwrap()
}

fn parts() -> Parts {
    Parts {
        method: "POST".to_owned(),
        target: TARGET.to_owned(),
        host: HOST.to_owned(),
        date: DATE.to_owned(),
        source: "reverse_sms".to_owned(),
        digest: digest(BODY.as_bytes()),
    }
}

/// The text of a callback that arrived as it was sent.
fn sound(signer: &CallbackSigner) -> String {
    sound_at(signer, DATE)
}

fn sound_at(signer: &CallbackSigner, date: &str) -> String {
    let parts = Parts { date: date.to_owned(), ..parts() };
    let (authorization, digest) = (sign(&parts.covered(), signer), &parts.digest);
    format!(
        "POST {TARGET} HTTP/1.1\nHost: {HOST}\nx-service-callback: reverse_sms\nAuthorization: {authorization}\nDigest: \
         {digest}\nDate: {date}\nContent-Type: application/json\n\n{BODY}"
    )
}

struct Known {
    sent: bool,
    url: bool,
    seconds_later: i64,
    key_mode: Mode,
}

const NOTHING: Known = Known { sent: false, url: false, seconds_later: 10, key_mode: Mode::Live };
const URL: Known = Known { url: true, ..NOTHING };
const LOG: Known = Known { sent: true, ..NOTHING };

fn diagnosed(paste: &str, known: &Known) -> Diagnosis {
    let (host, target) = place_of(&format!("https://{HOST}{TARGET}")).unwrap();
    let (hosts, targets) = if known.url { (vec![host], vec![target]) } else { (vec![], vec![]) };
    let sent = Original { parts: parts(), body: BODY.to_owned() };
    let evidence = Evidence {
        keys: &[PublicKey { mode: known.key_mode, ..SIGNER.public().clone() }],
        retired: &[OTHER.public().clone()],
        mode: Mode::Live,
        now: super::super::read_date(DATE).unwrap() + SignedDuration::from_secs(known.seconds_later),
        hosts: &hosts,
        targets: &targets,
        sent: known.sent.then_some(&sent),
    };
    diagnose_pasted(&Pasted::parse(paste, None).unwrap(), &evidence)
}

#[track_caller]
fn finds(reason: &str, known: &Known, paste: &str) {
    let diagnosis = diagnosed(paste, known);
    match &diagnosis.verdict {
        Ok(_) => assert_eq!(reason, "good"),
        Err(flaw) => {
            assert_eq!(flaw.as_str(), reason, "{flaw}");
            assert!(!flaw.to_string().ends_with('.'), "the full stop is for whoever shows it: {flaw}");
        }
    }
}

#[test]
fn every_damage_has_its_reason() {
    let sound = self::sound(&SIGNER);
    let signature = sound.split("signature=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let with = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from}");
        sound.replacen(from, to, 1)
    };
    let resigned = |change: &str| with(&signature, change);
    let body = |body: &str| with(BODY, body);
    let indented = BODY.replace(',', ",\n  ").replace(':', ": ");
    let reordered =
        r#"{"status":"COMPLETED","check_id":"0199b0a8-0000-7000-8000-000000000000","match":true,"name":"a b/c"}"#;
    let half = format!("{}\n {}", &signature[..100], &signature[100..]);
    let (kid, other) = (SIGNER.public().kid.clone(), OTHER.public().kid.clone());
    let chunked = format!("{:x}\n{BODY}\n0\n\n", BODY.len());
    let swapped =
        if signature.starts_with('A') { signature.replacen('A', "B", 1) } else { format!("A{}", &signature[1..]) };
    let components = "(request-target) host date x-service-callback digest";
    for (reason, known, paste) in [
        ("good", NOTHING, sound.clone()),
        ("good", LOG, sound.clone()),
        ("good", NOTHING, with("Content-Type", &format!("Content-Length: {}\nContent-Type", BODY.len())) + "\n\n"),
        ("host_port_dropped", URL, with(HOST, "receiver.example")),
        ("host_port_dropped", LOG, with(HOST, "receiver.example")),
        ("host_port_replaced", URL, with(HOST, "receiver.example:80")),
        ("host_case", NOTHING, with(HOST, "Receiver.Example:8443")),
        ("host_replaced", URL, with(HOST, "10.0.0.7:3000")),
        ("host_replaced", NOTHING, with(HOST, &format!("10.0.0.7:3000\nX-Forwarded-Host: {HOST}"))),
        ("host_port_dropped", NOTHING, with(HOST, "receiver.example\nX-Forwarded-Port: 8443")),
        ("query_dropped", URL, with("?key=1&x=2 HTTP", " HTTP")),
        ("query_dropped", NOTHING, with("?key=1&x=2 HTTP/1.1", &format!(" HTTP/1.1\nX-Original-URI: {TARGET}"))),
        ("query_changed", LOG, with("key=1&x=2 HTTP", "x=2&key=1 HTTP")),
        ("path_slash", NOTHING, with("b?key", "b/?key")),
        ("path_prefix_removed", URL, with("/api/hooks", "/hooks")),
        (
            "path_prefix_removed",
            NOTHING,
            with("/api/hooks/a%2Fb?key=1&x=2 HTTP/1.1", "/hooks/a%2Fb?key=1&x=2 HTTP/1.1\nX-Forwarded-Prefix: /api"),
        ),
        ("path_prefix_added", LOG, with("/api/hooks", "/internal/api/hooks")),
        ("path_encoding", URL, with("a%2Fb", "a/b")),
        ("path_whole_url", NOTHING, with("POST /api", &format!("POST https://{HOST}/api"))),
        ("path_rewritten", LOG, with("/api/hooks/a%2Fb", "/index.php")),
        ("method", NOTHING, with("POST /", "PUT /")),
        ("key_sandbox", Known { key_mode: Mode::Sandbox, ..NOTHING }, sound.clone()),
        ("date_skew", Known { seconds_later: 301, ..NOTHING }, sound.clone()),
        ("date_skew", Known { seconds_later: -301, ..NOTHING }, sound.clone()),
        ("date_replaced", LOG, with(DATE, "Sat, 14 Nov 2026 09:30:01 GMT")),
        ("date_replaced", LOG, with(DATE, "2026-11-14T09:30:00Z")),
        ("unexplained", NOTHING, with(DATE, "Sat, 14 Nov 2026 09:30:01 GMT")),
        ("source", NOTHING, with("callback: reverse_sms", "callback: discovery")),
        ("body_blanks_around", NOTHING, body(&format!("{BODY}\n"))),
        ("body_byte_order_mark", NOTHING, body(&format!("\u{feff}{BODY}"))),
        ("body_blanks", NOTHING, body(&indented)),
        ("body_written_anew", NOTHING, body(&BODY.replace('/', "\\/"))),
        ("body_written_anew", LOG, body(reordered)),
        ("body_changed", NOTHING, body(reordered)),
        ("body_changed", LOG, body(&BODY.replace("true", "false"))),
        ("body_chunks", NOTHING, body(&chunked)),
        ("body_cut", LOG, body(&BODY[..40])),
        ("body_empty", NOTHING, body("")),
        ("digest_replaced", NOTHING, with(&digest(BODY.as_bytes()), &digest(b"other"))),
        ("digest_malformed", NOTHING, with("SHA-256=", "MD5=")),
        ("key_unknown", NOTHING, self::sound(&new_signer())),
        ("key_other", NOTHING, with(&kid, &other)),
        ("key_other", NOTHING, with(&kid, "another")),
        ("key_retired", NOTHING, self::sound(&OTHER)),
        ("key_other", NOTHING, self::sound(&OTHER).replacen(&other, &kid, 1)),
        ("header_missing", LOG, with(&format!("Date: {DATE}\n"), "")),
        ("header_twice", NOTHING, with("Date:", &format!("Date: {DATE}\ndate:"))),
        ("header_folded", NOTHING, resigned(&half)),
        ("header_folded", NOTHING, with("\",algorithm", "\",\n\talgorithm")),
        ("algorithm", NOTHING, with("rsa-sha256", "hs2019")),
        ("components", NOTHING, with(components, "(request-target) host date")),
        ("components_reordered", NOTHING, with(components, "host (request-target) date x-service-callback digest")),
        ("authorization", NOTHING, with("Signature keyId", "Bearer keyId")),
        ("percent_encoded", NOTHING, resigned(&signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"))),
        ("padding_lost", NOTHING, resigned(signature.trim_end_matches('='))),
        (
            "html_escaped",
            NOTHING,
            sound.replacen("keyId=\"", "keyId=&quot;", 1).replacen(&format!("{kid}\""), &format!("{kid}&quot;"), 1),
        ),
        (
            "backslash_escaped",
            NOTHING,
            with("keyId=\"", "keyId=\\\"").replacen(&format!("{kid}\""), &format!("{kid}\\\""), 1),
        ),
        ("spaces_after_commas", NOTHING, with("\",algorithm", "\", algorithm")),
        ("signature_length", LOG, resigned(&signature[..signature.len() - 8])),
        ("signature_damaged", LOG, resigned(&swapped)),
        ("unexplained", NOTHING, resigned(&swapped)),
    ] {
        finds(reason, &known, &paste);
    }
}

/// Nearly all signatures have these letters in them: one of ten has.
#[test]
fn letters_of_base64_that_were_replaced_are_put_back() {
    let signed = (0..10).map(|second| sound_at(&SIGNER, &DATE.replace(":00 ", &format!(":0{second} "))));
    let has_both = |text: &String| {
        let signature = text.split("signature=\"").nth(1).unwrap().split('"').next().unwrap();
        signature.contains('+') && signature.contains('/')
    };
    let sound = signed.into_iter().find(has_both).unwrap();
    let (before, signature) = sound.split_once("signature=\"").unwrap();
    let (signature, rest) = signature.split_once('"').unwrap();
    let spoilt = |signature: String| format!("{before}signature=\"{signature}\"{rest}");
    finds("plus_became_space", &NOTHING, &spoilt(signature.replace('+', " ")));
    finds("url_safe_alphabet", &NOTHING, &spoilt(signature.replace('+', "-").replace('/', "_")));
}

#[test]
fn the_first_line_that_differs_is_told() {
    let sound = sound(&SIGNER);
    assert_eq!(diagnosed(&sound, &NOTHING).first_difference(), None);
    for (line, from, to) in [
        (0, "/api/hooks", "/hooks"),
        (1, HOST, "receiver.example"),
        (2, DATE, "Sat, 14 Nov 2026 09:30:01 GMT"),
        (3, "callback: reverse_sms", "callback: discovery"),
        (5, "COMPLETED", "EXPIRED"),
    ] {
        let diagnosis = diagnosed(&sound.replacen(from, to, 1), &LOG);
        assert_eq!(diagnosis.first_difference(), Some(line), "{from}");
        assert_eq!(diagnosis.lines.len(), 6);
    }
}

#[test]
fn requests_are_read_as_people_copy_them() {
    let read = |text: &str| Pasted::parse(text, None);
    let pasted = read("\r\nPOST /a HTTP/1.1\r\nHost: x\r\nA:1\r\n\r\nbody\r\nmore").unwrap();
    assert_eq!((pasted.body(), pasted.header("host").as_deref()), (&b"body\nmore"[..], Some("x")));
    assert_eq!(read("> POST /a HTTP/1.1\n> Host: x\n>\n").unwrap().header("Host").as_deref(), Some("x"));
    assert_eq!(read("POST https://x.example:1/a\ndate: y\n\n").unwrap().header("host").as_deref(), Some("x.example:1"));
    assert!(Pasted::parse("Host: x\nDate: y\n\nbody", Some("/a")).is_ok());
    for (text, problem) in [
        ("", NotARequest::Empty),
        (" \r\n ", NotARequest::Empty),
        ("hello", NotARequest::RequestLine),
        ("Host: x\n\nbody", NotARequest::RequestLine),
        ("POST /a HTTP/1.1\nHost: x\nwhat\n\n", NotARequest::Header(3)),
    ] {
        assert_eq!(read(text), Err(problem), "{text:?}");
    }
}
