//! Strict JSON, the same on every route that takes a body.

use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    routes::{self, Ids, Route, Tokens},
    sim_register::SimRegister,
    world::{CONTRACT, World},
};

/// Documents that are not one JSON object, and what is told of them.
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

/// The culprit is named, nothing is done, and it is never our fault.
async fn documents_that_are_refused_everywhere(world: World) {
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let events = format!("{}/audit-events", world.acme.path());
    let before = world.manage(Request::get(&events)).await.assert(200).json();
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        for (case, body, told) in broken() {
            let request = Request::new(route.method, &routes::fill(route.template, &ids));
            let request = request.bearer(tokens.for_route(route)).body("application/json", body);
            let answer = world.send(request).await;
            assert_eq!((answer.status, answer.code().as_str()), (400, "bad_request"), "{case} at {route:?}");
            assert!(answer.detail().starts_with(told), "{case} at {route:?}: {}", answer.detail());
        }
    }
    assert_eq!(world.manage(Request::get(&events)).await.assert(200).json(), before);
    for route in routes::checks() {
        let list = world.send(Request::get(route.template).bearer(tokens.for_route(route))).await.assert(200).json();
        assert_eq!(list["page"]["total_elements"], 0, "{route:?}");
    }
}

/// A good document with one member more, at any depth, is a bad one.
#[tokio::test]
async fn an_unknown_member_is_refused_at_its_place() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let ids = Ids::of(&world.acme, &project);
    let tokens = Tokens::of(&world, &project).await;
    for route in routes::with_body() {
        let mut body = route.good_body();
        body["surprise"] = json!(null);
        let request = Request::new(route.method, &routes::fill(route.template, &ids)).json(&body);
        let answer = world.send(request.bearer(tokens.for_route(route))).await.assert_problem(400, "bad_request");
        assert!(answer.detail().starts_with("`/surprise`: "), "{route:?}: {}", answer.detail());
    }
}

/// Every member that a route documents, with a value of every kind: taken, or refused by its pointer.
async fn a_value_of_any_kind_is_taken_or_refused_by_its_pointer(world: World) {
    SimRegister::simulated(&world);
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
    // The other project is changed in every way, and disabled at last.
    let tokens = Tokens::of(&world, &world.project("Checks", json!({})).await).await;
    // Nobody is asked about too often, and nothing is called the same.
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
                let answer = world.send(request.bearer(tokens.for_route(route))).await;
                match answer.status {
                    200 | 201 => {}
                    400 => assert!(
                        answer.detail().starts_with(&format!("`/{member}")),
                        "{member} {value} at {route:?}: {}",
                        answer.detail()
                    ),
                    409 => assert_eq!(answer.code(), "project_name_taken"),
                    status => panic!("{status} for {member} {value} at {route:?}"),
                }
            }
        }
    }
}

/// Many serialisers write `null` for what is not set. In a merge patch it removes.
async fn null_counts_as_absent_where_a_member_is_optional(world: World) {
    SimRegister::simulated(&world);
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
        let answer = send(&body).await;
        assert_eq!(answer.status, 201, "{route:?}: {}", answer.text());
        for required in good.as_object().unwrap().keys() {
            let mut without = body.clone();
            without[required] = json!(null);
            let answer = send(&without).await.assert_problem(400, "bad_request");
            assert!(answer.detail().starts_with(&format!("`/{required}`")), "{route:?}: {}", answer.detail());
        }
    }
    let sms = json!({"from": "+990123456700", "to": "+99000000001", "body": "x", "faults": {"parts": null}});
    for sms in [sms.clone(), json!({"from": sms["from"], "to": sms["to"], "body": "x", "faults": null})] {
        let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
        world.send(Request::post("/v1/sandbox/inbound-sms").bearer(&token).json(&sms)).await.assert(202);
    }
}

#[tokio::test]
async fn other_types_and_encodings_are_415() {
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
            let answer = world.send(request.clone().bearer(tokens.for_route(route))).await;
            assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{request:?}");
        }
    }
    for good in ["application/json", "Application/JSON", "application/json;charset=utf-8", "application/json ; x=y"] {
        world.manage(Request::patch(&world.acme.path()).body(good, r#"{"name":"New"}"#)).await.assert(200);
    }
}

/// What a document may look like and still be good.
#[tokio::test]
async fn spelling_is_free_where_json_leaves_it_free() {
    let world = World::sqlite().await;
    for body in ["\r\n\t { \"name\" : \"New\" } \n", r#"{"\u006eame":"\u004e\u0065w"}"#, r#"{"name":"New"}"#] {
        let answer = world.manage(Request::patch(&world.acme.path()).body("application/json", body)).await.assert(200);
        assert_eq!(answer.json()["name"], "New");
    }
    let pair = r#"{"name":"\ud83d\ude00"}"#;
    let answer = world.manage(Request::patch(&world.acme.path()).body("application/json", pair)).await.assert(200);
    assert_eq!(answer.json()["name"], "😀");
}

on_both_stores!(
    documents_that_are_refused_everywhere,
    a_value_of_any_kind_is_taken_or_refused_by_its_pointer,
    null_counts_as_absent_where_a_member_is_optional,
);

/// The members that the document gives the body of a route.
fn members_of(route: Route) -> Vec<String> {
    let schema = CONTRACT.request_schema(route.method, route.template).expect("a body is documented");
    schema["properties"].as_object().into_iter().flatten().map(|(name, _): (&String, &Value)| name.clone()).collect()
}
