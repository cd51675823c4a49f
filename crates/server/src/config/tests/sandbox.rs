//! Number directory of the simulated operator.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use ringtrue_sandbox::directory::DirectoryConfig;

use super::{load, load_valid};

const SUBSCRIBERS: &str = r#"["+447700900123 23430", "+447700900124 23410 ported-from 23430 absent"]"#;

#[test]
fn directory_exists_if_it_has_a_listener() {
    let subscribers = format!("[sandbox]\nsubscribers = {SUBSCRIBERS}\n");
    assert_eq!(load_valid(&subscribers, []).sandbox.directory, None);
    let config = load_valid(&format!("{subscribers}enum_listen = \"127.0.0.1:5353\""), []);
    let expected = DirectoryConfig {
        enum_listen: Some("127.0.0.1:5353".parse().unwrap()),
        hlr_listen: None,
        subscribers: vec![
            "+447700900123 23430".parse().unwrap(),
            "+447700900124 23410 ported-from 23430 absent".parse().unwrap(),
        ],
        ..DirectoryConfig::default()
    };
    assert_eq!(config.sandbox.directory, Some(expected));
    let by_variables =
        load_valid("", [("RINGTRUE_SANDBOX__HLR_LISTEN", "[::1]:0"), ("RINGTRUE_SANDBOX__SUBSCRIBERS", SUBSCRIBERS)]);
    assert_eq!(by_variables.sandbox.directory.unwrap().subscribers.len(), 2);
}

#[test]
fn secret_is_read_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let file = format!("[sandbox]\nhlr_listen = \"127.0.0.1:0\"\nhlr_secret_file = {path:?}");
    let load_secret = |content: &str, mode: u32| {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        load(&file, []).map(|loaded| loaded.config.sandbox.directory.unwrap().secret).map_err(|error| error.to_string())
    };
    assert_eq!(load_secret("hunter2\n", 0o600), Ok(Some("hunter2".to_owned())));
    for (content, mode, problem) in [
        ("hunter2", 0o644, "is readable by users other than its owner"),
        ("\n", 0o600, "contains no valid secret"),
        ("hunter 2", 0o600, "contains no valid secret"),
    ] {
        let error = load_secret(content, mode).unwrap_err();
        assert!(error.contains(problem) && error.contains("sandbox.hlr_secret_file"), "{error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[test]
fn manual_example_for_number_sources_is_valid() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md"));
    let (_, section) = manual.split_once("### Trying sources out").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let config = load_valid(example.split_once("```").unwrap().0, []);
    let directory = config.sandbox.directory.unwrap();
    assert_eq!((directory.subscribers.len(), config.number_lookup.sources.len()), (3, 2));
    assert!(directory.enum_listen.is_some() && directory.hlr_listen.is_some());
}

/// Errors name the position, not the number.
#[test]
fn invalid_directories_are_rejected() {
    for (line, problem) in [
        ("enum_listen = \"0.0.0.0:53\"", "found \"0.0.0.0:53\"; allowed: a loopback address and a port"),
        ("hlr_listen = \"192.0.2.1:80\"", "found \"192.0.2.1:80\"; allowed: a loopback address and a port"),
        (
            "subscribers = [\"+447911123456 23430\", \"+447911123457\"]",
            "found an invalid subscriber at position 2; allowed: a list",
        ),
        (
            "subscribers = [\"+447911123456 23430\", \"+447911123456 23410\"]",
            "found an invalid subscriber at position \
            2",
        ),
        ("subscribers = \"+447911123456 23430\"", "found a value that is not a list; allowed: a list of subscribers"),
        ("hlr_secret_file = \"/nowhere/secret\"", "cannot be read"),
    ] {
        let error = load(&format!("[sandbox]\n{line}"), []).unwrap_err().to_string();
        assert!(error.contains(problem) && !error.contains("79111"), "{error}");
    }
}
