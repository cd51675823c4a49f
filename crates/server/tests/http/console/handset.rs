use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_test_support::poll_until;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::EVEN,
    silent::wallet::Verifier,
    world::{TestProject, World, is_token_accepted, send_to},
};

const ODD: &str = "+990123456701";

/// The handset page of a sandbox project in a developer's browser.
struct Phone<'a> {
    world: &'a World,
    project: TestProject,
    browser: Browser,
    page: String,
}

impl<'a> Phone<'a> {
    async fn of(world: &'a World) -> Self {
        let project = world.project("Shop", json!({})).await;
        let page = format!("/console/workspaces/{}/projects/{}/handset", world.acme.workspace_id, project.project_id);
        Phone { world, project, browser: Browser::member(world, &world.acme, Role::Developer).await, page }
    }

    /// Submits a form. Returns the handset page that follows, or a redirect to another page.
    async fn submit_form(&mut self, action: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let mut response = self.browser.submit(&self.page, &format!("{}{action}", self.page), fields).await;
        let phone = format!("{}?phone", self.page);
        if response.header("location") == Some(&*phone) {
            response = self.browser.get(&phone).await.assert(200);
        }
        if response.status != 303 {
            assert_well_formed(&self.page, &response);
        }
        response
    }

    async fn submit_wallet_form(&mut self, action: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.browser.submit(&self.page, &format!("{}/wallet/{action}", self.page), fields).await
    }

    async fn create(&mut self, product: &str, number: &str) -> String {
        self.submit_form("", &[("product", product), ("number", number)]).await.assert(200).text()
    }

    /// Creates a check and sends its SMS with these simulated faults, given as form fields.
    async fn text(&mut self, faults: &[(&str, &str)]) -> HttpResponse {
        let page = self.create("reverse_sms", EVEN).await;
        let (check, receiver, body) = (value(&page, "check"), value(&page, "receiver"), body(&page));
        let sms = [("check", &*check), ("sim", EVEN), ("receiver", &*receiver), ("body", &*body)];
        self.submit_form("/sms", &[&sms, faults].concat()).await
    }
}

/// Returns the value of a form field.
fn value(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\"");
    let tag = page.split('<').find(|tag| tag.contains(&mark)).unwrap_or_else(|| panic!("no {name}: {page}"));
    tag.split("value=\"").nth(1).unwrap_or_default().split('"').next().unwrap_or_default().to_owned()
}

fn body(page: &str) -> String {
    page.split("<textarea").nth(1).unwrap().split('>').nth(1).unwrap().split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn handset_shows_links_for_each_platform_and_a_qr_code() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let page = phone.create("reverse_sms", EVEN).await;
    let (to, text) = (value(&page, "receiver"), body(&page).replace(' ', "%20"));
    for link in [format!("sms:{to}?body={text}"), format!("sms:{to}&body={text}"), format!("sms:{to}?&body={text}")] {
        assert!(page.contains(&link.replace('&', "&#38;")), "{link}: {page}");
    }
    assert!(page.contains("<svg class=\"qr\""), "{page}");
    let check = format!("{}/checks/reverse_sms/{}", phone.page.trim_end_matches("/handset"), value(&page, "check"));
    let kept = phone.browser.get(&check).await.assert(200).text();
    assert!(!kept.contains("sms:") && !kept.contains("<svg class=\"qr\""), "links are shown once: {kept}");
}

#[tokio::test]
async fn reload_of_the_handset_submits_nothing() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let shown = format!("{}?phone", phone.page);
    for product in ["reverse_sms", "secure_sna", "discovery", "sim_swap", "verification"] {
        world.advance(SignedDuration::from_mins(10));
        let page = phone.create(product, EVEN).await;
        // A reload shows the same page, with the same check.
        assert_eq!(phone.browser.get(&shown).await.assert(200).text(), page, "{product}");
        let list = format!("{}/checks/{product}", phone.page.trim_end_matches("/handset"));
        assert!(phone.browser.get(&list).await.assert(200).text().contains("1 total"), "{product}");
    }
    // The menu's link leads to an idle phone. Other sessions and projects do not see this phone's state.
    let idle = phone.browser.get(&phone.page).await.assert(200).text();
    assert!(idle.contains("No message"), "{idle}");
    let state = phone.browser.cookies["ringtrue-handset"].clone();
    let mut colleague = Browser::member(&world, &world.acme, Role::Owner).await;
    colleague.cookies.insert("ringtrue-handset".to_owned(), state);
    assert!(colleague.get(&shown).await.assert(200).text().contains("No message"));
    let other = world.project("Other", json!({})).await;
    let others = shown.replace(&phone.project.project_id, &other.project_id);
    assert!(phone.browser.get(&others).await.assert(200).text().contains("No message"));

    // After the SMS is sent, the phone no longer shows it.
    let sent = phone.text(&[]).await.assert(303);
    assert!(
        location(&sent).contains("/checks/reverse_sms/") && !phone.browser.cookies.contains_key("ringtrue-handset")
    );
}

#[tokio::test]
async fn handset_selects_a_sim_by_its_suffix() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for ends in ["00", "01", "93", "94", "95", "96", "97", "98", "99"] {
        let page = phone.browser.get(&format!("{}?sim={ends}", phone.page)).await.assert(200);
        assert_well_formed(&phone.page, &page);
        assert_eq!(value(&page.text(), "number"), format!("+9901234567{ends}"));
    }
    let refused = phone.submit_form("", &[("product", "reverse_sms"), ("number", "+990123456797")]).await.assert(400);
    assert!(refused.text().contains("No supported operator serves this number."), "{}", refused.text());
}

#[tokio::test]
async fn checks_survive_delivery_faults() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (faults, ends) in [
        (&[("extra_copies", "2")][..], Some("COMPLETED")),
        (&[("parts", "3"), ("out_of_order", "on")], Some("COMPLETED")),
        (&[("link_drops", "1")], Some("COMPLETED")),
        (&[("spoofed_from", "+990123456702")], Some("COMPLETED")),
        (&[("spoofed_from", "BANK")], Some("internal_error")),
        (&[("spoofed_from", "80123")], Some("internal_error")),
        (&[("garbled", "on")], None),
    ] {
        world.advance(SignedDuration::from_mins(10));
        let page = location(&phone.text(faults).await).to_owned();
        match ends {
            Some(status) => {
                world.wait_for_sms().await;
                assert!(phone.browser.get(&page).await.text().contains(status), "{faults:?}");
            }
            None => assert!(!phone.browser.get(&page).await.text().contains("COMPLETED"), "{faults:?}"),
        }
    }
}

#[tokio::test]
async fn invalid_sms_stays_on_the_phone() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (name, value, why) in [
        ("parts", "11", "Parts must be a number from 1 to 10."),
        ("late_seconds", "soon", "Delay must be a number from 0 to 3600."),
        ("link_drops", "-1", "Connection losses must be a number from 0 to 3."),
        ("spoofed_from", "+12", "Invalid sender: "),
    ] {
        world.advance(SignedDuration::from_mins(10));
        let page = phone.text(&[(name, value)]).await.assert(400).text();
        assert!(page.contains(why) && page.contains("The message was not sent."), "{page}");
        assert!(page.contains(&format!("value=\"{value}\"")) && page.contains("sms:+990"), "{page}");
    }
}

#[tokio::test]
async fn handset_follows_the_redirects_of_a_silent_check() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (product, sim, result) in
        [("secure_sna", EVEN, "match"), ("secure_sna", "+990123456704", "no match"), ("discovery", EVEN, "number …")]
    {
        world.advance(SignedDuration::from_mins(10));
        let page = phone.create(product, EVEN).await;
        let (check, token) = (value(&page, "check"), value(&page, "t"));
        let open = [("check", &*check), ("product", product), ("t", &*token), ("sim", sim)];
        let page = phone.submit_form("/open", &open).await.assert(200).text();
        assert_eq!(page.matches("<code>GET /").count(), 3, "{page}");
        for hop in ["/redirect?t=", "/v1/sandbox/operator/authorize?", "/southbound/camara/sandbox/callback?"] {
            assert!(page.contains(hop), "{hop}: {page}");
        }
        let redeem = [("check", &*check), ("product", product), ("code", &*value(&page, "code"))];
        let ended = phone.submit_form("/code", &redeem).await;
        let page = phone.browser.get(location(&ended)).await.assert(200).text();
        assert!(page.contains("COMPLETED") && page.contains(result), "{page}");
    }
}

#[tokio::test]
async fn failed_redirects_show_the_reason() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let page = phone.create("secure_sna", EVEN).await;
    let (check, token) = (value(&page, "check"), value(&page, "t"));
    let open =
        |token, sim| [("check", check.clone()), ("product", "secure_sna".to_owned()), ("t", token), ("sim", sim)];
    for (token, sim, why) in [
        ("wrong".to_owned(), EVEN, "Check not found, or its redirect URL is invalid"),
        (token.clone(), "+990123456799", "The check ended with mno_server_error."),
        (token, EVEN, "The check has already ended or returned its code."),
    ] {
        let open = open(token, sim.to_owned());
        let open: Vec<_> = open.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = phone.submit_form("/open", &open).await.assert(200).text();
        assert!(page.contains(why), "{why}: {page}");
        assert!(!page.contains("name=\"code\""), "a failed check has no redeem form: {page}");
    }
    // The handset does not open checks of other projects.
    let other = world.project("Other", json!({})).await;
    let others = phone.page.replace(&phone.project.project_id, &other.project_id);
    let open = [("check", &*check), ("product", "secure_sna"), ("t", "x"), ("sim", EVEN)];
    phone.browser.submit(&others, &format!("{others}/open"), &open).await.assert(403);
}

#[tokio::test]
async fn wallet_confirms_a_request_of_the_hosted_page() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let verifier = Verifier::of(&world.node);
    let request = verifier.request(ODD).to_string();
    let sheet = phone.submit_wallet_form("request", &[("request", &request)]).await.assert(200).json();
    assert_eq!(sheet["consent_text"], "Ringtrue asks the simulated operator whether this phone has your number.");
    let offered: Vec<_> = sheet["sims"].as_array().unwrap().iter().map(|sim| sim["number"].as_str().unwrap()).collect();
    let expected = [ODD, EVEN, "+990123456799", "+990123456798", "+990123456795", "+990123456793"];
    assert_eq!(offered, expected, "the number to verify is first");
    // A number that the handset does not list is offered, unless its operator supports no wallet.
    for (number, first) in [("+990123456788", "+990123456788"), ("+990123456797", EVEN)] {
        let request = verifier.request(number).to_string();
        let sheet = phone.submit_wallet_form("request", &[("request", &request)]).await.assert(200).json();
        assert_eq!(sheet["sims"][0]["number"], first);
    }

    // The hosted page does not name the number. The phone offers its own SIM first.
    let page = verifier.request_without_hint().to_string();
    for (own_sim, first) in [("+990123456788", "+990123456788"), (ODD, ODD), ("+990123456797", EVEN), ("", EVEN)] {
        let fields = [("request", &*page), ("own_sim", own_sim)];
        let sheet = phone.submit_wallet_form("request", &fields).await.assert(200).json();
        assert_eq!(sheet["sims"][0]["number"], first);
    }

    let origin = &world.node.base_url;
    let fields = [("request", &*request), ("sim", EVEN)];
    let confirmed = phone.submit_wallet_form("confirm", &fields).await.assert(200).json();
    assert_eq!(verifier.verify_at(origin, EVEN, &confirmed["credential"]).await, Ok(true));
    let forged = [&fields[..], &[("forgery", "nonce")]].concat();
    let forged = phone.submit_wallet_form("confirm", &forged).await.assert(200).json();
    assert!(verifier.verify_at(origin, EVEN, &forged["credential"]).await.is_err());
}

#[tokio::test]
async fn wallet_says_why_it_does_not_answer() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let request = Verifier::of(&world.node).request(EVEN).to_string();
    for (action, request, sim, error, text) in [
        ("confirm", &*request, "+990123456798", "no_answer", "never answers"),
        ("confirm", &request, "+990123456797", "no_sim", "does not offer this SIM"),
        ("confirm", &request.replace("dc_api", "query"), EVEN, "unavailable", "response_mode"),
        ("request", "no request", EVEN, "unavailable", "protocol"),
    ] {
        let response = phone.submit_wallet_form(action, &[("request", request), ("sim", sim)]).await;
        let problem = response.assert(400).json();
        assert_eq!(problem["error"], error, "{problem}");
        assert!(problem["text"].as_str().unwrap().contains(text), "{problem}");
    }
    phone.submit_wallet_form("confirm", &[("request", &request), ("sim", "12")]).await.assert(400);
    phone.submit_wallet_form("confirm", &[("request", &request), ("sim", EVEN), ("forgery", "x")]).await.assert(400);
}

#[tokio::test]
async fn phone_on_wifi_tells_the_page_its_address() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let wifi = [("product", "verification"), ("number", EVEN), ("connection", "wifi")];
    let page = phone.submit_form("", &wifi).await.assert(200).text();
    let source = "?sim=%2B990123456700&#38;ip=198.51.100.1\" title=";
    assert!(page.contains(source) && page.contains("<dialog class=\"wallet\""), "{page}");
    let verification = value(&page, "check");
    for (connection, is_wifi) in [("mobile_data", false), ("wifi", true)] {
        let fields = [("check", &*verification), ("sim", EVEN), ("connection", connection)];
        let page = phone.submit_form("/page-connection", &fields).await.assert(200).text();
        assert_eq!(page.contains(source), is_wifi, "{page}");
    }
}

#[tokio::test]
async fn sim_swaps_affect_their_project_only() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let never = "SIM not changed in the last 7 days; last change more than a year ago.";
    let page = phone.create("sim_swap", EVEN).await;
    assert!(page.contains(never), "{page}");
    for (when, words) in [
        ("now", "SIM changed in the last 7 days; last change within the last hour."),
        ("3d", "SIM changed in the last 7 days; last change within the last 3 days."),
        ("20d", "SIM not changed in the last 7 days; last change within the last 30 days."),
        ("2y", never),
    ] {
        let swapped = phone.submit_form("/swap", &[("number", EVEN), ("when", when)]).await.assert(200).text();
        assert!(swapped.contains("/handset/swap-back\""), "{swapped}");
        let page = phone.create("sim_swap", EVEN).await;
        assert!(page.contains(words), "{when}: {page}");
    }

    // The API reports the same SIM swap in this project, and none in another project.
    phone.submit_form("/swap", &[("number", EVEN), ("when", "5h")]).await.assert(200);
    let other = phone.world.project("Other", json!({})).await;
    for (project, no_sim_change, within) in [(&phone.project, false, 360), (&other, true, 525_601)] {
        let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
        let request = Request::post("/v1/sim-swap-checks").bearer(&token).json(&json!({"phone_number": EVEN}));
        let check = world.send(request).await.assert(201).json();
        assert_eq!((&check["no_sim_change"], &check["sim_change_within"]), (&json!(no_sim_change), &json!(within)));
    }

    // A simulated failure of the operator takes precedence over a simulated SIM swap. After `/swap-back`, a SIM behaves
    // as before the swap.
    phone.submit_form("/swap", &[("number", "+990123456799")]).await.assert(200);
    let failed = phone.create("sim_swap", "+990123456799").await;
    assert!(failed.contains("The check failed: mno_server_error."), "{failed}");
    phone.submit_form("/swap-back", &[("number", EVEN)]).await.assert(200);
    assert!(phone.create("sim_swap", EVEN).await.contains(never));
    assert!(phone.create("sim_swap", ODD).await.contains("within the last day."));
    phone.submit_form("/swap", &[("number", "invalid")]).await.assert(400);
}

/// A SIM swap that is simulated on one node affects checks on all nodes.
async fn sim_swaps_reach_all_nodes(world: World) {
    let second = world.second_node().await;
    let mut phone = Phone::of(&world).await;
    let token = world.token(&phone.project.client_id, &phone.project.client_secret, "sim_swap").await;
    poll_until("the token is accepted", async || is_token_accepted(second.address, &token).await).await;
    let is_unchanged = async || {
        let request = Request::post("/v1/sim-swap-checks").bearer(&token).json(&json!({"phone_number": EVEN}));
        send_to(second.address, request).await.assert(201).json()["no_sim_change"].clone()
    };
    assert_eq!(is_unchanged().await, true);
    phone.submit_form("/swap", &[("number", EVEN), ("when", "now")]).await.assert(200);
    assert_eq!(is_unchanged().await, false);
    phone.submit_form("/swap-back", &[("number", EVEN)]).await.assert(200);
    assert_eq!(is_unchanged().await, true);
}

async fn disabled_project_creates_no_checks_and_explains_no_eligibility(world: World) {
    let mut phone = Phone::of(&world).await;
    let project = phone.page.trim_end_matches("/handset").to_owned();
    let disable = async |disabled: bool| {
        world.manage(Request::patch(&phone.project.path).json(&json!({"disabled": disabled}))).await.assert(200);
    };
    disable(true).await;
    // Verifications come last: creating one also creates checks of other products, whose lists must be empty before.
    let products = ["reverse_sms", "secure_sna", "discovery", "sim_swap", "verification"];
    for product in products {
        let response = phone.browser.submit(&phone.page, &phone.page, &[("product", product), ("number", EVEN)]).await;
        let refused = response.assert(400).text();
        assert!(refused.contains("The project is disabled."), "{product}: {refused}");
    }
    let eligibility = format!("{project}/eligibility");
    for user in [EVEN, "203.0.113.5"] {
        let response = phone.browser.submit(&eligibility, &eligibility, &[("user", user)]).await.assert(200).text();
        assert!(response.contains("the project is disabled") && !response.contains("Simulated operator"), "{response}");
    }
    disable(false).await;
    for product in products {
        let token = world.token(&phone.project.client_id, &phone.project.client_secret, product).await;
        let path = match product {
            "sim_swap" => "/v1/sim-swap-checks".to_owned(),
            "verification" => "/v1/verifications".to_owned(),
            other => format!("/v1/number-verification/{}-checks", other.replace('_', "-")),
        };
        let list = world.send(Request::get(&path).bearer(&token)).await.assert(200).json();
        assert_eq!(list["page"]["total_elements"], 0, "{product}");
        phone.create(product, EVEN).await;
    }
}

on_both_stores!(sim_swaps_reach_all_nodes, disabled_project_creates_no_checks_and_explains_no_eligibility);

/// The simulated phone shows the hosted verification page, and sends the SMS that the page asks for.
#[tokio::test]
async fn verification_is_walked_on_the_hosted_page() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let page = phone.create("verification", EVEN).await;
    let source = page.split("<iframe").nth(1).and_then(|tag| tag.split("src=\"").nth(1)).expect("a frame");
    let source = source.split('"').next().unwrap();
    assert!(source.starts_with("/v/") && source.ends_with("?sim=%2B990123456700"), "{source}");
    let id = value(&page, "check");
    let sms = [("check", &*id), ("sim", EVEN)];
    let early = phone.submit_form("/page-sms", &sms).await.assert(400).text();
    assert!(early.contains("The page does not ask for an SMS."), "{early}");

    let token = world.token(&phone.project.client_id, &phone.project.client_secret, "verification").await;
    let next = Request::post(&format!("/v1/verifications/{id}/next")).bearer(&token);
    world.send(next).await.assert(200);
    let sent = phone.submit_form("/page-sms", &sms).await.assert(303);
    let verification = location(&sent).to_owned();
    assert!(verification.ends_with(&format!("/checks/verification/{id}")), "{verification}");

    let shown = phone.browser.get(&verification).await.assert(200);
    assert_well_formed(&verification, &shown);
    let shown = shown.text();
    for expected in ["match by Reverse SMS", "given_up", "Secure SNA, Reverse SMS", "/v1/verifications/"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let project = phone.page.trim_end_matches("/handset");
    let step = shown.split("href=\"").find(|link| link.starts_with(&format!("{project}/checks/reverse_sms/")));
    let step = step.expect("a link to the step").split('"').next().unwrap().to_owned();
    let check = phone.browser.get(&step).await.assert(200).text();
    assert!(check.contains(&format!("href=\"{verification}\"")), "{check}");
}
