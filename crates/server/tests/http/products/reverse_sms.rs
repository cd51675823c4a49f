//! Reverse SMS end to end: create, SMS, callback.

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    receiver::Receiver,
    world::{Tenant, TestProject, World},
};

pub const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";
pub const EVEN: &str = "+990123456700";
pub const ODD: &str = "+990123456701";

/// Client of Reverse SMS: a project and its access token.
pub struct ReverseSmsClient<'a> {
    pub world: &'a World,
    pub project: TestProject,
    pub token: String,
}

/// A check with the SMS that its user has to send.
#[derive(Clone, Debug)]
pub struct InvitedCheck {
    pub id: String,
    pub receiver: String,
    pub body: String,
}

impl<'a> ReverseSmsClient<'a> {
    pub async fn new(world: &'a World, body: Value) -> Self {
        let project = world.project("Checks", body).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        ReverseSmsClient { world, project, token }
    }

    pub async fn new_named(world: &'a World, name: &str) -> Self {
        let project = world.project(name, json!({})).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        ReverseSmsClient { world, project, token }
    }

    /// Creates a project in another workspace.
    pub async fn of_another_workspace(world: &'a World) -> Self {
        let other = world.another_tenant().await;
        ReverseSmsClient::of_tenant(world, &other, "Other project").await
    }

    async fn of_tenant(world: &'a World, tenant: &Tenant, name: &str) -> Self {
        let project = world.project_of(tenant, name, json!({})).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        ReverseSmsClient { world, project, token }
    }

    pub async fn sandbox(world: &'a World) -> Self {
        ReverseSmsClient::new(world, json!({})).await
    }

    /// Requests a new token, after the test has advanced the time.
    pub async fn renew_token(&mut self) {
        let TestProject { client_id, client_secret, .. } = &self.project;
        self.token = self.world.token(client_id, client_secret, "reverse_sms").await;
    }

    pub async fn post(&self, body: Value) -> HttpResponse {
        self.world.send(Request::post(CHECKS).bearer(&self.token).json(&body)).await
    }

    pub async fn create(&self, body: Value) -> InvitedCheck {
        let response = self.post(body).await.assert(201).json();
        let text = |name: &str| response[name].as_str().unwrap().to_owned();
        InvitedCheck { id: text("check_id"), receiver: text("receiver_phone_number"), body: text("expected_sms_body") }
    }

    pub async fn get(&self, id: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{CHECKS}/{id}")).bearer(&self.token)).await
    }

    pub async fn list(&self, query: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{CHECKS}{query}")).bearer(&self.token)).await
    }

    /// Sends an SMS from a handset through the sandbox operator.
    pub async fn text(&self, from: &str, to: &str, body: &str) {
        self.text_with(json!({"from": from, "to": to, "body": body})).await;
    }

    pub async fn text_with(&self, sms: Value) {
        self.send_text(sms).await.assert(202);
    }

    pub async fn send_text(&self, sms: Value) -> HttpResponse {
        self.world.send(Request::post("/v1/sandbox/inbound-sms").bearer(&self.token).json(&sms)).await
    }

    /// Waits until all SMS are delivered, asserts the status, and returns the check.
    pub async fn expect_status(&self, id: &str, status: &str) -> Value {
        self.world.wait_for_sms().await;
        let check = self.get(id).await.assert(200).json();
        assert_eq!(check["status"], status, "{check}");
        check
    }
}

async fn sms_from_the_claimed_number_matches(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let created = backend
        .post(json!({"phone_number": EVEN, "reference_id": "signup-1", "callback_url": receiver.url("/done?a=%20b")}))
        .await
        .assert(201)
        .json();
    assert_eq!((&created["status"], &created["ttl"]), (&json!("ACCEPTED"), &json!(300)));
    assert_eq!(created["reference_id"], "signup-1");
    let [id, to, body] = ["check_id", "receiver_phone_number", "expected_sms_body"].map(|name| &created[name]);
    assert!(body.as_str().unwrap().starts_with("VERIFY "), "{body}");
    let id = id.as_str().unwrap();

    let open = backend.get(id).await.assert(200).json();
    let keys: Vec<_> = open.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["check_id", "created_at", "reference_id", "status"], "the invitation is not returned again");

    backend.text(EVEN, to.as_str().unwrap(), body.as_str().unwrap()).await;
    let ended = backend.expect_status(id, "COMPLETED").await;
    assert_eq!(ended["match"], true);

    let callback = receiver.next().await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    callback.assert_signed_by(&jwks);
    assert_eq!(callback.target, "/done?a=%20b");
    assert_eq!(callback.header("x-service-callback"), "reverse_sms");
    assert_eq!(callback.header("x-service-callback-attempt"), "1");
    assert_eq!(callback.header("content-type"), "application/json");
    assert_eq!(callback.header("user-agent"), concat!("Ringtrue/", env!("CARGO_PKG_VERSION")));
    assert_eq!(callback.json(), ended, "the callback matches the check");
}

async fn sms_from_another_number_does_not_match(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.text("+990777777702", &check.receiver, &check.body).await;
    assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], false);
}

async fn edited_sms_texts_are_recognised(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for (index, dressed) in ["{} ", "re: {}\n--\nSent from my phone", "“{}”", "lower {}"].into_iter().enumerate() {
        let check = backend.create(json!({"phone_number": format!("+9901234567{index}0")})).await;
        let body = dressed.replace("{}", &check.body);
        let body = if index == 3 { body.to_lowercase() } else { body };
        backend.text(&format!("+9901234567{index}0"), &check.receiver, &body).await;
        assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true, "{dressed}");
    }
}

async fn last_digits_of_sandbox_numbers_select_the_outcome(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for (number, status, verdict) in [
        (ODD, "COMPLETED", json!(false)),
        ("+990123456795", "COMPLETED", json!(false)),
        ("+990123456796", "COMPLETED", json!(true)),
        ("+990123456799", "ERROR", Value::Null),
        // In a sandbox project, checks of real numbers are simulated, too.
        ("+447700900120", "COMPLETED", json!(true)),
    ] {
        let check = backend.create(json!({"phone_number": number})).await;
        backend.text(number, &check.receiver, &check.body).await;
        let ended = backend.expect_status(&check.id, status).await;
        assert_eq!(ended.get("match").unwrap_or(&Value::Null), &verdict, "{number}");
        let code = if status == "ERROR" { json!("internal_error") } else { Value::Null };
        assert_eq!(ended.get("error_code").unwrap_or(&Value::Null), &code, "{number}");
    }
    for (number, status, code) in [
        ("+990123456797", 400, "mno_not_supported"),
        ("+990123456794", 400, "mno_not_supported"),
        ("+990123456793", 503, "lookup_unavailable"),
    ] {
        backend.post(json!({"phone_number": number})).await.assert_problem(status, code);
    }
    let silent = backend.create(json!({"phone_number": "+990123456798"})).await;
    backend.text("+990123456798", &silent.receiver, &silent.body).await;
    world.advance(SignedDuration::from_secs(299));
    assert_ne!(backend.get(&silent.id).await.json()["status"], "EXPIRED");
    world.advance(SignedDuration::from_secs(1));
    assert_eq!(backend.get(&silent.id).await.json()["status"], "EXPIRED");
}

async fn check_expires_exactly_at_its_ttl(world: World) {
    let backend = ReverseSmsClient::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    world.advance(SignedDuration::from_millis(59_999));
    assert_eq!(backend.get(&check.id).await.json()["status"], "ACCEPTED");
    world.advance(SignedDuration::from_millis(1));
    let expired = backend.get(&check.id).await.assert(200).json();
    assert_eq!(expired["status"], "EXPIRED");
    assert!(expired.get("error_code").is_none(), "{expired}");

    let callback = receiver.next().await.json();
    assert_eq!((&callback["status"], &callback["error_code"]), (&json!("EXPIRED"), &json!("check_expired")));
    assert_eq!(callback["updated_at"], expired["updated_at"]);

    // An SMS after the expiry changes nothing.
    backend.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(backend.get(&check.id).await.json(), expired);
    assert!(receiver.is_quiet());
}

async fn sweeper_expires_unread_checks(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    world.advance(SignedDuration::from_secs(300));
    let callback = receiver.next().await.json();
    assert_eq!((&callback["check_id"], &callback["status"]), (&json!(check.id), &json!("EXPIRED")));
}

async fn sms_without_the_code_marks_the_check_pending(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    let other = backend.create(json!({"phone_number": "+990123456702"})).await;
    backend.text(EVEN, &check.receiver, "hello?").await;
    let pending = backend.expect_status(&check.id, "PENDING").await;
    assert!(pending.get("updated_at").is_some() && pending.get("match").is_none(), "{pending}");
    assert_eq!(backend.get(&other.id).await.json()["status"], "ACCEPTED", "checks of other numbers are not affected");

    backend.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true);
}

async fn wrong_code_or_receiver_changes_nothing(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    let wrong_receiver = if check.receiver.ends_with('1') { "+99000000002" } else { "+99000000001" };
    backend.text("+990123456702", &check.receiver, "VERIFY 0000000000").await;
    backend.text(EVEN, wrong_receiver, &check.body).await;
    backend.text(EVEN, "+99055555555", &check.body).await;
    let open = backend.get(&check.id).await.json();
    assert!(["ACCEPTED", "PENDING"].contains(&open["status"].as_str().unwrap()), "{open}");
    assert!(open.get("match").is_none());
}

async fn duplicate_sms_conclude_once_with_one_callback(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let sms = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"extra_copies": 10}});
    futures_util::future::join_all((0..10).map(|_| backend.text_with(sms.clone()))).await;
    assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true);
    receiver.next().await;
    // The callback of a later check is the next to arrive, so no duplicate is still on its way.
    let next = backend.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/next")})).await;
    backend.text("+990123456702", &next.receiver, &next.body).await;
    assert_eq!(receiver.next().await.target, "/next");
    assert!(receiver.is_quiet());
}

async fn simulated_delivery_faults_do_not_change_the_outcome(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for (number, faults, verdict) in [
        ("+990123456710", json!({"parts": 2, "out_of_order": true}), json!(true)),
        ("+990123456712", json!({"link_drops": 1}), json!(true)),
        ("+990123456714", json!({"spoofed_from": "+990123456716"}), json!(false)),
    ] {
        let check = backend.create(json!({"phone_number": number})).await;
        backend.text_with(json!({"from": number, "to": check.receiver, "body": check.body, "faults": faults})).await;
        assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], verdict, "{faults}");
    }
    let check = backend.create(json!({"phone_number": "+990123456718"})).await;
    let garbled = json!({"garbled": true});
    backend
        .text_with(json!({"from": "+990123456718", "to": check.receiver, "body": check.body, "faults": garbled}))
        .await;
    assert!(backend.get(&check.id).await.json().get("match").is_none());
}

async fn sender_that_cannot_be_attributed_ends_the_check(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for (number, sms) in [
        ("+990123456720", json!({"from": ""})),
        ("+990123456722", json!({"from": "My Bank"})),
        ("+990123456724", json!({"from": "80123"})),
        ("+990123456726", json!({"from": "+990123456726", "faults": {"spoofed_from": "BANK"}})),
        ("+990123456728", json!({"from": "+990123456728", "faults": {"spoofed_from": ""}})),
        // An odd number, which would otherwise end with a mismatch, ends with the same error.
        ("+990123456729", json!({"from": "112"})),
    ] {
        let check = backend.create(json!({"phone_number": number})).await;
        let mut sms = sms;
        (sms["to"], sms["body"]) = (json!(check.receiver), json!(check.body));
        backend.text_with(sms.clone()).await;
        let ended = backend.expect_status(&check.id, "ERROR").await;
        assert_eq!(ended["error_code"], "internal_error", "{sms}");
    }
    let sms = json!({"from": "+990123456700", "to": "+99000000001", "body": "VERIFY 0000000000"});
    for (member, value) in [
        ("from", "12"),
        ("from", "TWELVE CHARS"),
        ("from", "990123456700"),
        ("from", "Bücher"),
        ("to", "BANK"),
        ("to", ""),
    ] {
        let mut sms = sms.clone();
        sms[member] = json!(value);
        let refused = backend.send_text(sms).await.assert_problem(400, "phone_number_invalid");
        assert!(refused.detail().starts_with(&format!("`/{member}`: ")), "{}", refused.detail());
    }
}

async fn auto_reply_concludes_checks(world: World) {
    let backend = ReverseSmsClient::new(&world, json!({"configuration": {"reverse_sms": {"auto_reply": true}}})).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true);
}

async fn project_settings_apply_to_checks(world: World) {
    let mut receiver = Receiver::start().await;
    let settings = json!({"ttl": 90, "prefix": "ACME", "callback_url": receiver.url("/project")});
    let backend = ReverseSmsClient::new(&world, json!({"configuration": {"reverse_sms": settings}})).await;
    let created = backend.post(json!({"phone_number": EVEN})).await.assert(201).json();
    assert_eq!(created["ttl"], 90);
    assert!(created["expected_sms_body"].as_str().unwrap().starts_with("ACME "));
    let own = backend.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/own")})).await;
    backend.text("+990123456702", &own.receiver, &own.body).await;
    assert_eq!(receiver.next().await.target, "/own", "the URL of the check takes precedence");
    world.advance(SignedDuration::from_secs(90));
    assert_eq!(receiver.next().await.target, "/project");
}

/// Other sandbox projects send SMS with the receiver and the code of a check, without effect on it.
async fn simulated_sms_reach_only_checks_of_their_project(world: World) {
    let ours = ReverseSmsClient::sandbox(&world).await;
    let other_tenant = ReverseSmsClient::of_another_workspace(&world).await;
    let sibling = ReverseSmsClient::new_named(&world, "Sibling").await;
    let check = ours.create(json!({"phone_number": EVEN})).await;
    for other in [&other_tenant, &sibling] {
        other.text(EVEN, &check.receiver, "hello").await;
        other.text(EVEN, &check.receiver, &check.body).await;
        other.text(ODD, &check.receiver, &check.body).await;
        let parts = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"parts": 2}});
        other.text_with(parts).await;
        assert_eq!(ours.get(&check.id).await.json()["status"], "ACCEPTED", "still ACCEPTED, not PENDING");
    }
    ours.text(EVEN, &check.receiver, "hello").await;
    ours.expect_status(&check.id, "PENDING").await;
    ours.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(ours.expect_status(&check.id, "COMPLETED").await["match"], true);
}

/// Delays and connection drops are simulated per project.
async fn simulated_traffic_of_a_project_does_not_delay_others(world: World) {
    let ours = ReverseSmsClient::sandbox(&world).await;
    let other = world.another_tenant().await;
    let other_tenant = ReverseSmsClient::of_tenant(&world, &other, "Other project").await;
    let late = json!({"from": EVEN, "to": "+99000000001", "body": "late", "faults": {"late_seconds": 3600}});
    let send = async || {
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&other_tenant.token).json(&late);
        world.send(request).await
    };
    let mut taken = 0;
    let full = loop {
        let response = send().await;
        match response.status {
            202 => taken += 1,
            429 if response.text().contains("too many simulated messages in transit") => break response,
            429 => world.advance(SignedDuration::from_secs(1)),
            _ => panic!("{response:?}"),
        }
    };
    assert_eq!(taken, 500, "a project's share");
    full.assert_problem(429, "too_many_requests");

    // Connection drops only affect the project itself.
    let dropping = json!({"from": EVEN, "to": "+99000000001", "body": "lost", "faults": {"link_drops": 3}});
    let sibling = ReverseSmsClient::of_tenant(&world, &other, "Sibling").await;
    let dropping = (0..4).map(|_| sibling.text_with(dropping.clone()));
    let mut receiver = Receiver::start().await;
    let check = ours.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let answered = async {
        ours.text(EVEN, &check.receiver, &check.body).await;
        assert_eq!(receiver.next().await.json()["match"], true);
        assert_eq!(ours.get(&check.id).await.json()["status"], "COMPLETED");
    };
    join(join_all(dropping), answered).await;
}

on_both_stores!(
    simulated_sms_reach_only_checks_of_their_project,
    simulated_traffic_of_a_project_does_not_delay_others,
    sms_from_the_claimed_number_matches,
    sms_from_another_number_does_not_match,
    edited_sms_texts_are_recognised,
    last_digits_of_sandbox_numbers_select_the_outcome,
    check_expires_exactly_at_its_ttl,
    sweeper_expires_unread_checks,
    sms_without_the_code_marks_the_check_pending,
    wrong_code_or_receiver_changes_nothing,
    duplicate_sms_conclude_once_with_one_callback,
    simulated_delivery_faults_do_not_change_the_outcome,
    sender_that_cannot_be_attributed_ends_the_check,
    auto_reply_concludes_checks,
    project_settings_apply_to_checks,
);
