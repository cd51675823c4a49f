//! SIM Swap checks.

use std::collections::BTreeSet;

use futures_util::future::join;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    operators::networks::world_with,
    products::scripted_sim_swap::ScriptedSimSwap,
    world::{TestProject, World},
};

pub const CHECKS: &str = "/v1/sim-swap-checks";
const EVEN: &str = "+990123456700";
const ODD: &str = "+990123456701";

/// Client of SIM Swap: a project and its access token.
pub struct SimSwapClient<'a> {
    pub world: &'a World,
    pub project: TestProject,
    pub token: String,
}

impl<'a> SimSwapClient<'a> {
    pub async fn new(world: &'a World, name: &str, body: Value) -> Self {
        let project = world.project(name, body).await;
        let token = world.token(&project.client_id, &project.client_secret, "sim_swap").await;
        SimSwapClient { world, project, token }
    }

    pub async fn sandbox(world: &'a World) -> Self {
        SimSwapClient::new(world, "Bank", json!({})).await
    }

    pub async fn post(&self, body: &Value) -> HttpResponse {
        self.world.send(Request::post(CHECKS).bearer(&self.token).json(body)).await
    }

    pub async fn create(&self, number: &str) -> HttpResponse {
        self.post(&json!({"phone_number": number})).await
    }

    pub async fn get(&self, id: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{CHECKS}/{id}")).bearer(&self.token)).await
    }

    pub async fn list(&self, query: &str) -> HttpResponse {
        self.world.send(Request::get(&format!("{CHECKS}{query}")).bearer(&self.token)).await
    }

    pub fn keyed(&self, key: &str, number: &str) -> Request {
        let body = json!({"phone_number": number});
        Request::post(CHECKS).bearer(&self.token).header("Idempotency-Key", key).json(&body)
    }
}

fn keys(body: &Value) -> BTreeSet<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn create_returns_the_concluded_check(world: World) {
    ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    let body = json!({"phone_number": ODD, "period": 1440, "reference_id": "transfer-1"});
    let created = backend.post(&body).await.assert(201).json();
    let expected = [
        "check_id",
        "created_at",
        "network_id",
        "no_sim_change",
        "no_sim_change_period",
        "reference_id",
        "sim_change_within",
        "status",
        "updated_at",
    ];
    assert_eq!(keys(&created), expected.into());
    assert_eq!((&created["status"], &created["no_sim_change"]), (&json!("COMPLETED"), &json!(false)));
    assert_eq!((&created["no_sim_change_period"], &created["sim_change_within"]), (&json!(1440), &json!(1440)));
    assert_eq!((&created["network_id"], &created["reference_id"]), (&json!("00101"), &json!("transfer-1")));

    let id = created["check_id"].as_str().unwrap();
    assert_eq!(backend.get(id).await.assert(200).json(), created);
    let listed = backend.list("").await.assert(200).json();
    assert_eq!(listed["content"], json!([created]));
    assert_eq!(listed["page"], json!({"size": 10, "number": 1, "total_pages": 1, "total_elements": 1}));

    // Time does not change concluded checks.
    world.advance(SignedDuration::from_hours(48));
    let TestProject { client_id, client_secret, .. } = &backend.project;
    let token = world.token(client_id, client_secret, "sim_swap").await;
    let later = Request::get(&format!("{CHECKS}/{id}")).bearer(&token);
    assert_eq!(world.send(later).await.assert(200).json(), created);
}

async fn last_digits_of_sandbox_numbers_select_the_outcome(world: World) {
    let operator = ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    // Last digits, `no_sim_change`, age of the last change, and error.
    for (suffix, no_change, within, error) in [
        ("00", json!(true), json!(525_601), Value::Null),
        ("01", json!(false), json!(1440), Value::Null),
        ("99", Value::Null, Value::Null, json!("mno_server_error")),
        ("98", json!(true), Value::Null, Value::Null),
        ("96", json!(true), json!(525_601), Value::Null),
        ("95", Value::Null, Value::Null, json!("mno_timeout")),
        ("92", json!(true), json!(525_601), Value::Null),
        ("91", json!(false), json!(1440), Value::Null),
    ] {
        // In a sandbox project, checks of real numbers are simulated, too. A repeated check asks the operator again.
        for start in ["+9901234567", "+4477009001", "+4477009001"] {
            let number = format!("{start}{suffix}");
            let created = backend.create(&number).await.assert(201).json();
            let get = |name: &str| created.get(name).cloned().unwrap_or_default();
            assert_eq!(created["status"], if error.is_null() { "COMPLETED" } else { "ERROR" }, "{number}");
            assert_eq!(
                (get("no_sim_change"), get("sim_change_within")),
                (no_change.clone(), within.clone()),
                "{number}"
            );
            assert_eq!(get("error_code"), error, "{number}");
            let expected_network = if error.is_null() { json!("00101") } else { Value::Null };
            assert_eq!(get("network_id"), expected_network, "{number}");
            assert_eq!(backend.get(created["check_id"].as_str().unwrap()).await.json(), created, "{number}");
        }
    }
    let request_count = operator.request_count();
    for (number, status, code) in [
        ("+990123456797", 400, "mno_not_supported"),
        ("+990123456794", 400, "mno_not_supported"),
        ("+990123456793", 503, "lookup_unavailable"),
    ] {
        let refused = backend.create(number).await.assert_problem(status, code);
        assert_eq!(refused.header("retry-after").is_some(), status == 503, "{number}");
    }
    assert_eq!((operator.request_count(), request_count), (request_count, 24));
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 24, "rejected requests are not stored");
}

#[tokio::test]
async fn period_is_an_integer_of_minutes() {
    let world = World::sqlite().await;
    ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    // The last change was 20 hours ago.
    for (period, covered, no_change) in
        [("60", 60, true), ("1199", 1199, true), ("1200", 1200, false), ("540000", 540_000, false)]
    {
        let body = format!("{{\"phone_number\":\"{ODD}\",\"period\":{period}}}");
        let created = Request::post(CHECKS).bearer(&backend.token).body("application/json", body);
        let created = world.send(created).await.assert(201).json();
        assert_eq!(created["no_sim_change_period"], covered);
        assert_eq!(created["no_sim_change"], no_change, "{period}");
    }
    assert_eq!(backend.create(ODD).await.json()["no_sim_change_period"], 10_080, "the default period is a week");
    for (period, code) in [
        ("59", "period_invalid"),
        ("540001", "period_invalid"),
        ("0", "period_invalid"),
        ("-60", "period_invalid"),
        ("60.5", "period_invalid"),
        ("1e3", "period_invalid"),
        ("9223372036854775808", "period_invalid"),
        ("-99999999999999999999", "period_invalid"),
        ("\"60\"", "bad_request"),
        ("\"P1D\"", "bad_request"),
        ("true", "bad_request"),
        ("[60]", "bad_request"),
        ("{}", "bad_request"),
        ("060", "bad_request"),
    ] {
        let body = format!("{{\"phone_number\":\"{ODD}\",\"period\":{period}}}");
        let refused = Request::post(CHECKS).bearer(&backend.token).body("application/json", body);
        let refused = world.send(refused).await.assert_problem(400, code);
        assert!(refused.detail().contains("/period") || period == "060", "{}", refused.detail());
    }
}

#[tokio::test]
async fn invalid_bodies_and_numbers_are_rejected() {
    let world = World::sqlite().await;
    let operator = ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    for number in [
        "990123456700",
        "+0990123456700",
        "+44 7700 900123",
        "+4477009001234567",
        "＋４４７７００９００１２３",
        "+٤٤٧٧٠٠٩٠٠١٢٣",
        "+44\u{0}",
        "tel:+447700900123",
        "",
    ] {
        backend.create(number).await.assert_problem(400, "phone_number_invalid");
    }
    for (body, pointer) in [
        (json!({}), "/phone_number"),
        (json!({"phone_number": null}), "/phone_number"),
        (json!({"phone_number": 990_123_456_700_u64}), "/phone_number"),
        (json!({"phone_number": [EVEN]}), "/phone_number"),
        (json!({"phone_number": EVEN, "callback_url": "https://shop.example/done"}), "/callback_url"),
        (json!({"phone_number": EVEN, "device_ip": "203.0.113.1"}), "/device_ip"),
        (json!({"phone_number": EVEN, "reference_id": "x".repeat(51)}), "/reference_id"),
        (json!({"phone_number": EVEN, "reference_id": "\u{0}"}), "/reference_id"),
    ] {
        let refused = backend.post(&body).await.assert_problem(400, "bad_request");
        assert!(refused.detail().contains(pointer), "{}", refused.detail());
    }
    let body = format!("{{\"phone_number\":\"{EVEN}\"}}");
    let post = || Request::post(CHECKS).bearer(&backend.token);
    for invalid in [format!("{body}{body}"), format!("\u{feff}{body}"), format!("[{body}]"), body.replace('}', ",}")] {
        world.send(post().body("application/json", invalid)).await.assert_problem(400, "bad_request");
    }
    world.send(post().body("text/plain", &body)).await.assert_problem(415, "unsupported_media_type");
    world.send(post().body("application/json", " ".repeat(20_000))).await.assert_problem(413, "payload_too_large");
    assert_eq!(operator.request_count(), 0);
}

async fn repeated_create_does_not_query_the_operator(world: World) {
    let operator = ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    let first = world.send(backend.keyed("k", ODD)).await.assert(201);
    let again = world.send(backend.keyed("k", ODD)).await.assert(201);
    assert_eq!((&again.body, again.header("idempotent-replayed")), (&first.body, Some("true")));
    assert_eq!((first.header("idempotent-replayed"), operator.request_count()), (None, 1));
    world.send(backend.keyed("k", EVEN)).await.assert_problem(422, "idempotency_key_reused");
    world.send(backend.keyed(&"k".repeat(256), ODD)).await.assert_problem(400, "bad_request");

    // A check with an operator error is replayed; a rejected request is not stored.
    let failed = world.send(backend.keyed("e", "+990123456799")).await.assert(201);
    assert_eq!(world.send(backend.keyed("e", "+990123456799")).await.body, failed.body);
    for _ in 0..2 {
        let refused = world.send(backend.keyed("r", "+990123456793")).await;
        assert_eq!(refused.assert_problem(503, "lookup_unavailable").header("idempotent-replayed"), None);
    }

    let other = SimSwapClient::new(&world, "Other", json!({})).await;
    let theirs = world.send(other.keyed("k", ODD)).await.assert(201);
    assert_ne!(theirs.json()["check_id"], first.json()["check_id"], "keys are scoped to the project");

    let request_count = operator.request_count();
    operator.stop_responding();
    let slow = world.send(backend.keyed("s", EVEN));
    let meanwhile = async {
        operator.wait_for_requests(request_count + 1).await;
        world.send(backend.keyed("s", EVEN)).await.assert_problem(409, "idempotency_in_progress");
        operator.resume_responding();
    };
    let (slow, ()) = join(slow, meanwhile).await;
    slow.assert(201);
}

async fn check_is_visible_to_its_project_only(world: World) {
    ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    let created = backend.post(&json!({"phone_number": EVEN, "reference_id": "mine"})).await.assert(201).json();
    let id = created["check_id"].as_str().unwrap();
    backend.get(&id.to_uppercase()).await.assert(200);
    backend.get("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b").await.assert_problem(404, "check_not_found");
    backend.get("not-a-uuid").await.assert_problem(400, "bad_request");
    backend.get("%FF").await.assert_problem(400, "bad_request");
    backend.get(&format!("{id}?x=y")).await.assert_problem(400, "bad_request");

    let other_project = SimSwapClient::new(&world, "Other project", json!({})).await;
    other_project.get(id).await.assert_problem(403, "forbidden");
    assert_eq!(other_project.list("?search=reference_id==mine").await.assert(200).json()["page"]["total_elements"], 0);

    let TestProject { client_id, client_secret, .. } = &backend.project;
    let other_product = world.token(client_id, client_secret, "reverse_sms").await;
    for request in [Request::get(CHECKS), Request::get(&format!("{CHECKS}/{id}")), Request::post(CHECKS)] {
        let refused = world.send(request.clone().bearer(&other_product)).await.assert_problem(403, "forbidden");
        assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
        world.send(request).await.assert_problem(401, "unauthorized");
    }
    let as_reverse_sms = Request::get(&format!("/v1/number-verification/reverse-sms-checks/{id}"));
    world.send(as_reverse_sms.bearer(&other_product)).await.assert_problem(404, "check_not_found");
}

async fn checks_can_be_searched_by_outcome(world: World) {
    ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    for (number, reference) in [(EVEN, "a"), (ODD, "b"), ("+990123456799", "c"), ("+990123456795", "d")] {
        backend.post(&json!({"phone_number": number, "reference_id": reference})).await.assert(201);
        world.advance(SignedDuration::from_millis(1));
    }
    backend.create("+990123456797").await.assert_problem(400, "mno_not_supported");
    let found = async |query: &str| {
        let listed = backend.list(query).await.assert(200).json();
        let references = listed["content"].as_array().unwrap().iter();
        references.map(|check| check["reference_id"].as_str().unwrap().to_owned()).collect::<String>()
    };
    for (query, references) in [
        ("", "dcba"),
        ("?size=2", "dc"),
        ("?size=2&page=2", "ba"),
        ("?size=2&page=3", ""),
        ("?search=status==COMPLETED", "ba"),
        ("?search=status==ERROR;error_code==mno_timeout", "d"),
        ("?search=verified==true", "a"),
        ("?search=verified==false", "b"),
        ("?search=no_sim_change==true", "a"),
        ("?search=no_sim_change==false", "b"),
        ("?search=no_sim_change!=true;reference_id=gt=b", "dc"),
        ("?search=no_sim_change!=true;status=gt=COMPLETED", "dc"),
        ("?search=no_sim_change==false;reference_id=gt=a", "b"),
        ("?search=network_id==00101", "dcba"),
        ("?search=reference_id=in=(a,c)", "ca"),
        ("?search=status==EXPIRED", ""),
        ("?search=status=in=(ACCEPTED,PENDING,EXPIRED)", ""),
        ("?search=created_at=ge=2026-01-01T00:00:00.001Z", "dcb"),
    ] {
        assert_eq!(found(query).await, references, "{query}");
    }
    backend.list("?search=phone_number==%2B990123456700").await.assert_problem(400, "search_invalid");
    backend.list("?search=no_sim_change=gt=false").await.assert_problem(400, "search_invalid");
    backend.list("?size=0").await.assert_problem(400, "bad_request");

    let usage = format!("{}/usage?from=2025-12-31T00:00:00Z&to=2026-01-02T00:00:00Z", world.acme.path());
    let rows = world.manage(Request::get(&usage)).await.assert(200).json();
    let mut counts: Vec<_> = rows["content"].as_array().unwrap().iter().collect();
    assert!(counts.iter().all(|row| row["product"] == "sim_swap"), "{counts:?}");
    counts.sort_by_key(|row| (row["status"].to_string(), row.get("match").map(ToString::to_string)));
    let counts: Vec<_> = counts.into_iter().map(|row| (&row["status"], row.get("match"), &row["count"])).collect();
    let (completed, error) = (&json!("COMPLETED"), &json!("ERROR"));
    let [matched, changed] = [&json!(true), &json!(false)];
    let expected =
        [(completed, Some(changed), &json!(1)), (completed, Some(matched), &json!(1)), (error, None, &json!(2))];
    assert_eq!(counts, expected, "rejected requests are not counted");
}

/// Two operators, one of which supports SIM Swap.
const TWO: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    prefixes = ["+447700"]

    [networks.23415]
    name = "Vodafone"
    country = "GB"
    prefixes = ["+447702"]
"#;

#[tokio::test]
async fn live_projects_use_allowed_networks_only() {
    let world = world_with(TWO).await;
    let operator = ScriptedSimSwap::of(&world, &["23410"]);
    let backend = SimSwapClient::new(&world, "Bank", json!({"mode": "live"})).await;
    let allow = async |product: &str| {
        let body = json!({"networks": [{"network_id": "23410", "products": [product]}]});
        let request = Request::put(&format!("{}/allowed-networks", backend.project.path));
        world.manage(request.json(&body)).await.assert(200);
    };
    backend.create(EVEN).await.assert_problem(400, "phone_number_invalid");
    backend.create("+4915112345678").await.assert_problem(400, "mno_not_supported");
    backend.create("+442071838750").await.assert_problem(400, "mno_not_supported");
    backend.create("+447702900124").await.assert_problem(400, "mno_not_supported");
    backend.create("+447700900124").await.assert_problem(403, "forbidden");
    allow("reverse_sms").await;
    backend.create("+447700900124").await.assert_problem(403, "forbidden");
    ScriptedSimSwap::simulated(&world);
    let sandbox = SimSwapClient::new(&world, "Trial", json!({})).await;
    sandbox.create("+447700900124").await.assert(201);
    assert_eq!(operator.request_count(), 0, "sandbox checks do not contact real operators");

    allow("sim_swap").await;
    let created = backend.create("+447700900124").await.assert(201).json();
    assert_eq!((&created["network_id"], &created["no_sim_change"]), (&json!("23410"), &json!(true)));
    let failed = backend.create("+447700900199").await.assert(201).json();
    assert_eq!((&failed["status"], &failed["error_code"]), (&json!("ERROR"), &json!("mno_server_error")));
    assert_eq!(failed.get("network_id"), None);
}

#[tokio::test]
async fn creates_and_reads_have_separate_limits() {
    let world = World::configured(|config| (config.rate_limits.create, config.rate_limits.read) = (2, 3)).await;
    ScriptedSimSwap::simulated(&world);
    let backend = SimSwapClient::sandbox(&world).await;
    for left in ["1", "0"] {
        let created = backend.create(EVEN).await.assert(201);
        assert_eq!(created.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(created.header("x-ratelimit-remaining"), Some(left));
    }
    let refused = backend.create(EVEN).await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    for left in ["2", "1", "0"] {
        assert_eq!(backend.list("").await.assert(200).header("x-ratelimit-remaining"), Some(left));
    }
    backend.list("").await.assert_problem(429, "too_many_requests");
}

on_both_stores!(
    create_returns_the_concluded_check,
    last_digits_of_sandbox_numbers_select_the_outcome,
    repeated_create_does_not_query_the_operator,
    check_is_visible_to_its_project_only,
    checks_can_be_searched_by_outcome,
);
