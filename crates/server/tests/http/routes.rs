//! Every route of the router, ready to be called: a rule that holds everywhere is tested everywhere, on routes too that
//! come later.

use ringtrue_server::http;
use serde_json::{Value, json};

use crate::{
    client::Request,
    world::{ProjectOf, Tenant},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub template: &'static str,
}

/// What the parameters of a path are filled with.
#[derive(Clone, Debug)]
pub struct Ids {
    pub workspace_id: String,
    pub project_id: String,
    /// Of the project.
    pub project_client: String,
    /// Of the workspace.
    pub workspace_client: String,
    /// Of the project.
    pub check_id: String,
}

impl Ids {
    pub fn of(tenant: &Tenant, project: &ProjectOf) -> Self {
        Ids {
            workspace_id: tenant.workspace_id.clone(),
            project_id: project.project_id.clone(),
            project_client: project.client_id.clone(),
            workspace_client: tenant.client_id.clone(),
            check_id: "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b".to_owned(),
        }
    }
}

pub fn all() -> Vec<Route> {
    let routes = http::public_routes();
    routes.table().iter().map(|&(method, template)| Route { method, template }).collect()
}

/// Every path, once.
pub fn templates() -> Vec<&'static str> {
    let mut templates: Vec<_> = all().into_iter().map(|route| route.template).collect();
    templates.sort_unstable();
    templates.dedup();
    templates
}

/// The methods of a path, `HEAD` included.
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

/// Those that take a JSON body.
pub fn with_body() -> impl Iterator<Item = Route> {
    managed().filter(|route| ["POST", "PUT", "PATCH"].contains(&route.method))
}

/// Those that an `Idempotency-Key` is good for.
pub fn creates() -> impl Iterator<Item = Route> {
    managed().filter(|route| route.method == "POST")
}

pub fn fill(template: &str, ids: &Ids) -> String {
    let client = if template.contains("{project_id}") { &ids.project_client } else { &ids.workspace_client };
    let path = template
        .replace("{workspace_id}", &ids.workspace_id)
        .replace("{project_id}", &ids.project_id)
        .replace("{client_id}", client)
        .replace("{check_id}", &ids.check_id)
        .replace("{error_code}", "not_found")
        .replace("{connector}", "sandbox")
        .replace("{phone_number}", "+990123456700")
        .replace("{ip}", "203.0.113.10");
    assert!(!path.contains('{'), "say what {template} is filled with");
    path
}

impl Route {
    /// The route with a body that it takes, where it takes one.
    pub fn request(self, ids: &Ids) -> Request {
        let request = Request::new(self.method, &fill(self.template, ids));
        if with_body().any(|route| route == self) { request.json(&self.good_body()) } else { request }
    }

    /// A body that this route takes.
    pub fn good_body(self) -> Value {
        match (self.method, self.template.rsplit('/').next().unwrap_or_default()) {
            ("POST", "projects") => json!({"name": "A good name"}),
            ("PATCH", "{project_id}" | "{workspace_id}") => json!({"name": "A better name"}),
            ("POST", "credentials") => json!({}),
            ("PUT", "allowed-networks") => json!({"networks": []}),
            _ => panic!("say what a body of {self:?} looks like"),
        }
    }
}
