//! The redirect chain step by step, with its failures.

use ringtrue_domain::lifecycle::ErrorCode;
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::{self, HttpResponse, Request},
    database::Database,
    on_both_databases, on_both_stores,
    receiver::Receiver,
    silent::{
        header_enrichment::handle_target,
        scripted_operator::{AUTHORIZE, NAME, ScriptedOperator},
        silent_client::{BOTH, DISCOVERY, SECURE_SNA, SilentClient, callback, redirect_state},
    },
    world::World,
};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn check_url_requires_its_token() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let [check, other] = [silent.create(json!({})).await, silent.create(json!({})).await];
        let (check_path, token) = check.target.split_once("?t=").unwrap();
        let foreign = other.target.split_once("?t=").unwrap().1;
        assert_eq!(check_path, format!("{}/{}/redirect", path.checks, check.id));
        assert!(token.len() == 22 && token != foreign, "128 bits of its own");
        for (target, status, code) in [
            (check_path.to_owned(), 404, "check_not_found"),
            (format!("{check_path}?t="), 404, "check_not_found"),
            (format!("{check_path}?t={foreign}"), 404, "check_not_found"),
            (format!("{check_path}?t={}", &token[1..]), 404, "check_not_found"),
            (format!("{check_path}?T={token}"), 404, "check_not_found"),
            (format!("{check_path}?t={token}&t={token}"), 400, "bad_request"),
            (format!("{check_path}?t=%zz"), 400, "bad_request"),
            (format!("{check_path}?t={token}&sim=447700900123"), 400, "phone_number_invalid"),
            (format!("{check_path}?t={token}&sim={}", "x".repeat(4_097)), 400, "bad_request"),
            (check_path.replace(&check.id, "not-a-uuid") + "?t=x", 400, "bad_request"),
            (check_path.replace(&check.id, "%FF") + "?t=x", 400, "bad_request"),
            (check_path.replace(&check.id, "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b") + "?t=x", 404, "check_not_found"),
        ] {
            let response = silent.open(&target).await.assert_problem(status, code);
            assert!(!response.text().contains(token), "{target}");
        }
        assert_eq!(silent.get(&check.id).await.json()["status"], "ACCEPTED", "the check has not started");
        // Additional parameters are ignored.
        redirect_state(&silent.open(&format!("{}&utm_source=x", check.target)).await);
    }
}

#[tokio::test]
async fn head_requests_have_no_effect() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let check = silent.create(json!({})).await;
    world.send(Request::new("HEAD", &check.target)).await.assert(200);
    assert_eq!(silent.get(&check.id).await.json()["status"], "ACCEPTED");
    let state = silent.start_redirect(&check.target).await;
    world.send(Request::new("HEAD", &callback(&state))).await.assert(200);
    assert!(operator.returned_devices().is_empty());
    silent.return_from_operator(&state).await.assert(200);
}

#[tokio::test]
async fn redirects_suit_minimal_clients() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    let check = silent.create(json!({"redirect_url": format!("https://app.example/{}", "x".repeat(2_000))})).await;
    let response = silent.open(&check.target).await.assert(302);
    assert!(response.header("location").unwrap().starts_with(AUTHORIZE));
    let end = silent.return_from_operator(&redirect_state(&response)).await.assert(302);
    for response in [response, end] {
        let named = |wanted_name: &str| {
            response.headers.iter().find(|(name, _)| name == wanted_name).map(|(_, value)| value.as_str())
        };
        assert!(named("Location").unwrap().starts_with("https://"), "{:?}", response.headers);
        assert_eq!(named("Content-Length"), Some("0"));
        assert_eq!(named("Cache-Control"), Some("no-store"));
        assert_eq!(named("Referrer-Policy"), Some("no-referrer"));
        let length: usize = response.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        assert!(length < 4 * 1024, "{length}");
    }
}

#[tokio::test]
async fn device_problems_have_their_own_status() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let lonely = world.project("Without SMS", json!({"products": [path.scope]})).await;
        let lonely = SilentClient::of(&world, path, lonely).await;
        for (device_ip, status, code) in [
            ("198.51.100.0", 412, "not_mobile_ip"),
            ("198.51.100.255", 412, "not_mobile_ip"),
            ("203.0.113.128", 400, "mno_not_supported"),
            ("203.0.113.255", 400, "mno_not_supported"),
            ("192.0.2.9", 400, "mno_not_supported"),
            ("10.9.8.7", 409, "ip_mismatch"),
            ("2001:db8::1", 409, "ip_mismatch"),
        ] {
            // Only Secure SNA suggests Reverse SMS instead. Discovery has no claimed number to verify.
            for (silent, may_use_reverse_sms) in [(&silent, path == SECURE_SNA), (&lonely, false)] {
                let check = silent.create(json!({"device_ip": device_ip})).await;
                let body = silent.open(&check.target).await.assert_problem(status, code).json();
                assert_eq!((&body["check_id"], &body["error"]), (&json!(check.id), &json!(code)));
                let description = body["error_description"].as_str().unwrap();
                assert_eq!(description.contains("Reverse SMS"), may_use_reverse_sms, "{description}");
                assert_eq!(silent.get(&check.id).await.json()["error_code"], code);
                silent.open(&check.target).await.assert_problem(409, "check_already_completed");
            }
        }
        for fine in
            ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "203.0.113.0", "203.0.113.127", "::ffff:203.0.113.9"]
        {
            let check = silent.create(json!({"device_ip": fine})).await;
            silent.complete_redirect(&check.target).await;
        }
        world.manage(Request::patch(&lonely.project.path).json(&json!({"name": path.scope}))).await.assert(200);
    }
}

#[tokio::test]
async fn device_of_an_unsupported_operator_is_rejected() {
    let world = World::configured(|config| config.sandbox.enabled = false).await;
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let check = silent.create(json!({})).await;
        let body = silent.open(&check.target).await.assert_problem(501, "mno_redirect_unsupported").json();
        assert_eq!((&body["check_id"], &body["error"]), (&json!(check.id), &json!("mno_redirect_unsupported")));
        let redirected = silent.create(json!({"redirect_url": "https://app.example/"})).await;
        let response = silent.open(&redirected.target).await.assert(302);
        assert!(response.header("location").unwrap().contains("&error=mno_redirect_unsupported&"));
    }
}

#[tokio::test]
async fn failures_on_return_are_reported_with_200() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    for code in [ErrorCode::NotMobileIp, ErrorCode::IpMismatch, ErrorCode::MnoNotSupported, ErrorCode::InternalError] {
        let check = silent.create(json!({})).await;
        operator.fail(code);
        let end = silent.return_from_operator(&silent.start_redirect(&check.target).await).await.assert(200).json();
        assert_eq!(end["error"], code.into_str());
    }
    // The operator returns an error.
    let check = silent.create(json!({})).await;
    let state = silent.start_redirect(&check.target).await;
    let back = format!("/southbound/camara/{NAME}/callback?error=access_denied&error_description=No+way&state={state}");
    assert_eq!(silent.open(&back).await.assert(200).json()["error"], "mno_user_not_found");
    let last = operator.returned_devices().pop().unwrap();
    assert!(last.query.contains(&("error_description".to_owned(), "No way".to_owned())), "{:?}", last.query);
}

async fn state_can_be_used_once(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let check = silent.create(json!({})).await;
        let first = silent.start_redirect(&check.target).await;
        let second = silent.start_redirect(&check.target).await;
        assert_ne!(first, second);
        let before = operator.returned_devices().len();
        silent.return_from_operator(&first).await.assert_problem(400, "bad_request");
        assert_eq!(
            silent.get(&check.id).await.json()["status"],
            "PENDING",
            "an invalid state does not affect the check"
        );
        let good = format!("/southbound/camara/{NAME}/callback");
        for target in [
            good.clone(),
            format!("{good}?code=x"),
            format!("{good}?state=&code=x"),
            format!("{good}?state={second}&state={second}&code=x"),
            format!("{good}?state={second}%00&code=x"),
            format!("{good}?state=%ff&code=x"),
            format!("{good}?state={second}&code=%"),
            format!("{good}?state={second}&code={}", "x".repeat(4_097)),
            format!("{good}?state=x&code=x"),
            format!("{good}?state={}&code=x", second.repeat(2)),
            format!("{good}?state=%C3%A4&code=x"),
            format!("{good}?state={}&code=x", check.id),
            format!("{good}?state={}&code=x", check.target.split_once("?t=").unwrap().1),
            format!("{good}?state={}&code=x", &second[..second.len() - 1]),
            format!("{good}?state={}&code=x", &second[1..]),
            format!("{good}?state={}&code=x", second.replace(|c: char| c.is_ascii_digit(), "x")),
            callback(&second).replace(NAME, "unknown"),
        ] {
            let response = silent.open(&target).await.assert_problem(400, "bad_request");
            assert!(response.header("location").is_none() && !response.text().contains(&second), "{target}");
        }
        assert_eq!(operator.returned_devices().len(), before, "the operator was not queried");
        let code = silent.return_from_operator(&second).await.assert(200).json()["code"].as_str().unwrap().to_owned();
        let again = silent.return_from_operator(&second).await.assert_problem(409, "check_already_completed");
        assert!(!again.text().contains(&code));
        silent.redeem(&check.id, &code).await.assert(200);
    }
}

#[tokio::test]
async fn device_disconnect_does_not_lose_the_verdict() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let mut receiver = Receiver::start().await;
    let check = silent.create(json!({"callback_url": receiver.url("/")})).await;
    let state = silent.start_redirect(&check.target).await;
    operator.stop_responding();
    operator.fail(ErrorCode::MnoServerError);
    let mut connection = TcpStream::connect(world.node.address).await.unwrap();
    connection.write_all(&Request::get(&callback(&state)).bytes(world.node.address)).await.unwrap();
    operator.wait_for_devices(1).await;
    drop(connection);
    operator.resume_responding();
    assert_eq!(receiver.next().await.json()["status"], "ERROR");
    assert_eq!(silent.get(&check.id).await.json()["status"], "ERROR");
}

#[tokio::test]
async fn browser_gets_an_html_page() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    let browse = async |target: &str| world.send(Request::get(target).header("Accept", BROWSER)).await;
    let check = silent.create(json!({"reference_id": "<script>"})).await;
    let state = redirect_state(&browse(&check.target).await);
    let page = browse(&callback(&state)).await.assert(200);
    let text = page.text();
    let code = text.split_once(" aria-labelledby=\"text\">").and_then(|(_, rest)| rest.split_once("</code>"));
    let code = code.expect("a code").0;
    assert!(!text.contains("<script"), "{text}");

    operator.fail(ErrorCode::MnoTimeout);
    let failing = silent.create(json!({})).await;
    let fault = browse(&callback(&silent.start_redirect(&failing.target).await)).await.assert(200);
    assert!(fault.text().contains("<h1>We couldn’t confirm your number</h1>"), "{}", fault.text());
    assert!(fault.text().contains(">mno_timeout</code>"), "{}", fault.text());
    let elsewhere = silent.create(json!({"device_ip": "198.51.100.7"})).await;
    let responses = [
        (browse(&elsewhere.target).await, 412, "This phone isn’t using mobile data"),
        (browse(&check.target).await, 409, "This link has already been used"),
        (browse(&check.target.replace("?t=", "?t=x")).await, 404, "This link isn’t valid"),
        (browse(&callback("no-state")).await, 400, "This link isn’t valid"),
    ];
    for (response, status, title) in &responses {
        assert_eq!(response.status, *status, "{title}");
        assert!(response.text().contains(&format!("<h1>{title}</h1>")), "{}", response.text());
    }
    for page in responses.iter().map(|(page, ..)| page).chain([&page, &fault]) {
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert!(page.body.len() < 4 * 1024 && page.header("location").is_none());
    }
    silent.redeem(&check.id, code).await.assert(200);
    // The page is in the language of the browser and shows the name of the project.
    let elsewhere = silent.create(json!({"device_ip": "198.51.100.7"})).await;
    let request = Request::get(&elsewhere.target).header("Accept", BROWSER).header("Accept-Language", "de-AT,en;q=0.5");
    let page = world.send(request).await.assert(412).text();
    assert!(page.contains("<html lang=\"de\" dir=\"ltr\">"), "{page}");
    assert!(page.contains("<h1>Dieses Telefon nutzt keine mobilen Daten</h1>"), "{page}");
    assert!(page.contains("<header>") && page.contains(">not_mobile_ip</code>"), "{page}");
    // With a redirect URL, the browser is redirected to the app and gets no page.
    let redirected = silent.create(json!({"redirect_url": "https://app.example/"})).await;
    browse(&callback(&silent.start_redirect(&redirected.target).await)).await.assert(302);
}

/// Mobile SDKs and Java's HTTP client list HTML in `Accept`, but expect JSON.
async fn only_browser_navigation_gets_html(world: World) {
    const SDK: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,application/xml,*/*");
    const JAVA: (&str, &str) = ("Accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2");
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    for (header, is_page) in [
        (SDK, false),
        (JAVA, false),
        (("Accept", "text/html"), false),
        (("Accept", BROWSER), true),
        (("Sec-Fetch-Dest", "document"), true),
        (("Sec-Fetch-Dest", "empty"), false),
    ] {
        let open = async |target: &str| world.send(Request::get(target).header(header.0, header.1)).await;
        let check = silent.create(json!({})).await;
        let end = open(&callback(&redirect_state(&open(&check.target).await))).await.assert(200);
        let ended = open(&check.target).await.assert(409);
        let elsewhere = silent.create(json!({"device_ip": "198.51.100.7"})).await;
        let refused = open(&elsewhere.target).await.assert(412);
        for (response, json) in
            [(&end, "application/json"), (&ended, "application/problem+json"), (&refused, "application/problem+json")]
        {
            let expected = if is_page { "text/html; charset=utf-8" } else { json };
            assert_eq!(response.header("content-type"), Some(expected), "{header:?}");
        }
        if !is_page {
            assert_eq!(end.json()["check_id"], check.id);
        }
    }
}

/// Carrier-grade NAT puts thousands of subscribers behind one address, so valid tokens are limited by check only.
async fn visits_are_limited_by_check_and_wrong_tokens_by_address(database: Database) {
    let world = World::with(database, |config| {
        (config.rate_limits.device, config.rate_limits.device_visits) = (3, 20);
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let from =
        async |address: &str, target: &str| world.send(Request::get(target).header("X-Forwarded-For", address)).await;
    let rate_limit_headers = |response: &HttpResponse| {
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
            .map(|name| response.header(name).unwrap().parse::<u32>().unwrap())
    };
    // Many devices behind one address are not limited together.
    for _ in 0..10 {
        let check = silent.create(json!({})).await;
        assert_eq!(rate_limit_headers(&from("203.0.113.7", &check.target).await.assert(302)), [20, 19, 120]);
    }
    // Wrong tokens are limited by the address that sends them.
    let check = silent.create(json!({})).await;
    let (check_path, _) = check.target.split_once("?t=").unwrap();
    for (index, wrong) in ["?t=AAAAAAAAAAAAAAAAAAAAAA", "", "?t=x"].into_iter().enumerate() {
        let response =
            from("203.0.113.7", &format!("{check_path}{wrong}")).await.assert_problem(404, "check_not_found");
        assert_eq!(rate_limit_headers(&response), [3, 2 - u32::try_from(index).unwrap(), 1]);
    }
    for wrong in
        [format!("{check_path}?t=x"), check_path.replace(&check.id, "nonsense"), format!("{check_path}?t=x&t=y")]
    {
        let refused = from("203.0.113.7", &wrong).await.assert_problem(429, "too_many_requests");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    from("203.0.113.8", &format!("{check_path}?t=x")).await.assert_problem(404, "check_not_found");
    // The valid token still works from the throttled address, twenty times in total.
    for visit in 0..20_u32 {
        let address = if visit % 2 == 0 { "203.0.113.7" } else { "203.0.113.9" };
        assert_eq!(rate_limit_headers(&from(address, &check.target).await.assert(302)), [20, 19 - visit, 120]);
    }
    for address in ["203.0.113.7", "203.0.113.10"] {
        let refused = from(address, &check.target).await.assert_problem(429, "too_many_requests");
        assert_eq!((rate_limit_headers(&refused), refused.header("retry-after")), ([20, 0, 120], Some("120")));
    }
    let other = silent.create(json!({})).await;
    let state = redirect_state(&from("203.0.113.7", &other.target).await);
    silent.return_from_operator(&state).await.assert(200);
    world.advance(jiff::SignedDuration::from_secs(1));
    from("203.0.113.7", &format!("{check_path}?t=x")).await.assert_problem(404, "check_not_found");
    from("203.0.113.7", &check.target).await.assert_problem(429, "too_many_requests");
    world.advance(jiff::SignedDuration::from_secs(119));
    from("203.0.113.7", &check.target).await.assert_problem(410, "check_expired");
}

#[tokio::test]
async fn visits_are_limited_by_check_on_sqlite() {
    visits_are_limited_by_check_and_wrong_tokens_by_address(Database::sqlite().await).await;
}

#[tokio::test]
async fn visits_are_limited_by_check_on_postgres() {
    visits_are_limited_by_check_and_wrong_tokens_by_address(Database::postgres().await).await;
}

/// Requests with a `state` that was already used are limited by IP address; requests with an unused `state` are not.
async fn used_states_are_limited_by_address(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.device = 3;
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let returned = async |state: &str, address: &str| {
        world.send(Request::get(&callback(state)).header("X-Forwarded-For", address)).await
    };
    let mut states = vec![];
    for _ in 0..6 {
        world.advance(jiff::SignedDuration::from_secs(1));
        states.push(silent.start_redirect(&silent.create(json!({})).await.target).await);
    }
    for state in &states {
        let status = returned(state, "127.0.0.1").await.status;
        assert!(status != 429, "{status}");
    }
    for state in &states[..3] {
        let status = returned(state, "203.0.113.7").await.status;
        assert!([400, 409].contains(&status), "{status}");
    }
    let response = returned(&states[3], "203.0.113.7").await.assert_problem(429, "too_many_requests");
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_ne!(returned(&states[3], "203.0.113.8").await.status, 429);
    // A malformed state is neither looked up nor counted.
    for _ in 0..10 {
        returned(&"x".repeat(64), "203.0.113.9").await.assert_problem(400, "bad_request");
    }
    let next = silent.start_redirect(&silent.create(json!({})).await.target).await;
    assert_ne!(returned(&next, "203.0.113.7").await.status, 429, "new states are not limited");
    world.advance(jiff::SignedDuration::from_secs(1));
    assert_ne!(returned(&states[3], "203.0.113.7").await.status, 429, "the limit is reset after a second");
}

on_both_databases!(used_states_are_limited_by_address);

/// The connector gets the peer and the query, but no headers, which devices can forge.
#[tokio::test]
async fn enrichment_headers_are_ignored_on_the_public_listener() {
    let world = World::configured(|config| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let (public_url, trusted_proxies) = (None, vec![]);
        config.header_enrichment =
            Some(ringtrue_server::config::HeaderEnrichmentSection { listen, public_url, trusted_proxies });
    })
    .await;
    let operator = ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let check = silent.create(json!({})).await;
    let enriched =
        |request: Request| request.header("X-MSISDN", "990123456700").header("X-Forwarded-For", "203.0.113.7");
    let state = silent.start_redirect(&check.target).await;
    let target = format!("/southbound/camara/{NAME}/callback?state={state}");
    world.send(enriched(Request::get(&target))).await.assert(200);
    let seen = operator.returned_devices().pop().unwrap();
    assert_eq!((seen.headers, seen.query.len()), (vec![], 1));
    assert_eq!((seen.peer.ip(), seen.device, seen.initial_ip), (seen.device, seen.device, seen.device));

    let listener = world.node.enrichment_address.unwrap();
    let check = silent.create(json!({"reference_id": "he"})).await;
    let state = silent.start_redirect(&check.target).await;
    let target = format!("/he/{NAME}/{state}");
    let head = client::send(listener, &Request::new("HEAD", &target)).await;
    assert_eq!((head.status, operator.returned_devices().len()), (200, 1));
    let handed = client::send(listener, &enriched(Request::get(&format!("{target}?code=x")))).await;
    let end = world.send(Request::get(&handle_target(&world, &handed))).await.assert(200).json();
    let seen = operator.returned_devices().pop().unwrap();
    assert!(seen.query.is_empty() && seen.headers.contains(&("x-msisdn".to_owned(), b"990123456700".to_vec())));
    assert_eq!(end["reference_id"], "he");
    silent.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200);
    // The enrichment listener serves no other routes.
    for target in [check.target.as_str(), "/livez", &callback(&state), "/he/x", "/he/x/y/z"] {
        client::send(listener, &Request::get(target)).await.assert_problem(404, "not_found");
    }
    let again = handle_target(&world, &client::send(listener, &Request::get(&target)).await);
    world.send(Request::get(&again)).await.assert_problem(409, "check_already_completed");
    client::send(listener, &Request::get("/he/scripted/x")).await.assert_problem(400, "bad_request");
    world.send(Request::get(&target)).await.assert_problem(404, "not_found");
}

on_both_stores!(state_can_be_used_once, only_browser_navigation_gets_html);
