//! What may be remembered of a request: names, never values.
//!
//! Even a name is left out that may be a value in the wrong place: long, or with more than a few digits.

use serde_json::Value;

/// In place of what is left out.
const HIDDEN: &str = "…";
const MAX_NAME: usize = 32;
const MAX_NAME_DIGITS: usize = 2;
/// A number with fewer is no phone number.
const MIN_NUMBER: usize = 7;
/// Outside quotes there are only words of ours, and they are short.
const MAX_WORD: usize = 40;
const MAX_DETAIL: usize = 500;
const MAX_LINES: usize = 40;
const MAX_DEPTH: usize = 4;
/// Parameters whose small values tell nothing about anybody.
const HARMLESS: [&str; 2] = ["size", "page"];

/// What a caller was told, with what it repeats of the request left out where that may be a value.
pub fn detail(text: &str) -> String {
    let quoted = |part: &str| if part.split(['/', '.', '=', ' ']).all(is_name) { part.to_owned() } else { hidden() };
    let parts = text.split('`').enumerate();
    let parts: Vec<_> = parts.map(|(at, part)| if at % 2 == 1 { quoted(part) } else { plain(part) }).collect();
    parts.join("`").chars().take(MAX_DETAIL).collect()
}

/// The names of a query.
pub fn query(text: &str) -> String {
    let parameters = text.split('&').filter(|parameter| !parameter.is_empty()).take(MAX_LINES);
    let shown = parameters.map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_harmless = HARMLESS.contains(&name) && value.len() <= 4 && value.bytes().all(|b| b.is_ascii_digit());
        format!("{}={}", name_or_hidden(name), if is_harmless { value } else { HIDDEN })
    });
    shown.collect::<Vec<_>>().join("&")
}

/// The shape of a JSON document.
pub fn body(document: &[u8]) -> String {
    match serde_json::from_slice(document) {
        Ok(value) => {
            let mut lines = vec![];
            outline(&value, "", 0, &mut lines);
            if lines.len() > MAX_LINES {
                lines.truncate(MAX_LINES);
                lines.push(HIDDEN.to_owned());
            }
            lines.join("\n")
        }
        Err(_) => format!("{} bytes that are not JSON", document.len()),
    }
}

fn outline(value: &Value, name: &str, depth: usize, lines: &mut Vec<String>) {
    if lines.len() > MAX_LINES {
        return;
    }
    let indent = "  ".repeat(depth);
    let scalar = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(fact) => fact.to_string(),
        Value::Number(_) => format!("{HIDDEN} (a number)"),
        Value::String(text) => format!("\"{HIDDEN}\" ({})", characters(text.chars().count())),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => HIDDEN.to_owned(),
        Value::Array(items) => {
            lines.push(format!("{indent}{name}["));
            for item in items {
                outline(item, "", depth + 1, lines);
            }
            return lines.push(format!("{indent}]"));
        }
        Value::Object(members) => {
            lines.push(format!("{indent}{name}{{"));
            for (member, value) in members {
                outline(value, &format!("\"{}\": ", name_or_hidden(member)), depth + 1, lines);
            }
            return lines.push(format!("{indent}}}"));
        }
    };
    lines.push(format!("{indent}{name}{scalar}"));
}

fn characters(count: usize) -> String {
    format!("{count} character{}", if count == 1 { "" } else { "s" })
}

/// Text without numbers and words that are longer than any of ours.
fn plain(text: &str) -> String {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '+' | '-' | '_'));
    let word = |word: &str| {
        let (core, end) = word.split_at(word.trim_end_matches(ends).len());
        if digits(core) >= MIN_NUMBER || core.chars().count() > MAX_WORD {
            format!("{HIDDEN}{end}")
        } else {
            word.to_owned()
        }
    };
    text.split_inclusive(ends).map(word).collect()
}

fn name_or_hidden(name: &str) -> &str {
    if is_name(name) { name } else { HIDDEN }
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && digits(text) <= MAX_NAME_DIGITS && text.chars().all(|c| c.is_ascii_graphic())
}

fn digits(text: &str) -> usize {
    text.chars().filter(|c| c.is_numeric()).count()
}

fn hidden() -> String {
    HIDDEN.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_keep_names_and_lose_values() {
        let long = "x".repeat(33);
        for (told, kept) in [
            ("`/phone_number`: a number begins with `+`", "`/phone_number`: a number begins with `+`"),
            ("`/phoneNumber`: this property is not known here", "`/phoneNumber`: this property is not known here"),
            ("`/+447700900123`: this property is not known here", "`…`: this property is not known here"),
            ("`/a`+447700900123`b`: not known", "`/a`…`b`: not known"),
            ("`/a`7700900123`b`: not known", "`/a`…`b`: not known"),
            (&format!("`/{long}`: not known"), "`…`: not known"),
            ("`/123456`: not known", "`…`: not known"),
            ("a body has at most 16384 bytes here", "a body has at most 16384 bytes here"),
            ("not JSON: expected value at line 1 column 2", "not JSON: expected value at line 1 column 2"),
            ("call 447700900123, please", "call …, please"),
            ("", ""),
        ] {
            assert_eq!(detail(told), kept);
        }
        assert_eq!(detail(&"word ".repeat(1_000)).chars().count(), 500);
    }

    #[test]
    fn queries_keep_their_names() {
        for (given, kept) in [
            ("size=10&page=2&search=reference_id==x", "size=10&page=2&search=…"),
            ("size=447700900123", "size=…"),
            ("%2B447700900123=x", "…=…"),
            ("t", "t=…"),
            ("", ""),
        ] {
            assert_eq!(query(given), kept);
        }
    }

    #[test]
    fn bodies_keep_their_shape() {
        let given =
            br#"{"phone_number":"+447700900123","live":true,"n":null,"ttl":77,"+447700900123":[{"code":"123456"}],"x":"y"}"#;
        let kept = body(given);
        for part in [
            "\"phone_number\": \"…\" (13 characters)",
            "\"live\": true",
            "\"n\": null",
            "\"ttl\": … (a number)",
            "\"x\": \"…\" (1 character)",
        ] {
            assert!(kept.contains(part), "{part}: {kept}");
        }
        assert!(kept.contains("\"…\": [") && kept.contains("\"code\": \"…\" (6 characters)"), "{kept}");
        assert!(!kept.contains("4477") && !kept.contains("77") && !kept.contains("123456"), "{kept}");
        assert_eq!(body(b"+447700900123"), "13 bytes that are not JSON");
        assert_eq!(body(b"447700900123"), "… (a number)");
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(body(deep.as_bytes()).lines().count() < 12);
        let wide = format!("[{}1]", "1,".repeat(5_000));
        assert_eq!(body(wide.as_bytes()).lines().count(), 41);
    }
}
