//! The hosted page of a verification. Its token authenticates the end-user, and allows nothing but the steps.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckId, CheckOutcome, Lifecycle, Reference},
    phone::{Msisdn, NumberTail},
    product::Product,
    tenancy::{Mode, Name, ProjectId},
    verification::{Brand, Locale, Method},
};
use uuid::Uuid;

use super::{Current, Verifications, input::VerificationInput};
use crate::{
    context::Context,
    ports::{StoreError, VerificationRecord},
    silent::{DeviceRequest, NextStep, RedeemError, RedirectError, secrets::unseal_redirect_url},
};

/// A token is the verification's id and a 16-byte MAC.
const TOKEN_BYTES: usize = 32;
/// Time after the end in which the page still shows it.
const SHOWN_AFTER_END: SignedDuration = SignedDuration::from_mins(15);
/// Error in the redirect of an expired verification.
const EXPIRED: &str = "check_expired";

/// What the hosted page shows.
#[derive(Clone, Debug)]
pub struct PageView {
    pub verification: CheckId,
    pub project: ProjectId,
    /// Shown if the brand has no name. `None`: the project is not known to this node.
    pub project_name: Option<Name>,
    pub brand: Brand,
    pub number_tail: Option<NumberTail>,
    pub mode: Mode,
    pub expires_at: Timestamp,
    pub has_redirect_url: bool,
    /// Language that the caller chose. `None`: that of the browser.
    pub locale: Option<Locale>,
    pub state: PageState,
}

/// Texts and URLs are masked: they are credentials.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum PageState {
    Silent {
        /// The device has returned from its operator, and its code is not redeemed yet.
        is_verdict_known: bool,
    },
    #[debug("SendSms {{ has_arrived: {has_arrived} }}")]
    SendSms {
        receiver: Msisdn,
        sms_body: String,
        /// Something has arrived, but no valid code.
        has_arrived: bool,
    },
    SimSwap,
    #[debug("Done {{ matched: {matched} }}")]
    Done {
        matched: bool,
        /// Where the browser goes. `None`: there is no redirect URL, or its code is redeemed.
        return_to: Option<String>,
    },
    #[debug("Failed")]
    Failed {
        return_to: Option<String>,
    },
    #[debug("Expired")]
    Expired {
        return_to: Option<String>,
    },
}

/// The token of a verification's hosted page: derived from the id by the hash key, not stored.
pub(crate) fn page_token(context: &Context, verification: CheckId) -> Result<String, StoreError> {
    let mac = page_mac(context, verification)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode([verification.0.as_bytes().as_slice(), &mac].concat()))
}

fn page_mac(context: &Context, verification: CheckId) -> Result<[u8; 16], StoreError> {
    let [mac @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] =
        context.keyed_hash(&[b"verification-page", verification.0.as_bytes()])?;
    Ok(mac)
}

/// The code that a completed verification gives the browser for its backend: derived from the id by the hash key.
pub(super) fn completion_code(context: &Context, verification: CheckId) -> Result<String, StoreError> {
    let hash = context.keyed_hash(&[b"verification-code", verification.0.as_bytes()])?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(hash))
}

impl Verifications {
    /// The verification of a token, if its MAC is right. It may not exist any more.
    pub fn verification_of_token(&self, token: &str) -> Result<Option<CheckId>, StoreError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok().filter(|bytes| bytes.len() == TOKEN_BYTES);
        let Some(bytes) = bytes else { return Ok(None) };
        let (id, mac) = bytes.split_at(TOKEN_BYTES / 2);
        let Ok(id) = Uuid::from_slice(id) else { return Ok(None) };
        let is_right = verify_slices_are_equal(&page_mac(&self.context, CheckId(id))?, mac).is_ok();
        Ok(is_right.then_some(CheckId(id)))
    }

    /// What the page shows. `None`: the token is wrong, or the verification ended some time ago.
    pub async fn page(&self, token: &str) -> Result<Option<PageView>, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        let record = &current.record;
        let state = self.page_state(&current).await?;
        let project = self.context.control_plane.project(record.check.project);
        Ok(Some(PageView {
            verification: record.check.id,
            project: record.check.project,
            project_name: project.as_ref().map(|project| project.name.clone()),
            brand: project.map(|project| project.configuration.verification.brand.clone()).unwrap_or_default(),
            number_tail: record.check.claimed.map(|claimed| claimed.tail),
            mode: record.check.mode,
            expires_at: record.check.expires_at,
            has_redirect_url: record.check.redirect_url.is_some(),
            locale: record.locale.clone(),
            state,
        }))
    }

    async fn page_state(&self, current: &Current) -> Result<PageState, StoreError> {
        let record = &current.record;
        let Some(step) = &current.step else { return self.end_state(record) };
        Ok(match Method::of_product(step.product) {
            Some(Method::SecureSna) => {
                let session = self.silent.store.redirect_session(step.id).await?.and_then(|record| record.session);
                PageState::Silent { is_verdict_known: session.is_some_and(|session| session.verdict.is_some()) }
            }
            Some(Method::ReverseSms) => {
                let input = VerificationInput::unseal(&self.context, record)?;
                let has_arrived = step.updated_at().is_some();
                match input.sms {
                    Some(sms) => PageState::SendSms { receiver: sms.receiver, sms_body: sms.sms_body, has_arrived },
                    None => PageState::Failed { return_to: None },
                }
            }
            None => PageState::SimSwap,
        })
    }

    fn end_state(&self, record: &VerificationRecord) -> Result<PageState, StoreError> {
        let Lifecycle::Concluded { outcome, .. } = &record.check.state else { return Ok(PageState::SimSwap) };
        Ok(match outcome {
            CheckOutcome::Completed(verdict) => {
                let code = completion_code(&self.context, record.check.id)?;
                let is_redeemed = record.code_redeemed_at.is_some();
                let return_to = if is_redeemed { None } else { self.return_to(record, ("code", &code)) };
                let matched = ringtrue_domain::lifecycle::Verdict::matched(verdict) == Some(true);
                PageState::Done { matched, return_to }
            }
            CheckOutcome::Expired => PageState::Expired { return_to: self.return_to(record, ("error", EXPIRED)) },
            CheckOutcome::Error(code) => {
                PageState::Failed { return_to: self.return_to(record, ("error", code.into_str())) }
            }
        })
    }

    /// The redirect URL with the result. `None`: the verification has none.
    fn return_to(&self, record: &VerificationRecord, result: (&str, &str)) -> Option<String> {
        let url = unseal_redirect_url(&self.context, record.check.id, record.check.redirect_url.as_ref()?)?;
        let id = record.check.id.to_string();
        let mut parameters = vec![("verification_id", id.as_str()), result];
        parameters.extend(record.check.reference.as_ref().map(Reference::as_str).map(|text| ("reference_id", text)));
        Some(url.with_parameters(&parameters))
    }

    /// Redirects the device to its operator. `None`: the token is wrong, or the current step is not Secure SNA.
    pub async fn begin_silent(
        &self,
        token: &str,
        address: IpAddr,
        sim: Option<&str>,
    ) -> Result<Option<NextStep>, RedirectError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        let Some(step) = current.step.filter(|step| step.product == Product::SecureSna) else { return Ok(None) };
        let request = DeviceRequest { product: Product::SecureSna, check: step.id, token: "", sim, address };
        self.silent.start_redirect(request, true).await.map(Some)
    }

    /// Gives up the current step if it has this method, so that a form that is sent twice gives up one step. `None`: the
    /// token is wrong.
    pub async fn page_give_up(&self, token: &str, method: Method) -> Result<Option<()>, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        if current.step.as_ref().is_some_and(|step| step.product == method.product()) {
            self.give_up(current).await?;
        }
        Ok(Some(()))
    }

    /// The redirect URL with the code that the device came back with, for the backend to redeem. `None`: the token is
    /// wrong, or there is no redirect URL.
    pub async fn page_return_url(&self, token: &str, code: &str) -> Result<Option<String>, StoreError> {
        let current = self.load_by_token(token).await?;
        Ok(current.and_then(|current| self.return_to(&current.record, ("code", code))))
    }

    /// Redeems the code that the device returned with, for a verification without a redirect URL. The page shows what
    /// came of it. `None`: the token is wrong.
    pub async fn page_redeem(&self, token: &str, code: &str) -> Result<Option<()>, StoreError> {
        let Some(current) = self.load_by_token(token).await? else { return Ok(None) };
        let has_redirect_url = current.record.check.redirect_url.is_some();
        let step = current.step.filter(|step| step.product == Product::SecureSna && !has_redirect_url);
        let Some(step) = step else { return Ok(Some(())) };
        match self.silent.redeem(step.project, step.product, step.id, code).await {
            Err(RedeemError::Read(crate::checks::ReadError::Store(error))) => Err(error),
            // A wrong or late code changes nothing that the page does not show.
            Ok(_) | Err(_) => Ok(Some(())),
        }
    }

    pub(super) async fn load_by_token(&self, token: &str) -> Result<Option<Current>, StoreError> {
        let Some(id) = self.verification_of_token(token)? else { return Ok(None) };
        let Some(current) = self.load(id).await? else { return Ok(None) };
        let is_shown = match current.record.check.state {
            Lifecycle::Open(_) => true,
            Lifecycle::Concluded { at, .. } => self.context.now().duration_since(at) <= SHOWN_AFTER_END,
        };
        Ok(is_shown.then_some(current))
    }
}
