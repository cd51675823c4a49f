//! `ringtrue restored` and `ringtrue keys rewrap`, and detection of a restored database.

use std::fs;

use super::{
    process::RunningCommand,
    setup::{Deployment, MASTER_KEY, OTHER_MASTER_KEY},
};

const RESTORE_LINE: &str = "✗ restore: the database is older than the last recorded state";

#[test]
fn restored_database_is_reported_until_accepted() {
    let deployment = Deployment::migrated();
    deployment.serve().0.stop();
    let [database, backup] = [deployment.path("ringtrue.db"), deployment.path("backup.db")];
    fs::copy(&database, &backup).unwrap();
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
