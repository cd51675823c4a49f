//! Secrets of silent checks: derived and hashed tokens, and sealed session data.
//!
//! Every value is bound to its check and its purpose. Purposes and JSON keys are part of stored data.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    phone::Msisdn,
    tenancy::Mode,
    web_url::RedirectUrl,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::SilentFlow;
use crate::{
    context::Context,
    ports::{SilentResult, StoreError, TokenHash},
};

/// Input of a silent check, sealed until the device opens the check's URL.
pub(crate) struct SilentCheckInput {
    /// `None` for Discovery.
    pub number: Option<Msisdn>,
    /// The `device_ip` of the create request.
    pub expected_address: Option<IpAddr>,
}

/// A device's redirect to its operator, sealed until it returns.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingRedirect {
    pub connector: String,
    /// The device's address when it was redirected.
    pub initial_ip: IpAddr,
    /// Opaque data of the connector, base64url.
    connector_data: String,
    /// Whether the redirect began at the hosted page of a verification, to which the device returns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub began_at_page: bool,
}

impl PendingRedirect {
    pub(super) fn new(connector: &str, initial_ip: IpAddr, connector_data: &[u8], began_at_page: bool) -> Self {
        PendingRedirect {
            connector: connector.to_owned(),
            initial_ip,
            connector_data: BASE64_URL_SAFE_NO_PAD.encode(connector_data),
            began_at_page,
        }
    }

    pub(super) fn connector_data(&self) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.connector_data).unwrap_or_default()
    }
}

/// JSON form of [`SilentCheckInput`].
#[derive(Serialize, Deserialize)]
struct SealedInput {
    number: Option<String>,
    expected_address: Option<IpAddr>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SealedSilentResult {
    Match(bool),
    Number(String),
}

/// A `state` is the check's id, 16 random bytes and a 16-byte MAC.
const STATE_BYTES: usize = 48;
/// Age of the check up to which a late return still gets the check's outcome.
const STATE_LIFETIME_SECONDS: i64 = 900;

impl SilentFlow {
    /// Verifies the token in a check's URL, without checking that the check exists.
    pub fn is_device_token(&self, check: CheckId, token: &str) -> Result<bool, StoreError> {
        let right = device_token(&self.context, check)?;
        Ok(verify_slices_are_equal(right.as_bytes(), token.as_bytes()).is_ok())
    }

    /// A new `state` and its hash.
    pub(super) fn generate_state(&self, check: CheckId) -> Result<(String, TokenHash), StoreError> {
        let random: [u8; 16] = self.context.entropy.bytes();
        let body = [check.0.as_bytes().as_slice(), &random].concat();
        let mac = self.context.keyed_hash(&[b"state-mac", &body])?;
        let state = BASE64_URL_SAFE_NO_PAD.encode([&body, &mac[..16]].concat());
        let hash = self.token_hash(b"state", check, &state)?;
        Ok((state, hash))
    }

    /// Verifies the MAC and age of a `state` and returns its check. Only the store decides whether it is still usable.
    pub(super) fn check_of_state(&self, state: &str) -> Result<Option<CheckId>, StoreError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).ok().filter(|bytes| bytes.len() == STATE_BYTES);
        let Some(bytes) = bytes else { return Ok(None) };
        let (body, mac) = bytes.split_at(STATE_BYTES - 16);
        let right = self.context.keyed_hash(&[b"state-mac", body])?;
        let is_ours = verify_slices_are_equal(&right[..16], mac).is_ok();
        let id = Uuid::from_slice(&body[..16]).ok().filter(|_| is_ours);
        Ok(id.filter(|id| self.is_recent(*id)).map(CheckId))
    }

    /// Saves a store query for checks that are too old.
    fn is_recent(&self, check: Uuid) -> bool {
        let created = check.get_timestamp().and_then(|created| i64::try_from(created.to_unix().0).ok());
        created.is_some_and(|created| self.context.now().as_second() - created <= STATE_LIFETIME_SECONDS)
    }

    /// A new redirect code and its hash.
    pub(super) fn generate_redirect_code(&self, check: CheckId) -> Result<(String, TokenHash), StoreError> {
        let code = BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<32>());
        let hash = self.redirect_code_hash(check, &code)?;
        Ok((code, hash))
    }

    pub(crate) fn redirect_code_hash(&self, check: CheckId, code: &str) -> Result<TokenHash, StoreError> {
        self.token_hash(b"redirect-code", check, code)
    }

    pub(super) fn state_hash(&self, check: CheckId, state: &str) -> Result<TokenHash, StoreError> {
        self.token_hash(b"state", check, state)
    }

    fn token_hash(&self, kind: &[u8], check: CheckId, token: &str) -> Result<TokenHash, StoreError> {
        self.context.keyed_hash(&[kind, check.0.as_bytes(), token.as_bytes()]).map(TokenHash)
    }

    pub(super) fn unseal_input(
        &self,
        check: CheckId,
        mode: Mode,
        sealed: &Sealed,
    ) -> Result<SilentCheckInput, StoreError> {
        let note: SealedInput = self.unseal_json("silent-input", check, sealed)?;
        let number = note.number.map(|number| Msisdn::parse(&number, mode)).transpose();
        Ok(SilentCheckInput {
            number: number.map_err(|_| corrupt_session_error(check))?,
            expected_address: note.expected_address,
        })
    }

    pub(super) fn seal_pending_redirect(
        &self,
        check: CheckId,
        redirect: &PendingRedirect,
    ) -> Result<Sealed, StoreError> {
        seal_json(&self.context, "pending-redirect", check, redirect)
    }

    pub(super) fn unseal_pending_redirect(
        &self,
        check: CheckId,
        sealed: &Sealed,
    ) -> Result<PendingRedirect, StoreError> {
        self.unseal_json("pending-redirect", check, sealed)
    }

    pub(super) fn seal_result(&self, check: CheckId, reply: &SilentResult) -> Result<Sealed, StoreError> {
        let note = match reply {
            SilentResult::Match(matched) => SealedSilentResult::Match(*matched),
            SilentResult::Number(number) => SealedSilentResult::Number(number.as_str().to_owned()),
        };
        seal_json(&self.context, "silent-result", check, &note)
    }

    pub(super) fn unseal_result(
        &self,
        check: CheckId,
        mode: Mode,
        sealed: &Sealed,
    ) -> Result<SilentResult, StoreError> {
        match self.unseal_json("silent-result", check, sealed)? {
            SealedSilentResult::Match(matched) => Ok(SilentResult::Match(matched)),
            SealedSilentResult::Number(number) => {
                Msisdn::parse(&number, mode).map(SilentResult::Number).map_err(|_| corrupt_session_error(check))
            }
        }
    }

    pub(super) fn seal_number(&self, check: CheckId, number: &Msisdn) -> Result<Sealed, StoreError> {
        self.context.seal_for_check("number", check, number.as_str().as_bytes())
    }

    fn unseal_json<T: DeserializeOwned>(
        &self,
        purpose: &str,
        check: CheckId,
        sealed: &Sealed,
    ) -> Result<T, StoreError> {
        let plain =
            self.context.unseal_for_check(purpose, check, sealed).ok_or_else(|| corrupt_session_error(check))?;
        serde_json::from_slice(&plain).map_err(|_| corrupt_session_error(check))
    }
}

/// Token in a check's URL: 128 bits derived from the check's id by the hash key; not stored.
pub(super) fn device_token(context: &Context, check: CheckId) -> Result<String, StoreError> {
    let hash = context.keyed_hash(&[b"device-url", check.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..16]))
}

pub(crate) fn seal_input(context: &Context, check: CheckId, input: &SilentCheckInput) -> Result<Sealed, StoreError> {
    let number = input.number.as_ref().map(|number| number.as_str().to_owned());
    seal_json(context, "silent-input", check, &SealedInput { number, expected_address: input.expected_address })
}

pub(crate) fn seal_redirect_url(context: &Context, check: CheckId, url: &RedirectUrl) -> Result<Sealed, StoreError> {
    context.seal_for_check("redirect-url", check, url.as_str().as_bytes())
}

/// `None`: the URL can no longer be unsealed.
pub(crate) fn unseal_redirect_url(context: &Context, check: CheckId, sealed: &Sealed) -> Option<RedirectUrl> {
    let text = String::from_utf8(context.unseal_for_check("redirect-url", check, sealed)?).ok()?;
    RedirectUrl::from_stored(&text).ok()
}

fn seal_json<T: Serialize>(context: &Context, purpose: &str, check: CheckId, note: &T) -> Result<Sealed, StoreError> {
    let plain = serde_json::to_vec(note).map_err(|_| corrupt_session_error(check))?;
    context.seal_for_check(purpose, check, &plain)
}

fn corrupt_session_error(check: CheckId) -> StoreError {
    StoreError::CorruptRow {
        table: "redirect_sessions",
        row: check.to_string(),
        problem: "sealed data cannot be unsealed or parsed".to_owned(),
    }
}
