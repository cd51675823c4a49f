//! Tests backups of a running service that are restored on a new machine, as docs/backup.md describes.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output},
};

use ringtrue_test_support::{http_client, own_postgres::OwnPostgres, poll_until, server_process::ServerProcess};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    deployment::{BINARY, CHECKS, Deployment},
    load::RunningLoad,
};

/// Number of responses for which the test waits before, during and after a backup.
const RESPONSES: usize = 300;

/// A directory with the configuration, the master key and a SQLite database.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Machine(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o600)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.current_dir(self.0.path()).env_clear().args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn serve(&self) -> ServerProcess {
        ServerProcess::start(&mut self.command(&["serve"])).expect("the service is ready")
    }
}

const CONFIGURATION: &str = "store.url = \"sqlite:ringtrue.db\"
keys.master_key_file = \"master.key\"
http.listen = \"127.0.0.1:0\"
metrics.listen = \"off\"
rate_limits.create = 1000000
rate_limits.read = 1000000
";
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

async fn total(server: &ServerProcess, token: &str) -> usize {
    let page = server.get(&format!("{CHECKS}?size=1"), token).await.assert(200).json();
    usize::try_from(page["page"]["total_elements"].as_u64().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_backup_of_a_busy_server_is_restored_on_another_machine() {
    let old = Machine::new();
    old.write("ringtrue.toml", CONFIGURATION);
    old.write("master.key", MASTER_KEY);
    assert!(old.run(&["migrate"]).status.success());
    let workspace = old.json(&["workspace", "create", "Acme"]);
    let mut server = old.serve();
    let credential = create_project(&server, &workspace).await;
    let token = reverse_sms_token(&server, &credential).await;
    let mut load = RunningLoad::start(&token, &[server.address]);
    load.proceed(RESPONSES).await;

    let acknowledged = load.load.created();
    let backup = old.json(&["backup", "backup.db"]);
    let started_until_then = load.load.created().len() + 6;
    load.proceed(RESPONSES).await;
    assert_eq!(backup["bytes"], fs::metadata(old.path("backup.db")).unwrap().len());
    assert_eq!(fs::metadata(old.path("backup.db")).unwrap().permissions().mode() & 0o777, 0o600);
    let content = fs::read(old.path("backup.db")).unwrap();
    let refused = old.run(&["backup", "backup.db"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("backup.db exists already"));
    assert!(fs::read(old.path("backup.db")).unwrap() == content, "the first backup is kept");
    let leftovers: Vec<_> = fs::read_dir(old.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(leftovers.iter().all(|name| !name.to_string_lossy().contains("ringtrue-backup")), "{leftovers:?}");
    load.stop().await;
    server.kill();

    let new = Machine::new();
    for (file, name) in [("ringtrue.toml", "ringtrue.toml"), ("master.key", "master.key"), ("backup.db", "ringtrue.db")]
    {
        fs::copy(old.path(file), new.path(name)).unwrap();
    }
    drop(old);
    let check = Command::new("sqlite3").arg(new.path("ringtrue.db")).arg("pragma integrity_check").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&check.stdout), "ok\n");
    new.json(&["restored"]);
    let server = new.serve();
    server.get(&format!("{CHECKS}?size=1"), &token).await.assert(401);
    let token = reverse_sms_token(&server, &credential).await;
    for id in acknowledged.keys() {
        let found = server.get(&format!("{CHECKS}/{id}"), &token).await;
        assert_eq!(found.status, 200, "the check {id} was acknowledged before the backup");
    }
    let total = total(&server, &token).await;
    assert!((acknowledged.len()..=started_until_then).contains(&total), "unexpected number of checks: {total}");
}

async fn create_project(server: &ServerProcess, workspace: &Value) -> Value {
    let text = |name: &str| workspace[name].as_str().unwrap();
    let manager = http_client::token_request(text("client_id"), text("client_secret"), "management");
    let manager = server.send(manager).await.access_token();
    let path = format!("/v1/management/workspaces/{}/projects", text("workspace_id"));
    let create = http_client::Request::post(&path).bearer(&manager).json(&json!({"name": "Shop"}));
    server.send(create).await.assert(201).json()["credentials"][0].clone()
}

async fn reverse_sms_token(server: &ServerProcess, credential: &Value) -> String {
    let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
    server.send(http_client::token_request(id, secret, "reverse_sms")).await.access_token()
}

#[test]
fn backup_of_postgres_names_its_own_tools() {
    let machine = Machine::new();
    machine.write("ringtrue.toml", "store.url = \"postgres://ringtrue@127.0.0.1:1/ringtrue\"\n");
    let refused = machine.run(&["backup", "backup.db"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("pg_basebackup") && message.contains("pg_dump"), "{message}");
    assert!(!machine.path("backup.db").exists());

    machine.write("ringtrue.toml", "store.url = \"sqlite:missing.db\"\n");
    let refused = machine.run(&["backup", "backup.db"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the database is empty"));
    assert!(!machine.path("backup.db").exists() && !machine.path("missing.db").exists());
}

/// The base backup is taken under load. The load then pauses at the point in time to which the database is restored, so
/// that each check was either acknowledged before that point or requested after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_restored_to_a_point_in_time() {
    let postgres = OwnPostgres::start_archiving().await;
    let deployment = Deployment::new(&postgres.url);
    let mut server = deployment.serve();
    let credential = deployment.product_credential(&server, json!({})).await;
    let token = reverse_sms_token(&server, &credential).await;
    let mut load = RunningLoad::start(&token, &[server.address]);
    load.proceed(RESPONSES).await;
    postgres.back_up();
    load.proceed(RESPONSES).await;

    let paused = load.load.pause().await;
    let before = load.load.created();
    let time = postgres.query("select clock_timestamp()");
    drop(paused);
    load.proceed(RESPONSES).await;
    let all = load.stop().await;
    let later: Vec<_> = all.keys().filter(|id| !before.contains_key(*id)).collect();
    assert!(!before.is_empty() && !later.is_empty());
    // Waits until the archive contains everything that was written so far.
    let last = postgres.query("select pg_walfile_name(pg_switch_wal())");
    poll_until("the WAL is archived", async || {
        postgres.query("select coalesce(max(last_archived_wal), '') from pg_stat_archiver") >= last
    })
    .await;
    server.kill();
    postgres.halt();

    let restored = deployment.with_store(&postgres.restore(&time));
    let report = restored.run(&["--output", "json", "restored"]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let server = restored.serve();
    server.get(&format!("{CHECKS}?size=1"), &token).await.assert(401);
    let token = reverse_sms_token(&server, &credential).await;
    for id in before.keys() {
        let found = server.get(&format!("{CHECKS}/{id}"), &token).await;
        assert_eq!(found.status, 200, "the check {id} was acknowledged before the point in time");
    }
    for id in later {
        assert_eq!(server.get(&format!("{CHECKS}/{id}"), &token).await.status, 404, "{id} was created later");
    }
    assert_eq!(total(&server, &token).await, before.len());
}
