//! Seals (encrypts and authenticates) the URL, body and attempt log of callbacks for the store.
//!
//! The name of the field and the id of the check are authenticated with each value, so that a value cannot be moved to
//! another row or field. Sealing returns `None` without an active seal key. Unsealing returns `None` if the key is
//! missing or the bytes were altered.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    web_url::CallbackUrl,
};

use super::Exchange;
use crate::{
    context::{Context, missing_seal_key},
    keys::KeyRing,
    ports::{entropy::Entropy, store::StoreError},
};

/// Seals the callback URL of a new check with the current keys. Fails without an active seal key.
pub(crate) fn seal_callback_url(context: &Context, check: CheckId, url: &CallbackUrl) -> Result<Sealed, StoreError> {
    seal_url(&context.keys(), &*context.entropy, context.now(), check, url).ok_or_else(missing_seal_key)
}

pub fn seal_url(
    keys: &KeyRing,
    entropy: &dyn Entropy,
    now: Timestamp,
    check: CheckId,
    url: &CallbackUrl,
) -> Option<Sealed> {
    keys.seal(entropy, &seal_context("callback-url", check), url.as_str().as_bytes(), now).map(Sealed)
}

pub fn unseal_url(keys: &KeyRing, check: CheckId, sealed: &Sealed) -> Option<CallbackUrl> {
    let text = String::from_utf8(keys.unseal(&seal_context("callback-url", check), &sealed.0)?).ok()?;
    CallbackUrl::from_stored(&text).ok()
}

pub fn seal_body(keys: &KeyRing, entropy: &dyn Entropy, now: Timestamp, check: CheckId, body: &[u8]) -> Option<Sealed> {
    keys.seal(entropy, &seal_context("callback-body", check), body, now).map(Sealed)
}

pub fn unseal_body(keys: &KeyRing, check: CheckId, sealed: &Sealed) -> Option<Vec<u8>> {
    keys.unseal(&seal_context("callback-body", check), &sealed.0)
}

pub fn seal_exchange(
    keys: &KeyRing,
    entropy: &dyn Entropy,
    now: Timestamp,
    check: CheckId,
    exchange: &Exchange,
) -> Option<Sealed> {
    let plain = serde_json::to_vec(exchange).ok()?;
    keys.seal(entropy, &seal_context("callback-exchange", check), &plain, now).map(Sealed)
}

pub fn unseal_exchange(keys: &KeyRing, check: CheckId, sealed: &Sealed) -> Option<Exchange> {
    serde_json::from_slice(&keys.unseal(&seal_context("callback-exchange", check), &sealed.0)?).ok()
}

fn seal_context(field: &str, check: CheckId) -> Vec<u8> {
    format!("{field}:{check}").into_bytes()
}
