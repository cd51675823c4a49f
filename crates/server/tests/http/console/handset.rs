use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::assert_sound,
};
use crate::{
    client::{Answer, Request},
    on_both_stores,
    reverse_sms::EVEN,
    world::{ProjectOf, World, eventually},
};

const ODD: &str = "+990123456701";

/// A developer before the phone of a sandbox project.
struct Phone<'a> {
    world: &'a World,
    project: ProjectOf,
    browser: Browser,
    page: String,
}

impl<'a> Phone<'a> {
    async fn of(world: &'a World) -> Self {
        let project = world.project("Shop", json!({})).await;
        let page = format!("/console/workspaces/{}/projects/{}/handset", world.acme.workspace_id, project.project_id);
        Phone { world, project, browser: Browser::member(world, &world.acme, Role::Developer).await, page }
    }

    async fn press(&mut self, action: &str, fields: &[(&str, &str)]) -> Answer {
        let answer = self.browser.submit(&self.page, &format!("{}{action}", self.page), fields).await;
        if answer.status != 303 {
            assert_sound(&self.page, &answer);
        }
        answer
    }

    async fn create(&mut self, product: &str, number: &str) -> String {
        self.press("", &[("product", product), ("number", number)]).await.assert(200).text()
    }

    /// Makes a check, and texts for it with these faults.
    async fn text(&mut self, faults: &[(&str, &str)]) -> Answer {
        let page = self.create("reverse_sms", EVEN).await;
        let (check, receiver, body) = (value(&page, "check"), value(&page, "receiver"), body(&page));
        let sms = [("check", &*check), ("sim", EVEN), ("receiver", &*receiver), ("body", &*body)];
        self.press("/sms", &[&sms, faults].concat()).await
    }
}

/// The value of a field of a page.
fn value(page: &str, name: &str) -> String {
    let mark = format!("name=\"{name}\"");
    let tag = page.split('<').find(|tag| tag.contains(&mark)).unwrap_or_else(|| panic!("no {name}: {page}"));
    tag.split("value=\"").nth(1).unwrap_or_default().split('"').next().unwrap_or_default().to_owned()
}

fn body(page: &str) -> String {
    page.split("<textarea").nth(1).unwrap().split('>').nth(1).unwrap().split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_phone_shows_links_for_each_system_and_a_qr_code() {
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
    assert!(!kept.contains("sms:") && !kept.contains("<svg class=\"qr\""), "an invitation is shown once: {kept}");
}

#[tokio::test]
async fn a_sim_is_chosen_by_what_it_does() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for ends in ["00", "01", "93", "94", "95", "96", "97", "98", "99"] {
        let page = phone.browser.get(&format!("{}?sim={ends}", phone.page)).await.assert(200);
        assert_sound(&phone.page, &page);
        assert_eq!(value(&page.text(), "number"), format!("+9901234567{ends}"));
    }
    let refused = phone.press("", &[("product", "reverse_sms"), ("number", "+990123456797")]).await.assert(400);
    assert!(refused.text().contains("No supported operator serves this number."), "{}", refused.text());
}

#[tokio::test]
async fn whatever_befalls_a_message_its_check_ends_as_it_should() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (faults, ends) in [
        (&[("extra_copies", "2")][..], Some("COMPLETED")),
        (&[("parts", "3"), ("out_of_order", "on")], Some("COMPLETED")),
        (&[("link_drops", "1")], Some("COMPLETED")),
        (&[("spoofed_from", "+990123456702")], Some("COMPLETED")),
        (&[("garbled", "on")], None),
    ] {
        world.advance(SignedDuration::from_mins(10));
        let page = location(&phone.text(faults).await).to_owned();
        match ends {
            Some(status) => {
                eventually(status, async || phone.browser.get(&page).await.text().contains(status)).await;
            }
            None => assert!(!phone.browser.get(&page).await.text().contains("COMPLETED"), "{faults:?}"),
        }
    }
}

#[tokio::test]
async fn what_cannot_be_sent_stays_on_the_phone() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (name, value, why) in [
        ("parts", "11", "Parts: a number from 1 to 10."),
        ("late_seconds", "soon", "Seconds late: a number from 0 to 3600."),
        ("link_drops", "-1", "Links that drop: a number from 0 to 3."),
        ("spoofed_from", "me", "The false sender: "),
    ] {
        world.advance(SignedDuration::from_mins(10));
        let page = phone.text(&[(name, value)]).await.assert(400).text();
        assert!(page.contains(why) && page.contains("Nothing was sent."), "{page}");
        assert!(page.contains(&format!("value=\"{value}\"")) && page.contains("sms:+990"), "{page}");
    }
}

#[tokio::test]
async fn the_phone_goes_the_way_of_a_device_hop_by_hop() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    for (product, sim, result) in
        [("secure_sna", EVEN, "match"), ("secure_sna", "+990123456704", "no match"), ("discovery", EVEN, "number …")]
    {
        world.advance(SignedDuration::from_mins(10));
        let page = phone.create(product, EVEN).await;
        let (check, token) = (value(&page, "check"), value(&page, "t"));
        let open = [("check", &*check), ("product", product), ("t", &*token), ("sim", sim)];
        let page = phone.press("/open", &open).await.assert(200).text();
        assert_eq!(page.matches("<code>GET /").count(), 3, "{page}");
        for hop in ["/redirect?t=", "/v1/sandbox/operator/authorize?", "/southbound/camara/sandbox/callback?"] {
            assert!(page.contains(hop), "{hop}: {page}");
        }
        let redeem = [("check", &*check), ("product", product), ("code", &*value(&page, "code"))];
        let ended = phone.press("/code", &redeem).await;
        let page = phone.browser.get(location(&ended)).await.assert(200).text();
        assert!(page.contains("COMPLETED") && page.contains(result), "{page}");
    }
}

#[tokio::test]
async fn a_way_that_ends_early_says_why() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let page = phone.create("secure_sna", EVEN).await;
    let (check, token) = (value(&page, "check"), value(&page, "t"));
    let open =
        |token, sim| [("check", check.clone()), ("product", "secure_sna".to_owned()), ("t", token), ("sim", sim)];
    for (token, sim, why) in [
        ("wrong".to_owned(), EVEN, "There is no such check"),
        (token.clone(), "+990123456799", "The check has ended with mno_server_error."),
        (token, EVEN, "The check has ended already"),
    ] {
        let open = open(token, sim.to_owned());
        let open: Vec<_> = open.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = phone.press("/open", &open).await.assert(200).text();
        assert!(page.contains(why), "{why}: {page}");
        assert!(!page.contains("name=\"code\""), "there is nothing to redeem: {page}");
    }
    // Somebody else's check is not opened, whoever knows its token.
    let other = world.project("Other", json!({})).await;
    let others = phone.page.replace(&phone.project.project_id, &other.project_id);
    let open = [("check", &*check), ("product", "secure_sna"), ("t", "x"), ("sim", EVEN)];
    phone.browser.submit(&others, &format!("{others}/open"), &open).await.assert(403);
}

#[tokio::test]
async fn a_swapped_sim_is_told_to_its_project_alone() {
    let world = World::sqlite().await;
    let mut phone = Phone::of(&world).await;
    let never = "No change of the SIM in the last 7 days; the last one was more than a year ago.";
    let page = phone.create("sim_swap", EVEN).await;
    assert!(page.contains(never), "{page}");
    for (when, words) in [
        ("now", "The SIM was changed in the last 7 days; the last one was within the last hour."),
        ("3d", "The SIM was changed in the last 7 days; the last one was within the last 3 days."),
        ("20d", "No change of the SIM in the last 7 days; the last one was within the last 30 days."),
        ("2y", never),
    ] {
        let swapped = phone.press("/swap", &[("number", EVEN), ("when", when)]).await.assert(200).text();
        assert!(swapped.contains("/handset/swap-back\""), "{swapped}");
        let page = phone.create("sim_swap", EVEN).await;
        assert!(page.contains(words), "{when}: {page}");
    }

    // The API says the same, and another project hears nothing of it.
    phone.press("/swap", &[("number", EVEN), ("when", "5h")]).await.assert(200);
    let other = phone.world.project("Other", json!({})).await;
    for (project, no_sim_change, within) in [(&phone.project, false, 360), (&other, true, 525_601)] {
        let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
        let request = Request::post("/v1/sim-swap-checks").bearer(&token).json(&json!({"phone_number": EVEN}));
        let check = world.send(request).await.assert(201).json();
        assert_eq!((&check["no_sim_change"], &check["sim_change_within"]), (&json!(no_sim_change), &json!(within)));
    }

    // An operator that fails still does, and what is put back is as before.
    phone.press("/swap", &[("number", "+990123456799")]).await.assert(200);
    let failed = phone.create("sim_swap", "+990123456799").await;
    assert!(failed.contains("The operator could not tell: mno_server_error."), "{failed}");
    phone.press("/swap-back", &[("number", EVEN)]).await.assert(200);
    assert!(phone.create("sim_swap", EVEN).await.contains(never));
    assert!(phone.create("sim_swap", ODD).await.contains("within the last day."));
    phone.press("/swap", &[("number", "nobody")]).await.assert(400);
}

/// Whichever door a request comes through, a disabled project creates no checks and gets no eligibility.
async fn a_disabled_project_creates_and_asks_nothing(world: World) {
    let mut phone = Phone::of(&world).await;
    let project = phone.page.trim_end_matches("/handset").to_owned();
    let disable = async |disabled: bool| {
        world.manage(Request::patch(&phone.project.path).json(&json!({"disabled": disabled}))).await.assert(200);
    };
    disable(true).await;
    let products = ["reverse_sms", "secure_sna", "discovery", "sim_swap"];
    for product in products {
        let answer = phone.browser.submit(&phone.page, &phone.page, &[("product", product), ("number", EVEN)]).await;
        let refused = answer.assert(400).text();
        assert!(refused.contains("The project is disabled."), "{product}: {refused}");
    }
    let eligibility = format!("{project}/eligibility");
    for user in [EVEN, "203.0.113.5"] {
        let answer = phone.browser.submit(&eligibility, &eligibility, &[("user", user)]).await.assert(200).text();
        assert!(answer.contains("the project is disabled") && !answer.contains("Simulated operator"), "{answer}");
    }
    disable(false).await;
    for product in products {
        let token = world.token(&phone.project.client_id, &phone.project.client_secret, product).await;
        let path = match product {
            "sim_swap" => "/v1/sim-swap-checks".to_owned(),
            other => format!("/v1/number-verification/{}-checks", other.replace('_', "-")),
        };
        let list = world.send(Request::get(&path).bearer(&token)).await.assert(200).json();
        assert_eq!(list["page"]["total_elements"], 0, "{product}");
        phone.create(product, EVEN).await;
    }
}

on_both_stores!(a_disabled_project_creates_and_asks_nothing);
