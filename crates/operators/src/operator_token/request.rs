//! The request for a credential, as `navigator.credentials.get` takes it.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ringtrue_engine::ports::operator_tokens::{CredentialRequest, DigitalCredential};
use serde::Serialize;
use serde_json::json;
use url::Url;

use super::{
    CREDENTIAL_FORMAT, CREDENTIAL_ID, CREDENTIAL_TYPE, PROTOCOL, encrypted_token::ENCRYPTION, public_key::EcJwk,
    request_signer::WalletRequestSigner, sha256_base64url,
};

/// What the phone shows to its user before it asks the operator. Each operator agrees to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentData {
    /// The texts as JSON, in base64url.
    encoded: String,
}

impl ConsentData {
    pub fn new(consent_text: &str, policy_link: &Url, policy_text: &str) -> Self {
        #[derive(Serialize)]
        struct ShownTexts<'a> {
            consent_text: &'a str,
            policy_link: &'a str,
            policy_text: &'a str,
        }

        let texts = ShownTexts { consent_text, policy_link: policy_link.as_str(), policy_text };
        // Text always serialises.
        let json = serde_json::to_vec(&texts).unwrap_or_default();
        ConsentData { encoded: BASE64_URL_SAFE_NO_PAD.encode(json) }
    }

    /// Returns the digest by which a wallet confirms what it has shown.
    pub(super) fn hash(&self) -> String {
        sha256_base64url(&self.encoded)
    }
}

/// Signed part of the request. It proves to the wallet that the operator permits us to ask.
#[derive(Serialize)]
struct CredentialAuthorization<'a> {
    iss: &'a str,
    nonce: &'a str,
    jwks: EncryptionKeys,
    encrypted_response_enc_values_supported: [&'static str; 1],
    consent_data: &'a str,
}

#[derive(Serialize)]
struct EncryptionKeys {
    keys: [EncryptionKey; 1],
}

#[derive(Serialize)]
struct EncryptionKey {
    #[serde(flatten)]
    key: EcJwk,
    kid: &'static str,
    #[serde(rename = "use")]
    usage: &'static str,
    alg: &'static str,
}

/// Builds a request to a wallet. `None`: the key is invalid, or the cryptographic library failed.
pub(crate) fn build_request(
    issuer: &str,
    signer: &WalletRequestSigner,
    consent: &ConsentData,
    request: &CredentialRequest<'_>,
) -> Option<DigitalCredential> {
    let key = PrivateKey::from_private_key(&ECDH_P256, &**request.key).ok()?;
    let key = EncryptionKey { key: EcJwk::of_private_key(&key)?, kid: "1", usage: "enc", alg: "ECDH-ES" };
    let authorization = CredentialAuthorization {
        iss: issuer,
        nonce: request.nonce,
        jwks: EncryptionKeys { keys: [key] },
        encrypted_response_enc_values_supported: [ENCRYPTION],
        consent_data: &consent.encoded,
    };
    let mut credential = json!({
        "id": CREDENTIAL_ID,
        "format": CREDENTIAL_FORMAT,
        "meta": {
            "vct_values": [CREDENTIAL_TYPE],
            "credential_authorization_jwt": signer.sign("oauth-authz-req+jwt", &authorization)?,
        },
    });
    if let Some(number) = request.number_hint {
        credential["claims"] = json!([{ "path": ["phone_number_hint"], "values": [number.as_str()] }]);
    }
    let data = json!({
        "response_type": "vp_token",
        "response_mode": "dc_api",
        "nonce": request.nonce,
        "dcql_query": { "credentials": [credential] },
    });
    Some(DigitalCredential { protocol: PROTOCOL.to_owned(), data })
}
