//! Deployment in a temporary directory: configuration, master key and SQLite database.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};

use tempfile::TempDir;

use super::process::{CommandOutput, RunningCommand, ringtrue, run};

pub const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const OTHER_MASTER_KEY: &str = "HxAREhMUFRYXGBkaGwAAAAAAAAAAAAAAAAAAAAAAAAA=";

pub struct Deployment {
    folder: TempDir,
}

impl Deployment {
    /// Creates a deployment without a database.
    pub fn new() -> Self {
        let deployment = Deployment { folder: tempfile::tempdir().expect("a temporary directory") };
        deployment.configure("");
        deployment.write("master.key", MASTER_KEY, 0o600);
        deployment
    }

    pub fn migrated() -> Self {
        let deployment = Deployment::new();
        deployment.run("migrate").expect_code(0);
        deployment
    }

    /// Rewrites the configuration with additional lines.
    pub fn configure(&self, more: &str) {
        let text = format!(
            "store.url = \"sqlite:ringtrue.db\"\n\
             keys.master_key_file = \"master.key\"\n\
             http.listen = \"127.0.0.1:0\"\n\
             http.max_connections = 100\n\
             metrics.listen = \"127.0.0.1:0\"\n\
             {more}"
        );
        self.write("ringtrue.toml", &text, 0o644);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).unwrap();
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = ringtrue(self.folder.path());
        command.args(line.split(' '));
        command
    }

    pub fn run(&self, line: &str) -> CommandOutput {
        run(&mut self.command(line))
    }

    /// Starts a server, and returns its base URL once it is ready.
    pub fn serve(&self) -> (RunningCommand, String) {
        let server = RunningCommand::start(&mut self.command("serve"));
        let line: serde_json::Value = serde_json::from_str(&server.wait_for("\"ready\"")).expect("a line of JSON");
        let base_url = line["base_url"].as_str().expect("a base URL").to_owned();
        (server, base_url)
    }
}
