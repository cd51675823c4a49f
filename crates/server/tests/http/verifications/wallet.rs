//! Tests Secure SNA over Wi-Fi: the client's app or the hosted page asks the phone's wallet, which the sandbox plays.

use futures_util::future::join_all;
use ringtrue_domain::{
    product::Product,
    silent::{WalletFailure, Way},
};
use serde_json::{Value, json};

use crate::{
    client::{self, HttpResponse, Request},
    on_both_stores,
    verifications::api::{VerificationClient, assert_completed, id, is_open, path, steps, text},
    world::{World, send_to},
};

const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const APP: &str = "android:apk-key-hash:t0uHBVLpzRPqDJqYFSZ6IYxOPzWvPrsOKYO0hvFT_wk";
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
    page_offers_the_wallet_to_phones_on_wifi,
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
    async fn first_way(&self, verification: &Value) -> (Option<Way>, Option<WalletFailure>) {
        let step = self.get(id(verification)).await["steps"][0]["check_id"].as_str().unwrap().parse().unwrap();
        let (engine, project) = (&self.world.node.engine, self.project.project_id.parse().unwrap());
        let history = engine.checks.check_history(project, Product::SecureSna, step).await.unwrap();
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
        assert_eq!(client.first_way(&created).await, (Some(Way::OperatorToken), None));
        let again = client.answer(id(&created), &credential).await.assert(200);
        assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), ended.json()));
        let unused = client.confirm_step(&read, sim).await;
        assert_eq!(client.answer(id(&created), &unused).await.assert(200).json(), ended.json(), "the same step");
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
    assert_eq!(client.first_way(&created).await, (Some(Way::OperatorToken), Some(WalletFailure::Refused)));
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
        let request =
            Request::post(&format!("{}/{action}", self.path)).header("Sec-Fetch-Site", "same-origin").json(body);
        let request = cookie.into_iter().fold(request, |request, cookie| request.header("Cookie", cookie));
        // The page is not part of the API.
        client::send(self.world.node.address, &request).await
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
    assert_eq!(client.first_way(&created).await, (Some(Way::OperatorToken), None));
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
        assert_eq!(client.first_way(&created).await, (Some(Way::OperatorToken), Some(failure)));
        browser.post("wallet", None, &json!({"error": name})).await.assert(200);
        assert_eq!(client.get(id(&created)).await, next, "a repeated request gives up one step");
    }
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let browser = PageBrowser::new(&world, &created);
    for body in [json!({}), json!({"error": "other"}), json!({"error": "declined", "more": 1})] {
        browser.post("wallet", None, &body).await.assert_problem(400, "bad_request");
    }
}

async fn page_offers_the_wallet_to_phones_on_wifi(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN, "redirect_url": "https://shop.example/back"})).await;
    let browser = PageBrowser::new(&world, &created);
    let page = async |query: &str, agent: &str| {
        let request = Request::get(&format!("{}{query}", browser.path));
        let request = ["same-origin", "navigate", "document"]
            .into_iter()
            .zip(["Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"])
            .fold(request, |request, (value, name)| request.header(name, value));
        client::send(world.node.address, &request.header("User-Agent", agent)).await.assert(200).text()
    };
    let (wifi, android) = (format!("?ip={WIFI}"), "Mozilla/5.0 (Linux; Android 15; Pixel 9)");
    let shown = page(&wifi, android).await;
    assert!(shown.contains(r#"<div id="wallet" hidden>"#), "{shown}");
    assert!(shown.contains(r#"<noscript><meta http-equiv="refresh" content="0;url="#), "without a script as before");
    let shown = page("", android).await;
    assert!(
        !shown.contains(r#"<div id="wallet""#) && shown.contains("data-wallet="),
        "mobile data comes first: {shown}"
    );
    let shown = page(&wifi, "Mozilla/5.0 (X11; Linux x86_64)").await;
    assert!(!shown.contains("data-wallet="), "a computer has no wallet: {shown}");
}
