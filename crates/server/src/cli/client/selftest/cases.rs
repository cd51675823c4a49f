//! Cases of the self-test, in order of execution.

use std::time::Duration;

use http::{HeaderMap, Method};
use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    fixture::{ExpiryMethod, SelftestFixture, random_number},
    report::{CaseOutcome, Report},
};
use crate::cli::{
    client::{
        api_session::ApiSession,
        checks::{checks_path, fetch_check, redeem_code},
        list::fetch_page,
        profile::{ClientCredential, Secret},
        trigger,
        upstream::resend,
    },
    error::CliError,
};

const CASE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const SERVER_CANNOT_REACH_US: &str = "the server cannot reach this machine; use `ringtrue listen`";

/// Detail to report, or the reason for a failure.
type CaseResult = Result<String, CaseError>;

enum CaseError {
    /// Unexpected result.
    Unexpected(String),
    Command(CliError),
    Skipped(&'static str),
}

impl From<CliError> for CaseError {
    fn from(error: CliError) -> Self {
        CaseError::Command(error)
    }
}

/// Runs all cases. Returns an error only if the output cannot be written.
pub(super) async fn run_all(fixture: &mut SelftestFixture, report: &mut Report) -> Result<(), CliError> {
    macro_rules! run_case {
        ($name:literal, $case:expr) => {{
            report.show_running($name);
            let outcome = match $case.await {
                Ok(detail) => CaseOutcome::Passed(detail),
                Err(CaseError::Unexpected(detail)) => CaseOutcome::Failed(detail),
                Err(CaseError::Command(error)) => CaseOutcome::Failed(error.to_string().replace("\n ", ";")),
                Err(CaseError::Skipped(reason)) => CaseOutcome::Skipped(reason),
            };
            report.record($name, outcome)?;
        }};
    }
    run_case!("Server: ready", ready(&fixture.session));
    run_case!("Token: one for each product", tokens(&fixture.session));
    run_case!("Token: wrong secret rejected", wrong_secret(&fixture.session));
    run_case!("Reverse SMS: match", reverse_sms(fixture, "00", json!({"status": "COMPLETED", "match": true})));
    run_case!("Reverse SMS: no match", reverse_sms(fixture, "01", json!({"status": "COMPLETED", "match": false})));
    run_case!("Reverse SMS: error", reverse_sms(fixture, "99", json!({"status": "ERROR"})));
    run_case!("Reverse SMS: signed callback", callback(fixture));
    run_case!("Reverse SMS: callback resent", callback_resent(fixture));
    run_case!("Reverse SMS: found by search", search(fixture));
    run_case!("Secure SNA: match", secure_sna(fixture, "00", true));
    run_case!("Secure SNA: no match", secure_sna(fixture, "01", false));
    run_case!("Discovery: number returned", discovery(fixture));
    run_case!("SIM Swap: no change", sim_swap(fixture, "00", true));
    run_case!("SIM Swap: change", sim_swap(fixture, "01", false));
    run_case!("Eligibility: by number", eligibility(&fixture.session, "phone-numbers", random_number("00")));
    run_case!("Eligibility: by address", eligibility(&fixture.session, "device-ips", "203.0.113.1".to_owned()));
    run_case!("Management: projects listed", projects(&fixture.session));
    run_case!("Reverse SMS: expired", expiry(fixture));
    Ok(())
}

async fn ready(session: &ApiSession) -> CaseResult {
    let response =
        session.client.send(Method::GET, &session.client.url(&["readyz"], &[]), HeaderMap::new(), vec![]).await?;
    let base_url = session.client.base_url.as_str().trim_end_matches('/');
    match response.status {
        200 => Ok(base_url.to_owned()),
        status => Err(CaseError::Unexpected(format!("{base_url}/readyz returned {status}"))),
    }
}

async fn tokens(session: &ApiSession) -> CaseResult {
    for product in Product::ALL {
        session.token(Scope::Product(product)).await?;
    }
    Ok(String::new())
}

async fn wrong_secret(session: &ApiSession) -> CaseResult {
    let scope = Scope::Product(Product::ReverseSms);
    let Some(credential) = session.profile.credential(scope) else {
        return Err(CaseError::Skipped("the profile has no project credential"));
    };
    let wrong = ClientCredential {
        client_id: credential.client_id.clone(),
        client_secret: Secret::new("rts_wrong".to_owned()),
    };
    match session.client.request_token(&wrong, scope).await? {
        Err(problem) if problem.is_unauthorized() => Ok(String::new()),
        Err(problem) => {
            Err(CaseError::Unexpected(format!("rejected with the unexpected code `{}`", problem.error_code)))
        }
        Ok(_) => Err(CaseError::Unexpected("accepted".to_owned())),
    }
}

/// Creates a check for a number with these last digits, and sends its SMS.
async fn create_and_text(session: &ApiSession, suffix: &str, more: Value) -> Result<Value, CaseError> {
    let claimed = random_number(suffix);
    let mut body = json!({"phone_number": claimed});
    if let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) {
        members.extend(more);
    }
    let created = session.post(Scope::Product(Product::ReverseSms), checks_path(Product::ReverseSms), &body).await?;
    let (to, sms) = (string_field(&created, "receiver_phone_number")?, string_field(&created, "expected_sms_body")?);
    trigger::send_sms(session, &claimed, &to, &sms, &[]).await?;
    Ok(created)
}

async fn reverse_sms(fixture: &SelftestFixture, suffix: &str, expected: Value) -> CaseResult {
    let created = create_and_text(&fixture.session, suffix, json!({})).await?;
    let concluded =
        wait_for_conclusion(&fixture.session, Product::ReverseSms, &string_field(&created, "check_id")?, CASE_TIMEOUT)
            .await?;
    expect_fields(&concluded, &expected)
}

async fn callback(fixture: &mut SelftestFixture) -> CaseResult {
    let Some(url) = fixture.receiver.as_ref().map(|receiver| receiver.url.clone()) else {
        return Err(CaseError::Skipped(SERVER_CANNOT_REACH_US));
    };
    let created =
        create_and_text(&fixture.session, "00", json!({"callback_url": url, "reference_id": "selftest"})).await?;
    let id = string_field(&created, "check_id")?;
    let callback = match &mut fixture.receiver {
        Some(receiver) => receiver.wait_for_check(&id, CASE_TIMEOUT).await,
        None => None,
    };
    let callback = callback.ok_or_else(|| CaseError::Unexpected("no callback received".to_owned()))?;
    let key = callback.signed_by.clone().map_err(CaseError::Unexpected)?;
    for (name, expected) in
        [("status", json!("COMPLETED")), ("match", json!(true)), ("reference_id", json!("selftest"))]
    {
        if callback.field(name) != Some(&expected) {
            return Err(CaseError::Unexpected(format!("`{name}` is not {expected}")));
        }
    }
    match callback.product.as_deref() {
        Some("reverse_sms") => Ok(format!("by key {key}")),
        _ => Err(CaseError::Unexpected("the callback does not name its product".to_owned())),
    }
}

async fn callback_resent(fixture: &mut SelftestFixture) -> CaseResult {
    let Some(receiver) = &mut fixture.receiver else { return Err(CaseError::Skipped(SERVER_CANNOT_REACH_US)) };
    let created = create_and_text(&fixture.session, "00", json!({"callback_url": receiver.url})).await?;
    let id = string_field(&created, "check_id")?;
    let first = receiver
        .wait_for_check(&id, CASE_TIMEOUT)
        .await
        .ok_or_else(|| CaseError::Unexpected("no callback received".to_owned()))?;
    let sending = async {
        loop {
            match resend(&fixture.session, Product::ReverseSms, &id).await? {
                Ok(_) => return Ok::<_, CaseError>(()),
                // The server has not recorded the response to the first delivery yet.
                Err(problem) if problem.error_code == "callback_in_progress" => sleep(POLL_INTERVAL).await,
                Err(problem) => return Err(CliError::Api(problem).into()),
            }
        }
    };
    let timed_out = |_| CaseError::Unexpected("the resend request timed out".to_owned());
    tokio::time::timeout(CASE_TIMEOUT, sending).await.map_err(timed_out)??;
    let second = receiver
        .wait_for_check(&id, CASE_TIMEOUT)
        .await
        .ok_or_else(|| CaseError::Unexpected("no second callback received".to_owned()))?;
    second.signed_by.clone().map_err(CaseError::Unexpected)?;
    if second.body == first.body {
        Ok(String::new())
    } else {
        Err(CaseError::Unexpected("the second callback has a different body".to_owned()))
    }
}

async fn search(fixture: &SelftestFixture) -> CaseResult {
    let reference = format!("selftest{}", random_number(""));
    let created = create_and_text(&fixture.session, "00", json!({"reference_id": reference})).await?;
    let search = format!("reference_id=='{reference}'");
    let product = Product::ReverseSms;
    let found =
        fetch_page(&fixture.session, Scope::Product(product), checks_path(product), Some(&search), 10, 1).await?;
    match found.content.as_slice() {
        [one] if one.get("check_id") == created.get("check_id") => Ok(String::new()),
        others => Err(CaseError::Unexpected(format!("found {} checks instead of one", others.len()))),
    }
}

/// Runs a silent check with this SIM, and returns the concluded check.
async fn run_silent_check(
    fixture: &SelftestFixture,
    product: Product,
    body: &Value,
    sim: Option<&str>,
) -> Result<Value, CaseError> {
    let session = &fixture.session;
    let created = session.post(Scope::Product(product), checks_path(product), body).await?;
    let end = trigger::open_check_url(session, &string_field(&created, "url")?, sim).await?;
    let code = string_field(&end, "code")?;
    Ok(redeem_code(session, product, &string_field(&created, "check_id")?, &code).await?)
}

async fn secure_sna(fixture: &SelftestFixture, suffix: &str, matches: bool) -> CaseResult {
    let body = json!({"phone_number": random_number(suffix)});
    let concluded = run_silent_check(fixture, Product::SecureSna, &body, None).await?;
    expect_fields(&concluded, &json!({"status": "COMPLETED", "match": matches}))
}

async fn discovery(fixture: &SelftestFixture) -> CaseResult {
    let sim = random_number("00");
    let concluded = run_silent_check(fixture, Product::Discovery, &json!({}), Some(&sim)).await?;
    expect_fields(&concluded, &json!({"status": "COMPLETED", "phone_number": sim}))?;
    Ok(String::new())
}

async fn sim_swap(fixture: &SelftestFixture, suffix: &str, no_change: bool) -> CaseResult {
    let product = Product::SimSwap;
    let body = json!({"phone_number": random_number(suffix)});
    let check = fixture.session.post(Scope::Product(product), checks_path(product), &body).await?;
    expect_fields(&check, &json!({"status": "COMPLETED", "no_sim_change": no_change}))
}

async fn eligibility(session: &ApiSession, kind: &str, subject: String) -> CaseResult {
    let scope = Scope::Product(Product::Eligibility);
    let found = session.get(scope, &["v1", "eligibility", kind, &subject], &[]).await?;
    match found.get("products").and_then(Value::as_array).map(Vec::len) {
        Some(count @ 1..) => Ok(format!("{count} products")),
        _ => Err(CaseError::Unexpected("no product is eligible".to_owned())),
    }
}

async fn projects(session: &ApiSession) -> CaseResult {
    if session.profile.workspace.is_none() {
        return Err(CaseError::Skipped("the profile has no workspace credential"));
    }
    let projects = ["v1", "management", "workspaces", session.workspace_id()?, "projects"];
    let found = fetch_page(session, Scope::Management, &projects, None, 10, 1).await?;
    if found.content.is_empty() {
        Err(CaseError::Unexpected("no projects found".to_owned()))
    } else {
        Ok(String::new())
    }
}

/// Must run last, because it may advance the clock.
async fn expiry(fixture: &SelftestFixture) -> CaseResult {
    if matches!(fixture.expiry, ExpiryMethod::Skip) {
        return Err(CaseError::Skipped("takes minutes: add --slow"));
    }
    let created = create_and_text(&fixture.session, "98", json!({})).await?;
    let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(300);
    let wait = match &fixture.expiry {
        ExpiryMethod::AdvanceClock(clock) => {
            clock.advance(ttl);
            CASE_TIMEOUT
        }
        ExpiryMethod::Wait | ExpiryMethod::Skip => Duration::from_secs(ttl.unsigned_abs()) + CASE_TIMEOUT,
    };
    let concluded =
        wait_for_conclusion(&fixture.session, Product::ReverseSms, &string_field(&created, "check_id")?, wait).await?;
    expect_fields(&concluded, &json!({"status": "EXPIRED"}))
}

/// Polls the check until it concludes.
async fn wait_for_conclusion(
    session: &ApiSession,
    product: Product,
    id: &str,
    timeout: Duration,
) -> Result<Value, CaseError> {
    let waiting = async {
        loop {
            let check = fetch_check(session, product, id).await?;
            let is_open = matches!(check.get("status").and_then(Value::as_str), Some("ACCEPTED" | "PENDING"));
            if !is_open {
                return Ok(check);
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(timeout, waiting)
        .await
        .unwrap_or_else(|_| Err(CaseError::Unexpected("the check did not conclude in time".to_owned())))
}

/// Compares fields of a check, and renders them for the report.
fn expect_fields(check: &Value, expected: &Value) -> CaseResult {
    let mut fields = vec![];
    for (name, value) in expected.as_object().into_iter().flatten() {
        let found = check.get(name).unwrap_or(&Value::Null);
        if found != value {
            let status = check.get("status").unwrap_or(&Value::Null);
            let code = check.get("error_code").and_then(Value::as_str).unwrap_or("no error code");
            return Err(CaseError::Unexpected(format!("`{name}` is not as expected (status {status}, {code})")));
        }
        fields.push(format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    Ok(fields.join(", "))
}

fn string_field(of: &Value, name: &str) -> Result<String, CaseError> {
    let text = of.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| {
        let why = of.get("error").and_then(Value::as_str).map_or_else(String::new, |error| format!(" ({error})"));
        CaseError::Unexpected(format!("the response has no `{name}`{why}"))
    })
}
