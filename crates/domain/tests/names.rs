//! The names of enum variants. They are part of the API, the database and callbacks, so none may change.

use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

use ringtrue_domain::{
    account::Role,
    audit::Action,
    eligibility::EligibilityGate,
    key_schedule::KeyState,
    lifecycle::{CheckStatus, ErrorCode},
    product::Product,
    region::Region,
    tenancy::Mode,
    verification::Method,
};
use strum::VariantArray as _;

fn assert_names<E: Copy + Into<&'static str>>(variants: &[E], names: &[&str]) {
    assert_eq!(variants.iter().map(|variant| (*variant).into()).collect::<Vec<&str>>(), names);
}

/// Asserts that each variant has its name, and that only the exact name is parsed.
fn assert_parsed_names<E>(variants: &[E], names: &[&str], error: &str)
where
    E: Copy + Debug + PartialEq + Into<&'static str> + FromStr<Err: Display>,
{
    assert_names(variants, names);
    let parse = |text: &str| text.parse::<E>().map_err(|error| error.to_string());
    for (variant, name) in variants.iter().zip(names) {
        assert_eq!(parse(name), Ok(*variant));
        let other_case = name.chars().map(|letter| {
            if letter.is_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() }
        });
        for unknown in [other_case.collect(), format!(" {name}"), format!("{name}s"), format!("{variant:?}")] {
            assert_eq!(parse(&unknown), Err(error.to_owned()), "{unknown:?}");
        }
    }
    assert_eq!(parse(""), Err(error.to_owned()));
}

#[test]
fn names_are_stable() {
    assert_parsed_names(&[Region::Eu, Region::Us], &["eu", "us"], "unknown region; use `eu` or `us`");
    assert_parsed_names(Mode::VARIANTS, &["sandbox", "live"], "unknown mode; use `sandbox` or `live`");
    assert_parsed_names(
        Role::VARIANTS,
        &["viewer", "developer", "owner"],
        "unknown role; use `viewer`, `developer` or `owner`",
    );
    assert_parsed_names(
        Product::VARIANTS,
        &["reverse_sms", "secure_sna", "discovery", "sim_swap", "eligibility", "verification", "sign_in"],
        "unknown product; use `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility`, \
         `verification` or `sign_in`",
    );
    assert_parsed_names(
        Method::VARIANTS,
        &["secure_sna", "reverse_sms"],
        "unknown method; use `secure_sna` or `reverse_sms`",
    );
    assert_parsed_names(
        CheckStatus::VARIANTS,
        &["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"],
        "unknown status",
    );
    assert_names(
        &[KeyState::Next, KeyState::Active, KeyState::Retiring, KeyState::Gone],
        &["next", "active", "retiring", "gone"],
    );
    assert_names(
        &[EligibilityGate::Connectivity, EligibilityGate::Authorisation, EligibilityGate::ProductSupport],
        &["connectivity", "authorisation", "product support"],
    );
}

#[test]
fn error_codes_are_stable() {
    let names = [
        "internal_error",
        "not_mobile_ip",
        "ip_mismatch",
        "ip_msisdn_mismatch",
        "mno_not_supported",
        "mno_redirect_unsupported",
        "mno_timeout",
        "mno_user_not_found",
        "mno_response_error",
        "mno_server_error",
        "mno_no_data_available",
        "code_attempts_exceeded",
        "methods_exhausted",
        "given_up",
        "wrong_number",
        "cancelled",
        "too_many_requests",
    ];
    assert_parsed_names(ErrorCode::VARIANTS, &names, "unknown error code of a check");
}

#[test]
fn audit_actions_are_stable() {
    let names = [
        "workspace.created",
        "workspace.updated",
        "project.created",
        "project.updated",
        "project.allowed_networks_replaced",
        "credential.created",
        "credential.deleted",
        "key.created",
        "key.rotated",
        "key.resealed",
        "number.erased",
        "number.searched",
        "sign_in.tested",
        "account.created",
        "account.made_admin",
        "account.signed_in",
        "account.sign_in_failed",
        "account.signed_out",
        "account.password_set",
        "account.admin_removed",
        "account.disabled",
        "account.enabled",
        "account.reset",
        "account.link_created",
        "account.session_ended",
        "account.identity_linked",
        "account.identity_unlinked",
        "account.second_factor_enabled",
        "account.second_factor_disabled",
        "account.recovery_code_used",
        "invitation.created",
        "invitation.withdrawn",
        "membership.granted",
        "membership.changed",
        "membership.withdrawn",
        "callback.resent",
        "database.restored",
    ];
    assert_parsed_names(Action::VARIANTS, &names, "unknown action");
}
