//! Secrets of silent checks: tokens that are derived or stored as hashes, and encrypted session data.
//!
//! Every value is bound to its check and its purpose. The purpose strings and JSON keys must not change, because stored
//! values could then no longer be verified or read.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode, Sealed},
    phone::Msisdn,
    silent::SilentWay,
    tenancy::Mode,
    web_url::RedirectUrl,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::SilentFlow;
use crate::{
    context::Context,
    ports::{
        hashes::{BrowserHash, TokenHash},
        silent::{AuthenticatedDevice, SilentResult},
        store::StoreError,
    },
};

/// Input of a silent check. It is stored encrypted until the check is concluded.
pub(crate) struct SilentCheckInput {
    /// The number to verify. `None`: Discovery finds it, or a client of CAMARA's APIs names it later.
    pub number: Option<Msisdn>,
    /// The `device_ip` of the create request. `None`: the client did not send it.
    pub expected_address: Option<IpAddr>,
}

/// Random key in a browser's cookie. A redirect that began at the hosted page can be finished only by a browser with
/// the same key.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("BrowserKey(…)")]
pub struct BrowserKey(String);

impl BrowserKey {
    /// Length of a key: 16 random bytes and a 16-byte MAC.
    pub(crate) const BYTES: usize = 32;
    const CHARS: usize = 43;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        BrowserKey(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Accepts any text that has the length and alphabet of a key, without verifying its MAC.
    pub fn parse(text: &str) -> Option<Self> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (text.len() == Self::CHARS && text.bytes().all(is_base64url)).then(|| BrowserKey(text.to_owned()))
    }

    pub(crate) fn bytes(&self) -> Option<[u8; Self::BYTES]> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.0).ok()?.try_into().ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A device's redirect to its operator. It is stored encrypted until the device returns.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingRedirect {
    pub connector: String,
    /// The device's address when it was redirected.
    pub initial_ip: IpAddr,
    /// Data that only the connector reads when the device returns, encoded as base64url.
    connector_data: String,
    /// The operator's answer for a device that returned over plain HTTP, kept until the device returns over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<OperatorAnswer>,
    /// Whether the browser can ask the phone's wallet.
    pub has_wallet: bool,
}

impl PendingRedirect {
    pub(super) fn new(connector: &str, initial_ip: IpAddr, connector_data: &[u8], has_wallet: bool) -> Self {
        PendingRedirect {
            connector: connector.to_owned(),
            initial_ip,
            connector_data: BASE64_URL_SAFE_NO_PAD.encode(connector_data),
            answer: None,
            has_wallet,
        }
    }

    pub(super) fn connector_data(&self) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.connector_data).unwrap_or_default()
    }
}

/// JSON form of [`SilentCheckInput`].
#[derive(Serialize, Deserialize)]
struct SilentCheckInputJson {
    number: Option<String>,
    expected_address: Option<IpAddr>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OperatorAnswer {
    Match(bool),
    Number(String),
    /// `data` is encoded as base64url.
    Device {
        connector: String,
        data: String,
    },
    Error(String),
}

impl OperatorAnswer {
    pub(super) fn new(answer: &Result<SilentResult, ErrorCode>) -> Self {
        match answer {
            Ok(SilentResult::Match(matched)) => OperatorAnswer::Match(*matched),
            Ok(SilentResult::Number(number)) => OperatorAnswer::Number(number.as_str().to_owned()),
            Ok(SilentResult::Device(AuthenticatedDevice { connector, data })) => {
                OperatorAnswer::Device { connector: connector.clone(), data: BASE64_URL_SAFE_NO_PAD.encode(data) }
            }
            Err(code) => OperatorAnswer::Error(code.into_str().to_owned()),
        }
    }

    /// Decodes the stored answer. `None`: the stored data is corrupt.
    pub(super) fn read(&self, mode: Mode) -> Option<Result<SilentResult, ErrorCode>> {
        match self {
            OperatorAnswer::Match(matched) => Some(Ok(SilentResult::Match(*matched))),
            OperatorAnswer::Number(number) => Some(Ok(SilentResult::Number(Msisdn::parse(number, mode).ok()?))),
            OperatorAnswer::Device { connector, data } => Some(Ok(SilentResult::Device(AuthenticatedDevice {
                connector: connector.clone(),
                data: BASE64_URL_SAFE_NO_PAD.decode(data).ok()?,
            }))),
            OperatorAnswer::Error(code) => Some(Err(code.parse().ok()?)),
        }
    }
}

/// The operator's verdict. It is stored encrypted until the redirect code is redeemed.
#[derive(Serialize, Deserialize)]
pub(super) struct SealedAnswer {
    pub answer: OperatorAnswer,
    /// Name of the [`SilentWay`] that led to the answer.
    way: String,
    /// `None`: the redirect did not begin at the hosted page.
    #[serde(default, rename = "page_return", skip_serializing_if = "Option::is_none")]
    pub repeatable_redirect: Option<RepeatableRedirect>,
}

/// The one-time code that a browser takes to the client's redirect URL, kept so that the hosted page can redirect the
/// browser there a second time if it never arrived, for example because its connection was lost. Only the browser that
/// began the redirect gets the code.
#[derive(Clone, Serialize, Deserialize, derive_more::Debug)]
#[debug("RepeatableRedirect")]
pub(crate) struct RepeatableRedirect {
    pub code: String,
    browser: BrowserHash,
}

/// The contents of a `state`: the check's id, 16 random bytes, the hash of the browser's key if the redirect began at
/// the hosted page, and a 16-byte MAC.
///
/// Because the hash is in the `state`, the return of another browser is rejected without a database query, and before
/// the `state` is consumed.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("RedirectState({check})")]
pub(super) struct RedirectState {
    pub check: CheckId,
    pub browser: Option<BrowserHash>,
}

const STATE_MAC_BYTES: usize = 16;
const STATE_BYTES: usize = 16 + 16 + STATE_MAC_BYTES;
const PAGE_STATE_BYTES: usize = STATE_BYTES + BrowserHash::BYTES;
const DEVICE_TOKEN_BYTES: usize = 16;
/// Maximum age of a check for which a `state` is accepted, in seconds. It is longer than a check's lifetime, so that a
/// device that returns late still gets the check's outcome.
const STATE_LIFETIME_SECONDS: i64 = 900;

impl SilentFlow {
    /// Verifies the token in a check's device URL. Does not verify that the check exists.
    pub fn is_device_token(&self, check: CheckId, token: &str) -> bool {
        let given = BASE64_URL_SAFE_NO_PAD.decode(token).ok().filter(|given| given.len() == DEVICE_TOKEN_BYTES);
        given.is_some_and(|given| self.context.is_derived_token(&[b"device-url", check.0.as_bytes()], &given))
    }

    /// Generates a `state` and its hash.
    pub(super) fn generate_state(&self, state: RedirectState) -> Result<(String, TokenHash), StoreError> {
        let text = self.encode_state(state)?;
        let hash = self.state_hash(state.check, &text)?;
        Ok((text, hash))
    }

    /// Generates a handle and its hash. A handle has the form of a `state`. A device gets it when it returns over plain
    /// HTTP, and then presents it over TLS.
    pub(super) fn generate_handle(&self, state: RedirectState) -> Result<(String, TokenHash), StoreError> {
        let text = self.encode_state(state)?;
        let hash = self.handle_hash(state.check, &text)?;
        Ok((text, hash))
    }

    fn encode_state(&self, RedirectState { check, browser }: RedirectState) -> Result<String, StoreError> {
        let random: [u8; 16] = self.context.entropy.bytes();
        let browser = browser.as_ref().map_or(&[][..], |BrowserHash(hash)| hash);
        let body = [check.0.as_bytes().as_slice(), &random, browser].concat();
        let mac = self.context.derive_token(&[b"state-mac", &body])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode([&body, &mac[..STATE_MAC_BYTES]].concat()))
    }

    /// Verifies the MAC and age of a `state`, but not whether it was already consumed, which only the store knows.
    pub(super) fn parse_state(&self, state: &str) -> Option<RedirectState> {
        let is_length_of_state = |bytes: &Vec<u8>| [STATE_BYTES, PAGE_STATE_BYTES].contains(&bytes.len());
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).ok().filter(is_length_of_state)?;
        let (body, mac) = bytes.split_at(bytes.len() - STATE_MAC_BYTES);
        if !self.context.is_derived_token(&[b"state-mac", body], mac) {
            return None;
        }
        let id = Uuid::from_slice(&body[..16]).ok().filter(|id| self.is_recent(*id))?;
        let browser = <[u8; BrowserHash::BYTES]>::try_from(&body[32..]).ok().map(BrowserHash);
        Some(RedirectState { check: CheckId(id), browser })
    }

    pub(crate) fn browser_hash(&self, check: CheckId, key: &BrowserKey) -> Result<BrowserHash, StoreError> {
        let TokenHash([hash @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _]) =
            self.token_hash(b"browser", check, key.as_str())?;
        Ok(BrowserHash(hash))
    }

    /// Whether the request comes from the browser that began the redirect: one of `keys`, from the request's cookies,
    /// has the hash `browser`.
    pub(crate) fn is_initiating_browser(
        &self,
        check: CheckId,
        browser: BrowserHash,
        keys: &[BrowserKey],
    ) -> Result<bool, StoreError> {
        for key in keys {
            if verify_slices_are_equal(&self.browser_hash(check, key)?.0, &browser.0).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a check is recent enough for its `state` to be accepted. Older checks are rejected without a database
    /// query.
    fn is_recent(&self, check: Uuid) -> bool {
        let created = check.get_timestamp().and_then(|created| i64::try_from(created.to_unix().0).ok());
        created.is_some_and(|created| self.context.now().as_second() - created <= STATE_LIFETIME_SECONDS)
    }

    /// Generates a redirect code and its hash.
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

    pub(super) fn handle_hash(&self, check: CheckId, handle: &str) -> Result<TokenHash, StoreError> {
        self.token_hash(b"handle", check, handle)
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
        let note: SilentCheckInputJson = self.unseal_json("silent-input", check, sealed)?;
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

    /// Encrypts the operator's verdict. If the redirect began at the hosted page, the encrypted data also contains the
    /// redirect code and the hash of the browser that may see it.
    pub(super) fn seal_result(
        &self,
        RedirectState { check, browser }: RedirectState,
        result: &SilentResult,
        way: SilentWay,
        code: &str,
    ) -> Result<Sealed, StoreError> {
        let repeatable_redirect = browser.map(|browser| RepeatableRedirect { code: code.to_owned(), browser });
        let answer = OperatorAnswer::new(&Ok(result.clone()));
        let sealed = SealedAnswer { answer, way: way.into_str().to_owned(), repeatable_redirect };
        seal_json(&self.context, "silent-result", check, &sealed)
    }

    pub(super) fn unseal_result(
        &self,
        check: CheckId,
        mode: Mode,
        sealed: &Sealed,
    ) -> Result<(SilentResult, SilentWay), StoreError> {
        let SealedAnswer { answer, way, .. } = self.unseal_json("silent-result", check, sealed)?;
        let result = answer.read(mode).and_then(Result::ok).ok_or_else(|| corrupt_session_error(check))?;
        Ok((result, way.parse().map_err(|_| corrupt_session_error(check))?))
    }

    /// Returns the redirect code if one of `keys` belongs to the browser that began the redirect at the hosted page.
    /// `None`: none of the keys does, or the redirect did not begin at the hosted page.
    pub(crate) fn unseal_repeatable_redirect(
        &self,
        check: CheckId,
        sealed: &Sealed,
        keys: &[BrowserKey],
    ) -> Result<Option<RepeatableRedirect>, StoreError> {
        let SealedAnswer { repeatable_redirect, .. } = self.unseal_json("silent-result", check, sealed)?;
        let Some(redirect) = repeatable_redirect else { return Ok(None) };
        let is_initiating_browser = self.is_initiating_browser(check, redirect.browser, keys)?;
        Ok(Some(redirect).filter(|_| is_initiating_browser))
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

/// Returns the token in the URL that a check's device opens. Its 128 bits are derived from the check's id with the link
/// key, so they need not be stored.
pub(super) fn device_token(context: &Context, check: CheckId) -> Result<String, StoreError> {
    let hash = context.derive_token(&[b"device-url", check.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..DEVICE_TOKEN_BYTES]))
}

pub(crate) fn seal_input(context: &Context, check: CheckId, input: &SilentCheckInput) -> Result<Sealed, StoreError> {
    let number = input.number.as_ref().map(|number| number.as_str().to_owned());
    seal_json(
        context,
        "silent-input",
        check,
        &SilentCheckInputJson { number, expected_address: input.expected_address },
    )
}

pub(crate) fn seal_redirect_url(context: &Context, check: CheckId, url: &RedirectUrl) -> Result<Sealed, StoreError> {
    context.seal_for_check("redirect-url", check, url.as_str().as_bytes())
}

/// Decrypts a redirect URL. `None`: the URL can no longer be decrypted or parsed.
pub(crate) fn unseal_redirect_url(context: &Context, check: CheckId, sealed: &Sealed) -> Option<RedirectUrl> {
    let text = String::from_utf8(context.unseal_for_check("redirect-url", check, sealed)?).ok()?;
    RedirectUrl::from_stored(&text).ok()
}

fn seal_json<T: Serialize>(context: &Context, purpose: &str, check: CheckId, note: &T) -> Result<Sealed, StoreError> {
    let plain = serde_json::to_vec(note).map_err(|_| corrupt_session_error(check))?;
    context.seal_for_check(purpose, check, &plain)
}

pub(super) fn corrupt_session_error(check: CheckId) -> StoreError {
    StoreError::CorruptRow {
        table: "redirect_sessions",
        row: check.to_string(),
        problem: "sealed data cannot be unsealed or parsed".to_owned(),
    }
}
