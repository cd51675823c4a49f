//! JSON body of callbacks, as specified.
//!
//! Rendered from a [`Concluded`], so a callback about an open check cannot be built. Only the verdict fields depend on
//! the product.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use ringtrue_domain::{
    lifecycle::{AnyVerdict, CheckStatus, Concluded, ErrorCode, Reference},
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::SenderMatch,
    silent::OperatorVerdict,
    verification::{Progress, VerificationVerdict},
};
use serde::Serialize;

/// Error code in callbacks of expired checks; the check itself has none.
const CHECK_EXPIRED: &str = "check_expired";

/// RFC 3339, UTC, milliseconds.
const RFC3339_MILLIS: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

#[derive(Serialize)]
struct CallbackBody<'a> {
    check_id: String,
    status: &'static str,
    #[serde(flatten)]
    verdict: VerdictFields<'a>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// Product-specific fields of a completed check.
#[derive(Default, Serialize)]
struct VerdictFields<'a> {
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<&'a str>,
}

/// Renders the callback body. `number` is the discovered number, if any.
#[expect(clippy::expect_used, reason = "strings and booleans always have a JSON form")]
pub(crate) fn render(concluded: &Concluded<AnyVerdict>, number: Option<&Msisdn>) -> Vec<u8> {
    let check = concluded.check();
    let status = check.status();
    let network_id = check.network.as_ref().map(NetworkId::as_str);
    let body = CallbackBody {
        check_id: check.id.to_string(),
        status: status.as_str(),
        verdict: match check.verdict() {
            // SIM Swap has no callbacks: it is synchronous.
            // Callbacks of verifications have a body of their own.
            None | Some(AnyVerdict::Sim(_) | AnyVerdict::Verification(_)) => VerdictFields::default(),
            Some(AnyVerdict::Sender(SenderMatch(matched))) => {
                VerdictFields { matched: Some(*matched), ..VerdictFields::default() }
            }
            Some(AnyVerdict::Device(OperatorVerdict::Match(matched))) => {
                VerdictFields { matched: Some(*matched), network_id, ..VerdictFields::default() }
            }
            // The specification has no network in this callback.
            Some(AnyVerdict::Device(OperatorVerdict::Number(_))) => {
                VerdictFields { phone_number: number.map(Msisdn::as_str), ..VerdictFields::default() }
            }
        },
        created_at: format_time(check.created_at),
        updated_at: check.updated_at().map(format_time),
        reference_id: check.reference.as_ref().map(Reference::as_str),
        error_code: match status {
            CheckStatus::Expired => Some(CHECK_EXPIRED),
            _ => check.error_code().map(ErrorCode::as_str),
        },
    };
    serde_json::to_vec(&body).expect("a callback is JSON")
}

#[derive(Serialize)]
struct VerificationCallbackBody<'a> {
    verification_id: String,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_sim_change: Option<bool>,
    methods: Vec<&'static str>,
    steps: Vec<StepBody>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

#[derive(Serialize)]
struct StepBody {
    method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    check_id: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// Renders the callback body of a verification: the fields of the resource.
#[expect(clippy::expect_used, reason = "strings and booleans always have a JSON form")]
pub(crate) fn render_verification(concluded: &Concluded<VerificationVerdict>, progress: &Progress) -> Vec<u8> {
    let check = concluded.check();
    let verdict = check.verdict();
    let status = check.status();
    let body = VerificationCallbackBody {
        verification_id: check.id.to_string(),
        status: status.as_str(),
        matched: verdict.map(|verdict| verdict.matched),
        method: verdict.map(|verdict| verdict.method.as_str()),
        no_sim_change: verdict.and_then(|verdict| verdict.no_sim_change),
        methods: progress.methods.iter().map(|method| method.as_str()).collect(),
        steps: progress
            .steps
            .iter()
            .map(|step| StepBody {
                method: step.product.as_str(),
                check_id: step.check.map(|check| check.to_string()),
                status: step.state.status().as_str(),
                error_code: step.state.error_code().map(ErrorCode::as_str),
            })
            .collect(),
        created_at: format_time(check.created_at),
        updated_at: check.updated_at().map(format_time),
        reference_id: check.reference.as_ref().map(Reference::as_str),
        error_code: match status {
            CheckStatus::Expired => Some(CHECK_EXPIRED),
            _ => check.error_code().map(ErrorCode::as_str),
        },
    };
    serde_json::to_vec(&body).expect("a callback is JSON")
}

fn format_time(instant: Timestamp) -> String {
    RFC3339_MILLIS.timestamp_to_string(&instant)
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{
        lifecycle::{Check, CheckId, ClaimedNumber, DiscoveredNumber, Lifecycle, NumberHash, OpenState},
        product::Product,
        reverse_sms::{HashedSender, ReverseSmsCheck},
        silent::SilentCheck,
        tenancy::{Mode, ProjectId},
    };
    use uuid::Uuid;

    use super::*;

    const OURS: NumberHash = NumberHash([1; 32]);

    fn check(reference: Option<&str>) -> ReverseSmsCheck {
        Check {
            id: CheckId(Uuid::from_u128(7)),
            project: ProjectId(Uuid::from_u128(1)),
            product: Product::ReverseSms,
            mode: Mode::Live,
            network: None,
            claimed: Some(ClaimedNumber { hash: OURS, tail: "23".parse().unwrap() }),
            reference: reference.map(|text| text.parse().unwrap()),
            callback_url: None,
            verification: None,
            redirect_url: None,
            created_at: "2026-11-14T09:30:00Z".parse().unwrap(),
            expires_at: "2026-11-14T09:35:00Z".parse().unwrap(),
            state: Lifecycle::Open(OpenState::Accepted),
        }
    }

    fn render_text<V: Into<AnyVerdict>>(concluded: Concluded<V>, number: Option<&str>) -> String {
        let number = number.map(|number| Msisdn::parse(number, Mode::Sandbox).unwrap());
        String::from_utf8(render(&concluded.map(Into::into), number.as_ref())).unwrap()
    }

    fn silent(product: Product) -> SilentCheck {
        let check = check(None).map(|_| OperatorVerdict::Match(true));
        Check { product, network: Some("23410".parse().unwrap()), ..check }
    }

    #[test]
    fn secure_sna_has_the_network_and_discovery_the_number() {
        let at = "2026-11-14T09:30:01.25Z".parse().unwrap();
        let matched = silent(Product::SecureSna).conclude_with_verdict(OperatorVerdict::Match(true), at).unwrap();
        assert_eq!(
            render_text(matched, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","match":true,"network_id":"23410","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z"}"#
        );
        let number = DiscoveredNumber { number: check(None).claimed, sealed: None };
        let found = silent(Product::Discovery).conclude_with_verdict(OperatorVerdict::Number(number), at).unwrap();
        assert_eq!(
            render_text(found, Some("+99000000010")),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","phone_number":"+99000000010","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z"}"#
        );
        let failed = silent(Product::SecureSna).conclude_with_error(ErrorCode::MnoTimeout, at).unwrap();
        assert!(render_text(failed, None).ends_with(r#""error_code":"mno_timeout"}"#));
    }

    #[test]
    fn completed_check_has_the_match() {
        let at = "2026-11-14T09:30:01.25Z".parse().unwrap();
        let matched = check(Some("order \"7\"")).evaluate_sms(HashedSender::Number(OURS), at).unwrap();
        assert_eq!(
            render_text(matched, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","match":true,"created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z","reference_id":"order \"7\""}"#
        );
        let other = HashedSender::Number(NumberHash([2; 32]));
        assert!(render_text(check(None).evaluate_sms(other, at).unwrap(), None).contains(r#""match":false"#));
    }

    #[test]
    fn expired_check_has_its_error_code_and_no_match() {
        assert_eq!(
            render_text(check(None).expire().unwrap(), None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"EXPIRED","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:35:00.000Z","error_code":"check_expired"}"#
        );
    }

    #[test]
    fn failed_check_has_its_error_code() {
        let at = "2026-11-14T09:30:01Z".parse().unwrap();
        let failed = check(None).evaluate_sms(HashedSender::Unattributed, at).unwrap();
        assert_eq!(
            render_text(failed, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"ERROR","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.000Z","error_code":"internal_error"}"#
        );
    }
}
