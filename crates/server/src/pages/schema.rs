//! Showing a schema as a list of members, each with its type, its limits and its own members.

use askama::Template;
use serde_json::{Map, Value};

use super::{
    PageError,
    document::{Document, OPEN_SET, items},
    html::{Html, Writer},
};

/// Members that nest deeper are left out, with a mark.
const DEEPEST: usize = 8;

/// Who makes a value. A caller asks what must be sent; a reader of an answer asks what may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Answer,
}

/// One member of an object, or one parameter of a request.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) description: Html,
    /// What a value must keep to, in words.
    pub(super) limits: Vec<Limit>,
    /// The values that are allowed, when they can be listed.
    pub(super) choices: Vec<String>,
    /// The members of this member, rendered.
    pub(super) members: Html,
}

/// `between 1 and 100`, `pattern` + the pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) words: &'static str,
    pub(super) value: String,
}

#[derive(Template)]
#[template(path = "members.html")]
struct MemberList<'a> {
    members: &'a [Member],
    side: Side,
    cut: bool,
}

/// The names of an object's members: the required ones in their order, then the others.
pub(super) fn member_names(flat: &Map<String, Value>) -> Vec<&str> {
    let Some(properties) = flat.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let required = flat.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let mut names: Vec<_> = required.filter(|name| properties.contains_key(*name)).collect();
    let rest = properties.keys().map(String::as_str).filter(|name| !names.contains(name)).collect::<Vec<_>>();
    names.extend(rest);
    names
}

/// The members of a schema, as nested lists. Empty for a schema without members.
pub(super) fn tree(document: &Document, writer: &Writer<'_>, schema: &Value, side: Side) -> Result<Html, PageError> {
    Tree { document, writer, side }.nested(&document.flatten(schema), 0)
}

/// A parameter or a header, which has no members of its own.
pub(super) fn value(document: &Document, writer: &Writer<'_>, name: &str, schema: &Value) -> Result<Member, PageError> {
    Tree { document, writer, side: Side::Request }.member(name, schema, 0)
}

struct Tree<'a> {
    document: &'a Document,
    writer: &'a Writer<'a>,
    side: Side,
}

impl Tree<'_> {
    /// One member. `depth` says how many lists it stands in.
    fn member(&self, name: &str, schema: &Value, depth: usize) -> Result<Member, PageError> {
        let flat = without_null(self.document, self.document.flatten(schema));
        Ok(Member {
            name: name.to_owned(),
            kind: kind(self.document, &flat),
            required: false,
            description: self.writer.line(flat.get("description").and_then(Value::as_str).unwrap_or_default().trim()),
            limits: limits(&flat),
            choices: choices(self.document, &flat),
            members: self.nested(&flat, depth + 1)?,
        })
    }

    fn nested(&self, flat: &Map<String, Value>, depth: usize) -> Result<Html, PageError> {
        if let Some(inner) = flat.get("items") {
            return self.nested(&self.document.flatten(inner), depth);
        }
        let names = member_names(flat);
        if names.is_empty() {
            return Ok(Html::default());
        }
        let side = self.side;
        if depth >= DEEPEST {
            return Ok(Html::trusted(MemberList { members: &[], side, cut: true }.render()?));
        }
        let required = flat.get("required").and_then(Value::as_array);
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            let schema = flat.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
            let mut shown = self.member(name, schema, depth)?;
            shown.required = required.is_some_and(|all| all.iter().any(|known| known == name));
            members.push(shown);
        }
        Ok(Html::trusted(MemberList { members: &members, side, cut: false }.render()?))
    }
}

/// Turns `anyOf: [X, null]` into X with `null` as a further type.
fn without_null(document: &Document, flat: Map<String, Value>) -> Map<String, Value> {
    let whole = Value::Object(flat);
    let is_null = |part: &&Value| part.get("type").is_some_and(|kind| kind == "null");
    let rest: Vec<_> = items(&whole, "anyOf").filter(|part| !is_null(part)).collect();
    let has_null = items(&whole, "anyOf").any(|part| is_null(&part));
    let ([only], true) = (rest.as_slice(), has_null) else { return into_map(whole) };
    let mut inner = document.flatten(only);
    let first = inner.get("type").cloned().unwrap_or_default();
    inner.insert("type".to_owned(), Value::from(vec![first, Value::from("null")]));
    inner
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// `string, uuid`, `array of objects`, `object or null`.
fn kind(document: &Document, flat: &Map<String, Value>) -> String {
    let parts: Vec<&str> = match flat.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let named = |name: &&str| match (*name, flat.get("items")) {
        ("array", Some(inner)) => format!("array of {}s", kind(document, &document.flatten(inner))),
        (name, _) => name.to_owned(),
    };
    let types = parts.iter().map(named).collect::<Vec<_>>().join(" or ");
    match flat.get("format").and_then(Value::as_str) {
        Some(format) => format!("{types}, {format}"),
        None => types,
    }
}

fn choices(document: &Document, flat: &Map<String, Value>) -> Vec<String> {
    if let Some(inner) = flat.get("items") {
        return choices(document, &document.flatten(inner));
    }
    if let Some(only) = flat.get("const") {
        return vec![shown(only)];
    }
    let listed = flat.get("enum").or_else(|| flat.get(OPEN_SET));
    listed.and_then(Value::as_array).into_iter().flatten().map(shown).collect()
}

fn limits(flat: &Map<String, Value>) -> Vec<Limit> {
    let get = |name: &str| flat.get(name).filter(|value| !value.is_null()).map(shown);
    let range = |least: &str, most: &str, both: &'static str, from: &'static str, to: &'static str| match (
        get(least),
        get(most),
    ) {
        (Some(a), Some(b)) if a == b => Some((both, a)),
        (Some(a), Some(b)) => Some((both, format!("{a} to {b}"))),
        (Some(a), None) if a != "0" => Some((from, a)),
        (None, Some(b)) => Some((to, b)),
        _ => None,
    };
    let all = [
        range("minimum", "maximum", "from", "at least", "at most"),
        range("minLength", "maxLength", "characters:", "characters, at least", "characters, at most"),
        range("minItems", "maxItems", "items:", "items, at least", "items, at most"),
        flat.get("uniqueItems").filter(|yes| **yes == Value::Bool(true)).map(|_| ("each once", String::new())),
        // A format says it better than its pattern.
        get("pattern").filter(|_| !flat.contains_key("format")).map(|pattern| ("pattern", pattern)),
        get("default").map(|default| ("default", default)),
    ];
    // One character at least is what everybody expects of a text.
    let is_worth_saying =
        |(words, value): &(&str, String)| !(words.starts_with("characters, at least") && value == "1");
    all.into_iter().flatten().filter(is_worth_saying).map(|(words, value)| Limit { words, value }).collect()
}

/// A value as a reader expects it: texts without quotes, lists with commas.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown_as(schema: &Value) -> Member {
        let document = Document::of(json!({"components": {"schemas": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
        }}}));
        value(&document, &Writer::default(), "it", schema).expect("renders")
    }

    #[test]
    fn kinds_and_limits_are_put_into_words() {
        let size = shown_as(&json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}));
        assert_eq!(size.kind, "integer");
        let words: Vec<_> = size.limits.iter().map(|limit| format!("{} {}", limit.words, limit.value)).collect();
        assert_eq!(words, ["from 1 to 100", "default 10"]);
        assert_eq!(shown_as(&json!({"type": "array", "items": {"type": "object"}})).kind, "array of objects");
        assert_eq!(
            shown_as(&json!({"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]})).kind,
            "string or null, uri"
        );
        assert_eq!(shown_as(&json!({"items": {"enum": ["a", "b"]}})).choices, ["a", "b"]);
        assert_eq!(shown_as(&json!({"x-extensible-enum": ["a", "b"]})).choices, ["a", "b"]);
        assert_eq!(shown_as(&json!({"enum": ["a", "b"], "const": "b"})).choices, ["b"]);
    }

    #[test]
    fn required_members_come_first_in_their_order() {
        let schema = json!({"required": ["z", "b"], "properties": {"a": {}, "b": {}, "z": {}}});
        assert_eq!(member_names(schema.as_object().expect("a map")), ["z", "b", "a"]);
    }

    #[test]
    fn a_schema_that_holds_itself_is_cut() {
        let html = shown_as(&json!({"$ref": "#/components/schemas/Node"})).members.to_string();
        assert_eq!(html.matches("name\">next<").count(), DEEPEST - 1);
        assert!(html.contains("and so on"));
    }

    #[test]
    fn a_request_marks_what_it_needs_and_an_answer_what_it_may_lack() {
        let document = Document::of(json!({}));
        let schema = json!({"required": ["a"], "properties": {"a": {}, "b": {}}});
        let shown = |side| tree(&document, &Writer::default(), &schema, side).expect("renders").to_string();
        let (request, answer) = (shown(Side::Request), shown(Side::Answer));
        assert_eq!((request.matches(">required<").count(), request.matches(">optional<").count()), (1, 0));
        assert_eq!((answer.matches(">required<").count(), answer.matches(">optional<").count()), (0, 1));
    }

    #[test]
    fn names_and_values_are_escaped() {
        let html =
            shown_as(&json!({"properties": {"<i>": {"enum": ["<b>"], "description": "<u>"}}})).members.to_string();
        assert!(!html.contains("<i>") && !html.contains("<b>") && !html.contains("<u>"), "{html}");
    }
}
