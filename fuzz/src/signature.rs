//! Requests with forged callback signatures.

use std::sync::LazyLock;

use ringtrue_callback_signature::{
    Authorization, CallbackPublicKey, CallbackRequest, CallbackSigner, CoveredComponents, PRODUCT_HEADER,
    SignatureError, VerifiedSignature, authorization_header, digest_header, format_date, parse_date, parse_jwks,
    verify,
};
use ringtrue_domain::tenancy::Mode;

use crate::{Target, input_reader::InputReader, text_seeds};

/// Signature verification: accepts exactly the signed requests.
pub const SIGNATURE: Target = Target { name: "signature", run, seeds, short_run_inputs: 500 };

/// Random for each process; no input depends on it.
static SIGNER: LazyLock<CallbackSigner> =
    LazyLock::new(|| CallbackSigner::from_pkcs8(Mode::Live, &CallbackSigner::generate_pkcs8()).unwrap());
static SIGNED_REQUEST: LazyLock<ReceivedRequest> = LazyLock::new(|| {
    ReceivedRequest::signed(["POST", "/hook", "h", "Thu, 01 Jan 1970 00:00:00 GMT", "discovery"], b"body")
});
static KEYS: LazyLock<[CallbackPublicKey; 1]> = LazyLock::new(|| [SIGNER.public().clone()]);

/// A line of changes (field, position and character each), then the signed values, one per line.
fn seeds() -> Vec<Vec<u8>> {
    let request =
        "\nPOST\n/hook?a=1\nreceiver.example:8443\nSat, 14 Nov 2026 09:30:00 GMT\nreverse_sms\n{\"check_id\":\"1\"}";
    let mut seeds: Vec<Vec<u8>> = ["", "aaa", "baab", "cPx", "dBxeax", "fAAfBBfCC", "gzzhAA", "i!9"]
        .map(|changes| [changes, request].concat().into_bytes())
        .to_vec();
    seeds.extend(text_seeds(&[
        "\npost\n/\nh\nyesterday\n\n",
        "\nPOST\n/\nh\nSun, 06 Nov 1994 08:49:37 GMT\ndiscovery\n\n\0\n",
        "Signature keyId=\"k\",algorithm=\"rsa-sha256\",headers=\"(request-target) host date x-service-callback digest\",signature=\"AAAA\"",
        "Signature signature=\"\",headers=\"\",algorithm=\"\",keyId=\"\"",
        "Signature keyId=\"\\\"\",keyId=\"\"",
        "SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "{\"keys\":[{\"kty\":\"EC\"},{\"kty\":\"RSA\",\"kid\":\"k\",\"n\":\"AQAB\",\"e\":\"AQAB\"},{\"kty\":\"RSA\"}]}",
    ]));
    for (modulus, exponent) in [("_", "AQAB"), ("-", "AA"), ("v", ""), ("A", "Aw")] {
        let modulus = modulus.repeat(342);
        seeds.push(format!(r#"{{"keys":[{{"kty":"RSA","kid":"k","n":"{modulus}","e":"{exponent}"}}]}}"#).into_bytes());
    }
    seeds
}

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_header_parsing(&text);
    check_noise_is_rejected(&text, data);
    check_changes_are_rejected(data);
}

fn check_header_parsing(text: &str) {
    if let Some(at) = parse_date(text) {
        assert_eq!(format_date(at), text, "a date has several formats");
    }
    if let Ok(Authorization { key_id, algorithm, headers, signature }) = Authorization::parse(text) {
        for part in [key_id, algorithm, headers] {
            assert!(text.contains(&format!("\"{part}\"")) && !part.contains(['"', '\\']));
        }
        assert!(signature.len() <= text.len());
        assert!(text.starts_with("Signature "));
    }
    if let Ok(keys) = parse_jwks(text) {
        // A different key with the same id does not verify, and does not panic.
        let kid = &SIGNER.public().kid;
        for key in keys {
            assert!(SIGNED_REQUEST.verify(&[CallbackPublicKey { kid: kid.clone(), ..key }]).is_err());
        }
    }
}

/// Arbitrary header values and bodies are rejected.
fn check_noise_is_rejected(text: &str, body: &[u8]) {
    for header in [AUTHORIZATION, DIGEST] {
        let mut received = SIGNED_REQUEST.clone();
        text.clone_into(&mut received.headers[header].1);
        assert_eq!(received.verify(&*KEYS).is_ok(), text == SIGNED_REQUEST.headers[header].1);
    }
    let mut received = SIGNED_REQUEST.clone();
    received.body = body.to_vec();
    assert_eq!(received.verify(&*KEYS).is_ok(), body == b"body");
}

fn check_changes_are_rejected(data: &[u8]) {
    let mut lines = data.splitn(7, |byte| *byte == b'\n');
    let changes = lines.next().unwrap_or_default();
    let mut line = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let covered = [line(), line(), line(), line(), line()];
    let signed = ReceivedRequest::signed(covered.each_ref().map(String::as_str), lines.next().unwrap_or_default());
    let date_is_valid = parse_date(&covered[3]).is_some();
    match signed.verify(&*KEYS) {
        Ok(verified) => assert!(date_is_valid && verified.product == covered[4] && verified.kid == SIGNER.public().kid),
        Err(rejection) => assert!(rejection == SignatureError::DateMalformed && !date_is_valid, "{rejection}"),
    }

    let mut received = signed.clone();
    let mut input = InputReader::new(changes);
    while !input.is_empty() {
        received.change(&mut input);
    }
    if received.verify(&*KEYS).is_ok() {
        assert_eq!(received.signing_string(), signed.signing_string());
        assert_eq!(received.body, signed.body);
        let (theirs, ours) = (&received.headers[AUTHORIZATION].1, &signed.headers[AUTHORIZATION].1);
        assert_eq!(Authorization::parse(theirs), Authorization::parse(ours));
    }
}

/// A received request.
#[derive(Clone)]
struct ReceivedRequest {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Index in the headers.
const DIGEST: usize = 3;
const AUTHORIZATION: usize = 4;

impl ReceivedRequest {
    fn signed([method, target, host, date, product]: [&str; 5], body: &[u8]) -> Self {
        let digest = digest_header(body);
        let authorization =
            authorization_header(&CoveredComponents { method, target, host, date, product, digest: &digest }, &SIGNER);
        let headers = [
            ("Host", host),
            ("date", date),
            (PRODUCT_HEADER, product),
            ("Digest", &digest),
            ("AUTHORIZATION", &authorization),
        ];
        ReceivedRequest {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: body.to_vec(),
        }
    }

    fn verify(&self, keys: &[CallbackPublicKey]) -> Result<VerifiedSignature, SignatureError> {
        let ReceivedRequest { method, target, headers, body } = self;
        verify(&CallbackRequest { method, target, headers, body }, keys)
    }

    fn signing_string(&self) -> String {
        let value = |at: usize| self.headers[at].1.as_str();
        let (method, target) = (&*self.method, &*self.target);
        CoveredComponents { method, target, host: value(0), date: value(1), product: value(2), digest: value(DIGEST) }
            .signing_string()
    }

    /// Replaces, inserts or removes a character, or repeats a header.
    fn change(&mut self, input: &mut InputReader<'_>) {
        let field = usize::from(input.octet());
        let (at, new) = (usize::from(input.octet()), char::from(input.octet()));
        let text = match field % 9 {
            0 => &mut self.method,
            1 => &mut self.target,
            header @ 2..=6 => &mut self.headers[header - 2].1,
            7 => {
                let body = &mut self.body;
                let at = at % (body.len() + 1);
                body.insert(at, u8::try_from(new).unwrap_or_default());
                return;
            }
            _ => {
                let again = self.headers[at % 5].clone();
                self.headers.push(again);
                return;
            }
        };
        let mut characters: Vec<char> = text.chars().collect();
        let at = at % (characters.len() + 1);
        match characters.get_mut(at) {
            Some(_) if new == '\0' => drop(characters.remove(at)),
            Some(character) => *character = new,
            None => characters.push(new),
        }
        *text = characters.into_iter().collect();
    }
}
