//! The command line that makes a call, ready to be pasted into a shell.

use serde_json::Value;

use super::{
    document::{Access, Document, Operation, example, text},
    json,
};

/// `curl` for an operation, with the examples of the document. Secrets come from the shell's environment.
pub(super) fn command(document: &Document, operation: &Operation<'_>) -> String {
    let parameters = operation.parameters(document);
    let of_kind = |kind: &'static str| parameters.iter().filter(move |parameter| text(parameter, "in") == kind);
    let mut path = operation.path.to_owned();
    for parameter in of_kind("path") {
        path = path.replace(&format!("{{{}}}", text(parameter, "name")), &value_of(document, parameter));
    }

    let body = operation.bodies().into_iter().next();
    let mut arguments = Vec::new();
    match operation.method.as_str() {
        "GET" if of_kind("query").next().is_some() => arguments.push("-G".to_owned()),
        "GET" => {}
        // A body makes it a POST by itself.
        "POST" if body.is_some() => {}
        method => arguments.push(format!("-X {method}")),
    }
    arguments.push(quoted(&format!("{}{path}", document.base_url())));
    let mut lines = vec![format!("curl {}", arguments.join(" "))];
    match operation.access() {
        Access::Token { .. } => lines.push("-H \"Authorization: Bearer $TOKEN\"".to_owned()),
        Access::Client => lines.push("-u \"$CLIENT_ID:$CLIENT_SECRET\"".to_owned()),
        Access::Anyone => {}
    }
    if operation.method != "GET" {
        for parameter in of_kind("header") {
            let header = format!("{}: {}", text(parameter, "name"), value_of(document, parameter));
            lines.push(format!("-H {}", quoted(&header)));
        }
    }
    for parameter in of_kind("query") {
        let pair = format!("{}={}", text(parameter, "name"), value_of(document, parameter));
        lines.push(format!("--data-urlencode {}", quoted(&pair)));
    }
    if let Some((content_type, media)) = body {
        lines.extend(body_lines(document, content_type, media));
    }
    lines.join(" \\\n  ")
}

fn body_lines(document: &Document, content_type: &str, media: &Value) -> Vec<String> {
    let body = example(document, media).unwrap_or(&Value::Null);
    if content_type == "application/x-www-form-urlencoded" {
        let fields = body.as_object().into_iter().flatten();
        return fields.map(|(name, value)| format!("-d {}", quoted(&format!("{name}={}", bare(value))))).collect();
    }
    let schema = media.get("schema").unwrap_or(&Value::Null);
    vec![
        format!("-H {}", quoted(&format!("Content-Type: {content_type}"))),
        format!("-d {}", quoted(&json::plain(document, body, schema))),
    ]
}

fn value_of(document: &Document, parameter: &Value) -> String {
    example(document, parameter).map(bare).unwrap_or_default()
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A word for a POSIX shell, with quotes only where they are needed.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/:._=-".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::openapi;

    fn of(id: &str) -> String {
        let document = Document::parse(openapi::DOCUMENT).expect("JSON");
        let all = document.operations().into_iter().flat_map(|(_, operations)| operations);
        all.into_iter()
            .find(|operation| operation.id() == id)
            .map(|found| command(&document, &found))
            .expect("an operation")
    }

    #[test]
    fn a_token_is_asked_for_with_a_form() {
        assert_eq!(
            of("createToken"),
            "curl https://eu.api.example.com/oauth2/token \\\n  -u \"$CLIENT_ID:$CLIENT_SECRET\" \\\n  \
             -d grant_type=client_credentials \\\n  -d scope=management"
        );
    }

    #[test]
    fn a_filter_goes_into_the_query() {
        let command = of("listProjects");
        assert!(
            command.starts_with("curl -G https://eu.api.example.com/v1/management/workspaces/01a1d964-"),
            "{command}"
        );
        assert!(command.ends_with("--data-urlencode 'search=mode==live;name==Store*'"), "{command}");
    }

    #[test]
    fn a_patch_says_so() {
        let command = of("updateWorkspace");
        assert!(command.starts_with("curl -X PATCH "), "{command}");
        assert!(
            command.ends_with(
                "-H 'Content-Type: application/merge-patch+json' \\\n  -d '{\n  \"name\": \"Example Europe\"\n}'"
            ),
            "{command}"
        );
    }

    #[test]
    fn a_quote_does_not_end_the_word() {
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
    }
}
