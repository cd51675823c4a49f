//! Tests the hosted page of verifications, as browsers use it.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{account::Role, lifecycle::CheckStatus, tenancy::Project, verification::Method};
use ringtrue_engine::verifications::{CreateVerification, StepInstructions, Verification};
use ringtrue_server::config::BaseUrl;
use serde_json::{Value, json};

use crate::{
    client::{self, HttpResponse, Request},
    console::{browser::Browser, live::Events},
    database::Database,
    on_both_databases, on_both_stores,
    products::scripted_sim_swap::ScriptedSimSwap,
    silent::{
        scripted_operator::{AUTHORIZE, ScriptedOperator},
        silent_client::{callback, query},
    },
    world::World,
};

const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const SHOP: &str = "https://shop.example/back?cart=1";
/// A sandbox address that does not belong to a mobile network.
const WIFI: &str = "198.51.100.7";

on_both_stores!(
    chain_with_a_redirect_url_ends_at_the_shop,
    return_of_another_browser_changes_nothing,
    begun_chain_does_not_start_again_by_itself,
    other_browsers_wait_for_the_one_that_began,
    two_tabs_of_one_browser_do_not_disturb_each_other,
    lost_return_is_given_again_to_its_browser,
    users_end_verifications,
    wrong_number_is_asked_before_and_after_the_start,
    only_method_is_given_up_after_a_question,
    verdict_of_another_browser_offers_no_other_way,
    failed_chain_leads_to_a_text_message_with_its_own_code,
    looking_changes_nothing,
    refused_start_leads_to_the_button,
    blocked_cookies_are_named,
    a_form_that_is_sent_twice_gives_up_one_step,
    events_say_when_the_state_changed,
    old_browsers_get_a_button,
    forms_of_other_sites_are_refused,
    button_verifies_without_a_redirect_url,
    mismatch_is_worded_for_the_device,
    every_end_has_its_page,
    overview_and_timeline_follow_verifications,
);
on_both_databases!(visitors_are_limited_apart);

/// A project whose end-users visit hosted pages with browsers.
struct Shop<'a> {
    world: &'a World,
    project: Arc<Project>,
    sms_token: String,
}

impl<'a> Shop<'a> {
    async fn new(world: &'a World) -> Self {
        Self::configured(world, "Nordwind <Outdoor>", &json!({})).await
    }

    /// Creates a project with these settings of verifications.
    async fn configured(world: &'a World, name: &str, settings: &Value) -> Self {
        let configuration = json!({"configuration": {"verification": settings}});
        let project = world.project(name, configuration).await;
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

    /// Sends the SMS that the current step asks for.
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

    /// Starts the silent check as the page does without any action of the user.
    async fn start_silent(&self, silent: &str) -> Started {
        Started::new(self.send(navigation(silent)).await)
    }

    /// Starts the silent check as the button of the page does.
    async fn press_button(&self, silent: &str) -> Started {
        let permitted = self.submit(silent, &[]).await.assert(303);
        let cookie = cookie_of(&permitted);
        let leave = permitted.header("location").unwrap().to_owned();
        Started::new(self.send(navigation(&leave).header("Cookie", cookie)).await)
    }

    /// Asserts the state that the page shows to a browser without cookies. Returns the page.
    async fn expect_state(&self, path: &str, state: &str) -> String {
        let page = self.send(navigation(path)).await.assert(200);
        assert_page(&page);
        let page = page.text();
        assert!(page.contains(&format!("<body data-state=\"{state}\"")), "expected {state}: {page}");
        page
    }
}

/// A silent check that a browser has begun.
pub struct Started {
    /// The `state` parameter sent to the operator.
    pub state: String,
    /// Cookie with the key by which the page recognises this browser.
    pub cookie: String,
}

impl Started {
    /// Reads state and cookie from the page that sends the browser to the operator.
    #[track_caller]
    pub fn new(response: HttpResponse) -> Self {
        let response = response.assert(200);
        assert_page(&response);
        let page = response.text();
        assert!(page.contains("<body data-state=\"stalled\""), "{page}");
        let location = page.split("data-operator=\"").nth(1).unwrap().split('"').next().unwrap();
        let state = location.strip_prefix(&format!("{AUTHORIZE}?state=")).expect("the operator").to_owned();
        Started { state, cookie: cookie_of(&response) }
    }

    /// Builds the request with which the browser returns from the operator.
    pub fn come_back(&self) -> Request {
        Request::get(&callback(&self.state)).header("Cookie", &self.cookie)
    }
}

/// Returns name and value of the cookie that a response sets.
#[track_caller]
pub fn cookie_of(response: &HttpResponse) -> String {
    let cookie = response.header("set-cookie").expect("a cookie");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=120"), "{cookie}");
    assert!(cookie.starts_with("ringtrue-device-"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

/// Builds a request as a browser sends it when one of our own pages navigates to the path.
pub fn navigation(path: &str) -> Request {
    let request = Request::get(path).header("Sec-Fetch-Site", "same-origin");
    request.header("Sec-Fetch-Mode", "navigate").header("Sec-Fetch-Dest", "document")
}

fn fetch(path: &str, site: &str, mode: &str, destination: &str) -> Request {
    let request = Request::get(path).header("Sec-Fetch-Site", site);
    request.header("Sec-Fetch-Mode", mode).header("Sec-Fetch-Dest", destination)
}

fn request(phone_number: &str, methods: &[Method]) -> CreateVerification {
    let methods = Some(methods.to_vec()).filter(|methods| !methods.is_empty());
    CreateVerification { phone_number: phone_number.to_owned(), methods, ..CreateVerification::default() }
}

fn with_redirect(phone_number: &str) -> CreateVerification {
    CreateVerification { redirect_url: Some(SHOP.to_owned()), ..request(phone_number, &[]) }
}

/// Asserts headers and content that every page must have.
#[track_caller]
fn assert_page(response: &HttpResponse) {
    assert_framable(response, "frame-ancestors 'self'");
}

/// Asserts headers and content that every page must have, and which sites may show it in a frame.
#[track_caller]
fn assert_framable(response: &HttpResponse, ancestors: &str) {
    // These headers would forbid what the content security policy permits: frames, and messages to the window that
    // opened the page.
    for name in ["x-frame-options", "cross-origin-opener-policy"] {
        assert_eq!(response.header(name), None);
    }
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("referrer-policy"), Some("same-origin"));
    let policy = response.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(policy.ends_with(&format!("; {ancestors}")) && !policy.contains("unsafe"), "{policy}");
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
    assert!(page.contains("Nordwind &#60;Outdoor&#62;") && page.contains("ending in 6700"), "{page}");

    let started = shop.start_silent(&format!("{path}/silent?sim=%2B990123456700")).await;
    assert_eq!(shop.status(&verification).await, CheckStatus::Pending);
    let end = shop.send(started.come_back()).await.assert(302);
    let location = end.header("location").unwrap();
    assert!(location.starts_with(&format!("{SHOP}&")), "{location}");
    let parameters = query(location);
    let get = |name: &str| parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(get("verification_id"), Some(verification.check.id.to_string().as_str()));

    // The browser's return alone proves nothing: only the backend concludes the verification, by redeeming the code.
    shop.expect_state(&path, "confirming").await;
    let again = shop.send(navigation(&format!("{path}/silent"))).await.assert(303);
    assert_eq!(again.header("location"), Some(path.as_str()), "the chain does not start again");
    let redeemed = shop.redeem(&verification, get("code").unwrap()).await.unwrap();
    assert_eq!(redeemed.check.status(), CheckStatus::Completed);
    assert!(redeemed.check.verdict().unwrap().matched);
    // No other tab gets a second code, not even one in the same browser.
    for cookie in ["", started.cookie.as_str()] {
        let done = shop.send(navigation(&path).header("Cookie", cookie)).await.assert(200).text();
        assert!(done.contains("data-state=\"done\""), "{done}");
        assert!(!done.contains("code=") && !done.contains("data-return-to"), "{done}");
    }
}

/// Another person's phone must not finish a silent check that this browser began, whatever URL it is made to open.
async fn return_of_another_browser_changes_nothing(world: World) {
    let operator = ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for request in [request(EVEN, &[]), with_redirect(EVEN)] {
        let has_redirect_url = request.redirect_url.is_some();
        let (verification, path) = shop.create(request).await;
        let silent = format!("{path}/silent");
        let started =
            if has_redirect_url { shop.start_silent(&silent).await } else { shop.press_button(&silent).await };
        let (_, other) = shop.create(with_redirect(EVEN)).await;
        let other = shop.start_silent(&format!("{other}/silent")).await;
        let before = operator.returned_devices().len();
        let key = started.cookie.split_once('=').unwrap().1;
        for cookie in ["", "ringtrue-device-x=", &other.cookie, &started.cookie.replace(key, &"A".repeat(43))] {
            let back = Request::get(&callback(&started.state)).header("Cookie", cookie);
            let refused = shop.send(back).await.assert_problem(403, "forbidden");
            assert!(refused.header("location").is_none() && refused.text().contains("another browser"));
            let image = Request::get(&callback(&started.state)).header("Sec-Fetch-Dest", "document");
            let page = shop.send(image.header("Cookie", cookie)).await.assert(403).text();
            assert!(page.contains("Started in another browser") && page.contains("Nothing was confirmed"), "{page}");
            assert!(page.contains("allow cookies and start again"), "{page}");
        }
        assert_eq!(operator.returned_devices().len(), before, "the operator was not asked");
        assert_eq!(shop.status(&verification).await, CheckStatus::Pending);
        // The browser that began the check can still finish it.
        shop.send(started.come_back()).await.assert(302);
        let state = if has_redirect_url { "confirming" } else { "done" };
        shop.expect_state(&path, state).await;
    }
}

async fn begun_chain_does_not_start_again_by_itself(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect("+990123456798")).await;
    let silent = format!("{path}/silent");
    let first = shop.start_silent(&silent).await;
    // A reload, the back button or a second visit does not start the check again.
    for cookie in ["", first.cookie.as_str()] {
        let again = shop.send(navigation(&silent).header("Cookie", cookie)).await.assert(303);
        assert_eq!(again.header("location"), Some(path.as_str()));
    }
    let page = shop.send(navigation(&path).header("Cookie", &first.cookie)).await.assert(200).text();
    assert!(page.contains("<body data-state=\"stalled\""), "{page}");
    assert!(!page.contains("http-equiv") && !page.contains("data-operator"), "{page}");
    assert!(page.contains(">Try again</button>") && page.contains(">Try another way</button>"), "{page}");

    // The button redirects to a URL with a permit. The permit allows one start, and only in the browser that pressed
    // the button.
    let permitted = shop.submit(&silent, &[]).await.assert(303);
    let (leave, cookie) = (permitted.header("location").unwrap().to_owned(), cookie_of(&permitted));
    shop.send(navigation(&leave)).await.assert(303);
    shop.send(navigation(&leave).header("Cookie", &first.cookie)).await.assert(303);
    let second = Started::new(shop.send(navigation(&leave).header("Cookie", &cookie)).await);
    shop.send(navigation(&leave).header("Cookie", &cookie)).await.assert(303);
    // Clients without `Sec-Fetch` headers can start with the permit and the cookie.
    let third = shop.submit(&silent, &[]).await.assert(303);
    let request = Request::get(third.header("location").unwrap()).header("Cookie", cookie_of(&third));
    let third = Started::new(shop.send(request).await);
    // The third start has replaced the second, so the second browser's return only leads back to the page.
    let replaced = shop.send(second.come_back()).await.assert(302);
    assert_eq!(replaced.header("location"), Some(format!("{}{path}", world.node.base_url).as_str()));
    shop.expect_state(&path, "elsewhere").await;
    assert!(shop.send(third.come_back()).await.assert(302).header("location").unwrap().starts_with(SHOP));
}

/// The page is open on a computer, where it shows a QR code, while a phone runs the silent check.
async fn other_browsers_wait_for_the_one_that_began(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(request(EVEN, &[])).await;
    let silent = format!("{path}/silent");
    let mut computer = Events::open(&Browser::new(&world), &format!("{path}/events")).await;
    assert_eq!(computer.expect("state").await, "silent");
    let phone = shop.press_button(&silent).await;
    assert_eq!(computer.expect("state").await, "elsewhere");
    let page = shop.expect_state(&path, "elsewhere").await;
    assert!(page.contains("Continue on your phone") && !page.contains("<form"), "{page}");
    assert!(page.contains(&format!("content=\"5;url={path}\"")), "works without JavaScript: {page}");
    let own = shop.send(navigation(&path).header("Cookie", &phone.cookie)).await.assert(200).text();
    assert!(own.contains("<body data-state=\"stalled\""), "{own}");

    // After eight seconds, the computer can start the check itself.
    world.advance(SignedDuration::from_secs(7));
    shop.expect_state(&path, "elsewhere").await;
    world.advance(SignedDuration::from_secs(1));
    assert_eq!(computer.expect("state").await, "stalled");
    let page = shop.expect_state(&path, "stalled").await;
    assert!(page.contains(">Try again</button>"), "{page}");

    // The phone starts the check again and gets a cookie with a new key. A browser with the earlier key has to wait.
    let again = shop.press_button(&silent).await;
    shop.expect_state(&path, "elsewhere").await;
    let earlier = shop.send(navigation(&path).header("Cookie", &phone.cookie)).await.assert(200).text();
    assert!(earlier.contains("<body data-state=\"elsewhere\""), "{earlier}");
    shop.send(again.come_back()).await.assert(302);
    assert_eq!(computer.expect("state").await, "done");
    shop.expect_state(&path, "done").await;
}

async fn two_tabs_of_one_browser_do_not_disturb_each_other(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for created in [request(EVEN, &[]), with_redirect(EVEN)] {
        let has_redirect_url = created.redirect_url.is_some();
        let (verification, path) = shop.create(created).await;
        let silent = format!("{path}/silent");
        let first = shop.press_button(&silent).await;
        // Another tab of the same browser starts the check again before the first tab returns.
        let form = Request::post(&silent).header("Sec-Fetch-Site", "same-origin").header("Cookie", &first.cookie);
        let permitted = shop.send(form.form(&[])).await.assert(303);
        let leave = navigation(permitted.header("location").unwrap()).header("Cookie", &first.cookie);
        let second = Started::new(shop.send(leave).await);
        assert_eq!(second.cookie, first.cookie);
        let page = format!("{}{path}", world.node.base_url);
        for _ in 0..2 {
            let back = shop.send(first.come_back()).await.assert(302);
            assert_eq!(back.header("location"), Some(page.as_str()));
        }
        // Another browser does not get the result.
        shop.send(Request::get(&callback(&first.state))).await.assert_problem(403, "forbidden");
        assert_eq!(shop.status(&verification).await, CheckStatus::Pending);
        let back = shop.send(second.come_back()).await.assert(302);
        let target = if has_redirect_url { SHOP } else { page.as_str() };
        assert!(back.header("location").unwrap().starts_with(target));
        // The first tab shows the result of the second.
        let back = shop.send(first.come_back()).await.assert(302);
        assert_eq!(back.header("location"), Some(page.as_str()));
        let state = if has_redirect_url { "confirming" } else { "done" };
        shop.expect_state(&path, state).await;
    }
}

async fn lost_return_is_given_again_to_its_browser(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(with_redirect(EVEN)).await;
    let started = shop.start_silent(&format!("{path}/silent")).await;
    let location = shop.send(started.come_back()).await.assert(302).header("location").unwrap().to_owned();
    let (_, code) = query(&location).into_iter().find(|(name, _)| name == "code").unwrap();
    let stranger = shop.expect_state(&path, "confirming").await;
    assert!(!stranger.contains(&code), "{stranger}");
    let own = shop.send(navigation(&path).header("Cookie", &started.cookie)).await.assert(200).text();
    let link = format!("href=\"{}\"", location.replace('&', "&#38;"));
    assert!(own.contains(&link) && !own.contains("data-return-to"), "{own}");
    // A browser that returns from the operator twice is redirected to the page.
    let again = shop.send(started.come_back()).await.assert(302);
    assert_eq!(again.header("location"), Some(format!("{}{path}", world.node.base_url).as_str()));
    assert!(shop.redeem(&verification, &code).await.is_some());
}

async fn users_end_verifications(world: World) {
    let shop = Shop::new(&world).await;
    for (reason, title, error) in
        [("give_up", "Number not confirmed", "given_up"), ("wrong_number", "Thank you for telling us", "wrong_number")]
    {
        let created =
            CreateVerification { redirect_url: Some(SHOP.to_owned()), ..request(EVEN, &[Method::ReverseSms]) };
        let (verification, path) = shop.create(created).await;
        let asked = shop.expect_state(&format!("{path}?ask={reason}"), "send_sms").await;
        assert!(asked.contains(&format!("name=\"reason\" value=\"{reason}\"")), "{asked}");
        assert_eq!(shop.status(&verification).await, CheckStatus::Accepted, "asking ends nothing");
        let end = format!("{path}/end");
        shop.submit(&end, &[]).await.assert(400);
        shop.send(Request::post(&end).form(&[("reason", reason)])).await.assert(403);
        shop.submit(&end, &[("reason", reason)]).await.assert(303);
        shop.submit(&end, &[("reason", reason)]).await.assert(303);
        let page = shop.expect_state(&path, "failed").await;
        assert!(page.contains(title) && page.contains(&format!("&#38;error={error}")), "{page}");
        assert!(!page.contains("data-return-to"), "it waits for a tap: {page}");
        assert_eq!(shop.read(&verification).await.check.error_code().unwrap().into_str(), error);
    }
}

async fn wrong_number_is_asked_before_and_after_the_start(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    // Cases: without a redirect URL before and after the start, in an old browser, and in a browser in which the page
    // would start by itself.
    for (created, visit, is_linked, has_begun) in [
        (request(EVEN, &[]), navigation as fn(&str) -> Request, true, false),
        (request(EVEN, &[]), navigation, true, true),
        (with_redirect(EVEN), Request::get, true, false),
        (with_redirect(EVEN), navigation, false, false),
    ] {
        let (verification, path) = shop.create(created).await;
        let cookie = if has_begun { shop.press_button(&format!("{path}/silent")).await.cookie } else { String::new() };
        let visit = async |path: &str| shop.send(visit(path).header("Cookie", &cookie)).await.assert(200).text();
        let ask = format!("{path}?ask=wrong_number");
        assert_eq!(visit(&path).await.contains(&format!("href=\"{ask}\"")), is_linked);
        let asked = visit(&ask).await;
        let state = if has_begun { "stalled" } else { "silent" };
        assert!(asked.contains(&format!("<body data-state=\"{state}\"")), "{asked}");
        assert!(asked.contains("name=\"reason\" value=\"wrong_number\"") && !asked.contains("http-equiv"), "{asked}");
        shop.submit(&format!("{path}/end"), &[("reason", "wrong_number")]).await.assert(303);
        let end = shop.expect_state(&path, "failed").await;
        assert!(end.contains("Thank you for telling us"), "{end}");
        assert_eq!(shop.read(&verification).await.check.error_code().unwrap().into_str(), "wrong_number");
    }
}

async fn only_method_is_given_up_after_a_question(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for has_begun in [false, true] {
        let (verification, path) = shop.create(request(EVEN, &[Method::SecureSna])).await;
        let cookie = if has_begun { shop.press_button(&format!("{path}/silent")).await.cookie } else { String::new() };
        let visit = async |path: &str| shop.send(navigation(path).header("Cookie", &cookie)).await.assert(200).text();
        let ask = format!("{path}?ask=give_up");
        let page = visit(&path).await;
        assert!(!page.contains("/next\"") && !page.contains("another way"), "{page}");
        assert!(page.contains(&format!("href=\"{ask}\"")), "{page}");
        let asked = visit(&ask).await;
        assert!(asked.contains("Stop here?") && asked.contains("name=\"reason\" value=\"give_up\""), "{asked}");
        assert!(matches!(shop.status(&verification).await, CheckStatus::Accepted | CheckStatus::Pending));
        shop.submit(&format!("{path}/end"), &[("reason", "give_up")]).await.assert(303);
        shop.expect_state(&path, "failed").await;
        assert_eq!(shop.read(&verification).await.check.error_code().unwrap().into_str(), "given_up");
    }
    // If another method is left, the page does not ask for confirmation.
    let (_, path) = shop.create(request(EVEN, &[])).await;
    let page = shop.expect_state(&format!("{path}?ask=give_up"), "silent").await;
    assert!(page.contains("Try another way") && !page.contains("name=\"reason\""), "{page}");
}

async fn verdict_of_another_browser_offers_no_other_way(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect(EVEN)).await;
    let started = shop.start_silent(&format!("{path}/silent")).await;
    shop.send(started.come_back()).await.assert(302);
    let page = shop.expect_state(&path, "confirming").await;
    assert!(!page.contains("<form") && page.contains("Finish where you started"), "{page}");
}

async fn failed_chain_leads_to_a_text_message_with_its_own_code(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let announced = CreateVerification { device_ip: Some(WIFI.to_owned()), ..with_redirect(EVEN) };
    let (verification, path) = shop.create(announced).await;
    let moved = shop.send(navigation(&format!("{path}/silent?lang=de"))).await.assert(303);
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
    let done = shop.expect_state(&path, "done").await;
    assert!(!done.contains("code="), "no second code: {done}");
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
            navigation(&silent).header("Sec-Purpose", "prefetch;prerender"),
            navigation(&silent).header("Purpose", "prefetch"),
            // Requests of a scanner that follows the page's refresh, of an image, a script, and a link on another site.
            Request::get(&silent),
            fetch(&silent, "cross-site", "no-cors", "image"),
            fetch(&silent, "same-origin", "no-cors", "image"),
            fetch(&silent, "same-origin", "cors", "empty"),
            fetch(&silent, "cross-site", "navigate", "document"),
            fetch(&silent, "same-site", "navigate", "document"),
            fetch(&silent, "none", "navigate", "document"),
            fetch(&silent, "cross-site", "navigate", "iframe"),
            navigation(&format!("{silent}?go=AAAAAAAAAAAAAAAAAAAAAA")),
        ] {
            let status = shop.send(request).await.status;
            assert!(status == 200 || status == 303, "{status}");
        }
        if !has_redirect_url {
            let shown = shop.send(navigation(&silent)).await.assert(303);
            assert_eq!(shown.header("location"), Some(path.as_str()), "a link alone verifies nobody");
        }
        let read = shop.read(&verification).await;
        assert_eq!(read.check.status(), CheckStatus::Accepted);
        assert_eq!(read.next_step, verification.next_step);
        shop.expect_state(&path, "silent").await;
    }
    assert!(operator.returned_devices().is_empty());
}

/// A page that starts by itself must not send a browser to a refused start in an endless loop.
async fn refused_start_leads_to_the_button(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(with_redirect(EVEN)).await;
    for site in ["none", "same-site", "cross-site"] {
        let visit = |path: &str| fetch(path, site, "navigate", "document");
        let page = shop.send(visit(&path)).await.assert(200).text();
        assert!(page.contains(&format!("content=\"0;url={path}/silent\"")), "{page}");
        let refused = shop.send(visit(&format!("{path}/silent?lang=de"))).await.assert(303);
        let location = refused.header("location").unwrap();
        assert_eq!(location, format!("{path}?lang=de&start=tap"));
        let page = shop.send(visit(location)).await.assert(200).text();
        assert!(page.contains("Telefon bestätigen") && !page.contains("http-equiv"), "{page}");
        assert!(!page.contains("Cookie"), "{page}");
    }
    assert_eq!(shop.status(&verification).await, CheckStatus::Accepted);
    let started = shop.press_button(&format!("{path}/silent")).await;
    let back = shop.send(started.come_back()).await.assert(302);
    assert!(back.header("location").unwrap().starts_with(SHOP));
}

/// A browser that blocks cookies cannot start the silent check. The page asks the user to allow them.
async fn blocked_cookies_are_named(world: World) {
    let operator = ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for created in [request(EVEN, &[]), with_redirect(EVEN)] {
        let (verification, path) = shop.create(created).await;
        let press = async || {
            let permitted = shop.submit(&format!("{path}/silent?lang=en"), &[]).await.assert(303);
            let leave = permitted.header("location").unwrap().to_owned();
            let refused = shop.send(navigation(&leave)).await.assert(303);
            let location = refused.header("location").unwrap().to_owned();
            assert_eq!(location, format!("{path}?lang=en&start=cookies"));
            shop.send(navigation(&location)).await.assert(200).text()
        };
        let page = press().await;
        assert!(page.contains("Allow cookies for this page") && page.contains("Confirm this phone"), "{page}");
        assert!(page.contains("<body data-state=\"silent\"") && !page.contains("http-equiv"), "{page}");
        assert_eq!(shop.status(&verification).await, CheckStatus::Accepted);
        let unasked = shop.expect_state(&path, "silent").await;
        assert!(!unasked.contains("Allow cookies"), "{unasked}");
        // The hint is also shown if another browser has started the check and the operator has not answered.
        shop.press_button(&format!("{path}/silent")).await;
        assert!(press().await.contains("Allow cookies for this page"));
        world.advance(SignedDuration::from_secs(8));
        let page = press().await;
        assert!(page.contains("Allow cookies for this page") && page.contains("No answer yet"), "{page}");
        // If the start is refused because its permit was already used, the page must not show the hint about cookies.
        let permitted = shop.submit(&format!("{path}/silent"), &[]).await.assert(303);
        let (leave, cookie) = (permitted.header("location").unwrap().to_owned(), cookie_of(&permitted));
        let leave = || navigation(&leave).header("Cookie", &cookie);
        Started::new(shop.send(leave()).await);
        assert_eq!(shop.send(leave()).await.assert(303).header("location"), Some(path.as_str()));
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

/// The console shows the page in the frame of its simulated handset, whose content security policy permits no other
/// sites.
#[tokio::test]
async fn framed_page_opens_the_shop_in_another_tab() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (verification, path) = shop.create(with_redirect(EVEN)).await;
    let framed = async |path: &str, cookie: &str| {
        shop.send(fetch(path, "same-origin", "navigate", "iframe").header("Cookie", cookie)).await
    };
    let started = Started::new(framed(&format!("{path}/silent"), "").await);
    let almost = framed(&callback(&started.state), &started.cookie).await.assert(200);
    assert_page(&almost);
    let almost = almost.text();
    assert!(almost.contains("data-state=\"confirming\"") && !almost.contains("data-return-to"), "{almost}");
    let link = almost.split("class=\"button\" href=\"").nth(1).unwrap();
    assert!(link.contains("\" target=\"_blank\" rel=\"noopener\">"), "{almost}");
    let location = link.split('"').next().unwrap().replace("&#38;", "&");
    let code = location.split("&code=").nth(1).unwrap().split('&').next().unwrap();
    assert!(location.starts_with(SHOP) && shop.redeem(&verification, code).await.is_some(), "{location}");
    let done = framed(&path, &started.cookie).await.assert(200).text();
    assert!(done.contains("data-state=\"done\"") && !done.contains("data-return-to"), "{done}");
}

#[tokio::test]
async fn listed_origins_may_frame_the_page() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let origins = json!(["https://shop.example", "http://localhost:8080"]);
    let listed = Shop::configured(&world, "Two origins", &json!({"frame_origins": origins})).await;
    let one = Shop::configured(&world, "One origin", &json!({"frame_origins": ["https://shop.example"]})).await;
    let unlisted = Shop::new(&world).await;
    for (shop, ancestors) in [
        (&listed, "frame-ancestors 'self' https://shop.example http://localhost:8080"),
        (&one, "frame-ancestors 'self' https://shop.example"),
        (&unlisted, "frame-ancestors 'self'"),
    ] {
        let (verification, path) = shop.create(with_redirect(EVEN)).await;
        for query in ["", "?ask=wrong_number", "?display=frame", "?display=popup", "?display=none", "?lang=de"] {
            assert_framable(&shop.get(&format!("{path}{query}")).await.assert(200), ancestors);
        }
        assert_framable(&shop.send(navigation(&format!("{path}/silent"))).await.assert(200), ancestors);
        shop.submit(&format!("{path}/next"), &[("method", "secure_sna")]).await.assert(303);
        shop.text(EVEN, &verification).await;
        let done = shop.get(&path).await.assert(200);
        assert_framable(&done, ancestors);
        assert!(done.text().contains("data-state=\"done\""));
    }
    // The list of sites belongs to a project, so the page of an unknown verification may not be framed.
    let (_, path) = listed.create(with_redirect(EVEN)).await;
    for unknown in ["/v/AAAA".to_owned(), path.replace(&path[3..7], "AAAA"), format!("{path}A")] {
        let refused = listed.get(&unknown).await.assert(404);
        assert_framable(&refused, "frame-ancestors 'self'");
    }
}

/// Browsers keep no cookies in frames of other sites, and operators may refuse frames.
#[tokio::test]
async fn silent_check_leaves_the_frame() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let shop = Shop::configured(&world, "Nordwind", &json!({"frame_origins": ["https://shop.example"]})).await;
    for (request, target) in [(with_redirect(EVEN), "_top"), (request(EVEN, &[]), "_blank")] {
        let (verification, path) = shop.create(request).await;
        // The first two requests come from the shop's site, the last one from the page in the frame.
        for (query, site) in [("", "cross-site"), ("", "same-site"), ("?display=frame", "same-origin")] {
            let page = shop.send(fetch(&format!("{path}{query}"), site, "navigate", "iframe")).await.assert(200).text();
            let form = format!("action=\"{path}/silent?display=frame\" target=\"{target}\">");
            assert!(page.contains(&form) && !page.contains("http-equiv"), "{page}");
            assert!(
                page.contains("Try another way") && page.contains("data-origins=\"https://shop.example\""),
                "{page}"
            );
        }
        let silent = format!("{path}/silent?display=frame");
        for site in ["cross-site", "same-origin"] {
            shop.send(fetch(&silent, site, "navigate", "iframe")).await.assert(303);
        }
        let permitted = shop.submit(&silent, &[]).await.assert(303);
        let (leave, cookie) = (permitted.header("location").unwrap(), cookie_of(&permitted));
        let framed = fetch(leave, "same-origin", "navigate", "iframe").header("Cookie", &cookie);
        shop.send(framed).await.assert(303);
        assert_eq!(shop.status(&verification).await, CheckStatus::Accepted);
        assert!(operator.returned_devices().is_empty());
        // Outside the frame, the same link starts the silent check.
        let left = shop.send(navigation(leave).header("Cookie", cookie)).await.assert(200).text();
        assert!(left.contains(&format!("data-operator=\"{AUTHORIZE}")), "{left}");
        assert_eq!(shop.status(&verification).await, CheckStatus::Pending);
    }
}

/// In a popup, the page reports the result to the window that opened it. In a tab, the browser would be redirected to
/// the shop at once.
#[tokio::test]
async fn popup_returns_from_the_operator_to_the_page() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let request = CreateVerification { reference: Some("order 7".parse().unwrap()), ..with_redirect(EVEN) };
    let (verification, path) = shop.create(request).await;
    let started = shop.start_silent(&format!("{path}/silent?sim=%2B990123456700&display=popup")).await;
    let page = format!("{path}?display=popup");
    let back = shop.send(started.come_back()).await.assert(302);
    assert_eq!(back.header("location"), Some(format!("{}{page}", world.node.base_url).as_str()));

    let own = shop.send(navigation(&page).header("Cookie", &started.cookie)).await.assert(200);
    assert_page(&own);
    let own = own.text();
    assert!(own.contains("data-origins=\"https://shop.example\" data-event=\"verified\" data-result=\""), "{own}");
    let result = own.split("data-result=\"").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    let parameters = query(&format!("https://shop.example/?{result}"));
    let get = |name: &str| parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(get("verification_id"), Some(verification.check.id.to_string().as_str()));
    assert_eq!((get("reference_id"), get("cart"), parameters.len()), (Some("order 7"), None, 3), "{result}");
    // Another browser does not get the code, and the page reports nothing in a tab.
    let other = shop.send(navigation(&page)).await.assert(200).text();
    let tab = shop.send(navigation(&path).header("Cookie", &started.cookie)).await.assert(200).text();
    for page in [other, tab] {
        assert!(!page.contains("data-result") && !page.contains("data-return-to"), "{page}");
    }
    assert!(shop.redeem(&verification, get("code").unwrap()).await.is_some());
}

/// The page reports failures with an `error`. Without a redirect URL, only sites that may frame the page get the
/// report.
#[tokio::test]
async fn failure_is_reported_to_allowed_origins() {
    let world = World::sqlite().await;
    for (number, (origins, redirect_url, reported_to)) in [
        (json!(["https://a.example"]), Some(SHOP), Some("https://a.example https://shop.example")),
        (json!(["https://a.example"]), None, Some("https://a.example")),
        (Value::Null, Some(SHOP), Some("https://shop.example")),
        (Value::Null, None, None),
    ]
    .into_iter()
    .enumerate()
    {
        let settings = if origins.is_null() { json!({}) } else { json!({"frame_origins": origins}) };
        let name = format!("Shop {number}");
        let shop = Shop::configured(&world, &name, &settings).await;
        let redirect_url = redirect_url.map(str::to_owned);
        let (verification, path) = shop.create(CreateVerification { redirect_url, ..request(EVEN, &[]) }).await;
        shop.submit(&format!("{path}/end"), &[("reason", "wrong_number")]).await.assert(303);
        let page = shop.get(&format!("{path}?display=popup")).await.assert(200).text();
        let id = verification.check.id;
        let report = format!("data-event=\"failed\" data-result=\"verification_id={id}&#38;error=wrong_number\"");
        match reported_to {
            Some(origins) => assert!(page.contains(&format!("data-origins=\"{origins}\" {report}")), "{page}"),
            None => assert!(!page.contains("data-origins") && !page.contains("data-result"), "{page}"),
        }
    }
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

async fn button_verifies_without_a_redirect_url(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    for (number, sim, state) in [(EVEN, EVEN, "done"), (ODD, EVEN, "not_matched")] {
        let (verification, path) = shop.create(request(number, &[])).await;
        let page = shop.expect_state(&path, "silent").await;
        assert!(!page.contains("http-equiv") && page.contains("Confirm this phone"), "{page}");
        let silent = format!("{path}/silent?sim={}", sim.replace('+', "%2B"));
        let started = shop.press_button(&silent).await;
        let back = shop.send(started.come_back()).await.assert(302);
        assert_eq!(back.header("location"), Some(format!("{}{path}", world.node.base_url).as_str()));
        shop.expect_state(&path, state).await;
        assert_eq!(shop.read(&verification).await.check.verdict().unwrap().matched, state == "done");
    }
}

/// On a phone, the text is about this phone. On a computer, it is about another device.
async fn mismatch_is_worded_for_the_device(world: World) {
    const PIXEL: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile";
    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148";
    const COMPUTER: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0";
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(request(ODD, &[])).await;
    let started = shop.press_button(&format!("{path}/silent?sim=%2B990123456700")).await;
    shop.send(started.come_back()).await.assert(302);
    for (user_agent, is_phone) in [(PIXEL, true), (IPHONE, true), (COMPUTER, false)] {
        let page = shop.send(navigation(&path).header("User-Agent", user_agent)).await.assert(200).text();
        assert!(page.contains("<body data-state=\"not_matched\""), "{page}");
        assert_eq!(page.contains("That’s not this phone’s number."), is_phone, "{user_agent}: {page}");
        assert_eq!(page.contains("The number that replied isn’t the one"), !is_phone, "{user_agent}: {page}");
    }
}

async fn forms_of_other_sites_are_refused(world: World) {
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
        for (action, fields) in
            [("silent", &[][..]), ("next", &[("method", "secure_sna")]), ("end", &[("reason", "give_up")])]
        {
            let request = Request::post(&format!("{path}/{action}")).header(name, value).form(fields);
            let page = shop.send(request).await.assert(403);
            assert_page(&page);
            assert!(page.text().contains("data-state=\"refused\""), "{}", page.text());
        }
    }
    assert_eq!(shop.read(&verification).await.next_step, verification.next_step);
    let own = Request::post(&format!("{path}/silent")).header("Origin", format!("http://{host}")).form(&[]);
    shop.send(own).await.assert(303);
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
        for (method, action) in [
            ("GET", ""),
            ("GET", "/silent"),
            ("POST", "/silent"),
            ("POST", "/next"),
            ("POST", "/end"),
            ("GET", "/events"),
        ] {
            let request = Request::new(method, &format!("/v/{wrong}{action}")).header("Sec-Fetch-Site", "same-origin");
            let fields = [("method", "secure_sna"), ("reason", "give_up")];
            let request = if method == "POST" { request.form(&fields) } else { request };
            let response = shop.send(request).await.assert(404);
            assert_page(&response);
            assert!(!response.text().contains("Nordwind") && !response.text().contains("<b>"), "{}", response.text());
            // Waits, because wrong tokens are limited per second for each address.
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

/// A stranger who has the link and visits the page or starts the check as often as possible does not lock out the user.
async fn visitors_are_limited_apart(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.device_visits = 20;
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect(EVEN)).await;
    let silent = format!("{path}/silent");
    let from = |request: Request, address: &str| request.header("X-Forwarded-For", address);
    let hammer = "203.0.113.9";
    for _ in 0..25 {
        shop.send(from(navigation(&path), hammer)).await;
    }
    shop.send(from(navigation(&path), hammer)).await.assert(429);
    // Another user behind the same address, as on a mobile network, can still start: starts and visits have separate
    // limits.
    let started = Started::new(shop.send(from(navigation(&silent), hammer)).await);
    for _ in 0..25 {
        shop.send(from(navigation(&silent), hammer)).await;
    }
    shop.send(from(navigation(&silent), hammer)).await.assert(429);
    // A browser whose cookie has a valid key has its own limit. All other browsers share the limit of their IP address.
    let known = navigation(&silent).header("Cookie", &started.cookie);
    shop.send(from(known, hammer)).await.assert(303);
    shop.send(from(navigation(&path).header("Cookie", &started.cookie), hammer)).await.assert(200);
    let invented = navigation(&silent).header("Cookie", format!("ringtrue-device-x={}", "A".repeat(43)));
    shop.send(from(invented, hammer)).await.assert(429);
    shop.send(from(navigation(&path), "203.0.113.10")).await.assert(200);
    shop.send(from(navigation(&silent), "203.0.113.10")).await.assert(303);
}

/// Browsers accept cookies with the `__Host-` prefix only from this host and over TLS.
#[tokio::test]
async fn key_of_the_browser_is_a_host_cookie() {
    let base_url = BaseUrl::parse("https://eu.verify.example").unwrap();
    let world = World::configured(|config| config.base_url = Some(base_url)).await;
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect(EVEN)).await;
    let leaving = shop.send(navigation(&format!("{path}/silent"))).await.assert(200);
    let cookie = leaving.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__Host-ringtrue-device-"), "{cookie}");
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=120"), "{cookie}");
}

/// Clients without `Sec-Fetch` headers cannot prove that our page sent them, so the page shows a button.
async fn old_browsers_get_a_button(world: World) {
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    let (_, path) = shop.create(with_redirect(EVEN)).await;
    let page = shop.get(&path).await.assert(200).text();
    assert!(page.contains("Confirm this phone") && !page.contains("http-equiv"), "{page}");
    let own = format!("http://{}", world.node.address);
    let pressed = shop.send(Request::post(&format!("{path}/silent")).header("Origin", own).form(&[])).await.assert(303);
    let leave = Request::get(pressed.header("location").unwrap());
    let started = Started::new(shop.send(leave.header("Cookie", cookie_of(&pressed))).await);
    let back = shop.send(started.come_back()).await.assert(302);
    assert!(back.header("location").unwrap().starts_with(SHOP));
}

async fn every_end_has_its_page(world: World) {
    let sim_swap = ScriptedSimSwap::simulated(&world);
    let shop = Shop::new(&world).await;
    let sms = [Method::ReverseSms];

    let (verification, path) = shop.create(request(EVEN, &sms)).await;
    shop.expect_state(&path, "send_sms").await;
    shop.text(ODD, &verification).await;
    let page = shop.expect_state(&path, "send_sms_again").await;
    assert!(page.contains("That text came from another number") && page.contains("ends in 6700"), "{page}");
    shop.text(ODD, &verification).await;
    let page = shop.expect_state(&path, "not_matched").await;
    assert!(page.contains("Number not confirmed") && !page.contains("data-events"), "{page}");
    assert!(page.contains("The number that replied") && !page.contains("this phone"), "on a computer: {page}");

    sim_swap.stop_responding();
    let asked = CreateVerification { sim_swap_period: Some(1_440.try_into()), ..request(EVEN, &sms) };
    let (verification, path) = shop.create(asked).await;
    shop.text(EVEN, &verification).await;
    shop.expect_state(&path, "sim_swap").await;
    sim_swap.resume_responding();

    let expiring = CreateVerification { redirect_url: Some(SHOP.to_owned()), ..request("+990123456798", &sms) };
    let (verification, path) = shop.create(expiring).await;
    world.advance(SignedDuration::from_secs(600));
    let page = shop.expect_state(&path, "expired").await;
    assert!(page.contains("&#38;error=expired") && !page.contains("data-return-to"), "{page}");
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
        ("ko", "", "en", "ltr"),
        ("ja", "", "ja", "ltr"),
        ("en;q=0.1,de;q=0.9", "", "de", "ltr"),
        ("fr", "?lang=pl", "pl", "ltr"),
        ("fr", "?lang=ar-XB", "ar", "rtl"),
        ("nl", "?lang=%22%3E%3Cscript%3E", "nl", "ltr"),
    ] {
        let request = Request::get(&format!("{path}{query}")).header("Accept-Language", accepted);
        let page = shop.send(request).await.assert(200);
        assert_page(&page);
        assert!(page.text().contains(&format!("<html lang=\"{lang}\" dir=\"{dir}\">")), "{}", page.text());
        assert!(!page.text().contains("\"><script>"), "{}", page.text());
    }
    let chosen = CreateVerification { locale: Some("it-CH".parse().unwrap()), ..request(EVEN, &[]) };
    let (_, path) = shop.create(chosen).await;
    for (query, lang) in [("", "it"), ("?lang=pl", "pl"), ("?lang=xx", "it")] {
        let request = Request::get(&format!("{path}{query}")).header("Accept-Language", "fr");
        let page = shop.send(request).await.assert(200).text();
        assert!(page.contains(&format!("<html lang=\"{lang}\"")), "{page}");
    }
    let unknown = shop.send(Request::get("/v/x").header("Accept-Language", "de")).await.assert(404).text();
    assert!(unknown.contains("Dieser Link ist ungültig"), "{unknown}");
}

async fn overview_and_timeline_follow_verifications(world: World) {
    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148";
    ScriptedOperator::of(&world);
    let shop = Shop::new(&world).await;
    // Verified silently, on a phone.
    let (_, path) = shop.create(request(EVEN, &[])).await;
    for _ in 0..2 {
        shop.send(navigation(&path).header("User-Agent", IPHONE)).await.assert(200);
    }
    let started = shop.press_button(&format!("{path}/silent?sim={}", EVEN.replace('+', "%2B"))).await;
    shop.send(started.come_back()).await.assert(302);
    // Verified by an SMS, on a computer.
    let (by_sms, path) = shop.create(request(EVEN, &[])).await;
    world.advance(SignedDuration::from_secs(2));
    shop.expect_state(&path, "silent").await;
    shop.submit(&format!("{path}/next"), &[("method", "secure_sna")]).await.assert(303);
    world.advance(SignedDuration::from_secs(2));
    shop.text(EVEN, &by_sms).await;
    // Given up in front of the SMS.
    let (given_up, path) = shop.create(request(ODD, &[])).await;
    shop.expect_state(&path, "silent").await;
    shop.submit(&format!("{path}/next"), &[("method", "secure_sna")]).await.assert(303);
    shop.submit(&format!("{path}/end"), &[("reason", "give_up")]).await.assert(303);
    // Never opened.
    let (unopened, _) = shop.create(request(ODD, &[])).await;
    world.advance(SignedDuration::from_mins(11));
    assert_eq!(shop.status(&unopened).await, CheckStatus::Expired);

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let project = format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, shop.project.id);
    let text = viewer.get(&format!("{project}/overview")).await.assert(200).text();
    for expected in [
        "<dt>Verifications</dt><dd>4</dd>",
        "<dt>Verified</dt><dd>50 % <small>2 of 4</small>",
        "<dt>Silent</dt><dd>50 % <small>1 of 2 verified</small>",
        "<dt>By SMS</dt><dd>50 % <small>1 of 2 verified</small>",
        "<dt>Gave up</dt><dd>25 % <small>1 of 4</small>",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let funnel = text.split("<ol class=\"funnel\">").nth(1).unwrap().split("</ol>").next().unwrap();
    let stages: Vec<_> = funnel.split("<span class=\"name\">").skip(1).map(stage_of).collect();
    let expected = [
        ("Created", "4", "1 ran out of time"),
        ("Page opened", "3", ""),
        ("Silent check tried", "1", ""),
        ("SMS shown", "2", "1 gave up"),
        ("SMS sent", "1", ""),
        ("Verified", "2", ""),
    ];
    assert_eq!(stages, expected.map(|(name, count, loss)| (name.to_owned(), count.to_owned(), loss.to_owned())));
    let checks = viewer.get(&format!("{project}/overview?view=checks")).await.assert(200).text();
    assert!(checks.contains("No checks in the last hour."), "steps do not count as checks: {checks}");

    for (verification, expected) in [
        (&by_sms, ["SMS expected", "SMS received", "SMS completed", "Completed"].as_slice()),
        (&given_up, &["SMS expected", "SMS ended", "Failed"]),
    ] {
        let path = format!("{project}/checks/verification/{}", verification.check.id);
        let page = viewer.get(&path).await.assert(200).text();
        let timeline = page.split("<ol class=\"timeline\">").nth(1).unwrap().split("</ol>").next().unwrap();
        let titles: Vec<_> =
            timeline.split("<strong>").skip(1).map(|rest| rest.split("</strong>").next().unwrap()).collect();
        assert_eq!(titles, [&["Created", "Page opened", "Silent check ended"], expected].concat());
        assert!(timeline.contains("On a computer or another device.") && timeline.contains("given_up"), "{timeline}");
        assert!(!page.contains(EVEN) && !page.contains(ODD), "{page}");
    }
}

/// Returns the name, the count and the losses of a stage in the funnel.
fn stage_of(stage: &str) -> (String, String, String) {
    let name = stage.split('<').next().unwrap();
    let count = stage.split("<span class=\"count\">").nth(1).unwrap().split(' ').next().unwrap();
    let losses = stage.split("<ul class=\"losses\">").nth(1).map(|list| list.split("</ul>").next().unwrap());
    let losses: Vec<_> =
        losses.unwrap_or_default().split("<li>").skip(1).map(|it| it.split('<').next().unwrap()).collect();
    (name.to_owned(), count.to_owned(), losses.join(", "))
}
