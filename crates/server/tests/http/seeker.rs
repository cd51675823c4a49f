//! A project that asks about devices, and the devices that it asks about.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::{
    client::{Answer, Request},
    scripted_operator::{GOOD_CODE, NAME},
    world::{ProjectOf, World},
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
    /// A body that creates a check.
    pub fn body(self) -> Value {
        if self == SECURE_SNA { json!({"phone_number": EVEN}) } else { json!({}) }
    }

    /// One of a number that has not been asked about, with more in it.
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

pub struct Seeker<'a> {
    pub world: &'a World,
    pub path: Path,
    pub project: ProjectOf,
    pub token: String,
    /// How many checks were created.
    created: AtomicUsize,
}

/// A check, and what its device opens: without scheme and host.
#[derive(Clone, Debug)]
pub struct Opened {
    pub id: String,
    pub target: String,
}

impl<'a> Seeker<'a> {
    pub async fn new(world: &'a World, path: Path) -> Self {
        Seeker::with(world, path, json!({})).await
    }

    /// A project with what `body` says.
    pub async fn with(world: &'a World, path: Path, body: Value) -> Self {
        let project = world.project(&format!("Seeks by {}", path.scope), body).await;
        Seeker::of(world, path, project).await
    }

    pub async fn of(world: &'a World, path: Path, project: ProjectOf) -> Self {
        let token = world.token(&project.client_id, &project.client_secret, path.scope).await;
        Seeker { world, path, project, token, created: AtomicUsize::new(0) }
    }

    pub async fn post(&self, body: &Value) -> Answer {
        self.world.send(Request::post(self.path.checks).bearer(&self.token).json(body)).await
    }

    pub async fn create(&self, more: Value) -> Opened {
        let created = self
            .post(&self.path.body_with(self.created.fetch_add(1, Ordering::Relaxed), more))
            .await
            .assert(201)
            .json();
        let url = created["url"].as_str().unwrap();
        let target = url.strip_prefix(&self.world.node.base_url).expect("our own address").to_owned();
        Opened { id: created["check_id"].as_str().unwrap().to_owned(), target }
    }

    pub async fn get(&self, id: &str) -> Answer {
        self.world.send(Request::get(&format!("{}/{id}", self.path.checks)).bearer(&self.token)).await
    }

    pub async fn list(&self, query: &str) -> Answer {
        self.world.send(Request::get(&format!("{}{query}", self.path.checks)).bearer(&self.token)).await
    }

    pub async fn redeem(&self, id: &str, code: &str) -> Answer {
        let request = Request::post(&format!("{}/{id}", self.path.checks)).bearer(&self.token);
        self.world.send(request.json(&json!({"code": code}))).await
    }

    /// A device opens a URL of ours.
    pub async fn open(&self, target: &str) -> Answer {
        self.world.send(Request::get(target)).await
    }

    /// A device goes to its operator: the ticket that it comes back with.
    pub async fn depart(&self, target: &str) -> String {
        ticket(&self.open(target).await)
    }

    /// A device comes back from the operator, which knows it.
    pub async fn come_back(&self, ticket: &str) -> Answer {
        self.open(&callback(ticket)).await
    }

    /// A device goes the whole way, and has a code.
    pub async fn travel(&self, target: &str) -> String {
        let answer = self.come_back(&self.depart(target).await).await.assert(200).json();
        answer["code"].as_str().unwrap_or_else(|| panic!("no code: {answer}")).to_owned()
    }
}

/// What an operator was given to send the device back with.
#[track_caller]
pub fn ticket(answer: &Answer) -> String {
    assert_eq!(answer.status, 302, "{}", answer.text());
    let location = answer.header("location").expect("a location");
    location.split_once("?state=").expect("a state").1.to_owned()
}

/// Where the operator sends a device that it knows.
pub fn callback(ticket: &str) -> String {
    format!("/southbound/camara/{NAME}/callback?state={ticket}&code={GOOD_CODE}&iss=https%3A%2F%2Foperator.example")
}

/// The query of a URL, decoded.
pub fn query(url: &str) -> Vec<(String, String)> {
    url::Url::parse(url).expect("a URL").query_pairs().into_owned().collect()
}
