//! `ringtrue dev`.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use super::process::{RunningCommand, get, ringtrue, run, token};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn dev(folder: &Path, listen: &str) -> Command {
    let mut command = ringtrue(folder);
    command.args(["dev", "--data", "data", "--listen", listen]);
    command
}

/// Starts the server, and returns `dev.json` once it is ready.
fn start(folder: &Path) -> (RunningCommand, Value) {
    let server = RunningCommand::start(&mut dev(folder, "127.0.0.1:0"));
    server.wait_for("Ringtrue is ready at http://127.0.0.1:");
    (server, read_dev_json(folder))
}

fn read_dev_json(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("data/dev.json")).expect("dev.json exists"))
        .expect("dev.json contains JSON")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn base_url(dev: &Value) -> &str {
    dev["base_url"].as_str().unwrap()
}

#[test]
fn credentials_work_and_files_are_private() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    assert_eq!(token(base_url(&dev), &dev["project"], "reverse_sms"), 200);
    assert_eq!(token(base_url(&dev), &dev["workspace"], "management"), 200);

    let data = folder.path().join("data");
    assert_eq!(mode(&data), 0o700);
    for file in ["dev.json", "master.key", "ringtrue.db"] {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    server.stop();
}

#[test]
fn console_links_work_with_a_data_directory() {
    let folder = folder();
    let (server, dev) = start(folder.path());
    let (_, page) = get(base_url(&dev), "/console/sign-in");
    assert!(page.contains("<code>--data DIR</code>"), "{page}");
    let console = |line: &str| run(ringtrue(folder.path()).arg("console").args(line.split(' ')));
    let made = console("link --data data --admin jane@example.com --output json").expect_code(0).json();
    let path = made["url"].as_str().unwrap().strip_prefix(base_url(&dev)).expect("a link of this server").to_owned();
    let (status, page) = get(base_url(&dev), &path);
    assert!(status == 200 && page.contains("jane@example.com"), "{status} {page}");
    let again = console("link --data data --account jane@example.com --output json").expect_code(0).json();
    assert_eq!(get(base_url(&dev), &path).0, 410, "a new link voids the earlier one");
    let path = again["url"].as_str().unwrap().strip_prefix(base_url(&dev)).unwrap().to_owned();
    console("disable jane@example.com --data data").expect_code(0);
    assert_eq!(get(base_url(&dev), &path).0, 410);
    let refused = console("link --data data --admin jane@example.com");
    assert!(refused.errors().contains("the account is disabled"), "{}", refused.errors());
    console("enable jane@example.com --data data").expect_code(0);
    console("demote jane@example.com --data data").expect_code(0);
    let refused = console("link --data elsewhere --admin jane@example.com");
    assert!(refused.errors().contains("elsewhere is not a data directory of `ringtrue dev`"), "{}", refused.errors());
    server.stop();
}

/// Runs printed commands in a shell.
fn run_in_shell(lines: &[String]) -> String {
    let shell = Command::new("sh").args(["-c", &lines.join("\n")]).output().expect("a shell runs");
    String::from_utf8(shell.stdout).expect("the output is UTF-8")
}

#[test]
fn printed_commands_run_a_check_with_callback() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let receiver = server.wait_for(" listen --data ");
    let lines = ["    checks=", "    token=", "    check=", "    of()", "    curl ", "    curl "];
    let mut lines = lines.map(|start| server.wait_for(start));
    let binary = fs::canonicalize(env!("CARGO_BIN_EXE_ringtrue")).unwrap();
    assert!(receiver.contains(binary.to_str().unwrap()) && receiver.ends_with("/data"), "{receiver}");

    // The default port may be in use.
    let mut listen = ringtrue(folder.path());
    let receiver = RunningCommand::start(listen.args(["listen", "--data", "data", "--listen", "127.0.0.1:0"]));
    let url = receiver.wait_for("callback_url").split_whitespace().last().unwrap().to_owned();
    lines[2] = lines[2].replace("http://127.0.0.1:9099/callbacks", &url);

    let response = run_in_shell(&lines);
    assert!(response.contains("\"COMPLETED\"") && response.contains("\"match\":true"), "{response}");
    for text in ["  reverse_sms  attempt 1", "status     COMPLETED", "match      true", "signature  valid (key "] {
        receiver.wait_for(text);
    }
    receiver.stop();

    let mut erase = ringtrue(folder.path());
    erase.args(["erase", "--number", "+990123456700", "--output", "json"]);
    erase.env("RINGTRUE_STORE__URL", "sqlite:data/ringtrue.db");
    erase.env("RINGTRUE_KEYS__MASTER_KEY_FILE", "data/master.key");
    let receipt = run(&mut erase).json();
    assert_eq!((&receipt["checks"], &receipt["callbacks"]), (&1.into(), &1.into()), "{receipt}");
    let again = run(&mut erase).json();
    assert_eq!((&again["checks"], &again["callbacks"]), (&0.into(), &0.into()), "{again}");
    server.stop();
}

#[test]
fn printed_client_commands_work() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    let home = format!("export XDG_CONFIG_HOME={}/config", folder.path().display());
    let lines = [" login --data ", " reverse-sms create ", " trigger"].map(|part| server.wait_for(part));
    let output = run_in_shell(&[&[home], lines.as_slice()].concat());
    assert!(output.contains("BASE URL") && output.contains("ACCEPTED") && output.contains("COMPLETED"), "{output}");
    server.stop();
}

#[test]
fn printed_management_commands_work() {
    let folder = folder();
    let server = RunningCommand::start(&mut dev(folder.path(), "127.0.0.1:0"));
    server.wait_for("Management API: get a token");
    let response = run_in_shell(&["    token=", "    curl "].map(|start| server.wait_for(start)));
    assert!(response.contains("\"First project\"") && response.contains("\"sandbox\""), "{response}");
    server.stop();
}

#[test]
fn restart_keeps_the_credentials() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();
    let (server, second) = start(folder.path());
    assert_eq!((&first["workspace"], &first["project"]), (&second["workspace"], &second["project"]));
    assert_eq!(token(base_url(&second), &second["project"], "reverse_sms"), 200);
    server.stop();
}

#[test]
fn invalid_credentials_are_replaced_for_the_same_project() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();
    let mut altered = first.clone();
    altered["workspace"]["client_secret"] = "rts_wrong".into();
    altered["project"]["client_id"] = "prj_unknown".into();
    let cases = [altered.to_string(), "not JSON".to_owned(), "{}".to_owned()];
    for text in cases {
        fs::write(folder.path().join("data/dev.json"), text).unwrap();
        let (server, next) = start(folder.path());
        assert_eq!(next["workspace"]["workspace_id"], first["workspace"]["workspace_id"]);
        assert_eq!(next["project"]["project_id"], first["project"]["project_id"]);
        assert_ne!(next["workspace"]["client_id"], first["workspace"]["client_id"]);
        assert_ne!(next["project"]["client_id"], first["project"]["client_id"]);
        assert_eq!(token(base_url(&next), &next["project"], "sim_swap"), 200);
        assert_eq!(token(base_url(&next), &next["workspace"], "management"), 200);
        server.stop();
    }
}

#[test]
fn data_directory_is_locked() {
    let folder = folder();
    let (server, first) = start(folder.path());
    let second = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(second.errors().contains("another `ringtrue dev` is using "), "{}", second.errors());
    assert_eq!(read_dev_json(folder.path()), first, "the first server is still ready");
    assert_eq!(token(base_url(&first), &first["project"], "reverse_sms"), 200);
    server.stop();
}

#[test]
fn failed_start_leaves_no_ready_file_and_keeps_credentials() {
    let folder = folder();
    let (server, first) = start(folder.path());
    server.stop();

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let failed = run(&mut dev(folder.path(), &taken.local_addr().unwrap().to_string())).expect_code(1);
    assert!(failed.errors().contains("--listen 127.0.0.1:0"), "{}", failed.errors());
    assert!(!folder.path().join("data/dev.json").exists());

    let (server, second) = start(folder.path());
    assert_eq!(second["project"], first["project"]);
    server.stop();
}

#[test]
fn restart_after_kill_keeps_credentials() {
    let folder = folder();
    let (mut server, first) = start(folder.path());
    server.signal("KILL");
    server.wait_for_exit();
    let (server, second) = start(folder.path());
    assert_eq!(second["project"], first["project"]);
    server.stop();
}

#[test]
fn missing_master_key_is_reported() {
    let folder = folder();
    let (server, _) = start(folder.path());
    server.stop();
    fs::remove_file(folder.path().join("data/master.key")).unwrap();
    let refused = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(refused.errors().contains("the database requires it"), "{}", refused.errors());
    assert!(!folder.path().join("data/master.key").exists());
}

#[test]
fn shared_directory_with_other_files_is_rejected() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(data.join("letter.txt"), "").unwrap();
    let refused = run(&mut dev(folder.path(), "127.0.0.1:0")).expect_code(1);
    assert!(refused.errors().contains("contains files of other programs"), "{}", refused.errors());
    assert_eq!(mode(&data), 0o755);

    fs::remove_file(data.join("letter.txt")).unwrap();
    let (server, _) = start(folder.path());
    assert_eq!(mode(&data), 0o700, "an empty directory is made private");
    server.stop();
}

#[test]
fn dev_ignores_settings_for_serve() {
    let folder = folder();
    let mut command = dev(folder.path(), "127.0.0.1:0");
    command.env("RINGTRUE_STORE__URL", "postgres://u:p@127.0.0.1:1/production").env("RINGTRUE_LOG", "debug");
    fs::write(folder.path().join("ringtrue.toml"), "this is not read").unwrap();
    let server = RunningCommand::start(&mut command);
    server.wait_for("Ringtrue is ready");
    server.stop();

    let refused = run(dev(folder.path(), "127.0.0.1:0").args(["--config", "ringtrue.toml"])).expect_code(1);
    assert!(refused.errors().contains("`dev` does not read a configuration file"), "{}", refused.errors());
}
