//! All routes of the router as requests, so that general rules are tested on every route.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    client::Request,
    management::logo::png,
    world::{Tenant, TestProject, World},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub template: &'static str,
}

/// Values of path parameters.
#[derive(Clone, Debug)]
pub struct Ids {
    pub workspace_id: String,
    pub project_id: String,
    /// Client id of a project credential.
    pub project_client: String,
    /// Client id of a workspace credential.
    pub workspace_client: String,
    /// Id of a check in the project.
    pub check_id: String,
}

impl Ids {
    pub fn of(tenant: &Tenant, project: &TestProject) -> Self {
        Ids {
            workspace_id: tenant.workspace_id.clone(),
            project_id: project.project_id.clone(),
            project_client: project.client_id.clone(),
            workspace_client: tenant.client_id.clone(),
            check_id: "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b".to_owned(),
        }
    }
}

/// Returns all routes but the stream of callbacks, whose response does not end. `callbacks::stream` tests it.
pub fn all() -> Vec<Route> {
    let routes = ringtrue_api::public_routes();
    let routes = routes.iter().filter(|route| !route.path.ends_with("/callbacks/stream"));
    routes.map(|route| Route { method: route.method, template: route.path }).collect()
}

/// Returns the distinct path templates.
pub fn templates() -> Vec<&'static str> {
    let mut templates: Vec<_> = all().into_iter().map(|route| route.template).collect();
    templates.sort_unstable();
    templates.dedup();
    templates
}

/// Whether a path belongs to CAMARA's APIs, whose errors have another format.
pub fn is_camara(template: &str) -> bool {
    ["/number-verification/", "/sim-swap/"].iter().any(|api| template.starts_with(api))
}

/// Returns the methods of a path, including `HEAD`.
pub fn methods_of(template: &str) -> Vec<&'static str> {
    let mut methods: Vec<_> = all().into_iter().filter(|r| r.template == template).map(|r| r.method).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods
}

pub fn managed() -> impl Iterator<Item = Route> {
    all().into_iter().filter(|route| route.template.starts_with("/v1/management/"))
}

/// Returns the routes that create checks.
pub fn checks() -> impl Iterator<Item = Route> {
    all().into_iter().filter(|route| route.method == "POST" && is_collection_of_checks(route.template))
}

fn is_collection_of_checks(template: &str) -> bool {
    template.ends_with("-checks") || template == "/v1/verifications"
}

/// Returns the id in the response to the creation of a check or verification.
pub fn created_id(body: &Value) -> &str {
    body.get("check_id").or_else(|| body.get("verification_id")).and_then(Value::as_str).unwrap()
}

/// Returns the routes with a JSON body.
pub fn with_body() -> impl Iterator<Item = Route> {
    let has_body = |route: &Route| ["POST", "PUT", "PATCH"].contains(&route.method) && !route.takes_image();
    managed().filter(has_body).chain(checks())
}

/// Returns the routes that support `Idempotency-Key`.
pub fn creates() -> impl Iterator<Item = Route> {
    managed().filter(|route| route.method == "POST").chain(checks())
}

/// A token for every scope.
pub struct Tokens(BTreeMap<&'static str, String>);

impl Tokens {
    /// Requests the tokens of the first tenant and one of its projects.
    pub async fn of(world: &World, project: &TestProject) -> Self {
        let mut tokens = BTreeMap::from([("management", world.management_token().await)]);
        for scope in checks().map(Route::scope) {
            tokens.insert(scope, world.token(&project.client_id, &project.client_secret, scope).await);
        }
        Tokens(tokens)
    }

    pub fn for_route(&self, route: Route) -> &str {
        &self.0[route.scope()]
    }
}

pub fn fill(template: &str, ids: &Ids) -> String {
    let client = if template.contains("{project_id}") { &ids.project_client } else { &ids.workspace_client };
    let path = template
        .replace("{workspace_id}", &ids.workspace_id)
        .replace("{project_id}", &ids.project_id)
        .replace("{client_id}", client)
        .replace("{check_id}", &ids.check_id)
        .replace("{verification_id}", &ids.check_id)
        .replace("{error_code}", "not_found")
        .replace("{connector}", "sandbox")
        .replace("{phone_number}", "+990123456700")
        .replace("{ip}", "203.0.113.10");
    assert!(!path.contains('{'), "{template} has a parameter without a value");
    path
}

impl Route {
    /// Builds a request to the route, with a valid body if it takes one.
    pub fn request(self, ids: &Ids) -> Request {
        let request = Request::new(self.method, &fill(self.template, ids));
        if self.takes_image() {
            request.body("image/png", png(1))
        } else if with_body().any(|route| route == self) {
            request.json(&self.good_body())
        } else {
            request
        }
    }

    fn takes_image(self) -> bool {
        (self.method, self.last_segment()) == ("PUT", "logo")
    }

    /// Returns the scope that a route with a body requires.
    pub fn scope(self) -> &'static str {
        match self.last_segment() {
            "reverse-sms-checks" => "reverse_sms",
            "secure-sna-checks" => "secure_sna",
            "discovery-checks" => "discovery",
            "sim-swap-checks" => "sim_swap",
            "verifications" => "verification",
            _ => "management",
        }
    }

    fn last_segment(self) -> &'static str {
        self.template.rsplit('/').next().unwrap_or_default()
    }

    /// Returns a valid body for the route.
    pub fn good_body(self) -> Value {
        match (self.method, self.last_segment()) {
            ("POST", "projects") => json!({"name": "A good name"}),
            ("PATCH", "{project_id}" | "{workspace_id}") => json!({"name": "A better name"}),
            ("POST", "credentials" | "discovery-checks") => json!({}),
            ("POST", "reverse-sms-checks" | "secure-sna-checks" | "sim-swap-checks" | "verifications") => {
                json!({"phone_number": "+990123456700"})
            }
            ("PUT", "allowed-networks") => json!({"networks": []}),
            _ => panic!("no body is defined for {self:?}"),
        }
    }
}
