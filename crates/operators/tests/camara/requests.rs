use std::net::IpAddr;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ringtrue_domain::{phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::Clock,
    silent::{OperatorAuthorizationRequest, SilentConnector, SilentOperation, SilentResult},
};
use ringtrue_operators::camara::{
    Algorithm, Audience, CamaraConfig, ClientAuthentication, LoginHintFormat, RequestObjectMode, SIGNING_ALGORITHMS,
    ScopeStyle, Scopes,
};
use serde_json::json;

use super::{
    fake_operator::{NUMBER, ScriptedResponse::Json, TOKEN, VERIFY},
    fixture::{Fixture, REDIRECT_URI, STATE, check, number, query_parameters},
    keys::Key,
};

#[tokio::test]
async fn verify_returns_match_or_mismatch() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)));
    fixture.operator.respond(VERIFY, Json(200, json!({ "devicePhoneNumberVerified": false, "more": 1 })));
    assert_eq!(fixture.verify().await, Ok(SilentResult::Match(false)));

    let requests = fixture.operator.requests_to(VERIFY);
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(request.line(), format!("POST {VERIFY}"));
        assert_eq!(request.text(), r#"{"phoneNumber":"+447700900123"}"#);
        assert_eq!(request.header("authorization"), "Bearer token-of-the-device");
        assert_eq!(request.header("x-correlator"), check().to_string());
        assert_eq!(request.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn discovery_returns_the_number() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.run_check(SilentOperation::DiscoverNumber).await, Ok(SilentResult::Number(number())));
    let requests = fixture.operator.requests_to(NUMBER);
    assert_eq!((requests.len(), &*requests[0].line(), requests[0].text()), (1, &*format!("GET {NUMBER}"), ""));
    assert_eq!(requests[0].header("x-correlator"), check().to_string());
}

#[tokio::test]
async fn simulated_numbers_require_sandbox_mode() {
    for (mode, is_taken) in [(Mode::Live, false), (Mode::Sandbox, true)] {
        let fixture = Fixture::with(|config, _| config.mode = mode).await;
        fixture.operator.respond(NUMBER, Json(200, json!({ "devicePhoneNumber": "+990123456" })));
        assert_eq!(fixture.run_check(SilentOperation::DiscoverNumber).await.is_ok(), is_taken, "{mode:?}");
    }
}

#[tokio::test]
async fn api_path_and_hashed_number_are_configurable() {
    let fixture = Fixture::with(|config, operator| {
        config.api_root = operator.url("/camara/");
        config.number_verification_path = "/number-verification/v031".to_owned();
        config.sends_hashed_number = true;
    });
    let fixture = fixture.await;
    let path = "/camara/number-verification/v031/verify";
    fixture.operator.respond(path, Json(200, json!({ "devicePhoneNumberVerified": true })));
    assert_eq!(fixture.verify().await, Ok(SilentResult::Match(true)));
    // Made by `printf %s +447700900123 | sha256sum`.
    let digest = "a8acc3a90a7b4e4dc65e93db9240ed26523050ef754d63b75b5161de76781436";
    assert_eq!(fixture.operator.requests_to(path)[0].text(), format!(r#"{{"hashedPhoneNumber":"{digest}"}}"#));
}

#[tokio::test]
async fn authorization_request_follows_the_profile() {
    let fixture = Fixture::start().await;
    let redirect = fixture.begin(SilentOperation::VerifyNumber(&number())).await.unwrap();
    let query = redirect.location.split_once('?').unwrap().1;
    assert!(!query.contains('+'), "spaces are encoded as %20: {query}");
    let mut query_parameters = query_parameters(&redirect);
    let (nonce, challenge) =
        (query_parameters.remove("nonce").unwrap(), query_parameters.remove("code_challenge").unwrap());
    let expected = [
        ("tenant", "a b"),
        ("response_type", "code"),
        ("client_id", "client id:1"),
        ("redirect_uri", REDIRECT_URI),
        ("scope", "openid dpv:FraudPreventionAndDetection number-verification:verify"),
        ("state", STATE),
        ("prompt", "none"),
        ("code_challenge_method", "S256"),
    ];
    let expected = expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_eq!(query_parameters, expected);
    assert_eq!((nonce.len(), challenge.len()), (22, 43));
    assert!(!format!("{redirect:?} {:?}", fixture.camara).contains("client id"));

    let other = fixture.begin(SilentOperation::VerifyNumber(&number())).await.unwrap();
    assert_ne!(other.connector_data, redirect.connector_data);
}

#[tokio::test]
async fn scope_style_is_configurable() {
    let scopes = |openid, purpose: Option<&str>, style| Scopes {
        openid,
        purpose: purpose.map(str::to_owned),
        style,
        verify: Some("verify".to_owned()),
        device_phone_number: Some("number".to_owned()),
    };
    for (scopes, operation, expected) in [
        (scopes(true, Some("dpv:P"), ScopeStyle::Space), SilentOperation::DiscoverNumber, "openid dpv:P number"),
        (scopes(true, Some("dpv:P"), ScopeStyle::Hash), SilentOperation::DiscoverNumber, "openid dpv:P#number"),
        (scopes(false, Some("dpv:P"), ScopeStyle::Hash), SilentOperation::VerifyNumber(&number()), "dpv:P#verify"),
        (scopes(false, None, ScopeStyle::Hash), SilentOperation::VerifyNumber(&number()), "verify"),
    ] {
        let fixture = Fixture::with(|config, _| config.scopes = scopes).await;
        assert_eq!(query_parameters(&fixture.begin(operation).await.unwrap())["scope"], expected);
    }
}

#[tokio::test]
async fn unsupported_product_is_rejected() {
    let scopes = Scopes { device_phone_number: None, ..Scopes::default() };
    let fixture = Fixture::with(|config, _| config.scopes = scopes).await;
    let served = [Product::SecureSna, Product::Discovery, Product::SimSwap, Product::ReverseSms];
    assert_eq!(served.map(|product| fixture.camara.supports(product)), [true, false, false, false]);
    assert!(fixture.begin(SilentOperation::DiscoverNumber).await.is_err());
    assert!(fixture.operator.requests().is_empty());
}

#[tokio::test]
async fn login_hint_is_configurable() {
    let (claimed, sim) = (number(), Msisdn::parse("+990123456", Mode::Sandbox).unwrap());
    let verify = SilentOperation::VerifyNumber(&claimed);
    let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().unwrap());
    let (live, sandbox) = (Mode::Live, Mode::Sandbox);
    for (style, mode, operation, simulated_sim, device_ip, expected) in [
        (LoginHintFormat::None, sandbox, verify, Some(&sim), v4, None),
        (LoginHintFormat::Tel, live, verify, None, v4, Some("tel:+447700900123")),
        (LoginHintFormat::E164, live, verify, None, v4, Some("+447700900123")),
        (LoginHintFormat::Tel, sandbox, verify, Some(&sim), v4, Some("tel:+990123456")),
        (LoginHintFormat::Tel, live, SilentOperation::DiscoverNumber, None, v4, None),
        (LoginHintFormat::Tel, sandbox, SilentOperation::DiscoverNumber, Some(&sim), v4, Some("tel:+990123456")),
        (LoginHintFormat::IpPort, live, verify, None, v4, Some("ipport:192.0.2.1")),
        (LoginHintFormat::IpPort, live, SilentOperation::DiscoverNumber, None, v6, Some("ipport:[2001:db8::1]")),
    ] {
        let fixture = Fixture::with(|config, _| (config.login_hint, config.mode) = (style, mode)).await;
        let request = OperatorAuthorizationRequest {
            check: check(),
            operation,
            state: STATE,
            simulated_sim,
            device_ip,
            now: fixture.clock.now(),
        };
        let redirect = fixture.camara.begin_authorization(request).await.unwrap();
        assert_eq!(query_parameters(&redirect).get("login_hint").map(String::as_str), expected, "{style:?} {mode:?}");
    }
}

#[tokio::test]
async fn request_object_contains_all_parameters() {
    for algorithm in SIGNING_ALGORITHMS {
        for audience in [Audience::Endpoint, Audience::Issuer] {
            let key = Key::new(algorithm, "of-requests");
            let fixture = Fixture::with(|config, _| {
                config.request_object = RequestObjectMode::Signed { key: key.signing(), audience };
                config.login_hint = LoginHintFormat::Tel;
            });
            let fixture = fixture.await;
            let redirect = fixture.begin(SilentOperation::VerifyNumber(&number())).await.unwrap();
            let mut outside = query_parameters(&redirect);
            let expected = match audience {
                Audience::Endpoint => {
                    fixture.operator.metadata()["authorization_endpoint"].as_str().unwrap().to_owned()
                }
                Audience::Issuer => fixture.operator.issuer(),
            };
            let read = key.verify(&outside.remove("request").unwrap(), &expected);
            assert_eq!(read.header.typ.as_deref(), Some("oauth-authz-req+jwt"));
            outside.remove("tenant");
            let mut names: Vec<_> = outside.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["client_id", "redirect_uri", "response_type", "scope", "state"]);
            for (name, value) in &outside {
                assert_eq!(read.claims[name], **value);
            }
            let now = fixture.clock.now().as_second();
            let claims = &read.claims;
            assert_eq!(
                (&claims["iss"], &claims["iat"], &claims["exp"]),
                (&json!("client id:1"), &json!(now), &json!(now + 300))
            );
            assert_eq!((&claims["login_hint"], &claims["prompt"]), (&json!("tel:+447700900123"), &json!("none")));
            assert!(claims["jti"].is_string() && claims["nonce"].is_string() && claims["code_challenge"].is_string());
            assert!(claims.get("sub").is_none());
        }
    }
}

#[tokio::test]
async fn code_is_redeemed_with_the_code_verifier() {
    let fixture = Fixture::start().await;
    let redirect = fixture.begin(SilentOperation::VerifyNumber(&number())).await.unwrap();
    fixture.complete(SilentOperation::VerifyNumber(&number()), &redirect, &[("code", "a+b c")]).await.unwrap();
    let request = &fixture.operator.requests_to(TOKEN)[0];
    assert_eq!(request.header("content-type"), "application/x-www-form-urlencoded");
    let form = request.form();
    let field = |name: &str| form[name].as_str();
    assert_eq!(
        (field("grant_type"), field("code"), field("redirect_uri")),
        ("authorization_code", "a+b c", REDIRECT_URI)
    );
    let challenge = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, field("code_verifier").as_bytes());
    let challenge = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(challenge);
    assert_eq!(query_parameters(&redirect)["code_challenge"], challenge);

    // Without PKCE an ID token is required. The operator sends none, so the check fails after the token request.
    let without = Fixture::with(|config, _| config.pkce = false).await;
    let redirect = without.begin(SilentOperation::VerifyNumber(&number())).await.unwrap();
    assert!(!query_parameters(&redirect).contains_key("code_challenge"));
    without.complete(SilentOperation::VerifyNumber(&number()), &redirect, &[("code", "c")]).await.unwrap_err();
    assert!(!without.operator.requests_to(TOKEN)[0].form().contains_key("code_verifier"));
}

#[tokio::test]
async fn client_secret_is_sent_in_header_or_form() {
    let fixture = Fixture::start().await;
    fixture.verify().await.unwrap();
    let request = &fixture.operator.requests_to(TOKEN)[0];
    let form = request.form();
    assert_eq!((&*form["client_id"], &*form["client_secret"]), ("client id:1", "secret of ours"));
    assert!(request.find_header("authorization").is_none());

    let basic = ClientAuthentication::SecretBasic("s:ü %".into());
    assert!(format!("{basic:?}").contains("ClientSecret(…)"));
    let fixture = Fixture::with(|config, _| config.client_authentication = basic).await;
    fixture.verify().await.unwrap();
    let request = &fixture.operator.requests_to(TOKEN)[0];
    let expected = format!("Basic {}", BASE64_STANDARD.encode("client+id%3A1:s%3A%C3%BC+%25"));
    assert_eq!(request.header("authorization"), expected);
    assert!(!request.form().contains_key("client_id"));
}

#[tokio::test]
async fn client_assertion_has_the_configured_audience() {
    for algorithm in SIGNING_ALGORITHMS {
        for audience in [Audience::Endpoint, Audience::Issuer] {
            let key = Key::new(algorithm, "of-assertions");
            let authentication = ClientAuthentication::PrivateKeyJwt { key: key.signing(), audience };
            let change = |config: &mut CamaraConfig, _: &_| config.client_authentication = authentication;
            let fixture = Fixture::with(change).await;
            fixture.verify().await.unwrap();
            fixture.verify().await.unwrap();
            let expected = match audience {
                Audience::Endpoint => fixture.operator.url(TOKEN).to_string(),
                Audience::Issuer => fixture.operator.issuer(),
            };
            let claims: Vec<_> = fixture
                .operator
                .requests_to(TOKEN)
                .iter()
                .map(|request| {
                    let form = request.form();
                    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                    key.verify(&form["client_assertion"], &expected).claims
                })
                .collect();
            let now = fixture.clock.now().as_second();
            for claims in &claims {
                assert_eq!((&claims["iss"], &claims["sub"]), (&json!("client id:1"), &json!("client id:1")));
                assert_eq!((&claims["iat"], &claims["exp"]), (&json!(now), &json!(now + 300)));
            }
            assert_ne!(claims[0]["jti"], claims[1]["jti"]);
        }
    }
}

#[tokio::test]
async fn application_token_is_sent_in_the_header() {
    let key = Key::new(Algorithm::RS256, "of-the-application");
    let authentication = ClientAuthentication::BearerJwt { key: key.signing() };
    let fixture = Fixture::with(|config, _| config.client_authentication = authentication).await;
    fixture.verify().await.unwrap();
    let request = &fixture.operator.requests_to(TOKEN)[0];
    let token = request.header("authorization").strip_prefix("Bearer ").unwrap();
    let read = jsonwebtoken::dangerous::insecure_decode::<serde_json::Value>(token).unwrap().claims;
    assert_eq!(read["application_id"], "client id:1");
}
