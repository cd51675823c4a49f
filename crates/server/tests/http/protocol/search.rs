//! Searching projects with RSQL.

use jiff::SignedDuration;
use serde_json::json;
use url::form_urlencoded::byte_serialize;

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    world::World,
};

/// Creates projects: Alpha at 0 s, Beta at 10 s (live), Gamma at 20 s (disabled), and two with special characters at 30
/// s and 40 s.
async fn populate(world: &World) {
    world.project("Alpha", json!({})).await;
    world.advance(SignedDuration::from_secs(10));
    world.project("Beta", json!({"mode": "live"})).await;
    world.advance(SignedDuration::from_secs(10));
    let gamma = world.project("Gamma", json!({})).await;
    world.manage(Request::patch(&gamma.path).json(&json!({"disabled": true}))).await.assert(200);
    world.advance(SignedDuration::from_secs(10));
    world.project("100% 'off'; a_b, (c)", json!({})).await;
    world.advance(SignedDuration::from_secs(10));
    world.project("back\\slash \"quoted\" *", json!({})).await;
    let other = world.another_tenant().await;
    world.project_of(&other, "Alpha", json!({})).await;
}

const SPECIAL_NAME: &str = "100% 'off'; a_b, (c)";
const QUOTED_NAME: &str = "back\\slash \"quoted\" *";

async fn expressions_return_matching_projects(world: World) {
    populate(&world).await;
    for (search, expected) in [
        ("name==Alpha", &["Alpha"][..]),
        ("name==alpha", &[]),
        ("name!=Alpha", &[QUOTED_NAME, SPECIAL_NAME, "Gamma", "Beta"]),
        ("name==*a", &["Gamma", "Beta", "Alpha"]),
        ("name==*et*", &["Beta"]),
        ("name!=*a", &[QUOTED_NAME, SPECIAL_NAME]),
        ("name=in=(Alpha,Beta,Delta)", &["Beta", "Alpha"]),
        ("name=out=(Alpha,Beta)", &[QUOTED_NAME, SPECIAL_NAME, "Gamma"]),
        ("name=='100% \\'off\\'; a_b, (c)'", &[SPECIAL_NAME]),
        ("name==\"100%*\"", &[SPECIAL_NAME]),
        ("name==\"%\"", &[]),
        ("name==A_pha", &[]),
        ("name==\"back\\\\slash*\"", &[QUOTED_NAME]),
        ("mode==live", &["Beta"]),
        ("mode!=live", &[QUOTED_NAME, SPECIAL_NAME, "Gamma", "Alpha"]),
        ("mode=in=(live,sandbox);disabled==true", &["Gamma"]),
        ("disabled==false", &[QUOTED_NAME, SPECIAL_NAME, "Beta", "Alpha"]),
        ("created_at=gt=2026-01-01T00:00:10Z", &[QUOTED_NAME, SPECIAL_NAME, "Gamma"]),
        ("created_at=ge=2026-01-01T00:00:10Z", &[QUOTED_NAME, SPECIAL_NAME, "Gamma", "Beta"]),
        ("created_at<2026-01-01T00:00:10Z", &["Alpha"]),
        ("created_at<=2026-01-01T00:00:10.000Z", &["Beta", "Alpha"]),
        ("created_at==2026-01-01T01:00:20%2B01:00", &["Gamma"]),
        ("updated_at>2026-01-01T00:00:05Z;updated_at<2026-01-01T00:00:25Z", &["Gamma", "Beta"]),
        ("name==Alpha,name==Beta", &["Beta", "Alpha"]),
        ("name==Alpha or name==Beta and mode==sandbox", &["Alpha"]),
        ("(name==Alpha or name==Beta) and mode==live", &["Beta"]),
        ("name==Alpha;mode==live", &[]),
        ("name=='Alpha' or 'x'=='x'", &[]),
    ] {
        if search.contains("'x'==") {
            find(&world, search).await.assert_problem(400, "search_invalid");
            continue;
        }
        let page = find(&world, search).await.assert(200).json();
        let names: Vec<_> =
            page["content"].as_array().unwrap().iter().map(|project| project["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{search}");
        assert_eq!(page["page"]["total_elements"], expected.len(), "{search}");
    }
}

async fn search_text_is_never_interpreted_as_sql(world: World) {
    populate(&world).await;
    for value in
        ["' OR 1=1--", "'; drop table projects; --", "x' or 'a'='a", "\\' or 1=1 --", "$1", "{0}", "%27%20or%201"]
    {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let page = find(&world, &format!("name==\"{quoted}\"")).await.assert(200).json();
        assert_eq!(page["content"], json!([]), "{value}");
    }
    assert_eq!(find(&world, "name==*").await.json()["page"]["total_elements"], 5, "all projects still exist");
}

#[tokio::test]
async fn invalid_expressions_are_rejected_with_position_and_reason() {
    let world = World::sqlite().await;
    for (search, expected_detail) in [
        ("", "column 1"),
        ("name", "column 5"),
        ("name==", "column 7"),
        ("==x", "column 1"),
        ("name==Alpha;", "column 13"),
        ("name==Alpha,", "column 13"),
        ("name==Alpha mode==live", "column"),
        ("(name==Alpha", "column"),
        ("name==Alpha)", "column"),
        ("name=='Alpha", "column"),
        ("name=in=()", "column"),
        ("name==(Alpha,Beta)", "column"),
        ("name=like=x", "`=like=` is not an operator"),
        ("disabled=gt=false", "`=gt=` does not apply to `disabled`"),
        ("mode==Live", "allowed are `sandbox`, `live`"),
        ("disabled==yes", "allowed are `true`, `false`"),
        ("created_at==yesterday", "RFC 3339"),
        ("created_at==2026-01-01", "RFC 3339"),
        ("created_at==2026-01-01T00:00:00+01:00", "%2B"),
        ("owner==me", "`owner` is not a filterable field"),
        ("project_id==01a1d964-6e3b-7c1d-8a52-4f9e0b6d2c71", "not a filterable field"),
        ("products==sim_swap", "not a filterable field"),
        ("+447700900123==x", "not a filterable field"),
        ("name==\"a\u{0}b\"", "NUL"),
    ] {
        let response = find(&world, search).await;
        assert_eq!(response.status, 400, "{search}");
        let response = response.assert_problem(400, "search_invalid");
        assert!(response.detail().contains(expected_detail), "{search}: {}", response.detail());
        assert!(!response.text().contains("447700900123"), "the error does not echo the number");
    }
}

#[tokio::test]
async fn expression_size_is_limited() {
    let world = World::sqlite().await;
    let nested = |depth: usize| format!("{}name==x{}", "(".repeat(depth), ")".repeat(depth));
    let many = |count: usize| vec!["name==x"; count].join(",");
    let list = |count: usize| format!("name=in=({})", vec!["x"; count].join(","));
    let long = |bytes: usize| format!("name=={}", "x".repeat(bytes - "name==".len()));
    for (search, good) in [
        (nested(16), true),
        (nested(17), false),
        (nested(1_000), false),
        (many(50), true),
        (many(51), false),
        (list(100), true),
        (list(101), false),
        (long(2_048), true),
        (long(2_049), false),
        ("\\".repeat(2_048), false),
        ("'".repeat(2_047), false),
        (",name==x".repeat(300), false),
    ] {
        let response = find(&world, &search).await;
        if good {
            response.assert(200)
        } else {
            response.assert_problem(400, "search_invalid")
        };
    }
}

on_both_stores!(expressions_return_matching_projects, search_text_is_never_interpreted_as_sql);

/// Searches projects. Sends `+` and `%2B` verbatim and encodes everything else.
async fn find(world: &World, search: &str) -> HttpResponse {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let spaced = |text: &str| text.split('+').map(encode).collect::<Vec<_>>().join("+");
    let query = search.split("%2B").map(spaced).collect::<Vec<_>>().join("%2B");
    world.manage(Request::get(&format!("{}/projects?size=100&search={query}", world.acme.path()))).await
}
