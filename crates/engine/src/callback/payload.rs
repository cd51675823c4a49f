//! What a callback says: its JSON, as the specification words it.
//!
//! Rendered from a [`Concluded`], so a callback about an open check cannot be written. Each product says something of
//! its own about a completed check; the rest is the same for all.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Concluded, ErrorCode, Reference, Status},
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::SenderMatch,
    silent::Proof,
};
use serde::Serialize;

/// Set on callbacks of expired checks; the check itself has no error code then.
const CHECK_EXPIRED: &str = "check_expired";

/// RFC 3339, UTC, milliseconds.
const TIMES: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

#[derive(Serialize)]
struct Body<'a> {
    check_id: String,
    status: &'static str,
    #[serde(flatten)]
    verdict: Said<'a>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
}

/// What a product says of a completed check.
#[derive(Default, Serialize)]
struct Said<'a> {
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<&'a str>,
}

/// The callback of a check. `number` is the one that the check has found out, if it has.
#[expect(clippy::expect_used, reason = "strings and booleans always have a JSON form")]
pub(crate) fn render(concluded: &Concluded<AnyVerdict>, number: Option<&Msisdn>) -> Vec<u8> {
    let check = concluded.check();
    let status = check.status();
    let network_id = check.network.as_ref().map(NetworkId::as_str);
    let body = Body {
        check_id: check.id.to_string(),
        status: status.as_str(),
        verdict: match check.verdict() {
            // SIM Swap has no callbacks: its caller has the answer.
            None | Some(AnyVerdict::Sim(_)) => Said::default(),
            Some(AnyVerdict::Sender(SenderMatch(matched))) => Said { matched: Some(*matched), ..Said::default() },
            Some(AnyVerdict::Device(Proof::Match(matched))) => {
                Said { matched: Some(*matched), network_id, ..Said::default() }
            }
            // The network is on the check, and not in its callback.
            Some(AnyVerdict::Device(Proof::Number(_))) => {
                Said { phone_number: number.map(Msisdn::as_str), ..Said::default() }
            }
        },
        created_at: time(check.created_at),
        updated_at: check.updated_at().map(time),
        reference_id: check.reference.as_ref().map(Reference::as_str),
        error_code: match status {
            Status::Expired => Some(CHECK_EXPIRED),
            _ => check.error_code().map(ErrorCode::as_str),
        },
    };
    serde_json::to_vec(&body).expect("a callback is JSON")
}

fn time(instant: Timestamp) -> String {
    TIMES.timestamp_to_string(&instant)
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{
        lifecycle::{Check, CheckId, ClaimedNumber, DiscoveredNumber, Lifecycle, NumberHash, Open},
        product::Product,
        reverse_sms::{ReceivedFrom, ReverseSmsCheck},
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
            redirect_url: None,
            created_at: "2026-11-14T09:30:00Z".parse().unwrap(),
            expires_at: "2026-11-14T09:35:00Z".parse().unwrap(),
            state: Lifecycle::Open(Open::Accepted),
        }
    }

    fn rendered<V: Into<AnyVerdict>>(concluded: Concluded<V>, number: Option<&str>) -> String {
        let number = number.map(|number| Msisdn::parse(number, Mode::Sandbox).unwrap());
        String::from_utf8(render(&concluded.map(Into::into), number.as_ref())).unwrap()
    }

    fn silent(product: Product) -> SilentCheck {
        let check = check(None).map(|_| Proof::Match(true));
        Check { product, network: Some("23410".parse().unwrap()), ..check }
    }

    #[test]
    fn secure_sna_names_the_network_and_discovery_the_number() {
        let at = "2026-11-14T09:30:01.25Z".parse().unwrap();
        let matched = silent(Product::SecureSna).redeem(Proof::Match(true), at).unwrap();
        assert_eq!(
            rendered(matched, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","match":true,"network_id":"23410","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z"}"#
        );
        let number = DiscoveredNumber { number: check(None).claimed, sealed: None };
        let found = silent(Product::Discovery).redeem(Proof::Number(number), at).unwrap();
        assert_eq!(
            rendered(found, Some("+99000000010")),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","phone_number":"+99000000010","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z"}"#
        );
        let failed = silent(Product::SecureSna).fail(ErrorCode::MnoTimeout, at).unwrap();
        assert!(rendered(failed, None).ends_with(r#""error_code":"mno_timeout"}"#));
    }

    #[test]
    fn a_completed_check_says_whether_the_number_matched() {
        let at = "2026-11-14T09:30:01.25Z".parse().unwrap();
        let matched = check(Some("order \"7\"")).receive(ReceivedFrom::Number(OURS), at).unwrap().unwrap();
        assert_eq!(
            rendered(matched, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"COMPLETED","match":true,"created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.250Z","reference_id":"order \"7\""}"#
        );
        let other = ReceivedFrom::Number(NumberHash([2; 32]));
        assert!(rendered(check(None).receive(other, at).unwrap().unwrap(), None).contains(r#""match":false"#));
    }

    #[test]
    fn an_expired_check_carries_its_own_code_and_no_match() {
        assert_eq!(
            rendered(check(None).expire().unwrap(), None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"EXPIRED","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:35:00.000Z","error_code":"check_expired"}"#
        );
    }

    #[test]
    fn an_error_is_named() {
        let at = "2026-11-14T09:30:01Z".parse().unwrap();
        let failed = check(None).receive(ReceivedFrom::Unattributed, at).unwrap().unwrap();
        assert_eq!(
            rendered(failed, None),
            r#"{"check_id":"00000000-0000-0000-0000-000000000007","status":"ERROR","created_at":"2026-11-14T09:30:00.000Z","updated_at":"2026-11-14T09:30:01.000Z","error_code":"internal_error"}"#
        );
    }
}
