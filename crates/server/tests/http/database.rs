//! A database for one test, gone when the test is over.

use std::{process::Command, time::UNIX_EPOCH};

use jiff::Timestamp;
use ringtrue_engine::ports::{Entropy, SystemEntropy};
use ringtrue_store::StoreUrl;
use tempfile::TempDir;

pub struct Database {
    url: StoreUrl,
    /// Removed, or dropped, in the end.
    _files: Option<TempDir>,
    name: Option<String>,
}

impl Database {
    pub async fn sqlite() -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", files.path().join("ringtrue.db").display());
        Database::migrated(url, Some(files), None).await
    }

    /// On the server that `make test` has started.
    pub async fn postgres() -> Self {
        let random: [u8; 8] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        let name = format!("http_{:016x}", u64::from_be_bytes(random));
        psql(&format!("create database {name}"));
        let mut url = url::Url::parse(&server()).expect("a URL");
        url.set_path(&name);
        Database::migrated(url.to_string(), None, Some(name)).await
    }

    async fn migrated(url: String, files: Option<TempDir>, name: Option<String>) -> Self {
        let url: StoreUrl = url.parse().expect("a store's URL");
        let now = Timestamp::try_from(UNIX_EPOCH).expect("an instant");
        ringtrue_store::migrate(&url, now).await.expect("a schema");
        Database { url, _files: files, name }
    }

    pub fn url(&self) -> &StoreUrl {
        &self.url
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            psql(&format!("drop database {name} with (force)"));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the server's address is given to tests, not configured")]
fn server() -> String {
    std::env::var("POSTGRES_FOR_TESTS").expect("tests on PostgreSQL need a server of their own: run `make test`")
}

fn psql(statement: &str) {
    let output = Command::new("psql")
        .args([&server(), "--no-psqlrc", "--quiet", "--command", statement])
        .output()
        .expect("psql runs");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
}
