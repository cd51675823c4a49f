//! The hosted page of verifications, as browsers use it.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::CheckStatus, tenancy::Project, verification::Method};
use ringtrue_engine::verifications::{CreateVerification, StepInstructions, Verification};
use serde_json::json;

use crate::{
    client::{self, HttpResponse, Request},
    console::{browser::Browser, live::Events},
    on_both_stores,
    scripted_operator::{AUTHORIZE, ScriptedOperator},
    scripted_sim_swap::ScriptedSimSwap,
    silent_client::{callback, query, redirect_state},
    world::World,
};

const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const SHOP: &str = "https://shop.example/back?cart=1";
/// An address of the sandbox that is not mobile.
const WIFI: &str = "198.51.100.7";

on_both_stores!(
    chain_with_a_redirect_url_ends_at_the_shop,
    failed_chain_leads_to_a_text_message_and_its_code_is_redeemed_once,
    looking_changes_nothing,
    a_form_that_is_sent_twice_gives_up_one_step,
    events_say_when_the_state_changed,
);

/// A project, and browsers of its end-users.
struct Shop<'a> {
    world: &'a World,
    project: Arc<Project>,
    sms_token: String,
}

impl<'a> Shop<'a> {
    async fn new(world: &'a World) -> Self {
        let project = world.project("Nordwind <Outdoor>", json!({})).await;
        let sms_token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        let project = world.node.engine.control_plane().project(project.project_id.parse().unwrap()).unwrap();
        Shop { world, project, sms_token }
    }

    /// Creates a verification and returns it with the path of its page.
    async fn create(&self, request: CreateVerification) -> (Verification, String) {
        let created = self.world.node.engine.verifications.create(&self.project, request, None).await.unwrap();
        let url = created.page_url.clone().unwrap();
        let path = url.strip_prefix(&self.world.node.base_url).expect("our own address").to_owned();
        (created, path)
    }

    async fn status(&self, verification: &Verification) -> CheckStatus {
        self.read(verification).await.check.status()
    }

    async fn read(&self, verification: &Verification) -> Verification {
        self.world.node.engine.verifications.read(self.project.id, verification.check.id).await.unwrap()
    }

    async fn redeem(&self, verification: &Verification, code: &str) -> Option<Verification> {
        let verifications = &self.world.node.engine.verifications;
        let redeemed = verifications.redeem(self.project.id, verification.check.id, code).await.ok()?;
        Some(redeemed.verification)
    }

    /// Sends the SMS of the current step.
    async fn text(&self, from: &str, verification: &Verification) {
        let Some(StepInstructions::ReverseSms { receiver, sms_body }) = self.read(verification).await.next_step else {
            panic!("no SMS is expected");
        };
        let sms = json!({"from": from, "to": receiver.as_str(), "body": sms_body});
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&self.sms_token).json(&sms);
        self.world.send(request).await.assert(202);
        self.world.wait_for_sms().await;
    }

    async fn send(&self, request: Request) -> HttpResponse {
        client::send(self.world.node.address, &request).await
    }

    async fn get(&self, path: &str) -> HttpResponse {
        self.send(Request::get(path)).await
    }

    /// Submits a form of the page.
    async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.send(Request::post(path).header("Sec-Fetch-Site", "same-origin").form(fields)).await
    }

    /// Asserts the name of the page's state.
    async fn expect_state(&self, path: &str, state: &str) -> String {
        let page = self.get(path).await.assert(200);
        assert_page(&page);
        let page = page.text();
        assert!(page.contains(&format!("<body data-state=\"{state}\"")), "expected {state}: {page}");
        page
    }
}

fn request(phone_number: &str, methods: &[Method]) -> CreateVerification {
    let methods = Some(methods.to_vec()).filter(|methods| !methods.is_empty());
    CreateVerification { phone_number: phone_number.to_owned(), methods, ..CreateVerification::default() }
}

fn with_redirect(phone_number: &str) -> CreateVerification {
    CreateVerification { redirect_url: Some(SHOP.to_owned()), ..request(phone_number, &[]) }
}

/// Asserts what holds for every page.
#[track_caller]
fn assert_page(response: &HttpResponse) {
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("referrer-policy"), Some("same-origin"));
    let policy = response.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.ends_with("frame-ancestors 'self'") && !policy.contains("unsafe"), "{policy}");
    assert!(response.body.len() < 50 * 1024);
    let text = response.text();
    assert!(!text.contains("<Outdoor>"), "the brand is escaped: {text}");
    for number in [EVEN, ODD] {
        assert!(!text.contains(number), "the number is not shown in full: {text}");
    }
}

async fn chain_with_a_redirect_url_ends_at_the_shop(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(with_redirect(EVEN)).await;
    let page = shop.expect_state(&path, "silent").await;
    assert!(page.contains(&format!("<meta http-equiv=\"refresh\" content=\"0;url={path}/silent\">")), "{page}");
    assert!(page.contains("Nordwind &#60;Outdoor&#62;") && page.contains("ending in 00"), "{page}");

    let state = redirect_state(&shop.get(&format!("{path}/silent?sim=%2B990123456700")).await);
    assert_eq!(shop.status(&verification).await, CheckStatus::Pending);
    let end = shop.get(&callback(&state)).await.assert(302);
    let location = end.header("location").unwrap();
    assert!(location.starts_with(&format!("{SHOP}&")), "{location}");
    let parameters = query(location);
    let get = |name: &str| parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(get("verification_id"), Some(verification.check.id.to_string().as_str()));

    // What a browser says proves nothing: only the backend concludes the verification.
    shop.expect_state(&path, "confirming").await;
    let again = shop.get(&format!("{path}/silent")).await.assert(303);
    assert_eq!(again.header("location"), Some(path.as_str()), "the chain does not start again");
    let redeemed = shop.redeem(&verification, get("code").unwrap()).await.unwrap();
    assert_eq!(redeemed.check.status(), CheckStatus::Completed);
    assert!(redeemed.check.verdict().unwrap().matched);
    shop.expect_state(&path, "done").await;
}

async fn failed_chain_leads_to_a_text_message_and_its_code_is_redeemed_once(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let announced = CreateVerification { device_ip: Some(WIFI.to_owned()), ..with_redirect(EVEN) };
    let (verification, path) = shop.create(announced).await;
    let moved = shop.get(&format!("{path}/silent?lang=de")).await.assert(303);
    assert_eq!(moved.header("location"), Some(format!("{path}?lang=de").as_str()));
    let page = shop.expect_state(&format!("{path}?lang=de"), "send_sms").await;
    assert!(page.contains("<html lang=\"de\" dir=\"ltr\">") && page.contains("Senden Sie uns eine SMS"), "{page}");
    assert!(page.contains(&format!("content=\"5;url={path}?lang=de\"")), "works without JavaScript: {page}");

    let Some(StepInstructions::ReverseSms { receiver, sms_body }) = shop.read(&verification).await.next_step else {
        panic!("the next step is an SMS");
    };
    let body = sms_body.replace(' ', "%20");
    for (user_agent, separator) in [("iPhone", "&#38;"), ("Android", "?"), ("X11; Linux", "?&#38;")] {
        let page = shop.send(Request::get(&path).header("User-Agent", user_agent)).await.assert(200).text();
        let link = format!("href=\"sms:{}{separator}body={body}\"", receiver.as_str());
        assert!(page.contains(&link), "{user_agent}: {page}");
    }

    shop.text(EVEN, &verification).await;
    let page = shop.expect_state(&path, "done").await;
    let location = page.split("data-return-to=\"").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    assert!(location.starts_with(&format!("{SHOP}&verification_id={}&code=", verification.check.id)), "{location}");
    let code = location.split("&code=").nth(1).unwrap();
    assert!(shop.redeem(&verification, "wrong").await.is_none());
    assert!(shop.redeem(&verification, code).await.is_some());
    assert!(shop.redeem(&verification, code).await.is_none(), "the code can be redeemed once");
}

async fn looking_changes_nothing(world: World) {
    let operator = ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for request in [with_redirect(EVEN), request(ODD, &[])] {
        let has_redirect_url = request.redirect_url.is_some();
        let (verification, path) = shop.create(request).await;
        let silent = format!("{path}/silent");
        for request in [
            Request::get(&path),
            Request::new("HEAD", &path),
            Request::get(&path).header("User-Agent", "facebookexternalhit/1.1"),
            Request::new("HEAD", &silent),
            Request::get(&silent).header("Sec-Purpose", "prefetch;prerender"),
            Request::get(&silent).header("Purpose", "prefetch"),
        ] {
            let status = shop.send(request).await.status;
            assert!(status == 200 || status == 303, "{status}");
        }
        if !has_redirect_url {
            let shown = shop.get(&silent).await.assert(303);
            assert_eq!(shown.header("location"), Some(path.as_str()), "a link alone verifies nobody");
        }
        let read = shop.read(&verification).await;
        assert_eq!(read.check.status(), CheckStatus::Accepted);
        assert_eq!(read.next_step, verification.next_step);
        shop.expect_state(&path, "silent").await;
    }
    assert!(operator.returned_devices().is_empty());
}

async fn a_form_that_is_sent_twice_gives_up_one_step(world: World) {
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(request(EVEN, &[])).await;
    let next = format!("{path}/next");
    let form = [("method", "secure_sna")];
    let (one, two) = tokio::join!(shop.submit(&next, &form), shop.submit(&next, &form));
    for response in [one, two, shop.submit(&next, &form).await] {
        assert_eq!(response.assert(303).header("location"), Some(path.as_str()));
    }
    shop.expect_state(&path, "send_sms").await;
    shop.submit(&next, &[("method", "reverse_sms")]).await.assert(303);
    let page = shop.expect_state(&path, "failed").await;
    assert!(page.contains("You can close this page now."), "{page}");
    assert_eq!(shop.status(&verification).await, CheckStatus::Error);
    shop.submit(&next, &[("method", "reverse_sms")]).await.assert(303);
    shop.submit(&next, &[]).await.assert(400);
}

async fn events_say_when_the_state_changed(world: World) {
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(request(EVEN, &[])).await;
    let (browser, events) = (Browser::new(&world), format!("{path}/events"));
    let mut stream = Events::open(&browser, &events).await;
    assert_eq!(stream.expect("state").await, "silent");
    shop.submit(&format!("{path}/next"), &[("method", "secure_sna")]).await.assert(303);
    assert_eq!(stream.expect("state").await, "send_sms");
    let mut second = Events::open(&browser, &events).await;
    assert_eq!(second.expect("state").await, "send_sms", "a new stream begins with the current state");
    shop.text(EVEN, &verification).await;
    for mut stream in [stream, second] {
        assert_eq!(stream.expect("state").await, "done");
        assert_eq!(stream.next().await, None, "the stream ends with the verification");
    }
}

/// The console's policy permits only its own pages in the frame of the handset.
#[tokio::test]
async fn framed_page_opens_the_shop_in_another_tab() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(with_redirect(EVEN)).await;
    let framed = async |path: &str| shop.send(Request::get(path).header("Sec-Fetch-Dest", "iframe")).await;
    let state = redirect_state(&framed(&format!("{path}/silent")).await);
    let almost = framed(&callback(&state)).await.assert(200);
    assert_page(&almost);
    let almost = almost.text();
    assert!(almost.contains("data-state=\"confirming\"") && !almost.contains("data-return-to"), "{almost}");
    let link = almost.split("class=\"button\" href=\"").nth(1).unwrap();
    assert!(link.contains("\" target=\"_blank\" rel=\"noopener\">"), "{almost}");
    let location = link.split('"').next().unwrap().replace("&#38;", "&");
    let code = location.split("&code=").nth(1).unwrap().split('&').next().unwrap();
    assert!(location.starts_with(SHOP) && shop.redeem(&verification, code).await.is_some(), "{location}");
    let done = framed(&path).await.assert(200).text();
    assert!(done.contains("data-state=\"done\"") && !done.contains("data-return-to"), "{done}");
}

#[tokio::test]
async fn streams_are_limited_by_verification() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(request(EVEN, &[])).await;
    let (browser, events) = (Browser::new(&world), format!("{path}/events"));
    let mut open = vec![];
    for _ in 0..4 {
        let mut stream = Events::open(&browser, &events).await;
        assert_eq!(stream.expect("state").await, "silent");
        open.push(stream);
    }
    assert_eq!(Events::open(&browser, &events).await.status, 429);
    let (_, other) = shop.create(request(ODD, &[])).await;
    assert_eq!(Events::open(&browser, &format!("{other}/events")).await.status, 200);
}

#[tokio::test]
async fn button_verifies_without_a_redirect_url() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for (number, sim, state) in [(EVEN, EVEN, "done"), (ODD, EVEN, "not_matched")] {
        let (verification, path) = shop.create(request(number, &[])).await;
        let page = shop.expect_state(&path, "silent").await;
        assert!(!page.contains("http-equiv") && page.contains("Confirm this phone"), "{page}");
        let silent = format!("{path}/silent?sim={}", sim.replace('+', "%2B"));
        // A page and not a redirect, because browsers apply `form-action` to redirects, too.
        let leaving = shop.submit(&silent, &[]).await.assert(200).text();
        let location = leaving.split("content=\"0;url=").nth(1).unwrap().split('"').next().unwrap();
        let device_state = location.strip_prefix(&format!("{AUTHORIZE}?state=")).expect("the operator");
        let back = shop.get(&callback(device_state)).await.assert(302);
        assert_eq!(back.header("location"), Some(format!("{}{path}", world.node.base_url).as_str()));
        shop.expect_state(&path, state).await;
        assert_eq!(shop.read(&verification).await.check.verdict().unwrap().matched, state == "done");
    }
}

#[tokio::test]
async fn forms_of_other_sites_are_refused() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(request(EVEN, &[])).await;
    let host = world.node.address;
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Site", "none"),
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Origin", ""),
        ("X-Nothing", "else"),
    ] {
        for (action, fields) in [("silent", &[][..]), ("next", &[("method", "secure_sna")])] {
            let request = Request::post(&format!("{path}/{action}")).header(name, value).form(fields);
            let page = shop.send(request).await.assert(403);
            assert_page(&page);
            assert!(page.text().contains("data-state=\"refused\""), "{}", page.text());
        }
    }
    assert_eq!(shop.read(&verification).await.next_step, verification.next_step);
    let own = Request::post(&format!("{path}/silent")).header("Origin", format!("http://{host}")).form(&[]);
    shop.send(own).await.assert(200);
}

#[tokio::test]
async fn unknown_and_tampered_tokens_are_not_found() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect(EVEN)).await;
    let token = path.strip_prefix("/v/").unwrap();
    assert_eq!(token.len(), 43);
    let swapped = |index: usize| {
        let other = if token.as_bytes()[index] == b'A' { "B" } else { "A" };
        format!("{}{other}{}", &token[..index], &token[index + 1..])
    };
    for wrong in
        [swapped(0), swapped(20), swapped(30), swapped(41), token[1..].to_owned(), "A".repeat(43), "%3Cb%3E".to_owned()]
    {
        for (method, action) in
            [("GET", ""), ("GET", "/silent"), ("POST", "/silent"), ("POST", "/next"), ("GET", "/events")]
        {
            let request = Request::new(method, &format!("/v/{wrong}{action}")).header("Sec-Fetch-Site", "same-origin");
            let request = if method == "POST" { request.form(&[("method", "secure_sna")]) } else { request };
            let response = shop.send(request).await.assert(404);
            assert_page(&response);
            assert!(!response.text().contains("Nordwind") && !response.text().contains("<b>"), "{}", response.text());
            // Guesses are limited by address and second.
            world.advance(SignedDuration::from_secs(1));
        }
    }
    shop.expect_state(&path, "silent").await;
}

#[tokio::test]
async fn visits_are_limited() {
    let world = World::configured(|config| config.rate_limits.device = 20).await;
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(request(EVEN, &[])).await;
    for path in [path.as_str(), "/v/unknown"] {
        let mut last = shop.get(path).await;
        for _ in 0..20 {
            last = shop.get(path).await;
        }
        let busy = last.assert(429);
        assert_page(&busy);
        assert!(busy.header("retry-after").is_some() && busy.text().contains("Too many attempts"), "{}", busy.text());
    }
}

#[tokio::test]
async fn every_end_has_its_page() {
    let world = World::sqlite().await;
    let sim_swap = ScriptedSimSwap::simulated(&world);
    let shop = Shop::new(&world).await;
    let sms = [Method::ReverseSms];

    let (verification, path) = shop.create(request(EVEN, &sms)).await;
    shop.expect_state(&path, "send_sms").await;
    shop.text(ODD, &verification).await;
    let page = shop.expect_state(&path, "not_matched").await;
    assert!(page.contains("Number not confirmed") && !page.contains("data-events"), "{page}");

    sim_swap.stop_responding();
    let asked = CreateVerification { sim_swap_period: Some(1_440), ..request(EVEN, &sms) };
    let (verification, path) = shop.create(asked).await;
    shop.text(EVEN, &verification).await;
    shop.expect_state(&path, "sim_swap").await;
    sim_swap.resume_responding();

    let expiring = CreateVerification { redirect_url: Some(SHOP.to_owned()), ..request("+990123456798", &sms) };
    let (verification, path) = shop.create(expiring).await;
    world.advance(SignedDuration::from_secs(600));
    let page = shop.expect_state(&path, "expired").await;
    assert!(page.contains("&#38;error=check_expired"), "{page}");
    assert_eq!(shop.status(&verification).await, CheckStatus::Expired);
    world.advance(SignedDuration::from_secs(3_600));
    shop.get(&path).await.assert(404);
}

#[tokio::test]
async fn page_speaks_the_language_of_the_browser() {
    let world = World::sqlite().await;
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(request(EVEN, &[])).await;
    for (accepted, query, lang, dir) in [
        ("fr-CA,fr;q=0.9,en;q=0.8", "", "fr", "ltr"),
        ("ja", "", "en", "ltr"),
        ("fr", "?lang=pl", "pl", "ltr"),
        ("fr", "?lang=ar-XB", "ar-XB", "rtl"),
        ("nl", "?lang=%22%3E%3Cscript%3E", "nl", "ltr"),
    ] {
        let request = Request::get(&format!("{path}{query}")).header("Accept-Language", accepted);
        let page = shop.send(request).await.assert(200);
        assert_page(&page);
        assert!(page.text().contains(&format!("<html lang=\"{lang}\" dir=\"{dir}\">")), "{}", page.text());
        assert!(!page.text().contains("\"><script>"), "{}", page.text());
    }
    let unknown = shop.send(Request::get("/v/x").header("Accept-Language", "de")).await.assert(404).text();
    assert!(unknown.contains("Dieser Link ist ungültig"), "{unknown}");
}
