//! Tests secrets in private files: master key, database password, and secrets of sections.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use tempfile::NamedTempFile;

use super::{SMPP, load, load_valid, variables};
use crate::config::{
    Config, Connector, KeysSection, MasterKeyError,
    environment::{is_exposed, read_private_file},
};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn secret_file(content: impl AsRef<[u8]>, mode: u32) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, content).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    file
}

#[test]
fn secret_length_and_encoding_are_checked() {
    for (content, expected) in [
        (vec![], Ok(0)),
        (vec![b'a'; 16_384], Ok(16_384)),
        (vec![b'a'; 16_385], Err("is longer than 16384 bytes")),
        (vec![b'a'; 100_000], Err("is longer than 16384 bytes")),
        (vec![0xff], Err("cannot be read: not UTF-8")),
    ] {
        let read = read_private_file(secret_file(&content, 0o600).path());
        let read = read.map(|text| text.len()).map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned), "{} bytes", content.len());
    }
}

#[test]
fn only_private_files_and_systemd_credentials_are_accepted() {
    for (mode, user, group, expected) in [
        (0o600, 1000, 1000, false),
        (0o400, 0, 0, false),
        (0o440, 0, 0, false),
        (0o440, 1000, 1000, true),
        (0o440, 0, 1000, true),
        (0o440, 1000, 0, true),
        (0o640, 0, 0, true),
        (0o460, 0, 0, true),
        (0o444, 0, 0, true),
        (0o604, 1000, 1000, true),
    ] {
        assert_eq!(is_exposed(mode, user, group), expected, "{mode:o} of {user}:{group}");
    }
}

#[test]
fn master_key_is_read_from_a_private_file() {
    for mode in [0o600, 0o400] {
        let file = secret_file(format!("{KEY}\n"), mode);
        let keys = KeysSection { master_key_file: Some(file.path().to_owned()) };
        assert!(keys.master_key(&variables([])).is_ok());
    }
    let file = secret_file(KEY, 0o640);
    let keys = KeysSection { master_key_file: Some(file.path().to_owned()) };
    let (error, path) = (keys.master_key(&variables([])).unwrap_err().to_string(), file.path().display());
    let expected = format!(
        "the master key in {path} is readable by users other than its owner (mode 0640): run `chmod 600 {path}`"
    );
    assert_eq!(error, expected);
}

#[test]
fn master_key_in_the_environment_takes_precedence() {
    let keys = KeysSection { master_key_file: Some("/nonexistent".into()) };
    assert!(keys.master_key(&variables([("RINGTRUE_MASTER_KEY", KEY)])).is_ok());
    let unreadable = keys.master_key(&variables([("RINGTRUE_MASTER_KEY", "")])).unwrap_err();
    assert!(matches!(unreadable, MasterKeyError::Unreadable { .. }), "{unreadable}");
}

#[test]
fn master_key_errors_do_not_contain_the_key() {
    let keys = KeysSection { master_key_file: None };
    let missing = keys.master_key(&variables([])).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no master key: set `keys.master_key_file` or RINGTRUE_MASTER_KEY; generate a key with \
         `openssl rand -base64 32`"
    );
    let short = keys.master_key(&variables([("RINGTRUE_MASTER_KEY", "c2hvcnQ=")])).unwrap_err();
    assert_eq!(
        short.to_string(),
        "RINGTRUE_MASTER_KEY: a master key must be 32 random bytes in base64; create one with `openssl rand -base64 32`"
    );
}

/// Each case has settings, the content and mode of a file, and the expected error. `PATH` in the settings is the path
/// of the file.
#[test]
fn secret_files_are_checked() {
    let postgres = "[store]\nurl = \"postgres://ringtrue@db/ringtrue\"\npassword_file = PATH";
    let hlr = "[sandbox]\nhlr_listen = \"127.0.0.1:0\"\nhlr_secret_file = PATH";
    let smpp = &format!("{SMPP}password_file = PATH");
    for (settings, content, mode, problem) in [
        (postgres, "hunter2\n", 0o600, None),
        (
            &postgres.replace("postgres://ringtrue@db/", "sqlite:"),
            "hunter2",
            0o600,
            Some("a path, while `store.url` names a file"),
        ),
        (postgres, "hunter2", 0o644, Some("which is readable by users other than its owner (mode 0644)")),
        (hlr, "hunter2\n", 0o600, None),
        (hlr, "hunter2", 0o644, Some("which is readable by users other than its owner (mode 0644)")),
        (hlr, "\n", 0o600, Some("which holds an invalid value")),
        (hlr, "hunter 2", 0o600, Some("which holds an invalid value")),
        (smpp, "hunter2\n", 0o600, None),
        (smpp, "hunter2", 0o644, Some("which is readable by users other than its owner (mode 0644)")),
        (smpp, "hunter 2 is too long", 0o600, Some("which holds an invalid value")),
    ] {
        let file = secret_file(content, mode);
        let settings = settings.replace("PATH", &format!("{:?}", file.path()));
        let found = load(&settings, []).map(|loaded| format!("{loaded:?}")).map_err(|error| error.to_string());
        let shown = found.as_ref().unwrap_or_else(|error| error);
        assert!(!shown.contains("hunter"), "{shown}");
        assert_eq!(found.is_err(), problem.is_some(), "{shown}");
        assert!(problem.is_none_or(|problem| shown.contains(problem) && shown.contains("_file")), "{shown}");
    }
}

/// Editors and `echo` append a newline.
#[test]
fn secrets_are_read_without_their_newline() {
    let file = secret_file("hunter2\n", 0o600);
    let Config { sandbox, connectors, .. } = load_valid(
        &format!(
            "sandbox.hlr_listen = \"127.0.0.1:0\"\nsandbox.hlr_secret_file = {path:?}\n{SMPP}password_file = {path:?}",
            path = file.path()
        ),
        [],
    );
    assert_eq!(sandbox.directory.unwrap().hlr_secret.as_deref(), Some("hunter2"));
    assert!(matches!(&connectors[0].connector, Connector::Smpp(smpp) if smpp.password == "hunter2".into()));
}
