//! Tests of callback signatures: verification, diagnosis of invalid signatures, and third-party verifiers.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests report failures by panics")]

mod diagnosis;
mod verification;
mod verifiers;

use std::sync::LazyLock;

use ringtrue_callback_signature::{
    CallbackPublicKey, CallbackRequest, CallbackSigner, CoveredComponents, SignatureError, VerifiedSignature,
    authorization_header, digest_header, verify,
};
use ringtrue_domain::tenancy::Mode;

const DATE: &str = "Sat, 14 Nov 2026 09:30:00 GMT";

static SIGNER: LazyLock<CallbackSigner> = LazyLock::new(new_signer);
static OTHER: LazyLock<CallbackSigner> = LazyLock::new(new_signer);

fn new_signer() -> CallbackSigner {
    CallbackSigner::from_pkcs8(Mode::Live, &CallbackSigner::generate_pkcs8()).unwrap()
}

#[derive(Clone, Debug)]
struct ReceivedCallback {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl ReceivedCallback {
    fn new(signer: &CallbackSigner, target: &str, host: &str, date: &str, product: &str, body: &[u8]) -> Self {
        let digest = digest_header(body);
        let covered = CoveredComponents { method: "POST", target, host, date, product, digest: &digest };
        let authorization = authorization_header(&covered, signer);
        let headers = [
            ("Host", host),
            ("x-service-callback", product),
            ("Authorization", &authorization),
            ("Digest", &digest),
            ("date", date),
            ("x-service-callback-attempt", "1"),
        ];
        ReceivedCallback {
            method: "POST".to_owned(),
            target: target.to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: body.to_vec(),
        }
    }

    fn verify_received(&self) -> Result<VerifiedSignature, SignatureError> {
        self.verify_with(&[SIGNER.public().clone()])
    }

    fn verify_with(&self, keys: &[CallbackPublicKey]) -> Result<VerifiedSignature, SignatureError> {
        let ReceivedCallback { method, target, headers, body } = self;
        verify(&CallbackRequest { method, target, headers, body }, keys)
    }

    fn header(&mut self, name: &str) -> &mut String {
        &mut self.headers.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)).unwrap().1
    }

    fn with_header(mut self, name: &str, value: &str) -> Self {
        value.clone_into(self.header(name));
        self
    }
}
