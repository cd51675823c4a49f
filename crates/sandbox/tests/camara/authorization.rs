use ringtrue_sandbox::camara::{Client, OperatorConfig, Scope};

use crate::{EVEN, ODD, REDIRECT_URI, SHARE, SIM_SWAP, VERIFY, World, asking, but};

const BOTH: &str =
    "openid dpv:ServiceProvision number-verification:verify number-verification:device-phone-number:read";

#[tokio::test]
async fn a_device_comes_back_with_a_code() {
    let world = World::start().await;
    let hashed = "dpv:FraudPreventionAndDetection#number-verification:verify";
    let hint = format!("tel:{EVEN}");
    for parameters in [
        asking(EVEN, VERIFY),
        asking(&hint, VERIFY),
        asking(EVEN, hashed),
        asking(EVEN, SIM_SWAP),
        but(asking(EVEN, VERIFY), "prompt", "none"),
        but(asking(EVEN, VERIFY), "response_mode", "query"),
        but(asking(EVEN, VERIFY), "acr_values", "2"),
        but(but(asking(EVEN, VERIFY), "code_challenge", ""), "code_challenge_method", ""),
        but(but(asking(EVEN, VERIFY), "state", ""), "nonce", ""),
    ] {
        let reply = world.authorize(&parameters).await;
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let back = reply.sent_back();
        assert!(back["code"].len() >= 43, "{parameters:?}");
        assert_eq!(back["iss"], world.operator.issuer());
        assert_eq!(back["from"], "operator");
        let state = parameters.iter().find(|(name, _)| *name == "state").map(|(_, state)| *state);
        assert_eq!(back.get("state").map(String::as_str), state);
        assert!(!back.contains_key("error"));
    }
}

#[tokio::test]
async fn the_last_two_digits_of_the_sim_decide() {
    let world = World::start().await;
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
        let back = world.sent_back(&asking(sim, scope)).await;
        let error = back.get("error").map_or("", String::as_str);
        assert_eq!(error, expected, "{sim} {scope}");
        assert_eq!(back.contains_key("code"), expected.is_empty(), "{sim} {scope}");
        assert_eq!((back["state"].as_str(), back["iss"].as_str()), ("the state", world.operator.issuer()));
    }
}

#[tokio::test]
async fn a_silent_network_sends_nobody_back() {
    let world = World::start().await;
    let reply = world.authorize(&asking("+990123456798", VERIFY)).await;
    assert_eq!((reply.status, reply.text()), (200, "the simulated network stays silent"));
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(reply.header("location"), None);
}

#[tokio::test]
async fn a_device_that_names_no_sim_has_the_usual_one() {
    let nameless = but(asking(EVEN, VERIFY), "login_hint", "");
    let world = World::start().await;
    assert_eq!(world.sent_back(&nameless).await["error"], "login_required");
    let config = OperatorConfig { default_sim: Some(EVEN.parse().unwrap()), ..OperatorConfig::default() };
    let world = World::with(config).await;
    assert!(world.sent_back(&nameless).await.contains_key("code"));
}

#[tokio::test]
async fn a_bad_request_is_told_to_the_client() {
    let config = OperatorConfig {
        clients: vec![Client::new("limited").redirecting_to(REDIRECT_URI).limited_to(&[Scope::VerifyNumber])],
        ..OperatorConfig::default()
    };
    let world = World::with(config).await;
    let good = || asking(EVEN, VERIFY);
    for (parameters, expected) in [
        (but(good(), "response_type", ""), "invalid_request"),
        (but(good(), "response_type", "token"), "unsupported_response_type"),
        (but(good(), "response_type", "code id_token"), "unsupported_response_type"),
        (but(good(), "response_mode", "fragment"), "invalid_request"),
        (but(good(), "prompt", "login"), "interaction_required"),
        (but(good(), "prompt", "none consent"), "invalid_request"),
        (but(good(), "scope", ""), "invalid_scope"),
        (but(good(), "scope", "openid number-verification:verify"), "invalid_scope"),
        (but(good(), "scope", "dpv:A dpv:B number-verification:verify"), "invalid_scope"),
        (but(good(), "scope", "dpv:A offline_access"), "invalid_scope"),
        (but(asking(EVEN, SHARE), "client_id", "limited"), "invalid_scope"),
        (but(good(), "code_challenge_method", "plain"), "invalid_request"),
        (but(good(), "code_challenge_method", ""), "invalid_request"),
        (but(good(), "code_challenge", ""), "invalid_request"),
        (but(good(), "code_challenge", "short"), "invalid_request"),
        (but(but(but(good(), "code_challenge", ""), "code_challenge_method", ""), "nonce", ""), "invalid_request"),
        (but(good(), "login_hint", "tel:123"), "invalid_request"),
        (but(good(), "login_hint", "nobody"), "invalid_request"),
        (but(good(), "request_uri", "https://client.example/request"), "request_uri_not_supported"),
        ([good(), vec![("scope", VERIFY)]].concat(), "invalid_request"),
    ] {
        let back = world.sent_back(&parameters).await;
        assert_eq!(back["error"], expected, "{parameters:?}");
        assert_eq!((back["state"].as_str(), back["iss"].as_str()), ("the state", world.operator.issuer()));
        assert!(!back.contains_key("code"));
    }
}

#[tokio::test]
async fn nobody_is_sent_to_where_no_client_is_known() {
    let world = World::start().await;
    for parameters in [
        but(asking(EVEN, VERIFY), "client_id", ""),
        but(asking(EVEN, VERIFY), "client_id", "nobody"),
        but(asking(EVEN, VERIFY), "redirect_uri", ""),
        but(asking(EVEN, VERIFY), "redirect_uri", "https://client.example/back"),
        but(asking(EVEN, VERIFY), "redirect_uri", "https://client.example/back?from=operator&more"),
        but(asking(EVEN, VERIFY), "redirect_uri", "https://attacker.example/"),
    ] {
        let reply = world.authorize(&parameters).await;
        assert_eq!(reply.status, 400, "{parameters:?}");
        assert_eq!(reply.header("location"), None);
    }
}
