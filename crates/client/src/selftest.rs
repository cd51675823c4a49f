//! `ringtrue selftest`: tests all products against the sandbox through the public API.

use std::{io, path::Path, time::Duration};

use http::{HeaderMap, Method};
use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    api::{ApiSession, checks_path, text_field},
    argument_values::{ProfileName, is_local},
    arguments::ProfileOption,
    callbacks::{ResendOutcome, resend},
    context::ClientContext,
    error::CommandError,
    listen::BackgroundReceiver,
    printer::{self, Output, Printer, Record, escape_controls},
    profile::{ClientCredential, Profile, Secret},
    progress::Progress,
    system::random_bytes,
    trigger,
    verify::SimulatedPhone,
    watch::is_open,
};

const REPORT_COLUMNS: [&str; 3] = ["trial", "result", "detail"];
const CASE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const SERVER_CANNOT_REACH_US: &str = "the server cannot reach this machine; use `ringtrue listen`";

/// Result of a test case: a detail for the report, or the reason why the case failed or was skipped.
type CaseResult = Result<String, CaseError>;

enum CaseError {
    Failed(String),
    Skipped(&'static str),
}

impl From<CommandError> for CaseError {
    fn from(error: CommandError) -> Self {
        CaseError::Failed(error.to_string().replace("\n ", ";"))
    }
}

fn failed(reason: impl Into<String>) -> CaseError {
    CaseError::Failed(reason.into())
}

/// The server under test, and how to test it.
struct Fixture {
    session: ApiSession,
    /// Receives the server's callbacks. `None`: the server cannot reach this machine.
    receiver: Option<BackgroundReceiver>,
    expiry: ExpiryMethod,
}

enum ExpiryMethod {
    /// Calls a function that advances the server's clock by a number of seconds.
    AdvanceClock(Box<dyn Fn(i64) + Send + Sync>),
    Wait,
    Skip,
}

struct Report {
    printer: Printer,
    progress: Progress,
    results: Vec<(&'static str, CaseResult)>,
}

/// Tests the server of a profile. `slow`: also waits for a check to expire.
pub async fn selftest_profile(context: &ClientContext, name: &ProfileName, slow: bool) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &ProfileOption { profile: Some(name.clone()) })?;
    // The receiver listens on the loopback address, which only a server on this machine can reach.
    let receiver = if is_local(session.base_url()) { Some(BackgroundReceiver::open(&session).await?) } else { None };
    let expiry = if slow { ExpiryMethod::Wait } else { ExpiryMethod::Skip };
    run(Fixture { session, receiver, expiry }).await
}

/// Tests a server with the credentials in `dev_file`, which has the format of the `dev.json` that `ringtrue dev`
/// writes. `advance_clock` advances the server's clock by a number of seconds.
pub async fn selftest_server(
    context: &ClientContext,
    dev_file: &Path,
    advance_clock: Box<dyn Fn(i64) + Send + Sync>,
) -> Result<(), CommandError> {
    let profile = Profile::read_dev_file(dev_file).map_err(CommandError::other)?;
    let session = ApiSession::ephemeral(context, profile)?;
    let receiver = Some(BackgroundReceiver::open(&session).await?);
    run(Fixture { session, receiver, expiry: ExpiryMethod::AdvanceClock(advance_clock) }).await
}

/// Runs all test cases. Fails if any case fails.
async fn run(mut fixture: Fixture) -> Result<(), CommandError> {
    let fixture = &mut fixture;
    // Cases run fast enough to exceed the default rate limit.
    fixture.session.waits_for_rate_limit = true;
    let mut report = Report { printer: fixture.session.printer, progress: Progress::start(), results: vec![] };
    macro_rules! run_case {
        ($name:literal, $case:expr) => {{
            report.progress.show(concat!("… ", $name));
            let result = $case.await;
            report.record($name, result)?;
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
    run_case!("Verification: silent match", verification(fixture, "00", &[], "secure_sna"));
    run_case!("Verification: fallback to SMS", verification(fixture, "00", &["secure_sna"], "reverse_sms"));
    run_case!("Verification: no method left", exhausted_verification(fixture));
    run_case!("Eligibility: by number", eligibility(&fixture.session, "phone-numbers", random_number("00")));
    run_case!("Eligibility: by address", eligibility(&fixture.session, "device-ips", "203.0.113.1".to_owned()));
    run_case!("Management: projects listed", projects(&fixture.session));
    run_case!("Reverse SMS: expired", expiry(fixture));
    report.finish()
}

async fn ready(session: &ApiSession) -> CaseResult {
    let response = session.send(Method::GET, &session.url(&["readyz"], &[]), HeaderMap::new(), vec![]).await?;
    let base_url = session.base_url().as_str().trim_end_matches('/');
    match response.status {
        200 => Ok(base_url.to_owned()),
        status => Err(failed(format!("{base_url}/readyz returned {status}"))),
    }
}

async fn tokens(session: &ApiSession) -> CaseResult {
    for scope in Scope::of_access_tokens().filter(|scope| *scope != Scope::Management) {
        session.token(scope).await?;
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
    match session.request_token(&wrong, scope).await {
        Err(CommandError::Api(problem)) if problem.is_unauthorized() => Ok(String::new()),
        Err(CommandError::Api(problem)) => {
            Err(failed(format!("rejected with the unexpected code `{}`", problem.error_code)))
        }
        Err(other) => Err(other.into()),
        Ok(_) => Err(failed("accepted")),
    }
}

/// Returns a random simulated number that ends with `suffix`.
fn random_number(suffix: &str) -> String {
    let digits: String = random_bytes::<6>().iter().map(|byte| char::from(b'0' + byte % 10)).collect();
    format!("+9901{digits}{suffix}")
}

async fn create(session: &ApiSession, product: Product, body: &Value) -> Result<Value, CommandError> {
    session.post(Scope::Product(product), checks_path(product), Some(body), None).await
}

/// Creates a check for a random number that ends with `suffix`, and sends its SMS.
async fn create_and_send_sms(session: &ApiSession, suffix: &str, more: Value) -> Result<Value, CaseError> {
    let claimed = random_number(suffix);
    let mut body = json!({"phone_number": claimed});
    if let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) {
        members.extend(more);
    }
    let created = create(session, Product::ReverseSms, &body).await?;
    let (to, sms) = (string_field(&created, "receiver_phone_number")?, string_field(&created, "expected_sms_body")?);
    trigger::send_sms(session, &claimed, &to, &sms, &[]).await?;
    Ok(created)
}

async fn reverse_sms(fixture: &Fixture, suffix: &str, expected: Value) -> CaseResult {
    let created = create_and_send_sms(&fixture.session, suffix, json!({})).await?;
    let concluded = wait_for_conclusion(&fixture.session, &created, CASE_TIMEOUT).await?;
    expect_fields(&concluded, &expected)
}

async fn callback(fixture: &mut Fixture) -> CaseResult {
    let Some(receiver) = &mut fixture.receiver else { return Err(CaseError::Skipped(SERVER_CANNOT_REACH_US)) };
    let more = json!({"callback_url": receiver.url, "reference_id": "selftest"});
    let created = create_and_send_sms(&fixture.session, "00", more).await?;
    let callback = receiver.wait_for_callback(&string_field(&created, "check_id")?, CASE_TIMEOUT).await;
    let callback = callback.ok_or_else(|| failed("no callback received"))?;
    let key = callback.signed_by.map_err(failed)?;
    for (name, expected) in
        [("status", json!("COMPLETED")), ("match", json!(true)), ("reference_id", json!("selftest"))]
    {
        if callback.body.get(name) != Some(&expected) {
            return Err(failed(format!("`{name}` is not {expected}")));
        }
    }
    match callback.product.as_deref() {
        Some("reverse_sms") => Ok(format!("by key {key}")),
        _ => Err(failed("the callback does not name its product")),
    }
}

async fn callback_resent(fixture: &mut Fixture) -> CaseResult {
    let Some(receiver) = &mut fixture.receiver else { return Err(CaseError::Skipped(SERVER_CANNOT_REACH_US)) };
    let created = create_and_send_sms(&fixture.session, "00", json!({"callback_url": receiver.url})).await?;
    let id = string_field(&created, "check_id")?;
    let first = receiver.wait_for_callback(&id, CASE_TIMEOUT).await.ok_or_else(|| failed("no callback received"))?;
    let sending = async {
        loop {
            match resend(&fixture.session, Product::ReverseSms, &id).await? {
                ResendOutcome::Scheduled(_) => return Ok::<_, CaseError>(()),
                // The server has not yet recorded our response to the first delivery.
                ResendOutcome::Rejected(problem) if problem.error_code == "callback_in_progress" => {
                    sleep(POLL_INTERVAL).await;
                }
                ResendOutcome::Rejected(problem) => return Err(CommandError::Api(problem).into()),
            }
        }
    };
    timeout(CASE_TIMEOUT, sending).await.map_err(|_| failed("the resend request timed out"))??;
    let second = receiver.wait_for_callback(&id, CASE_TIMEOUT).await;
    let second = second.ok_or_else(|| failed("no second callback received"))?;
    second.signed_by.map_err(failed)?;
    if second.body == first.body { Ok(String::new()) } else { Err(failed("the second callback has a different body")) }
}

async fn search(fixture: &Fixture) -> CaseResult {
    let reference = format!("selftest{}", random_number(""));
    let created = create_and_send_sms(&fixture.session, "00", json!({"reference_id": reference})).await?;
    let search = format!("reference_id=='{reference}'");
    let product = Product::ReverseSms;
    let found = fixture.session.fetch_page(Scope::Product(product), checks_path(product), Some(&search), 10, 1).await?;
    match found.content.as_slice() {
        [one] if one.get("check_id") == created.get("check_id") => Ok(String::new()),
        others => Err(failed(format!("found {} checks instead of one", others.len()))),
    }
}

/// Runs a silent check with a simulated SIM, and returns the concluded check.
async fn run_silent_check(
    fixture: &Fixture,
    product: Product,
    body: &Value,
    sim: Option<&str>,
) -> Result<Value, CaseError> {
    let session = &fixture.session;
    let created = create(session, product, body).await?;
    let end = trigger::open_check_url(session, &string_field(&created, "url")?, sim).await?;
    let code = string_field(&end, "code")?;
    Ok(session.redeem_code(product, &string_field(&created, "check_id")?, &code).await?)
}

async fn secure_sna(fixture: &Fixture, suffix: &str, matches: bool) -> CaseResult {
    let body = json!({"phone_number": random_number(suffix)});
    let concluded = run_silent_check(fixture, Product::SecureSna, &body, None).await?;
    expect_fields(&concluded, &json!({"status": "COMPLETED", "match": matches}))
}

async fn discovery(fixture: &Fixture) -> CaseResult {
    let sim = random_number("00");
    let concluded = run_silent_check(fixture, Product::Discovery, &json!({}), Some(&sim)).await?;
    expect_fields(&concluded, &json!({"status": "COMPLETED", "phone_number": sim}))?;
    Ok(String::new())
}

async fn sim_swap(fixture: &Fixture, suffix: &str, no_change: bool) -> CaseResult {
    let product = Product::SimSwap;
    let body = json!({"phone_number": random_number(suffix)});
    let check = create(&fixture.session, product, &body).await?;
    expect_fields(&check, &json!({"status": "COMPLETED", "no_sim_change": no_change}))
}

/// Runs a verification to its end. Gives up the steps of the methods in `given_up`, and expects a match by `method`.
async fn verification(fixture: &Fixture, suffix: &str, given_up: &[&str], method: &str) -> CaseResult {
    let concluded = run_verification(fixture, suffix, given_up).await?;
    expect_fields(&concluded, &json!({"status": "COMPLETED", "match": true, "method": method}))
}

async fn exhausted_verification(fixture: &Fixture) -> CaseResult {
    let concluded = run_verification(fixture, "00", &["secure_sna", "reverse_sms"]).await?;
    expect_fields(&concluded, &json!({"status": "ERROR", "error_code": "methods_exhausted"}))
}

async fn run_verification(fixture: &Fixture, suffix: &str, given_up: &[&str]) -> Result<Value, CaseError> {
    let session = &fixture.session;
    let sim = random_number(suffix);
    let body = json!({"phone_number": sim, "methods": ["secure_sna", "reverse_sms"]});
    let created = create(session, Product::Verification, &body).await?;
    let phone = SimulatedPhone { sim: &sim, given_up };
    let following = phone.follow_verification(session, created, async |_| Ok(()));
    timeout(CASE_TIMEOUT, following)
        .await
        .map_err(|_| failed("the verification did not conclude in time"))?
        .map_err(CaseError::from)
}

async fn eligibility(session: &ApiSession, kind: &str, subject: String) -> CaseResult {
    let scope = Scope::Product(Product::Eligibility);
    let found = session.get(scope, &["v1", "eligibility", kind, &subject], &[]).await?;
    match found.get("products").and_then(Value::as_array).map(Vec::len) {
        Some(count @ 1..) => Ok(format!("{count} products")),
        _ => Err(failed("no product is eligible")),
    }
}

async fn projects(session: &ApiSession) -> CaseResult {
    if session.profile.workspace.is_none() {
        return Err(CaseError::Skipped("the profile has no workspace credential"));
    }
    let projects = ["v1", "management", "workspaces", session.workspace_id()?, "projects"];
    let found = session.fetch_page(Scope::Management, &projects, None, 10, 1).await?;
    if found.content.is_empty() { Err(failed("no projects found")) } else { Ok(String::new()) }
}

/// Tests the expiry of a check. Must run last, because it may advance the clock.
async fn expiry(fixture: &Fixture) -> CaseResult {
    if matches!(fixture.expiry, ExpiryMethod::Skip) {
        return Err(CaseError::Skipped("takes minutes: add --slow"));
    }
    let created = create_and_send_sms(&fixture.session, "98", json!({})).await?;
    let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(300);
    let wait = match &fixture.expiry {
        ExpiryMethod::AdvanceClock(advance_clock) => {
            advance_clock(ttl);
            CASE_TIMEOUT
        }
        ExpiryMethod::Wait | ExpiryMethod::Skip => Duration::from_secs(ttl.unsigned_abs()) + CASE_TIMEOUT,
    };
    let concluded = wait_for_conclusion(&fixture.session, &created, wait).await?;
    expect_fields(&concluded, &json!({"status": "EXPIRED"}))
}

/// Polls a Reverse SMS check until it concludes.
async fn wait_for_conclusion(session: &ApiSession, created: &Value, wait: Duration) -> Result<Value, CaseError> {
    let id = string_field(created, "check_id")?;
    let polling = async {
        loop {
            let check = session.fetch_check(Product::ReverseSms, &id).await?;
            if !text_field(&check, "status").is_some_and(is_open) {
                return Ok(check);
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(wait, polling).await.unwrap_or_else(|_| Err(failed("the check did not conclude in time")))
}

/// Compares fields of a check with the expected values, and renders them for the report.
fn expect_fields(check: &Value, expected: &Value) -> CaseResult {
    let mut fields = vec![];
    for (name, value) in expected.as_object().into_iter().flatten() {
        let found = check.get(name).unwrap_or(&Value::Null);
        if found != value {
            let status = check.get("status").unwrap_or(&Value::Null);
            let code = text_field(check, "error_code").unwrap_or("no error code");
            return Err(failed(format!("`{name}` is not as expected (status {status}, {code})")));
        }
        fields.push(format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    Ok(fields.join(", "))
}

fn string_field(of: &Value, name: &str) -> Result<String, CaseError> {
    text_field(of, name).map(str::to_owned).ok_or_else(|| {
        let why = text_field(of, "error").map_or_else(String::new, |error| format!(" ({error})"));
        failed(format!("the response has no `{name}`{why}"))
    })
}

impl Report {
    fn record(&mut self, case: &'static str, result: CaseResult) -> io::Result<()> {
        if self.printer.output == Output::Table {
            let (mark, detail) = match &result {
                Ok(detail) => ("ok  ", detail.as_str()),
                Err(CaseError::Failed(detail)) => ("FAIL", detail.as_str()),
                Err(CaseError::Skipped(detail)) => ("-   ", *detail),
            };
            let line = escape_controls(&format!("{mark}  {case:<38}  {detail}"));
            self.progress.suspend(|| printer::print_text(line.trim_end()))?;
        }
        self.results.push((case, result));
        Ok(())
    }

    /// Prints the results. Fails if any case failed.
    fn finish(self) -> Result<(), CommandError> {
        let all = self.results.len();
        let passed = self.results.iter().filter(|(_, result)| result.is_ok()).count();
        let failed = self.results.iter().filter(|(_, result)| matches!(result, Err(CaseError::Failed(_)))).count();
        if self.printer.output == Output::Table {
            printer::print_text(&match failed {
                0 => format!("\nAll cases passed: {passed} of {all}."),
                _ => format!("\n{failed} of {all} cases failed."),
            })?;
        } else {
            self.printer.print_list(&REPORT_COLUMNS, self.results.into_iter().map(case_record).collect())?;
        }
        if failed == 0 { Ok(()) } else { Err(CommandError::AlreadyReported) }
    }
}

fn case_record((case, result): (&'static str, CaseResult)) -> Record {
    let (result, detail) = match result {
        Ok(detail) => ("works", detail),
        Err(CaseError::Failed(detail)) => ("fails", detail),
        Err(CaseError::Skipped(detail)) => ("not_tried", detail.to_owned()),
    };
    REPORT_COLUMNS.into_iter().zip([json!(case), json!(result), json!(detail)]).collect()
}
