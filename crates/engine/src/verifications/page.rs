//! The hosted page of a verification. The token in the page's URL authenticates the end-user, who can complete or give
//! up the steps there, or end the verification.
//!
//! The token alone is not enough to finish a silent check. The browser that begins a silent check gets a [`BrowserKey`]
//! in a cookie, and only this browser can finish the check and gets the code to redeem.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckId, CheckOutcome, CheckStatus, ErrorCode, Lifecycle, Reference, Verdict},
    phone::Msisdn,
    product::Product,
    reverse_sms::Platform,
    silent::WalletFailure,
    tenancy::{Mode, Name, ProjectId},
    verification::{Brand, Locale, Method, Progress, StepState, funnel::events_of_opening},
    web_url::WebOrigin,
};
use uuid::Uuid;

use super::{Current, Verifications, input::StepInput};
use crate::{
    context::Context,
    ports::{
        hashes::TokenHash,
        operator_tokens::DigitalCredential,
        silent::{BegunRedirect, RedirectSession},
        store::StoreError,
        verifications::{PageOpening, VerificationRecord},
    },
    silent::{
        BrowserKey, DeviceArrival, NextStep, RedeemError, RedirectError, operator_token::WalletVisit,
        secrets::unseal_redirect_url,
    },
};

/// Length of a page token: the verification's 16-byte id and a 16-byte MAC.
const TOKEN_BYTES: usize = 32;
const COMPLETION_CODE_BYTES: usize = 32;
/// How long the page shows the result after the verification has ended.
const SHOWN_AFTER_END: SignedDuration = SignedDuration::from_mins(15);
/// How long other browsers wait for the browser that began a silent check before they can begin the check themselves.
/// The page's script uses the same time.
const OPERATOR_ANSWER_TIME: SignedDuration = SignedDuration::from_secs(8);
/// Number of digits of the phone number that the page shows while the verification is open.
const SHOWN_DIGITS: usize = 4;

/// What the hosted page shows.
#[derive(Clone, derive_more::Debug)]
pub struct PageView {
    pub verification: CheckId,
    pub project: ProjectId,
    /// Name to show if the brand has none. `None`: this node does not know the project.
    pub project_name: Option<Name>,
    pub brand: Brand,
    /// Origins of the sites that may embed the page in a frame.
    pub frame_origins: Vec<WebOrigin>,
    /// Last digits of the phone number: four while the verification is open, afterwards the two that are stored with
    /// the check. `None`: they were erased.
    #[debug(skip)]
    pub number_ending: Option<String>,
    pub mode: Mode,
    pub expires_at: Timestamp,
    pub has_redirect_url: bool,
    pub reference: Option<Reference>,
    /// Language that the API client chose. `None`: the browser's language.
    pub locale: Option<Locale>,
    /// Whether the verification has methods that were not tried yet.
    pub has_other_method: bool,
    /// Whether the page was opened before.
    pub was_opened: bool,
    pub state: PageState,
}

/// What the page shows for the current step or the result. Debug output omits SMS texts, codes and URLs, because they
/// are credentials.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum PageState {
    Silent {
        step: CheckId,
        /// Whether a device was redirected to its operator and has not returned.
        has_begun: bool,
        /// Another browser has just begun the silent check, and this browser waits until this time. `None`: this
        /// browser can begin it.
        waits_until: Option<Timestamp>,
        /// Hash of the last redirect's `state`. Start tokens are bound to it, so that they become invalid when another
        /// redirect begins. `None`: no redirect has begun, or its `state` is consumed.
        state_hash: Option<TokenHash>,
        /// Whether the operator accepts a token of the phone's wallet instead, at present.
        takes_wallet: bool,
        /// When the silent check expires.
        expires_at: Timestamp,
    },
    /// The device has returned from its operator with a code, which is not redeemed yet.
    #[debug("Returned")]
    Returned {
        /// The code to redeem, if this browser began the redirect to the operator. `None`: another browser began it.
        code: Option<String>,
        /// The client's redirect URL with the code as a parameter, to which this browser is sent. `None`: another
        /// browser began the redirect, or the client has set no redirect URL.
        return_to: Option<String>,
    },
    #[debug("SendSms {{ has_arrived: {has_arrived} }}")]
    SendSms {
        receiver: Msisdn,
        sms_body: String,
        /// Whether an SMS has arrived, but without a valid code.
        has_arrived: bool,
        /// Whether an earlier SMS with the code came from another number.
        came_from_other_number: bool,
    },
    SimSwap,
    #[debug("Done {{ matched: {matched} }}")]
    Done {
        matched: bool,
        method: Option<Method>,
        /// The client's redirect URL with a code or an error as a parameter, to which the browser is sent. `None`: the
        /// client has set no redirect URL, or the code was already redeemed, as it always is after a match by Secure
        /// SNA.
        return_to: Option<String>,
    },
    #[debug("Failed({reason:?})")]
    Failed {
        reason: PageFailure,
        return_to: Option<String>,
    },
    #[debug("Expired")]
    Expired {
        return_to: Option<String>,
    },
}

/// Why a verification ended without a result, as shown to the client and the end-user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFailure {
    MethodsExhausted,
    GivenUp,
    WrongNumber,
    Cancelled,
    InternalError,
}

/// Values of the `error` parameter in the client's redirect URL.
mod return_error {
    pub const NO_MATCH: &str = "no_match";
    pub const EXPIRED: &str = "expired";
}

impl PageState {
    /// The client's redirect URL with the result as a parameter. `None`: the current step is not finished, or the page
    /// shows the result itself.
    pub fn return_to(&self) -> Option<&str> {
        match self {
            PageState::Returned { return_to, .. }
            | PageState::Done { return_to, .. }
            | PageState::Failed { return_to, .. }
            | PageState::Expired { return_to } => return_to.as_deref(),
            PageState::Silent { .. } | PageState::SendSms { .. } | PageState::SimSwap => None,
        }
    }

    /// The `error` parameter in the client's redirect URL. `None`: the verification is open, or the number matches.
    pub fn return_error(&self) -> Option<&'static str> {
        match self {
            PageState::Done { matched: false, .. } => Some(return_error::NO_MATCH),
            PageState::Expired { .. } => Some(return_error::EXPIRED),
            PageState::Failed { reason, .. } => Some(reason.return_error()),
            _ => None,
        }
    }
}

impl PageFailure {
    fn of_error(code: ErrorCode) -> Self {
        match code {
            ErrorCode::MethodsExhausted => PageFailure::MethodsExhausted,
            ErrorCode::GivenUp => PageFailure::GivenUp,
            ErrorCode::WrongNumber => PageFailure::WrongNumber,
            ErrorCode::Cancelled => PageFailure::Cancelled,
            _ => PageFailure::InternalError,
        }
    }

    /// The value of the `error` parameter in the client's redirect URL.
    fn return_error(self) -> &'static str {
        match self {
            PageFailure::MethodsExhausted => "methods_exhausted",
            PageFailure::GivenUp => "given_up",
            PageFailure::WrongNumber => "wrong_number",
            PageFailure::Cancelled => "cancelled",
            PageFailure::InternalError => "internal_error",
        }
    }
}

/// Returns the token in the URL of a verification's hosted page. It is derived from the verification's id with the link
/// key, so it need not be stored.
pub(super) fn page_token(context: &Context, verification: CheckId) -> Result<String, StoreError> {
    let mac = context.derive_token(&[b"verification-page", verification.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode([verification.0.as_bytes().as_slice(), &mac[..TOKEN_BYTES / 2]].concat()))
}

/// Returns the completion code of a verification, which the browser takes to the client after a match by Reverse SMS,
/// and which the client's backend redeems. It is derived from the verification's id with the link key.
pub(super) fn completion_code(context: &Context, verification: CheckId) -> Result<String, StoreError> {
    let hash = context.derive_token(&[b"verification-code", verification.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(hash))
}

pub(super) fn is_completion_code(context: &Context, verification: CheckId, code: &str) -> bool {
    let given = BASE64_URL_SAFE_NO_PAD.decode(code).ok().filter(|given| given.len() == COMPLETION_CODE_BYTES);
    given.is_some_and(|given| context.is_derived_token(&[b"verification-code", verification.0.as_bytes()], &given))
}

impl Verifications {
    /// Returns the id of the verification that a page token belongs to. `None`: the token is malformed, or its MAC is
    /// wrong. Does not test whether the verification still exists.
    pub fn verification_of_token(&self, token: &str) -> Option<CheckId> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| bytes.len() == TOKEN_BYTES)?;
        let (id, mac) = bytes.split_at(TOKEN_BYTES / 2);
        let id = Uuid::from_slice(id).ok()?;
        let is_right = self.context.is_derived_token(&[b"verification-page", id.as_bytes()], mac);
        is_right.then_some(CheckId(id))
    }

    /// Returns what the page shows to a browser with these keys in its cookies. `None`: the token is wrong, or the
    /// verification ended more than [`SHOWN_AFTER_END`] ago.
    pub async fn page(&self, token: &str, browser_keys: &[BrowserKey]) -> Result<Option<PageView>, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        let record = &current.record;
        let input = match record.check.state {
            Lifecycle::Open(_) => Some(StepInput::unseal(&self.context, record)?),
            Lifecycle::Concluded { .. } => None,
        };
        let number_ending = match &input {
            Some(input) => Some(last_digits(&input.number)),
            None => record.check.claimed.map(|claimed| claimed.tail.to_string()),
        };
        let state = self.page_state(&current, input, browser_keys).await?;
        let project = self.context.control_plane.project(record.check.project);
        let settings = project.as_ref().map(|project| &project.configuration.verification);
        Ok(Some(PageView {
            verification: record.check.id,
            project: record.check.project,
            project_name: project.as_ref().map(|project| project.name.clone()),
            brand: settings.map(|settings| settings.brand.clone()).unwrap_or_default(),
            frame_origins: settings.map(|settings| settings.frame_origins.clone()).unwrap_or_default(),
            number_ending,
            mode: record.check.mode,
            expires_at: record.check.expires_at,
            has_redirect_url: record.check.redirect_url.is_some(),
            reference: record.check.reference.clone(),
            locale: record.locale.clone(),
            has_other_method: record.progress.remaining_methods().next().is_some(),
            was_opened: record.opening.is_some(),
            state,
        }))
    }

    /// Records that the page of an open verification was opened for the first time.
    pub async fn record_opening(&self, token: &str, platform: Platform) -> Result<(), StoreError> {
        let Some(Current { record, .. }) = self.load_by_token(token).await? else { return Ok(()) };
        let is_open = matches!(record.check.state, Lifecycle::Open(_));
        let opening = PageOpening { at: self.context.now(), platform };
        if is_open && record.opening.is_none() && self.store.record_opening(record.check.id, opening).await? {
            self.steps.activity.record_funnel(&record.check, &events_of_opening(&record.progress));
        }
        Ok(())
    }

    async fn page_state(
        &self,
        current: &Current,
        input: Option<StepInput>,
        browser_keys: &[BrowserKey],
    ) -> Result<PageState, StoreError> {
        let record = &current.record;
        let Some(step) = &current.step else { return self.end_state(record) };
        Ok(match Method::of_product(step.product) {
            Some(Method::SecureSna) => {
                let session = self.silent.redirect_session(step.id).await?;
                match session {
                    Some(RedirectSession { verdict: Some(verdict), .. }) => {
                        let redirect =
                            self.silent.unseal_repeatable_redirect(step.id, &verdict.verdict, browser_keys)?;
                        let code = redirect.map(|redirect| redirect.code);
                        let return_to = code.as_deref().and_then(|code| self.return_to(record, ("code", code)));
                        PageState::Returned { code, return_to }
                    }
                    session => PageState::Silent {
                        step: step.id,
                        has_begun: step.status() == CheckStatus::Pending,
                        waits_until: match session.as_ref().and_then(|session| session.last_redirect) {
                            Some(redirect) => self.waits_until(step.id, redirect, browser_keys)?,
                            None => None,
                        },
                        state_hash: session.and_then(|session| session.state_hash),
                        takes_wallet: self.silent.takes_wallet(step),
                        expires_at: step.expires_at,
                    },
                }
            }
            Some(Method::ReverseSms) => match input.and_then(|input| input.sms) {
                Some(sms) => PageState::SendSms {
                    receiver: sms.receiver,
                    sms_body: sms.sms_body,
                    has_arrived: step.updated_at().is_some(),
                    came_from_other_number: came_from_other_number(&record.progress),
                },
                None => PageState::Failed { reason: PageFailure::InternalError, return_to: None },
            },
            None => PageState::SimSwap,
        })
    }

    /// Returns until when a browser with these keys must wait for the browser that began the redirect. `None`: it need
    /// not wait, because it began the redirect itself, or because the redirect began longer than
    /// [`OPERATOR_ANSWER_TIME`] ago.
    fn waits_until(
        &self,
        step: CheckId,
        redirect: BegunRedirect,
        browser_keys: &[BrowserKey],
    ) -> Result<Option<Timestamp>, StoreError> {
        let is_own = match redirect.browser {
            Some(browser) => self.silent.is_initiating_browser(step, browser, browser_keys)?,
            None => false,
        };
        let until = redirect.at.saturating_add(OPERATOR_ANSWER_TIME).unwrap_or(Timestamp::MAX);
        Ok((!is_own && self.context.now() < until).then_some(until))
    }

    fn end_state(&self, record: &VerificationRecord) -> Result<PageState, StoreError> {
        let Lifecycle::Concluded { outcome, .. } = &record.check.state else { return Ok(PageState::SimSwap) };
        Ok(match outcome {
            CheckOutcome::Completed(verdict) => {
                let (matched, method) =
                    (verdict.matched() == Some(true), verdict.verification_verdict().map(|end| end.method));
                let return_to = match method {
                    _ if !matched => self.return_to(record, ("error", return_error::NO_MATCH)),
                    // A match by Secure SNA means that its code was already redeemed. A second code would let another
                    // tab finish too.
                    Some(Method::SecureSna) | None => None,
                    Some(Method::ReverseSms) if record.code_redeemed_at.is_some() => None,
                    Some(Method::ReverseSms) => {
                        let code = completion_code(&self.context, record.check.id)?;
                        self.return_to(record, ("code", &code))
                    }
                };
                PageState::Done { matched, method, return_to }
            }
            CheckOutcome::Expired => {
                PageState::Expired { return_to: self.return_to(record, ("error", return_error::EXPIRED)) }
            }
            CheckOutcome::Error(code) => {
                let reason = PageFailure::of_error(*code);
                PageState::Failed { reason, return_to: self.return_to(record, ("error", reason.return_error())) }
            }
        })
    }

    /// Returns the client's redirect URL with the result as a parameter. `None`: the client has set no redirect URL.
    fn return_to(&self, record: &VerificationRecord, result: (&str, &str)) -> Option<String> {
        let url = unseal_redirect_url(&self.context, record.check.id, record.check.redirect_url.as_ref()?)?;
        let id = record.check.id.to_string();
        let mut parameters = vec![("verification_id", id.as_str()), result];
        parameters.extend(record.check.reference.as_ref().map(Reference::as_str).map(|text| ("reference_id", text)));
        Some(url.with_parameters(&parameters))
    }

    /// Generates the key of a browser that begins a silent check of this verification. It is stored in a cookie.
    pub fn new_browser_key(&self, verification: CheckId) -> Result<BrowserKey, StoreError> {
        let random: [u8; BrowserKey::BYTES / 2] = self.context.entropy.bytes();
        let mac = self.context.derive_token(&[b"browser-key", verification.0.as_bytes(), &random])?;
        Ok(BrowserKey::from_bytes(&[&random[..], &mac[..BrowserKey::BYTES / 2]].concat()))
    }

    /// Whether a key was generated for this verification. Keys contain a MAC, so that clients cannot evade rate limits
    /// per key by inventing keys.
    pub fn is_authentic_browser_key(&self, verification: CheckId, key: &BrowserKey) -> bool {
        let Some(bytes) = key.bytes() else { return false };
        let (random, mac) = bytes.split_at(BrowserKey::BYTES / 2);
        self.context.is_derived_token(&[b"browser-key", verification.0.as_bytes(), random], mac)
    }

    /// Returns a token with which a browser can begin the silent check once. The token becomes invalid when any browser
    /// begins the check, or when the step changes. `None`: the current step is not a silent check that can begin.
    pub fn silent_start_token(&self, view: &PageView, key: &BrowserKey) -> Result<Option<String>, StoreError> {
        let PageState::Silent { step, state_hash, .. } = &view.state else { return Ok(None) };
        let state = state_hash.map(|TokenHash(hash)| hash);
        let state = state.as_ref().map_or(&[][..], |hash| hash);
        let parts = [b"silent-start".as_slice(), step.0.as_bytes(), state, key.as_str().as_bytes()];
        Ok(Some(BASE64_URL_SAFE_NO_PAD.encode(&self.context.derive_token(&parts)?[..16])))
    }

    /// Returns the browser key for which [`silent_start_token`](Self::silent_start_token) issued `permit`. `None`: the
    /// permit was issued for none of `keys`, or the step has changed since it was issued.
    pub fn permitted_browser<'k>(
        &self,
        view: &PageView,
        permit: &str,
        keys: &'k [BrowserKey],
    ) -> Result<Option<&'k BrowserKey>, StoreError> {
        for key in keys {
            let right = self.silent_start_token(view, key)?.unwrap_or_default();
            if verify_slices_are_equal(right.as_bytes(), permit.as_bytes()).is_ok() {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Begins the silent check, and returns the redirect that sends the device to its operator. Only a browser with the
    /// key `browser` in a cookie can finish the check. `has_wallet`: whether this browser can ask the phone's wallet, so
    /// that the check stays open if the redirect fails. `None`: the page token is wrong, or the current step is not
    /// Secure SNA.
    pub async fn begin_silent(
        &self,
        token: &str,
        browser: &BrowserKey,
        address: IpAddr,
        sim: Option<&str>,
        has_wallet: bool,
    ) -> Result<Option<NextStep>, RedirectError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        let Some(step) = current.step.filter(|step| step.product == Product::SecureSna) else { return Ok(None) };
        let (product, check, browser) = (step.product, step.id, Some(browser));
        self.silent.start_redirect(DeviceArrival { product, check, sim, address, browser, has_wallet }).await.map(Some)
    }

    /// Whether the operator can verify a device at this address over mobile data.
    pub fn may_use_mobile_data(&self, view: &PageView, address: IpAddr) -> bool {
        let project = self.context.control_plane.project(view.project);
        let operators = self.steps.operators.for_mode(view.mode);
        project.is_some_and(|project| operators.may_verify_device(&project, address))
    }

    /// Builds a request to the phone's wallet, which only a browser with this key may answer. `None`: the page token is
    /// wrong, the current step is not Secure SNA, or its operator accepts no tokens of wallets.
    pub async fn wallet_request(
        &self,
        token: &str,
        browser: &BrowserKey,
        address: IpAddr,
    ) -> Result<Option<DigitalCredential>, RedirectError> {
        match self.silent_step(token).await? {
            Some(step) => self.silent.wallet_request(step, browser, address).await,
            None => Ok(None),
        }
    }

    /// Handles the wallet's answer that the page sends. After a verdict, returns the client's redirect URL with the code
    /// to redeem. Without a redirect URL, redeems the code, so that the page can show the result. An answer without a
    /// verdict ends the step. `None`: the page shows the current state.
    pub async fn finish_with_wallet(
        &self,
        token: &str,
        browser_keys: &[BrowserKey],
        address: IpAddr,
        credential: &DigitalCredential,
    ) -> Result<Option<String>, RedirectError> {
        let Some(step) = self.silent_step(token).await? else { return Ok(None) };
        let origin = WebOrigin::from_stored(&self.context.settings.base_url);
        let origin = origin.map_err(|error| StoreError::Refused(format!("base URL: {error}")))?;
        let visit = WalletVisit { origin: origin.as_str(), browser_keys, address };
        let code = self.silent.finish_with_wallet(step, visit, credential).await?;
        let Some(code) = code else { return Ok(None) };
        let return_to = self.page_return_url(token, &code).await?;
        if return_to.is_none() {
            self.page_redeem(token, &code).await?;
        }
        Ok(return_to)
    }

    /// Ends the Secure SNA step because the wallet gave no answer. Does nothing if the current step is another one.
    pub async fn handle_wallet_failure(&self, token: &str, failure: WalletFailure) -> Result<(), RedirectError> {
        match self.silent_step(token).await? {
            Some(step) => self.silent.handle_wallet_failure(step, failure).await,
            None => Ok(()),
        }
    }

    /// Returns the check of the current step if that is Secure SNA.
    async fn silent_step(&self, token: &str) -> Result<Option<CheckId>, StoreError> {
        let step = self.load_by_token(token).await?.and_then(|current| current.step);
        Ok(step.filter(|step| step.product == Product::SecureSna).map(|step| step.id))
    }

    /// Gives up the current step if it uses this method, so that a form submitted twice gives up only one step.
    /// `false`: the token is wrong.
    pub async fn page_give_up(&self, token: &str, method: Method) -> Result<bool, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(false) };
        if current.step.as_ref().is_some_and(|step| step.product == method.product()) {
            self.give_up(current).await?;
        }
        Ok(true)
    }

    /// Returns the client's redirect URL with `code` as a parameter, for the client's backend to redeem. `None`: the
    /// token is wrong, or the client has set no redirect URL.
    pub async fn page_return_url(&self, token: &str, code: &str) -> Result<Option<String>, StoreError> {
        let current = self.load_by_token(token).await?;
        Ok(current.and_then(|current| self.return_to(&current.record, ("code", code))))
    }

    /// Redeems the code of a finished Secure SNA step if the client has set no redirect URL, so that the page can show
    /// the result. `false`: the token is wrong.
    pub async fn page_redeem(&self, token: &str, code: &str) -> Result<bool, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(false) };
        let has_redirect_url = current.record.check.redirect_url.is_some();
        let step = current.step.filter(|step| step.product == Product::SecureSna && !has_redirect_url);
        let Some(step) = step else { return Ok(true) };
        match self.silent.redeem(step.project, step.product, step.id, code).await {
            Err(RedeemError::Read(crate::checks::ReadError::Store(error))) => Err(error),
            // If the code was wrong or late, the page shows the current state of the verification instead of an error.
            Ok(_) | Err(_) => Ok(true),
        }
    }

    pub(super) async fn load_by_token(&self, token: &str) -> Result<Option<Current>, StoreError> {
        let Some(id) = self.verification_of_token(token) else { return Ok(None) };
        let Some(current) = self.load(id).await? else { return Ok(None) };
        let is_shown = match current.record.check.state {
            Lifecycle::Open(_) => true,
            Lifecycle::Concluded { at, .. } => self.context.now().duration_since(at) <= SHOWN_AFTER_END,
        };
        Ok(is_shown.then_some(current))
    }
}

/// Returns the last [`SHOWN_DIGITS`] digits of a number.
fn last_digits(number: &Msisdn) -> String {
    let digits = number.as_str();
    digits[digits.len().saturating_sub(SHOWN_DIGITS)..].to_owned()
}

fn came_from_other_number(progress: &Progress) -> bool {
    let is_mismatch = |state: StepState| state == StepState::Completed { matched: false };
    progress.steps.iter().any(|step| step.product == Product::ReverseSms && is_mismatch(step.state))
}
