//! Renders the JSON body of callbacks, as specified by the API.
//!
//! The input is a [`Concluded`] check, so a callback about an open check cannot be built. Verifications have a body of
//! their own. For the other products, only the verdict fields differ.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check, CheckStatus, Concluded, Reference},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    reverse_sms::SenderMatch,
    silent::OperatorVerdict,
    verification::{Method, Progress, Step, StepState, VerificationVerdict},
};
use serde::Serialize;

/// The `error_code` in callbacks of expired checks. An expired check has no error code of its own.
const CHECK_EXPIRED: &str = "check_expired";

/// Format of all times in callbacks: RFC 3339 in UTC, with milliseconds.
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

/// Fields that depend on the product. Only completed checks have them.
#[derive(Default, Serialize)]
struct VerdictFields<'a> {
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<&'a str>,
}

/// Renders the callback body of a check. `number` is the number that a Discovery check found.
#[expect(clippy::expect_used, reason = "strings and booleans always have a JSON form")]
pub(crate) fn render(concluded: &Concluded<AnyVerdict>, number: Option<&Msisdn>) -> Vec<u8> {
    let check = concluded.check();
    let network_id = check.network.as_ref().map(NetworkId::as_str);
    let body = CallbackBody {
        check_id: check.id.to_string(),
        status: check.status().into_str(),
        verdict: match check.verdict() {
            // SIM Swap is synchronous and has no callbacks. `render_verification` renders verifications.
            None | Some(AnyVerdict::Sim(_) | AnyVerdict::Verification(_)) => VerdictFields::default(),
            Some(AnyVerdict::Sender(SenderMatch(matched))) => {
                VerdictFields { matched: Some(*matched), ..VerdictFields::default() }
            }
            Some(AnyVerdict::Device(OperatorVerdict::Match(matched))) => {
                VerdictFields { matched: Some(*matched), network_id, ..VerdictFields::default() }
            }
            // By the specification, Discovery callbacks do not contain the network.
            Some(AnyVerdict::Device(OperatorVerdict::Number(_))) => {
                VerdictFields { phone_number: number.map(Msisdn::as_str), ..VerdictFields::default() }
            }
        },
        created_at: format_time(check.created_at),
        updated_at: check.updated_at().map(format_time),
        reference_id: check.reference.as_ref().map(Reference::as_str),
        error_code: error_code(check),
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
    expires_at: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// A step of a verification, in callbacks and in the API.
#[derive(Debug, Serialize)]
pub struct StepBody {
    method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    check_id: Option<String>,
    status: &'static str,
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

impl StepBody {
    /// Renders a step. `open_status`: the status of the step's check, used while the step is open. `None`: an open step
    /// is shown as `ACCEPTED`.
    pub fn new(step: &Step, open_status: Option<CheckStatus>) -> Self {
        let status = step.state.ended_status().or(open_status).unwrap_or(CheckStatus::Accepted);
        StepBody {
            method: step.product.into_str(),
            check_id: step.check.map(|check| check.to_string()),
            status: status.into_str(),
            // A SIM Swap step has no match. The verification shows its result as `no_sim_change`.
            matched: match step.state {
                StepState::Completed { matched } if step.product != Product::SimSwap => Some(matched),
                _ => None,
            },
            error_code: match step.state {
                StepState::Expired => Some(CHECK_EXPIRED),
                state => state.error_code().map(|code| code.into_str()),
            },
        }
    }
}

/// Renders the callback body of a verification. `progress` contains its steps in their final state.
#[expect(clippy::expect_used, reason = "strings and booleans always have a JSON form")]
pub(crate) fn render_verification(concluded: &Concluded<VerificationVerdict>, progress: &Progress) -> Vec<u8> {
    let check = concluded.check();
    let verdict = check.verdict();
    let body = VerificationCallbackBody {
        verification_id: check.id.to_string(),
        status: check.status().into_str(),
        matched: verdict.map(|verdict| verdict.matched),
        method: verdict.map(|verdict| verdict.method.into_str()),
        no_sim_change: verdict.and_then(|verdict| verdict.no_sim_change),
        methods: progress.methods.iter().map(Method::into_str).collect(),
        steps: progress.steps.iter().map(|step| StepBody::new(step, None)).collect(),
        expires_at: format_time(check.expires_at),
        created_at: format_time(check.created_at),
        updated_at: check.updated_at().map(format_time),
        reference_id: check.reference.as_ref().map(Reference::as_str),
        error_code: error_code(check),
    };
    serde_json::to_vec(&body).expect("a callback is JSON")
}

fn error_code<V: Clone>(check: &Check<V>) -> Option<&'static str> {
    match check.status() {
        CheckStatus::Expired => Some(CHECK_EXPIRED),
        _ => check.error_code().map(|code| code.into_str()),
    }
}

fn format_time(instant: Timestamp) -> String {
    RFC3339_MILLIS.timestamp_to_string(&instant)
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{
        lifecycle::{
            CheckId, CheckOutcome, DiscoveredNumber, ErrorCode, Lifecycle, NumberHash, OpenState, StoredNumber,
        },
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
            claimed: Some(StoredNumber { hash: OURS, tail: "23".parse().unwrap() }),
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

    #[test]
    fn verification_has_its_method_and_steps() {
        let step = |product, state| Step { product, check: Some(CheckId(Uuid::from_u128(8))), state };
        let mut progress = Progress::new(vec![Method::SecureSna, Method::ReverseSms], false, None);
        progress.steps = vec![
            step(Product::SecureSna, StepState::Error(ErrorCode::NotMobileIp)),
            step(Product::ReverseSms, StepState::Completed { matched: true }),
            Step { check: None, ..step(Product::SimSwap, StepState::Error(ErrorCode::MnoTimeout)) },
        ];
        let verdict = VerificationVerdict { matched: true, method: Method::ReverseSms, no_sim_change: None };
        let verification = Check { product: Product::Verification, ..check(Some("order-7")).map(|_| verdict) };
        let at = "2026-11-14T09:30:01.25Z".parse().unwrap();
        let concluded = verification.clone().conclude_with_outcome(CheckOutcome::Completed(verdict), at).unwrap();
        assert_eq!(
            String::from_utf8(render_verification(&concluded, &progress)).unwrap(),
            r#"{"verification_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","match":true,"method":"reverse_sms","methods":["secure_sna","reverse_sms"],"steps":[{"method":"secure_sna","check_id":"00000000-0000-0000-0000-000000000008","status":"ERROR","error_code":"not_mobile_ip"},{"method":"reverse_sms","check_id":"00000000-0000-0000-0000-000000000008","status":"COMPLETED","match":true},{"method":"sim_swap","status":"ERROR","error_code":"mno_timeout"}],"expires_at":"2026-11-14T09:35:00.000Z","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z","reference_id":"order-7"}"#
        );
        let expired = render_verification(&verification.expire().unwrap(), &progress);
        assert!(
            String::from_utf8(expired).unwrap().ends_with(r#""reference_id":"order-7","error_code":"check_expired"}"#)
        );
    }
}
