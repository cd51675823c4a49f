//! Tests `ringtrue export` and `ringtrue import`: a deployment moves from SQLite to PostgreSQL and back, and continues
//! to work.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use ringtrue_test_support::{
    database::Database,
    http_client::{self, HttpResponse, Request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::{
    deployment::{CHECKS, Deployment, is_ended},
    receiver::Receiver,
};

const CALLBACK_TIMEOUT: Duration = Duration::from_mins(1);
const PASSWORD: &str = "correct horse battery staple";
const EMAIL: &str = "root@example.com";

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_rejected(output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", errors(output));
    assert!(errors(output).contains(reason), "{}", errors(output));
}

/// What clients and an administrator got from the deployment before the move: tokens, checks and responses.
struct Clients {
    token: String,
    revoked_token: String,
    /// A check that waits for its SMS.
    open: Value,
    /// A concluded check whose callback was not accepted yet.
    concluded: Value,
    idempotent_request: Request,
    idempotent_response: Value,
    session: String,
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}"))
}

async fn send_sms(server: &ServerProcess, token: &str, check: &Value, from: &str) {
    let sms = json!({
        "from": from, "to": text(check, "receiver_phone_number"), "body": text(check, "expected_sms_body"),
    });
    server.send(Request::post("/v1/sandbox/inbound-sms").bearer(token).json(&sms)).await.assert(202);
}

async fn wait_for_end(server: &ServerProcess, token: &str, check: &Value) -> Value {
    let path = format!("{CHECKS}/{}", text(check, "check_id"));
    poll_until("the check is concluded", async || is_ended(&server.get(&path, token).await.assert(200).json())).await;
    server.get(&path, token).await.assert(200).json()
}

/// Returns the CSRF token of a page, and the cookies that it sets.
async fn open_form(server: &ServerProcess, path: &str) -> (String, String) {
    let page = server.send(Request::get(path)).await.assert(200);
    let cookie = page.header("set-cookie").and_then(|value| value.split(';').next()).unwrap_or_default().to_owned();
    let html = page.text();
    let (_, rest) = html.split_once("name=\"form_token\" value=\"").unwrap();
    (rest.split('"').next().unwrap().to_owned(), cookie)
}

async fn submit(server: &ServerProcess, page: &str, action: &str, fields: &[(&str, &str)]) -> HttpResponse {
    let (form_token, cookie) = open_form(server, page).await;
    let fields: Vec<_> = [("form_token", form_token.as_str())].iter().chain(fields).copied().collect();
    let request = Request::post(action).form(&fields);
    server.send(if cookie.is_empty() { request } else { request.header("Cookie", cookie) }).await
}

/// Returns the session cookie that a response sets.
fn session_cookie(response: &HttpResponse) -> String {
    let cookies = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let mut values = cookies.map(|(_, value)| value.split(';').next().unwrap().to_owned());
    values.find(|cookie| cookie.contains("session=")).unwrap_or_else(|| panic!("no session: {response:?}"))
}

async fn sign_in(server: &ServerProcess) -> String {
    let path = "/console/sign-in";
    session_cookie(&submit(server, path, path, &[("email", EMAIL), ("password", PASSWORD)]).await.assert(303))
}

async fn use_deployment(deployment: &Deployment, server: &ServerProcess, receiver: &Receiver) -> Clients {
    let settings = json!({"ttl": 900, "callback_url": receiver.url()});
    let credential = deployment.product_credential(server, settings).await;
    let (id, secret) = (text(&credential, "client_id"), text(&credential, "client_secret"));
    let token_request = || http_client::token_request(id, secret, "reverse_sms");
    let token = server.send(token_request()).await.access_token();
    let revoked_token = server.send(token_request()).await.access_token();
    let revoke = Request::post("/oauth2/revoke").basic(id, secret).form(&[("token", &revoked_token)]);
    server.send(revoke).await.assert(200);

    let create = |number: &str| Request::post(CHECKS).bearer(&token).json(&json!({"phone_number": number}));
    let open = server.send(create("+990123456700")).await.assert(201).json();
    let concluded = server.send(create("+990123456702")).await.assert(201).json();
    send_sms(server, &token, &concluded, "+990123456702").await;
    wait_for_end(server, &token, &concluded).await;
    let idempotent_request = create("+990123456704").header("Idempotency-Key", "order-7");
    let idempotent_response = server.send(idempotent_request.clone()).await.assert(201).json();

    let link = deployment.json(&["console", "link", "--admin", EMAIL]);
    let link = text(&link, "url");
    let path = &link[link.find("/console").unwrap()..];
    let (action, link_token) = path.split_once("?token=").unwrap();
    let fields = [("token", link_token), ("password", PASSWORD), ("again", PASSWORD)];
    let session = session_cookie(&submit(server, path, action, &fields).await.assert(303));
    Clients { token, revoked_token, open, concluded, idempotent_request, idempotent_response, session }
}

/// Asserts that the deployment continues where it stopped before the move.
async fn assert_moved(server: &ServerProcess, clients: &Clients, checks: u64) {
    let token = &clients.token;
    server.get(&format!("{CHECKS}?size=1"), &clients.revoked_token).await.assert(401);
    let page = server.get(&format!("{CHECKS}?size=100"), token).await.assert(200).json();
    assert_eq!(page["page"]["total_elements"], checks);
    let replayed = server.send(clients.idempotent_request.clone()).await.assert(201);
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.json(), clients.idempotent_response);
    for cookie in [&clients.session, &sign_in(server).await] {
        let page = server.send(Request::get("/console").header("Cookie", cookie)).await.assert(200).text();
        assert!(page.contains(EMAIL) && page.contains("Acme"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployment_moves_from_sqlite_to_postgres_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (sqlite, postgres) = (Database::sqlite().await, Database::postgres().await);
    let receiver = Receiver::start().await;
    receiver.hold();
    let old = Deployment::new(sqlite.address());
    let mut server = old.serve();
    let clients = use_deployment(&old, &server, &receiver).await;

    assert_rejected(&old.run(&["export", &path("early")]), "servers are running on this database");
    assert!(!Path::new(&path("early")).exists());
    server.terminate();
    assert!(server.wait_for_exit().await.success());
    let exported = old.json(&["export", &path("export")]);
    assert_eq!(exported["bytes"], fs::metadata(path("export")).unwrap().len());
    assert_eq!(fs::metadata(path("export")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_rejected(&old.run(&["export", &path("export")]), "exists already");

    let new = old.with_store(postgres.address());
    let imported = new.run(&["--output", "json", "import", &path("export")]);
    assert!(imported.status.success(), "{}", errors(&imported));
    let rows: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(rows["rows"], exported["rows"]);
    assert!(errors(&imported).contains("checks: 3 rows"), "{}", errors(&imported));
    assert!(!errors(&imported).contains("cannot unseal"), "{}", errors(&imported));
    assert_rejected(&new.run(&["import", &path("export")]), "has rows");

    receiver.release();
    let mut server = new.serve();
    assert_moved(&server, &clients, 3).await;
    let is_due = |check: &Value| text(check, "check_id").to_owned();
    receiver.wait_for_all(&BTreeSet::from([is_due(&clients.concluded)]), CALLBACK_TIMEOUT).await;
    send_sms(&server, &clients.token, &clients.open, "+990123456700").await;
    let ended = wait_for_end(&server, &clients.token, &clients.open).await;
    assert_eq!((&ended["status"], &ended["match"]), (&json!("COMPLETED"), &json!(true)));
    receiver.wait_for_all(&BTreeSet::from([is_due(&clients.open)]), CALLBACK_TIMEOUT).await;
    let create = Request::post(CHECKS).bearer(&clients.token).json(&json!({"phone_number": "+990123456706"}));
    server.send(create).await.assert(201);
    server.terminate();
    assert!(server.wait_for_exit().await.success());

    // Moves back to SQLite, through a pipe.
    let back = old.with_store(&format!("sqlite:{}", path("back.db")));
    assert!(back.run(&["migrate"]).status.success());
    let mut export = new.command().args(["export", "-"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let import = back.command().args(["import", "-"]).stdin(export.stdout.take().unwrap()).output().unwrap();
    assert!(export.wait().unwrap().success() && import.status.success(), "{}", errors(&import));
    let server = back.serve();
    assert_moved(&server, &clients, 4).await;
    let check = server.get(&format!("{CHECKS}/{}", is_due(&clients.open)), &clients.token).await.assert(200).json();
    assert_eq!(check, ended);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unusable_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (source, target) = (Database::sqlite().await, Database::sqlite().await);
    let old = Deployment::new(source.address());
    old.json(&["export", &path("export")]);
    let export = fs::read(path("export")).unwrap();

    let new = old.with_store(target.address());
    let import = |content: &[u8]| {
        fs::write(path("changed"), content).unwrap();
        new.run(&["import", &path("changed")])
    };
    assert_rejected(&import(&export[..export.len() - 30]), "the file is incomplete: it ends after line");
    let renamed = String::from_utf8(export.clone()).unwrap().replacen("\"Acme\"", "\"Acne\"", 1);
    assert_rejected(&import(renamed.as_bytes()), "the checksum of the file is wrong");
    let cut = String::from_utf8(export.clone()).unwrap().replacen("\"Acme\"", "\"Acme", 1);
    assert_rejected(&import(cut.as_bytes()), "of the file is damaged: ");
    assert_rejected(&import(&fs::read(source_file(&source)).unwrap()), "the file is not an export of Ringtrue");
    assert_rejected(&new.run(&["import", &path("missing")]), "missing: No such file");

    let unmigrated = old.with_store(&format!("sqlite:{}", path("empty.db")));
    let refused = unmigrated.run(&["import", &path("export")]);
    assert_eq!(refused.status.code(), Some(4), "{}", errors(&refused));
    assert!(errors(&refused).contains("ringtrue migrate"), "{}", errors(&refused));

    // The rejected files were not stored even in part, so the database is still empty and accepts an import.
    new.json(&["import", &path("export")]);
    // With another master key, the import succeeds, but the imported keys cannot be decrypted.
    let other = Database::sqlite().await;
    let mut wrong_key = old.with_store(other.address()).command();
    wrong_key.env("RINGTRUE_MASTER_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    let imported = wrong_key.args(["import", &path("export")]).output().unwrap();
    assert_eq!(imported.status.code(), Some(3), "{}", errors(&imported));
    assert!(errors(&imported).contains("cannot unseal"), "{}", errors(&imported));
}

fn source_file(database: &Database) -> &str {
    database.address().strip_prefix("sqlite:").unwrap()
}
