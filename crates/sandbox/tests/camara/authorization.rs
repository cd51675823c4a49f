use ringtrue_sandbox::camara::{OAuthClient, OperatorConfig, Scope};

use crate::{
    EVEN, Fixture, ODD, REDIRECT_URI, SHARE, SIM_SWAP, VERIFY, authorization_parameters, with_parameter, without,
};

const BOTH: &str =
    "openid dpv:ServiceProvision number-verification:verify number-verification:device-phone-number:read";

#[tokio::test]
async fn device_is_redirected_with_a_code() {
    let fixture = Fixture::start().await;
    let hashed = "dpv:FraudPreventionAndDetection#number-verification:verify";
    let hint = format!("tel:{EVEN}");
    for parameters in [
        authorization_parameters(EVEN, VERIFY),
        authorization_parameters(&hint, VERIFY),
        authorization_parameters(EVEN, hashed),
        authorization_parameters(EVEN, SIM_SWAP),
        with_parameter(authorization_parameters(EVEN, VERIFY), "prompt", "none"),
        with_parameter(authorization_parameters(EVEN, VERIFY), "response_mode", "query"),
        with_parameter(authorization_parameters(EVEN, VERIFY), "acr_values", "2"),
        without(authorization_parameters(EVEN, VERIFY), &["code_challenge", "code_challenge_method"]),
        without(authorization_parameters(EVEN, VERIFY), &["state", "nonce"]),
    ] {
        let response = fixture.authorize(&parameters).await;
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let redirect = response.redirect_parameters();
        assert!(redirect["code"].len() >= 43, "{parameters:?}");
        assert_eq!(redirect["iss"], fixture.operator.issuer());
        assert_eq!(redirect["from"], "operator");
        let state = parameters.iter().find(|(name, _)| *name == "state").map(|(_, state)| *state);
        assert_eq!(redirect.get("state").map(String::as_str), state);
        assert!(!redirect.contains_key("error"));
    }
}

#[tokio::test]
async fn last_two_digits_select_the_outcome() {
    let fixture = Fixture::start().await;
    for (sim, scope, expected) in [
        ("+990123456799", VERIFY, "server_error"),
        ("+990123456797", VERIFY, ""),
        ("+990123456796", VERIFY, ""),
        ("+990123456795", VERIFY, "temporarily_unavailable"),
        ("+990123456795", SHARE, "temporarily_unavailable"),
        ("+990123456794", VERIFY, ""),
        ("+990123456793", VERIFY, "server_error"),
        (EVEN, VERIFY, ""),
        (EVEN, SHARE, ""),
        (ODD, VERIFY, ""),
        (ODD, SHARE, "login_required"),
        (ODD, BOTH, ""),
    ] {
        let redirect = fixture.redirect_parameters(&authorization_parameters(sim, scope)).await;
        let error = redirect.get("error").map_or("", String::as_str);
        assert_eq!(error, expected, "{sim} {scope}");
        assert_eq!(redirect.contains_key("code"), expected.is_empty(), "{sim} {scope}");
        assert_eq!((redirect["state"].as_str(), redirect["iss"].as_str()), ("the state", fixture.operator.issuer()));
    }
}

#[tokio::test]
async fn network_timeout_causes_no_redirect() {
    let fixture = Fixture::start().await;
    let response = fixture.authorize(&authorization_parameters("+990123456798", VERIFY)).await;
    assert_eq!((response.status, response.text()), (504, "simulated network timeout: no redirect"));
    assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(response.header("location"), None);
}

#[tokio::test]
async fn default_sim_applies_without_login_hint() {
    let without_hint = with_parameter(authorization_parameters(EVEN, VERIFY), "login_hint", "");
    let fixture = Fixture::start().await;
    assert_eq!(fixture.redirect_parameters(&without_hint).await["error"], "login_required");
    let config = OperatorConfig { default_sim: Some(EVEN.parse().unwrap()), ..OperatorConfig::default() };
    let fixture = Fixture::with_config(config).await;
    assert!(fixture.redirect_parameters(&without_hint).await.contains_key("code"));
}

#[tokio::test]
async fn invalid_request_is_reported_by_redirect() {
    let config = OperatorConfig {
        clients: vec![OAuthClient::new("limited").with_redirect_uri(REDIRECT_URI).with_scopes(&[Scope::VerifyNumber])],
        ..OperatorConfig::default()
    };
    let fixture = Fixture::with_config(config).await;
    let valid = || authorization_parameters(EVEN, VERIFY);
    for (parameters, expected) in [
        (with_parameter(valid(), "response_type", ""), "invalid_request"),
        (with_parameter(valid(), "response_type", "token"), "unsupported_response_type"),
        (with_parameter(valid(), "response_type", "code id_token"), "unsupported_response_type"),
        (with_parameter(valid(), "response_mode", "fragment"), "invalid_request"),
        (with_parameter(valid(), "prompt", "login"), "interaction_required"),
        (with_parameter(valid(), "prompt", "none consent"), "invalid_request"),
        (with_parameter(valid(), "scope", ""), "invalid_scope"),
        (with_parameter(valid(), "scope", "openid number-verification:verify"), "invalid_scope"),
        (with_parameter(valid(), "scope", "dpv:A dpv:B number-verification:verify"), "invalid_scope"),
        (with_parameter(valid(), "scope", "dpv:A offline_access"), "invalid_scope"),
        (with_parameter(valid(), "scope", "dpv: number-verification:verify"), "invalid_scope"),
        (with_parameter(valid(), "scope", "dpv:A#sim-swap dpv:B#number-verification:verify"), "invalid_scope"),
        (with_parameter(valid(), "scope", "dpv:A#"), "invalid_scope"),
        (with_parameter(authorization_parameters(EVEN, SHARE), "client_id", "limited"), "invalid_scope"),
        (with_parameter(valid(), "code_challenge_method", "plain"), "invalid_request"),
        (with_parameter(valid(), "code_challenge_method", ""), "invalid_request"),
        (with_parameter(valid(), "code_challenge", ""), "invalid_request"),
        (with_parameter(valid(), "code_challenge", "short"), "invalid_request"),
        (without(valid(), &["code_challenge", "code_challenge_method", "nonce"]), "invalid_request"),
        (with_parameter(valid(), "login_hint", "tel:123"), "invalid_request"),
        (with_parameter(valid(), "login_hint", "unknown"), "invalid_request"),
        (with_parameter(valid(), "request_uri", "https://client.example/request"), "request_uri_not_supported"),
        ([valid(), vec![("scope", VERIFY)]].concat(), "invalid_request"),
    ] {
        let redirect = fixture.redirect_parameters(&parameters).await;
        assert_eq!(redirect["error"], expected, "{parameters:?}");
        assert_eq!((redirect["state"].as_str(), redirect["iss"].as_str()), ("the state", fixture.operator.issuer()));
        assert!(!redirect.contains_key("code"));
    }
}

#[tokio::test]
async fn unregistered_redirect_uri_causes_no_redirect() {
    let fixture = Fixture::start().await;
    for parameters in [
        with_parameter(authorization_parameters(EVEN, VERIFY), "client_id", ""),
        with_parameter(authorization_parameters(EVEN, VERIFY), "client_id", "unknown"),
        with_parameter(authorization_parameters(EVEN, VERIFY), "redirect_uri", ""),
        with_parameter(authorization_parameters(EVEN, VERIFY), "redirect_uri", "https://client.example/back"),
        with_parameter(
            authorization_parameters(EVEN, VERIFY),
            "redirect_uri",
            "https://client.example/back?from=operator&more",
        ),
        with_parameter(authorization_parameters(EVEN, VERIFY), "redirect_uri", "https://attacker.example/"),
    ] {
        let response = fixture.authorize(&parameters).await;
        assert_eq!(response.status, 400, "{parameters:?}");
        assert_eq!(response.header("location"), None);
    }
}
