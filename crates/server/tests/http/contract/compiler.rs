//! Compiles the document's schemas to validators.

use std::collections::BTreeMap;

use jsonschema::{Registry, Validator, draft202012};
use serde_json::{Value, json};

use super::{
    pointer::{escape, fragment, members, resolve},
    response::{Header, Response},
};

/// Base URI of the OpenAPI document, to which the references of its schemas are relative.
const BASE_URI: &str = "ringtrue:/openapi.json";

/// Builds validators whose references point into the document.
pub struct Compiler<'d> {
    root: &'d Value,
    registry: Registry<'d>,
}

impl<'d> Compiler<'d> {
    pub fn new(root: &'d Value) -> Result<Self, String> {
        let registry = Registry::new().add(BASE_URI, root).map_err(|e| e.to_string())?;
        Ok(Self { root, registry: registry.prepare().map_err(|e| e.to_string())? })
    }

    pub fn response(&self, at: &str) -> Result<Response, String> {
        let mut headers = Vec::new();
        for name in members(self.root, &format!("{at}/headers")).map(|(name, _)| name) {
            let at = resolve(self.root, &format!("{at}/headers/{}", escape(name)))?;
            let is_true = |key: &str| self.root.pointer(&format!("{at}/{key}")) == Some(&Value::Bool(true));
            let schema = format!("{at}/schema");
            let kind = self.root.pointer(&format!("{schema}/type"));
            headers.push(Header {
                name: name.clone(),
                required: is_true("required"),
                is_integer: kind.is_some_and(|kind| kind == "integer"),
                value: self.validator(&schema)?,
            });
        }
        let mut bodies = BTreeMap::new();
        for content_type in members(self.root, &format!("{at}/content")).map(|(content_type, _)| content_type) {
            let validator = self.validator(&format!("{at}/content/{}/schema", escape(content_type)))?;
            bodies.insert(content_type.to_ascii_lowercase(), validator);
        }
        Ok(Response { headers, bodies })
    }

    fn validator(&self, pointer: &str) -> Result<Validator, String> {
        let schema = json!({"$ref": format!("{BASE_URI}#{}", fragment(pointer))});
        let options = draft202012::options().should_validate_formats(true).with_registry(&self.registry);
        options.build(&schema).map_err(|e| format!("{pointer}: {e}"))
    }
}
