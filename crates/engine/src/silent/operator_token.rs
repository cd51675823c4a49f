//! The second way of a Secure SNA check: a token from the phone's wallet (GSMA TS.43), which works over any connection.
//!
//! We sign a request, the wallet answers with a token that only we can decrypt, and the operator says whether the phone
//! with this token has the number. The answer itself proves nothing about the number.
//!
//! Nothing is stored for a request. Its nonce names the check, and the browser if the request was made for the hosted
//! page, and contains a MAC. The private key that decrypts the answer is derived from the nonce. The store records that
//! a nonce was used, so an answer counts once, on any node.

use std::{net::IpAddr, time::Duration};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{AnyCheck, Check, CheckId, CheckStatus, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    silent::{AppOrigin, OperatorVerdict, SilentCheck, SilentWay, WalletFailure},
    tenancy::{Mode, Project, ProjectId},
};
use tokio::time::timeout;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{
    RedeemError, RedirectError, SilentFlow,
    redirect_session::SessionState,
    secrets::{BrowserKey, RedirectState, SilentCheckInput, corrupt_session_error, seal_input},
};
use crate::{
    checks::{ReadError, downcast},
    context::Context,
    lookups::operator_access::Operators,
    ports::{
        checks::ConcludeOutcome,
        hashes::{BrowserHash, TokenHash},
        operator_tokens::{CredentialKey, CredentialRequest, CredentialResponse, DigitalCredential},
        silent::{RedirectSessionRecord, SealedVerdict, SilentResult},
        store::StoreError,
    },
};

/// Maximum time for the operator's answer to a token. The browser or API client waits during that time.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(15);

/// How long after a check's end its used nonces are kept.
const USE_MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// Purposes of what is derived from a nonce with the link key. They must not change while requests are open.
const NONCE_PURPOSE: &[u8] = b"credential-nonce";
const KEY_PURPOSE: &[u8] = b"credential-key";
const RANDOM_BYTES: usize = 16;
const MAC_BYTES: usize = 16;
const NONCE_BYTES: usize = 16 + RANDOM_BYTES + MAC_BYTES;
const PAGE_NONCE_BYTES: usize = NONCE_BYTES + BrowserHash::BYTES;

/// Why a wallet's response led to no verdict.
enum WalletResponseError {
    /// The response is invalid, for this reason.
    Invalid(&'static str),
    /// Another browser asked the wallet.
    OtherBrowser,
    /// The response was used before.
    Used,
    Operator(ErrorCode),
    Store(StoreError),
}

impl From<StoreError> for WalletResponseError {
    fn from(error: StoreError) -> Self {
        WalletResponseError::Store(error)
    }
}

/// A wallet's response, and what it must fit.
struct WalletResponse<'a> {
    check: &'a SilentCheck,
    input: &'a SilentCheckInput,
    origins: &'a [&'a str],
    /// Keys in the cookies of the browser that sends the response. `None`: an API client sends it.
    browser_keys: Option<&'a [BrowserKey]>,
    credential: &'a DigitalCredential,
}

/// A browser at the hosted page, which sends a wallet's answer.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("WalletVisit({origin})")]
pub(crate) struct WalletVisit<'a> {
    /// Origin of the page.
    pub origin: &'a str,
    /// Keys in the browser's cookies.
    pub browser_keys: &'a [BrowserKey],
    pub address: IpAddr,
}

/// The operator's answer to the token in a wallet's response.
struct VerifiedResponse {
    state: RedirectState,
    /// Hash of the response's nonce.
    credential_hash: TokenHash,
    matched: bool,
}

/// Builds a request to the wallet about the number of a Secure SNA check. `browser`: the only browser that may answer,
/// or `None` if the API client answers. Returns `None` if the number's operator accepts no tokens of wallets at present.
pub(crate) fn credential_request<V: Clone>(
    context: &Context,
    operators: &Operators,
    check: &Check<V>,
    number: &Msisdn,
    browser: Option<BrowserHash>,
) -> Result<Option<DigitalCredential>, StoreError> {
    let network = check.network.as_ref().filter(|_| check.product == Product::SecureSna);
    let connector =
        network.and_then(|network| operators.for_mode(check.mode).available_operator_token_connector(network));
    let Some(verifier) = connector.as_ref().and_then(|connector| connector.operator_token_verifier()) else {
        return Ok(None);
    };
    let (nonce, key) = generate_nonce(context, RedirectState { check: check.id, browser })?;
    // Whoever has the page's link gets a request there, and sees only the last digits of the number.
    let number_hint = browser.is_none().then_some(number);
    let request = CredentialRequest { check: check.id, number_hint, nonce: &nonce, key: &key, now: context.now() };
    Ok(verifier
        .credential_request(request)
        .inspect_err(|code| tracing::error!(check = %check.id, %code, "request to a wallet cannot be built"))
        .ok())
}

/// Like [`credential_request`], for answers that the project's API clients send. Returns `None` also if the project
/// names no origin at which its apps ask wallets, because an answer for another origin may come from a fraudulent site.
pub(crate) fn credential_request_for_apps<V: Clone>(
    context: &Context,
    operators: &Operators,
    project: &Project,
    check: &Check<V>,
    number: &Msisdn,
) -> Result<Option<DigitalCredential>, StoreError> {
    if project.configuration.secure_sna.app_origins.is_empty() {
        return Ok(None);
    }
    credential_request(context, operators, check, number, None)
}

impl SilentFlow {
    /// Whether the operator of a check's number accepts tokens of wallets at present.
    pub(crate) fn takes_wallet(&self, check: &AnyCheck) -> bool {
        let network = check.network.as_ref().filter(|_| check.product == Product::SecureSna);
        network.is_some_and(|network| {
            self.operators.for_mode(check.mode).available_operator_token_connector(network).is_some()
        })
    }

    /// Builds a request to the wallet that only one browser may answer. Concludes the check if the browser's address is
    /// not the announced one. `None`: the check is concluded, or its operator accepts no tokens of wallets at present.
    pub(crate) async fn wallet_request(
        &self,
        step: CheckId,
        browser: &BrowserKey,
        address: IpAddr,
    ) -> Result<Option<DigitalCredential>, RedirectError> {
        let record = self.store.redirect_session(step).await?.ok_or(RedirectError::NotFound)?;
        let SessionState::Open(check, input) = self.resume_session(record).await? else { return Ok(None) };
        if !self.is_announced_address(&check, &input, address) {
            return self
                .fail_with_wallet(check, WalletFailure::Unavailable, Some(ErrorCode::IpMismatch))
                .await
                .map(|()| None);
        }
        let Some(number) = &input.number else { return Ok(None) };
        let browser = self.browser_hash(check.id, browser)?;
        Ok(credential_request(&self.context, &self.operators, &check, number, Some(browser))?)
    }

    /// Handles a wallet's answer that a browser sends from the hosted page. A verdict is stored with a redirect code for
    /// this browser, as after a redirect to the operator. Returns this code. `None`: there is no verdict, the check is
    /// concluded, or the answer was used before.
    pub(crate) async fn finish_with_wallet(
        &self,
        step: CheckId,
        WalletVisit { origin, browser_keys, address }: WalletVisit<'_>,
        credential: &DigitalCredential,
    ) -> Result<Option<String>, RedirectError> {
        let record = self.store.redirect_session(step).await?.ok_or(RedirectError::NotFound)?;
        let has_session = record.session.is_some();
        let SessionState::Open(check, input) = self.resume_session(record).await? else { return Ok(None) };
        if !self.is_announced_address(&check, &input, address) {
            return self
                .fail_with_wallet(check, WalletFailure::Invalid, Some(ErrorCode::IpMismatch))
                .await
                .map(|()| None);
        }
        let origins = [origin];
        let response = WalletResponse {
            check: &check,
            input: &input,
            origins: &origins,
            browser_keys: Some(browser_keys),
            credential,
        };
        let VerifiedResponse { state, matched, .. } = match self.verify_response(response).await {
            Ok(verified) => verified,
            Err(WalletResponseError::OtherBrowser) => return Err(RedirectError::OtherBrowser),
            Err(WalletResponseError::Store(error)) => return Err(error.into()),
            Err(WalletResponseError::Used) => return Ok(None),
            Err(WalletResponseError::Invalid(reason)) => {
                tracing::info!(check = %check.id, reason, "invalid answer of a wallet");
                return self.fail_with_wallet(check, WalletFailure::Invalid, None).await.map(|()| None);
            }
            Err(WalletResponseError::Operator(code)) => {
                return self.fail_with_wallet(check, WalletFailure::Refused, Some(code)).await.map(|()| None);
            }
        };
        if !has_session
            && !self.step_sessions.open_session(&check, seal_input(&self.context, check.id, &input)?).await?
        {
            return Ok(None);
        }
        let outcome = self.store_result(check, state, &SilentResult::Match(matched), SilentWay::OperatorToken).await?;
        Ok(outcome.result.ok().map(|code| code.0))
    }

    /// Ends an open check because the wallet of the browser at the hosted page gave no answer.
    pub(crate) async fn handle_wallet_failure(
        &self,
        step: CheckId,
        failure: WalletFailure,
    ) -> Result<(), RedirectError> {
        let record = self.store.redirect_session(step).await?.ok_or(RedirectError::NotFound)?;
        match self.resume_session(record).await? {
            SessionState::Open(check, _) => {
                // If the wallet could not be asked, the check ends with what failed before it.
                let earlier = match failure {
                    WalletFailure::Unavailable => self.redirect_error(&check).await?,
                    _ => None,
                };
                self.fail_with_wallet(check, failure, earlier).await
            }
            SessionState::Finished(_) => Ok(()),
        }
    }

    /// Returns the error of a redirect after which the check was left to the phone's wallet.
    async fn redirect_error(&self, check: &SilentCheck) -> Result<Option<ErrorCode>, StoreError> {
        match self.checks.read_check_history(check.project, check.product, check.id).await {
            Ok(history) => Ok(history.redirect_error),
            Err(ReadError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// `code`: the error code of the check, if it is not that of the failure.
    async fn fail_with_wallet(
        &self,
        check: SilentCheck,
        failure: WalletFailure,
        code: Option<ErrorCode>,
    ) -> Result<(), RedirectError> {
        let code = code.or(failure.error_code()).unwrap_or(ErrorCode::MnoResponseError);
        self.fail_check(check, code, failure.into()).await.map(drop)
    }

    /// Whether a browser's address may be the one that the API client announced for the device.
    fn is_announced_address(&self, check: &SilentCheck, input: &SilentCheckInput, address: IpAddr) -> bool {
        self.operators.for_mode(check.mode).is_announced_address(input.expected_address, address)
    }

    /// Concludes a check with the operator's answer to a wallet's token, which an API client sends. If the operator gives
    /// no answer, concludes the check with its error. The nonce takes the place of the redirect code, so that the first
    /// verdict counts if the device also returns from its operator.
    pub async fn redeem_credential(
        &self,
        project: ProjectId,
        id: CheckId,
        credential: &DigitalCredential,
    ) -> Result<SilentCheck, RedeemError> {
        let product = Product::SecureSna;
        let record = self.store.redirect_session(id).await?.filter(|RedirectSessionRecord { check, .. }| {
            let is_own = check.project == project && check.product == product;
            is_own && !check.is_overdue(self.context.now())
        });
        let Some(record) = record else { return Err(self.redeem_error(project, product, id).await) };
        if self.context.has_left_sandbox(project, record.check.mode) {
            self.conclude_with_error(downcast(record.check)?, ErrorCode::InternalError).await?;
            return Err(self.redeem_error(project, product, id).await);
        }
        let has_session = record.session.is_some();
        if let Some(stored) = record.session.as_ref().and_then(|session| session.verdict.as_ref()) {
            return self.redeem_stored_verdict(downcast(record.check)?, stored, credential).await;
        }
        let SessionState::Open(check, input) = self.resume_session(record).await? else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let owner = self.context.control_plane.project(project);
        let settings = owner.as_ref().map(|project| &project.configuration.secure_sna);
        let origins: Vec<&str> =
            settings.into_iter().flat_map(|settings| &settings.app_origins).map(AppOrigin::as_str).collect();
        let response =
            WalletResponse { check: &check, input: &input, origins: &origins, browser_keys: None, credential };
        let VerifiedResponse { state, credential_hash, matched } = match self.verify_response(response).await {
            Ok(verified) => verified,
            Err(WalletResponseError::Operator(code)) => return Err(self.refuse_credential(check, code).await?),
            Err(WalletResponseError::Invalid(reason)) => return Err(RedeemError::InvalidCredential(reason)),
            Err(WalletResponseError::Used) => return Err(RedeemError::UsedCredential),
            Err(WalletResponseError::OtherBrowser) => {
                return Err(RedeemError::InvalidCredential("it belongs to the hosted page"));
            }
            Err(WalletResponseError::Store(error)) => return Err(error.into()),
        };
        let result = SilentResult::Match(matched);
        // Only the hosted page repeats a code.
        let verdict = self.seal_result(state, &result, SilentWay::OperatorToken, "")?;
        let stored = SealedVerdict { code_hash: credential_hash, verdict };
        let has_session = has_session
            || self.step_sessions.open_session(&check, seal_input(&self.context, check.id, &input)?).await?;
        if !has_session || !self.store.store_verdict(check.id, stored).await? {
            return Err(self.superseded_credential_error(project, id).await);
        }
        self.conclude_with_wallet_verdict(check, matched).await
    }

    /// Concludes a check whose verdict is stored already, if the verdict is that of this answer: the request that stored
    /// it was interrupted.
    async fn redeem_stored_verdict(
        &self,
        check: SilentCheck,
        stored: &SealedVerdict,
        credential: &DigitalCredential,
    ) -> Result<SilentCheck, RedeemError> {
        let hash = self.credential_hash(check.mode, check.network.as_ref(), check.id, credential)?;
        let is_same = hash.is_some_and(|hash| verify_slices_are_equal(&hash.0, &stored.code_hash.0).is_ok());
        if !is_same {
            return Err(RedeemError::SupersededCredential);
        }
        match self.unseal_result(check.id, check.mode, &stored.verdict)? {
            (SilentResult::Match(matched), _) => self.conclude_with_wallet_verdict(check, matched).await,
            _ => Err(corrupt_session_error(check.id).into()),
        }
    }

    async fn conclude_with_wallet_verdict(
        &self,
        check: SilentCheck,
        matched: bool,
    ) -> Result<SilentCheck, RedeemError> {
        let (project, product, id) = (check.project, check.product, check.id);
        let verdict = OperatorVerdict::Match(matched);
        let Ok(concluded) = check.conclude_with_verdict(verdict, self.context.now()) else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let redeemed = concluded.check().clone();
        match (
            self.checks.conclude_with_provenance(concluded, SilentWay::OperatorToken.into()).await?,
            redeemed.status(),
        ) {
            (ConcludeOutcome::Concluded { .. }, CheckStatus::Completed) => Ok(redeemed),
            // The check expired, or another request concluded it first.
            _ => Err(self.redeem_error(project, product, id).await),
        }
    }

    /// Concludes a check with the operator's error, and returns the error for the API client. Leaves the check open if
    /// it has got a verdict over mobile data meanwhile.
    async fn refuse_credential(&self, check: SilentCheck, code: ErrorCode) -> Result<RedeemError, StoreError> {
        let (project, id) = (check.project, check.id);
        let has_verdict = self.redirect_session(id).await?.is_some_and(|session| session.verdict.is_some());
        if !has_verdict && let Ok(concluded) = check.conclude_with_error(code, self.context.now()) {
            self.checks.conclude_with_provenance(concluded, WalletFailure::Refused.into()).await?;
        }
        Ok(self.superseded_credential_error(project, id).await)
    }

    /// Returns the reason why an answer did not conclude its check.
    async fn superseded_credential_error(&self, project: ProjectId, id: CheckId) -> RedeemError {
        match self.redeem_error(project, Product::SecureSna, id).await {
            RedeemError::NotReady => RedeemError::SupersededCredential,
            error => error,
        }
    }

    /// Hashes the nonce that a wallet's answer states, for comparison with the answer that gave a check's verdict.
    /// `None`: the answer is malformed, or the operator accepts none any more.
    pub(crate) fn credential_hash(
        &self,
        mode: Mode,
        network: Option<&NetworkId>,
        check: CheckId,
        credential: &DigitalCredential,
    ) -> Result<Option<TokenHash>, StoreError> {
        let connector = network.and_then(|network| self.operators.for_mode(mode).operator_token_connector(network));
        let verifier = connector.as_ref().and_then(|connector| connector.operator_token_verifier());
        let nonce = verifier.and_then(|verifier| verifier.stated_nonce(credential));
        nonce.map(|nonce| self.nonce_hash(check, &nonce)).transpose()
    }

    fn nonce_hash(&self, check: CheckId, nonce: &str) -> Result<TokenHash, StoreError> {
        let hash = self.context.keyed_hash(&[b"credential-verdict", check.0.as_bytes(), nonce.as_bytes()]);
        hash.map(TokenHash)
    }

    /// Verifies a wallet's response and asks the operator whose token it contains.
    async fn verify_response(&self, response: WalletResponse<'_>) -> Result<VerifiedResponse, WalletResponseError> {
        const NO_TOKENS: WalletResponseError =
            WalletResponseError::Invalid("the operator accepts no tokens of wallets");
        let WalletResponse { check, input, origins, browser_keys, credential } = response;
        let operators = self.operators.for_mode(check.mode);
        let network = check.network.as_ref();
        let connector = network.and_then(|network| operators.operator_token_connector(network)).ok_or(NO_TOKENS)?;
        let verifier = connector.operator_token_verifier().ok_or(NO_TOKENS)?;
        let number = input.number.as_ref().ok_or(WalletResponseError::Invalid("the check has no number"))?;
        let nonce = verifier.stated_nonce(credential).ok_or(WalletResponseError::Invalid("malformed"))?;
        let (state, key) = parse_nonce(&self.context, &nonce)
            .filter(|(state, _)| state.check == check.id)
            .ok_or(WalletResponseError::Invalid("the nonce is not of a request for this check"))?;
        match (state.browser, browser_keys) {
            (Some(browser), Some(keys)) if self.is_initiating_browser(check.id, browser, keys)? => {}
            (None, None) => {}
            _ => return Err(WalletResponseError::OtherBrowser),
        }
        let (nonce, key, now) = (&*nonce, &key, self.context.now());
        let response = CredentialResponse { check: check.id, nonce, key, origins, credential, now };
        let token = verifier.verify_credential(&response).map_err(WalletResponseError::Invalid)?;
        // The wallet offers all SIMs of the phone. Only the operator of the chosen one knows its token.
        let other = match &token.carrier {
            Some(carrier) if verifier.network_of_carrier(carrier).is_none() => {
                let connector = operators.operator_token_connector_of_carrier(check.project, carrier);
                Some(connector.ok_or(WalletResponseError::Invalid("the SIM's operator accepts no tokens of wallets"))?)
            }
            _ => None,
        };
        let verifier = other.as_ref().unwrap_or(&connector).operator_token_verifier().ok_or(NO_TOKENS)?;
        self.use_nonce(check, nonce).await?;
        let answer = verifier.verify_number_with_token(check.id, number, &token.temporary_token);
        let answer = timeout(OPERATOR_TIMEOUT, answer).await.unwrap_or(Err(ErrorCode::MnoTimeout));
        let matched = answer.map_err(WalletResponseError::Operator)?;
        Ok(VerifiedResponse { state, credential_hash: self.nonce_hash(check.id, nonce)?, matched })
    }

    /// Records that an answer to this nonce was used. It is kept until the check has ended, when no answer counts.
    async fn use_nonce(&self, check: &SilentCheck, nonce: &str) -> Result<(), WalletResponseError> {
        let hash = self.context.keyed_hash(&[b"credential-nonce-use", nonce.as_bytes()])?;
        // Clocks of nodes differ slightly.
        let kept_until = check.expires_at.saturating_add(USE_MARGIN).unwrap_or(Timestamp::MAX);
        let is_first_use = self.assertions.record_assertion(TokenHash(hash), kept_until).await?;
        if is_first_use { Ok(()) } else { Err(WalletResponseError::Used) }
    }
}

/// Generates a nonce and the private key that belongs to it.
fn generate_nonce(context: &Context, state: RedirectState) -> Result<(String, CredentialKey), StoreError> {
    let (keys, now) = (context.keys(), context.now());
    let no_key = || StoreError::Refused("no active link key".to_owned());
    loop {
        let random: [u8; RANDOM_BYTES] = context.entropy.bytes();
        let browser = state.browser.as_ref().map_or(&[][..], |BrowserHash(hash)| hash);
        let body = [state.check.0.as_bytes().as_slice(), &random, browser].concat();
        let key = Zeroizing::new(keys.derive_link_token(&[KEY_PURPOSE, &body], now).ok_or_else(no_key)?);
        // Numbers with other first bytes are smaller than the order of P-256. One nonce in four billion is rejected.
        if key[..4] == [0xff; 4] {
            continue;
        }
        let mac = keys.derive_link_token(&[NONCE_PURPOSE, &body], now).ok_or_else(no_key)?;
        return Ok((BASE64_URL_SAFE_NO_PAD.encode([&body, &mac[..MAC_BYTES]].concat()), key));
    }
}

/// Verifies the MAC of a nonce, and derives the private key that belongs to it. `None`: we did not make this nonce.
fn parse_nonce(context: &Context, nonce: &str) -> Option<(RedirectState, CredentialKey)> {
    let is_length_of_nonce = |bytes: &Vec<u8>| [NONCE_BYTES, PAGE_NONCE_BYTES].contains(&bytes.len());
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(nonce).ok().filter(is_length_of_nonce)?;
    let (body, mac) = bytes.split_at(bytes.len() - MAC_BYTES);
    let (keys, now) = (context.keys(), context.now());
    // The same link key gave the MAC and the private key.
    let (of_nonce, of_key) = ([NONCE_PURPOSE, body], [KEY_PURPOSE, body]);
    let mut derived = keys.valid_link_tokens(&of_nonce, now).zip(keys.valid_link_tokens(&of_key, now));
    let (_, key) = derived.find(|(right, _)| verify_slices_are_equal(&right[..MAC_BYTES], mac).is_ok())?;
    let browser = <[u8; BrowserHash::BYTES]>::try_from(&body[16 + RANDOM_BYTES..]).ok().map(BrowserHash);
    Some((RedirectState { check: CheckId(Uuid::from_slice(&body[..16]).ok()?), browser }, Zeroizing::new(key)))
}
