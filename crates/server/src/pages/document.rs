//! Reading the API document: references, composed schemas, operations in reading order.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// References and compositions that nest deeper than this are a mistake, or a circle.
const DEEPEST: usize = 16;

#[derive(Debug)]
pub(super) struct Document {
    root: Value,
}

/// One method at one path.
#[derive(Debug)]
pub(super) struct Operation<'d> {
    /// Upper case.
    pub(super) method: String,
    pub(super) path: &'d str,
    node: &'d Value,
    item: &'d Value,
}

/// What proves who is calling.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Access<'d> {
    Anyone,
    Client,
    Token { scope: &'d str },
}

impl Document {
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { root: serde_json::from_str(text)? })
    }

    #[cfg(test)]
    pub(super) fn of(root: Value) -> Self {
        Self { root }
    }

    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn base_url(&self) -> &str {
        text(self.at("/servers/0"), "url")
    }

    /// Follows references until there is something else.
    pub(super) fn resolve<'d>(&'d self, node: &'d Value) -> &'d Value {
        let mut node = node;
        for _ in 0..DEEPEST {
            match node.get("$ref").and_then(Value::as_str) {
                Some(reference) => node = self.at(reference.trim_start_matches('#')),
                None => break,
            }
        }
        node
    }

    /// A schema with its reference and its `allOf` written into it. What stands nearer wins.
    pub(super) fn flatten(&self, schema: &Value) -> Map<String, Value> {
        self.flatten_within(schema, DEEPEST)
    }

    fn flatten_within(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let mut flat = Map::new();
        let Some(depth) = depth.checked_sub(1) else { return flat };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            overlay(&mut flat, self.flatten_within(self.at(reference.trim_start_matches('#')), depth));
        }
        for part in items(schema, "allOf") {
            overlay(&mut flat, self.flatten_within(part, depth));
        }
        let own = schema.as_object().into_iter().flatten().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "allOf"));
        overlay(&mut flat, own.map(|(key, value)| (key.clone(), value.clone())).collect());
        flat
    }

    /// All operations: tag by tag, and within a tag as `x-operations` lists them.
    pub(super) fn operations(&self) -> Vec<(&Value, Vec<Operation<'_>>)> {
        let tags = items(&self.root, "tags");
        tags.map(|tag| {
            let mut operations: Vec<_> =
                self.unordered().into_iter().filter(|operation| operation.tag() == text(tag, "name")).collect();
            let listed = |id: &str| items(tag, "x-operations").position(|name| name == id);
            operations.sort_by_key(|operation| listed(operation.id()).unwrap_or(usize::MAX));
            (tag, operations)
        })
        .collect()
    }

    fn unordered(&self) -> Vec<Operation<'_>> {
        let paths = self.at("/paths").as_object().into_iter().flatten();
        let at_path = |(path, item)| {
            METHODS.iter().filter_map(move |method| {
                let node = Value::get(item, method)?;
                Some(Operation { method: method.to_uppercase(), path, node, item })
            })
        };
        paths.map(|(path, item)| (path.as_str(), item)).flat_map(at_path).collect()
    }

    pub(super) fn error_codes(&self) -> BTreeSet<&str> {
        let codes = self.at("/components/schemas/Problem/properties/error_code");
        known_values(codes).filter_map(Value::as_str).collect()
    }

    /// The error codes that a response may carry, in the order of the document.
    pub(super) fn codes_of(&self, response: &Value) -> Vec<String> {
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
        text(self.node, "operationId")
    }

    pub(super) fn tag(&self) -> &'d str {
        self.node.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn summary(&self) -> &'d str {
        text(self.node, "summary")
    }

    pub(super) fn description(&self) -> &'d str {
        text(self.node, "description")
    }

    /// Those of the path first, references followed.
    pub(super) fn parameters(&self, document: &'d Document) -> Vec<&'d Value> {
        let all = items(self.item, "parameters").chain(items(self.node, "parameters"));
        all.map(|parameter| document.resolve(parameter)).collect()
    }

    /// Content types of the request body with their media types, the preferred one first.
    pub(super) fn bodies(&self) -> Vec<(&'d str, &'d Value)> {
        let content = self.node.pointer("/requestBody/content").and_then(Value::as_object);
        let mut all: Vec<_> = content.into_iter().flatten().map(|(name, media)| (name.as_str(), media)).collect();
        all.sort_by_key(|(name, _)| !name.contains("merge-patch"));
        all
    }

    /// Statuses with their responses, references followed.
    pub(super) fn responses(&self, document: &'d Document) -> Vec<(&'d str, &'d Value)> {
        let all = self.node.get("responses").and_then(Value::as_object).into_iter().flatten();
        all.map(|(status, response)| (status.as_str(), document.resolve(response))).collect()
    }

    pub(super) fn access(&self) -> Access<'d> {
        let needed = self.node.pointer("/security/0").unwrap_or(&Value::Null);
        match needed.pointer("/token/0").and_then(Value::as_str) {
            Some(scope) => Access::Token { scope },
            None if needed.get("client").is_some() => Access::Client,
            None => Access::Anyone,
        }
    }
}

/// A text member; empty when there is none.
pub(super) fn text<'v>(node: &'v Value, name: &str) -> &'v str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of an array member; none when there is none.
pub(super) fn items<'v>(node: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    node.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Lists the known values of a set that may grow.
pub(super) const OPEN_SET: &str = "x-extensible-enum";

/// The values that a schema lists, of a set that may grow or of one that cannot.
pub(super) fn known_values(schema: &Value) -> impl Iterator<Item = &Value> {
    items(schema, "enum").chain(items(schema, OPEN_SET))
}

/// The example of a media type, a parameter or a header: `example`, else the first of `examples`.
pub(super) fn example<'d>(document: &'d Document, node: &'d Value) -> Option<&'d Value> {
    node.get("example").or_else(|| {
        let named = node.get("examples")?.as_object()?.values().next()?;
        document.resolve(named).get("value")
    })
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
    fn a_composed_schema_becomes_one() {
        let document = Document::of(json!({"components": {"schemas": {
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
    fn a_circle_of_references_ends() {
        let document = Document::of(json!({"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}));
        assert!(document.flatten(&json!({"$ref": "#/a"})).is_empty());
        assert!(document.resolve(&json!({"$ref": "#/a"})).is_object());
    }
}
