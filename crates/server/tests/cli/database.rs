//! `ringtrue erase`, `restored`, `keys rewrap` and `export`, and detection of a restored database.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::json;

use super::{
    client::{MATCHING, TestClient},
    process::{RunningCommand, run},
    setup::{Deployment, MASTER_KEY, OTHER_MASTER_KEY},
};

const RESTORE_LINE: &str = "✗ restore: the database is older than the last recorded state";

#[test]
fn receipt_does_not_contain_the_number() {
    let deployment = Deployment::migrated();
    let receipt = deployment.run("erase --number +447700900123 --output json").json();
    assert_eq!(receipt["number"], "…23");
    for count in ["checks", "callbacks", "attempts", "open_checks"] {
        assert_eq!(receipt[count], json!(0), "{count}");
    }
    assert_eq!(receipt["open_until"], json!(null));
    assert!(receipt["erased_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(receipt["audit_event_id"].as_str().unwrap().len(), 36);

    let table = deployment.run("erase --number +990123456700").expect_code(0).text();
    assert!(table.contains("AUDIT EVENT ID") && table.contains("…00") && !table.contains("990123"), "{table}");
}

#[test]
fn receipt_counts_open_checks() {
    let client = TestClient::signed_in();
    let check = client.json(&format!("reverse-sms create {MATCHING}"));
    let erase = || {
        let mut erase = client.command(&format!("erase --number {MATCHING} --output json"));
        erase.env("RINGTRUE_STORE__URL", "sqlite:data/ringtrue.db");
        erase.env("RINGTRUE_KEYS__MASTER_KEY_FILE", "data/master.key");
        run(&mut erase)
    };
    let done = erase();
    let note = done.errors();
    let receipt = done.json();
    assert_eq!((&receipt["checks"], &receipt["open_checks"]), (&json!(0), &json!(1)), "{receipt}");
    let until = receipt["open_until"].as_str().unwrap();
    assert!(until > check["created_at"].as_str().unwrap(), "{until}");
    assert!(note.contains(&format!("The last one concludes by {until}; a running server erases each")), "{note}");

    client.run(&format!("trigger {}", check["check_id"].as_str().unwrap())).expect_code(0);
    client.run(&format!("reverse-sms watch {}", check["check_id"].as_str().unwrap())).expect_code(0);
    let receipt = erase().json();
    assert_eq!((&receipt["checks"], &receipt["open_checks"]), (&json!(1), &json!(0)), "{receipt}");
}

#[test]
fn number_is_read_from_standard_input() {
    let deployment = Deployment::migrated();
    let mut command = deployment.command("erase --number - --output json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"+447700900145\n").unwrap();
    let done = child.wait_with_output().unwrap();
    let receipt: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(receipt["number"], "…45");
}

#[test]
fn invalid_number_is_rejected_and_not_echoed() {
    let deployment = Deployment::migrated();
    for number in ["07700900123", "+44(0)7700900123", "+999123", "+44770090012345678", "-"] {
        let refused = deployment.run(&format!("erase --number {number}")).expect_code(2).errors();
        assert!(refused.contains("not a number in E.164 format") && refused.contains("+447700900123"), "{refused}");
        assert!(number == "-" || !refused.contains(&format!("{number}\n")), "{refused}");
    }
}

#[test]
fn restored_database_is_reported_until_accepted() {
    let deployment = Deployment::migrated();
    deployment.serve().0.stop();
    let [database, backup] = [deployment.path("ringtrue.db"), deployment.path("backup.db")];
    // Uses a backup instead of a copy of the file, because a stopped server may leave its last changes in the
    // write-ahead log.
    deployment.run("backup backup.db").expect_code(0);
    deployment.serve().0.stop();
    assert!(deployment.run("doctor").expect_code(0).text().contains("✓ restore: "));

    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(deployment.path(&format!("ringtrue.db{suffix}")));
    }
    fs::copy(&backup, &database).unwrap();
    assert!(deployment.run("doctor").expect_code(1).text().contains(RESTORE_LINE));
    let server = RunningCommand::start(&mut deployment.command("serve"));
    let line = server.wait_for("DATABASE ROLLED BACK");
    assert!(line.contains("ringtrue restored"), "{line}");
    server.wait_for("\"ready\"");
    server.stop();
    assert!(deployment.run("doctor").expect_code(1).text().contains(RESTORE_LINE), "until `ringtrue restored` has run");

    deployment.run("restored").expect_code(0);
    assert!(deployment.run("doctor").expect_code(0).text().contains("✓ restore: "));
    deployment.serve().0.stop();
    assert!(deployment.run("doctor").expect_code(0).text().contains("✓ restore: "));
}

#[test]
fn rewrap_seals_keys_with_a_new_master_key() {
    let deployment = Deployment::migrated();
    deployment.run("workspace create Acme").expect_code(0);
    deployment.write("new.key", OTHER_MASTER_KEY, 0o644);
    let exposed = deployment.run("keys rewrap --new-master-key-file new.key").expect_code(3).errors();
    assert!(exposed.contains("mode 0644"), "{exposed}");
    deployment.write("new.key", OTHER_MASTER_KEY, 0o600);
    deployment.run("keys rewrap --new-master-key-file new.key").expect_code(0);
    let refused = deployment.run("workspace create Other").expect_code(3).errors();
    assert!(refused.contains("the master key cannot unseal"), "{refused}");
    deployment.run("keys rewrap --new-master-key-file new.key").expect_code(3);

    deployment.write("master.key", OTHER_MASTER_KEY, 0o600);
    deployment.run("workspace create Other").expect_code(0);
    deployment.run("keys rotate --purpose token").expect_code(0);
    deployment.write("old.key", MASTER_KEY, 0o600);
    deployment.run("keys rewrap --new-master-key-file old.key").expect_code(0);
}

#[test]
fn export_shows_a_bar_on_a_terminal_and_lines_elsewhere() {
    let deployment = Deployment::migrated();
    deployment.run("workspaces create Acme").expect_code(0);
    let lines = deployment.run("export plain.export").expect_code(0).errors();
    assert!(lines.lines().any(|line| line == "workspaces: 1 rows") && !lines.contains('\u{1b}'), "{lines}");

    let line = format!("{} export terminal.export", env!("CARGO_BIN_EXE_ringtrue"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(deployment.path("")).env("TERM", "xterm");
    let output = script.stdin(Stdio::null()).output().expect("script runs");
    let screen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && screen.contains("] ") && screen.contains(" tables; "), "{screen:?}");
    assert!(!screen.contains("workspaces: 1 rows\r\n"), "{screen:?}");
}
