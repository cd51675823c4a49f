//! OpenAPI document: written as YAML, embedded as JSON, served with the deployment's base URL.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pages::openapi_document::{METHODS, array_items, str_member};

/// OpenAPI document as JSON. Its URLs start with `EXAMPLE_BASE_URL`.
pub const DOCUMENT: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

/// Base URL in the YAML source. [`document`] replaces it with the base URL of the deployment.
const EXAMPLE_BASE_URL: &str = "https://eu.api.example.com";

/// Returns the document with the base URL of the deployment.
pub fn document(base_url: &str) -> String {
    let quoted = Value::from(base_url.trim_end_matches('/')).to_string();
    let inside_a_string = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
    DOCUMENT.replace(EXAMPLE_BASE_URL, inside_a_string)
}

/// Operations that the API reference omits: only operators, devices, browsers and load balancers call them.
const INTERNAL_OPERATIONS: [&str; 10] = [
    "returnFromHeaderEnrichment",
    "returnFromOperator",
    "authorizeSandboxDevice",
    "getReference",
    "listErrors",
    "getError",
    "getStylesheet",
    "getIcon",
    "getLiveness",
    "getReadiness",
];

/// Members of request examples that hold URLs of sites that do not exist. The API reference omits them, because readers
/// can send its examples.
const EXAMPLE_URL_MEMBERS: [&str; 2] = ["callback_url", "redirect_url"];

/// Returns the document for the API reference, without internal operations. Readers can send its examples, so these
/// have no `Idempotency-Key`, which would replay the first response, and no URLs of sites that do not exist.
pub fn reference_document(document: &str) -> Result<String, serde_json::Error> {
    let mut root: Value = serde_json::from_str(document)?;
    let mut tags = BTreeSet::new();
    if let Some(paths) = root.get_mut("paths").and_then(Value::as_object_mut) {
        for item in paths.values_mut().filter_map(Value::as_object_mut) {
            item.retain(|_, operation| !INTERNAL_OPERATIONS.contains(&str_member(operation, "operationId")));
            let names =
                METHODS.iter().filter_map(|method| item.get(*method)).flat_map(|node| array_items(node, "tags"));
            tags.extend(names.filter_map(Value::as_str).map(str::to_owned));
            item.values_mut().for_each(make_examples_sendable);
        }
        paths.retain(|_, item| METHODS.iter().any(|method| item.get(method).is_some()));
    }
    if let Some(all) = root.get_mut("tags").and_then(Value::as_array_mut) {
        all.retain(|tag| tags.contains(str_member(tag, "name")));
    }
    Ok(root.to_string())
}

fn make_examples_sendable(operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten().filter_map(Value::as_object_mut) {
        if parameter.get("name").and_then(Value::as_str) == Some("Idempotency-Key") {
            parameter.remove("example");
        }
    }
    let bodies = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut);
    for body in bodies.into_iter().flat_map(|bodies| bodies.values_mut()) {
        if let Some(example) = body.get_mut("example").and_then(Value::as_object_mut) {
            example.retain(|name, _| !EXAMPLE_URL_MEMBERS.contains(&name.as_str()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::{super::openapi_document::ERROR_CODES_EXTENSION, *};

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn parsed() -> Value {
        serde_json::from_str(DOCUMENT).expect("the build wrote JSON")
    }

    fn members<'v>(root: &'v Value, pointer: &str) -> &'v Map<String, Value> {
        root.pointer(pointer).and_then(Value::as_object).unwrap_or_else(|| panic!("no object at {pointer}"))
    }

    /// Lists the callbacks in the document, each with the id of the operation that declares it.
    fn callbacks(root: &Value) -> Vec<(&str, &Value)> {
        let mut found = Vec::new();
        for (_, _, operation) in operations(root) {
            let urls = operation["callbacks"].as_object().into_iter().flat_map(Map::values);
            let items = urls.flat_map(|urls| urls.as_object().into_iter().flat_map(Map::values));
            found.extend(items.map(|item| (str_member(operation, "operationId"), &item["post"])));
        }
        found
    }

    fn operations(root: &Value) -> Vec<(&str, &str, &Value)> {
        let paths = members(root, "/paths").iter();
        paths
            .flat_map(|(path, item)| {
                METHODS.iter().filter_map(move |method| Some((path.as_str(), *method, item.get(method)?)))
            })
            .collect()
    }

    /// Calls `see` with each object of the document and its JSON pointer.
    fn walk<'v>(node: &'v Value, pointer: &str, see: &mut impl FnMut(&str, &'v Map<String, Value>)) {
        match node {
            Value::Object(map) => {
                see(pointer, map);
                for (key, value) in map {
                    walk(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), see);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    walk(item, &format!("{pointer}/{at}"), see);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn document_is_valid_openapi_3_1() {
        let root = parsed();
        assert_eq!(root["openapi"], "3.1.0");
        assert!(root["info"]["title"].is_string() && root["info"]["version"].is_string());
        let names: BTreeSet<_> =
            root["tags"].as_array().into_iter().flatten().map(|tag| &tag["name"]).map(Value::to_string).collect();
        let schemes = members(&root, "/components/securitySchemes");
        let mut ids = BTreeSet::new();
        for (path, method, operation) in operations(&root) {
            let name = format!("{method} {path}");
            assert!(path.starts_with('/'), "{name}");
            assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{name}: the id is taken");
            assert!(operation["summary"].is_string(), "{name}: no summary");
            assert!(names.contains(&operation["tags"][0].to_string()), "{name}: unknown tag");
            for needed in operation["security"]
                .as_array()
                .expect("the operation has `security`")
                .iter()
                .flat_map(|all| all.as_object().expect("a map").keys())
            {
                assert!(schemes.contains_key(needed), "{name}: unknown scheme {needed}");
            }
            let responses = operation["responses"].as_object().expect("responses");
            assert!(!responses.contains_key("default"), "{name}: every status is named");
            // The simulated operator responds with redirects only.
            let success = if name == "get /v1/sandbox/operator/authorize" { "302" } else { "2" };
            assert!(responses.keys().any(|status| status.starts_with(success)), "{name}: no success");
            assert!(responses.keys().all(|status| status.len() == 3 && status.parse::<u16>().is_ok()), "{name}");
        }
        let callbacks = callbacks(&root);
        assert_eq!(callbacks.len(), 4);
        for (operation, callback) in callbacks {
            let id = callback["operationId"].as_str().expect("an id");
            assert!(!ids.contains(id) && callback["security"].is_array(), "the callback of {operation}");
        }
        for tag in root["tags"].as_array().into_iter().flatten() {
            for id in tag["x-operations"].as_array().into_iter().flatten() {
                assert!(ids.remove(id.as_str().expect("a name")), "{id} is listed but not defined");
            }
        }
        assert!(ids.is_empty(), "not listed under a tag: {ids:?}");
    }

    #[test]
    fn path_parameters_match_the_template() {
        let root = parsed();
        for (path, method, operation) in operations(&root) {
            let item = &root["paths"][path];
            let both = [&item["parameters"], &operation["parameters"]];
            let declared: BTreeSet<&str> = both
                .iter()
                .flat_map(|list| list.as_array().into_iter().flatten())
                .map(|parameter| match parameter["$ref"].as_str() {
                    Some(reference) => root.pointer(&reference[1..]).expect("resolves"),
                    None => parameter,
                })
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| {
                    assert_eq!(parameter["required"], true);
                    parameter["name"].as_str().expect("a name")
                })
                .collect();
            let named: BTreeSet<&str> =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(declared, named, "{method} {path}");
        }
    }

    #[test]
    fn all_references_resolve_and_all_components_are_used() {
        let root = parsed();
        let mut used = BTreeSet::new();
        walk(&root, "", &mut |pointer, map| {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                assert!(root.pointer(&reference[1..]).is_some(), "{pointer}: {reference} does not resolve");
                used.insert(reference.to_owned());
            }
        });
        for (kind, all) in members(&root, "/components").iter().filter(|(kind, _)| *kind != "securitySchemes") {
            for name in all.as_object().expect("a map").keys() {
                let reference = format!("#/components/{kind}/{name}");
                assert!(used.contains(&reference), "{reference} is not used");
            }
        }
    }

    #[test]
    fn every_error_code_of_a_response_has_an_example() {
        let root = parsed();
        let mut seen = 0;
        walk(&root, "", &mut |pointer, map| {
            let Some(codes) = map.get(ERROR_CODES_EXTENSION) else { return };
            let codes: BTreeSet<&str> = codes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for (name, media_type) in map["content"].as_object().into_iter().flatten() {
                if name.ends_with("json") {
                    let examples = media_type["examples"].as_object().into_iter().flatten();
                    let examples: BTreeSet<&str> = examples.map(|(code, _)| code.as_str()).collect();
                    assert_eq!(examples, codes, "{pointer}");
                    seen += 1;
                }
            }
        });
        assert!(seen > 70, "only {seen} responses have error codes");
    }

    /// Checks for constructs that client generators could not process.
    #[test]
    fn document_has_nothing_that_breaks_generators() {
        let root = parsed();
        for (name, schema) in members(&root, "/components/schemas") {
            assert!(!name.starts_with("New"), "{name} is a constructor in Go");
            assert_ne!(name, "Configuration", "generated clients have a class of this name");
            assert!(!schema["type"].is_array(), "{name} must be nullable where it is used");
        }
        walk(&root, "", &mut |pointer, map| {
            if pointer.contains("/x-rules") || pointer.contains("/example") {
                return;
            }
            let is_properties = pointer.ends_with("/properties");
            for keyword in ["if", "then", "else", "not", "allOf", "dependentRequired", "unevaluatedProperties"] {
                assert!(is_properties || !map.contains_key(keyword), "{pointer} has `{keyword}`");
            }
            if !is_properties && map.contains_key("oneOf") {
                assert!(map.contains_key("discriminator"), "{pointer}: `oneOf` without a discriminator");
            }
            if !is_properties && map.contains_key("$ref") {
                let siblings: Vec<_> =
                    map.keys().filter(|key| !["$ref", "description"].contains(&key.as_str())).collect();
                assert!(siblings.is_empty(), "{pointer}: {siblings:?} beside `$ref`");
            }
            if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
                assert!(pattern.starts_with('^'), "{pointer}: generators read `/` as a delimiter");
            }
            if let Some(text) = map.get("description").and_then(Value::as_str) {
                assert!(!text.contains("*/") && !text.contains("/*"), "{pointer}: ends a comment");
            }
            let is_array = map.get("type").is_some_and(|kind| kind == "array");
            assert!(!is_array || map.contains_key("items"), "{pointer} has no `items`");
            let is_nested_object = pointer.contains("/schemas/")
                && pointer.matches("/properties/").count() == 1
                && !is_properties
                && map.contains_key("properties");
            assert!(!is_nested_object, "{pointer}: an object without a name");
        });
    }

    #[test]
    fn every_json_response_and_parameter_has_an_example() {
        let root = parsed();
        walk(&root, "", &mut |pointer, map| {
            let is_json = pointer.contains("json") && map.contains_key("schema") && !pointer.contains("openapi.json");
            let is_parameter = map.contains_key("in") && map.contains_key("schema");
            if is_json || is_parameter {
                assert!(map.contains_key("example") || map.contains_key("examples"), "{pointer} has no example");
            }
        });
    }

    #[test]
    fn every_error_code_has_an_example() {
        let root = parsed();
        let examples: BTreeSet<_> = members(&root, "/components/examples")
            .values()
            .map(|named| named["value"]["error_code"].to_string())
            .collect();
        let codes: BTreeSet<_> =
            root["components"]["schemas"]["Problem"]["properties"]["error_code"]["x-extensible-enum"]
                .as_array()
                .expect("codes")
                .iter()
                .map(Value::to_string)
                .collect();
        assert_eq!(examples, codes);
    }

    #[test]
    fn document_contains_the_base_url() -> Outcome {
        let text = document("http://127.0.0.1:8080/");
        assert!(!text.contains(EXAMPLE_BASE_URL));
        let root: Value = serde_json::from_str(&text)?;
        assert_eq!(root["servers"][0]["url"], "http://127.0.0.1:8080");
        assert_eq!(
            root["components"]["examples"]["not_found"]["value"]["type"],
            "http://127.0.0.1:8080/errors/not_found"
        );
        Ok(())
    }

    #[test]
    fn reference_has_no_internal_operations() -> Outcome {
        let (full, reference) = (parsed(), serde_json::from_str::<Value>(&reference_document(DOCUMENT)?)?);
        let ids = |root: &Value| -> BTreeSet<String> {
            let ids = operations(root).into_iter().map(|(_, _, operation)| operation["operationId"].as_str());
            ids.map(|id| id.expect("an id").to_owned()).collect()
        };
        let left_out: BTreeSet<String> = ids(&full).difference(&ids(&reference)).cloned().collect();
        assert_eq!(left_out, INTERNAL_OPERATIONS.map(str::to_owned).into());
        let tags: Vec<&str> = array_items(&reference, "tags").map(|tag| str_member(tag, "name")).collect();
        assert!(tags.contains(&"Sandbox") && !tags.contains(&"Operators"), "{tags:?}");
        assert!(reference["paths"].get("/livez").is_none() && reference["paths"].get("/openapi.json").is_some());
        assert_eq!(reference["components"], full["components"]);
        Ok(())
    }

    #[test]
    fn base_url_is_escaped() -> Outcome {
        let root: Value = serde_json::from_str(&document("https://x\"y\\"))?;
        assert_eq!(root["servers"][0]["url"], "https://x\"y\\");
        Ok(())
    }

    #[test]
    fn examples_of_the_reference_can_be_sent_repeatedly() -> Outcome {
        let reference: Value = serde_json::from_str(&reference_document(DOCUMENT)?)?;
        let mut keys = 0;
        for (path, method, operation) in operations(&reference) {
            for parameter in array_items(operation, "parameters") {
                if str_member(parameter, "name") == "Idempotency-Key" {
                    keys += 1;
                    assert_eq!(parameter.get("example"), None, "{method} {path}");
                }
            }
            let bodies = operation.pointer("/requestBody/content").and_then(Value::as_object);
            for body in bodies.into_iter().flat_map(Map::values) {
                for name in EXAMPLE_URL_MEMBERS {
                    assert_eq!(body["example"].get(name), None, "{method} {path}");
                }
            }
        }
        assert!(keys > 0);
        Ok(())
    }
}
