//! Parses the OpenAPI document: resolves references, finds error codes and orders operations.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(super) const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

#[derive(Debug)]
pub(super) struct OpenApiDocument {
    root: Value,
}

#[derive(Debug)]
pub(super) struct Operation<'d> {
    /// HTTP method in upper case.
    pub(super) method: String,
    pub(super) path: &'d str,
    node: &'d Value,
}

impl OpenApiDocument {
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self { root: serde_json::from_str(text)? })
    }

    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    pub(super) fn base_url(&self) -> &str {
        str_member(self.at("/servers/0"), "url")
    }

    /// Follows `$ref` references to the referenced node.
    pub(super) fn resolve<'d>(&'d self, mut node: &'d Value) -> &'d Value {
        while let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            node = self.at(reference.trim_start_matches('#'));
        }
        node
    }

    /// Groups operations by tag. The tag's extension `x-operations` determines their order.
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

    /// Returns whether the body of a response may be a problem with this error code, or a check that ended with it.
    pub(super) fn may_contain_error(&self, response: &Value, error_code: &str) -> bool {
        if response.get(ERROR_CODES_EXTENSION).is_some() {
            return array_items(response, ERROR_CODES_EXTENSION).any(|known| known == error_code);
        }
        let media_types = response.get("content").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let mut schemas = media_types.filter_map(|media| self.error_code_schema(media.get("schema")?));
        schemas.any(|schema| known_values(schema).any(|known| known == error_code))
    }

    fn error_code_schema<'d>(&'d self, schema: &'d Value) -> Option<&'d Value> {
        Some(self.resolve(self.resolve(schema).pointer("/properties/error_code")?))
    }
}

impl<'d> Operation<'d> {
    pub(super) fn id(&self) -> &'d str {
        str_member(self.node, "operationId")
    }

    pub(super) fn tag(&self) -> &'d str {
        self.node.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the URL fragment of the operation in the API reference. `assets/reference.js` builds the same one.
    pub(super) fn anchor(&self) -> String {
        format!("tag/{}/{}", self.tag().to_lowercase().replace(' ', "-"), self.id())
    }

    pub(super) fn summary(&self) -> &'d str {
        str_member(self.node, "summary")
    }

    /// Returns the operation's responses, with `$ref` references resolved.
    pub(super) fn responses(&self, document: &'d OpenApiDocument) -> impl Iterator<Item = &'d Value> {
        let all = self.node.get("responses").and_then(Value::as_object).into_iter().flat_map(Map::values);
        all.map(|response| document.resolve(response))
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

/// Extension of a response that lists its error codes.
pub(super) const ERROR_CODES_EXTENSION: &str = "x-error-codes";

/// Extension of a schema that lists the known values of an enum to which later versions may add values.
pub(super) const EXTENSIBLE_ENUM_EXTENSION: &str = "x-extensible-enum";

/// Returns the values that a schema lists in `enum` or in [`EXTENSIBLE_ENUM_EXTENSION`].
pub(super) fn known_values(schema: &Value) -> impl Iterator<Item = &Value> {
    array_items(schema, "enum").chain(array_items(schema, EXTENSIBLE_ENUM_EXTENSION))
}
