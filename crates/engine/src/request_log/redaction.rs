//! Redacts logged requests: the log keeps the names of query parameters and JSON members, but not their values.
//!
//! Names that may be misplaced values, because they are long or contain several digits, are redacted too.

use serde_json::Value;

const REDACTED: &str = "…";
const MAX_NAME_BYTES: usize = 32;
const MAX_NAME_DIGITS: usize = 2;
/// Words with at least this many digits may be phone numbers and are redacted.
const MIN_PHONE_NUMBER_DIGITS: usize = 7;
/// Longer words outside backquotes are not from our own error texts, so they are redacted.
const MAX_WORD_CHARS: usize = 40;
const MAX_DETAIL_CHARS: usize = 500;
const MAX_LINES: usize = 40;
const MAX_DEPTH: usize = 4;
/// Query parameters whose values are logged if they are short numbers. They are not personal data.
const UNREDACTED_PARAMETERS: [&str; 2] = ["size", "page"];

/// Redacts the parts of an error detail that may repeat a value of the request.
pub fn redact_error_detail(text: &str) -> String {
    let redact_quoted =
        |part: &str| if part.split(['/', '.', '=', ' ']).all(is_name) { part.to_owned() } else { REDACTED.to_owned() };
    let parts = text.split('`').enumerate();
    let parts: Vec<_> =
        parts.map(|(at, part)| if at % 2 == 1 { redact_quoted(part) } else { redact_unquoted(part) }).collect();
    parts.join("`").chars().take(MAX_DETAIL_CHARS).collect()
}

/// Keeps the parameter names of a query string, and redacts the values.
pub fn redact_query(text: &str) -> String {
    let parameters = text.split('&').filter(|parameter| !parameter.is_empty()).take(MAX_LINES);
    let shown = parameters.map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_unredacted =
            UNREDACTED_PARAMETERS.contains(&name) && value.len() <= 4 && value.bytes().all(|b| b.is_ascii_digit());
        format!("{}={}", redact_name(name), if is_unredacted { value } else { REDACTED })
    });
    shown.collect::<Vec<_>>().join("&")
}

/// Keeps the structure and member names of a JSON document, and redacts the values.
pub fn redact_body(document: &[u8]) -> String {
    match serde_json::from_slice(document) {
        Ok(value) => {
            let mut lines = vec![];
            outline(&value, "", 0, &mut lines);
            if lines.len() > MAX_LINES {
                lines.truncate(MAX_LINES);
                lines.push(REDACTED.to_owned());
            }
            lines.join("\n")
        }
        Err(_) => format!("{} bytes, not JSON", document.len()),
    }
}

fn outline(value: &Value, name: &str, depth: usize, lines: &mut Vec<String>) {
    if lines.len() > MAX_LINES {
        return;
    }
    let indent = "  ".repeat(depth);
    let scalar = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(_) => format!("{REDACTED} (a number)"),
        Value::String(text) => format!("\"{REDACTED}\" ({})", pluralize_characters(text.chars().count())),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => REDACTED.to_owned(),
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
                outline(value, &format!("\"{}\": ", redact_name(member)), depth + 1, lines);
            }
            return lines.push(format!("{indent}}}"));
        }
    };
    lines.push(format!("{indent}{name}{scalar}"));
}

fn pluralize_characters(count: usize) -> String {
    format!("{count} character{}", if count == 1 { "" } else { "s" })
}

/// Redacts words outside backquotes that are long or contain many digits.
fn redact_unquoted(text: &str) -> String {
    let is_separator = |c: char| !(c.is_alphanumeric() || matches!(c, '+' | '-' | '_'));
    let redact_word = |word: &str| {
        let (core, end) = word.split_at(word.trim_end_matches(is_separator).len());
        if count_digits(core) >= MIN_PHONE_NUMBER_DIGITS || core.chars().count() > MAX_WORD_CHARS {
            format!("{REDACTED}{end}")
        } else {
            word.to_owned()
        }
    };
    text.split_inclusive(is_separator).map(redact_word).collect()
}

fn redact_name(name: &str) -> &str {
    if is_name(name) { name } else { REDACTED }
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES && count_digits(text) <= MAX_NAME_DIGITS && text.chars().all(|c| c.is_ascii_graphic())
}

fn count_digits(text: &str) -> usize {
    text.chars().filter(|c| c.is_numeric()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_detail_keeps_names_and_hides_values() {
        let long = "x".repeat(33);
        for (given, kept) in [
            ("`/phone_number`: a number begins with `+`", "`/phone_number`: a number begins with `+`"),
            ("`/phoneNumber`: unknown property", "`/phoneNumber`: unknown property"),
            ("`/+447700900123`: unknown property", "`…`: unknown property"),
            ("`/a`+447700900123`b`: not known", "`/a`…`b`: not known"),
            ("`/a`7700900123`b`: not known", "`/a`…`b`: not known"),
            (&format!("`/{long}`: not known"), "`…`: not known"),
            ("`/123456`: not known", "`…`: not known"),
            ("a body has at most 16384 bytes here", "a body has at most 16384 bytes here"),
            ("not JSON: expected value at line 1 column 2", "not JSON: expected value at line 1 column 2"),
            ("call 447700900123, please", "call …, please"),
            ("", ""),
        ] {
            assert_eq!(redact_error_detail(given), kept);
        }
        assert_eq!(redact_error_detail(&"word ".repeat(1_000)).chars().count(), 500);
    }

    #[test]
    fn query_keeps_parameter_names() {
        for (given, kept) in [
            ("size=10&page=2&search=reference_id==x", "size=10&page=2&search=…"),
            ("size=447700900123", "size=…"),
            ("%2B447700900123=x", "…=…"),
            ("t", "t=…"),
            ("", ""),
        ] {
            assert_eq!(redact_query(given), kept);
        }
    }

    #[test]
    fn body_keeps_its_structure() {
        let given =
            br#"{"phone_number":"+447700900123","live":true,"n":null,"ttl":77,"+447700900123":[{"code":"123456"}],"x":"y"}"#;
        let kept = redact_body(given);
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
        assert_eq!(redact_body(b"+447700900123"), "13 bytes, not JSON");
        assert_eq!(redact_body(b"447700900123"), "… (a number)");
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert!(redact_body(deep.as_bytes()).lines().count() < 12);
        let wide = format!("[{}1]", "1,".repeat(5_000));
        assert_eq!(redact_body(wide.as_bytes()).lines().count(), 41);
    }
}
