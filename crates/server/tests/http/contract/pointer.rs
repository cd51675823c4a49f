//! JSON pointers into the document.

use std::fmt::Write as _;

use serde_json::Value;

/// Follows references and returns the pointer of the target.
pub fn resolve(root: &Value, pointer: &str) -> Result<String, String> {
    let mut pointer = pointer.to_owned();
    for _ in 0..16 {
        let node = root.pointer(&pointer).ok_or_else(|| format!("nothing at {pointer}"))?;
        match node.get("$ref").and_then(Value::as_str) {
            Some(reference) => reference.trim_start_matches('#').clone_into(&mut pointer),
            None => return Ok(pointer),
        }
    }
    Err(format!("{pointer} has circular references"))
}

pub fn members<'v>(root: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    root.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

/// Escapes a key for a JSON pointer.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Encodes a JSON pointer as a URI fragment.
pub fn fragment(pointer: &str) -> String {
    let mut out = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        if byte.is_ascii_alphanumeric() || b"/~-._".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
