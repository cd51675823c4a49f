//! Requests that claim to be callbacks of ours.

use std::sync::LazyLock;

use ringtrue_engine::{
    callback::signature::{
        Authorization, Covered, Rejection, Request, SOURCE_HEADER, Verified, date, digest, read_date, read_jwks, sign,
        verify,
    },
    keys::{CallbackSigner, PublicKey},
};

use crate::{Target, tape::Tape, texts};

/// `verify` and what it reads: what is verified was signed, byte for byte, and what was signed is verified.
pub const SIGNATURE: Target = Target { name: "signature", run, seeds, short_run: 500 };

/// Another one in each process: no input depends on it.
static SIGNER: LazyLock<CallbackSigner> =
    LazyLock::new(|| CallbackSigner::from_pkcs8(&CallbackSigner::generate()).unwrap());
static USUAL: LazyLock<Arrived> =
    LazyLock::new(|| Arrived::signed(["POST", "/hook", "h", "Thu, 01 Jan 1970 00:00:00 GMT", "discovery"], b"usual"));
static KEYS: LazyLock<[PublicKey; 1]> = LazyLock::new(|| [SIGNER.public().clone()]);

/// Changes, each a place, a position and a character; a line that ends them; then what is signed, a line each.
fn seeds() -> Vec<Vec<u8>> {
    let request =
        "\nPOST\n/hook?a=1\nreceiver.example:8443\nSat, 14 Nov 2026 09:30:00 GMT\nreverse_sms\n{\"check_id\":\"1\"}";
    let mut seeds: Vec<Vec<u8>> = ["", "aaa", "baab", "cPx", "dBxeax", "fAAfBBfCC", "gzzhAA", "i!9"]
        .map(|changes| [changes, request].concat().into_bytes())
        .to_vec();
    seeds.extend(texts(&[
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
    headers_are_read_or_refused(&text);
    noise_is_refused(&text, data);
    what_is_verified_was_signed(data);
}

fn headers_are_read_or_refused(text: &str) {
    if let Some(at) = read_date(text) {
        assert_eq!(date(at), text, "a date has one form");
    }
    if let Ok(Authorization { key_id, algorithm, headers, signature }) = Authorization::parse(text) {
        for part in [key_id, algorithm, headers] {
            assert!(text.contains(&format!("\"{part}\"")) && !part.contains(['"', '\\']));
        }
        assert!(signature.len() <= text.len());
        assert!(text.starts_with("Signature "));
    }
    if let Ok(keys) = read_jwks(text) {
        // Whatever a key set holds under the id that is looked for, it is refused and nothing worse.
        let kid = &SIGNER.public().kid;
        for key in keys {
            assert!(USUAL.verdict(&[PublicKey { kid: kid.clone(), ..key }]).is_err());
        }
    }
}

/// What a stranger writes, in each place where it could matter.
fn noise_is_refused(text: &str, body: &[u8]) {
    for header in [AUTHORIZATION, DIGEST] {
        let mut arrived = USUAL.clone();
        text.clone_into(&mut arrived.headers[header].1);
        assert_eq!(arrived.verdict(&*KEYS).is_ok(), text == USUAL.headers[header].1);
    }
    let mut arrived = USUAL.clone();
    arrived.body = body.to_vec();
    assert_eq!(arrived.verdict(&*KEYS).is_ok(), body == b"usual");
}

fn what_is_verified_was_signed(data: &[u8]) {
    let mut lines = data.splitn(7, |byte| *byte == b'\n');
    let changes = lines.next().unwrap_or_default();
    let mut line = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let covered = [line(), line(), line(), line(), line()];
    let signed = Arrived::signed(covered.each_ref().map(String::as_str), lines.next().unwrap_or_default());
    let date_is_right = read_date(&covered[3]).is_some();
    match signed.verdict(&*KEYS) {
        Ok(verified) => assert!(date_is_right && verified.source == covered[4] && verified.kid == SIGNER.public().kid),
        Err(rejection) => assert!(rejection == Rejection::DateMalformed && !date_is_right, "{rejection}"),
    }

    let mut arrived = signed.clone();
    let mut tape = Tape::new(changes);
    while !tape.is_empty() {
        arrived.change(&mut tape);
    }
    if arrived.verdict(&*KEYS).is_ok() {
        assert_eq!(arrived.signing_string(), signed.signing_string());
        assert_eq!(arrived.body, signed.body);
        let (theirs, ours) = (&arrived.headers[AUTHORIZATION].1, &signed.headers[AUTHORIZATION].1);
        assert_eq!(Authorization::parse(theirs), Authorization::parse(ours));
    }
}

/// A request as it arrives.
#[derive(Clone)]
struct Arrived {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Where they are among the headers.
const DIGEST: usize = 3;
const AUTHORIZATION: usize = 4;

impl Arrived {
    fn signed([method, target, host, date, source]: [&str; 5], body: &[u8]) -> Self {
        let digest = digest(body);
        let authorization = sign(&Covered { method, target, host, date, source, digest: &digest }, &SIGNER);
        let headers = [
            ("Host", host),
            ("date", date),
            (SOURCE_HEADER, source),
            ("Digest", &digest),
            ("AUTHORIZATION", &authorization),
        ];
        Arrived {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: body.to_vec(),
        }
    }

    fn verdict(&self, keys: &[PublicKey]) -> Result<Verified, Rejection> {
        let Arrived { method, target, headers, body } = self;
        verify(&Request { method, target, headers, body }, keys)
    }

    fn signing_string(&self) -> String {
        let value = |at: usize| self.headers[at].1.as_str();
        let (method, target) = (&*self.method, &*self.target);
        Covered { method, target, host: value(0), date: value(1), source: value(2), digest: value(DIGEST) }
            .signing_string()
    }

    /// One character of one part becomes another, or one more, or none; or a header is there once more.
    fn change(&mut self, tape: &mut Tape<'_>) {
        let place = usize::from(tape.octet());
        let (at, new) = (usize::from(tape.octet()), char::from(tape.octet()));
        let text = match place % 9 {
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
