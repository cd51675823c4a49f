//! A Reverse SMS check from create to callback. `cargo run listen` only receives and verifies callbacks.

mod callbacks;

use std::{env, error::Error, io::Read};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use callbacks::{KeySet, Request, Unverified, verify};
use serde_json::{Value, json};
use tiny_http::{Response, Server};

const LARGEST_BODY: u64 = 64 * 1024;

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
    // A callback may come more than once, and others may come: `check_id` tells.
    let callback = loop {
        match receive(&server, &mut key_set)? {
            Some(callback) if callback["check_id"] == check_id => break callback,
            _ => {}
        }
    };
    match callback["match"].as_bool() {
        Some(true) => println!("the number is theirs"),
        _ => println!("not proven: {callback}"),
    }
    Ok(())
}

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

/// Takes one request and answers it. `None`: it was not to be trusted.
fn receive(server: &Server, key_set: &mut KeySet) -> Result<Option<Value>, Box<dyn Error + Send + Sync>> {
    let mut request = server.recv()?;
    let mut body = vec![];
    request.as_reader().take(LARGEST_BODY).read_to_end(&mut body)?;
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
        Err(unverified) => {
            println!("{unverified}");
            if matches!(unverified, Unverified::Refused(_)) { 401 } else { 503 }
        }
    };
    // Remember it before answering 200; do the rest of the work after.
    request.respond(Response::empty(status))?;
    Ok(verified.ok())
}

struct Api {
    base_url: String,
}

impl Api {
    /// Creates a check and says what its user has to do.
    fn create(&self, callback_url: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        let phone_number = setting("PHONE_NUMBER", "+990123456700");
        let credential = format!("{}:{}", env::var("CLIENT_ID")?, env::var("CLIENT_SECRET")?);
        let grant: Value = ureq::post(format!("{}/oauth2/token", self.base_url))
            .header("authorization", format!("Basic {}", BASE64_STANDARD.encode(credential)))
            .send_form([("grant_type", "client_credentials"), ("scope", "reverse_sms")])?
            .body_mut()
            .read_json()?;
        let token = grant["access_token"].as_str().ok_or("there is no token in the answer")?;
        let new = json!({"phone_number": phone_number, "callback_url": callback_url});
        let check: Value =
            serde_json::from_str(&self.post("/v1/number-verification/reverse-sms-checks", token, &new)?)?;

        // What your app shows: a link that opens the user's messages, with everything filled in.
        let member = |name: &str| check[name].as_str().ok_or_else(|| format!("there is no {name} in the answer"));
        let (receiver, text) = (member("receiver_phone_number")?, member("expected_sms_body")?);
        // Capital letters, digits and spaces: only these last need escaping.
        println!("Android: sms:{receiver}?body={}", text.replace(' ', "%20"));
        println!("iOS:     sms:{receiver}&body={}", text.replace(' ', "%20"));
        if phone_number.starts_with("+990") {
            // Nobody has such a number: in a sandbox project a simulated handset sends the SMS.
            let sms = json!({"from": phone_number, "to": receiver, "body": text});
            self.post("/v1/sandbox/inbound-sms", token, &sms)?;
        }
        Ok(member("check_id")?.to_owned())
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Result<String, Box<dyn Error + Send + Sync>> {
        let mut answer = ureq::post(format!("{}{path}", self.base_url))
            .config()
            .http_status_as_error(false)
            .build()
            .header("authorization", format!("Bearer {token}"))
            .send_json(body)?;
        let text = answer.body_mut().read_to_string()?;
        // A problem says what is wrong (`detail`), and `type` is a page about it.
        if answer.status().is_success() { Ok(text) } else { Err(format!("{path}: {} {text}", answer.status()).into()) }
    }
}
