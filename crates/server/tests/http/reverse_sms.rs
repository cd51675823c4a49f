//! Reverse SMS, end to end: a backend creates a check, a handset texts, a callback comes.

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{Answer, Request},
    on_both_stores,
    receiver::Receiver,
    world::{ProjectOf, Tenant, World, eventually},
};

pub const CHECKS: &str = "/v1/number-verification/reverse-sms-checks";
pub const EVEN: &str = "+990123456700";
pub const ODD: &str = "+990123456701";

/// A project that asks about numbers.
pub struct Asker<'a> {
    pub world: &'a World,
    pub project: ProjectOf,
    pub token: String,
}

/// A check, with what its end-user was told.
#[derive(Clone, Debug)]
pub struct Invited {
    pub id: String,
    pub receiver: String,
    pub body: String,
}

impl<'a> Asker<'a> {
    pub async fn new(world: &'a World, body: Value) -> Self {
        let project = world.project("Checks", body).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        Asker { world, project, token }
    }

    pub async fn new_named(world: &'a World, name: &str) -> Self {
        let project = world.project(name, json!({})).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        Asker { world, project, token }
    }

    /// A project that is no business of the others'.
    pub async fn of_another_workspace(world: &'a World) -> Self {
        let other = world.another_tenant().await;
        Asker::of_tenant(world, &other, "Stranger").await
    }

    async fn of_tenant(world: &'a World, tenant: &Tenant, name: &str) -> Self {
        let project = world.project_of(tenant, name, json!({})).await;
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        Asker { world, project, token }
    }

    pub async fn sandbox(world: &'a World) -> Self {
        Asker::new(world, json!({})).await
    }

    pub async fn post(&self, body: Value) -> Answer {
        self.world.send(Request::post(CHECKS).bearer(&self.token).json(&body)).await
    }

    pub async fn create(&self, body: Value) -> Invited {
        let answer = self.post(body).await.assert(201).json();
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        Invited { id: text("check_id"), receiver: text("receiver_phone_number"), body: text("expected_sms_body") }
    }

    pub async fn get(&self, id: &str) -> Answer {
        self.world.send(Request::get(&format!("{CHECKS}/{id}")).bearer(&self.token)).await
    }

    pub async fn list(&self, query: &str) -> Answer {
        self.world.send(Request::get(&format!("{CHECKS}{query}")).bearer(&self.token)).await
    }

    /// A handset sends an SMS through the sandbox operator.
    pub async fn text(&self, from: &str, to: &str, body: &str) {
        self.text_with(json!({"from": from, "to": to, "body": body})).await;
    }

    pub async fn text_with(&self, sms: Value) {
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&self.token).json(&sms);
        self.world.send(request).await.assert(202);
    }

    /// Waits for a status that comes by itself.
    pub async fn ends_as(&self, id: &str, status: &str) -> Value {
        eventually(status, async || self.get(id).await.assert(200).json()["status"] == status).await;
        self.get(id).await.json()
    }
}

async fn the_right_phone_texts_back(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let created = asker
        .post(json!({"phone_number": EVEN, "reference_id": "signup-1", "callback_url": receiver.url("/done?a=%20b")}))
        .await
        .assert(201)
        .json();
    assert_eq!((&created["status"], &created["ttl"]), (&json!("ACCEPTED"), &json!(300)));
    assert_eq!(created["reference_id"], "signup-1");
    let [id, to, body] = ["check_id", "receiver_phone_number", "expected_sms_body"].map(|name| &created[name]);
    assert!(body.as_str().unwrap().starts_with("VERIFY "), "{body}");
    let id = id.as_str().unwrap();

    let open = asker.get(id).await.assert(200).json();
    let keys: Vec<_> = open.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["check_id", "created_at", "reference_id", "status"], "what was told once is not told again");

    asker.text(EVEN, to.as_str().unwrap(), body.as_str().unwrap()).await;
    let ended = asker.ends_as(id, "COMPLETED").await;
    assert_eq!(ended["match"], true);

    let callback = receiver.next().await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    callback.assert_signed_by(&jwks);
    assert_eq!(callback.target, "/done?a=%20b");
    assert_eq!(callback.header("x-service-callback"), "reverse_sms");
    assert_eq!(callback.header("x-service-callback-attempt"), "1");
    assert_eq!(callback.header("content-type"), "application/json");
    assert!(callback.header("user-agent").starts_with("Ringtrue/"));
    assert_eq!(callback.json(), ended, "the callback says what the check says");
}

async fn another_phone_texts_back(world: World) {
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    asker.text("+990777777702", &check.receiver, &check.body).await;
    assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], false);
}

async fn what_people_really_type_is_understood(world: World) {
    let asker = Asker::sandbox(&world).await;
    for (index, dressed) in ["{} ", "re: {}\n--\nSent from my phone", "“{}”", "lower {}"].into_iter().enumerate() {
        let check = asker.create(json!({"phone_number": format!("+9901234567{index}0")})).await;
        let body = dressed.replace("{}", &check.body);
        let body = if index == 3 { body.to_lowercase() } else { body };
        asker.text(&format!("+9901234567{index}0"), &check.receiver, &body).await;
        assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], true, "{dressed}");
    }
}

async fn simulated_numbers_do_as_their_last_digits_say(world: World) {
    let asker = Asker::sandbox(&world).await;
    for (number, status, verdict) in [
        (ODD, "COMPLETED", json!(false)),
        ("+990123456795", "COMPLETED", json!(false)),
        ("+990123456796", "COMPLETED", json!(true)),
        ("+990123456799", "ERROR", Value::Null),
        // Any number of a sandbox project is a simulated one.
        ("+447700900120", "COMPLETED", json!(true)),
    ] {
        let check = asker.create(json!({"phone_number": number})).await;
        asker.text(number, &check.receiver, &check.body).await;
        let ended = asker.ends_as(&check.id, status).await;
        assert_eq!(ended.get("match").unwrap_or(&Value::Null), &verdict, "{number}");
        let code = if status == "ERROR" { json!("internal_error") } else { Value::Null };
        assert_eq!(ended.get("error_code").unwrap_or(&Value::Null), &code, "{number}");
    }
    for (number, status, code) in [
        ("+990123456797", 400, "mno_not_supported"),
        ("+990123456794", 400, "mno_not_supported"),
        ("+990123456793", 503, "lookup_unavailable"),
    ] {
        asker.post(json!({"phone_number": number})).await.assert_problem(status, code);
    }
    let silent = asker.create(json!({"phone_number": "+990123456798"})).await;
    asker.text("+990123456798", &silent.receiver, &silent.body).await;
    world.advance(SignedDuration::from_secs(299));
    assert_ne!(asker.get(&silent.id).await.json()["status"], "EXPIRED");
    world.advance(SignedDuration::from_secs(1));
    assert_eq!(asker.get(&silent.id).await.json()["status"], "EXPIRED");
}

async fn time_ends_a_check_from_the_very_instant(world: World) {
    let asker = Asker::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    world.advance(SignedDuration::from_millis(59_999));
    assert_eq!(asker.get(&check.id).await.json()["status"], "ACCEPTED");
    world.advance(SignedDuration::from_millis(1));
    let expired = asker.get(&check.id).await.assert(200).json();
    assert_eq!(expired["status"], "EXPIRED");
    assert!(expired.get("error_code").is_none(), "{expired}");

    let callback = receiver.next().await.json();
    assert_eq!((&callback["status"], &callback["error_code"]), (&json!("EXPIRED"), &json!("check_expired")));
    assert_eq!(callback["updated_at"], expired["updated_at"]);

    // Too late is too late.
    asker.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(asker.get(&check.id).await.json(), expired);
    assert!(receiver.is_quiet());
}

async fn nobody_asks_and_the_sweeper_ends_it(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    world.advance(SignedDuration::from_secs(300));
    let callback = receiver.next().await.json();
    assert_eq!((&callback["check_id"], &callback["status"]), (&json!(check.id), &json!("EXPIRED")));
}

async fn an_sms_without_the_code_makes_its_check_pending(world: World) {
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    let other = asker.create(json!({"phone_number": "+990123456702"})).await;
    asker.text(EVEN, &check.receiver, "hello?").await;
    let pending = asker.ends_as(&check.id, "PENDING").await;
    assert!(pending.get("updated_at").is_some() && pending.get("match").is_none(), "{pending}");
    assert_eq!(asker.get(&other.id).await.json()["status"], "ACCEPTED", "of another number");

    asker.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], true);
}

async fn a_wrong_code_or_receiver_changes_nothing(world: World) {
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    let wrong_receiver = if check.receiver.ends_with('1') { "+99000000002" } else { "+99000000001" };
    asker.text("+990123456702", &check.receiver, "VERIFY 0000000000").await;
    asker.text(EVEN, wrong_receiver, &check.body).await;
    asker.text(EVEN, "+99055555555", &check.body).await;
    let open = asker.get(&check.id).await.json();
    assert!(["ACCEPTED", "PENDING"].contains(&open["status"].as_str().unwrap()), "{open}");
    assert!(open.get("match").is_none());
}

async fn one_sms_many_times_is_one_end_and_one_callback(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let sms = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"extra_copies": 10}});
    futures_util::future::join_all((0..10).map(|_| asker.text_with(sms.clone()))).await;
    assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], true);
    receiver.next().await;
    // Another check's whole way: whatever else was to come would have come before it.
    let next = asker.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/next")})).await;
    asker.text("+990123456702", &next.receiver, &next.body).await;
    assert_eq!(receiver.next().await.target, "/next");
    assert!(receiver.is_quiet());
}

async fn faults_on_the_way_do_no_harm(world: World) {
    let asker = Asker::sandbox(&world).await;
    for (number, faults, verdict) in [
        ("+990123456710", json!({"parts": 2, "out_of_order": true}), json!(true)),
        ("+990123456712", json!({"link_drops": 1}), json!(true)),
        ("+990123456714", json!({"spoofed_from": "+990123456716"}), json!(false)),
    ] {
        let check = asker.create(json!({"phone_number": number})).await;
        asker.text_with(json!({"from": number, "to": check.receiver, "body": check.body, "faults": faults})).await;
        assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], verdict, "{faults}");
    }
    let check = asker.create(json!({"phone_number": "+990123456718"})).await;
    let garbled = json!({"garbled": true});
    asker
        .text_with(json!({"from": "+990123456718", "to": check.receiver, "body": check.body, "faults": garbled}))
        .await;
    assert!(asker.get(&check.id).await.json().get("match").is_none());
}

async fn a_project_can_ask_for_replies(world: World) {
    let asker = Asker::new(&world, json!({"configuration": {"reverse_sms": {"auto_reply": true}}})).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    assert_eq!(asker.ends_as(&check.id, "COMPLETED").await["match"], true);
}

async fn the_projects_settings_are_used(world: World) {
    let mut receiver = Receiver::start().await;
    let settings = json!({"ttl": 90, "prefix": "ACME", "callback_url": receiver.url("/project")});
    let asker = Asker::new(&world, json!({"configuration": {"reverse_sms": settings}})).await;
    let created = asker.post(json!({"phone_number": EVEN})).await.assert(201).json();
    assert_eq!(created["ttl"], 90);
    assert!(created["expected_sms_body"].as_str().unwrap().starts_with("ACME "));
    let own = asker.create(json!({"phone_number": "+990123456702", "callback_url": receiver.url("/own")})).await;
    asker.text("+990123456702", &own.receiver, &own.body).await;
    assert_eq!(receiver.next().await.target, "/own", "the check's own URL comes first");
    world.advance(SignedDuration::from_secs(90));
    assert_eq!(receiver.next().await.target, "/project");
}

/// Another workspace's sandbox project, which knows everything about a check of ours but cannot reach it.
async fn simulated_sms_reach_checks_of_their_own_project_only(world: World) {
    let ours = Asker::sandbox(&world).await;
    let stranger = Asker::of_another_workspace(&world).await;
    let sibling = Asker::new_named(&world, "Sibling").await;
    let check = ours.create(json!({"phone_number": EVEN})).await;
    for other in [&stranger, &sibling] {
        other.text(EVEN, &check.receiver, "hello").await;
        other.text(EVEN, &check.receiver, &check.body).await;
        other.text(ODD, &check.receiver, &check.body).await;
        let parts = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"parts": 2}});
        other.text_with(parts).await;
        assert_eq!(ours.get(&check.id).await.json()["status"], "ACCEPTED", "not even pending");
    }
    ours.text(EVEN, &check.receiver, "hello").await;
    ours.ends_as(&check.id, "PENDING").await;
    ours.text(EVEN, &check.receiver, &check.body).await;
    assert_eq!(ours.ends_as(&check.id, "COMPLETED").await["match"], true);
}

/// Late SMS and lost links are simulated for the project that asks for them.
async fn simulated_traffic_of_one_project_delays_no_other(world: World) {
    let ours = Asker::sandbox(&world).await;
    let other = world.another_tenant().await;
    let stranger = Asker::of_tenant(&world, &other, "Stranger").await;
    let late = json!({"from": EVEN, "to": "+99000000001", "body": "late", "faults": {"late_seconds": 3600}});
    let send = async || {
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&stranger.token).json(&late);
        world.send(request).await
    };
    let mut taken = 0;
    let full = loop {
        let answer = send().await;
        match answer.status {
            202 => taken += 1,
            429 if answer.text().contains("simulated messages on their way") => break answer,
            429 => world.advance(SignedDuration::from_secs(1)),
            _ => panic!("{answer:?}"),
        }
    };
    assert_eq!(taken, 500, "a project's share");
    full.assert_problem(429, "too_many_requests");

    // The links that it loses are its own too.
    let dropping = json!({"from": EVEN, "to": "+99000000001", "body": "lost", "faults": {"link_drops": 3}});
    let sibling = Asker::of_tenant(&world, &other, "Sibling").await;
    let dropping = (0..4).map(|_| sibling.text_with(dropping.clone()));
    let check = ours.create(json!({"phone_number": EVEN})).await;
    let answered = async {
        ours.text(EVEN, &check.receiver, &check.body).await;
        assert_eq!(ours.ends_as(&check.id, "COMPLETED").await["match"], true);
    };
    join(join_all(dropping), answered).await;
}

on_both_stores!(
    simulated_sms_reach_checks_of_their_own_project_only,
    simulated_traffic_of_one_project_delays_no_other,
    the_right_phone_texts_back,
    another_phone_texts_back,
    what_people_really_type_is_understood,
    simulated_numbers_do_as_their_last_digits_say,
    time_ends_a_check_from_the_very_instant,
    nobody_asks_and_the_sweeper_ends_it,
    an_sms_without_the_code_makes_its_check_pending,
    a_wrong_code_or_receiver_changes_nothing,
    one_sms_many_times_is_one_end_and_one_callback,
    faults_on_the_way_do_no_harm,
    a_project_can_ask_for_replies,
    the_projects_settings_are_used,
);
