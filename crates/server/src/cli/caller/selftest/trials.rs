//! What is tried, in the order in which it is told.

use std::time::Duration;

use http::{HeaderMap, Method};
use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    ground::{Expiry, Ground, number},
    report::{Outcome, Report},
};
use crate::cli::{
    caller::{
        checks::{check, path, redeemed},
        list::page,
        profile::{Access, Secret},
        session::Session,
        trigger,
        upstream::resend,
    },
    failure::Failure,
};

/// For what the sandbox does in a moment.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
const OUT_OF_REACH: &str = "the server cannot reach this machine; see `ringtrue listen`";

/// What came of a trial that could be made, or why it failed.
type Tried = Result<String, Flop>;

enum Flop {
    /// Not as it should be.
    Wrong(String),
    Failure(Failure),
    NotTried(&'static str),
}

impl From<Failure> for Flop {
    fn from(failure: Failure) -> Self {
        Flop::Failure(failure)
    }
}

/// Tries everything. Only the output can fail: what is tried may not.
pub(super) async fn all(ground: &mut Ground, report: &mut Report) -> Result<(), Failure> {
    macro_rules! attempt {
        ($name:literal, $trial:expr) => {{
            report.trying($name);
            let outcome = match $trial.await {
                Ok(detail) => Outcome::Works(detail),
                Err(Flop::Wrong(detail)) => Outcome::Fails(detail),
                Err(Flop::Failure(failure)) => Outcome::Fails(failure.to_string().replace("\n ", ";")),
                Err(Flop::NotTried(why)) => Outcome::NotTried(why),
            };
            report.tell($name, outcome)?;
        }};
    }
    attempt!("Server: ready", ready(&ground.session));
    attempt!("Token: one for each product", tokens(&ground.session));
    attempt!("Token: a wrong secret is refused", wrong_secret(&ground.session));
    attempt!("Reverse SMS: match", reverse_sms(ground, "00", json!({"status": "COMPLETED", "match": true})));
    attempt!("Reverse SMS: no match", reverse_sms(ground, "01", json!({"status": "COMPLETED", "match": false})));
    attempt!("Reverse SMS: error", reverse_sms(ground, "99", json!({"status": "ERROR"})));
    attempt!("Reverse SMS: callback, signed", callback(ground));
    attempt!("Reverse SMS: callback, sent again", callback_again(ground));
    attempt!("Reverse SMS: found by search", search(ground));
    attempt!("Secure SNA: match", secure_sna(ground, "00", true));
    attempt!("Secure SNA: no match", secure_sna(ground, "01", false));
    attempt!("Discovery: the number is told", discovery(ground));
    attempt!("SIM Swap: no change", sim_swap(ground, "00", true));
    attempt!("SIM Swap: change", sim_swap(ground, "01", false));
    attempt!("Eligibility: by number", eligibility(&ground.session, "phone-numbers", number("00")));
    attempt!("Eligibility: by address", eligibility(&ground.session, "device-ips", "203.0.113.1".to_owned()));
    attempt!("Management: projects are listed", projects(&ground.session));
    attempt!("Reverse SMS: expired", expired(ground));
    Ok(())
}

async fn ready(session: &Session) -> Tried {
    let answer =
        session.server.send(Method::GET, &session.server.url(&["readyz"], &[]), HeaderMap::new(), vec![]).await?;
    let base_url = session.server.base_url.as_str().trim_end_matches('/');
    match answer.status {
        200 => Ok(base_url.to_owned()),
        status => Err(Flop::Wrong(format!("{base_url}/readyz answers {status}"))),
    }
}

async fn tokens(session: &Session) -> Tried {
    for product in Product::ALL {
        session.token(Scope::Product(product)).await?;
    }
    Ok(String::new())
}

async fn wrong_secret(session: &Session) -> Tried {
    let scope = Scope::Product(Product::ReverseSms);
    let Some(access) = session.profile.access(scope) else { return Err(Flop::NotTried("no project's credential")) };
    let wrong = Access { client_id: access.client_id.clone(), client_secret: Secret::new("rts_wrong".to_owned()) };
    match session.server.token(&wrong, scope).await? {
        Err(problem) if problem.is_about_credentials() => Ok(String::new()),
        Err(problem) => Err(Flop::Wrong(format!("it is refused by `{}`", problem.error_code))),
        Ok(_) => Err(Flop::Wrong("it was accepted".to_owned())),
    }
}

/// A check for a number with these last digits, and the SMS that it waits for.
async fn texted(session: &Session, suffix: &str, more: Value) -> Result<Value, Flop> {
    let claimed = number(suffix);
    let mut body = json!({"phone_number": claimed});
    if let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) {
        members.extend(more);
    }
    let created = session.post(Scope::Product(Product::ReverseSms), path(Product::ReverseSms), &body).await?;
    let (to, sms) = (text(&created, "receiver_phone_number")?, text(&created, "expected_sms_body")?);
    trigger::text(session, &claimed, &to, &sms, &[]).await?;
    Ok(created)
}

async fn reverse_sms(ground: &Ground, suffix: &str, expected: Value) -> Tried {
    let created = texted(&ground.session, suffix, json!({})).await?;
    let ended = end_of(&ground.session, Product::ReverseSms, &text(&created, "check_id")?, PATIENCE).await?;
    hold(&ended, &expected)
}

async fn callback(ground: &mut Ground) -> Tried {
    let Some(url) = ground.mailbox.as_ref().map(|mailbox| mailbox.url.clone()) else {
        return Err(Flop::NotTried(OUT_OF_REACH));
    };
    let created = texted(&ground.session, "00", json!({"callback_url": url, "reference_id": "selftest"})).await?;
    let id = text(&created, "check_id")?;
    let letter = match &mut ground.mailbox {
        Some(mailbox) => mailbox.about(&id, PATIENCE).await,
        None => None,
    };
    let letter = letter.ok_or_else(|| Flop::Wrong("none came".to_owned()))?;
    let key = letter.signed_by.clone().map_err(Flop::Wrong)?;
    for (name, expected) in
        [("status", json!("COMPLETED")), ("match", json!(true)), ("reference_id", json!("selftest"))]
    {
        if letter.member(name) != Some(&expected) {
            return Err(Flop::Wrong(format!("`{name}` is not {expected}")));
        }
    }
    match letter.product.as_deref() {
        Some("reverse_sms") => Ok(format!("by key {key}")),
        _ => Err(Flop::Wrong("it does not name its product".to_owned())),
    }
}

async fn callback_again(ground: &mut Ground) -> Tried {
    let Some(mailbox) = &mut ground.mailbox else { return Err(Flop::NotTried(OUT_OF_REACH)) };
    let created = texted(&ground.session, "00", json!({"callback_url": mailbox.url})).await?;
    let id = text(&created, "check_id")?;
    let first = mailbox.about(&id, PATIENCE).await.ok_or_else(|| Flop::Wrong("none came".to_owned()))?;
    let sending = async {
        loop {
            match resend(&ground.session, Product::ReverseSms, &id).await? {
                Ok(_) => return Ok::<_, Flop>(()),
                // Our answer to the first one has not been noted yet.
                Err(problem) if problem.error_code == "callback_in_progress" => sleep(BETWEEN_LOOKS).await,
                Err(problem) => return Err(Failure::Problem(problem).into()),
            }
        }
    };
    let late = |_| Flop::Wrong("it cannot be sent again".to_owned());
    tokio::time::timeout(PATIENCE, sending).await.map_err(late)??;
    let second = mailbox.about(&id, PATIENCE).await.ok_or_else(|| Flop::Wrong("none came again".to_owned()))?;
    second.signed_by.clone().map_err(Flop::Wrong)?;
    if second.body == first.body { Ok(String::new()) } else { Err(Flop::Wrong("it says something else".to_owned())) }
}

async fn search(ground: &Ground) -> Tried {
    let reference = format!("selftest{}", number(""));
    let created = texted(&ground.session, "00", json!({"reference_id": reference})).await?;
    let search = format!("reference_id=='{reference}'");
    let product = Product::ReverseSms;
    let found = page(&ground.session, Scope::Product(product), path(product), Some(&search), 10, 1).await?;
    match found.content.as_slice() {
        [one] if one.get("check_id") == created.get("check_id") => Ok(String::new()),
        others => Err(Flop::Wrong(format!("{} checks were found in place of one", others.len()))),
    }
}

/// What a silent check ends with, for a phone with this SIM.
async fn silent(ground: &Ground, product: Product, body: &Value, sim: Option<&str>) -> Result<Value, Flop> {
    let session = &ground.session;
    let created = session.post(Scope::Product(product), path(product), body).await?;
    let end = trigger::open(session, &text(&created, "url")?, sim).await?;
    let code = text(&end, "code")?;
    Ok(redeemed(session, product, &text(&created, "check_id")?, &code).await?)
}

async fn secure_sna(ground: &Ground, suffix: &str, matches: bool) -> Tried {
    let body = json!({"phone_number": number(suffix)});
    let ended = silent(ground, Product::SecureSna, &body, None).await?;
    hold(&ended, &json!({"status": "COMPLETED", "match": matches}))
}

async fn discovery(ground: &Ground) -> Tried {
    let sim = number("00");
    let ended = silent(ground, Product::Discovery, &json!({}), Some(&sim)).await?;
    hold(&ended, &json!({"status": "COMPLETED", "phone_number": sim}))?;
    Ok(String::new())
}

async fn sim_swap(ground: &Ground, suffix: &str, no_change: bool) -> Tried {
    let product = Product::SimSwap;
    let body = json!({"phone_number": number(suffix)});
    let check = ground.session.post(Scope::Product(product), path(product), &body).await?;
    hold(&check, &json!({"status": "COMPLETED", "no_sim_change": no_change}))
}

async fn eligibility(session: &Session, kind: &str, subject: String) -> Tried {
    let scope = Scope::Product(Product::Eligibility);
    let found = session.get(scope, &["v1", "eligibility", kind, &subject], &[]).await?;
    match found.get("products").and_then(Value::as_array).map(Vec::len) {
        Some(count @ 1..) => Ok(format!("{count} products")),
        _ => Err(Flop::Wrong("no product is eligible".to_owned())),
    }
}

async fn projects(session: &Session) -> Tried {
    if session.profile.workspace.is_none() {
        return Err(Flop::NotTried("the profile has no workspace's credential"));
    }
    let projects = ["v1", "management", "workspaces", session.workspace()?, "projects"];
    let found = page(session, Scope::Management, &projects, None, 10, 1).await?;
    if found.content.is_empty() { Err(Flop::Wrong("there is none".to_owned())) } else { Ok(String::new()) }
}

/// Last of all, since it may move the clock.
async fn expired(ground: &Ground) -> Tried {
    if matches!(ground.expiry, Expiry::NotAtAll) {
        return Err(Flop::NotTried("it takes minutes: add --slow"));
    }
    let created = texted(&ground.session, "98", json!({})).await?;
    let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(300);
    let wait = match &ground.expiry {
        Expiry::ByClock(clock) => {
            clock.advance(ttl);
            PATIENCE
        }
        Expiry::ByWaiting | Expiry::NotAtAll => Duration::from_secs(ttl.unsigned_abs()) + PATIENCE,
    };
    let ended = end_of(&ground.session, Product::ReverseSms, &text(&created, "check_id")?, wait).await?;
    hold(&ended, &json!({"status": "EXPIRED"}))
}

/// The check once it has ended, or as it is when patience ends.
async fn end_of(session: &Session, product: Product, id: &str, patience: Duration) -> Result<Value, Flop> {
    let waiting = async {
        loop {
            let check = check(session, product, id).await?;
            let is_open = matches!(check.get("status").and_then(Value::as_str), Some("ACCEPTED" | "PENDING"));
            if !is_open {
                return Ok(check);
            }
            sleep(BETWEEN_LOOKS).await;
        }
    };
    tokio::time::timeout(patience, waiting).await.unwrap_or_else(|_| Err(Flop::Wrong("it does not end".to_owned())))
}

/// Whether a check is as it should be, and what of it is worth telling.
fn hold(check: &Value, expected: &Value) -> Tried {
    let mut told = vec![];
    for (name, value) in expected.as_object().into_iter().flatten() {
        let found = check.get(name).unwrap_or(&Value::Null);
        if found != value {
            let status = check.get("status").unwrap_or(&Value::Null);
            let code = check.get("error_code").and_then(Value::as_str).unwrap_or("no error code");
            return Err(Flop::Wrong(format!("`{name}` is not as expected (status {status}, {code})")));
        }
        told.push(format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    Ok(told.join(", "))
}

fn text(of: &Value, name: &str) -> Result<String, Flop> {
    let text = of.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| {
        let why = of.get("error").and_then(Value::as_str).map_or_else(String::new, |error| format!(" ({error})"));
        Flop::Wrong(format!("there is no `{name}`{why}"))
    })
}
