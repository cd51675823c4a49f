//! Vonage signatures.
//!
//! `sig` covers all other fields, sorted by name, each as `&name=value` with `&` and `=` in the value replaced by `_`.
//! MD5 is broken, and the oldest method is a plain MD5 with the secret appended; they are supported because existing
//! accounts use them. New accounts should use SHA-256.

use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, header::AUTHORIZATION};
use md5::{Digest as _, Md5};
use serde::{Deserialize, de::DeserializeOwned};

use super::super::{
    request::{Fields, VendorRequest},
    secret::{Secret, constant_time_eq, decode_hex, sha256},
    vendor::{InvalidSignature, VerifiedSignature},
};

/// Signature scheme, with the account's signature secret.
#[derive(Clone, Debug)]
pub enum VonageSignature {
    /// The SMS API's `sig`.
    Sig { method: SigMethod, secret: Secret },
    /// The Messages API's bearer token.
    Bearer(Secret),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigMethod {
    Md5Hash,
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha512,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
}

#[derive(Deserialize)]
struct Claims {
    iat: i64,
    jti: String,
    payload_hash: String,
}

impl VonageSignature {
    pub(super) fn verify(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        match self {
            VonageSignature::Sig { method, secret } => {
                verify_sig(*method, secret, &request.fields().map_err(|_| InvalidSignature)?)
            }
            VonageSignature::Bearer(secret) => verify_bearer(secret, request),
        }
    }
}

fn verify_sig(method: SigMethod, secret: &Secret, fields: &Fields<'_>) -> Result<VerifiedSignature, InvalidSignature> {
    let sig = fields.text("sig").ok_or(InvalidSignature)?;
    let tag = decode_hex(sig).ok_or(InvalidSignature)?;
    let signed_data = signed_data(fields);
    let is_signed = match method {
        SigMethod::Md5Hash => constant_time_eq(&Md5::digest([&signed_data, secret.octets()].concat()), &tag),
        SigMethod::HmacMd5 => {
            let mac = Hmac::<Md5>::new_from_slice(secret.octets()).map_err(|_| InvalidSignature)?;
            mac.chain_update(&signed_data).verify_slice(&tag).is_ok()
        }
        SigMethod::HmacSha1 => secret.verify_hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &signed_data, &tag),
        SigMethod::HmacSha256 => secret.verify_hmac(HMAC_SHA256, &signed_data, &tag),
        SigMethod::HmacSha512 => secret.verify_hmac(HMAC_SHA512, &signed_data, &tag),
    };
    if !is_signed {
        return Err(InvalidSignature);
    }
    let timestamp = fields.text("timestamp").ok_or(InvalidSignature)?;
    Ok(VerifiedSignature::signed_at_second(timestamp)?.with_nonce(fields.text("nonce").unwrap_or(sig)))
}

fn signed_data(fields: &Fields<'_>) -> Vec<u8> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().filter(|(name, _)| *name != "sig").collect();
    pairs.sort_unstable();
    let mut data = vec![];
    for (name, value) in pairs {
        data.push(b'&');
        data.extend(name.as_bytes());
        data.push(b'=');
        data.extend(value.iter().map(|byte| if b"&=".contains(byte) { b'_' } else { *byte }));
    }
    data
}

/// An HS256 token whose `payload_hash` covers the body. It does not cover the query, so only JSON POSTs are accepted.
fn verify_bearer(secret: &Secret, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
    if request.method != Method::POST || !request.is_json() {
        return Err(InvalidSignature);
    }
    let authorization = request.header(AUTHORIZATION).ok_or(InvalidSignature)?;
    let (scheme, token) = authorization.split_once(' ').ok_or(InvalidSignature)?;
    let (signed_data, tag) = token.rsplit_once('.').ok_or(InvalidSignature)?;
    let (header, claims) = signed_data.split_once('.').ok_or(InvalidSignature)?;
    let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| InvalidSignature)?;
    if !scheme.eq_ignore_ascii_case("bearer") || !secret.verify_hmac(HMAC_SHA256, signed_data.as_bytes(), &tag) {
        return Err(InvalidSignature);
    }
    let Header { alg } = decode_jwt_part(header)?;
    let Claims { iat, jti, payload_hash } = decode_jwt_part(claims)?;
    let body_is_covered = decode_hex(&payload_hash).is_some_and(|hash| constant_time_eq(&hash, &sha256(request.body)));
    if alg != "HS256" || !body_is_covered {
        return Err(InvalidSignature);
    }
    Ok(VerifiedSignature::signed_at_second(&iat.to_string())?.with_nonce(&jti))
}

fn decode_jwt_part<T: DeserializeOwned>(part: &str) -> Result<T, InvalidSignature> {
    let octets = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidSignature)?;
    serde_json::from_slice(&octets).map_err(|_| InvalidSignature)
}
