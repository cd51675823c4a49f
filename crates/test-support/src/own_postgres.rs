//! A PostgreSQL server for one test, which the test can stop. It runs alone, with a standby, or with a WAL archive.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use jiff::Timestamp;

/// Path of the script that starts and stops servers.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");

#[derive(Debug)]
pub struct OwnPostgres {
    /// URL of an empty database with our schema. With a standby, the URL names both servers, and clients connect to the
    /// current primary.
    pub url: String,
    directory: String,
    /// Directory of the standby. Empty if there is none.
    standby: String,
    /// Directory with the base backup and the archived WAL. Empty if the server does not archive.
    archive: String,
    /// Directory in which [`restore`](Self::restore) creates a server.
    restored: String,
    /// The script that runs the servers. It stops them when its standard input closes.
    script: Child,
}

impl OwnPostgres {
    pub async fn start() -> Self {
        Self::start_with("run").await
    }

    /// Starts a server with a synchronous standby.
    pub async fn start_pair() -> Self {
        Self::start_with("pair").await
    }

    /// Starts a server that archives its WAL.
    pub async fn start_archiving() -> Self {
        Self::start_with("archive").await
    }

    async fn start_with(command: &str) -> Self {
        let print_variables = "echo $PGPORT; echo $POSTGRES_DIRECTORY; echo $STANDBY_PORT; echo $STANDBY_DIRECTORY; \
                               echo $ARCHIVE_DIRECTORY; echo $RESTORED_DIRECTORY";
        let mut script = Command::new(SCRIPT)
            .args([command, "sh", "-c", &format!("{print_variables}; exec cat >/dev/null")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the script runs");
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let [port, directory, standby_port, standby, archive, restored] =
            [(); 6].map(|()| lines.next().expect("a server").unwrap());
        let url = if standby.is_empty() {
            format!("postgres://ringtrue@127.0.0.1:{port}/postgres")
        } else {
            let hosts = format!("127.0.0.1:{port},127.0.0.1:{standby_port}");
            format!("postgres://ringtrue@{hosts}/postgres?target_session_attrs=read-write")
        };
        ringtrue_store::migrate(&url.parse().unwrap(), Timestamp::UNIX_EPOCH).await.expect("a schema");
        OwnPostgres { url, directory, standby, archive, restored, script }
    }

    /// Stops the server abruptly, like a power failure.
    pub fn halt(&self) {
        run_script(&["halt", &self.directory]);
    }

    /// Starts the server again. Returns when it responds.
    pub fn resume(&self) {
        run_script(&["resume", &self.directory]);
    }

    /// Promotes the standby.
    pub fn promote_standby(&self) {
        run_script(&["promote", &self.standby]);
    }

    /// Takes a base backup of the running server.
    pub fn back_up(&self) {
        run_script(&["backup", &self.directory, &self.archive]);
    }

    /// Restores the base backup and the archived WAL in a new data directory, up to a time by the clock of the server,
    /// such as `2026-11-15 02:30:00.123456+00`. Returns the URL of the new server.
    pub fn restore(&self, time: &str) -> String {
        run_script(&["restore", &self.archive, &self.restored, time]);
        let port = fs::read_to_string(format!("{}/port", self.restored)).expect("a port");
        format!("postgres://ringtrue@127.0.0.1:{}/postgres", port.trim())
    }

    /// Runs a query and returns the only value of its result.
    pub fn query(&self, sql: &str) -> String {
        let output = Command::new("psql")
            .args([&self.url, "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", sql])
            .output()
            .expect("psql runs");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }
}

fn run_script(arguments: &[&str]) {
    let status = Command::new(SCRIPT).args(arguments).status().expect("the script runs");
    assert!(status.success(), "{arguments:?}: {status}");
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
