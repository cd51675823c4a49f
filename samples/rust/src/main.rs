//! Reverse SMS check, from creation to callback. `cargo run listen` only receives and verifies callbacks.

mod callbacks;

use std::{env, error::Error, io::Read};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use callbacks::{KeySet, Request, VerifyError, verify};
use serde_json::{Value, json};
use tiny_http::{Response, Server};

const MAX_BODY_BYTES: u64 = 64 * 1024;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let api = Api { base_url: setting("BASE_URL", "http://127.0.0.1:8080") };
    let server = Server::http(format!("127.0.0.1:{}", setting("CALLBACK_PORT", "9099")))?;
    let callback_url = format!("http://{}/callbacks", server.server_addr());
    println!("listening on {callback_url}");
    let accept_sandbox = env::var("ACCEPT_SANDBOX").is_ok_and(|value| value == "1");
    let mut key_set = KeySet::new(format!("{}/.well-known/jwks.json", api.base_url), accept_sandbox);
    if env::args().nth(1).as_deref() == Some("listen") {
        loop {
            receive(&server, &mut key_set)?;
        }
    }

    let check_id = api.create(&callback_url)?;
    // Callbacks may be delivered more than once, and callbacks of other checks may arrive.
    let callback = loop {
        match receive(&server, &mut key_set)? {
            Some(callback) if callback["check_id"] == check_id => break callback,
            _ => {}
        }
    };
    match callback["match"].as_bool() {
        Some(true) => println!("number verified"),
        _ => println!("number not verified: {callback}"),
    }
    Ok(())
}

fn setting(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

/// Receives one request and responds to it. `None`: verification failed.
fn receive(server: &Server, key_set: &mut KeySet) -> Result<Option<Value>, Box<dyn Error + Send + Sync>> {
    let mut request = server.recv()?;
    let mut body = vec![];
    request.as_reader().take(MAX_BODY_BYTES).read_to_end(&mut body)?;
    let headers: Vec<(String, String)> =
        request.headers().iter().map(|header| (header.field.to_string(), header.value.to_string())).collect();
    let received = Request { method: request.method().as_str(), target: request.url(), headers: &headers, body: &body };
    let verified = verify(&received, key_set);
    let status = match &verified {
        Ok(callback) => {
            let status = callback["status"].as_str().unwrap_or_default();
            println!(
                "verified: {} {status} match={}",
                callback["check_id"].as_str().unwrap_or_default(),
                callback["match"]
            );
            200
        }
        Err(error) => {
            println!("{error}");
            if matches!(error, VerifyError::Invalid(_)) { 401 } else { 503 }
        }
    };
    // Store the callback before responding with 200; process it afterwards.
    request.respond(Response::empty(status))?;
    Ok(verified.ok())
}

struct Api {
    base_url: String,
}

impl Api {
    /// Creates a check and prints the links for its end-user.
    fn create(&self, callback_url: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        let phone_number = setting("PHONE_NUMBER", "+990123456700");
        let credential = format!("{}:{}", env::var("CLIENT_ID")?, env::var("CLIENT_SECRET")?);
        let grant: Value = ureq::post(format!("{}/oauth2/token", self.base_url))
            .header("authorization", format!("Basic {}", BASE64_STANDARD.encode(credential)))
            .send_form([("grant_type", "client_credentials"), ("scope", "reverse_sms")])?
            .body_mut()
            .read_json()?;
        let token = grant["access_token"].as_str().ok_or("the response has no access_token")?;
        let new = json!({"phone_number": phone_number, "callback_url": callback_url});
        let check: Value =
            serde_json::from_str(&self.post("/v1/number-verification/reverse-sms-checks", token, &new)?)?;

        // Your app shows this link. It opens the messaging app with the receiver and text filled in.
        let member = |name: &str| check[name].as_str().ok_or_else(|| format!("the response has no {name}"));
        let (receiver, text) = (member("receiver_phone_number")?, member("expected_sms_body")?);
        // The text has capital letters, digits and spaces; only spaces need escaping.
        println!("Android: sms:{receiver}?body={}", text.replace(' ', "%20"));
        println!("iOS:     sms:{receiver}&body={}", text.replace(' ', "%20"));
        if phone_number.starts_with("+990") {
            // A sandbox number: a simulated handset sends the SMS.
            let sms = json!({"from": phone_number, "to": receiver, "body": text});
            self.post("/v1/sandbox/inbound-sms", token, &sms)?;
        }
        Ok(member("check_id")?.to_owned())
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Result<String, Box<dyn Error + Send + Sync>> {
        let mut response = ureq::post(format!("{}{path}", self.base_url))
            .config()
            .http_status_as_error(false)
            .build()
            .header("authorization", format!("Bearer {token}"))
            .send_json(body)?;
        let text = response.body_mut().read_to_string()?;
        // A problem body explains the error in `detail`; `type` is the URL of its documentation.
        let status = response.status();
        if status.is_success() { Ok(text) } else { Err(format!("{path}: {status} {text}").into()) }
    }
}
