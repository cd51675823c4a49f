//! Test sign-in: the console as a client of a project's own OpenID provider.

use std::collections::HashMap;

use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::{Value, json};

use super::{
    browser::{Browser, location},
    pages::assert_well_formed,
};
use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::EVEN,
    world::{TestProject, World},
};

on_both_stores!(test_sign_in_shows_what_the_client_gets);

struct Tester {
    browser: Browser,
    page: String,
    project: TestProject,
}

impl Tester {
    /// A developer at the page of a project in which the test's redirect URI is registered.
    async fn new(world: &World) -> Self {
        let project = world.project("Shop", json!({})).await;
        let workspace = &world.acme.workspace_id;
        let page = format!("/console/workspaces/{workspace}/projects/{}/sign-in", project.project_id);
        let mut browser = Browser::member(world, &world.acme, Role::Developer).await;
        let unregistered = browser.get(&page).await.assert(200);
        assert_well_formed(&page, &unregistered);
        let uri = format!("{}{page}/callback", world.node.base_url);
        assert!(unregistered.text().contains(&format!("<code>{uri}</code>")), "{}", unregistered.text());
        assert!(!unregistered.text().contains("name=\"client_id\""), "{}", unregistered.text());
        for _ in 0..2 {
            let registered = browser.submit(&page, &format!("{page}/redirect-uri"), &[]).await;
            assert_eq!(location(&registered), page);
        }
        let stored = world.manage(Request::get(&project.path)).await.assert(200).json();
        assert_eq!(stored["configuration"]["sign_in"]["redirect_uris"], json!([uri]));
        Tester { browser, page, project }
    }

    /// Starts a test, and returns the path of the authorization request.
    async fn start(&mut self, fields: &[(&str, &str)]) -> String {
        let client_id = self.project.client_id.clone();
        let fields = [&[("client_id", &*client_id)], fields].concat();
        location(&self.browser.submit(&self.page, &self.page, &fields).await).to_owned()
    }

    /// Opens a URL as a browser does when the user follows a link.
    async fn open(&mut self, url: &str) -> HttpResponse {
        let path = match url.split_once("://") {
            Some((_, rest)) => &rest[rest.find('/').unwrap()..],
            None => url,
        };
        let request = Request::get(path).header("Sec-Fetch-Dest", "document").header("Sec-Fetch-Mode", "navigate");
        self.browser.send(request.header("Sec-Fetch-Site", "same-origin")).await
    }

    /// Signs in with a number, and returns the path to which the browser returns.
    async fn sign_in(&mut self, authorize: &str, number: &str) -> String {
        let asked = self.open(authorize).await;
        let page = path_of(location(&asked)).to_owned();
        let form = Request::post(&format!("{page}/number")).header("Sec-Fetch-Site", "same-origin");
        let mut next =
            location(&self.browser.send(form.form(&[("phone_number", number), ("country", "")])).await).to_owned();
        next = format!("{next}?sim={}", number.replace('+', "%2B"));
        for _ in 0..12 {
            if path_of(&next).starts_with(&self.page) {
                return path_of(&next).to_owned();
            }
            let response = self.open(&next).await;
            next = match response.status {
                302 | 303 => response.header("location").unwrap().to_owned(),
                _ => next_of(&response.assert(200).text()),
            };
        }
        panic!("the sign-in does not end: {next}");
    }
}

fn path_of(url: &str) -> &str {
    match url.split_once("://") {
        Some((_, rest)) => &rest[rest.find('/').unwrap()..],
        None => url,
    }
}

/// Returns the URL that a page opens by itself: the operator, or the start of the silent check.
fn next_of(page: &str) -> String {
    let after = |mark: &str| page.split(mark).nth(1).map(|rest| rest.split('"').next().unwrap().replace("&#38;", "&"));
    let next = after("data-operator=\"").or_else(|| after("http-equiv=\"refresh\" content=\"0;url="));
    next.unwrap_or_else(|| panic!("the page opens nothing: {page}")).replace("&amp;", "&")
}

/// Reads a table of claims: the texts between the names of two sections.
fn claims(page: &str, from: &str, to: &str) -> HashMap<String, String> {
    let section = page.split(&format!("<h3>{from}</h3>")).nth(1).unwrap().split(to).next().unwrap();
    let rows = section.split("<th scope=\"row\"><code>").skip(1).map(|row| {
        let (name, rest) = row.split_once("</code>").unwrap();
        let value = rest.split("<code>").nth(1).unwrap().split("</code>").next().unwrap();
        (name.to_owned(), value.to_owned())
    });
    rows.collect()
}

async fn test_sign_in_shows_what_the_client_gets(world: World) {
    let mut tester = Tester::new(&world).await;
    let authorize = tester.start(&[("phone", "on")]).await;
    assert!(authorize.starts_with("/oauth2/authorize?response_type=code&client_id=prj_"), "{authorize}");
    for parameter in ["&scope=openid+phone&", "&state=", "&nonce=", "&code_challenge=", "&code_challenge_method=S256"] {
        assert!(authorize.contains(parameter), "{authorize}");
    }
    let callback = tester.sign_in(&authorize, EVEN).await;

    // Another state, and another session with the same cookie, end no test.
    let forged = callback.replace("state=", "state=x");
    assert!(tester.browser.get(&forged).await.assert(400).text().contains("Start it again."));
    let mut colleague = Browser::member(&world, &world.acme, Role::Owner).await;
    let kept = tester.browser.cookies["ringtrue-sign-in-test"].clone();
    colleague.cookies.insert("ringtrue-sign-in-test".to_owned(), kept);
    colleague.get(&callback).await.assert(400);
    let other_issuer = callback.replace("iss=", "iss=x");
    let mixed_up = tester.browser.clone().get(&other_issuer).await.assert(400).text();
    assert!(mixed_up.contains("does not have the issuer"), "{mixed_up}");

    let shown = tester.browser.get(&callback).await.assert(200);
    assert_well_formed(&tester.page, &shown);
    let text = shown.text();
    assert_eq!((text.matches(">right<").count(), text.matches(">wrong<").count()), (5, 0), "{text}");
    let token = claims(&text, "Claims of the ID token", "<h3>");
    let base_url = &world.node.base_url;
    assert_eq!((&token["iss"], &token["aud"]), (base_url, &tester.project.client_id));
    assert_eq!((&*token["phone_number"], &*token["phone_number_verified"]), (EVEN, "true"));
    assert_eq!(token["acr"], "urn:ringtrue:silent");
    assert!(authorize.contains(&format!("&nonce={}&", token["nonce"])), "{authorize}");
    assert!(!token.contains_key("sim_change"), "{token:?}");
    assert_eq!(claims(&text, "Header of the ID token", "<h3>")["alg"], "RS256");
    let user_info = claims(&text, "Userinfo", "</section>");
    assert_eq!((&user_info["sub"], &*user_info["phone_number"]), (&token["sub"], EVEN));
    assert!(text.contains("Link accounts by it."), "{text}");

    // A reload redeems nothing again, because the browser no longer has the state.
    assert!(!tester.browser.cookies.contains_key("ringtrue-sign-in-test"));
    tester.browser.get(&callback).await.assert(400);
    let events = world.manage(Request::get(&format!("{}/audit-events", world.acme.path()))).await.json();
    let event = events["content"].as_array().unwrap().iter().find(|event| event["action"] == "sign_in.tested").unwrap();
    assert_eq!(event["actor"]["type"], "account");
    assert_eq!(event["target"]["id"], Value::from(&*tester.project.project_id));
    assert_eq!(event["changes"], json!([format!("client={}", tester.project.client_id)]));
    assert!(!events.to_string().contains("990123456"), "{events}");
}

#[tokio::test]
async fn refusals_and_wrong_codes_are_shown() {
    let world = World::sqlite().await;
    let mut tester = Tester::new(&world).await;
    let authorize = tester.start(&[]).await;
    let asked = tester.open(&authorize).await;
    let cancel = format!("{}/cancel", path_of(location(&asked)));
    let cancelled = tester.browser.send(Request::post(&cancel).header("Sec-Fetch-Site", "same-origin").form(&[])).await;
    let callback = path_of(location(&cancelled)).to_owned();
    let refused = tester.browser.get(&callback).await.assert(200);
    assert_well_formed(&tester.page, &refused);
    assert!(refused.text().contains(">access_denied</span>"), "{}", refused.text());

    // A code of another test does not fit the code verifier, and an expired one gives nothing.
    for (name, advance) in [("code verifier", SignedDuration::ZERO), ("expired", SignedDuration::from_secs(61))] {
        let authorize = tester.start(&[]).await;
        let first = tester.sign_in(&authorize, EVEN).await;
        let ended = if advance.is_zero() {
            let second = tester.start(&[]).await;
            let state = |url: &str| url.split("state=").nth(1).unwrap().split('&').next().unwrap().to_owned();
            first.replace(&state(&first), &state(&second))
        } else {
            world.advance(advance);
            first
        };
        let rejected = tester.browser.get(&ended).await.assert(400).text();
        assert!(rejected.contains("role=\"alert\"") && !rejected.contains("<h3>Userinfo</h3>"), "{name}: {rejected}");
        world.advance(SignedDuration::from_mins(10));
    }
}

#[tokio::test]
async fn only_developers_of_the_project_test_its_sign_in() {
    let world = World::sqlite().await;
    let mut tester = Tester::new(&world).await;
    let other = world.project("Other", json!({})).await;
    let authorize = tester.start(&[]).await;
    let callback = tester.sign_in(&authorize, EVEN).await;

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let read = viewer.get(&tester.page).await.assert(200);
    assert_well_formed(&tester.page, &read);
    assert!(read.text().contains("read-only") && !read.text().contains("/sign-in\">\n<input"), "{}", read.text());
    let token = viewer.form_token(&format!("/console/workspaces/{}", world.acme.workspace_id)).await;
    viewer.post(&tester.page, &token, &[("client_id", &*tester.project.client_id)]).await.assert(403);
    viewer.post(&format!("{}/redirect-uri", tester.page), &token, &[]).await.assert(403);
    viewer.get(&callback).await.assert(403);
    let tenant = world.another_tenant().await;
    let mut stranger = Browser::member(&world, &tenant, Role::Owner).await;
    stranger.get(&tester.page).await.assert(403);
    stranger.get(&callback).await.assert(403);
    Browser::new(&world).get(&callback).await.assert(303);

    // The callback of another project does not end the test, and its clients cannot be chosen here.
    let others = callback.replace(&tester.project.project_id, &other.project_id);
    tester.browser.get(&others).await.assert(400);
    let page = tester.page.clone();
    let foreign = tester.browser.submit(&page, &page, &[("client_id", &other.client_id)]).await.assert(400);
    assert!(foreign.text().contains("Select a valid credential"), "{}", foreign.text());
    tester.browser.get(&callback).await.assert(200);
}
