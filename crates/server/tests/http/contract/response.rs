//! Validates a response against its documentation.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::Value;

/// Names and values of the received headers.
pub type Headers = [(String, String)];

#[derive(Debug)]
pub struct Response {
    pub headers: Vec<Header>,
    /// Validators of bodies, by content type.
    pub bodies: BTreeMap<String, Validator>,
}

#[derive(Debug)]
pub struct Header {
    pub name: String,
    pub required: bool,
    pub is_integer: bool,
    pub value: Validator,
}

impl Response {
    pub fn check_headers(&self, headers: &Headers) -> Result<(), String> {
        for header in &self.headers {
            let mut given = values(headers, &header.name).peekable();
            if header.required && given.peek().is_none() {
                return Err(format!("the header {} is missing", header.name));
            }
            for text in given {
                let number = header.is_integer.then(|| text.parse::<i64>().ok()).flatten();
                let value = number.map_or_else(|| Value::from(text), Value::from);
                conforms(&header.value, &value).map_err(|what| format!("header {}: {what}", header.name))?;
            }
        }
        Ok(())
    }

    pub fn check_body(&self, is_head: bool, status: u16, headers: &Headers, body: &[u8]) -> Result<(), String> {
        if is_head && !body.is_empty() {
            return Err("the response to HEAD has a body".to_owned());
        }
        if self.bodies.is_empty() {
            return if body.is_empty() { Ok(()) } else { Err("the body is not documented".to_owned()) };
        }
        let given: Vec<_> = values(headers, "content-type").collect();
        let [content_type] = given.as_slice() else { return Err(format!("content types: {given:?}")) };
        let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let Some(validator) = self.bodies.get(&media_type) else {
            return Err(format!("{content_type} is not among {:?}", self.bodies.keys()));
        };
        if is_head {
            return Ok(());
        }
        let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
        let is_json = media_type.ends_with("/json") || media_type.ends_with("+json");
        let value: Value = if is_json {
            serde_json::from_str(text).map_err(|e| format!("the body is not JSON: {e}"))?
        } else if text.is_empty() {
            return Err("the body is empty".to_owned());
        } else {
            Value::from(text)
        };
        conforms(validator, &value).map_err(|what| format!("{what}\n{text}"))?;
        let is_problem = value.get("error_code").is_some() && value.get("detail").is_some();
        match value.get("status") {
            Some(given) if is_problem && *given != status => Err(format!("the body has the status {given}\n{text}")),
            _ => Ok(()),
        }
    }
}

fn conforms(validator: &Validator, value: &Value) -> Result<(), String> {
    let errors = validator.iter_errors(value).map(|e| format!("{e} (at `{}`)", e.instance_path())).collect::<Vec<_>>();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

pub fn values<'h>(headers: &'h Headers, name: &str) -> impl Iterator<Item = &'h str> {
    headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
