//! Strict JSON on every route with a body.

use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    products::scripted_sim_swap::ScriptedSimSwap,
    protocol::routes::{self, Ids, Route, Tokens},
    world::{CONTRACT, World},
};

/// Returns documents that are not a single JSON object, with their errors.
fn broken() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let deep = |open: &str, close: &str| (open.repeat(2_500) + &close.repeat(2_500)).into_bytes();
    let utf_16: Vec<u8> = r#"{"name":"x"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("nothing", vec![], "``"),
        ("white space", text(" \r\n\t"), "``"),
        ("half a document", text(r#"{"name":"#), "``"),
        ("a trailing comma", text(r#"{"name":"x",}"#), "``"),
        ("a leading comma", text(r#"{,"name":"x"}"#), "``"),
        ("a byte order mark", [b"\xEF\xBB\xBF", &b"{}"[..]].concat(), "``"),
        ("NaN", text(r#"{"name":NaN}"#), "``"),
        ("Infinity", text(r#"{"name":-Infinity}"#), "``"),
        ("a hexadecimal number", text(r#"{"name":0x10}"#), "``"),
        ("a number that is too large", text(r#"{"name":1e999}"#), "``"),
        ("an array", text("[]"), "``"),
        ("an array of an object", text(r#"[{"name":"x"}]"#), "``"),
        ("null", text("null"), "``"),
        ("a string", text(r#""name""#), "``"),
        ("a number", text("1"), "``"),
        ("two documents", text(r#"{"name":"x"}{"name":"x"}"#), "``"),
        ("two documents on two lines", text("{}\n{}"), "``"),
        ("something after it", text("{}x"), "``"),
        ("single quotes", text("{'name':'x'}"), "``"),
        ("no quotes", text("{name:\"x\"}"), "``"),
        ("a comment", text("{/* x */}"), "``"),
        ("not UTF-8", [&b"{\"name\":\"\xff\"}"[..]].concat(), "``"),
        ("overlong UTF-8", [&b"{\"name\":\"\xc0\x80\"}"[..]].concat(), "``"),
        ("half a surrogate in UTF-8", [&b"{\"name\":\"\xed\xa0\x80\"}"[..]].concat(), "``"),
        ("a lone surrogate", text(r#"{"name":"\ud800"}"#), "``"),
        ("a surrogate the wrong way round", text(r#"{"name":"\udc00\ud800"}"#), "``"),
        ("a broken escape", text(r#"{"name":"\x41"}"#), "``"),
        ("a control character", text("{\"name\":\"a\nb\"}"), "``"),
        ("NUL", text("{}\0"), "``"),
        ("UTF-16", utf_16, "``"),
        ("a form", text("name=x"), "``"),
        ("arrays in arrays", deep("[", "]"), "``"),
        ("objects in objects", deep("{\"a\":", "}"), "``"),
        ("an unknown property", text(r#"{"surprise":1}"#), "`/"),
        ("a property twice", text(r#"{"surprise":1,"surprise":1}"#), "`/surprise`"),
        ("a property twice, escaped", text(r#"{"surprise":1,"\u0073urprise":1}"#), "`/surprise`"),
        ("an empty name", text(r#"{"":1,"":2}"#), "`/`"),
        ("a name that needs escaping", text(r#"{"a/b~c":1,"a/b~c":2}"#), "`/a~1b~0c`"),
        ("__proto__", text(r#"{"__proto__":{},"__proto__":{}}"#), "`/__proto__`"),
    ]
}

/// The error names the position in the document, the request has no effect, and the status is never 5xx.
async fn invalid_documents_are_rejected_everywhere(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let events = format!("{}/audit-events", world.acme.path());
    let before = world.manage(Request::get(&events)).await.assert(200).json();
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        for (case, body, expected_detail) in broken() {
            let request = Request::new(route.method, &routes::fill(route.template, &ids));
            let request = request.bearer(tokens.for_route(route)).body("application/json", body);
            let response = world.send(request).await;
            assert_eq!((response.status, response.code().as_str()), (400, "bad_request"), "{case} at {route:?}");
            assert!(response.detail().starts_with(expected_detail), "{case} at {route:?}: {}", response.detail());
        }
    }
    assert_eq!(world.manage(Request::get(&events)).await.assert(200).json(), before);
    for route in routes::checks() {
        let list = world.send(Request::get(route.template).bearer(tokens.for_route(route))).await.assert(200).json();
        assert_eq!(list["page"]["total_elements"], 0, "{route:?}");
    }
}

/// Adds one unknown member, at any depth, to a valid document.
#[tokio::test]
async fn unknown_member_is_rejected_with_its_pointer() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        let mut body = route.good_body();
        body["surprise"] = json!(null);
        let request = Request::new(route.method, &routes::fill(route.template, &ids)).json(&body);
        let response = world.send(request.bearer(tokens.for_route(route))).await.assert_problem(400, "bad_request");
        assert!(response.detail().starts_with("`/surprise`: "), "{route:?}: {}", response.detail());
    }
}

/// Every documented member with a value of every type is accepted or rejected with its pointer.
async fn mistyped_values_are_rejected_with_their_pointer(world: World) {
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!("\u{0}"),
        json!("\u{202e}\u{1f600}"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!({}),
        json!({"": null}),
        json!({"reverse_sms": 1}),
    ];
    // Checks use a project of their own, because the requests that change the first project finally disable it.
    let tokens = Tokens::of(&world, &world.project("Checks", json!({})).await).await;
    // Each request has its own number and name, to avoid unrelated limits.
    let mut others = 0;
    for route in routes::with_body() {
        let members = members_of(route);
        assert!(!members.is_empty(), "{route:?} documents its members");
        for member in members {
            for value in &values {
                let mut body = route.good_body();
                others += 1;
                if route.method == "POST" && body.get("name").is_some() {
                    body["name"] = json!(format!("{member} {others}"));
                }
                if body.get("phone_number").is_some() {
                    body["phone_number"] = json!(format!("+99012{others:05}00"));
                }
                body[&member] = value.clone();
                let request = Request::new(route.method, &routes::fill(route.template, &ids)).json(&body);
                let response = world.send(request.bearer(tokens.for_route(route))).await;
                match response.status {
                    200 | 201 => {}
                    400 => assert!(
                        response.detail().starts_with(&format!("`/{member}")),
                        "{member} {value} at {route:?}: {}",
                        response.detail()
                    ),
                    409 => assert_eq!(response.code(), "project_name_taken"),
                    status => panic!("{status} for {member} {value} at {route:?}"),
                }
            }
        }
    }
}

/// Many serializers write `null` for unset members. In a merge patch, `null` removes the member instead.
async fn null_counts_as_absent_for_optional_members(world: World) {
    ScriptedSimSwap::simulated(&world);
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body().filter(|route| route.method == "POST") {
        let good = route.good_body();
        let mut body = good.clone();
        for member in members_of(route).into_iter().filter(|member| good.get(member).is_none()) {
            body[&member] = json!(null);
        }
        assert!(body != good, "{route:?} has optional members");
        let send = async |body: &Value| {
            let request = Request::new(route.method, &routes::fill(route.template, &ids)).json(body);
            world.send(request.bearer(tokens.for_route(route))).await
        };
        let response = send(&body).await;
        assert_eq!(response.status, 201, "{route:?}: {}", response.text());
        for required in good.as_object().unwrap().keys() {
            let mut without = body.clone();
            without[required] = json!(null);
            let response = send(&without).await.assert_problem(400, "bad_request");
            assert!(response.detail().starts_with(&format!("`/{required}`")), "{route:?}: {}", response.detail());
        }
    }
    let sms = json!({"from": "+990123456700", "to": "+99000000001", "body": "x", "faults": {"parts": null}});
    for sms in [sms.clone(), json!({"from": sms["from"], "to": sms["to"], "body": "x", "faults": null})] {
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        world.send(Request::post("/v1/sandbox/inbound-sms").bearer(&token).json(&sms)).await.assert(202);
    }
}

#[tokio::test]
async fn unsupported_content_types_and_encodings_return_415() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        let path = routes::fill(route.template, &ids);
        let body = route.good_body().to_string();
        let with = |content_type: &str| Request::new(route.method, &path).body(content_type, &body);
        let bare = Request { body: Some(body.clone().into()), ..Request::new(route.method, &path) };
        for request in [
            bare,
            with(""),
            with("text/plain"),
            with("application/x-www-form-urlencoded"),
            with("application/jsonx"),
            with("application/problem+json"),
            with("application/json, text/plain"),
            with("json"),
            with("text/json"),
            with("application/json").header("Content-Type", "application/json"),
            with("application/json").header("Content-Encoding", "gzip"),
            with("application/json").header("Content-Encoding", "identity"),
            with("application/json").header("Content-Encoding", ""),
        ] {
            let response = world.send(request.clone().bearer(tokens.for_route(route))).await;
            assert_eq!((response.status, response.code().as_str()), (415, "unsupported_media_type"), "{request:?}");
        }
    }
    for good in ["application/json", "Application/JSON", "application/json;charset=utf-8", "application/json ; x=y"] {
        world.manage(Request::patch(&world.acme.path()).body(good, r#"{"name":"New"}"#)).await.assert(200);
    }
}

/// Sends one valid document in several equivalent notations.
#[tokio::test]
async fn equivalent_json_spellings_are_accepted() {
    let world = World::sqlite().await;
    for body in ["\r\n\t { \"name\" : \"New\" } \n", r#"{"\u006eame":"\u004e\u0065w"}"#, r#"{"name":"New"}"#] {
        let response =
            world.manage(Request::patch(&world.acme.path()).body("application/json", body)).await.assert(200);
        assert_eq!(response.json()["name"], "New");
    }
    let pair = r#"{"name":"\ud83d\ude00"}"#;
    let response = world.manage(Request::patch(&world.acme.path()).body("application/json", pair)).await.assert(200);
    assert_eq!(response.json()["name"], "😀");
}

on_both_stores!(
    invalid_documents_are_rejected_everywhere,
    mistyped_values_are_rejected_with_their_pointer,
    null_counts_as_absent_for_optional_members,
);

/// Returns the documented members of a route's body.
fn members_of(route: Route) -> Vec<String> {
    let schema = CONTRACT.request_schema(route.method, route.template).expect("a body is documented");
    schema["properties"].as_object().into_iter().flatten().map(|(name, _): (&String, &Value)| name.clone()).collect()
}
