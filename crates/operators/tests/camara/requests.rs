use std::net::IpAddr;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ringtrue_domain::{phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::ports::{Clock, Departure, Question, Reply, SilentRoute};
use ringtrue_operators::camara::{
    Algorithm, Audience, CamaraConfig, ClientAuthentication, LoginHint, RequestObject, ScopeStyle, Scopes,
};
use serde_json::json;

use super::{
    keys::Key,
    operator::{NUMBER, Saying, TOKEN, VERIFY},
    world::{CALLBACK, TICKET, World, carried, check, number},
};

#[tokio::test]
async fn the_number_is_the_devices_or_not() {
    let world = World::start().await;
    assert_eq!(world.verify().await, Ok(Reply::Match(true)));
    world.operator.says(VERIFY, Saying::Json(200, json!({ "devicePhoneNumberVerified": false, "more": 1 })));
    assert_eq!(world.verify().await, Ok(Reply::Match(false)));

    let asked = world.operator.asked(VERIFY);
    assert_eq!(asked.len(), 2);
    for request in asked {
        assert_eq!(request.line, format!("POST {VERIFY} HTTP/1.1"));
        assert_eq!(request.body, r#"{"phoneNumber":"+447700900123"}"#);
        assert_eq!(request.headers["authorization"], "Bearer token-of-the-device");
        assert_eq!(request.headers["x-correlator"], check().to_string());
        assert_eq!(request.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn the_device_has_this_number() {
    let world = World::start().await;
    assert_eq!(world.ask(Question::WhichNumber).await, Ok(Reply::Number(number())));
    let asked = world.operator.asked(NUMBER);
    assert_eq!((asked.len(), &*asked[0].line, &*asked[0].body), (1, &*format!("GET {NUMBER} HTTP/1.1"), ""));
    assert_eq!(asked[0].headers["x-correlator"], check().to_string());
}

#[tokio::test]
async fn simulated_numbers_are_for_sandboxes() {
    for (mode, is_taken) in [(Mode::Live, false), (Mode::Sandbox, true)] {
        let world = World::with(|config, _| config.mode = mode).await;
        world.operator.says(NUMBER, Saying::Json(200, json!({ "devicePhoneNumber": "+990123456" })));
        assert_eq!(world.ask(Question::WhichNumber).await.is_ok(), is_taken, "{mode:?}");
    }
}

#[tokio::test]
async fn older_versions_are_elsewhere_and_some_want_a_digest() {
    let world = World::with(|config, operator| {
        config.api_root = operator.url("/camara/");
        config.number_verification_path = "/number-verification/v031".to_owned();
        config.sends_hashed_number = true;
    });
    let world = world.await;
    let path = "/camara/number-verification/v031/verify";
    world.operator.says(path, Saying::Json(200, json!({ "devicePhoneNumberVerified": true })));
    assert_eq!(world.verify().await, Ok(Reply::Match(true)));
    // printf %s +447700900123 | sha256sum
    let digest = "a8acc3a90a7b4e4dc65e93db9240ed26523050ef754d63b75b5161de76781436";
    assert_eq!(world.operator.asked(path)[0].body, format!(r#"{{"hashedPhoneNumber":"{digest}"}}"#));
}

#[tokio::test]
async fn a_device_carries_what_the_profile_says() {
    let world = World::start().await;
    let journey = world.depart(Question::IsNumber(&number())).await.unwrap();
    let query = journey.location.split_once('?').unwrap().1;
    assert!(!query.contains('+'), "a space is %20, so that nobody reads a plus: {query}");
    let mut carried = carried(&journey);
    let (nonce, challenge) = (carried.remove("nonce").unwrap(), carried.remove("code_challenge").unwrap());
    let expected = [
        ("tenant", "a b"),
        ("response_type", "code"),
        ("client_id", "client id:1"),
        ("redirect_uri", CALLBACK),
        ("scope", "openid dpv:FraudPreventionAndDetection number-verification:verify"),
        ("state", TICKET),
        ("prompt", "none"),
        ("code_challenge_method", "S256"),
    ];
    let expected = expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_eq!(carried, expected);
    assert_eq!((nonce.len(), challenge.len()), (22, 43));
    assert!(!format!("{journey:?} {:?}", world.camara).contains("client id"));

    let other = world.depart(Question::IsNumber(&number())).await.unwrap();
    assert_ne!(other.memory, journey.memory);
}

#[tokio::test]
async fn scopes_are_written_as_the_operator_has_them() {
    let scopes = |openid, purpose: Option<&str>, style| Scopes {
        openid,
        purpose: purpose.map(str::to_owned),
        style,
        verify: Some("verify".to_owned()),
        device_phone_number: Some("number".to_owned()),
    };
    for (scopes, question, expected) in [
        (scopes(true, Some("dpv:P"), ScopeStyle::Space), Question::WhichNumber, "openid dpv:P number"),
        (scopes(true, Some("dpv:P"), ScopeStyle::Hash), Question::WhichNumber, "openid dpv:P#number"),
        (scopes(false, Some("dpv:P"), ScopeStyle::Hash), Question::IsNumber(&number()), "dpv:P#verify"),
        (scopes(false, None, ScopeStyle::Hash), Question::IsNumber(&number()), "verify"),
    ] {
        let world = World::with(|config, _| config.scopes = scopes).await;
        assert_eq!(carried(&world.depart(question).await.unwrap())["scope"], expected);
    }
}

#[tokio::test]
async fn an_operator_that_allows_one_product_is_not_asked_for_the_other() {
    let scopes = Scopes { device_phone_number: None, ..Scopes::default() };
    let world = World::with(|config, _| config.scopes = scopes).await;
    let served = [Product::SecureSna, Product::Discovery, Product::SimSwap, Product::ReverseSms];
    assert_eq!(served.map(|product| world.camara.serves(product)), [true, false, false, false]);
    assert!(world.depart(Question::WhichNumber).await.is_err());
    assert!(world.operator.heard().is_empty());
}

#[tokio::test]
async fn the_operator_is_told_of_the_device_in_its_own_way() {
    let (claimed, sim) = (number(), Msisdn::parse("+990123456", Mode::Sandbox).unwrap());
    let verify = Question::IsNumber(&claimed);
    let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().unwrap());
    let (live, sandbox) = (Mode::Live, Mode::Sandbox);
    for (style, mode, question, sim, device, expected) in [
        (LoginHint::None, sandbox, verify, Some(&sim), v4, None),
        (LoginHint::Tel, live, verify, None, v4, Some("tel:+447700900123")),
        (LoginHint::E164, live, verify, None, v4, Some("+447700900123")),
        (LoginHint::E164, live, verify, Some(&sim), v4, Some("+447700900123")),
        (LoginHint::Tel, sandbox, verify, Some(&sim), v4, Some("tel:+990123456")),
        (LoginHint::Tel, live, Question::WhichNumber, None, v4, None),
        (LoginHint::Tel, sandbox, Question::WhichNumber, Some(&sim), v4, Some("tel:+990123456")),
        (LoginHint::IpPort, live, verify, None, v4, Some("ipport:192.0.2.1")),
        (LoginHint::IpPort, live, Question::WhichNumber, None, v6, Some("ipport:[2001:db8::1]")),
    ] {
        let world = World::with(|config, _| (config.login_hint, config.mode) = (style, mode)).await;
        let departure = Departure { check: check(), question, ticket: TICKET, sim, device, now: world.clock.now() };
        let journey = world.camara.depart(departure).await.unwrap();
        assert_eq!(carried(&journey).get("login_hint").map(String::as_str), expected, "{style:?} {mode:?}");
    }
}

#[tokio::test]
async fn a_signed_request_holds_everything_and_repeats_little() {
    for algorithm in Algorithm::ALL {
        for audience in [Audience::Endpoint, Audience::Issuer] {
            let key = Key::new(algorithm, "of-requests");
            let world = World::with(|config, _| {
                config.request_object = RequestObject::Signed { key: key.signing(), audience };
                config.login_hint = LoginHint::Tel;
            });
            let world = world.await;
            let journey = world.depart(Question::IsNumber(&number())).await.unwrap();
            let mut outside = carried(&journey);
            let expected = match audience {
                Audience::Endpoint => {
                    world.operator.description()["authorization_endpoint"].as_str().unwrap().to_owned()
                }
                Audience::Issuer => world.operator.issuer(),
            };
            let read = key.reads(&outside.remove("request").unwrap(), &expected);
            assert_eq!(read.header.typ.as_deref(), Some("oauth-authz-req+jwt"));
            outside.remove("tenant");
            let mut names: Vec<_> = outside.keys().map(String::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["client_id", "redirect_uri", "response_type", "scope", "state"]);
            for (name, value) in &outside {
                assert_eq!(read.claims[name], **value);
            }
            let now = world.clock.now().as_second();
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
async fn a_code_is_redeemed_with_its_proof() {
    let world = World::start().await;
    let journey = world.depart(Question::IsNumber(&number())).await.unwrap();
    world.arrive(Question::IsNumber(&number()), &journey, &[("code", "a+b c")]).await.unwrap();
    let request = &world.operator.asked(TOKEN)[0];
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    let form = request.form();
    let field = |name: &str| form[name].as_str();
    assert_eq!((field("grant_type"), field("code"), field("redirect_uri")), ("authorization_code", "a+b c", CALLBACK));
    let challenge = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, field("code_verifier").as_bytes());
    let challenge = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(challenge);
    assert_eq!(carried(&journey)["code_challenge"], challenge);

    // Only an ID token tells then, and none came.
    let without = World::with(|config, _| config.pkce = false).await;
    let journey = without.depart(Question::IsNumber(&number())).await.unwrap();
    assert!(!carried(&journey).contains_key("code_challenge"));
    without.arrive(Question::IsNumber(&number()), &journey, &[("code", "c")]).await.unwrap_err();
    assert!(!without.operator.asked(TOKEN)[0].form().contains_key("code_verifier"));
}

#[tokio::test]
async fn secrets_are_shown_to_the_token_endpoint_in_the_header_or_in_the_form() {
    let world = World::start().await;
    world.verify().await.unwrap();
    let request = &world.operator.asked(TOKEN)[0];
    let form = request.form();
    assert_eq!((&*form["client_id"], &*form["client_secret"]), ("client id:1", "secret of ours"));
    assert!(!request.headers.contains_key("authorization"));

    let basic = ClientAuthentication::SecretBasic("s:ü %".into());
    assert!(format!("{basic:?}").contains("ClientSecret(…)"));
    let world = World::with(|config, _| config.client_authentication = basic).await;
    world.verify().await.unwrap();
    let request = &world.operator.asked(TOKEN)[0];
    let expected = format!("Basic {}", BASE64_STANDARD.encode("client+id%3A1:s%3A%C3%BC+%25"));
    assert_eq!(request.headers["authorization"], expected);
    assert!(!request.form().contains_key("client_id"));
}

#[tokio::test]
async fn an_assertion_is_signed_for_its_reader() {
    for algorithm in Algorithm::ALL {
        for audience in [Audience::Endpoint, Audience::Issuer] {
            let key = Key::new(algorithm, "of-assertions");
            let authentication = ClientAuthentication::PrivateKeyJwt { key: key.signing(), audience };
            let change = |config: &mut CamaraConfig, _: &_| config.client_authentication = authentication;
            let world = World::with(change).await;
            world.verify().await.unwrap();
            world.verify().await.unwrap();
            let expected = match audience {
                Audience::Endpoint => world.operator.url(TOKEN).to_string(),
                Audience::Issuer => world.operator.issuer(),
            };
            let claims: Vec<_> = world
                .operator
                .asked(TOKEN)
                .iter()
                .map(|request| {
                    let form = request.form();
                    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
                    key.reads(&form["client_assertion"], &expected).claims
                })
                .collect();
            let now = world.clock.now().as_second();
            for claims in &claims {
                assert_eq!((&claims["iss"], &claims["sub"]), (&json!("client id:1"), &json!("client id:1")));
                assert_eq!((&claims["iat"], &claims["exp"]), (&json!(now), &json!(now + 300)));
            }
            assert_ne!(claims[0]["jti"], claims[1]["jti"]);
        }
    }
}

#[tokio::test]
async fn an_application_names_itself_in_the_header() {
    let key = Key::new(Algorithm::Rs256, "of-the-application");
    let authentication = ClientAuthentication::BearerJwt { key: key.signing() };
    let world = World::with(|config, _| config.client_authentication = authentication).await;
    world.verify().await.unwrap();
    let request = &world.operator.asked(TOKEN)[0];
    let token = request.headers["authorization"].strip_prefix("Bearer ").unwrap();
    let read = jsonwebtoken::dangerous::insecure_decode::<serde_json::Value>(token).unwrap().claims;
    assert_eq!(read["application_id"], "client id:1");
}
