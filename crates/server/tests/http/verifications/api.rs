//! Tests verifications end to end: methods, steps, fallback, redemption, SIM Swap, callbacks and lists.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, join_all};
use jiff::SignedDuration;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::Mode,
};
use ringtrue_engine::{
    ports::{
        clock::Clock,
        sms::{Inbox, SmsOutcome},
    },
    verifications::PageState,
};
use ringtrue_test_support::poll_until;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    products::reverse_sms::ReverseSmsClient,
    receiver::Receiver,
    silent::{
        scripted_operator::ScriptedOperator,
        silent_client::{callback, query, redirect_state},
    },
    world::{TestProject, World, send_to},
};

pub const VERIFICATIONS: &str = "/v1/verifications";
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";
/// A sandbox address whose network is unknown, so that its device cannot be verified silently.
const UNSUPPORTED: &str = "192.0.2.7";

/// A project with access tokens for verifications, and for Reverse SMS to simulate SMS.
pub struct VerificationClient<'a> {
    pub world: &'a World,
    pub project: TestProject,
    pub token: String,
    pub sms_token: String,
}

impl<'a> VerificationClient<'a> {
    pub async fn sandbox(world: &'a World) -> Self {
        VerificationClient::configured(world, json!({})).await
    }

    /// Creates a project with these settings of verifications.
    pub async fn configured(world: &'a World, settings: Value) -> Self {
        VerificationClient::new(world, json!({"configuration": {"verification": settings}})).await
    }

    pub async fn new(world: &'a World, body: Value) -> Self {
        VerificationClient::of(world, world.project("Sign-up", body).await).await
    }

    pub async fn of(world: &'a World, project: TestProject) -> Self {
        let token = world.token(&project.client_id, &project.client_secret, "verification").await;
        let sms_token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        VerificationClient { world, project, token, sms_token }
    }

    pub async fn post(&self, body: &Value) -> HttpResponse {
        self.world.send(Request::post(VERIFICATIONS).bearer(&self.token).json(body)).await
    }

    pub async fn create(&self, body: &Value) -> Value {
        self.post(body).await.assert(201).json()
    }

    pub async fn read(&self, id: &str) -> HttpResponse {
        self.world.send(Request::get(&path(id)).bearer(&self.token)).await
    }

    pub async fn get(&self, id: &str) -> Value {
        self.read(id).await.assert(200).json()
    }

    pub fn next_request(&self, id: &str) -> Request {
        Request::post(&format!("{}/next", path(id))).bearer(&self.token)
    }

    pub async fn next(&self, id: &str) -> HttpResponse {
        self.world.send(self.next_request(id)).await
    }

    pub async fn redeem(&self, id: &str, code: &str) -> HttpResponse {
        self.world.send(Request::post(&path(id)).bearer(&self.token).json(&json!({"code": code}))).await
    }

    pub async fn list(&self, query: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{VERIFICATIONS}{query}")).bearer(&self.token)).await
    }

    /// Opens the URL of a Secure SNA step on the device.
    pub async fn open(&self, verification: &Value, sim: &str) -> HttpResponse {
        let url = verification["next_step"]["url"].as_str().unwrap_or_else(|| panic!("no URL: {verification}"));
        let target = url.strip_prefix(&self.world.node.base_url).expect("our own address");
        self.world.send(Request::get(&format!("{target}&sim={}", sim.replace('+', "%2B")))).await
    }

    /// Runs the redirect chain of the scripted operator and returns the code.
    pub async fn complete_redirect(&self, verification: &Value, sim: &str) -> String {
        let state = redirect_state(&self.open(verification, sim).await);
        let end = self.world.send(Request::get(&callback(&state))).await.assert(200).json();
        text(&end, "code").to_owned()
    }

    /// Sends the SMS that a Reverse SMS step asks for.
    pub async fn send_sms(&self, verification: &Value, from: &str) {
        let step = &verification["next_step"];
        assert_eq!(step["method"], "reverse_sms", "{verification}");
        let sms = json!({"from": from, "to": step["receiver_phone_number"], "body": step["expected_sms_body"]});
        let request = Request::post("/v1/sandbox/inbound-sms").bearer(&self.sms_token).json(&sms);
        self.world.send(request).await.assert(202);
        self.world.wait_for_sms().await;
    }

    /// Waits for the end of a verification. Its SIM Swap query to the operator is not part of any request, so the
    /// end has to be polled.
    pub async fn wait_for_end(&self, id: &str) -> Value {
        let mut read = Value::Null;
        poll_until("the verification is concluded", async || {
            read = self.get(id).await;
            !is_open(&read)
        })
        .await;
        read
    }
}

pub fn path(id: &str) -> String {
    format!("{VERIFICATIONS}/{id}")
}

#[track_caller]
pub fn text<'v>(body: &'v Value, name: &str) -> &'v str {
    body[name].as_str().unwrap_or_else(|| panic!("no {name}: {body}"))
}

pub fn id(verification: &Value) -> &str {
    text(verification, "verification_id")
}

pub fn is_open(verification: &Value) -> bool {
    ["ACCEPTED", "PENDING"].contains(&text(verification, "status"))
}

/// Returns method, status and error code of each step.
pub fn steps(verification: &Value) -> Vec<(&str, &str, &str)> {
    let steps = verification["steps"].as_array().unwrap().iter();
    steps.map(|step| (text(step, "method"), text(step, "status"), step["error_code"].as_str().unwrap_or(""))).collect()
}

#[track_caller]
pub fn assert_completed(verification: &Value, matched: bool, method: &str) {
    let [status, found, by] = ["status", "match", "method"].map(|name| &verification[name]);
    assert_eq!((status, found, by), (&json!("COMPLETED"), &json!(matched), &json!(method)), "{verification}");
}

fn keys(body: &Value) -> BTreeSet<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn silent_match_completes_the_verification(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let body = json!({"phone_number": EVEN, "reference_id": "signup-1", "callback_url": receiver.url("/done")});
    let created = client.create(&body).await;
    let expected = BTreeSet::from([
        "created_at",
        "expires_at",
        "methods",
        "next_step",
        "reference_id",
        "status",
        "ttl",
        "url",
        "verification_id",
    ]);
    assert_eq!(keys(&created), expected);
    assert_eq!((&created["status"], &created["ttl"]), (&json!("ACCEPTED"), &json!(600)));
    assert_eq!(created["methods"], json!(["secure_sna", "reverse_sms"]));
    let page = text(&created, "url").strip_prefix(&format!("{}/v/", world.node.base_url)).expect("the hosted page");
    assert_eq!(page.len(), 43, "the id and 128 bits");
    assert_eq!(keys(&created["next_step"]), ["method", "url"].into());

    let open = client.get(id(&created)).await;
    assert_eq!(open["next_step"], created["next_step"], "read as often as needed");
    assert_eq!(steps(&open), [("secure_sna", "ACCEPTED", "")]);
    assert_eq!(open["expires_at"], created["expires_at"]);

    let code = client.complete_redirect(&created, EVEN).await;
    let pending = client.get(id(&created)).await;
    assert!(is_open(&pending), "the verdict is not disclosed before the code is redeemed");
    assert_eq!(steps(&pending), [("secure_sna", "PENDING", "")], "the status of the check");
    let listed = client.list("").await.assert(200).json();
    assert_eq!(steps(&listed["content"][0]), [("secure_sna", "PENDING", "")]);
    assert!(receiver.is_quiet());
    let first = client.redeem(id(&created), &code).await.assert(200);
    assert_eq!(first.header("idempotent-replayed"), None);
    let redeemed = first.json();
    assert_completed(&redeemed, true, "secure_sna");
    assert_eq!(steps(&redeemed), [("secure_sna", "COMPLETED", "")]);
    assert_eq!((redeemed.get("next_step"), redeemed.get("url")), (None, None));
    assert_eq!(client.get(id(&created)).await, redeemed);

    let callback = receiver.next().await;
    callback.assert_signed_by(&world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json());
    assert_eq!(callback.header("x-service-callback"), "verification");
    assert_eq!(callback.json(), redeemed, "the callback matches the verification");
    // If the shop's page is reloaded, its backend redeems the code again. That succeeds, even much later.
    world.advance(SignedDuration::from_mins(50));
    for _ in 0..2 {
        let again = client.redeem(id(&created), &code).await.assert(200);
        assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), redeemed.clone()));
    }
    client.redeem(id(&created), "any other").await.assert_problem(400, "code_invalid");

    // The check of a step can be read like any other check.
    let token = world.token(&client.project.client_id, &client.project.client_secret, "secure_sna").await;
    let step = format!("/v1/number-verification/secure-sna-checks/{}", text(&redeemed["steps"][0], "check_id"));
    let check = world.send(Request::get(&step).bearer(&token)).await.assert(200).json();
    assert_eq!((&check["status"], &check["match"]), (&json!("COMPLETED"), &json!(true)));
    assert_eq!(check.get("verification_id"), None, "only the verification has the link");
}

async fn device_without_mobile_data_falls_back_to_sms(world: World) {
    let urls = json!({"callback_url": "https://example.com/never"});
    let configuration = json!({"reverse_sms": urls, "secure_sna": urls});
    let client = VerificationClient::new(&world, json!({"configuration": configuration})).await;
    let mut receiver = Receiver::start().await;
    let body = json!({"phone_number": EVEN, "device_ip": UNSUPPORTED, "callback_url": receiver.url("/")});
    let created = client.create(&body).await;
    client.open(&created, EVEN).await.assert_problem(400, "mno_not_supported");

    let fallback = client.get(id(&created)).await;
    assert_eq!(fallback["status"], "PENDING");
    assert_eq!(steps(&fallback), [("secure_sna", "ERROR", "mno_not_supported"), ("reverse_sms", "ACCEPTED", "")]);
    let step = &fallback["next_step"];
    let (receiver_number, body) = (text(step, "receiver_phone_number"), text(step, "expected_sms_body"));
    assert_eq!(text(step, "sms_link"), format!("sms:{receiver_number}?&body={}", body.replace(' ', "%20")));
    assert_eq!(fallback["url"], created["url"]);
    client.open(&created, EVEN).await.assert_problem(409, "check_already_completed");

    client.send_sms(&fallback, EVEN).await;
    let completed = client.get(id(&created)).await;
    assert_completed(&completed, true, "reverse_sms");
    assert_eq!(receiver.next().await.json(), completed);
    world.wait_for_callback_results().await;
    assert!(receiver.is_quiet(), "steps have no callbacks");
    let history = client.list("?search=status==COMPLETED").await.assert(200).json();
    assert_eq!(history["content"], json!([completed]));
}

/// Uses the sandbox operator instead of the scripted one.
async fn sandbox_numbers_decide_the_result(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    for (number, matched) in [(EVEN, true), (ODD, false)] {
        let created = client.create(&json!({"phone_number": number})).await;
        let mut response = client.open(&created, number).await;
        while response.status == 302 {
            let target = response.header("location").unwrap().strip_prefix(&world.node.base_url).expect("our address");
            response = world.send(Request::get(target)).await;
        }
        let end = response.assert(200).json();
        let redeemed = client.redeem(id(&created), text(&end, "code")).await.assert(200).json();
        assert_completed(&redeemed, matched, "secure_sna");
    }
}

async fn mismatch_ends_the_verification_unless_configured_otherwise(world: World) {
    ScriptedOperator::of(&world);
    let other = "+990777777702";
    let client = VerificationClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let code = client.complete_redirect(&created, other).await;
    let wrong = client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
    assert!(wrong.detail().contains("2 attempts remain"), "{}", wrong.detail());
    let redeemed = client.redeem(id(&created), &code).await.assert(200).json();
    assert_completed(&redeemed, false, "secure_sna");
    assert_eq!((redeemed.get("next_step"), redeemed.get("url")), (None, None));
    assert_eq!(receiver.next().await.json(), redeemed);
    let again = client.redeem(id(&created), &code).await.assert(200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), redeemed));
    client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
    world.wait_for_callback_results().await;
    assert!(receiver.is_quiet());

    let project =
        world.project("Falls back", json!({"configuration": {"verification": {"fall_back_on_mismatch": true}}})).await;
    let client = VerificationClient::of(&world, project).await;
    for (from, matched) in [(EVEN, true), (other, false)] {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let code = client.complete_redirect(&created, other).await;
        let redeemed = client.redeem(id(&created), &code).await.assert(200).json();
        assert_eq!(redeemed["status"], "PENDING", "{redeemed}");
        assert_eq!(redeemed["steps"][0]["match"], false);
        // Redeeming the same code again changes nothing. Any other code is wrong.
        let again = client.redeem(id(&created), &code).await.assert(200);
        assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), redeemed.clone()));
        client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
        client.send_sms(&redeemed, from).await;
        if !matched {
            // The first SMS came from another number, so it is sent once more.
            let open = client.get(id(&created)).await;
            assert_eq!(open.get("match"), None, "{open}");
            client.send_sms(&open, from).await;
        }
        assert_completed(&client.get(id(&created)).await, matched, "reverse_sms");
        // The Secure SNA mismatch did not conclude the verification, so its code is no longer valid.
        client.redeem(id(&created), &code).await.assert_problem(400, "code_invalid");
    }
    // The Secure SNA mismatch does not conclude the verification. As no other method is left, the verification fails.
    let created = client.create(&json!({"phone_number": EVEN, "methods": ["secure_sna"]})).await;
    let code = client.complete_redirect(&created, other).await;
    let ended = client.redeem(id(&created), &code).await.assert(200).json();
    assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!("methods_exhausted")), "{ended}");
    assert_eq!((&ended["steps"][0]["match"], ended.get("match")), (&json!(false), None), "{ended}");
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let code = client.complete_redirect(&created, other).await;
    client.redeem(id(&created), &code).await.assert(200);
    let ended = client.next(id(&created)).await.assert(200).json();
    assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!("methods_exhausted")), "{ended}");
    assert_eq!(steps(&ended), [("secure_sna", "COMPLETED", ""), ("reverse_sms", "ERROR", "given_up")]);
}

async fn methods_follow_the_request_then_the_project_then_eligibility(world: World) {
    let both = json!(["secure_sna", "reverse_sms"]);
    let reversed = json!(["reverse_sms", "secure_sna"]);
    let [silent, sms] = [json!(["secure_sna"]), json!(["reverse_sms"])];
    let client = VerificationClient::sandbox(&world).await;
    let project = world.project("SMS first", json!({"configuration": {"verification": {"methods": reversed}}})).await;
    let sms_first = VerificationClient::of(&world, project).await;
    let project = world.project("SMS only", json!({"products": ["verification", "reverse_sms"]})).await;
    let sms_only = VerificationClient::of(&world, project).await;
    for (client, number, wanted, methods) in [
        (&client, EVEN, None, &both),
        (&client, EVEN, Some(&reversed), &reversed),
        (&client, EVEN, Some(&sms), &sms),
        (&client, EVEN, Some(&silent), &silent),
        (&client, "+990123456796", None, &sms),
        (&client, "+990123456796", Some(&reversed), &sms),
        (&sms_first, EVEN, None, &reversed),
        (&sms_first, EVEN, Some(&both), &both),
        (&sms_only, EVEN, None, &sms),
    ] {
        let mut body = json!({"phone_number": number});
        if let Some(wanted) = wanted {
            body["methods"] = wanted.clone();
        }
        let created = client.create(&body).await;
        assert_eq!(&created["methods"], methods, "{body}");
        assert_eq!(created["next_step"]["method"], methods[0]);
    }
    for (client, number, wanted) in [
        (&client, "+990123456796", json!(["secure_sna"])),
        (&client, "+990123456797", json!(["secure_sna", "reverse_sms"])),
        (&client, "+990123456794", Value::Null),
        (&sms_only, EVEN, json!(["secure_sna"])),
    ] {
        let body = json!({"phone_number": number, "methods": wanted});
        client.post(&body).await.assert_problem(400, "mno_not_supported");
    }
    let unavailable = client.post(&json!({"phone_number": "+990123456793"})).await;
    unavailable.assert_problem(503, "lookup_unavailable");
}

async fn invalid_requests_are_rejected(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    for (body, code, culprit) in [
        (json!({}), "bad_request", "/phone_number"),
        (json!({"phone_number": EVEN, "methods": []}), "bad_request", "/methods"),
        (json!({"phone_number": EVEN, "methods": "secure_sna"}), "bad_request", "/methods"),
        (json!({"phone_number": EVEN, "methods": ["sim_swap"]}), "bad_request", "/methods/0"),
        (json!({"phone_number": EVEN, "methods": ["secure_sna", "secure_sna"]}), "bad_request", "/methods/1"),
        (json!({"phone_number": EVEN, "ttl": 60}), "bad_request", "/ttl"),
        (json!({"phone_number": EVEN, "locale": "en_GB"}), "bad_request", "/locale"),
        (json!({"phone_number": "07700 900123", "country": "gb"}), "bad_request", "/country"),
        (json!({"phone_number": "07700 900123"}), "phone_number_invalid", "/phone_number"),
        (json!({"phone_number": "07", "country": "GB"}), "phone_number_invalid", "/phone_number"),
        (json!({"phone_number": EVEN, "sim_swap_period": 59}), "period_invalid", "/sim_swap_period"),
        (json!({"phone_number": EVEN, "sim_swap_period": 540_001}), "period_invalid", "/sim_swap_period"),
        (json!({"phone_number": EVEN, "sim_swap_period": 60.5}), "period_invalid", "/sim_swap_period"),
        (json!({"phone_number": EVEN, "sim_swap_period": "60"}), "bad_request", "/sim_swap_period"),
        (json!({"phone_number": "990123456700"}), "phone_number_invalid", "/phone_number"),
        (json!({"phone_number": EVEN, "device_ip": "localhost"}), "ip_invalid", "/device_ip"),
        (json!({"phone_number": EVEN, "callback_url": "ftp://a.example"}), "callback_url_invalid", "/callback_url"),
        (json!({"phone_number": EVEN, "redirect_url": "a.example"}), "redirect_url_invalid", "/redirect_url"),
        (
            json!({"phone_number": EVEN, "redirect_url": "https://a.example/?verification_id=1"}),
            "redirect_url_invalid",
            "/redirect_url",
        ),
    ] {
        let problem = client.post(&body).await.assert_problem(400, code);
        assert!(problem.detail().contains(culprit), "{body}: {}", problem.detail());
    }
    let created = client.create(&json!({"phone_number": EVEN, "methods": null, "sim_swap_period": null})).await;
    for (body, culprit) in [(json!({}), "/code"), (json!({"code": "a", "b": 1}), "/b")] {
        let request = Request::post(&path(id(&created))).bearer(&client.token).json(&body);
        let problem = world.send(request).await.assert_problem(400, "bad_request");
        assert!(problem.detail().contains(culprit), "{}", problem.detail());
    }
    for (body, culprit) in
        [(json!({"method": "sim_swap"}), "/method"), (json!({"step": 1}), "/step"), (json!([]), "``")]
    {
        let problem =
            world.send(client.next_request(id(&created)).json(&body)).await.assert_problem(400, "bad_request");
        assert!(problem.detail().contains(culprit), "{}", problem.detail());
    }
    client.read("1").await.assert_problem(400, "bad_request");
    client.list("?search=phone_number==1").await.assert_problem(400, "search_invalid");
}

/// The user does nothing in any step, so each step ends at its time limit.
async fn silence_expires_the_steps_and_the_verification(world: World) {
    let number = "+990123456798";
    for (ttl, waits, status, code, expected) in [
        // The verification expires before the first step's time limit of 120 seconds.
        (60, &[60][..], "EXPIRED", "check_expired", &[("secure_sna", "EXPIRED", "check_expired")][..]),
        (
            200,
            &[120, 80],
            "EXPIRED",
            "check_expired",
            &[("secure_sna", "EXPIRED", "check_expired"), ("reverse_sms", "EXPIRED", "check_expired")],
        ),
        // The time limit of Reverse SMS is 300 seconds.
        (
            600,
            &[120, 300],
            "ERROR",
            "methods_exhausted",
            &[("secure_sna", "EXPIRED", "check_expired"), ("reverse_sms", "EXPIRED", "check_expired")],
        ),
    ] {
        let settings = json!({"configuration": {"verification": {"ttl": ttl}}});
        let client =
            VerificationClient::of(&world, world.project(&format!("ReverseSmsTtl {ttl}"), settings).await).await;
        let mut receiver = Receiver::start().await;
        let created = client.create(&json!({"phone_number": number, "callback_url": receiver.url("/")})).await;
        assert_eq!(created["ttl"], ttl);
        let (last, earlier) = waits.split_last().unwrap();
        for wait in earlier {
            world.advance(SignedDuration::from_secs(*wait));
            let fallback = client.get(id(&created)).await;
            assert_eq!(fallback["next_step"]["method"], "reverse_sms", "{fallback}");
            client.send_sms(&fallback, number).await;
        }
        world.advance(SignedDuration::from_millis(last * 1000 - 1));
        assert!(is_open(&client.get(id(&created)).await));
        world.advance(SignedDuration::from_millis(1));
        let ended = client.get(id(&created)).await;
        assert_eq!((text(&ended, "status"), text(&ended, "error_code")), (status, code), "{ended}");
        assert_eq!(steps(&ended), expected);
        assert_eq!(receiver.next().await.json(), ended);
        let found = client.list(&format!("?search=error_code=={code}")).await.assert(200).json();
        assert_eq!(found["content"], json!([ended]), "found by the code that the resource shows");
        let late = client.next(id(&created)).await;
        if status == "EXPIRED" {
            late.assert_problem(410, "check_expired");
        } else {
            late.assert_problem(409, "check_already_completed");
        }
    }
}

async fn steps_are_given_up_until_none_is_left(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let next = client.next(id(&created)).await.assert(200).json();
    assert_eq!((&next["status"], &next["next_step"]["method"]), (&json!("PENDING"), &json!("reverse_sms")));
    assert_eq!(steps(&next), [("secure_sna", "ERROR", "given_up"), ("reverse_sms", "ACCEPTED", "")]);
    client.redeem(id(&created), "any").await.assert_problem(400, "code_invalid");

    world.advance(SignedDuration::from_secs(1));
    let ended = client.next(id(&created)).await.assert(200).json();
    assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!("methods_exhausted")));
    assert_eq!(steps(&ended), [("secure_sna", "ERROR", "given_up"), ("reverse_sms", "ERROR", "given_up")]);
    assert_eq!(receiver.next().await.json(), ended);
    assert_eq!(client.next(id(&created)).await.assert(200).json(), ended, "a repetition");
    world.advance(SignedDuration::from_secs(1));
    client.next(id(&created)).await.assert_problem(409, "check_already_completed");
    client.redeem(id(&created), "any").await.assert_problem(409, "check_already_completed");
    assert_eq!(client.get(id(&created)).await, ended, "the end is final");
}

async fn third_wrong_code_leads_to_the_next_method(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    client.redeem(id(&created), "early").await.assert_problem(409, "check_not_ready");
    client.complete_redirect(&created, EVEN).await;
    for _ in 0..3 {
        client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
    }
    let fallback = client.get(id(&created)).await;
    assert_eq!(steps(&fallback)[0], ("secure_sna", "ERROR", "code_attempts_exceeded"));
    client.send_sms(&fallback, EVEN).await;
    assert_completed(&client.get(id(&created)).await, true, "reverse_sms");
}

async fn match_is_followed_by_the_sim_swap_query(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    for (suffix, no_sim_change, step) in [
        ("00", Some(true), ("sim_swap", "COMPLETED", "")),
        ("01", Some(false), ("sim_swap", "COMPLETED", "")),
        ("95", None, ("sim_swap", "ERROR", "mno_timeout")),
        ("99", None, ("sim_swap", "ERROR", "mno_server_error")),
    ] {
        let mut receiver = Receiver::start().await;
        let number = format!("+9901234567{suffix}");
        let body = json!({"phone_number": number, "sim_swap_period": 10_080, "callback_url": receiver.url("/")});
        let created = client.create(&body).await;
        let code = client.complete_redirect(&created, &number).await;
        let redeemed = client.redeem(id(&created), &code).await.assert(200).json();
        assert!(!is_open(&redeemed) || redeemed.get("next_step").is_none(), "{redeemed}");
        let ended = client.wait_for_end(id(&created)).await;
        assert_completed(&ended, true, "secure_sna");
        assert_eq!(ended.get("no_sim_change"), no_sim_change.map(Value::from).as_ref(), "{ended}");
        assert_eq!(steps(&ended), [("secure_sna", "COMPLETED", ""), step]);
        assert_eq!(receiver.next().await.json(), ended);
    }
    for (search, count) in [("no_sim_change==true", 1), ("no_sim_change==false", 1), ("no_sim_change!=true", 3)] {
        let found = client.list(&format!("?search={search}")).await.assert(200).json();
        assert_eq!(found["page"]["total_elements"], count, "{search}");
    }
    // The project does not have the product SIM Swap, so the operator is not asked.
    let products = json!({"products": ["verification", "secure_sna", "reverse_sms"]});
    let without = VerificationClient::of(&world, world.project("Without SIM Swap", products).await).await;
    let created = without.create(&json!({"phone_number": EVEN, "sim_swap_period": 60})).await;
    let code = without.complete_redirect(&created, EVEN).await;
    without.redeem(id(&created), &code).await.assert(200);
    let ended = without.wait_for_end(id(&created)).await;
    assert_completed(&ended, true, "secure_sna");
    assert_eq!(steps(&ended).last(), Some(&("sim_swap", "ERROR", "mno_not_supported")));
    // Without a match, the operator is not asked about a SIM swap.
    let created = client.create(&json!({"phone_number": EVEN, "sim_swap_period": 60})).await;
    let code = client.complete_redirect(&created, "+990777777702").await;
    let redeemed = client.redeem(id(&created), &code).await.assert(200).json();
    assert_completed(&redeemed, false, "secure_sna");
    assert_eq!(redeemed["steps"].as_array().unwrap().len(), 1);
}

async fn repeated_key_returns_the_first_verification(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let keyed = |number: &str| {
        let body = json!({"phone_number": number});
        Request::post(VERIFICATIONS).bearer(&client.token).header("Idempotency-Key", "signup-1").json(&body)
    };
    let first = world.send(keyed(EVEN)).await.assert(201);
    let second = world.send(keyed(EVEN)).await.assert(201);
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(second.body, first.body);
    world.send(keyed(ODD)).await.assert_problem(422, "idempotency_key_reused");
    assert_eq!(client.list("").await.assert(200).json()["page"]["total_elements"], 1);
}

async fn verifications_belong_to_their_project(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let id = id(&created);
    let tenant = world.another_tenant().await;
    for project in [world.project("Other", json!({})).await, world.project_of(&tenant, "Foreign", json!({})).await] {
        let stranger = VerificationClient::of(&world, project).await;
        stranger.read(id).await.assert_problem(403, "forbidden");
        stranger.next(id).await.assert_problem(403, "forbidden");
        let cancel = Request::post(&format!("{}/cancel", path(id))).bearer(&stranger.token);
        world.send(cancel).await.assert_problem(403, "forbidden");
        stranger.redeem(id, "code").await.assert_problem(403, "forbidden");
        let resend = Request::post(&format!("{}/callback-resends", path(id))).bearer(&stranger.token);
        world.send(resend).await.assert_problem(403, "forbidden");
        assert_eq!(stranger.list("").await.assert(200).json()["content"], json!([]));
    }
    let wrong_scope = Request::get(&path(id)).bearer(&client.sms_token);
    let refused = world.send(wrong_scope).await.assert_problem(403, "forbidden");
    assert!(refused.header("www-authenticate").unwrap().contains(r#"scope="verification""#));
    let unknown = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b";
    client.read(unknown).await.assert_problem(404, "check_not_found");
    client.next(unknown).await.assert_problem(404, "check_not_found");
    client.redeem(unknown, "code").await.assert_problem(404, "check_not_found");
    // The id of a step's check does not identify a verification, and vice versa.
    let step = text(&client.get(id).await["steps"][0], "check_id").to_owned();
    client.read(&step).await.assert_problem(404, "check_not_found");
    let token = world.token(&client.project.client_id, &client.project.client_secret, "secure_sna").await;
    let check = Request::get(&format!("/v1/number-verification/secure-sna-checks/{id}")).bearer(&token);
    world.send(check).await.assert_problem(404, "check_not_found");

    let without = world.project("Without", json!({"products": ["reverse_sms", "secure_sna"]})).await;
    let refused = world.token_request(&without.client_id, &without.client_secret, "verification").await;
    refused.assert_problem(400, "invalid_scope");
}

async fn lists_are_filtered(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let by_sna = client.create(&json!({"phone_number": EVEN, "reference_id": "order-1"})).await;
    let code = client.complete_redirect(&by_sna, EVEN).await;
    let by_sna = client.redeem(id(&by_sna), &code).await.assert(200).json();
    world.advance(SignedDuration::from_secs(10));
    let by_sms = json!({"phone_number": EVEN, "reference_id": "order-2", "methods": ["reverse_sms"]});
    let by_sms = client.create(&by_sms).await;
    client.send_sms(&by_sms, "+990777777702").await;
    client.send_sms(&client.get(id(&by_sms)).await, "+990777777702").await;
    let by_sms = client.get(id(&by_sms)).await;
    assert_completed(&by_sms, false, "reverse_sms");
    world.advance(SignedDuration::from_secs(10));
    let open = client.create(&json!({"phone_number": EVEN, "reference_id": "order-3"})).await;
    world.advance(SignedDuration::from_secs(10));
    let failed = client.create(&json!({"phone_number": EVEN, "methods": ["reverse_sms"]})).await;
    let failed = client.next(id(&failed)).await.assert(200).json();

    let by_time = format!("created_at=gt={}", text(&by_sna, "created_at"));
    for (search, expected) in [
        ("", &[&failed, &open, &by_sms, &by_sna][..]),
        ("status==COMPLETED", &[&by_sms, &by_sna]),
        ("status=in=(ACCEPTED,PENDING)", &[&open]),
        ("verified==true", &[&by_sna]),
        ("verified==false", &[&by_sms]),
        ("method==secure_sna", &[&by_sna]),
        ("method==reverse_sms;verified==false", &[&by_sms]),
        ("method=in=(secure_sna,reverse_sms)", &[&by_sms, &by_sna]),
        ("reference_id==order-1", &[&by_sna]),
        ("reference_id==order-*", &[&open, &by_sms, &by_sna]),
        ("error_code==methods_exhausted", &[&failed]),
        (&by_time, &[&failed, &open, &by_sms]),
    ] {
        let encoded: String = byte_serialize(search.as_bytes()).collect();
        let query = if search.is_empty() { String::new() } else { format!("?search={encoded}") };
        let page = client.list(&query).await.assert(200).json();
        let found: Vec<_> = page["content"].as_array().unwrap().iter().map(id).collect();
        assert_eq!(found, expected.iter().map(|one| id(one)).collect::<Vec<_>>(), "{search}");
        assert_eq!(page["page"]["total_elements"], expected.len(), "{search}");
    }
    let page = client.list("?search=status==COMPLETED&size=1&page=2").await.assert(200).json();
    assert_eq!(page["content"], json!([by_sna]), "an item equals the resource");
    let listed = client.list("?search=reference_id==order-3").await.assert(200).json();
    let listed = &listed["content"][0];
    assert_eq!((listed.get("next_step"), listed.get("url")), (None, None), "{listed}");
    let problem = client.list("?search=method==sim_swap").await.assert_problem(400, "search_invalid");
    assert!(problem.detail().contains("secure_sna"), "{}", problem.detail());
}

async fn concurrent_requests_start_one_step(world: World) {
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    // The device of this verification fails the step while the backend gives up the same step.
    let failing = client.create(&json!({"phone_number": EVEN, "device_ip": UNSUPPORTED})).await;
    let (nexts, opened) = join(
        join(
            send_to(world.node.address, client.next_request(id(&created))),
            send_to(second.address, client.next_request(id(&created))),
        ),
        join(client.open(&failing, EVEN), client.next(id(&failing))),
    )
    .await;
    for response in [&nexts.0, &nexts.1] {
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert!([400, 409].contains(&opened.0.status), "{}", opened.0.text());
    for verification in [&created, &failing] {
        let now = client.get(id(verification)).await;
        let methods: Vec<_> = steps(&now).into_iter().map(|(method, ..)| method).collect();
        assert_eq!(methods, ["secure_sna", "reverse_sms"], "{now}");
    }
    let checks = ReverseSmsClient { world: &world, project: client.project.clone(), token: client.sms_token.clone() };
    assert_eq!(checks.list("").await.assert(200).json()["page"]["total_elements"], 2, "one check for each");
    let now = client.get(id(&created)).await;
    if is_open(&now) {
        client.send_sms(&now, EVEN).await;
    }
    assert_eq!(receiver.next().await.json(), client.get(id(&created)).await);
    assert!(receiver.is_quiet());
}

/// An SMS received in the last millisecond before the deadline is processed while other requests observe the expiry.
async fn sms_at_the_deadline_ends_the_verification_once(world: World) {
    let second = world.second_node().await;
    let settings = json!({"methods": ["reverse_sms"], "ttl": 60});
    let client = VerificationClient::configured(&world, settings).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    for round in 0..10 {
        let number = Msisdn::parse(&format!("+99012345{round:02}00"), Mode::Sandbox).unwrap();
        let body = json!({"phone_number": number.as_str(), "callback_url": receiver.url("/")});
        let created = client.create(&body).await;
        let step = &created["next_step"];
        world.advance(SignedDuration::from_millis(59_999));
        let sms = InboundSms {
            environment: SmsEnvironment::Sandbox(client.project.project_id.parse().unwrap()),
            connector: "sandbox".into(),
            from: SmsSender::Number(number),
            to: Msisdn::parse(text(step, "receiver_phone_number"), Mode::Sandbox).unwrap(),
            text: text(step, "expected_sms_body").to_owned(),
            received_at: world.clock.now(),
        };
        world.advance(SignedDuration::from_millis(1));
        let read = Request::get(&path(id(&created))).bearer(&client.token);
        let reads = join_all([world.node.address, second.address].map(|node| send_to(node, read.clone())));
        let (one, other) = (&world.node.engine, &second.engine);
        let (first, swept, again, reads) =
            tokio::join!(one.checks.receive(sms.clone()), other.checks.sweep(), other.checks.receive(sms), reads);
        swept.unwrap();
        let ended = client.get(id(&created)).await;
        let decisive = [first.unwrap(), again.unwrap()].iter().filter(|it| **it == SmsOutcome::Concluded).count();
        assert_eq!(decisive, usize::from(ended["status"] == "COMPLETED"), "{ended}");
        for read in reads {
            assert_eq!(read.assert(200).json(), ended, "both nodes return the same");
        }
        assert_eq!(receiver.next().await.json(), ended);
    }
    assert!(receiver.is_quiet());
}

/// The hosted page adds this code to the redirect URL when it sends the browser back to the shop.
async fn completion_code_can_be_redeemed_again(world: World) {
    let client = VerificationClient::configured(&world, json!({"methods": ["reverse_sms"]})).await;
    let redirect_url = "https://shop.example/back?cart=7";
    let body = json!({"phone_number": EVEN, "redirect_url": redirect_url, "reference_id": "signup-1"});
    let created = client.create(&body).await;
    let token = text(&created, "url").rsplit('/').next().unwrap();
    client.send_sms(&created, EVEN).await;
    let completed = client.get(id(&created)).await;
    assert_completed(&completed, true, "reverse_sms");

    let page = world.node.engine.verifications.page(token, &[]).await.unwrap().expect("the page of the verification");
    let PageState::Done { matched: true, return_to: Some(url), .. } = page.state else { panic!("{page:?}") };
    assert!(url.starts_with(redirect_url), "the URL is kept");
    let parameters: BTreeMap<_, _> = query(&url).into_iter().collect();
    assert_eq!(
        (parameters["verification_id"].as_str(), parameters["reference_id"].as_str()),
        (id(&created), "signup-1")
    );
    let code = &parameters["code"];
    for _ in 0..4 {
        client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
    }
    let (one, other) = join(client.redeem(id(&created), code), client.redeem(id(&created), code)).await;
    let responses = [one, other].map(|response| response.assert(200));
    let replayed = responses.iter().filter(|response| response.header("idempotent-replayed") == Some("true"));
    assert_eq!(replayed.count(), 1, "one of them is the first");
    assert!(responses.iter().all(|response| response.json() == completed));
    let again = client.redeem(id(&created), code).await.assert(200);
    assert_eq!((again.header("idempotent-replayed"), again.json()), (Some("true"), completed));
    client.redeem(id(&created), "wrong").await.assert_problem(400, "code_invalid");
    // The code of one verification is invalid for another.
    let created = client.create(&json!({"phone_number": EVEN})).await;
    client.send_sms(&created, EVEN).await;
    client.redeem(id(&created), code).await.assert_problem(400, "code_invalid");
}

/// With the setting `auto_reply`, the simulated user also sends the SMS of a verification's step.
async fn automatic_replies_end_a_step(world: World) {
    let client = VerificationClient::new(&world, json!({"configuration": {"reverse_sms": {"auto_reply": true}}})).await;
    let first_step = client.create(&json!({"phone_number": EVEN, "methods": ["reverse_sms"]})).await;
    let second_step = client.create(&json!({"phone_number": EVEN})).await;
    client.next(id(&second_step)).await.assert(200);
    let mismatch = client.create(&json!({"phone_number": ODD, "methods": ["reverse_sms"]})).await;
    for (created, matched) in [(&first_step, true), (&second_step, true), (&mismatch, false)] {
        assert_completed(&client.wait_for_end(id(created)).await, matched, "reverse_sms");
    }
}

/// The verification is `PENDING` as soon as the user has acted on one of its steps.
async fn verification_is_pending_with_its_step(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    assert_eq!(client.get(id(&created)).await["status"], "ACCEPTED");
    client.open(&created, EVEN).await.assert(302);
    assert_eq!(client.get(id(&created)).await["status"], "PENDING");
    let created = client.create(&json!({"phone_number": EVEN, "methods": ["reverse_sms"]})).await;
    let mut without_code = created.clone();
    without_code["next_step"]["expected_sms_body"] = json!("hello");
    client.send_sms(&without_code, EVEN).await;
    let pending = client.get(id(&created)).await;
    assert_eq!((&pending["status"], &pending["next_step"]), (&json!("PENDING"), &created["next_step"]));
    assert_eq!(client.list("?search=status==PENDING").await.assert(200).json()["page"]["total_elements"], 2);
    client.send_sms(&created, EVEN).await;
    assert_completed(&client.get(id(&created)).await, true, "reverse_sms");
}

/// Two devices open the link at the same time, and the backend gives up the step with `next` during the redirect chain.
async fn two_devices_and_next_during_the_chain_end_a_step_once(world: World) {
    ScriptedOperator::of(&world);
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    for round in 0..4 {
        let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
        let (one, other) = join(client.open(&created, EVEN), client.open(&created, EVEN)).await;
        // The later device replaces the `state` of the earlier one.
        let states = [&one, &other].map(redirect_state);
        let returns = states.each_ref().map(|state| Request::get(&callback(state)));
        let [first_return, second_return] = returns;
        let next = async {
            if round % 2 == 0 { Some(send_to(second.address, client.next_request(id(&created))).await) } else { None }
        };
        let (first, (last, next)) = join(world.send(first_return), join(world.send(second_return), next)).await;
        let codes: Vec<_> = [&first, &last]
            .into_iter()
            .filter(|response| response.status == 200)
            .filter_map(|response| response.json()["code"].as_str().map(str::to_owned))
            .collect();
        assert!(codes.len() <= 1, "one code: {} {}", first.text(), last.text());
        assert!(next.is_none_or(|next| next.status == 200));
        for code in &codes {
            client.redeem(id(&created), code).await;
        }
        let mut now = client.get(id(&created)).await;
        let silent = steps(&now).into_iter().filter(|(method, ..)| *method == "secure_sna").count();
        assert_eq!((silent, now["steps"].as_array().unwrap().len() <= 2), (1, true), "{now}");
        if is_open(&now) {
            if now["next_step"]["method"] == "secure_sna" {
                // Neither device has returned with a valid `state`, so the step is still open.
                let give_up = client.next_request(id(&created)).json(&json!({"method": "secure_sna"}));
                now = world.send(give_up).await.assert(200).json();
            }
            client.send_sms(&now, EVEN).await;
        }
        let ended = client.get(id(&created)).await;
        assert!(!is_open(&ended), "{ended}");
        assert_eq!(receiver.next().await.json(), ended);
    }
    world.wait_for_callback_results().await;
    assert!(receiver.is_quiet(), "one callback each");
}

async fn callback_is_resent(world: World) {
    let client = VerificationClient::configured(&world, json!({"methods": ["reverse_sms"]})).await;
    let mut receiver = Receiver::start().await;
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let resend = Request::post(&format!("{}/callback-resends", path(id(&created)))).bearer(&client.token);
    world.send(resend.clone()).await.assert_problem(409, "check_still_open");
    client.send_sms(&created, EVEN).await;
    let first = receiver.next().await;
    world.wait_for_callback_results().await;
    let scheduled = world.send(resend).await.assert(202).json();
    assert_eq!(keys(&scheduled), ["scheduled_at", "verification_id"].into());
    assert_eq!(receiver.next().await.json(), first.json());
}

on_both_stores!(
    silent_match_completes_the_verification,
    device_without_mobile_data_falls_back_to_sms,
    sandbox_numbers_decide_the_result,
    mismatch_ends_the_verification_unless_configured_otherwise,
    methods_follow_the_request_then_the_project_then_eligibility,
    invalid_requests_are_rejected,
    silence_expires_the_steps_and_the_verification,
    steps_are_given_up_until_none_is_left,
    third_wrong_code_leads_to_the_next_method,
    match_is_followed_by_the_sim_swap_query,
    repeated_key_returns_the_first_verification,
    verifications_belong_to_their_project,
    lists_are_filtered,
    concurrent_requests_start_one_step,
    sms_at_the_deadline_ends_the_verification_once,
    completion_code_can_be_redeemed_again,
    automatic_replies_end_a_step,
    verification_is_pending_with_its_step,
    two_devices_and_next_during_the_chain_end_a_step_once,
    callback_is_resent,
);
