//! Requests for an operator token, as pages and apps pass them to the Digital Credentials API.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jsonwebtoken::{Algorithm, DecodingKey, TokenData, crypto, dangerous::insecure_decode};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::{
    PROTOCOL,
    certificate::verify_chain,
    encryption::{CONTENT_ENCRYPTION, EncryptionKey},
};
use crate::camara::PhoneNumber;

const FORMAT: &str = "dc-authorization+sd-jwt";
const AUTHORIZATION_TYPE: &str = "oauth-authz-req+jwt";
/// Credential types: the verification of a number, and its retrieval.
const CREDENTIAL_TYPES: [&str; 2] = ["number-verification/verify/ts43", "number-verification/device-phone-number/ts43"];
const CREDENTIALS_POINTER: &str = "/data/dcql_query/credentials";
const AUTHORIZATION_POINTER: &str = "/data/dcql_query/credentials/0/meta/credential_authorization_jwt";

/// Why a wallet rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("`{pointer}`: {problem}")]
pub struct InvalidRequest {
    /// JSON pointer within a member of `digital.requests`.
    pub pointer: &'static str,
    pub problem: &'static str,
}

/// A valid request for an operator token.
#[derive(derive_more::Debug)]
#[debug("CredentialRequest({credential_type})")]
pub struct CredentialRequest {
    /// Name of the credential in the query and in the response.
    pub(super) id: String,
    pub(super) credential_type: String,
    pub(super) nonce: String,
    pub(super) state: Option<String>,
    /// Consent in the encoding of the request, of which the response contains a hash.
    pub(super) consent_data: String,
    pub(super) encryption_key: EncryptionKey,
    /// What the wallet shows to the user.
    pub consent: Consent,
    /// Number whose SIM the wallet offers first.
    pub hinted_number: Option<PhoneNumber>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consent {
    #[serde(rename = "consent_text")]
    pub text: String,
    pub policy_link: String,
    pub policy_text: String,
}

impl CredentialRequest {
    pub(super) fn read(protocol: &str, data: &Value, now: i64) -> Result<Self, InvalidRequest> {
        let invalid = |pointer, problem| InvalidRequest { pointer, problem };
        require(protocol == PROTOCOL, "/protocol", "must be `openid4vp-v1-unsigned`")?;
        require(data["response_type"] == "vp_token", "/data/response_type", "must be `vp_token`")?;
        require(data["response_mode"] == "dc_api", "/data/response_mode", "must be `dc_api`")?;
        let nonce = data["nonce"].as_str().filter(|nonce| !nonce.is_empty());
        let nonce = nonce.ok_or(invalid("/data/nonce", "must be a non-empty string"))?;
        let credentials = data["dcql_query"]["credentials"].as_array().map(Vec::as_slice);
        let Some([credential]) = credentials else {
            return Err(invalid(CREDENTIALS_POINTER, "must be an array with one credential"));
        };
        let id = credential["id"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or(invalid("/data/dcql_query/credentials/0/id", "must be a non-empty string"))?;
        require(
            credential["format"] == FORMAT,
            "/data/dcql_query/credentials/0/format",
            "must be `dc-authorization+sd-jwt`",
        )?;
        let requested_types = credential["meta"]["vct_values"].as_array().into_iter().flatten();
        let credential_type = requested_types.filter_map(Value::as_str).find(|name| CREDENTIAL_TYPES.contains(name));
        let credential_type = credential_type.ok_or(invalid(
            "/data/dcql_query/credentials/0/meta/vct_values",
            "must contain `number-verification/verify/ts43` or `number-verification/device-phone-number/ts43`",
        ))?;
        let authorization = credential["meta"]["credential_authorization_jwt"].as_str();
        let authorization = authorization.ok_or(invalid(AUTHORIZATION_POINTER, "must be a string"))?;
        let claims =
            verify_authorization(authorization, now).map_err(|problem| invalid(AUTHORIZATION_POINTER, problem))?;
        let authorized = Authorized::read(&claims, nonce).map_err(|problem| invalid(AUTHORIZATION_POINTER, problem))?;
        Ok(CredentialRequest {
            id: id.to_owned(),
            credential_type: credential_type.to_owned(),
            nonce: nonce.to_owned(),
            state: claims["state"].as_str().map(str::to_owned),
            consent_data: authorized.consent_data.to_owned(),
            encryption_key: authorized.encryption_key,
            consent: authorized.consent,
            hinted_number: hinted_number(&credential["claims"]),
        })
    }
}

fn require(condition: bool, pointer: &'static str, problem: &'static str) -> Result<(), InvalidRequest> {
    if condition { Ok(()) } else { Err(InvalidRequest { pointer, problem }) }
}

/// Verifies the signature of the authorization by its certificates, and returns its claims.
fn verify_authorization(token: &str, now: i64) -> Result<Value, &'static str> {
    let TokenData { header, claims } = insecure_decode::<Value>(token).map_err(|_| "must be a JWT")?;
    if header.alg != Algorithm::ES256 || header.typ.as_deref() != Some(AUTHORIZATION_TYPE) || header.crit.is_some() {
        return Err("the header must have `alg` ES256 and `typ` oauth-authz-req+jwt");
    }
    let key = verify_chain(header.x5c.as_deref().unwrap_or_default(), now)?;
    let is_signed = token.rsplit_once('.').is_some_and(|(message, signature)| {
        crypto::verify(signature, message.as_bytes(), &DecodingKey::from_ec_der(&key), Algorithm::ES256)
            .unwrap_or(false)
    });
    if is_signed { Ok(claims) } else { Err("the signature does not match the leaf certificate") }
}

/// What the authorization adds to the request.
struct Authorized<'a> {
    consent_data: &'a str,
    consent: Consent,
    encryption_key: EncryptionKey,
}

impl<'a> Authorized<'a> {
    fn read(claims: &'a Value, nonce: &str) -> Result<Self, &'static str> {
        if !claims["iss"].is_string() {
            return Err("iss is missing");
        }
        if claims["nonce"] != nonce {
            return Err("nonce differs from the nonce of the request");
        }
        let encryptions = &claims["encrypted_response_enc_values_supported"];
        if !encryptions.as_array().is_some_and(|values| values.iter().any(|value| value == CONTENT_ENCRYPTION)) {
            return Err("encrypted_response_enc_values_supported must contain A128GCM");
        }
        let encryption_key = claims["jwks"]["keys"].as_array().into_iter().flatten().find_map(EncryptionKey::parse);
        let encryption_key = encryption_key.ok_or("jwks must contain a P-256 key with `use` enc and `alg` ECDH-ES")?;
        let consent_data = claims["consent_data"].as_str().ok_or("consent_data is missing")?;
        let consent = BASE64_URL_SAFE_NO_PAD.decode(consent_data).ok();
        let consent = consent.and_then(|json| serde_json::from_slice(&json).ok());
        let consent =
            consent.ok_or("consent_data must be base64url JSON with consent_text, policy_link and policy_text")?;
        Ok(Authorized { consent_data, consent, encryption_key })
    }
}

/// Returns the number of the claim `phone_number_hint`. Other claims, and hints that are no number, are ignored: hints
/// only order the SIMs.
fn hinted_number(claims: &Value) -> Option<PhoneNumber> {
    let claims = claims.as_array()?;
    let hint =
        claims.iter().find(|claim| claim["path"].as_array().is_some_and(|path| path == &["phone_number_hint"]))?;
    hint["values"][0].as_str()?.parse().ok()
}
