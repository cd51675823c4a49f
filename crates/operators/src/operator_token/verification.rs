//! Verification of a wallet's answer, which is untrusted: it comes from a browser or an app.

use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use ringtrue_engine::ports::operator_tokens::{CredentialResponse, DigitalCredential, OperatorToken};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::{CertificateDer, TrustAnchor, pem::PemObject};
use webpki::anchor_from_trusted_cert;
use zeroize::Zeroizing;

use super::{
    CREDENTIAL_FORMAT, CREDENTIAL_ID, CREDENTIAL_TYPE, PROTOCOL,
    encrypted_token::decrypt,
    public_key::{EcJwk, VerifyingKey, decode_certificates},
    request::ConsentData,
    request_signer::verify_chain,
    sha256_base64url,
};
use crate::oauth::CLOCK_SKEW_SECS;

/// Maximum length of the credential. Wallets send less than two kilobytes without a chain of certificates.
const MAX_CREDENTIAL_BYTES: usize = 32 * 1_024;
/// Maximum number of certificates in `x5c`.
const MAX_CERTIFICATES: usize = 5;
const MAX_TEMPORARY_TOKEN_BYTES: usize = 4 * 1_024;

const MALFORMED: &str = "the credential is malformed";

/// Verifies answers of wallets.
#[derive(Clone, Debug)]
pub struct CredentialVerifier {
    /// Certificates to which the issuer's must lead. Empty: any issuer is accepted.
    issuer_roots: IssuerRoots,
    consent_data_hash: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file must contain certificates in PEM (`BEGIN CERTIFICATE`)")]
pub struct InvalidIssuerCertificates;

#[derive(Clone, Default, derive_more::Debug)]
#[debug("IssuerRoots({})", _0.len())]
struct IssuerRoots(Vec<TrustAnchor<'static>>);

impl IssuerRoots {
    fn from_pem(pem: &[u8]) -> Option<Self> {
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().ok()?;
        let anchor = |certificate| anchor_from_trusted_cert(certificate).ok().map(|anchor| anchor.to_owned());
        let roots = certificates.iter().map(anchor).collect::<Option<Vec<_>>>()?;
        (!roots.is_empty()).then_some(IssuerRoots(roots))
    }

    fn is_trusted(&self, x5c: &[String], now: Timestamp) -> bool {
        let Some(certificates) = decode_certificates(x5c) else { return false };
        let Some((certificate, intermediates)) = certificates.split_first() else { return false };
        let now = Duration::from_secs(now.as_second().try_into().unwrap_or_default());
        verify_chain(certificate, &self.0, intermediates, now).is_ok()
    }
}

/// Header of a JWS.
#[derive(Deserialize)]
struct JwsHeader {
    alg: String,
    typ: String,
    #[serde(default)]
    x5c: Vec<String>,
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct IssuerClaims {
    vct: String,
    cnf: ConfirmationClaim,
    exp: i64,
}

#[derive(Deserialize)]
struct ConfirmationClaim {
    jwk: EcJwk,
}

#[derive(Deserialize)]
struct BindingClaims {
    aud: String,
    nonce: String,
    sd_hash: String,
    consent_data_hash: String,
    encrypted_credential: String,
    carrier_hint: Option<String>,
}

#[derive(Deserialize)]
struct StatedNonce {
    nonce: String,
}

#[derive(Deserialize)]
struct TokenPlaintext {
    temp_token: String,
}

impl CredentialVerifier {
    /// Creates a verifier of answers to requests with this consent data.
    pub fn new(consent: &ConsentData) -> Self {
        CredentialVerifier { issuer_roots: IssuerRoots::default(), consent_data_hash: consent.hash() }
    }

    /// Requires that the certificates of credentials' issuers lead to one of these (PEM).
    pub fn with_issuer_certificates(self, pem: &[u8]) -> Result<Self, InvalidIssuerCertificates> {
        let issuer_roots = IssuerRoots::from_pem(pem).ok_or(InvalidIssuerCertificates)?;
        Ok(CredentialVerifier { issuer_roots, ..self })
    }

    /// Returns the nonce that an answer states, before anything of the answer is verified. `None`: it is malformed.
    pub fn stated_nonce(credential: &DigitalCredential) -> Option<String> {
        let (_, binding) = split_credential(credential).ok()?;
        let stated: StatedNonce = binding.claims().ok()?;
        Some(stated.nonce)
    }

    /// Verifies an answer. The error is the reason, without text from the answer.
    pub fn verify(&self, response: &CredentialResponse<'_>) -> Result<OperatorToken, &'static str> {
        let (issuer_jwt, binding) = split_credential(response.credential)?;
        let issuer_claims = self.verify_issuer(&Jws::parse(issuer_jwt)?, response.now)?;
        let phone = VerifyingKey::from_jwk(&issuer_claims.cnf.jwk).ok_or("the phone's key is not a key on P-256")?;
        binding.check_header("kb+jwt")?;
        if !binding.is_signed_by(&phone) {
            return Err("the phone's signature is invalid");
        }
        if issuer_claims.vct != CREDENTIAL_TYPE {
            return Err("the credential has another type");
        }
        if response.now.as_second() >= issuer_claims.exp.saturating_add(CLOCK_SKEW_SECS) {
            return Err("the credential has expired");
        }
        let claims: BindingClaims = binding.claims()?;
        if !response.origins.contains(&&*claims.aud) {
            return Err("the credential was requested at another origin");
        }
        if verify_slices_are_equal(claims.nonce.as_bytes(), response.nonce.as_bytes()).is_err() {
            return Err("the credential was requested with another nonce");
        }
        if claims.sd_hash != sha256_base64url(&format!("{issuer_jwt}~")) {
            return Err("the phone has signed for another credential");
        }
        if claims.consent_data_hash != self.consent_data_hash {
            return Err("the user has seen another consent text");
        }
        let plaintext = decrypt(&claims.encrypted_credential, response.key)?;
        let temporary_token = read_temporary_token(&plaintext).ok_or("the credential contains no temporary token")?;
        Ok(OperatorToken { temporary_token, carrier: claims.carrier_hint })
    }

    fn verify_issuer(&self, issuer: &Jws<'_>, now: Timestamp) -> Result<IssuerClaims, &'static str> {
        let JwsHeader { x5c, .. } = issuer.check_header(CREDENTIAL_FORMAT)?;
        if x5c.len() > MAX_CERTIFICATES {
            return Err("the issuer's chain of certificates is too long");
        }
        let key = x5c.first().and_then(|certificate| VerifyingKey::from_x5c(certificate));
        if !issuer.is_signed_by(&key.ok_or("the issuer's certificate is malformed")?) {
            return Err("the issuer's signature is invalid");
        }
        // Without configured certificates, anybody can be the issuer. The proof is then the operator's answer alone.
        if !self.issuer_roots.0.is_empty() && !self.issuer_roots.is_trusted(&x5c, now) {
            return Err("the issuer's certificate is not trusted");
        }
        issuer.claims()
    }
}

/// Splits the one credential of an answer into the issuer's JWT and the binding JWT.
fn split_credential(credential: &DigitalCredential) -> Result<(&str, Jws<'_>), &'static str> {
    if credential.protocol != PROTOCOL {
        return Err("the protocol is not the requested one");
    }
    let credentials = credential.data.get("vp_token").and_then(Value::as_object).ok_or(MALFORMED)?;
    let presented = credentials.get(CREDENTIAL_ID).and_then(Value::as_array).map(Vec::as_slice);
    let (1, Some([Value::String(presented)])) = (credentials.len(), presented) else {
        return Err("the answer does not contain exactly the requested credential");
    };
    if presented.len() > MAX_CREDENTIAL_BYTES {
        return Err("the credential is too long");
    }
    // Claims are never disclosed selectively, so there is nothing between the two JWTs.
    let (issuer, binding) = presented.split_once('~').ok_or(MALFORMED)?;
    Ok((issuer, Jws::parse(binding)?))
}

fn read_temporary_token(plaintext: &[u8]) -> Option<Zeroizing<String>> {
    let TokenPlaintext { temp_token } = serde_json::from_slice(plaintext).ok()?;
    let token = Zeroizing::new(temp_token);
    let is_valid =
        (1..=MAX_TEMPORARY_TOKEN_BYTES).contains(&token.len()) && token.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    is_valid.then_some(token)
}

/// A signed JWT in compact serialisation, whose signature is not verified yet.
struct Jws<'a> {
    header: &'a str,
    payload: &'a str,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        let (signed, signature) = text.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, payload) = signed.split_once('.').ok_or(MALFORMED)?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(|_| MALFORMED)?;
        Ok(Jws { header, payload, signed, signature })
    }

    /// Parses the header, and checks that the JWT is of this kind and signed by the only supported algorithm.
    fn check_header(&self, kind: &str) -> Result<JwsHeader, &'static str> {
        let header: JwsHeader = parse_part(self.header)?;
        if header.alg != "ES256" || header.typ != kind || header.crit.is_some() {
            return Err("the credential has an unsupported format or signature");
        }
        Ok(header)
    }

    fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        key.verify(self.signed.as_bytes(), &self.signature)
    }

    fn claims<T: DeserializeOwned>(&self) -> Result<T, &'static str> {
        parse_part(self.payload)
    }
}

fn parse_part<T: DeserializeOwned>(part: &str) -> Result<T, &'static str> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| MALFORMED)?;
    serde_json::from_slice(&json).map_err(|_| MALFORMED)
}
