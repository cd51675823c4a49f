//! Parses the OpenAPI document: resolves references, flattens schemas and orders operations.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(super) const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Limits nested references, which may be circular.
const MAX_REFERENCE_DEPTH: usize = 16;

#[derive(Debug)]
pub(super) struct OpenApiDocument {
    root: Value,
}

#[derive(Debug)]
pub(super) struct Operation<'d> {
    /// Upper case.
    pub(super) method: String,
    pub(super) path: &'d str,
    node: &'d Value,
}

impl OpenApiDocument {
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { root: serde_json::from_str(text)? })
    }

    #[cfg(test)]
    pub(super) fn from_value(root: Value) -> Self {
        Self { root }
    }

    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn base_url(&self) -> &str {
        str_member(self.at("/servers/0"), "url")
    }

    /// Follows references.
    pub(super) fn resolve<'d>(&'d self, node: &'d Value) -> &'d Value {
        let mut node = node;
        for _ in 0..MAX_REFERENCE_DEPTH {
            match node.get("$ref").and_then(Value::as_str) {
                Some(reference) => node = self.at(reference.trim_start_matches('#')),
                None => break,
            }
        }
        node
    }

    /// Merges a schema with its reference and its `allOf`. Its own properties take precedence.
    pub(super) fn flatten(&self, schema: &Value) -> Map<String, Value> {
        self.flatten_within(schema, MAX_REFERENCE_DEPTH)
    }

    fn flatten_within(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut flat = Map::new();
        let Some(depth) = depth.checked_sub(1) else { return flat };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            overlay(&mut flat, self.flatten_within(self.at(reference.trim_start_matches('#')), depth));
        }
        for part in array_items(schema, "allOf") {
            overlay(&mut flat, self.flatten_within(part, depth));
        }
        let own = schema.as_object().into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "allOf"));
        overlay(&mut flat, own.map(|(key, value)| (key.clone(), value.clone())).collect());
        flat
    }

    /// Operations by tag, in the order of the tag's `x-operations`.
    pub(super) fn operations(&self) -> Vec<(&Value, Vec<Operation<'_>>)> {
        let tags = array_items(&self.root, "tags");
        tags.map(|tag| {
            let mut operations: Vec<_> = self
                .all_operations()
                .into_iter()
                .filter(|operation| operation.tag() == str_member(tag, "name"))
                .collect();
            let listed = |id: &str| array_items(tag, "x-operations").position(|name| name == id);
            operations.sort_by_key(|operation| listed(operation.id()).unwrap_or(usize::MAX));
            (tag, operations)
        })
        .collect()
    }

    fn all_operations(&self) -> Vec<Operation<'_>> {
        let paths = self.at("/paths").as_object().into_iter().flatten();
        let at_path = |(path, item)| {
            METHODS.iter().filter_map(move |method| {
                let node = Value::get(item, method)?;
                Some(Operation { method: method.to_uppercase(), path, node })
            })
        };
        paths.map(|(path, item)| (path.as_str(), item)).flat_map(at_path).collect()
    }

    pub(super) fn error_codes(&self) -> BTreeSet<&str> {
        let codes = self.at("/components/schemas/Problem/properties/error_code");
        known_values(codes).filter_map(Value::as_str).collect()
    }

    /// Error codes of a response, in document order.
    pub(super) fn error_codes_of(&self, response: &Value) -> Vec<String> {
        let mut codes = Vec::new();
        for media in response.get("content").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            let schema = self.flatten(media.get("schema").unwrap_or(&Value::Null));
            let Some(code) = schema.get("properties").and_then(|all| all.get("error_code")) else { continue };
            let code = Value::Object(self.flatten(code));
            let one = code.get("const").into_iter();
            let several = known_values(&code).filter(|_| code.get("const").is_none());
            for value in one.chain(several).filter_map(Value::as_str) {
                if !codes.iter().any(|known| known == value) {
                    codes.push(value.to_owned());
                }
            }
        }
        codes
    }
}

impl<'d> Operation<'d> {
    pub(super) fn id(&self) -> &'d str {
        str_member(self.node, "operationId")
    }

    pub(super) fn tag(&self) -> &'d str {
        self.node.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    /// Anchor of the operation in the API reference: see `assets/reference.js`.
    pub(super) fn anchor(&self) -> String {
        format!("tag/{}/{}", self.tag().to_lowercase().replace(' ', "-"), self.id())
    }

    pub(super) fn summary(&self) -> &'d str {
        str_member(self.node, "summary")
    }

    /// Statuses and responses, with references resolved.
    pub(super) fn responses(&self, document: &'d OpenApiDocument) -> Vec<(&'d str, &'d Value)> {
        let all = self.node.get("responses").and_then(Value::as_object).into_iter().flatten();
        all.map(|(status, response)| (status.as_str(), document.resolve(response))).collect()
    }
}

/// Returns a string member, or an empty string.
pub(super) fn str_member<'v>(node: &'v Value, name: &str) -> &'v str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of an array member, or none.
pub(super) fn array_items<'v>(node: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    node.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Lists the known values of an extensible enum.
pub(super) const EXTENSIBLE_ENUM: &str = "x-extensible-enum";

/// Values of a closed or extensible enum.
pub(super) fn known_values(schema: &Value) -> impl Iterator<Item = &Value> {
    array_items(schema, "enum").chain(array_items(schema, EXTENSIBLE_ENUM))
}

fn overlay(base: &mut Map<String, Value>, top: Map<String, Value>) {
    for (key, value) in top {
        match (key.as_str(), base.get_mut(&key), value) {
            ("properties", Some(Value::Object(known)), Value::Object(more)) => {
                for (name, schema) in more {
                    let both = match known.remove(&name) {
                        Some(first) => Value::from_iter([("allOf", Value::from(vec![first, schema]))]),
                        None => schema,
                    };
                    known.insert(name, both);
                }
            }
            ("required", Some(Value::Array(known)), Value::Array(more)) => {
                for name in more {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            (_, _, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn composed_schema_is_flattened() {
        let document = OpenApiDocument::from_value(json!({"components": {"schemas": {
            "Base": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "enum": ["x", "y"]}}},
        }}}));
        let flat = document.flatten(&json!({
            "allOf": [{"$ref": "#/components/schemas/Base"}],
            "required": ["b", "a"],
            "properties": {"a": {"const": "x"}, "b": {}},
        }));
        assert_eq!(flat["required"], json!(["a", "b"]));
        let a = document.flatten(&flat["properties"]["a"]);
        assert_eq!(Value::Object(a), json!({"type": "string", "enum": ["x", "y"], "const": "x"}));
    }

    #[test]
    fn circular_references_terminate() {
        let document = OpenApiDocument::from_value(json!({"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}));
        assert!(document.flatten(&json!({"$ref": "#/a"})).is_empty());
        assert!(document.resolve(&json!({"$ref": "#/a"})).is_object());
    }
}
