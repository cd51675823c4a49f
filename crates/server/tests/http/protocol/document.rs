//! Tests that the OpenAPI document, the router and the error catalog agree.

use std::collections::BTreeSet;

use ringtrue_api::openapi;
use ringtrue_web::error_catalog::ProblemCode;
use serde_json::{Value, json};

use crate::{
    client::{self, Request},
    contract::strict,
    world::{CONTRACT, World},
};

#[test]
fn every_route_is_documented_and_every_documented_route_exists() {
    let documented = CONTRACT.routes();
    let served: BTreeSet<(String, String)> =
        ringtrue_api::public_routes().iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    assert_eq!(documented, served);
}

#[test]
fn idempotent_routes_are_documented() {
    let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    let has_key = |operation: &Value| {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["name"] == "Idempotency-Key")
    };
    let paths = document["paths"].as_object().unwrap().iter();
    let documented: BTreeSet<&str> =
        paths.filter(|(_, methods)| has_key(&methods["post"])).map(|(path, _)| path.as_str()).collect();
    let routes = ringtrue_api::public_routes();
    let declared: BTreeSet<&str> =
        routes.iter().filter(|route| route.policy.is_idempotent).map(|route| route.path).collect();
    assert_eq!(documented, declared);
}

#[test]
fn documented_error_codes_match_the_catalog() {
    let documented = CONTRACT.error_codes();
    let catalogue: BTreeSet<String> = ProblemCode::ALL.iter().map(|code| code.entry().code.to_owned()).collect();
    assert_eq!(documented, catalogue);
}

/// Calls `visit` with every member of every object and its path.
fn walk<'d>(node: &'d Value, path: &mut Vec<&'d str>, visit: &mut impl FnMut(&[&'d str], &'d Value)) {
    match node {
        Value::Object(members) => {
            for (name, member) in members {
                path.push(name);
                visit(path, member);
                walk(member, path, visit);
                path.pop();
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, visit)),
        _ => {}
    }
}

/// Collects the values of every `$ref` in a node, and in the nodes to which they refer.
fn follow_references<'d>(root: &'d Value, node: &'d Value, found: &mut BTreeSet<&'d str>) {
    let mut named = vec![];
    walk(node, &mut vec![], &mut |path, member| {
        named.extend(member.as_str().filter(|_| path.last() == Some(&"$ref")));
    });
    for reference in named {
        if found.insert(reference) {
            follow_references(root, root.pointer(reference.trim_start_matches('#')).unwrap(), found);
        }
    }
}

/// Returns the bodies that a client sends, or those that it receives (responses and callbacks), and everything to which
/// they refer, by JSON pointer.
fn bodies(root: &Value, is_received: bool) -> Vec<(String, &Value)> {
    let mut direct = vec![];
    walk(&root["paths"], &mut vec![], &mut |path, node| {
        let is_body = match path.last() {
            Some(&"requestBody") => path.contains(&"callbacks") == is_received,
            Some(&"responses") => is_received && !path.contains(&"callbacks"),
            _ => false,
        };
        if is_body {
            direct.push((path.join("/"), node));
        }
    });
    let mut references = BTreeSet::new();
    for (_, node) in &direct {
        follow_references(root, node, &mut references);
    }
    let named = references.into_iter().map(|name| (name.to_owned(), root.pointer(&name[1..]).unwrap()));
    direct.into_iter().chain(named).collect()
}

/// Clients generated from the document must accept values that a later release adds, such as error codes.
#[test]
fn extensible_sets_in_responses_are_not_enums() {
    const EXTENSIBLE: [&str; 13] = [
        "error_code",
        "error",
        "action",
        "product_id",
        "product_name",
        "scope",
        "scopes",
        "products",
        "product",
        "type",
        "methods",
        "scopes_supported",
        "sim_change_within",
    ];
    let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    let (mut closed, mut open) = (vec![], 0);
    for (pointer, node) in bodies(&document, true) {
        let is_code = pointer.ends_with("ErrorCode") || pointer.ends_with("Scope") || pointer.ends_with("Method");
        walk(node, &mut vec![], &mut |path, member| {
            let (name, parents) = path.split_last().unwrap();
            let is_of_code = parents.windows(2).any(|pair| pair[0] == "properties" && EXTENSIBLE.contains(&pair[1]));
            open += usize::from(*name == "x-extensible-enum");
            if ["enum", "const"].contains(name) && (is_of_code || is_code) && *member != json!("management") {
                closed.push(format!("{pointer}: {}", path.join("/")));
            }
        });
    }
    assert_eq!(closed, [""; 0]);
    assert!(open > 20, "{open}");
}

/// A request can only contain values that this release knows, so a generated client can reject others before it sends
/// them.
#[test]
fn sets_in_requests_are_enums() {
    let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    let (mut open, mut closed) = (vec![], 0);
    for (pointer, node) in bodies(&document, false) {
        walk(node, &mut vec![], &mut |path, _| {
            closed += usize::from(path.last() == Some(&"enum"));
            if path.last() == Some(&"x-extensible-enum") {
                open.push(format!("{pointer}: {}", path.join("/")));
            }
        });
    }
    assert_eq!(open, [""; 0]);
    assert!(closed >= 5, "{closed}");
}

#[test]
fn examples_match_their_schemas() {
    let mut root: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    strict::apply_extensions(&mut root);
    let mut seen = 0;
    let mut objects = vec![];
    walk(&root, &mut vec![], &mut |path, node| {
        let is_example = ["example", "examples", "properties"].iter().any(|part| path.contains(part));
        if !is_example && node.get("schema").is_some() {
            objects.push((path.join("/"), node));
        }
    });
    for (path, node) in objects {
        let schema = json!({"allOf": [node["schema"]], "components": root["components"]});
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap();
        let several = node["examples"].as_object().into_iter().flat_map(serde_json::Map::values);
        let several = several.map(|named| match named["$ref"].as_str() {
            Some(reference) => &root.pointer(&reference[1..]).unwrap()["value"],
            None => &named["value"],
        });
        for example in node.get("example").into_iter().chain(several) {
            let problems: Vec<_> =
                validator.iter_errors(example).map(|e| format!("{} at {}", e, e.instance_path())).collect();
            assert!(problems.is_empty(), "{path}: {problems:?}");
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} examples were found");
}

#[test]
fn example_idempotency_keys_are_unique() {
    let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    let mut examples = BTreeSet::new();
    for operation in document["paths"].as_object().unwrap().values().filter_map(|path| path.get("post")) {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for key in parameters.filter(|parameter| parameter["name"] == "Idempotency-Key") {
            assert!(examples.insert(key["example"].as_str().unwrap()), "{} twice", key["example"]);
        }
    }
    assert!(examples.len() >= 10, "{examples:?}");
}

/// Detects unquoted commas in YAML and assignable phone numbers.
#[test]
fn document_has_no_yaml_mistakes_or_real_numbers() {
    let document: Value = serde_json::from_str(openapi::DOCUMENT).unwrap();
    walk(&document, &mut vec![], &mut |path, member| {
        let name = path.last().unwrap();
        assert!(!name.ends_with('.'), "{path:?}");
        assert!(!member.as_str().is_some_and(|text| text.contains("+44")), "{path:?}: {member}");
    });
}

#[tokio::test]
async fn every_error_has_a_page_at_its_type() {
    let world = World::sqlite().await;
    for code in ProblemCode::ALL {
        let entry = code.entry();
        let page = world.send(Request::new("GET", &format!("/errors/{}", entry.code))).await;
        assert_eq!(page.status, 200, "{}", entry.code);
        let text = String::from_utf8(page.body).unwrap();
        assert!(text.contains(entry.code) && text.contains(entry.title), "{}", entry.code);
    }
    assert_eq!(world.send(Request::new("GET", "/errors/no_such_code")).await.status, 404);
}

#[tokio::test]
async fn reference_and_document_are_served() {
    let world = World::sqlite().await;
    let reference = world.send(Request::new("GET", "/docs")).await;
    assert_eq!((reference.status, reference.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(reference.header("content-security-policy").unwrap().contains("default-src 'none'"));
    for script in ["/assets/scalar.js", "/assets/reference.js", "/assets/theme.js"] {
        let page = String::from_utf8(reference.body.clone()).unwrap();
        assert!(page.contains(&format!("src=\"{script}\"")), "{page}");
        let served = client::send(world.node.address, &Request::get(script)).await.assert(200);
        assert_eq!(served.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert!(!served.body.is_empty());
    }

    let document = world.send(Request::new("GET", "/openapi.json")).await.json();
    assert_eq!(document["servers"][0]["url"], world.node.base_url.as_str());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
}
