//! The master key and the database password.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{load, variables};
use crate::config::{KeysSection, MasterKeyError};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn write_secret(folder: &Path, text: &str, mode: u32) -> PathBuf {
    let path = folder.join("master.key");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn private_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o400] {
        let path = write_secret(folder.path(), &format!("{KEY}\n"), mode);
        let keys = KeysSection { master_key_file: Some(path.clone()) };
        assert!(keys.master_key(&variables([])).is_ok());
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn file_readable_by_others_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_secret(folder.path(), KEY, 0o640);
    let keys = KeysSection { master_key_file: Some(path.clone()) };
    let error = keys.master_key(&variables([])).unwrap_err();
    let path = path.display();
    assert_eq!(
        error.to_string(),
        format!(
            "the master key in {path} is readable by users other than its owner (mode 0640): run `chmod 600 {path}`"
        )
    );
}

#[test]
fn environment_takes_precedence() {
    let keys = KeysSection { master_key_file: Some("/nonexistent".into()) };
    assert!(keys.master_key(&variables([("RINGTRUE_MASTER_KEY", KEY)])).is_ok());
    let unreadable = keys.master_key(&variables([("RINGTRUE_MASTER_KEY", "")])).unwrap_err();
    assert!(matches!(unreadable, MasterKeyError::Unreadable { .. }), "{unreadable}");
}

#[test]
fn errors_do_not_contain_the_key() {
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

#[test]
fn database_password_is_read_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_secret(folder.path(), "hunter2\n", 0o600);
    let file = path.display().to_string();
    let shown = |url: &str| {
        let settings = [("RINGTRUE_STORE__URL", url), ("RINGTRUE_STORE__PASSWORD_FILE", file.as_str())];
        load("", settings).map(|loaded| format!("{:?} {}", loaded.config.store, loaded.config.store.url))
    };
    let masked = shown("postgres://ringtrue@db/ringtrue").unwrap();
    assert!(!masked.contains("hunter2"), "{masked}");
    let error = shown("sqlite:ringtrue.db").unwrap_err().to_string();
    assert!(error.starts_with("store.password_file"), "{error}");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let error = shown("postgres://ringtrue@db/ringtrue").unwrap_err().to_string();
    assert!(error.contains("which is readable by users other than its owner (mode 0644)"), "{error}");
}
