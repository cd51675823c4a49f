//! Tests Secure SNA over Wi-Fi: the client's app or the hosted page asks the phone's wallet, which the sandbox plays.

use std::net::SocketAddr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use futures_util::future::join_all;
use ringtrue_domain::{
    lifecycle::ErrorCode,
    product::Product,
    silent::{SilentWay, WalletFailure},
};
use ringtrue_server::config::BaseUrl;
use serde_json::{Value, json};

use crate::{
    client::{self, HttpResponse, Request},
    on_both_stores,
    silent::scripted_operator::ScriptedOperator,
    verifications::{
        api::{VerificationClient, assert_completed, id, is_open, path, steps, text},
        page::{Started, navigation},
    },
    world::{World, send_to},
};

const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const APP: &str = "android:apk-key-hash:t0uHBVLpzRPqDJqYFSZ6IYxOPzWvPrsOKYO0hvFT_wk";
const SHOP: &str = "https://shop.example/back";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9)";
/// A sandbox address that does not belong to a mobile network.
const WIFI: &str = "198.51.100.7";

on_both_stores!(
    answer_of_an_app_completes_the_verification,
    answer_counts_once_on_all_nodes,
    invalid_answer_leaves_the_step_open,
    operator_without_an_answer_leads_to_the_next_method,
    requests_need_the_origin_of_an_app,
    check_is_completed_by_an_app,
    browser_that_asked_completes_the_verification,
    other_browsers_complete_nothing,
    failures_of_the_wallet_are_told_apart,
    error_over_mobile_data_before_the_wallet_is_kept,
    page_offers_the_wallet_to_phones_on_wifi,
    answer_of_a_page_counts_once_on_all_nodes,
    pages_get_no_number,
    wallet_left_by_a_redirect_stays_offered,
    wallets_are_not_offered_while_the_operator_fails,
    failure_of_the_wallet_leaves_a_verdict_over_mobile_data,
    refused_token_leaves_a_verdict_over_mobile_data,
    first_verdict_counts,
    mobile_data_that_fails_leaves_a_verdict_of_the_wallet,
    device_outside_of_mobile_networks_keeps_secure_sna_for_its_wallet,
    simulated_phone_stays_in_its_frame,
    announced_address_binds_the_wallet_too,
    another_device_leaves_no_wallet,
);

impl<'a> VerificationClient<'a> {
    async fn with_app(world: &'a World) -> Self {
        VerificationClient::new(world, json!({"configuration": {"secure_sna": {"app_origins": [APP]}}})).await
    }

    /// Answers a request as the wallet of a simulated phone with this SIM.
    async fn confirm(&self, request: &Value, sim: &str, origin: &str) -> Value {
        let body = json!({"request": request, "sim": sim, "origin": origin});
        let request = Request::post("/v1/sandbox/digital-credentials").bearer(&self.token).json(&body);
        self.world.send(request).await.assert(200).json()
    }

    /// Answers the request of the current step as the client's app.
    async fn confirm_step(&self, verification: &Value, sim: &str) -> Value {
        self.confirm(&verification["next_step"]["digital_credential"], sim, APP).await
    }

    fn answer_request(&self, id: &str, credential: &Value) -> Request {
        Request::post(&path(id)).bearer(&self.token).json(&json!({"digital_credential": credential}))
    }

    async fn answer(&self, id: &str, credential: &Value) -> HttpResponse {
        self.world.send(self.answer_request(id, credential)).await
    }

    /// The way that the first step took, and why its wallet gave no verdict.
    async fn first_way(&self, verification: &Value) -> (Option<SilentWay>, Option<WalletFailure>) {
        let step = self.get(id(verification)).await["steps"][0]["check_id"].as_str().unwrap().parse().unwrap();
        let (engine, project) = (&self.world.node.engine, self.project.project_id.parse().unwrap());
        let history = engine.checks.read_check_history(project, Product::SecureSna, step).await.unwrap();
        (history.way, history.wallet_failure)
    }
}

async fn answer_of_an_app_completes_the_verification(world: World) {
    let client = VerificationClient::with_app(&world).await;
    for (sim, is_match) in [(EVEN, true), (ODD, false)] {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let read = client.get(id(&created)).await;
        assert_ne!(read["next_step"], created["next_step"], "each response has a request of its own");
        for request in [&created, &read] {
            assert_eq!(request["next_step"]["digital_credential"]["protocol"], "openid4vp-v1-unsigned");
        }
        let credential = client.confirm_step(&created, sim).await;
        let ended = client.answer(id(&created), &credential).await.assert(200);
        assert_eq!(ended.header("idempotent-replayed"), None);
        assert_completed(&ended.json(), is_match, "secure_sna");
        assert_eq!(client.first_way(&created).await, (Some(SilentWay::OperatorToken), None));
        let again = client.answer(id(&created), &credential).await.assert(200);
        assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), ended.json()));
        // Only the answer that gave the verdict repeats it.
        let unused = client.confirm_step(&read, sim).await;
        client.answer(id(&created), &unused).await.assert_problem(409, "check_already_completed");
    }
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.assert(200).text();
    assert!(
        metrics.contains(r#"ringtrue_silent_checks_ended_total{via="operator_token",result="match"} 1"#),
        "{metrics}"
    );
}

async fn answer_counts_once_on_all_nodes(world: World) {
    let second = world.second_node().await;
    let client = VerificationClient::with_app(&world).await;
    second.engine.node.refresh().await.unwrap();
    for _ in 0..5 {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let credential = client.confirm_step(&created, EVEN).await;
        let nodes = [world.node.address, second.address].into_iter().cycle().take(6);
        let answers = nodes.map(|node| send_to(node, client.answer_request(id(&created), &credential)));
        let mut completed = 0;
        for answer in join_all(answers).await {
            match answer.status {
                200 if answer.header("idempotent-replayed").is_none() => completed += 1,
                200 => {}
                _ => drop(answer.assert_problem(400, "digital_credential_invalid")),
            }
        }
        assert_eq!(completed, 1);
        assert_completed(&client.get(id(&created)).await, true, "secure_sna");
    }
}

async fn invalid_answer_leaves_the_step_open(world: World) {
    let client = VerificationClient::with_app(&world).await;
    let (created, other) =
        (client.create(&json!({"phone_number": EVEN})).await, client.create(&json!({"phone_number": EVEN})).await);
    let of_other = client.confirm_step(&other, EVEN).await;
    let elsewhere = client.confirm(&created["next_step"]["digital_credential"], EVEN, "https://evil.example").await;
    let malformed = json!({"protocol": "openid4vp-v1-unsigned", "data": {"vp_token": {}}});
    for credential in [&of_other, &elsewhere, &malformed] {
        let problem = client.answer(id(&created), credential).await.assert(400).json();
        assert_eq!(text(&problem, "error_code"), "digital_credential_invalid");
        assert!(is_open(&client.get(id(&created)).await));
    }
    for body in [json!({}), json!({"code": "1", "digital_credential": of_other}), json!({"digital_credential": "1"})] {
        let request = Request::post(&path(id(&created))).bearer(&client.token).json(&body);
        world.send(request).await.assert_problem(400, "bad_request");
    }
    let stranger = VerificationClient::of(&world, world.project("Stranger", json!({})).await).await;
    let credential = client.confirm_step(&client.get(id(&created)).await, EVEN).await;
    stranger.answer(id(&created), &credential).await.assert_problem(403, "forbidden");
    assert_completed(&client.answer(id(&created), &credential).await.assert(200).json(), true, "secure_sna");
}

async fn operator_without_an_answer_leads_to_the_next_method(world: World) {
    let client = VerificationClient::with_app(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let credential = client.confirm_step(&created, "+990123456799").await;
    let next = client.answer(id(&created), &credential).await.assert(200).json();
    assert_eq!(steps(&next), [("secure_sna", "ERROR", "mno_server_error"), ("reverse_sms", "ACCEPTED", "")]);
    assert_eq!(client.first_way(&created).await, (Some(SilentWay::OperatorToken), Some(WalletFailure::Refused)));
    client.answer(id(&created), &credential).await.assert_problem(409, "check_not_ready");
}

async fn requests_need_the_origin_of_an_app(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    assert_eq!(created["next_step"]["method"], "secure_sna");
    assert!(created["next_step"].get("digital_credential").is_none(), "{created}");
}

async fn check_is_completed_by_an_app(world: World) {
    const CHECKS: &str = "/v1/number-verification/secure-sna-checks";
    let client = VerificationClient::with_app(&world).await;
    let project = &client.project;
    let token = world.token(&project.client_id, &project.client_secret, "secure_sna").await;
    let post = |path: String, body: Value| world.send(Request::post(&path).bearer(&token).json(&body));
    let created = post(CHECKS.to_owned(), json!({"phone_number": EVEN})).await.assert(201).json();
    let credential = client.confirm(&created["digital_credential"], EVEN, APP).await;
    let check = format!("{CHECKS}/{}", text(&created, "check_id"));
    let completed = post(check.clone(), json!({"digital_credential": credential})).await.assert(200).json();
    assert_eq!((text(&completed, "status"), &completed["match"]), ("COMPLETED", &json!(true)));
    post(check, json!({"digital_credential": credential})).await.assert_problem(409, "check_already_completed");
    let discovery = world.token(&project.client_id, &project.client_secret, "discovery").await;
    let request = Request::post("/v1/number-verification/discovery-checks").bearer(&discovery).json(&json!({}));
    let created = world.send(request).await.assert(201).json();
    assert!(created.get("digital_credential").is_none(), "{created}");
}

/// A browser that shows the hosted page of a verification.
struct PageBrowser<'a> {
    world: &'a World,
    path: String,
}

impl<'a> PageBrowser<'a> {
    fn new(world: &'a World, verification: &Value) -> Self {
        let path = text(verification, "url").strip_prefix(&world.node.base_url).expect("our own address").to_owned();
        PageBrowser { world, path }
    }

    async fn post(&self, action: &str, cookie: Option<&str>, body: &Value) -> HttpResponse {
        self.post_to(self.world.node.address, action, cookie, body).await
    }

    async fn post_to(&self, node: SocketAddr, action: &str, cookie: Option<&str>, body: &Value) -> HttpResponse {
        let request =
            Request::post(&format!("{}/{action}", self.path)).header("Sec-Fetch-Site", "same-origin").json(body);
        let request = cookie.into_iter().fold(request, |request, cookie| request.header("Cookie", cookie));
        // The page is not part of the API.
        client::send(node, &request).await
    }

    /// Opens the page, as an Android phone whose page has found a wallet.
    async fn open(&self, query: &str) -> String {
        let page = navigation(&format!("{}{query}", self.path)).header("User-Agent", ANDROID);
        client::send(self.world.node.address, &page).await.assert(200).text()
    }

    /// Redirects the phone to its operator over mobile data. With the query `?wallet=1`, the wallet is left if the
    /// redirect fails.
    async fn start(&self, query: &str) -> Started {
        let silent = navigation(&format!("{}/silent{query}", self.path)).header("User-Agent", ANDROID);
        Started::new(client::send(self.world.node.address, &silent).await)
    }

    /// Returns a request for the wallet, and the cookie of the browser that gets it.
    async fn ask(&self) -> (Value, String) {
        let response = self.post("wallet-request", None, &json!({})).await.assert(200);
        let cookie = response.header("set-cookie").expect("a cookie").split(';').next().unwrap().to_owned();
        (response.json(), cookie)
    }

    fn origin(&self) -> String {
        let (scheme, rest) = self.world.node.base_url.split_once("://").unwrap();
        format!("{scheme}://{}", rest.split('/').next().unwrap())
    }
}

async fn browser_that_asked_completes_the_verification(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": "https://shop.example/back"})).await;
    let browser = PageBrowser::new(&world, &created);
    let (request, cookie) = browser.ask().await;
    let credential = client.confirm(&request, EVEN, &browser.origin()).await;
    let answered = browser.post("wallet", Some(&cookie), &json!({"digital_credential": credential})).await.assert(200);
    let location = text(&answered.json(), "location").to_owned();
    let code = location.split("code=").nth(1).and_then(|rest| rest.split('&').next()).expect("a code");
    assert!(location.starts_with("https://shop.example/back?"), "{location}");
    // A verdict is released by its code only.
    assert_eq!(client.get(id(&created)).await["status"], "PENDING");
    let again = browser.post("wallet", Some(&cookie), &json!({"digital_credential": credential})).await.assert(200);
    assert_eq!(text(&again.json(), "location"), browser.path, "the page shows what follows");
    assert_completed(&client.redeem(id(&created), code).await.assert(200).json(), true, "secure_sna");
    assert_eq!(client.first_way(&created).await, (Some(SilentWay::OperatorToken), None));
}

async fn other_browsers_complete_nothing(world: World) {
    let client = VerificationClient::with_app(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let browser = PageBrowser::new(&world, &created);
    let (request, cookie) = browser.ask().await;
    let (_, other_cookie) = browser.ask().await;
    let credential = client.confirm(&request, EVEN, &browser.origin()).await;
    let body = json!({"digital_credential": credential});
    for cookie in [None, Some(&*other_cookie)] {
        browser.post("wallet", cookie, &body).await.assert(403);
        assert!(is_open(&client.get(id(&created)).await));
    }
    // The page's request is not the app's, and the other way round.
    client.answer(id(&created), &credential).await.assert_problem(400, "digital_credential_invalid");
    let of_app = client.confirm_step(&created, EVEN).await;
    browser.post("wallet", Some(&cookie), &json!({"digital_credential": of_app})).await.assert(403);
    let foreign = Request::post(&format!("{}/wallet", browser.path)).header("Sec-Fetch-Site", "cross-site").json(&body);
    client::send(world.node.address, &foreign).await.assert(403);
    browser.post("wallet", Some(&cookie), &body).await.assert(200);
    assert_completed(&client.get(id(&created)).await, true, "secure_sna");
}

async fn failures_of_the_wallet_are_told_apart(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    for (name, failure, code) in [
        ("declined", WalletFailure::Declined, "given_up"),
        ("timed_out", WalletFailure::TimedOut, "given_up"),
        ("no_sim", WalletFailure::NoSim, "mno_user_not_found"),
        ("unavailable", WalletFailure::Unavailable, "not_mobile_ip"),
    ] {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let browser = PageBrowser::new(&world, &created);
        browser.ask().await;
        browser.post("wallet", None, &json!({"error": name})).await.assert(200);
        let next = client.get(id(&created)).await;
        assert_eq!(steps(&next), [("secure_sna", "ERROR", code), ("reverse_sms", "ACCEPTED", "")]);
        assert_eq!(client.first_way(&created).await, (Some(SilentWay::OperatorToken), Some(failure)));
        browser.post("wallet", None, &json!({"error": name})).await.assert(200);
        assert_eq!(client.get(id(&created)).await, next, "a repeated request gives up one step");
    }
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let browser = PageBrowser::new(&world, &created);
    // Only the server can say that an answer is invalid or refused.
    let reserved = ["invalid", "refused"].map(|error| json!({ "error": error }));
    for body in [json!({}), json!({"error": "other"}), json!({"error": "declined", "more": 1})].iter().chain(&reserved)
    {
        browser.post("wallet", None, body).await.assert_problem(400, "bad_request");
    }
}

async fn page_offers_the_wallet_to_phones_on_wifi(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": "https://shop.example/back"})).await;
    let browser = PageBrowser::new(&world, &created);
    let page = async |query: &str, agent: &str| {
        let request = navigation(&format!("{}{query}", browser.path)).header("User-Agent", agent);
        client::send(world.node.address, &request).await.assert(200).text()
    };
    let wifi = format!("?ip={WIFI}");
    let shown = page(&wifi, ANDROID).await;
    assert!(shown.contains(r#"<div id="wallet" hidden>"#), "{shown}");
    assert!(shown.contains(r#"<noscript><meta http-equiv="refresh" content="0;url="#), "without a script as before");
    let shown = page("", ANDROID).await;
    assert!(
        !shown.contains(r#"<div id="wallet""#) && shown.contains("data-wallet="),
        "mobile data comes first: {shown}"
    );
    let shown = page(&wifi, "Mozilla/5.0 (X11; Linux x86_64)").await;
    assert!(!shown.contains("data-wallet="), "a computer has no wallet: {shown}");
}

async fn answer_of_a_page_counts_once_on_all_nodes(world: World) {
    // The wallet's answer names the address of the page, which all nodes share.
    let base_url = BaseUrl::parse(&world.node.base_url).unwrap();
    let second = world.node_with(|config| config.base_url = Some(base_url)).await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    for _ in 0..5 {
        let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
        let browser = PageBrowser::new(&world, &created);
        let (request, cookie) = browser.ask().await;
        let credential = client.confirm(&request, EVEN, &browser.origin()).await;
        let body = json!({"digital_credential": credential});
        let nodes = [world.node.address, second.address].into_iter().cycle().take(6);
        let answers = nodes.map(|node| browser.post_to(node, "wallet", Some(&cookie), &body));
        let locations =
            join_all(answers).await.into_iter().map(|answer| text(&answer.assert(200).json(), "location").to_owned());
        let codes: Vec<_> = locations.filter_map(|location| code_of(&location)).collect();
        let [code] = &codes[..] else { panic!("{codes:?}") };
        let again = browser.post_to(second.address, "wallet", Some(&cookie), &body).await.assert(200).json();
        assert_eq!(text(&again, "location"), browser.path, "no second code");
        assert_completed(&client.redeem(id(&created), code).await.assert(200).json(), true, "secure_sna");
    }
}

/// Returns the code in the URL at which the browser returns to the company.
fn code_of(location: &str) -> Option<String> {
    let code = location.strip_prefix(SHOP)?.split("code=").nth(1)?.split('&').next()?;
    Some(code.to_owned())
}

async fn pages_get_no_number(world: World) {
    let client = VerificationClient::with_app(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let contains_number = |request: &Value| {
        let credential = &request["data"]["dcql_query"]["credentials"][0];
        let signed = credential["meta"]["credential_authorization_jwt"].as_str().unwrap();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(signed.split('.').nth(1).unwrap()).unwrap();
        format!("{request}{}", String::from_utf8(claims).unwrap()).contains(&EVEN[1..])
    };
    let (of_page, _) = PageBrowser::new(&world, &created).ask().await;
    assert!(!contains_number(&of_page), "{of_page}");
    assert!(contains_number(&created["next_step"]["digital_credential"]), "the backend knows the number");
}

async fn wallet_left_by_a_redirect_stays_offered(world: World) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    let start = async |query: &str| {
        operator.refuse(ErrorCode::MnoServerError);
        let silent = navigation(&format!("{}/silent{query}", browser.path)).header("User-Agent", ANDROID);
        let response = client::send(world.node.address, &silent).await.assert(303);
        response.header("location").unwrap().strip_prefix(&browser.path).unwrap().to_owned()
    };
    let query = start("?wallet=1").await;
    assert_eq!(query, "?wallet=1&start=wallet");
    // The links of the page lead to its other languages, and to a question and back.
    let page = browser.open(&query).await;
    for language in ["de", "pl"] {
        let link = format!("?lang={language}&wallet=1&start=wallet");
        assert!(page.contains(&link.replace('&', "&#38;")), "{page}");
        assert!(browser.open(&link).await.contains(r#"<div id="wallet" hidden>"#));
    }
    let asked = browser.open(&format!("{query}&ask=wrong_number")).await;
    assert!(asked.contains(&format!("href=\"{}?wallet=1&#38;start=wallet\">Go back", browser.path)), "{asked}");
    // A redirect that fails again names the hint once. Another hint replaces it.
    assert_eq!(start(&query).await, query);
    let other_site = Request::get(&format!("{}/silent{query}", browser.path)).header("Sec-Fetch-Site", "cross-site");
    let refused = client::send(world.node.address, &other_site).await.assert(303);
    assert_eq!(refused.header("location"), Some(&*format!("{}?wallet=1&start=tap", browser.path)));
}

async fn wallets_are_not_offered_while_the_operator_fails(world: World) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::with_app(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    let wifi = format!("?ip={WIFI}");
    assert!(browser.open(&wifi).await.contains(r#"<div id="wallet" hidden>"#));
    operator.break_circuit();
    assert!(!browser.open(&wifi).await.contains("data-wallet="));
    assert!(client.get(id(&created)).await["next_step"].get("digital_credential").is_none());
    // For a page that was opened before.
    browser.post("wallet-request", None, &json!({})).await.assert(404);
    // No wallet is left after a redirect that fails.
    operator.refuse(ErrorCode::MnoServerError);
    let silent = navigation(&format!("{}/silent?wallet=1", browser.path)).header("User-Agent", ANDROID);
    client::send(world.node.address, &silent).await.assert(303);
    let next = client.get(id(&created)).await;
    assert_eq!(steps(&next), [("secure_sna", "ERROR", "mno_server_error"), ("reverse_sms", "ACCEPTED", "")]);
}

async fn failure_of_the_wallet_leaves_a_verdict_over_mobile_data(world: World) {
    ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    // One tab comes back from the operator while another one waits for the wallet.
    let returned = client::send(world.node.address, &browser.start("?wallet=1").await.come_back()).await.assert(302);
    let code = code_of(returned.header("location").unwrap()).unwrap();
    browser.post("wallet", None, &json!({"error": "declined"})).await.assert(200);
    assert_completed(&client.redeem(id(&created), &code).await.assert(200).json(), true, "secure_sna");
    assert_eq!(client.first_way(&created).await, (Some(SilentWay::MobileData), None));
}

/// Has the wallet answer for the other SIM, as the page or as an app, and the device return over mobile data before the
/// operator has answered about the token. Returns the responses to both.
async fn answer_twice(
    client: &VerificationClient<'_>,
    operator: &ScriptedOperator,
    verification: &Value,
    as_app: bool,
    error: Option<ErrorCode>,
) -> (HttpResponse, String) {
    let browser = PageBrowser::new(client.world, verification);
    let started = browser.start("?wallet=1").await;
    operator.hold_tokens();
    let answer = async {
        if as_app {
            let credential = client.confirm_step(&client.get(id(verification)).await, ODD).await;
            return client.answer(id(verification), &credential).await;
        }
        let (request, cookie) = browser.ask().await;
        let credential = client.confirm(&request, ODD, &browser.origin()).await;
        browser.post("wallet", Some(&cookie), &json!({"digital_credential": credential})).await
    };
    let returned = async {
        operator.wait_for_token().await;
        let returned = client::send(client.world.node.address, &started.come_back()).await.assert(302);
        operator.answer_tokens(error);
        code_of(returned.header("location").unwrap()).unwrap()
    };
    tokio::join!(answer, returned)
}

async fn refused_token_leaves_a_verdict_over_mobile_data(world: World) {
    first_verdict_is_kept(world, Some(ErrorCode::MnoServerError)).await;
}

async fn first_verdict_counts(world: World) {
    first_verdict_is_kept(world, None).await;
}

async fn first_verdict_is_kept(world: World, wallet_error: Option<ErrorCode>) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::with_app(&world).await;
    for as_app in [false, true] {
        let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
        let (answered, code) = answer_twice(&client, &operator, &created, as_app, wallet_error).await;
        if as_app {
            answered.assert_problem(409, "check_not_ready");
        } else {
            assert_eq!(code_of(text(&answered.assert(200).json(), "location")), None, "no second code");
        }
        assert_completed(&client.redeem(id(&created), &code).await.assert(200).json(), true, "secure_sna");
        assert_eq!(client.first_way(&created).await, (Some(SilentWay::MobileData), None));
    }
}

async fn mobile_data_that_fails_leaves_a_verdict_of_the_wallet(world: World) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    let started = browser.start("").await;
    operator.stop_responding();
    let (request, cookie) = browser.ask().await;
    let credential = client.confirm(&request, EVEN, &browser.origin()).await;
    let come_back = started.come_back();
    let returned = client::send(world.node.address, &come_back);
    let answered = async {
        operator.wait_for_devices(1).await;
        let body = json!({"digital_credential": credential});
        let answered = browser.post("wallet", Some(&cookie), &body).await.assert(200).json();
        operator.fail(ErrorCode::MnoServerError);
        operator.resume_responding();
        code_of(text(&answered, "location")).unwrap()
    };
    let (returned, code) = tokio::join!(returned, answered);
    returned.assert(302);
    assert_completed(&client.redeem(id(&created), &code).await.assert(200).json(), true, "secure_sna");
    assert_eq!(client.first_way(&created).await, (Some(SilentWay::OperatorToken), None));
}

async fn device_outside_of_mobile_networks_keeps_secure_sna_for_its_wallet(world: World) {
    let client = VerificationClient::with_app(&world).await;
    let body = json!({"phone_number": EVEN, "device_ip": WIFI, "redirect_url": SHOP});
    let created = client.create(&body).await;
    assert_eq!(created["methods"], json!(["secure_sna", "reverse_sms"]));
    let browser = PageBrowser::new(&world, &created);
    let (request, cookie) = browser.ask().await;
    let credential = client.confirm(&request, EVEN, &browser.origin()).await;
    let answered = browser.post("wallet", Some(&cookie), &json!({"digital_credential": credential})).await;
    let code = code_of(text(&answered.assert(200).json(), "location")).unwrap();
    assert_completed(&client.redeem(id(&created), &code).await.assert(200).json(), true, "secure_sna");

    let operator = ScriptedOperator::with_wallet(&world);
    operator.break_circuit();
    assert_eq!(client.create(&body).await["methods"], json!(["reverse_sms"]));
}

async fn simulated_phone_stays_in_its_frame(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    let frame = Request::get(&format!("{}?ip={WIFI}", browser.path)).header("Sec-Fetch-Site", "same-origin");
    let frame = frame.header("Sec-Fetch-Mode", "navigate").header("Sec-Fetch-Dest", "iframe");
    let page = client::send(world.node.address, &frame).await.assert(200).text();
    let attribute = |name: &str| {
        let value = page.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
        value.replace("&#38;", "&").replace("&amp;", "&")
    };
    let fetch = async |path: &str, cookie: &str, body: &Value| {
        let request = Request::post(path).header("Sec-Fetch-Site", "same-origin").header("Sec-Fetch-Dest", "empty");
        client::send(world.node.address, &request.header("Cookie", cookie).json(body)).await.assert(200)
    };
    let requested = fetch(&attribute("data-wallet-request"), "", &json!({})).await;
    let cookie = requested.header("set-cookie").unwrap().split(';').next().unwrap();
    let credential = client.confirm(&requested.json(), EVEN, &browser.origin()).await;
    let body = json!({"digital_credential": credential});
    let answered = fetch(&attribute("data-wallet"), cookie, &body).await.json();
    let location = text(&answered, "location");
    assert!(location.starts_with(&browser.path), "not the company's page: {location}");
    // A link with the parameter has no effect.
    let page = navigation(&format!("{}?display=handset", browser.path));
    let page = client::send(world.node.address, &page).await.assert(200).text();
    assert!(!page.contains("data-handset"), "{page}");
}

async fn error_over_mobile_data_before_the_wallet_is_kept(world: World) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    operator.fail(ErrorCode::MnoServerError);
    client::send(world.node.address, &browser.start("?wallet=1").await.come_back()).await.assert(302);
    assert!(is_open(&client.get(id(&created)).await), "the wallet is left");
    browser.post("wallet", None, &json!({"error": "declined"})).await.assert(200);
    let step = client.get(id(&created)).await["steps"][0]["check_id"].as_str().unwrap().parse().unwrap();
    let project = client.project.project_id.parse().unwrap();
    let history = world.node.engine.checks.read_check_history(project, Product::SecureSna, step).await.unwrap();
    assert_eq!(history.redirect_error, Some(ErrorCode::MnoServerError));
    assert_eq!(history.wallet_failure, Some(WalletFailure::Declined));

    // A wallet that could not be asked changes nothing about the reason.
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    operator.fail(ErrorCode::MnoServerError);
    client::send(world.node.address, &browser.start("?wallet=1").await.come_back()).await.assert(302);
    browser.post("wallet", None, &json!({"error": "unavailable"})).await.assert(200);
    assert_eq!(steps(&client.get(id(&created)).await)[0], ("secure_sna", "ERROR", "mno_server_error"));
}

async fn announced_address_binds_the_wallet_too(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let announced = json!({"phone_number": EVEN, "device_ip": "9.9.9.9"});
    let failed = [("secure_sna", "ERROR", "ip_mismatch"), ("reverse_sms", "ACCEPTED", "")];
    let created = client.create(&announced).await;
    PageBrowser::new(&world, &created).post("wallet-request", None, &json!({})).await.assert(404);
    assert_eq!(steps(&client.get(id(&created)).await), failed);

    for (address, expected) in [("9.9.9.9", None), ("9.9.9.10", Some(failed))] {
        let created = client.create(&announced).await;
        let browser = PageBrowser::new(&world, &created);
        let asked = browser.post("wallet-request?ip=9.9.9.9", None, &json!({})).await.assert(200);
        let cookie = asked.header("set-cookie").unwrap().split(';').next().unwrap();
        let credential = client.confirm(&asked.json(), EVEN, &browser.origin()).await;
        let body = json!({"digital_credential": credential});
        browser.post(&format!("wallet?ip={address}"), Some(cookie), &body).await.assert(200);
        let ended = client.get(id(&created)).await;
        match expected {
            None => assert_completed(&ended, true, "secure_sna"),
            Some(failed) => assert_eq!(steps(&ended), failed),
        }
    }
}

async fn another_device_leaves_no_wallet(world: World) {
    let operator = ScriptedOperator::with_wallet(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": SHOP})).await;
    let browser = PageBrowser::new(&world, &created);
    operator.fail(ErrorCode::IpMismatch);
    client::send(world.node.address, &browser.start("?wallet=1").await.come_back()).await.assert(302);
    let next = client.get(id(&created)).await;
    assert_eq!(steps(&next), [("secure_sna", "ERROR", "ip_mismatch"), ("reverse_sms", "ACCEPTED", "")]);
}
