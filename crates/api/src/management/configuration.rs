//! Reads and writes the JSON of a project's configuration.

use ringtrue_domain::{
    tenancy::{Configuration, ConfigurationPatch, SETTINGS, Setting, SettingKind, SettingValue},
    verification::LogoUrl,
};
use ringtrue_web::body::{JsonError, Node, as_boolean, as_distinct_list, as_integer, as_object, as_text};
use serde_json::{Map, Value};

/// Returns the section (top-level member of the configuration) of each setting, so names repeat. Responses contain
/// every section, even if it is empty.
fn section_of_each_setting() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().filter_map(|setting| setting.path.split('.').next())
}

/// Renders a configuration, with the absolute URL of an uploaded logo.
pub(super) fn render_configuration(configuration: &Configuration, base_url: &str) -> Value {
    let mut root: Map<String, Value> =
        section_of_each_setting().map(|section| (section.to_owned(), Value::Object(Map::new()))).collect();
    for (setting, value) in configuration.non_default_settings() {
        insert(&mut root, setting.path, render_value(setting.kind, value));
    }
    if let Some(logo) = configuration.verification.brand.logo_url.as_ref().and_then(LogoUrl::uploaded) {
        insert(&mut root, "verification.brand.logo_url", format!("{base_url}{}", logo.path()).into());
    }
    Value::Object(root)
}

fn insert(object: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let section = object.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(section) = section {
                insert(section, rest, value);
            }
        }
    }
}

fn render_value(kind: SettingKind, value: SettingValue) -> Value {
    match value {
        SettingValue::Text(text) if kind == SettingKind::Json => serde_json::from_str(&text).unwrap_or(text.into()),
        SettingValue::Boolean(value) => value.into(),
        SettingValue::Integer(value) => value.into(),
        SettingValue::Text(value) => value.into(),
        SettingValue::List(values) => values.into(),
    }
}

/// Parses a merge patch (RFC 7396) of the configuration.
pub(super) fn parse_configuration(node: Node, pointer: &str) -> Result<ConfigurationPatch, JsonError> {
    if matches!(node, Node::Null) {
        return Ok(ConfigurationPatch::for_reset());
    }
    let mut changes = vec![];
    collect_changes(node, pointer, "", &mut changes)?;
    Ok(changes.into_iter().collect())
}

type Changes = Vec<(&'static Setting, Option<SettingValue>)>;

fn collect_changes(node: Node, pointer: &str, prefix: &str, changes: &mut Changes) -> Result<(), JsonError> {
    for (name, pointer, node) in as_object(node, pointer)?.into_members() {
        let path = [prefix, &name].concat();
        // A dot separates the members of a setting's path, so a member name with a dot matches no setting.
        let setting = Setting::find(&path).filter(|_| !name.contains('.'));
        let mut section = Setting::find_in_section(&path).filter(|_| !name.contains('.')).peekable();
        match (setting, node) {
            (Some(setting), Node::Null) => changes.push((setting, None)),
            (Some(setting), node) => changes.push((setting, Some(parse_value(setting.kind, node, &pointer)?))),
            (None, _) if section.peek().is_none() => return Err(JsonError::new(&pointer, "unknown property")),
            (None, Node::Null) => changes.extend(section.map(|setting| (setting, None))),
            (None, node) => collect_changes(node, &pointer, &format!("{path}."), changes)?,
        }
    }
    Ok(())
}

fn parse_value(kind: SettingKind, node: Node, pointer: &str) -> Result<SettingValue, JsonError> {
    match kind {
        SettingKind::Boolean => as_boolean(node, pointer).map(SettingValue::Boolean),
        SettingKind::Integer => as_integer(node, pointer).map(SettingValue::Integer),
        SettingKind::Text => as_text(node, pointer).map(SettingValue::Text),
        SettingKind::Json => as_json_object(node, pointer).map(SettingValue::Text),
        SettingKind::List => as_distinct_list(node, pointer, as_text).map(SettingValue::List),
    }
}

/// Returns an object as compact JSON text.
fn as_json_object(node: Node, pointer: &str) -> Result<String, JsonError> {
    match render_node(node) {
        Some(object @ Value::Object(_)) => Ok(object.to_string()),
        Some(_) => Err(JsonError::new(pointer, "expected an object")),
        None => Err(JsonError::new(pointer, "contains a number that is no integer, or a repeated property")),
    }
}

/// `None`: the value has a repeated property, or a number that is no integer. Key sets have neither.
fn render_node(node: Node) -> Option<Value> {
    Some(match node {
        Node::Null => Value::Null,
        Node::Boolean(value) => value.into(),
        Node::Integer(value) => value.into(),
        Node::OtherNumber => return None,
        Node::Text(value) => value.into(),
        Node::List(values) => values.into_iter().map(render_node).collect::<Option<Vec<_>>>()?.into(),
        Node::Object(members) => {
            let mut object = Map::new();
            for (name, value) in members {
                if object.insert(name, render_node(value)?).is_some() {
                    return None;
                }
            }
            Value::Object(object)
        }
    })
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::web_url::UrlPolicy;
    use serde_json::json;

    use super::*;

    fn parse(document: &Value) -> Result<ConfigurationPatch, JsonError> {
        parse_configuration(serde_json::from_value(document.clone()).unwrap(), "/configuration")
    }

    fn configuration(document: &Value) -> Configuration {
        Configuration::default().patched(&parse(document).unwrap(), &UrlPolicy::default(), true).unwrap()
    }

    #[test]
    fn configuration_is_rendered_as_it_was_given() {
        let document = json!({
            "reverse_sms": {"ttl": 120, "auto_reply": true},
            "secure_sna": {},
            "discovery": {},
            "verification": {"methods": ["reverse_sms"], "brand": {"name": "Shop"}},
            "sign_in": {"redirect_uris": ["https://shop.example/cb"], "jwks": {"keys": [{"kty": "EC"}]}},
            "camara": {"purposes": ["dpv:FraudPreventionAndDetection"]},
            "callbacks": {"url": "https://shop.example/callbacks", "retry_for": 0},
        });
        let base_url = "https://verify.example";
        assert_eq!(render_configuration(&configuration(&document), base_url), document);
        let empty = json!({
            "reverse_sms": {}, "secure_sna": {}, "discovery": {}, "verification": {}, "sign_in": {}, "camara": {},
            "callbacks": {},
        });
        assert_eq!(render_configuration(&Configuration::default(), base_url), empty);
    }

    #[test]
    fn null_clears_a_setting_a_section_or_everything() {
        let before = configuration(&json!({
            "reverse_sms": {"ttl": 120, "prefix": "ACME"},
            "verification": {"ttl": 60, "brand": {"name": "Shop", "colour": "#1a73e8"}},
        }));
        for (patch, cleared) in [
            (json!({"reverse_sms": {"ttl": null}}), &["reverse_sms.ttl"][..]),
            (json!({"reverse_sms": null}), &["reverse_sms.ttl", "reverse_sms.prefix"]),
            (json!({"verification": {"brand": null}}), &["verification.brand.name", "verification.brand.colour"]),
            (
                json!(null),
                &[
                    "reverse_sms.ttl",
                    "reverse_sms.prefix",
                    "verification.ttl",
                    "verification.brand.name",
                    "verification.brand.colour",
                ],
            ),
            (json!({"discovery": null}), &[]),
            (json!({}), &[]),
        ] {
            let after = before.patched(&parse(&patch).unwrap(), &UrlPolicy::default(), false).unwrap();
            assert_eq!(before.changes(&after).map(|setting| setting.path).collect::<Vec<_>>(), cleared, "{patch}");
        }
    }

    #[test]
    fn unknown_and_mistyped_members_are_rejected() {
        for (document, pointer, problem) in [
            (json!({"sim_swap": {}}), "/sim_swap", "unknown property"),
            (json!({"sim_swap": null}), "/sim_swap", "unknown property"),
            (json!({"verification": {"brand": {"icon": 1}}}), "/verification/brand/icon", "unknown property"),
            (json!({"reverse_sms": {"ttl": {"x": 1}}}), "/reverse_sms/ttl", "expected an integer, found an object"),
            (json!({"reverse_sms.ttl": 60}), "/reverse_sms.ttl", "unknown property"),
            (json!({"verification": 5}), "/verification", "expected an object, found a number"),
            (json!({"verification": {"methods": "sms"}}), "/verification/methods", "expected an array"),
            (json!({"verification": {"methods": ["a", "a"]}}), "/verification/methods/1", "repeated value"),
            (json!([]), "", "expected an object, found an array"),
        ] {
            let error = parse(&document).unwrap_err();
            assert_eq!(error.pointer, format!("/configuration{pointer}"));
            assert!(error.problem.starts_with(problem), "{document}: {}", error.problem);
        }
    }
}
