//! A PostgreSQL server for one test that can be stopped, alone or with a standby.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use jiff::Timestamp;

/// Script that starts and stops servers.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");

#[derive(Debug)]
pub struct OwnPostgres {
    /// An empty database with our schema; of a pair, on the current primary.
    pub url: String,
    directory: String,
    /// The standby, if any.
    standby: String,
    /// The servers stop when the input of this process closes.
    script: Child,
}

impl OwnPostgres {
    pub async fn start() -> Self {
        Self::start_with("run").await
    }

    /// With a synchronous standby.
    pub async fn start_pair() -> Self {
        Self::start_with("pair").await
    }

    async fn start_with(command: &str) -> Self {
        let print_variables = "echo $PGPORT; echo $POSTGRES_DIRECTORY; echo $STANDBY_PORT; echo $STANDBY_DIRECTORY";
        let mut script = Command::new(SCRIPT)
            .args([command, "sh", "-c", &format!("{print_variables}; exec cat >/dev/null")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs");
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let [port, directory, standby_port, standby] = [(); 4].map(|()| lines.next().expect("a server").unwrap());
        let url = if standby.is_empty() {
            format!("postgres://ringtrue@127.0.0.1:{port}/postgres")
        } else {
            let hosts = format!("127.0.0.1:{port},127.0.0.1:{standby_port}");
            format!("postgres://ringtrue@{hosts}/postgres?target_session_attrs=read-write")
        };
        ringtrue_store::migrate(&url.parse().unwrap(), Timestamp::UNIX_EPOCH).await.expect("a schema");
        OwnPostgres { url, directory, standby, script }
    }

    /// Stops the server like a power failure.
    pub fn halt(&self) {
        run_script("halt", &self.directory);
    }

    /// Returns when the server responds.
    pub fn resume(&self) {
        run_script("resume", &self.directory);
    }

    /// Promotes the standby.
    pub fn promote_standby(&self) {
        run_script("promote", &self.standby);
    }
}

fn run_script(command: &str, directory: &str) {
    let status = Command::new(SCRIPT).args([command, directory]).status().expect("the script runs");
    assert!(status.success(), "{command}: {status}");
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
