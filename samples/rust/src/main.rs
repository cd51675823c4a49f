//! Verifies a number from creation to callback: `cargo run [reverse-sms | secure-sna | verification]`.
//! `cargo run listen` only receives and verifies callbacks.

mod callbacks;

use std::{env, error::Error, io::Read};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use callbacks::{KeySet, Request, VerifyError, verify};
use serde_json::{Value, json};
use tiny_http::{Response, Server};

const MAX_BODY_BYTES: u64 = 64 * 1024;

type AnyError = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), AnyError> {
    let name = env::args().nth(1).unwrap_or_else(|| "reverse-sms".to_owned());
    let product = Product::by_name(&name);
    if product.is_none() && name != "listen" {
        let expected = "reverse-sms, secure-sna, verification or listen";
        return Err(format!("unknown argument: {name}; expected {expected}").into());
    }
    let api = Api { base_url: setting("BASE_URL", "http://127.0.0.1:8080") };
    let server = Server::http(format!("127.0.0.1:{}", setting("CALLBACK_PORT", "9099")))?;
    let callback_url = format!("http://{}/callbacks", server.server_addr());
    println!("listening on {callback_url}");
    let accept_sandbox = env::var("ACCEPT_SANDBOX").is_ok_and(|value| value == "1");
    let own_host = setting("CALLBACK_HOST", &server.server_addr().to_string());
    let mut key_set = KeySet::new(format!("{}/.well-known/jwks.json", api.base_url), accept_sandbox);
    let Some(product) = product else {
        loop {
            receive(&server, &own_host, &mut key_set)?;
        }
    };

    let id = api.start(&product, &callback_url)?;
    // Callbacks may be delivered more than once, and callbacks of other checks may arrive.
    let callback = loop {
        match receive(&server, &own_host, &mut key_set)? {
            Some(callback) if id_of(&callback) == Some(&id) => break callback,
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

fn phone_number() -> String {
    setting("PHONE_NUMBER", "+990123456700")
}

/// A sandbox number: the code below also acts as its phone.
fn is_simulated() -> bool {
    phone_number().starts_with("+990")
}

/// A verification has a `verification_id` instead of a `check_id`.
fn id_of(resource: &Value) -> Option<&str> {
    resource["check_id"].as_str().or(resource["verification_id"].as_str())
}

fn next_step(verification: &Value) -> Option<&Value> {
    verification.get("next_step").filter(|step| !step.is_null())
}

/// Receives one request and responds to it. `None`: verification failed.
fn receive(server: &Server, own_host: &str, key_set: &mut KeySet) -> Result<Option<Value>, AnyError> {
    let mut request = server.recv()?;
    let mut body = vec![];
    request.as_reader().take(MAX_BODY_BYTES).read_to_end(&mut body)?;
    let headers: Vec<(String, String)> =
        request.headers().iter().map(|header| (header.field.to_string(), header.value.to_string())).collect();
    let received = Request { method: request.method().as_str(), target: request.url(), headers: &headers, body: &body };
    let verified = verify(&received, own_host, key_set);
    let status = match &verified {
        Ok(callback) => {
            let status = callback["status"].as_str().unwrap_or_default();
            println!("verified: {} {status} match={}", id_of(callback).unwrap_or_default(), callback["match"]);
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

/// Scope and path of a product.
struct Product {
    scope: &'static str,
    path: &'static str,
}

impl Product {
    fn by_name(name: &str) -> Option<Self> {
        let (scope, path) = match name {
            "reverse-sms" => ("reverse_sms", "/v1/number-verification/reverse-sms-checks"),
            "secure-sna" => ("secure_sna", "/v1/number-verification/secure-sna-checks"),
            "verification" => ("verification", "/v1/verifications"),
            _ => return None,
        };
        Some(Product { scope, path })
    }
}

impl Api {
    /// Creates a check or verification, and takes its steps. Returns its id.
    fn start(&self, product: &Product, callback_url: &str) -> Result<String, AnyError> {
        let token = self.token(product.scope)?;
        let new = json!({"phone_number": phone_number(), "callback_url": callback_url});
        let created = self.call(product.path, &token, Some(&new))?;
        let id = id_of(&created).ok_or("the response has no id")?.to_owned();
        // A verification has `next_step` while it is open; a check has the members of its step.
        let mut step = Some(next_step(&created).unwrap_or(&created).clone());
        while let Some(current) = step {
            step = match current["url"].as_str() {
                Some(url) => self.verify_silently(url, &format!("{}/{id}", product.path), &token)?,
                None => {
                    self.ask_for_sms(&current)?;
                    match next_step(&created) {
                        Some(_) => self.following_step(&current, &format!("{}/{id}", product.path), &token)?,
                        None => None,
                    }
                }
            };
        }
        Ok(id)
    }

    /// Secure SNA: your app opens the URL over mobile data, and passes the code to your backend, which redeems it.
    /// Returns the next step of a verification.
    fn verify_silently(&self, url: &str, path: &str, token: &str) -> Result<Option<Value>, AnyError> {
        println!("Phone: open {url}");
        if !is_simulated() {
            return Ok(None);
        }
        let device: Value = ureq::get(url).header("accept", "application/json").call()?.body_mut().read_json()?;
        // Without a code, the operator has failed: a verification goes on with its next method.
        let redemption = device["code"].as_str().map(|code| json!({"code": code}));
        let result = self.call(path, token, redemption.as_ref())?;
        Ok(next_step(&result).cloned())
    }

    /// Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in.
    fn ask_for_sms(&self, step: &Value) -> Result<(), AnyError> {
        let member = |name: &str| step[name].as_str().ok_or_else(|| format!("the response has no {name}"));
        let (receiver, text) = (member("receiver_phone_number")?, member("expected_sms_body")?);
        // The text has capital letters, digits and spaces; only spaces need escaping.
        println!("Android: sms:{receiver}?body={}", text.replace(' ', "%20"));
        println!("iOS:     sms:{receiver}&body={}", text.replace(' ', "%20"));
        if is_simulated() {
            let sms = json!({"from": phone_number(), "to": receiver, "body": text});
            self.call("/v1/sandbox/inbound-sms", &self.token("reverse_sms")?, Some(&sms))?;
        }
        Ok(())
    }

    /// Waits until a verification goes on or ends. A text from another number may be sent once more, with a new text.
    fn following_step(&self, step: &Value, path: &str, token: &str) -> Result<Option<Value>, AnyError> {
        loop {
            let verification = self.call(path, token, None)?;
            match next_step(&verification) {
                Some(current) if current == step => std::thread::sleep(std::time::Duration::from_secs(1)),
                current => return Ok(current.cloned()),
            }
        }
    }

    /// A token has one scope, and is valid for an hour. Cache it.
    fn token(&self, scope: &str) -> Result<String, AnyError> {
        let credential = format!("{}:{}", env::var("CLIENT_ID")?, env::var("CLIENT_SECRET")?);
        let grant: Value = ureq::post(format!("{}/oauth2/token", self.base_url))
            .header("authorization", format!("Basic {}", BASE64_STANDARD.encode(credential)))
            .send_form([("grant_type", "client_credentials"), ("scope", scope)])?
            .body_mut()
            .read_json()?;
        Ok(grant["access_token"].as_str().ok_or("the response has no access_token")?.to_owned())
    }

    /// Posts the body, or gets the resource without one.
    fn call(&self, path: &str, token: &str, body: Option<&Value>) -> Result<Value, AnyError> {
        let url = format!("{}{path}", self.base_url);
        let authorization = format!("Bearer {token}");
        let mut response = match body {
            Some(body) => {
                let request = ureq::post(url).config().http_status_as_error(false).build();
                request.header("authorization", authorization).send_json(body)?
            }
            None => {
                let request = ureq::get(url).config().http_status_as_error(false).build();
                request.header("authorization", authorization).call()?
            }
        };
        let text = response.body_mut().read_to_string()?;
        // A problem body explains the error in `detail`; `type` is the URL of its documentation.
        let status = response.status();
        if !status.is_success() {
            return Err(format!("{path}: {status} {text}").into());
        }
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }
}
