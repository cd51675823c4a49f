//! Whom the simulated operator's directory knows, and where it is asked.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use ringtrue_sandbox::directory::DirectoryConfig;

use super::{good, load};

const SUBSCRIBERS: &str = r#"["+447700900123 23430", "+447700900124 23410 ported-from 23430 absent"]"#;

#[test]
fn a_directory_is_there_when_it_can_be_asked() {
    let subscribers = format!("[sandbox]\nsubscribers = {SUBSCRIBERS}\n");
    assert_eq!(good(&subscribers, []).sandbox.directory, None);
    let config = good(&format!("{subscribers}enum_listen = \"127.0.0.1:5353\""), []);
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
        good("", [("RINGTRUE_SANDBOX__HLR_LISTEN", "[::1]:0"), ("RINGTRUE_SANDBOX__SUBSCRIBERS", SUBSCRIBERS)]);
    assert_eq!(by_variables.sandbox.directory.unwrap().subscribers.len(), 2);
}

#[test]
fn the_secret_comes_from_a_file_that_others_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let file = format!("[sandbox]\nhlr_listen = \"127.0.0.1:0\"\nhlr_secret_file = {path:?}");
    let told = |content: &str, mode: u32| {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        load(&file, []).map(|loaded| loaded.config.sandbox.directory.unwrap().secret).map_err(|error| error.to_string())
    };
    assert_eq!(told("hunter2\n", 0o600), Ok(Some("hunter2".to_owned())));
    for (content, mode, problem) in [
        ("hunter2", 0o644, "can be read by others"),
        ("\n", 0o600, "holds something else"),
        ("hunter 2", 0o600, "holds something else"),
    ] {
        let error = told(content, mode).unwrap_err();
        assert!(error.contains(problem) && error.contains("sandbox.hlr_secret_file"), "{error}");
        assert!(!error.contains("hunter"), "{error}");
    }
}

#[test]
fn the_manuals_way_to_try_sources_out_is_good() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md"));
    let (_, section) = manual.split_once("### Trying sources out").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let config = good(example.split_once("```").unwrap().0, []);
    let directory = config.sandbox.directory.unwrap();
    assert_eq!((directory.subscribers.len(), config.number_lookup.sources.len()), (3, 2));
    assert!(directory.enum_listen.is_some() && directory.hlr_listen.is_some());
}

/// Numbers are not repeated: the place says enough.
#[test]
fn what_a_directory_cannot_be_is_refused() {
    for (line, problem) in [
        ("enum_listen = \"0.0.0.0:53\"", "found \"0.0.0.0:53\"; allowed: a loopback address and a port"),
        ("hlr_listen = \"192.0.2.1:80\"", "found \"192.0.2.1:80\"; allowed: a loopback address and a port"),
        (
            "subscribers = [\"+447911123456 23430\", \"+447911123457\"]",
            "found something else in place 2; allowed: a list",
        ),
        ("subscribers = [\"+447911123456 23430\", \"+447911123456 23410\"]", "found something else in place 2"),
        ("subscribers = \"+447911123456 23430\"", "found something else; allowed: a list of subscribers"),
        ("hlr_secret_file = \"/nowhere/secret\"", "cannot be read"),
    ] {
        let error = load(&format!("[sandbox]\n{line}"), []).unwrap_err().to_string();
        assert!(error.contains(problem) && !error.contains("79111"), "{error}");
    }
}
