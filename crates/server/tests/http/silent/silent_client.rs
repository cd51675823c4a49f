//! A project with a silent product, and its devices.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    silent::scripted_operator::{GOOD_CODE, NAME},
    world::{TestProject, World},
};

pub const SECURE_SNA: Path = Path { scope: "secure_sna", checks: "/v1/number-verification/secure-sna-checks" };
pub const DISCOVERY: Path = Path { scope: "discovery", checks: "/v1/number-verification/discovery-checks" };
pub const BOTH: [Path; 2] = [SECURE_SNA, DISCOVERY];
pub const EVEN: &str = "+990123456700";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    pub scope: &'static str,
    pub checks: &'static str,
}

impl Path {
    /// Returns a body that creates a check.
    pub fn body(self) -> Value {
        if self == SECURE_SNA { json!({"phone_number": EVEN}) } else { json!({}) }
    }

    /// Returns a body with an unused number and additional members.
    fn body_with(self, number: usize, more: Value) -> Value {
        let mut body = self.body();
        if self == SECURE_SNA && more.get("phone_number").is_none() {
            body["phone_number"] = json!(format!("+99012{number:05}00"));
        }
        let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) else { panic!("objects") };
        members.extend(more);
        body
    }
}

pub struct SilentClient<'a> {
    pub world: &'a World,
    pub path: Path,
    pub project: TestProject,
    pub token: String,
    created: AtomicUsize,
}

/// A check with the path and query of its URL.
#[derive(Clone, Debug)]
pub struct SilentCheckUrl {
    pub id: String,
    pub target: String,
}

impl<'a> SilentClient<'a> {
    pub async fn new(world: &'a World, path: Path) -> Self {
        SilentClient::with(world, path, json!({})).await
    }

    /// Creates a project from `body`.
    pub async fn with(world: &'a World, path: Path, body: Value) -> Self {
        let project = world.project(&format!("Seeks by {}", path.scope), body).await;
        SilentClient::of(world, path, project).await
    }

    pub async fn of(world: &'a World, path: Path, project: TestProject) -> Self {
        let token = world.token(&project.client_id, &project.client_secret, path.scope).await;
        SilentClient { world, path, project, token, created: AtomicUsize::new(0) }
    }

    pub async fn post(&self, body: &Value) -> HttpResponse {
        self.world.send(Request::post(self.path.checks).bearer(&self.token).json(body)).await
    }

    pub async fn create(&self, more: Value) -> SilentCheckUrl {
        let created = self
            .post(&self.path.body_with(self.created.fetch_add(1, Ordering::Relaxed), more))
            .await
            .assert(201)
            .json();
        let url = created["url"].as_str().unwrap();
        let target = url.strip_prefix(&self.world.node.base_url).expect("our own address").to_owned();
        SilentCheckUrl { id: created["check_id"].as_str().unwrap().to_owned(), target }
    }

    pub async fn get(&self, id: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{}/{id}", self.path.checks)).bearer(&self.token)).await
    }

    pub async fn list(&self, query: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{}{query}", self.path.checks)).bearer(&self.token)).await
    }

    pub async fn redeem(&self, id: &str, code: &str) -> HttpResponse {
        let request = Request::post(&format!("{}/{id}", self.path.checks)).bearer(&self.token);
        self.world.send(request.json(&json!({"code": code}))).await
    }

    /// Opens one of our URLs on the device.
    pub async fn open(&self, target: &str) -> HttpResponse {
        self.world.send(Request::get(target)).await
    }

    /// Opens the URL of a check on the device, which is redirected to its operator. Returns the `state`.
    pub async fn start_redirect(&self, target: &str) -> String {
        redirect_state(&self.open(target).await)
    }

    /// Follows the operator's redirect back to our server on the device, with a valid authorization code.
    pub async fn return_from_operator(&self, state: &str) -> HttpResponse {
        self.open(&callback(state)).await
    }

    /// Runs the whole redirect chain and returns the code that the backend can redeem.
    pub async fn complete_redirect(&self, target: &str) -> String {
        let response = self.return_from_operator(&self.start_redirect(target).await).await.assert(200).json();
        response["code"].as_str().unwrap_or_else(|| panic!("no code: {response}")).to_owned()
    }
}

/// Returns the `state` in the redirect to the operator.
#[track_caller]
pub fn redirect_state(response: &HttpResponse) -> String {
    assert_eq!(response.status, 302, "{}", response.text());
    let location = response.header("location").expect("a location");
    location.split_once("?state=").expect("a state").1.to_owned()
}

/// Returns the target to which the operator redirects an identified device.
pub fn callback(state: &str) -> String {
    format!("/southbound/camara/{NAME}/callback?state={state}&code={GOOD_CODE}&iss=https%3A%2F%2Foperator.example")
}

pub fn query(url: &str) -> Vec<(String, String)> {
    url::Url::parse(url).expect("a URL").query_pairs().into_owned().collect()
}
