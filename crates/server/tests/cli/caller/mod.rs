//! The command line for callers, against a server of its own for each test.

mod callbacks;
mod checks;
mod login;
mod management;
mod selftest;
mod shells;
mod tail;
mod trigger;
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

use super::process::{Done, Server, address, ringtrue, run};

/// A simulated number that matches, and one that does not.
pub const MATCHING: &str = "+990123456700";
pub const OTHER: &str = "+990123456701";

/// A `ringtrue dev`, and a home whose `default` profile knows it.
pub struct World {
    folder: TempDir,
    server: Option<Server>,
}

impl World {
    /// A home with nothing in it, and no server.
    pub fn empty() -> Self {
        World { folder: tempfile::tempdir().expect("a folder can be made"), server: None }
    }

    pub fn start() -> Self {
        World::with(&[])
    }

    /// With more in the server's environment.
    pub fn with(environment: &[(&str, &str)]) -> Self {
        let mut world = World::empty();
        let mut dev = ringtrue(world.folder.path());
        dev.args(["dev", "--data", "data", "--listen", "127.0.0.1:0"]).envs(environment.iter().copied());
        let server = Server::start(&mut dev);
        server.wait_for("Ringtrue is ready at ");
        world.server = Some(server);
        world
    }

    pub fn signed_in() -> Self {
        let world = World::start();
        world.run("login --data data").expect_code(0);
        world
    }

    /// The same server at the same address, after it was stopped.
    pub fn start_again(&mut self) {
        let at = address(text(&self.dev(), "base_url")).to_owned();
        let mut dev = ringtrue(self.folder.path());
        let server = Server::start(dev.args(["dev", "--data", "data", "--listen", &at]));
        server.wait_for("Ringtrue is ready at ");
        self.server = Some(server);
    }

    /// A check that has ended, and whose callback goes there.
    pub fn ended(&self, number: &str, callback_url: &str) -> String {
        let created = self.json(&format!("reverse-sms create {number} --callback-url {callback_url}"));
        let id = text(&created, "check_id").to_owned();
        self.run(&format!("trigger {id}")).expect_code(0);
        self.run(&format!("reverse-sms watch {id}")).expect_code(0);
        id
    }

    /// A command that goes on until it is told to stop. Its remarks come with its output.
    pub fn going_on(&self, line: &str) -> Server {
        let mut command = Command::new("sh");
        let line = format!("exec {} {line} 2>&1", env!("CARGO_BIN_EXE_ringtrue"));
        command.args(["-c", &line]).current_dir(self.folder.path()).stdin(Stdio::null());
        Server::start(command.env("XDG_CONFIG_HOME", self.path("config")))
    }

    pub fn stop(&mut self) {
        self.server.take().expect("a server runs").stop();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).expect("it is there").permissions().mode() & 0o777
    }

    /// What `dev.json` says.
    pub fn dev(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("data/dev.json")).expect("it is there")).expect("it is JSON")
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = ringtrue(self.folder.path());
        command.env("HOME", self.folder.path()).env("XDG_CONFIG_HOME", self.path("config")).args(line.split(' '));
        command
    }

    pub fn run(&self, line: &str) -> Done {
        run(&mut self.command(line))
    }

    pub fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --output json")).json()
    }

    /// The rows of CSV, by the names of the columns.
    pub fn csv(&self, line: &str) -> Vec<Vec<(String, String)>> {
        let text = self.run(&format!("{line} --output csv")).expect_code(0).text();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let names = lines.next().expect("a line with the names");
        lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
    }

    /// With this on standard input.
    pub fn pipe(&self, line: &str, input: &str) -> Done {
        let mut command = self.command(line);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        // A command that needs no input may have ended.
        let _ = child.stdin.take().expect("the input is piped").write_all(input.as_bytes());
        Done::from(child.wait_with_output().expect("it ends"))
    }
}

/// The field of a row.
pub fn field<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    row.iter().find(|(column, _)| column == name).map_or("", |(_, value)| value)
}

pub fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().expect("a text")
}
