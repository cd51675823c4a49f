//! Turns the document's extensions into JSON Schema.
//!
//! The document is written for client generators: it omits rules that they cannot express, and does not list the values
//! of sets that later releases may extend. `x-` extensions contain these rules and values, and the responses of this
//! release must conform to them.

use serde_json::{Map, Value, json};

use super::pointer::members;

/// Applies `x-extensible-enum`, `x-rules` and `x-error-codes`.
pub fn apply_extensions(node: &mut Value) {
    match node {
        Value::Object(object) => {
            // Clients must accept values of later releases; this release only sends the listed ones.
            if let Some(known) = object.remove("x-extensible-enum") {
                object.insert("enum".to_owned(), known);
            }
            if let Some(Value::Array(rules)) = object.remove("x-rules") {
                add_rules(object, rules);
            }
            if let Some(codes) = object.remove("x-error-codes") {
                let rule = json!({"required": ["error_code"], "properties": {"error_code": {"enum": codes}}});
                for media_type in json_media_types(object) {
                    add_rules(media_type, vec![rule.clone()]);
                }
            }
            object.values_mut().for_each(apply_extensions);
        }
        Value::Array(items) => items.iter_mut().for_each(apply_extensions),
        _ => {}
    }
}

/// Adds rules to a schema. If the object is a media type, adds them to its schema.
fn add_rules(object: &mut Map<String, Value>, rules: Vec<Value>) {
    match object.get_mut("schema") {
        Some(schema) => {
            let all: Vec<Value> = [schema.take()].into_iter().chain(rules).collect();
            *schema = json!({"allOf": all});
        }
        None => {
            object.insert("allOf".to_owned(), rules.into());
        }
    }
}

fn json_media_types(response: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let content = response.get_mut("content").and_then(Value::as_object_mut).into_iter().flatten();
    content.filter(|(name, _)| name.ends_with("json")).filter_map(|(_, media_type)| media_type.as_object_mut())
}

#[test]
fn extensions_become_schemas() {
    let mut root = json!({
        "thing": {"type": "object", "x-rules": [{"required": ["a"]}], "properties": {"b": {"x-extensible-enum": ["c"]}}},
        "response": {
            "x-error-codes": ["gone"],
            "content": {"application/problem+json": {"schema": {"$ref": "#/thing"}}, "text/html": {"schema": {}}},
        },
        "media": {"schema": {"$ref": "#/thing"}, "x-rules": [{"required": ["d"]}]},
    });
    apply_extensions(&mut root);
    assert_eq!(root["thing"]["allOf"], json!([{"required": ["a"]}]));
    assert_eq!(root["thing"]["properties"]["b"], json!({"enum": ["c"]}));
    let problem = &root["response"]["content"]["application/problem+json"]["schema"]["allOf"];
    assert_eq!(problem[0], json!({"$ref": "#/thing"}));
    assert_eq!(problem[1]["properties"]["error_code"], json!({"enum": ["gone"]}));
    assert_eq!(root["response"]["content"]["text/html"], json!({"schema": {}}));
    assert_eq!(root["media"], json!({"schema": {"allOf": [{"$ref": "#/thing"}, {"required": ["d"]}]}}));
    assert_eq!(members(&root, "/response").count(), 1);
}
