//! Printing an example so that it reads well: members in the order of their schema, short lists on one line.

use serde_json::{Map, Value};

use super::{
    document::Document,
    html::{Html, escape},
};

const WIDTH: usize = 60;

/// How the parts of a value are written.
#[derive(Clone, Copy)]
enum Paint {
    Plain,
    Markup,
}

/// For a shell or a file.
pub(super) fn plain(document: &Document, value: &Value, schema: &Value) -> String {
    let mut out = String::new();
    write(document, value, schema, 0, Paint::Plain, &mut out);
    out
}

/// For a page: names and values carry a class.
pub(super) fn markup(document: &Document, value: &Value, schema: &Value) -> Html {
    let mut out = String::new();
    write(document, value, schema, 0, Paint::Markup, &mut out);
    Html::trusted(out)
}

fn write(document: &Document, value: &Value, schema: &Value, depth: usize, paint: Paint, out: &mut String) {
    let schema = document.flatten(schema);
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (at, (name, member)) in in_schema_order(members, &schema).into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                new_line(depth + 1, out);
                scalar(&Value::from(name), "name", paint, out);
                out.push_str(": ");
                let inner = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
                write(document, member, inner, depth + 1, paint, out);
            }
            new_line(depth, out);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            let fits =
                value.to_string().len() <= WIDTH && !items.iter().any(|item| item.is_object() || item.is_array());
            let inner = schema.get("items").unwrap_or(&Value::Null);
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                match (at, fits) {
                    (0, true) => {}
                    (_, true) => out.push_str(", "),
                    (_, false) => {
                        out.push_str(if at == 0 { "" } else { "," });
                        new_line(depth + 1, out);
                    }
                }
                write(document, item, inner, depth + 1, paint, out);
            }
            if !fits {
                new_line(depth, out);
            }
            out.push(']');
        }
        _ => scalar(value, "value", paint, out),
    }
}

fn in_schema_order<'v>(members: &'v Map<String, Value>, schema: &Map<String, Value>) -> Vec<(&'v str, &'v Value)> {
    let order = super::schema::member_names(schema);
    let rank = |name: &str| order.iter().position(|known| *known == name).unwrap_or(usize::MAX);
    let mut all: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
    all.sort_by_key(|(name, _)| rank(name));
    all
}

fn scalar(value: &Value, class: &str, paint: Paint, out: &mut String) {
    match paint {
        Paint::Plain => out.push_str(&value.to_string()),
        Paint::Markup => out.extend(["<span class=\"", class, "\">", &escape(&value.to_string()), "</span>"]),
    }
}

fn new_line(depth: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_follow_the_schema() {
        let document = Document::of(json!({}));
        let schema = json!({"required": ["z", "a"], "properties": {"a": {}, "b": {}, "z": {}}});
        let value = json!({"a": [1, 2], "b": {}, "z": [{"k": "it's"}]});
        assert_eq!(
            plain(&document, &value, &schema),
            "{\n  \"z\": [\n    {\n      \"k\": \"it's\"\n    }\n  ],\n  \"a\": [1, 2],\n  \"b\": {}\n}"
        );
    }

    #[test]
    fn markup_is_escaped() {
        let document = Document::of(json!({}));
        let html = markup(&document, &json!({"<b>": "</span>"}), &json!({})).to_string();
        assert_eq!(
            html,
            "{\n  <span class=\"name\">&quot;&lt;b&gt;&quot;</span>: \
             <span class=\"value\">&quot;&lt;/span&gt;&quot;</span>\n}"
        );
    }
}
