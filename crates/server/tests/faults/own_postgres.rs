//! A PostgreSQL server that no other test uses, so that it can be stopped.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use jiff::Timestamp;

/// Lends servers, and stops them.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");

pub struct OwnPostgres {
    /// An empty database with our schema.
    pub url: String,
    directory: String,
    /// The server lives as long as this, and this as long as its input.
    keeper: Child,
}

impl OwnPostgres {
    pub async fn start() -> Self {
        let mut keeper = Command::new(SCRIPT)
            .args(["run", "sh", "-c", "echo $POSTGRES_FOR_TESTS; echo $POSTGRES_DIRECTORY; exec cat >/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs");
        let mut lines = BufReader::new(keeper.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("a server").unwrap();
        let (url, directory) = (line(), line());
        ringtrue_store::migrate(&url.parse().unwrap(), Timestamp::UNIX_EPOCH).await.expect("a schema");
        OwnPostgres { url, directory, keeper }
    }

    /// As a power cut stops it.
    pub fn halt(&self) {
        self.bring_to("halt");
    }

    /// Returns when it answers.
    pub fn resume(&self) {
        self.bring_to("resume");
    }

    fn bring_to(&self, what: &str) {
        let status = Command::new(SCRIPT).args([what, &self.directory]).status().expect("the script runs");
        assert!(status.success(), "{what}: {status}");
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
