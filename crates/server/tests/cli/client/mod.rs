//! API client commands, each test with its own server.

mod callbacks;
mod checks;
mod inspect;
mod login;
mod management;
mod selftest;
mod trigger;
mod verification;
mod watch;

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::process::{CommandOutput, RunningCommand, address, ringtrue, run};

/// Simulated numbers. Checks of `MATCHING` end with a match, those of `OTHER` with a mismatch.
pub const MATCHING: &str = "+990123456700";
pub const OTHER: &str = "+990123456701";

/// A home directory with a `default` profile, and the `ringtrue dev` server to which the profile connects.
pub struct TestClient {
    folder: TempDir,
    server: Option<RunningCommand>,
}

impl TestClient {
    /// Creates an empty home directory without a server.
    pub fn empty() -> Self {
        TestClient { folder: tempfile::tempdir().expect("a temporary directory"), server: None }
    }

    pub fn start() -> Self {
        TestClient::with(&[])
    }

    /// Starts a server with additional environment variables.
    pub fn with(environment: &[(&str, &str)]) -> Self {
        let mut client = TestClient::empty();
        let mut dev = ringtrue(client.folder.path());
        dev.args(["dev", "--data", "data", "--listen", "127.0.0.1:0"]).envs(environment.iter().copied());
        let server = RunningCommand::start(&mut dev);
        server.wait_for("Ringtrue is ready at ");
        client.server = Some(server);
        client
    }

    pub fn signed_in() -> Self {
        let client = TestClient::start();
        client.run("login --data data").expect_code(0);
        client
    }

    /// Restarts the server at the same address.
    pub fn restart_server(&mut self) {
        let at = address(text(&self.dev(), "base_url")).to_owned();
        let mut dev = ringtrue(self.folder.path());
        let server = RunningCommand::start(dev.args(["dev", "--data", "data", "--listen", &at]));
        server.wait_for("Ringtrue is ready at ");
        self.server = Some(server);
    }

    /// Concludes a check with this callback URL, and returns its id.
    pub fn conclude_check(&self, number: &str, callback_url: &str) -> String {
        let created = self.json(&format!("reverse-sms create {number} --callback-url {callback_url}"));
        let id = text(&created, "check_id").to_owned();
        self.run(&format!("trigger {id}")).expect_code(0);
        self.run(&format!("reverse-sms watch {id}")).expect_code(0);
        id
    }

    /// Starts a long-running command, with stderr merged into stdout.
    pub fn start_command(&self, line: &str) -> RunningCommand {
        let mut command = Command::new("sh");
        let line = format!("exec {} {line} 2>&1", env!("CARGO_BIN_EXE_ringtrue"));
        command.args(["-c", &line]).current_dir(self.folder.path()).stdin(Stdio::null());
        RunningCommand::start(command.env("XDG_CONFIG_HOME", self.path("config")))
    }

    pub fn stop(&mut self) {
        self.server.take().expect("a server runs").stop();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("the file exists").permissions().mode() & 0o777
    }

    /// Returns the content of `dev.json`.
    pub fn dev(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("data/dev.json")).expect("the file exists"))
            .expect("the file contains JSON")
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = ringtrue(self.folder.path());
        command.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.path("config")).args(line.split(' '));
        command
    }

    pub fn run(&self, line: &str) -> CommandOutput {
        run(&mut self.command(line))
    }

    pub fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --output json")).json()
    }

    /// Returns the CSV output of a command as rows of (column, value) pairs.
    pub fn csv(&self, line: &str) -> Vec<Vec<(String, String)>> {
        let text = self.run(&format!("{line} --output csv")).expect_code(0).text();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let names = lines.next().expect("a header line");
        lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
    }

    /// Runs a command with this standard input.
    pub fn pipe(&self, line: &str, input: &str) -> CommandOutput {
        let mut command = self.command(line);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // Fails if the command exits without reading, which is no error here.
        let _ = child.stdin.take().expect("the input is piped").write_all(input.as_bytes());
        CommandOutput::from(child.wait_with_output().expect("the command exits"))
    }
}

pub fn field<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    row.iter().find(|(column, _)| column == name).map_or("", |(_, value)| value)
}

pub fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().expect("a string")
}
