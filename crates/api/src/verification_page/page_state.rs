//! What the hosted page shows for a verification: its state, the brand, and the result for the company's page.

use jiff::Timestamp;
use ringtrue_domain::{reverse_sms::Platform, verification::Method, web_url::RESULT_PARAMETERS};
use ringtrue_engine::verifications::{PageFailure, PageState, PageView};
use ringtrue_verification_page::{self as page, Confirming, EndMessage, Failure, SmsToSend};
use url::{Url, form_urlencoded};

/// The result of a verification, as the page reports it to the company's page that opened it.
pub struct EndResult {
    parameters: String,
    return_origin: Option<String>,
}

impl EndResult {
    /// `None`: the verification has no result yet, or the result is for another browser.
    pub fn of(view: &PageView) -> Option<Self> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let return_to = view.state.return_to().and_then(|url| Url::parse(url).ok());
        match &return_to {
            // The company's own redirect URL has none of these parameters, so they all belong to the result.
            Some(url) => {
                query.extend_pairs(url.query_pairs().filter(|(name, _)| RESULT_PARAMETERS.contains(&name.as_ref())))
            }
            None if page_state(view, Platform::Unknown).is_final() => query
                .append_pair("verification_id", &view.verification.to_string())
                .extend_pairs(view.state.return_error().map(|error| ("error", error)))
                .extend_pairs(view.reference.as_ref().map(|reference| ("reference_id", reference.as_str()))),
            None => return None,
        };
        let return_origin = return_to.map(|url| url.origin().ascii_serialization());
        Some(EndResult { parameters: query.finish(), return_origin })
    }

    pub fn message(&self) -> EndMessage<'_> {
        EndMessage { result: &self.parameters, return_origin: self.return_origin.as_deref() }
    }
}

/// Derives the page's state from the state of the verification.
pub fn page_state(view: &PageView, platform: Platform) -> page::State<'_> {
    match &view.state {
        PageState::Silent { waits_until: Some(_), .. } => page::State::Elsewhere,
        PageState::Silent { has_begun: true, .. } => page::State::Stalled,
        PageState::Silent { .. } if starts_by_itself(view) => page::State::Silent,
        PageState::Silent { .. } => page::State::Start { own_url: None },
        PageState::Returned { code: None, .. } => page::State::Confirming(Confirming::Elsewhere),
        PageState::Returned { return_to: Some(url), .. } => page::State::Confirming(Confirming::Return(url)),
        PageState::Returned { return_to: None, .. } => page::State::Confirming(Confirming::Finish),
        PageState::SendSms { receiver, sms_body: body, has_arrived, came_from_other_number } => {
            let (has_arrived, came_from_other_number) = (*has_arrived, *came_from_other_number);
            page::State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number })
        }
        PageState::SimSwap => page::State::SimSwap,
        PageState::Done { matched: true, return_to, .. } => page::State::Done { return_to: return_to.as_deref() },
        PageState::Done { matched: false, return_to, method } => page::State::NotMatched {
            is_phone: *method == Some(Method::SecureSna) && platform != Platform::Unknown,
            return_to: return_to.as_deref(),
        },
        PageState::Failed { reason, return_to } => {
            let reason = match reason {
                PageFailure::MethodsExhausted | PageFailure::InternalError => Failure::Exhausted,
                PageFailure::GivenUp => Failure::GivenUp,
                PageFailure::WrongNumber => Failure::WrongNumber,
                PageFailure::Cancelled => Failure::Cancelled,
            };
            page::State::Failed { reason, return_to: return_to.as_deref() }
        }
        PageState::Expired { return_to } => page::State::Expired { return_to: return_to.as_deref() },
    }
}

/// Returns whether the page starts the silent check without a tap. This requires a redirect URL, so that the code
/// returns to the user's session at the company. The page does it only once: it must not send a browser again and again
/// to an operator that does not answer.
pub fn starts_by_itself(view: &PageView) -> bool {
    view.has_redirect_url && matches!(view.state, PageState::Silent { has_begun: false, .. })
}

/// Returns the brand to show: the configured one, with the project's name as the default. `None` without any name.
pub fn brand(view: &PageView) -> Option<page::Brand<'_>> {
    page::Brand::from_settings(&view.brand, view.project_name.as_ref())
}

pub fn seconds_until(end: Timestamp, now: Timestamp) -> u32 {
    u32::try_from(end.duration_since(now).as_secs()).unwrap_or_default()
}
