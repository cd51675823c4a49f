//! Keys with which the sandbox connector asks simulated wallets for operator tokens, and exchanges the tokens. They are
//! generated at every start: the wallet accepts each certificate, and the operator is in this process.

use anyhow::Context;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use ringtrue_operators::{
    camara::{Algorithm, Audience, OperatorTokenConfig, OperatorTokenFlow, SigningKey},
    operator_token::{ConsentData, WalletRequestSigner},
};
use serde_json::{Value, json};
use url::Url;

const CONSENT_TEXT: &str = "Ringtrue asks the simulated operator whether this phone has your number.";
/// The same on all nodes, because each accepts answers to the requests of the others.
const POLICY_LINK: &str = "https://ringtrue.example/privacy";
const POLICY_TEXT: &str = "How Ringtrue uses your number";
const ASSERTION_KEY_ID: &str = "sandbox";

#[derive(Debug)]
pub struct OperatorTokenKeys {
    /// Signs assertions.
    client_key: KeyPair,
    signer: WalletRequestSigner,
}

impl OperatorTokenKeys {
    pub fn generate() -> anyhow::Result<Self> {
        let parameters = |name: &str| {
            let mut parameters = CertificateParams::default();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters
        };
        let mut root = parameters("Ringtrue sandbox root");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = parameters("Ringtrue sandbox").signed_by(&key, &root)?;
        let chain = certificate.pem() + &root.pem();
        let signer = WalletRequestSigner::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes())?;
        Ok(OperatorTokenKeys { client_key: KeyPair::generate()?, signer })
    }

    /// Returns the public key of assertions as a JWK, for the operator.
    pub fn client_jwk(&self) -> anyhow::Result<Value> {
        let point = self.client_key.public_key_raw();
        let (x, y) = point.get(1..).and_then(|xy| xy.split_at_checked(32)).context("not a key on P-256")?;
        let [x, y] = [x, y].map(|coordinate| BASE64_URL_SAFE_NO_PAD.encode(coordinate));
        Ok(json!({ "kty": "EC", "crv": "P-256", "kid": ASSERTION_KEY_ID, "x": x, "y": y }))
    }

    pub fn config(self, base_url: &str) -> anyhow::Result<OperatorTokenConfig> {
        let pem = self.client_key.serialize_pem();
        let key = SigningKey::from_pem(pem.as_bytes(), Algorithm::ES256, ASSERTION_KEY_ID)?;
        // The issuer, because the operator's address is local to this process.
        let flow = OperatorTokenFlow::JwtBearer { key, audience: Audience::Issuer };
        let consent = ConsentData::new(CONSENT_TEXT, &Url::parse(POLICY_LINK)?, POLICY_TEXT);
        Ok(OperatorTokenConfig::new(flow, base_url, self.signer, consent))
    }
}
