//! The master key, from the environment or from a file that nobody else can read; and the database's password.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{load, variables};
use crate::config::{KeysSection, MasterKeyError};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn written(folder: &Path, text: &str, mode: u32) -> PathBuf {
    let path = folder.join("master.key");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_private_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o400] {
        let path = written(folder.path(), &format!("{KEY}\n"), mode);
        let keys = KeysSection { master_key_file: Some(path.clone()) };
        assert!(keys.master_key(&variables([])).is_ok());
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), KEY, 0o640);
    let keys = KeysSection { master_key_file: Some(path.clone()) };
    let error = keys.master_key(&variables([])).unwrap_err();
    let path = path.display();
    assert_eq!(
        error.to_string(),
        format!("the master key in {path} can be read by others than its owner (mode 0640): run `chmod 600 {path}`")
    );
}

#[test]
fn the_environment_comes_first() {
    let keys = KeysSection { master_key_file: Some("/nonexistent".into()) };
    assert!(keys.master_key(&variables([("RINGTRUE_MASTER_KEY", KEY)])).is_ok());
    let unreadable = keys.master_key(&variables([("RINGTRUE_MASTER_KEY", "")])).unwrap_err();
    assert!(matches!(unreadable, MasterKeyError::Unreadable { .. }), "{unreadable}");
}

#[test]
fn what_is_wrong_is_said_without_the_key() {
    let keys = KeysSection { master_key_file: None };
    let missing = keys.master_key(&variables([])).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "there is no master key: name a file in `keys.master_key_file`, or set RINGTRUE_MASTER_KEY; `openssl rand \
         -base64 32` makes a key"
    );
    let short = keys.master_key(&variables([("RINGTRUE_MASTER_KEY", "c2hvcnQ=")])).unwrap_err();
    assert_eq!(
        short.to_string(),
        "RINGTRUE_MASTER_KEY: a master key is 32 random bytes in base64; `openssl rand -base64 32` makes one"
    );
}

#[test]
fn the_password_of_the_database_is_read_from_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "hunter2\n", 0o600);
    let file = path.display().to_string();
    let shown = |url: &str| {
        let settings = [("RINGTRUE_STORE__URL", url), ("RINGTRUE_STORE__PASSWORD_FILE", file.as_str())];
        load("", settings).map(|loaded| format!("{:?} {}", loaded.config.store, loaded.config.store.url))
    };
    let masked = shown("postgres://ringtrue@db/ringtrue").unwrap();
    assert!(!masked.contains("hunter2"), "{masked}");
    let refused = shown("sqlite:ringtrue.db").unwrap_err().to_string();
    assert!(refused.starts_with("store.password_file"), "{refused}");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let refused = shown("postgres://ringtrue@db/ringtrue").unwrap_err().to_string();
    assert!(refused.contains("which can be read by others than its owner (mode 0644)"), "{refused}");
}
