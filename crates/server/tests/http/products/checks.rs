//! Creates and lists: input validation, tenants, pages, filters and limits per number.

use jiff::SignedDuration;
use ringtrue_domain::{
    network::{Network, NetworkDirectory, NetworkId},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_engine::lookups::networks::SilentNetworkRoute;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;

use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    silent::{scripted_operator::ScriptedOperator, silent_client::SECURE_SNA},
    world::{TestProject, World},
};

async fn only_e164_numbers_are_accepted(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for number in [
        "",
        "447700900123",
        "+0447700900123",
        "+44 7700 900123",
        "+44-7700-900123",
        "+4477009001234567",
        "＋４４７７００９００１２３",
        "+٤٤٧٧٠٠٩٠٠١٢٣",
        "+44\u{0}",
        "tel:+447700900123",
        "+447700900123 ",
        "+21012345678",
        "+44770090",
        "+4407700900123",
    ] {
        backend.post(json!({"phone_number": number})).await.assert_problem(400, "phone_number_invalid");
    }
    for number in [Value::Null, json!(447_700_900_123_u64), json!(["+447700900123"]), json!({}), json!(true)] {
        let problem = backend.post(json!({"phone_number": number})).await.assert_problem(400, "bad_request");
        assert!(problem.detail().contains("/phone_number"), "{}", problem.detail());
    }
    let live = ReverseSmsClient {
        project: world.project("Live", json!({"mode": "live"})).await,
        token: String::new(),
        ..backend
    };
    let token = world.token(&live.project.client_id, &live.project.client_secret, "reverse_sms").await;
    let live = ReverseSmsClient { token, ..live };
    live.post(json!({"phone_number": EVEN})).await.assert_problem(400, "phone_number_invalid");
    // A valid number of an unknown operator.
    live.post(json!({"phone_number": "+447700900123"})).await.assert_problem(400, "mno_not_supported");
}

async fn unknown_members_are_rejected(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let long = "😀".repeat(51);
    for (body, culprit) in [
        (json!({}), "/phone_number"),
        (json!({"phone_number": EVEN, "extra": 1}), "/extra"),
        (json!({"phone_number": EVEN, "ttl": 60}), "/ttl"),
        (json!({"phone_number": EVEN, "reference_id": long}), "/reference_id"),
        (json!({"phone_number": EVEN, "reference_id": "a\u{0}b"}), "/reference_id"),
        (json!({"phone_number": EVEN, "reference_id": 5}), "/reference_id"),
    ] {
        let problem = backend.post(body).await.assert_problem(400, "bad_request");
        assert!(problem.detail().contains(culprit), "{culprit}: {}", problem.detail());
    }
    for url in [json!(""), json!("ftp://shop.example"), json!("http://127.0.0.1:1/"), json!("https://169.254.169.254/")]
    {
        let body = json!({"phone_number": EVEN, "callback_url": url});
        backend.post(body).await.assert_problem(400, "callback_url_invalid");
    }
    for reference in ["😀".repeat(50), "<script>\r\n=HYPERLINK()\u{202e}".to_owned(), String::new()] {
        let created = backend.post(json!({"phone_number": EVEN, "reference_id": reference})).await.assert(201).json();
        let id = created["check_id"].as_str().unwrap();
        assert_eq!(backend.get(id).await.json()["reference_id"], reference.as_str());
    }
}

async fn check_is_visible_to_its_project_only(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN, "reference_id": "mine"})).await;
    backend.get(&check.id.to_uppercase()).await.assert(200);
    backend.get("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b").await.assert_problem(404, "check_not_found");
    for not_an_id in ["not-a-uuid", "%FF", "%C3%28"] {
        backend.get(not_an_id).await.assert_problem(400, "bad_request");
    }
    backend.get(&check.id.replace('-', "")).await.assert_problem(400, "bad_request");

    let project = world.project("Other project", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let other_project = ReverseSmsClient { world: &world, project, token };
    other_project.get(&check.id).await.assert_problem(403, "forbidden");
    let found = other_project.list("?search=reference_id==mine").await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], 0);

    let eligibility = world.token(&backend.project.client_id, &backend.project.client_secret, "eligibility").await;
    let wrong = world.send(Request::get(CHECKS).bearer(&eligibility)).await.assert_problem(403, "forbidden");
    assert!(wrong.header("www-authenticate").unwrap().contains("insufficient_scope"));
}

const LIVE_NUMBER: &str = "+447700900122";

/// Creates a live project on a network that supports Reverse SMS and Secure SNA.
async fn live(world: &World) -> TestProject {
    let networks = world.node.engine.networks();
    let id: NetworkId = "23410".parse().unwrap();
    let network = Network {
        id: id.clone(),
        name: "O2".to_owned(),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: vec!["4477".to_owned()],
        receivers: vec![Msisdn::parse("+447700900001", Mode::Live).unwrap()],
    };
    networks.replace(NetworkDirectory::new(vec![network], vec![], vec![]).unwrap());
    networks.set_silent_routes(vec![SilentNetworkRoute { networks: vec![id], connector: ScriptedOperator::of(world) }]);
    let project = world.project("Live", json!({"mode": "live"})).await;
    let allowed = json!({"networks": [{"network_id": "23410", "products": ["reverse_sms", "secure_sna"]}]});
    world.manage(Request::put(&format!("{}/allowed-networks", project.path)).json(&allowed)).await.assert(200);
    project
}

async fn creates_per_number_are_limited_in_live_projects(world: World) {
    let project = live(&world).await;
    let [sms, silent] = [(CHECKS, "reverse_sms"), (SECURE_SNA.checks, "secure_sna")];
    let create = async |(path, scope): (&str, &str), number: &str| {
        let token = world.token(&project.client_id, &project.client_secret, scope).await;
        world.send(Request::post(path).bearer(&token).json(&json!({"phone_number": number}))).await
    };
    for second in 0..5 {
        create(sms, LIVE_NUMBER).await.assert(201);
        world.advance(SignedDuration::from_secs(if second < 4 { 10 } else { 0 }));
    }
    let refused = create(sms, LIVE_NUMBER).await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("560"), "the first of five checks is 40 s old");
    create(sms, "+447700900124").await.assert(201);
    // Each product has a separate limit.
    for _ in 0..5 {
        create(silent, LIVE_NUMBER).await.assert(201);
    }
    let refused = create(silent, LIVE_NUMBER).await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("600"));

    world.advance(SignedDuration::from_millis(559_999));
    create(sms, LIVE_NUMBER).await.assert_problem(429, "too_many_requests");
    world.advance(SignedDuration::from_millis(1));
    create(sms, LIVE_NUMBER).await.assert(201);
    create(sms, LIVE_NUMBER).await.assert_problem(429, "too_many_requests");
    create(silent, LIVE_NUMBER).await.assert_problem(429, "too_many_requests");
}

/// A verification leaves out the methods whose limit for the number is reached.
async fn verifications_per_number_are_limited_by_method(world: World) {
    let project = live(&world).await;
    let token = world.token(&project.client_id, &project.client_secret, "verification").await;
    let create = async || {
        let request = Request::post("/v1/verifications").bearer(&token);
        world.send(request.json(&json!({"phone_number": LIVE_NUMBER}))).await
    };
    for (methods, seconds) in [(json!(["secure_sna", "reverse_sms"]), 10), (json!(["reverse_sms"]), 30)] {
        for _ in 0..5 {
            assert_eq!(create().await.assert(201).json()["methods"], methods);
        }
        world.advance(SignedDuration::from_secs(seconds));
    }
    // The time until the first of the two methods is permitted again.
    let refused = create().await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("560"));
    world.advance(SignedDuration::from_secs(560));
    assert_eq!(create().await.assert(201).json()["methods"], json!(["secure_sna"]));
    world.advance(SignedDuration::from_secs(10));
    assert_eq!(create().await.assert(201).json()["methods"], json!(["secure_sna", "reverse_sms"]));
}

async fn creates_per_number_are_unlimited_in_sandbox_projects(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let silent = world.token(&backend.project.client_id, &backend.project.client_secret, "secure_sna").await;
    for _ in 0..12 {
        backend.create(json!({"phone_number": EVEN})).await;
        let request = Request::post(SECURE_SNA.checks).bearer(&silent).json(&json!({"phone_number": EVEN}));
        world.send(request).await.assert(201);
    }
}

async fn concurrent_creates_respect_the_limit_per_number(world: World) {
    let project = live(&world).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let backend = ReverseSmsClient { world: &world, project, token };
    let body = json!({"phone_number": LIVE_NUMBER});
    let responses = futures_util::future::join_all((0..20).map(|_| backend.post(body.clone()))).await;
    let created = responses.iter().filter(|response| response.status == 201).count();
    assert_eq!((created, responses.iter().filter(|response| response.status == 429).count()), (5, 15));
}

/// Tests the earliest and the latest timestamps that RFC 3339 permits.
async fn search_accepts_any_rfc_3339_date_time(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    backend.create(json!({"phone_number": EVEN, "reference_id": "one"})).await;
    let (earliest, latest) = ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z");
    let [early, late] = ["0000-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59.999999999-23:59"];
    for (search, found) in [
        (format!("created_at=gt={earliest}"), 1),
        (format!("created_at=ge={early}"), 1),
        (format!("created_at=lt={latest}"), 1),
        (format!("created_at=le={late}"), 1),
        (format!("created_at=gt={latest}"), 0),
        (format!("created_at=lt={earliest}"), 0),
        (format!("created_at=ge=1969-12-31T23:59:59.999Z;created_at=le={latest}"), 1),
        (format!("created_at=lt=1969-12-31T23:59:59Z,created_at=gt={late}"), 0),
        (format!("created_at=in=({earliest},{latest})"), 0),
        (format!("created_at=out=({earliest},{latest})"), 1),
        (format!("updated_at=lt={latest}"), 0),
        (format!("reference_id==one;(created_at=lt={latest},updated_at=lt={earliest})"), 1),
    ] {
        let page = backend.list(&format!("?search={search}")).await.assert(200).json();
        assert_eq!(page["page"]["total_elements"], found, "{search}");
        assert_eq!(page["content"].as_array().unwrap().len(), found, "{search}");
    }
    for search in ["created_at=gt=2026-01-01T00:00:00%2B24:00", "created_at=gt=10000-01-01T00:00:00Z"] {
        backend.list(&format!("?search={search}")).await.assert_problem(400, "search_invalid");
    }
    let usage = async |query: &str| {
        world.manage(Request::get(&format!("{}/usage?group_by=month&{query}", world.acme.path()))).await
    };
    for (query, counted) in [
        ("from=0000-01-01T00:00:00Z&to=0001-01-01T00:00:00Z", false),
        ("from=1965-01-01T00:00:00Z&to=1970-06-01T00:00:00Z", false),
        ("from=2025-06-01T00:00:00Z&to=2026-06-01T00:00:00Z", true),
        ("from=9995-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", false),
    ] {
        let rows = usage(query).await.assert(200).json();
        assert_eq!(!rows["content"].as_array().unwrap().is_empty(), counted, "{query}: {rows}");
    }
    usage("from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59Z").await.assert_problem(400, "bad_request");
}

async fn query_must_be_utf_8(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    backend.create(json!({"phone_number": EVEN, "reference_id": "a\u{fffd}b"})).await;
    for search in
        ["reference_id==a%FFb", "reference_id==a%C3%28b", "%FF", "reference_id==%ED%A0%80", "reference_id==*%C3"]
    {
        let refused = backend.list(&format!("?search={search}")).await.assert_problem(400, "search_invalid");
        assert!(refused.detail().contains("UTF-8"), "{}", refused.detail());
    }
    for query in ["?size=%FF", "?%FF=1", "?page=1&search%FF=x"] {
        backend.list(query).await.assert_problem(400, "bad_request");
    }
    let found = backend.list("?search=reference_id==a%EF%BF%BDb").await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], 1);
}

async fn create_is_idempotent_for_its_key(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let create = async |number: &str| {
        let request = Request::post(CHECKS).bearer(&backend.token).header("Idempotency-Key", "k1");
        world.send(request.json(&json!({"phone_number": number}))).await
    };
    let first = create(EVEN).await.assert(201);
    let again = create(EVEN).await.assert(201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), first.json(), "the replay contains the receiver and the SMS text");
    create("+990123456702").await.assert_problem(422, "idempotency_key_reused");
    assert_eq!(backend.list("").await.json()["page"]["total_elements"], 1);

    // A rejected request does not use up its idempotency key.
    let request = Request::post(CHECKS).bearer(&backend.token).header("Idempotency-Key", "k2");
    let refused = request.clone().json(&json!({"phone_number": "+990123456793"}));
    world.send(refused).await.assert_problem(503, "lookup_unavailable");
    world.send(request.json(&json!({"phone_number": EVEN}))).await.assert(201);
}

async fn pages_have_the_requested_size(world: World) {
    let mut backend = ReverseSmsClient::sandbox(&world).await;
    let mut ids = vec![];
    for index in 0..25 {
        let (client_id, client_secret) = (&backend.project.client_id, &backend.project.client_secret);
        backend.token = world.token(client_id, client_secret, "reverse_sms").await;
        ids.push(backend.create(json!({"phone_number": format!("+9901234500{index:02}")})).await.id);
        // The checks are spread over several hours, because lists take their totals from hourly counters.
        world.advance(SignedDuration::from_mins(17));
    }
    ids.reverse();
    let mut seen: Vec<String> = vec![];
    for page in 1..=4 {
        let response = backend.list(&format!("?size=7&page={page}")).await.assert(200).json();
        assert_eq!(response["page"], json!({"size": 7, "number": page, "total_pages": 4, "total_elements": 25}));
        seen.extend(response["content"].as_array().unwrap().iter().map(|c| c["check_id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, ids, "newest first, each once");
    let beyond = backend.list("?size=7&page=5").await.assert(200).json();
    assert_eq!((beyond["content"].as_array().unwrap().len(), &beyond["page"]["total_elements"]), (0, &json!(25)));
    backend.list("?page=2147483647&size=100").await.assert(200);
    for query in [
        "?size=0",
        "?size=101",
        "?size=-1",
        "?size=1.5",
        "?size=abc",
        "?size=",
        "?size=1&size=2",
        "?page=0",
        "?page=-1",
    ] {
        backend.list(query).await.assert_problem(400, "bad_request");
    }
    backend.list("?page=2147483648").await.assert_problem(400, "bad_request");
}

async fn filters_return_matching_checks(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let matched = backend.create(json!({"phone_number": EVEN, "reference_id": "a_1%"})).await;
    backend.text(EVEN, &matched.receiver, &matched.body).await;
    backend.expect_status(&matched.id, "COMPLETED").await;
    world.advance(SignedDuration::from_secs(400));
    let differs = backend.create(json!({"phone_number": "+990123456701"})).await;
    backend.text("+990123456701", &differs.receiver, &differs.body).await;
    backend.expect_status(&differs.id, "COMPLETED").await;
    world.advance(SignedDuration::from_millis(1));
    let error = backend.create(json!({"phone_number": "+990123456799", "reference_id": "b"})).await;
    backend.text("+990123456799", &error.receiver, &error.body).await;
    backend.expect_status(&error.id, "ERROR").await;
    world.advance(SignedDuration::from_millis(1));
    let expired = backend.create(json!({"phone_number": "+990123456702"})).await;
    world.advance(SignedDuration::from_secs(300));
    let open = backend.create(json!({"phone_number": "+990123456704"})).await;
    let names = [
        (&matched.id, "matched"),
        (&differs.id, "differs"),
        (&error.id, "error"),
        (&expired.id, "expired"),
        (&open.id, "open"),
    ];
    for (search, expected) in [
        ("status==COMPLETED", &["differs", "matched"][..]),
        ("status==EXPIRED", &["expired"]),
        ("status!=COMPLETED", &["open", "expired", "error"]),
        ("status=in=(ACCEPTED,ERROR)", &["open", "error"]),
        ("verified==true", &["matched"]),
        ("verified==false", &["differs"]),
        ("verified!=true", &["open", "expired", "error", "differs"]),
        ("network_id==00101", &["open", "expired", "error", "differs", "matched"]),
        ("network_id==23410", &[]),
        ("error_code==internal_error", &["error"]),
        ("error_code!=internal_error", &["open", "expired", "differs", "matched"]),
        ("reference_id==a_1%", &["matched"]),
        ("reference_id==a_*", &["matched"]),
        ("reference_id==*", &["error", "matched"]),
        ("reference_id!=*", &["open", "expired", "differs"]),
        ("reference_id==%", &[]),
        ("reference_id=gt=a_1%", &["error"]),
        ("reference_id=ge=a_1%", &["error", "matched"]),
        ("reference_id<b", &["matched"]),
        ("reference_id=le=B", &[]),
        ("status=gt=ERROR", &["expired"]),
        ("status=ge=ERROR;reference_id=ge=b", &["error"]),
        ("status=lt=A", &[]),
        ("network_id=ge=00101", &["open", "expired", "error", "differs", "matched"]),
        ("network_id=gt=00101", &[]),
        ("error_code=lt=j", &["error"]),
        ("created_at=gt=2026-01-01T00:00:00Z", &["open", "expired", "error", "differs"]),
        ("created_at=ge=2026-01-01T00:00:00Z", &["open", "expired", "error", "differs", "matched"]),
        ("status==COMPLETED;created_at=gt=2026-01-01T00:00:00Z", &["differs"]),
        ("updated_at<2026-01-01T00:01:00Z", &["matched"]),
        ("(status==ERROR,status==EXPIRED);reference_id==b", &["error"]),
        ("status==COMPLETED and verified==true or status==EXPIRED", &["expired", "matched"]),
    ] {
        let query: String = byte_serialize(search.as_bytes()).collect();
        let page = backend.list(&format!("?search={query}")).await.assert(200).json();
        let found = page["content"].as_array().unwrap().iter().map(|check| {
            let id = check["check_id"].as_str().unwrap();
            names.iter().find(|(known, _)| *known == id).unwrap().1
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, expected, "{search}");
        assert_eq!(page["page"]["total_elements"], expected.len(), "{search}");
    }
    for search in [
        "status==",
        "==x",
        "status==A;",
        "status==DONE",
        "status=in=()",
        "(status==ERROR",
        "status=='ERROR",
        "phone_number==+447700900123",
        "verified==maybe",
        "created_at=gt=yesterday",
        "verified=gt=false",
        "reference_id=gt=(a,b)",
        "created_at=gt=2026-01-01T00:00:00 01:00",
    ] {
        let query: String = byte_serialize(search.as_bytes()).collect();
        backend.list(&format!("?search={query}")).await.assert_problem(400, "search_invalid");
    }
}

async fn every_response_has_rate_limit_headers(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    for response in [
        backend.list("").await,
        backend.get("not-a-uuid").await,
        backend.post(json!({})).await,
        world.send(Request::get(CHECKS)).await,
        world.send(Request::delete(CHECKS).bearer(&backend.token)).await,
    ] {
        for header in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert!(response.header(header).unwrap().parse::<u32>().is_ok(), "{header}: {response:?}");
        }
    }
}

async fn usage_counts_checks(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    backend.create(json!({"phone_number": "+990123456702"})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    backend.expect_status(&check.id, "COMPLETED").await;
    let path = format!("{}/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&group_by=day", world.acme.path());
    let usage = world.manage(Request::get(&path)).await.assert(200).json();
    let rows = usage.to_string();
    assert!(rows.contains("\"COMPLETED\"") && rows.contains("\"ACCEPTED\""), "{rows}");
}

on_both_stores!(
    only_e164_numbers_are_accepted,
    unknown_members_are_rejected,
    check_is_visible_to_its_project_only,
    creates_per_number_are_limited_in_live_projects,
    verifications_per_number_are_limited_by_method,
    creates_per_number_are_unlimited_in_sandbox_projects,
    search_accepts_any_rfc_3339_date_time,
    query_must_be_utf_8,
    concurrent_creates_respect_the_limit_per_number,
    create_is_idempotent_for_its_key,
    pages_have_the_requested_size,
    filters_return_matching_checks,
    every_response_has_rate_limit_headers,
    usage_counts_checks,
);
