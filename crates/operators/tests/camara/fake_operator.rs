//! A scripted operator with the usual CAMARA endpoints.

use std::ops::Deref;

pub use ringtrue_test_support::http_server::ScriptedResponse;
use ringtrue_test_support::http_server::ScriptedServer;
use serde_json::{Value, json};

pub const DISCOVERY: &str = "/.well-known/openid-configuration";
pub const KEYS: &str = "/keys";
pub const TOKEN: &str = "/token";
pub const VERIFY: &str = "/number-verification/v2/verify";
pub const NUMBER: &str = "/number-verification/v2/device-phone-number";
pub const BACKCHANNEL: &str = "/bc-authorize";
pub const DATE: &str = "/sim-swap/v2/retrieve-date";
pub const CHECK: &str = "/sim-swap/v2/check";

#[derive(Clone)]
pub struct FakeOperator {
    server: ScriptedServer,
}

impl Deref for FakeOperator {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.server
    }
}

impl FakeOperator {
    pub async fn start() -> Self {
        let operator = FakeOperator { server: ScriptedServer::start().await };
        for (path, body) in [
            (DISCOVERY, operator.metadata()),
            (KEYS, json!({ "keys": [] })),
            (TOKEN, token_response()),
            (VERIFY, json!({ "devicePhoneNumberVerified": true })),
            (NUMBER, json!({ "devicePhoneNumber": "+447700900123" })),
            (BACKCHANNEL, json!({ "auth_req_id": "request-of-ours", "expires_in": 120 })),
            (DATE, json!({ "latestSimChange": "2026-11-14T13:00:00Z" })),
            (CHECK, json!({ "swapped": true })),
        ] {
            operator.respond(path, ScriptedResponse::Json(200, body));
        }
        operator
    }

    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port)
    }

    pub fn metadata(&self) -> Value {
        json!({
            "issuer": self.issuer(),
            "authorization_endpoint": format!("{}/authorize?tenant=a%20b", self.issuer()),
            "token_endpoint": format!("{}{TOKEN}", self.issuer()),
            "jwks_uri": format!("{}{KEYS}", self.issuer()),
            "backchannel_authentication_endpoint": format!("{}{BACKCHANNEL}", self.issuer()),
        })
    }

    pub fn respond(&self, path: &'static str, response: ScriptedResponse) {
        self.server.respond(path, [response]);
    }

    pub fn respond_in_order(&self, path: &'static str, responses: Vec<ScriptedResponse>) {
        self.server.respond(path, responses);
    }
}

pub fn token_response() -> Value {
    json!({ "access_token": "token-of-the-device", "token_type": "Bearer", "expires_in": 60 })
}
