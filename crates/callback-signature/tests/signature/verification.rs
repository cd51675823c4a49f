//! Tests of signing and verifying: cases and properties.

use proptest::{collection::vec, prelude::*, sample::select};
use ringtrue_callback_signature::{
    Authorization, CallbackPublicKey, CoveredComponents, InvalidAuthorization, SignatureError, digest_header,
    format_date, parse_date, parse_jwks,
};
use ringtrue_domain::tenancy::Mode;

use super::{DATE, ReceivedCallback, SIGNER};

fn valid_callback() -> ReceivedCallback {
    let (target, host) = ("/hook?a=1", "receiver.example:8443");
    ReceivedCallback::new(&SIGNER, target, host, DATE, "reverse_sms", br#"{"check_id":"1"}"#)
}

#[test]
fn signing_string_follows_the_draft() {
    let covered = CoveredComponents {
        method: "POST",
        target: "/a%2Fb//c?x=%7e&y",
        host: "receiver.example:8443",
        date: DATE,
        product: "reverse_sms",
        digest: "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=",
    };
    assert_eq!(
        covered.signing_string(),
        "(request-target): post /a%2Fb//c?x=%7e&y\n\
         host: receiver.example:8443\n\
         date: Sat, 14 Nov 2026 09:30:00 GMT\n\
         x-service-callback: reverse_sms\n\
         digest: SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE="
    );
    // The digest of the example in draft-cavage-http-signatures.
    assert_eq!(digest_header(br#"{"hello": "world"}"#), covered.digest);
}

#[test]
fn authorization_header_has_no_spaces_after_commas() {
    let value = valid_callback().header("authorization").clone();
    let kid = &SIGNER.public().kid;
    let beginning = format!(
        r#"Signature keyId="{kid}",algorithm="rsa-sha256",headers="(request-target) host date x-service-callback digest",signature=""#
    );
    assert!(value.starts_with(&beginning), "{value}");
}

#[test]
fn dates_are_imf_fixdates() {
    let at = "2026-11-01T09:05:03.999Z".parse().unwrap();
    assert_eq!(format_date(at), "Sun, 01 Nov 2026 09:05:03 GMT");
    assert_eq!(parse_date("Sun, 01 Nov 2026 09:05:03 GMT"), Some("2026-11-01T09:05:03Z".parse().unwrap()));
    for bad in ["", "1 Nov 2026 09:05:03 GMT", "Sun, 1 Nov 2026 09:05:03 GMT", "Mon, 01 Nov 2026 09:05:03 GMT"] {
        assert_eq!(parse_date(bad), None, "{bad}");
    }
}

#[test]
fn each_invalid_part_has_its_error() {
    let valid = valid_callback;
    let without = |name: &str| {
        let mut received = valid();
        received.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        received.verify_received()
    };
    for name in ["host", "date", "x-service-callback", "digest", "authorization"] {
        assert_eq!(without(name), Err(SignatureError::MissingHeader(name)));
        let mut twice = valid();
        let again = (name.to_ascii_uppercase(), twice.header(name).clone());
        twice.headers.push(again);
        assert_eq!(twice.verify_received(), Err(SignatureError::DuplicateHeader(name)));
    }
    let signed = valid().header("authorization").clone();
    let authorization =
        |from: &str, to: &str| valid().with_header("authorization", &signed.replace(from, to)).verify_received();
    let invalid = |why| Err(SignatureError::InvalidAuthorization(why));
    assert_eq!(authorization("Signature ", "Bearer "), invalid(InvalidAuthorization::Scheme));
    assert_eq!(authorization(",", ", "), invalid(InvalidAuthorization::Malformed));
    assert_eq!(authorization("keyId=", "keyid="), invalid(InvalidAuthorization::UnknownParameter("keyid".to_owned())));
    assert_eq!(authorization("keyId=", "headers="), invalid(InvalidAuthorization::DuplicateParameter("headers")));
    assert_eq!(
        authorization("algorithm=\"rsa-sha256\",", ""),
        invalid(InvalidAuthorization::MissingParameter("algorithm"))
    );
    assert_eq!(authorization("signature=\"", "signature=\"!"), invalid(InvalidAuthorization::SignatureNotBase64));
    assert_eq!(authorization("rsa-sha256", "hmac-sha256"), Err(SignatureError::UnsupportedAlgorithm));
    assert_eq!(authorization(" digest", ""), Err(SignatureError::UnexpectedComponents));
    assert_eq!(authorization(&SIGNER.public().kid, "another"), Err(SignatureError::UnknownKey("another".to_owned())));
    let short = CallbackPublicKey { n: "AQAB".to_owned(), ..SIGNER.public().clone() };
    assert_eq!(valid().verify_with(&[short]), Err(SignatureError::UnusableKey(SIGNER.public().kid.clone())));
    assert_eq!(valid().with_header("digest", "MD5=abc").verify_received(), Err(SignatureError::DigestMalformed));
    let changed = ReceivedCallback { body: b"{}".to_vec(), ..valid() };
    assert_eq!(changed.verify_received(), Err(SignatureError::BodyDiffers));
    let odd_date = ReceivedCallback::new(&SIGNER, "/", "receiver.example", "yesterday", "reverse_sms", b"");
    assert_eq!(odd_date.verify_received(), Err(SignatureError::DateMalformed));
}

#[test]
fn other_key_types_are_skipped() {
    let CallbackPublicKey { kid, n, e, .. } = SIGNER.public();
    let set = format!(
        r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"x"}},{{"kty":"RSA","use":"sig","kid":"{kid}","n":"{n}","e":"{e}"}},
            {{"kty":"RSA","kid":"s","use_mode":"sandbox","n":"{n}","e":"{e}"}},
            {{"kty":"RSA","kid":"u","use_mode":"unknown","n":"{n}","e":"{e}"}}]}}"#
    );
    let keys = parse_jwks(&set).unwrap();
    let sandbox = CallbackPublicKey { kid: "s".to_owned(), mode: Mode::Sandbox, ..SIGNER.public().clone() };
    assert_eq!(keys, [SIGNER.public().clone(), sandbox], "a key with an unknown mode is skipped");
    assert!(valid_callback().verify_with(&keys).is_ok());
    assert!(parse_jwks("{}").is_err());
}

const DATES: [&str; 2] = [DATE, "Thu, 01 Jan 2026 00:00:00 GMT"];

prop_compose! {
    fn received()(
        target in "/[a-zA-Z0-9%/._~-]{0,40}(\\?[a-z0-9=&%]{0,20})?",
        host in "[a-z]{1,12}\\.example(:[1-9][0-9]{1,3})?",
        date in select(&DATES[..]),
        product in select(&["reverse_sms", "secure_sna", "discovery"][..]),
        body in vec(any::<u8>(), 0..200),
    ) -> ReceivedCallback {
        ReceivedCallback::new(&SIGNER, &target, &host, date, product, &body)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn signed_callbacks_verify(received in received()) {
        prop_assert!(received.verify_received().is_ok(), "{:?}", received.verify_received());
    }

    /// Changes one byte anywhere in the covered components or in the signature itself.
    #[test]
    fn one_changed_byte_is_rejected(received in received(), field in 0..7_usize, index in any::<prop::sample::Index>()) {
        let mut changed = received.clone();
        let flip = |text: &mut String| {
            let mut bytes = text.clone().into_bytes();
            let at = index.index(bytes.len());
            bytes[at] = if bytes[at] == b'q' { b'w' } else { b'q' };
            *text = String::from_utf8(bytes).unwrap();
        };
        match field {
            0 => flip(&mut changed.target),
            1 => flip(changed.header("host")),
            2 => flip(changed.header("date")),
            3 => flip(changed.header("x-service-callback")),
            4 => flip(changed.header("digest")),
            5 => flip(changed.header("authorization")),
            _ => match changed.body.len() {
                0 => changed.body.push(0),
                length => changed.body[index.index(length)] ^= 1,
            },
        }
        prop_assert!(changed.verify_received().is_err(), "{changed:?}");
    }

    /// Arbitrary input is rejected without panicking.
    #[test]
    fn arbitrary_input_is_rejected(header in ".{0,80}", digest in ".{0,60}", body in vec(any::<u8>(), 0..20)) {
        let arbitrary = ReceivedCallback { body, ..valid_callback() }.with_header("authorization", &header);
        prop_assert!(arbitrary.verify_received().is_err());
        prop_assert!(valid_callback().with_header("digest", &digest).verify_received().is_err());
        let _ = Authorization::parse(&format!("Signature {header}"));
    }
}
