//! What a call answers: successes in full, errors as rows of a table.

use serde_json::Value;

use super::{
    PageError,
    document::{Document, Operation, example, text},
    html::{Html, Writer, breakable},
    json,
    schema::{self, Member, Side},
};

/// A body of one or more content types that share a schema.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) content_types: Vec<String>,
    pub(super) description: Html,
    pub(super) members: Html,
    /// Empty when there is none.
    pub(super) example: Html,
}

/// An answer that has a shape of its own.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: String,
    pub(super) description: Html,
    pub(super) headers: Vec<Member>,
    pub(super) bodies: Vec<Body>,
}

/// An answer whose body is a problem.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: String,
    pub(super) description: Html,
    /// Each with how it is shown.
    pub(super) codes: Vec<(String, Html)>,
    /// The name of the body's schema.
    pub(super) shape: String,
}

pub(super) fn bodies(
    document: &Document,
    writer: &Writer<'_>,
    media: &[(&str, &Value)],
    side: Side,
) -> Result<Vec<Body>, PageError> {
    let mut all: Vec<(&Value, Body)> = Vec::new();
    for (content_type, media) in media {
        if let Some((_, known)) = all.iter_mut().find(|(other, _)| other == media) {
            known.content_types.push((*content_type).to_owned());
            continue;
        }
        let schema = media.get("schema").unwrap_or(&Value::Null);
        let shown = example(document, media).map(|value| json::markup(document, value, schema));
        let flat = document.flatten(schema);
        let body = Body {
            content_types: vec![(*content_type).to_owned()],
            description: writer.line(flat.get("description").and_then(Value::as_str).unwrap_or_default()),
            members: schema::tree(document, writer, schema, side)?,
            example: shown.unwrap_or_default(),
        };
        all.push((media, body));
    }
    Ok(all.into_iter().map(|(_, body)| body).collect())
}

/// Splits the responses of an operation into answers and failures.
pub(super) fn of(
    document: &Document,
    writer: &Writer<'_>,
    operation: &Operation<'_>,
) -> Result<(Vec<Answer>, Vec<Failure>), PageError> {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for (status, response) in operation.responses(document) {
        let description = writer.line(text(response, "description"));
        let content: Vec<(&str, &Value)> = response
            .get("content")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(content_type, media)| (content_type.as_str(), media))
            .collect();
        let shapes: Vec<&str> = content.iter().map(|(_, media)| shape_name(media)).collect();
        match shapes.first() {
            Some(shape) if shapes.iter().all(|name| is_problem(name)) => failures.push(Failure {
                status: status.to_owned(),
                description,
                codes: document.codes_of(response).into_iter().map(with_breaks).collect(),
                shape: (*shape).to_owned(),
            }),
            _ => answers.push(Answer {
                status: status.to_owned(),
                description,
                headers: headers(document, writer, response)?,
                bodies: bodies(document, writer, &content, Side::Answer)?,
            }),
        }
    }
    Ok((answers, failures))
}

fn with_breaks(code: String) -> (String, Html) {
    let shown = breakable(&code, '_');
    (code, shown)
}

/// Schemas of error bodies are told by their name.
pub(super) fn is_problem(schema_name: &str) -> bool {
    schema_name.ends_with("Problem")
}

fn shape_name(media: &Value) -> &str {
    let reference = media.get("schema").map_or("", |schema| text(schema, "$ref"));
    reference.rsplit('/').next().unwrap_or_default()
}

fn headers(document: &Document, writer: &Writer<'_>, response: &Value) -> Result<Vec<Member>, PageError> {
    let all = response.get("headers").and_then(Value::as_object).into_iter().flatten();
    all.map(|(name, header)| parameter(document, writer, name, document.resolve(header))).collect()
}

/// A parameter or a header: both hold a schema and say about themselves what the schema does not.
pub(super) fn parameter(
    document: &Document,
    writer: &Writer<'_>,
    name: &str,
    node: &Value,
) -> Result<Member, PageError> {
    let mut shown = schema::value(document, writer, name, node.get("schema").unwrap_or(&Value::Null))?;
    shown.required = node.get("required").is_some_and(|required| *required == Value::Bool(true));
    shown.description = writer.text(text(node, "description"));
    Ok(shown)
}
