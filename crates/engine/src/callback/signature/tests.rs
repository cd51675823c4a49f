//! Signing and verifying, as cases and properties.

use std::sync::LazyLock;

use proptest::{collection::vec, prelude::*, sample::select};

use ringtrue_domain::tenancy::Mode;

use super::*;
use crate::keys::PublicKey;

static SIGNER: LazyLock<CallbackSigner> =
    LazyLock::new(|| CallbackSigner::from_pkcs8(&CallbackSigner::generate()).unwrap());

/// A callback as it arrives.
#[derive(Clone, Debug)]
struct Arrived {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Arrived {
    fn new(target: &str, host: &str, date: &str, source: &str, body: &[u8]) -> Self {
        let digest = digest(body);
        let covered = Covered { method: "POST", target, host, date, source, digest: &digest };
        let authorization = sign(&covered, &SIGNER);
        let headers = [
            ("Host", host),
            ("x-service-callback", source),
            ("Authorization", &authorization),
            ("Digest", &digest),
            ("date", date),
            ("x-service-callback-attempt", "1"),
        ];
        Arrived {
            method: "POST".to_owned(),
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: body.to_vec(),
        }
    }

    fn usual() -> Self {
        let date = "Sat, 14 Nov 2026 09:30:00 GMT";
        Arrived::new("/hook?a=1", "receiver.example:8443", date, "reverse_sms", br#"{"check_id":"1"}"#)
    }

    fn verdict(&self) -> Result<Verified, Rejection> {
        self.verdict_with(&[SIGNER.public().clone()])
    }

    fn verdict_with(&self, keys: &[PublicKey]) -> Result<Verified, Rejection> {
        let Arrived { method, target, headers, body } = self;
        verify(&Request { method, target, headers, body }, keys)
    }

    fn header(&mut self, wanted: &str) -> &mut String {
        &mut self.headers.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).unwrap().1
    }

    fn with_header(mut self, wanted: &str, value: &str) -> Self {
        value.clone_into(self.header(wanted));
        self
    }
}

#[test]
fn the_signed_bytes_are_those_of_the_draft() {
    let covered = Covered {
        method: "POST",
        target: "/a%2Fb//c?x=%7e&y",
        host: "receiver.example:8443",
        date: "Sat, 14 Nov 2026 09:30:00 GMT",
        source: "reverse_sms",
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
    // The digest of the draft's own example.
    assert_eq!(digest(br#"{"hello": "world"}"#), covered.digest);
}

#[test]
fn the_header_has_no_space_after_its_commas() {
    let value = Arrived::usual().header("authorization").clone();
    let kid = &SIGNER.public().kid;
    let beginning = format!(
        r#"Signature keyId="{kid}",algorithm="rsa-sha256",headers="(request-target) host date x-service-callback digest",signature=""#
    );
    assert!(value.starts_with(&beginning), "{value}");
}

#[test]
fn dates_are_imf_fixdates() {
    let at = "2026-11-01T09:05:03.999Z".parse().unwrap();
    assert_eq!(date(at), "Sun, 01 Nov 2026 09:05:03 GMT");
    assert_eq!(read_date("Sun, 01 Nov 2026 09:05:03 GMT"), Some("2026-11-01T09:05:03Z".parse().unwrap()));
    for bad in ["", "1 Nov 2026 09:05:03 GMT", "Sun, 1 Nov 2026 09:05:03 GMT", "Mon, 01 Nov 2026 09:05:03 GMT"] {
        assert_eq!(read_date(bad), None, "{bad}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let usual = Arrived::usual;
    let without = |name: &str| {
        let mut arrived = usual();
        arrived.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        arrived.verdict()
    };
    for name in ["host", "date", "x-service-callback", "digest", "authorization"] {
        assert_eq!(without(name), Err(Rejection::HeaderMissing(name)));
        let mut twice = usual();
        let again = (name.to_ascii_uppercase(), twice.header(name).clone());
        twice.headers.push(again);
        assert_eq!(twice.verdict(), Err(Rejection::HeaderTwice(name)));
    }
    let signed = usual().header("authorization").clone();
    let authorization =
        |from: &str, to: &str| usual().with_header("authorization", &signed.replace(from, to)).verdict();
    let invalid = |why| Err(Rejection::Authorization(why));
    assert_eq!(authorization("Signature ", "Bearer "), invalid(InvalidAuthorization::Scheme));
    assert_eq!(authorization(",", ", "), invalid(InvalidAuthorization::Form));
    assert_eq!(authorization("keyId=", "keyid="), invalid(InvalidAuthorization::Unknown("keyid".to_owned())));
    assert_eq!(authorization("keyId=", "headers="), invalid(InvalidAuthorization::Twice("headers")));
    assert_eq!(authorization("algorithm=\"rsa-sha256\",", ""), invalid(InvalidAuthorization::Missing("algorithm")));
    assert_eq!(authorization("signature=\"", "signature=\"!"), invalid(InvalidAuthorization::Signature));
    assert_eq!(authorization("rsa-sha256", "hmac-sha256"), Err(Rejection::Algorithm));
    assert_eq!(authorization(" digest", ""), Err(Rejection::Components));
    assert_eq!(authorization(&SIGNER.public().kid, "another"), Err(Rejection::UnknownKey("another".to_owned())));
    let short = PublicKey { n: "AQAB".to_owned(), ..SIGNER.public().clone() };
    assert_eq!(usual().verdict_with(&[short]), Err(Rejection::UnusableKey(SIGNER.public().kid.clone())));
    assert_eq!(usual().with_header("digest", "MD5=abc").verdict(), Err(Rejection::DigestMalformed));
    let changed = Arrived { body: b"{}".to_vec(), ..usual() };
    assert_eq!(changed.verdict(), Err(Rejection::BodyDiffers));
    let odd_date = Arrived::new("/", "receiver.example", "yesterday", "reverse_sms", b"");
    assert_eq!(odd_date.verdict(), Err(Rejection::DateMalformed));
}

#[test]
fn keys_of_other_kinds_in_a_set_are_passed_over() {
    let PublicKey { kid, n, e, .. } = SIGNER.public();
    let set = format!(
        r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"x"}},{{"kty":"RSA","use":"sig","kid":"{kid}","n":"{n}","e":"{e}"}},
            {{"kty":"RSA","kid":"s","use_mode":"sandbox","n":"{n}","e":"{e}"}},
            {{"kty":"RSA","kid":"u","use_mode":"unknown","n":"{n}","e":"{e}"}}]}}"#
    );
    let keys = read_jwks(&set).unwrap();
    let sandbox = PublicKey { kid: "s".to_owned(), mode: Mode::Sandbox, ..SIGNER.public().clone() };
    assert_eq!(keys, [SIGNER.public().clone(), sandbox], "a key for a mode that is not known is not used");
    assert!(Arrived::usual().verdict_with(&keys).is_ok());
    assert!(read_jwks("{}").is_err());
}

const DATES: [&str; 2] = ["Sat, 14 Nov 2026 09:30:00 GMT", "Thu, 01 Jan 2026 00:00:00 GMT"];

prop_compose! {
    fn arrived()(
        target in "/[a-zA-Z0-9%/._~-]{0,40}(\\?[a-z0-9=&%]{0,20})?",
        host in "[a-z]{1,12}\\.example(:[1-9][0-9]{1,3})?",
        date in select(&DATES[..]),
        source in select(&["reverse_sms", "secure_sna", "discovery"][..]),
        body in vec(any::<u8>(), 0..200),
    ) -> Arrived {
        Arrived::new(&target, &host, date, source, &body)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_we_sign_is_verified(arrived in arrived()) {
        prop_assert!(arrived.verdict().is_ok(), "{:?}", arrived.verdict());
    }

    /// One byte anywhere in what is covered, or in the signature itself.
    #[test]
    fn one_changed_byte_is_noticed(arrived in arrived(), place in 0..7_usize, index in any::<prop::sample::Index>()) {
        let mut changed = arrived.clone();
        let flip = |text: &mut String| {
            let mut bytes = text.clone().into_bytes();
            let at = index.index(bytes.len());
            bytes[at] = if bytes[at] == b'q' { b'w' } else { b'q' };
            *text = String::from_utf8(bytes).unwrap();
        };
        match place {
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
        prop_assert!(changed.verdict().is_err(), "{changed:?}");
    }

    /// Whatever a stranger sends is refused, and nothing panics.
    #[test]
    fn noise_is_refused(header in ".{0,80}", digest in ".{0,60}", body in vec(any::<u8>(), 0..20)) {
        let noise = Arrived { body, ..Arrived::usual() }.with_header("authorization", &header);
        prop_assert!(noise.verdict().is_err());
        prop_assert!(Arrived::usual().with_header("digest", &digest).verdict().is_err());
        let _ = Authorization::parse(&format!("Signature {header}"));
    }
}
