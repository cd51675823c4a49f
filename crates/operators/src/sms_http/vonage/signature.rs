//! How Vonage signs.
//!
//! `sig` is made of all other fields, sorted by name, each as `&name=value` with every `&` and `=` of the value
//! replaced by `_`. MD5 is broken as a hash, and the oldest of these methods is a plain MD5 with the secret behind the
//! text; they are here because accounts have them. Whoever can choose, chooses SHA-256.

use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, header::AUTHORIZATION};
use md5::{Digest as _, Md5};
use serde::{Deserialize, de::DeserializeOwned};

use super::super::{
    request::{Fields, Request},
    secret::{Secret, hex, same, sha256},
    vendor::{Forged, Proof},
};

/// The scheme, with the signature secret of the account.
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
    pub(super) fn check(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        match self {
            VonageSignature::Sig { method, secret } => sig(*method, secret, &request.fields().map_err(|_| Forged)?),
            VonageSignature::Bearer(secret) => bearer(secret, request),
        }
    }
}

fn sig(method: SigMethod, secret: &Secret, fields: &Fields<'_>) -> Result<Proof, Forged> {
    let sig = fields.text("sig").ok_or(Forged)?;
    let tag = hex(sig).ok_or(Forged)?;
    let signed = signed(fields);
    let is_signed = match method {
        SigMethod::Md5Hash => same(&Md5::digest([&signed, secret.octets()].concat()), &tag),
        SigMethod::HmacMd5 => {
            let mac = Hmac::<Md5>::new_from_slice(secret.octets()).map_err(|_| Forged)?;
            mac.chain_update(&signed).verify_slice(&tag).is_ok()
        }
        SigMethod::HmacSha1 => secret.signed(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &signed, &tag),
        SigMethod::HmacSha256 => secret.signed(HMAC_SHA256, &signed, &tag),
        SigMethod::HmacSha512 => secret.signed(HMAC_SHA512, &signed, &tag),
    };
    if !is_signed {
        return Err(Forged);
    }
    let timestamp = fields.text("timestamp").ok_or(Forged)?;
    Ok(Proof::at(timestamp)?.once(fields.text("nonce").unwrap_or(sig)))
}

fn signed(fields: &Fields<'_>) -> Vec<u8> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().filter(|(name, _)| *name != "sig").collect();
    pairs.sort_unstable();
    let mut signed = vec![];
    for (name, value) in pairs {
        signed.push(b'&');
        signed.extend(name.as_bytes());
        signed.push(b'=');
        signed.extend(value.iter().map(|byte| if b"&=".contains(byte) { b'_' } else { *byte }));
    }
    signed
}

/// An HS256 token whose `payload_hash` is the body's. It vouches for nothing else: a message in the query, which other
/// schemes of this vendor allow, would be anybody's.
fn bearer(secret: &Secret, request: &Request<'_>) -> Result<Proof, Forged> {
    if request.method != Method::POST || !request.is_json() {
        return Err(Forged);
    }
    let authorization = request.header(AUTHORIZATION).ok_or(Forged)?;
    let (scheme, token) = authorization.split_once(' ').ok_or(Forged)?;
    let (signed, tag) = token.rsplit_once('.').ok_or(Forged)?;
    let (header, claims) = signed.split_once('.').ok_or(Forged)?;
    let tag = BASE64_URL_SAFE_NO_PAD.decode(tag).map_err(|_| Forged)?;
    if !scheme.eq_ignore_ascii_case("bearer") || !secret.signed(HMAC_SHA256, signed.as_bytes(), &tag) {
        return Err(Forged);
    }
    let Header { alg } = json(header)?;
    let Claims { iat, jti, payload_hash } = json(claims)?;
    let body_is_covered = hex(&payload_hash).is_some_and(|hash| same(&hash, &sha256(request.body)));
    if alg != "HS256" || !body_is_covered {
        return Err(Forged);
    }
    Ok(Proof::at(&iat.to_string())?.once(&jti))
}

fn json<T: DeserializeOwned>(part: &str) -> Result<T, Forged> {
    let octets = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Forged)?;
    serde_json::from_slice(&octets).map_err(|_| Forged)
}
