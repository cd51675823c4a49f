//! Secrets of silent checks: derived and hashed tokens, and sealed session data.
//!
//! Every value is bound to its check and its purpose. Purposes and JSON keys are part of stored data.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode, Sealed},
    phone::Msisdn,
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
        silent::SilentResult,
        store::StoreError,
    },
};

/// Input of a silent check, sealed until the device opens the check's URL.
pub(crate) struct SilentCheckInput {
    /// `None` for Discovery.
    pub number: Option<Msisdn>,
    /// The `device_ip` of the create request.
    pub expected_address: Option<IpAddr>,
}

/// Key in the cookie of a browser. Only a browser with this key can finish the redirects that began with it.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("BrowserKey(…)")]
pub struct BrowserKey(String);

impl BrowserKey {
    /// Random bytes and a MAC.
    pub(crate) const BYTES: usize = 32;
    const CHARS: usize = 43;

    pub(crate) fn encode(bytes: &[u8]) -> Self {
        BrowserKey(BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }

    /// `None`: not the form of a key.
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

/// A device's redirect to its operator, sealed until it returns.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingRedirect {
    pub connector: String,
    /// The device's address when it was redirected.
    pub initial_ip: IpAddr,
    /// Opaque data of the connector, base64url.
    connector_data: String,
    /// What the operator answered to a device that came over plain HTTP, until the device comes over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<OperatorAnswer>,
}

impl PendingRedirect {
    pub(super) fn new(connector: &str, initial_ip: IpAddr, connector_data: &[u8]) -> Self {
        PendingRedirect {
            connector: connector.to_owned(),
            initial_ip,
            connector_data: BASE64_URL_SAFE_NO_PAD.encode(connector_data),
            answer: None,
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

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OperatorAnswer {
    Match(bool),
    Number(String),
    Error(String),
}

impl OperatorAnswer {
    pub(super) fn new(answer: &Result<SilentResult, ErrorCode>) -> Self {
        match answer {
            Ok(SilentResult::Match(matched)) => OperatorAnswer::Match(*matched),
            Ok(SilentResult::Number(number)) => OperatorAnswer::Number(number.as_str().to_owned()),
            Err(code) => OperatorAnswer::Error(code.into_str().to_owned()),
        }
    }

    /// `None`: the data is corrupt.
    pub(super) fn read(&self, mode: Mode) -> Option<Result<SilentResult, ErrorCode>> {
        match self {
            OperatorAnswer::Match(matched) => Some(Ok(SilentResult::Match(*matched))),
            OperatorAnswer::Number(number) => Some(Ok(SilentResult::Number(Msisdn::parse(number, mode).ok()?))),
            OperatorAnswer::Error(code) => Some(Err(code.parse().ok()?)),
        }
    }
}

/// The verdict of an operator, sealed until its code is redeemed.
#[derive(Serialize, Deserialize)]
pub(super) struct SealedAnswer {
    pub answer: OperatorAnswer,
    /// If the redirect began at the hosted page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_return: Option<PageReturn>,
}

/// What a browser gets again that returned to the hosted page and did not reach the client.
#[derive(Clone, Serialize, Deserialize, derive_more::Debug)]
#[debug("PageReturn")]
pub(crate) struct PageReturn {
    pub code: String,
    browser: BrowserHash,
}

/// A `state`: the check's id, 16 random bytes, the hash of the browser if it began at the hosted page, and a 16-byte MAC.
///
/// It contains the browser's hash so that the return of another browser is refused without a query, and before the
/// `state` is consumed.
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
/// Age of the check up to which a late return still gets the check's outcome.
const STATE_LIFETIME_SECONDS: i64 = 900;

impl SilentFlow {
    /// Verifies the token in a check's URL, without checking that the check exists.
    pub fn is_device_token(&self, check: CheckId, token: &str) -> bool {
        let given = BASE64_URL_SAFE_NO_PAD.decode(token).ok().filter(|given| given.len() == DEVICE_TOKEN_BYTES);
        given.is_some_and(|given| self.context.is_derived_token(&[b"device-url", check.0.as_bytes()], &given))
    }

    /// A new `state` and its hash.
    pub(super) fn generate_state(&self, state: RedirectState) -> Result<(String, TokenHash), StoreError> {
        let text = self.encode_state(state)?;
        let hash = self.state_hash(state.check, &text)?;
        Ok((text, hash))
    }

    /// A new handle and its hash: a `state` with which a device comes over TLS that came over plain HTTP before.
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

    /// Verifies the MAC and age of a `state`. Only the store decides whether it is still usable.
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

    /// Whether one of these keys is that of the browser.
    pub(crate) fn is_browser(
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

    /// Seals the verdict of an operator. The code is added if the redirect began at the hosted page, for its browser.
    pub(super) fn seal_result(
        &self,
        RedirectState { check, browser }: RedirectState,
        result: &SilentResult,
        code: &str,
    ) -> Result<Sealed, StoreError> {
        let page_return = browser.map(|browser| PageReturn { code: code.to_owned(), browser });
        let answer = OperatorAnswer::new(&Ok(result.clone()));
        seal_json(&self.context, "silent-result", check, &SealedAnswer { answer, page_return })
    }

    pub(super) fn unseal_result(
        &self,
        check: CheckId,
        mode: Mode,
        sealed: &Sealed,
    ) -> Result<SilentResult, StoreError> {
        let SealedAnswer { answer, .. } = self.unseal_json("silent-result", check, sealed)?;
        answer.read(mode).and_then(Result::ok).ok_or_else(|| corrupt_session_error(check))
    }

    /// The code with which a browser returned to the hosted page, for that browser.
    pub(crate) fn page_return(
        &self,
        check: CheckId,
        sealed: &Sealed,
        keys: &[BrowserKey],
    ) -> Result<Option<PageReturn>, StoreError> {
        let SealedAnswer { page_return, .. } = self.unseal_json("silent-result", check, sealed)?;
        let Some(page_return) = page_return else { return Ok(None) };
        let is_browser = self.is_browser(check, page_return.browser, keys)?;
        Ok(Some(page_return).filter(|_| is_browser))
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

/// Token in a check's URL: 128 bits derived from the check's id by the link key; not stored.
pub(super) fn device_token(context: &Context, check: CheckId) -> Result<String, StoreError> {
    let hash = context.derive_token(&[b"device-url", check.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..DEVICE_TOKEN_BYTES]))
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

pub(super) fn corrupt_session_error(check: CheckId) -> StoreError {
    StoreError::CorruptRow {
        table: "redirect_sessions",
        row: check.to_string(),
        problem: "sealed data cannot be unsealed or parsed".to_owned(),
    }
}
