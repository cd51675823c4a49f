//! Signing in with a phone number: the OpenID provider as relying parties and browsers use it.

mod attacks;
mod client_keys;
mod codes;
mod entry;
mod sessions;

use std::sync::atomic::{AtomicU32, Ordering};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_engine::{jwt::KeySet, ports::clock::Clock as _};
use ringtrue_test_support::poll_until;
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use crate::{
    client::{self, HttpResponse, Request},
    world::{TestProject, World, send_to},
};

/// A simulated number that matches, and one that does not.
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
const CALLBACK: &str = "https://id.example/callback?tenant=1";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A workspace's projects have distinct names, and some tests have several parties.
static PARTIES: AtomicU32 = AtomicU32::new(0);

/// A project whose users sign in by a text message, and its relying party.
struct Party<'a> {
    world: &'a World,
    project: TestProject,
    sms_token: String,
}

/// A browser: its cookies.
#[derive(Default)]
struct Browser(Vec<(String, String)>);

impl<'a> Party<'a> {
    async fn new(world: &'a World) -> Self {
        Self::configured(world, json!({})).await
    }

    /// Creates a project with additional settings of sign-ins.
    async fn configured(world: &'a World, settings: Value) -> Self {
        Self::with_methods(world, settings, &["reverse_sms"]).await
    }

    async fn with_methods(world: &'a World, settings: Value, methods: &[&str]) -> Self {
        let mut sign_in = json!({"redirect_uris": [CALLBACK, "com.example.app:/callback"]});
        sign_in.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let configuration = json!({"sign_in": sign_in, "verification": {"methods": methods}});
        let name = format!("Shop {}", PARTIES.fetch_add(1, Ordering::Relaxed));
        let project = world.project(&name, json!({ "configuration": configuration })).await;
        let sms_token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        Party { world, project, sms_token }
    }

    /// Returns an authorization request with these parameters instead of, or besides, the usual ones.
    fn authorization(&self, changes: &[(&str, &str)]) -> Request {
        let usual = [
            ("response_type", "code"),
            ("client_id", &*self.project.client_id),
            ("redirect_uri", CALLBACK),
            ("scope", "openid phone"),
            ("state", "s t&te"),
            ("nonce", "n-0S6_WzA2Mj"),
        ];
        let kept = usual.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let all = kept.chain(changes).filter(|(_, value)| !value.is_empty());
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(all).finish();
        Request::get(&format!("/oauth2/authorize?{query}"))
    }

    /// Begins a sign-in, and returns the path of its page.
    async fn begin(&self, browser: &mut Browser, changes: &[(&str, &str)]) -> String {
        let response = browser.send(self.world, self.authorization(changes)).await.assert(303);
        self.path_of(&response)
    }

    fn path_of(&self, response: &HttpResponse) -> String {
        let location = response.header("location").unwrap();
        location.strip_prefix(&self.world.node.base_url).expect("our own address").to_owned()
    }

    /// Returns the path of a redirect, which may be a path already.
    fn path_or_self(&self, response: &HttpResponse) -> String {
        response.header("location").unwrap().replace(&self.world.node.base_url, "")
    }

    /// Submits a number, and returns the response.
    async fn submit(&self, browser: &mut Browser, page: &str, number: &str) -> HttpResponse {
        let request = Request::post(&format!("{page}/number")).header("Sec-Fetch-Site", "same-origin");
        browser.send(self.world, request.form(&[("phone_number", number), ("country", "")])).await
    }

    /// Texts what the hosted page asks for, and returns the path at which the browser continues.
    async fn text(&self, browser: &mut Browser, hosted_page: &str, from: &str) -> String {
        let page = browser.send(self.world, Request::get(hosted_page)).await.assert(200).text();
        let link = page.split("sms:").nth(1).unwrap().split(['"', '\'']).next().unwrap().replace("&amp;", "&");
        let (receiver, query) = link.split_once(['?', '&', ';']).unwrap();
        let body = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "body").unwrap().1.into_owned();
        let receiver = form_urlencoded::parse(format!("n={receiver}").replace('+', "%2B").as_bytes())
            .next()
            .unwrap()
            .1
            .into_owned();
        let sms = json!({"from": from, "to": receiver, "body": body});
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&self.sms_token).json(&sms);
        self.world.send(request).await.assert(202);
        self.world.wait_for_sms().await;
        let base = &self.world.node.base_url;
        let mut url = None;
        // The operator may be asked about SIM changes first.
        poll_until("the return of the browser", async || {
            let page = browser.send(self.world, Request::get(hosted_page)).await.assert(200).text();
            let start = page.find(&format!("{base}/signin/"));
            url = start.map(|start| page[start + base.len()..].split('"').next().unwrap().to_owned());
            url.is_some()
        })
        .await;
        url.unwrap().replace("&amp;", "&").replace("&#38;", "&")
    }

    /// Signs in, and returns the parameters with which the browser returns to the client.
    async fn sign_in(&self, browser: &mut Browser, number: &str, changes: &[(&str, &str)]) -> Map<String, Value> {
        let page = self.begin(browser, changes).await;
        let hosted = self.path_of(&self.submit(browser, &page, number).await.assert(303));
        let back = self.text(browser, &hosted, number).await;
        returned(&browser.send(self.world, Request::get(&back)).await.assert(302))
    }

    /// Signs in, and returns the code.
    async fn code(&self, browser: &mut Browser, changes: &[(&str, &str)]) -> String {
        let result = self.sign_in(browser, EVEN, changes).await;
        result["code"].as_str().unwrap_or_else(|| panic!("no code: {result:?}")).to_owned()
    }

    /// Redeems a code with these fields besides, or instead of, the usual ones.
    fn redemption(code: &str, changes: &[(&str, &str)]) -> Request {
        let usual = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK)];
        let kept = usual.iter().filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let fields: Vec<_> = kept.chain(changes).copied().filter(|(_, value)| !value.is_empty()).collect();
        Request::post("/oauth2/token").form(&fields)
    }

    async fn redeem(&self, code: &str, changes: &[(&str, &str)]) -> HttpResponse {
        let request = Self::redemption(code, changes).basic(&self.project.client_id, &self.project.client_secret);
        self.world.send(request).await
    }

    async fn userinfo(&self, token: &str) -> HttpResponse {
        self.world.send(Request::get("/oauth2/userinfo").bearer(token)).await
    }

    /// Verifies an ID token by the published keys, and returns its claims.
    async fn claims(&self, id_token: &str) -> Map<String, Value> {
        let keys = self.world.send(Request::get("/.well-known/jwks.json")).await.assert(200).body;
        KeySet::parse(&keys).unwrap().verify(id_token).unwrap()
    }
}

impl Browser {
    /// Sends a request with the browser's cookies, and stores those of the response.
    async fn send(&mut self, world: &World, request: Request) -> HttpResponse {
        let cookies: Vec<_> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header("Cookie", cookies.join("; ")) };
        let request = request.header("User-Agent", "Mozilla/5.0 (Linux; Android 16) Chrome/150.0 Mobile Safari/537.36");
        let response = client::send(world.node.address, &request).await;
        for (_, cookie) in response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.0.retain(|(known, _)| known != name);
            if !cookie.contains("Max-Age=0") {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
        response
    }
}

/// Returns the parameters with which a response leads back to the client.
fn returned(response: &HttpResponse) -> Map<String, Value> {
    let location = response.header("location").unwrap();
    assert!(location.starts_with(CALLBACK), "{location}");
    let url = Url::parse(location).unwrap();
    url.query_pairs().map(|(name, value)| (name.into_owned(), Value::from(value.into_owned()))).collect()
}

/// Returns the decoded header of a token.
fn header_of(token: &str) -> Value {
    let header = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    serde_json::from_slice(&header).unwrap()
}
