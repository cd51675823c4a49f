//! Digital credentials of phones' wallets in requests and responses of the API.

use ringtrue_engine::ports::operator_tokens::DigitalCredential;
use ringtrue_web::body::{JsonError, Object, as_digital_credential, as_text};
use serde::Serialize;
use serde_json::Value;

/// A request for `navigator.credentials.get` or an app's wallet.
#[derive(Serialize)]
pub struct CredentialRequestBody {
    protocol: String,
    data: Value,
}

impl From<&DigitalCredential> for CredentialRequestBody {
    fn from(credential: &DigitalCredential) -> Self {
        CredentialRequestBody { protocol: credential.protocol.clone(), data: credential.data.clone() }
    }
}

/// What a client's backend submits to complete a Secure SNA check.
pub enum Proof {
    /// The code that the device got at the end of its redirects.
    Code(String),
    /// The answer of the phone's wallet.
    Credential(DigitalCredential),
}

impl Proof {
    pub fn parse(document: &[u8]) -> Result<Self, JsonError> {
        let mut body = Object::parse(document)?;
        let proof = match body.take("digital_credential", as_digital_credential)? {
            Some(credential) => Proof::Credential(credential),
            None => Proof::Code(body.require("code", as_text)?),
        };
        body.finish(proof)
    }
}
