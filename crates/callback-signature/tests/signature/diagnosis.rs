//! Tests that each kind of damage is diagnosed with its cause.

use jiff::SignedDuration;
use ringtrue_callback_signature::{
    CallbackPublicKey, CallbackSigner,
    diagnosis::{
        Diagnosis, DiagnosisContext, HostChange, OwnedComponents, PastedRequest, PastedRequestError, SentCallback,
        TargetChange, diagnose_pasted, host_and_target,
    },
    digest_header, parse_date,
};
use ringtrue_domain::{product::Product, tenancy::Mode};

use super::{DATE, OTHER, ReceivedCallback, SIGNER, new_signer};

const BODY: &str =
    r#"{"check_id":"0199b0a8-0000-7000-8000-000000000000","status":"COMPLETED","match":true,"name":"a b/c"}"#;
const TARGET: &str = "/api/hooks/a%2Fb?key=1&x=2";
const HOST: &str = "receiver.example:8443";

fn components() -> OwnedComponents {
    OwnedComponents {
        method: "POST".to_owned(),
        target: TARGET.to_owned(),
        host: HOST.to_owned(),
        date: DATE.to_owned(),
        product: "reverse_sms".to_owned(),
        digest: digest_header(BODY.as_bytes()),
    }
}

/// Returns the text of an unchanged callback.
fn callback_text(signer: &CallbackSigner) -> String {
    callback_text_at(signer, DATE)
}

fn callback_text_at(signer: &CallbackSigner, date: &str) -> String {
    let mut callback = ReceivedCallback::new(signer, TARGET, HOST, date, "reverse_sms", BODY.as_bytes());
    let (authorization, digest) = (callback.header("authorization").clone(), callback.header("digest").clone());
    format!(
        "POST {TARGET} HTTP/1.1\nHost: {HOST}\nx-service-callback: reverse_sms\nAuthorization: {authorization}\nDigest: \
         {digest}\nDate: {date}\nContent-Type: application/json\n\n{BODY}"
    )
}

struct KnownFacts {
    sent: bool,
    url: bool,
    seconds_later: i64,
    key_mode: Mode,
}

const NOTHING: KnownFacts = KnownFacts { sent: false, url: false, seconds_later: 10, key_mode: Mode::Live };
const URL: KnownFacts = KnownFacts { url: true, ..NOTHING };
const LOG: KnownFacts = KnownFacts { sent: true, ..NOTHING };

fn diagnose_paste(paste: &str, known: &KnownFacts) -> Diagnosis {
    let (host, target) = host_and_target(&format!("https://{HOST}{TARGET}")).unwrap();
    let (hosts, targets) = if known.url { (vec![host], vec![target]) } else { (vec![], vec![]) };
    let sent = SentCallback { components: components(), body: BODY.to_owned() };
    let context = DiagnosisContext {
        keys: &[CallbackPublicKey { mode: known.key_mode, ..SIGNER.public().clone() }],
        retired: &[OTHER.public().clone()],
        mode: Mode::Live,
        now: parse_date(DATE).unwrap() + SignedDuration::from_secs(known.seconds_later),
        hosts: &hosts,
        targets: &targets,
        sent: known.sent.then_some(&sent),
    };
    diagnose_pasted(&PastedRequest::parse(paste, None).unwrap(), &context)
}

#[track_caller]
fn assert_cause(reason: &str, known: &KnownFacts, paste: &str) {
    let diagnosis = diagnose_paste(paste, known);
    match &diagnosis.verdict {
        Ok(_) => assert_eq!(reason, "good"),
        Err(cause) => {
            assert_eq!(cause.as_str(), reason, "{cause}");
            assert!(!cause.to_string().ends_with('.'), "the caller adds the full stop: {cause}");
        }
    }
}

#[test]
fn replaced_product_is_diagnosed() {
    for product in Product::WITH_CALLBACKS {
        let mut callback = ReceivedCallback::new(&SIGNER, TARGET, HOST, DATE, product.into_str(), BODY.as_bytes());
        let (authorization, digest) = (callback.header("authorization").clone(), callback.header("digest").clone());
        let paste = format!(
            "POST {TARGET} HTTP/1.1\nHost: {HOST}\nx-service-callback: proxy\nAuthorization: {authorization}\nDigest: \
             {digest}\nDate: {DATE}\nContent-Type: application/json\n\n{BODY}"
        );
        assert_cause("source", &NOTHING, &paste);
    }
}

#[test]
fn each_kind_of_damage_is_diagnosed() {
    let intact = callback_text(&SIGNER);
    let signature = intact.split("signature=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let with = |from: &str, to: &str| {
        assert!(intact.contains(from), "{from}");
        intact.replacen(from, to, 1)
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
        ("good", NOTHING, intact.clone()),
        ("good", LOG, intact.clone()),
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
        ("key_sandbox", KnownFacts { key_mode: Mode::Sandbox, ..NOTHING }, intact.clone()),
        ("date_skew", KnownFacts { seconds_later: 301, ..NOTHING }, intact.clone()),
        ("date_skew", KnownFacts { seconds_later: -301, ..NOTHING }, intact.clone()),
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
        ("digest_replaced", NOTHING, with(&digest_header(BODY.as_bytes()), &digest_header(b"other"))),
        ("digest_malformed", NOTHING, with("SHA-256=", "MD5=")),
        ("key_unknown", NOTHING, callback_text(&new_signer())),
        ("key_other", NOTHING, with(&kid, &other)),
        ("key_other", NOTHING, with(&kid, "another")),
        ("key_retired", NOTHING, callback_text(&OTHER)),
        ("key_other", NOTHING, callback_text(&OTHER).replacen(&other, &kid, 1)),
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
            intact.replacen("keyId=\"", "keyId=&quot;", 1).replacen(&format!("{kid}\""), &format!("{kid}&quot;"), 1),
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
        assert_cause(reason, &known, &paste);
    }
}

/// Signs up to ten times, until the signature contains both `+` and `/`.
#[test]
fn replaced_base64_characters_are_diagnosed() {
    let signed = (0..10).map(|second| callback_text_at(&SIGNER, &DATE.replace(":00 ", &format!(":0{second} "))));
    let has_both = |text: &String| {
        let signature = text.split("signature=\"").nth(1).unwrap().split('"').next().unwrap();
        signature.contains('+') && signature.contains('/')
    };
    let intact = signed.into_iter().find(has_both).unwrap();
    let (before, signature) = intact.split_once("signature=\"").unwrap();
    let (signature, rest) = signature.split_once('"').unwrap();
    let with_signature = |signature: String| format!("{before}signature=\"{signature}\"{rest}");
    assert_cause("plus_became_space", &NOTHING, &with_signature(signature.replace('+', " ")));
    assert_cause("url_safe_alphabet", &NOTHING, &with_signature(signature.replace('+', "-").replace('/', "_")));
}

#[test]
fn first_differing_line_is_reported() {
    let intact = callback_text(&SIGNER);
    assert_eq!(diagnose_paste(&intact, &NOTHING).first_difference(), None);
    for (line, from, to) in [
        (0, "/api/hooks", "/hooks"),
        (1, HOST, "receiver.example"),
        (2, DATE, "Sat, 14 Nov 2026 09:30:01 GMT"),
        (3, "callback: reverse_sms", "callback: discovery"),
        (5, "COMPLETED", "EXPIRED"),
    ] {
        let diagnosis = diagnose_paste(&intact.replacen(from, to, 1), &LOG);
        assert_eq!(diagnosis.first_difference(), Some(line), "{from}");
        assert_eq!(diagnosis.lines.len(), 6);
    }
}

#[test]
fn pasted_requests_are_parsed() {
    let read = |text: &str| PastedRequest::parse(text, None);
    let pasted = read("\r\nPOST /a HTTP/1.1\r\nHost: x\r\nA:1\r\n\r\nbody\r\nmore").unwrap();
    assert_eq!((pasted.body(), pasted.header("host").as_deref()), (&b"body\nmore"[..], Some("x")));
    assert_eq!(read("> POST /a HTTP/1.1\n> Host: x\n>\n").unwrap().header("Host").as_deref(), Some("x"));
    assert_eq!(read("POST https://x.example:1/a\ndate: y\n\n").unwrap().header("host").as_deref(), Some("x.example:1"));
    assert!(PastedRequest::parse("Host: x\nDate: y\n\nbody", Some("/a")).is_ok());
    for (text, problem) in [
        ("", PastedRequestError::Empty),
        (" \r\n ", PastedRequestError::Empty),
        ("hello", PastedRequestError::RequestLine),
        ("Host: x\n\nbody", PastedRequestError::RequestLine),
        ("POST /a HTTP/1.1\nHost: x\nwhat\n\n", PastedRequestError::Header(3)),
    ] {
        assert_eq!(read(text), Err(problem), "{text:?}");
    }
}

/// The tests above cover the names of all other changes.
#[test]
fn names_of_added_parts_are_stable() {
    assert_eq!(HostChange::PortAdded.into_str(), "host_port_added");
    assert_eq!(TargetChange::QueryAdded.into_str(), "query_added");
}
