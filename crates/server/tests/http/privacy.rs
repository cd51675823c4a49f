//! What nobody may find later: secrets, tokens and numbers, in logs, in metrics, in the database.

use std::{
    io::{self, Write},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ringtrue_server::config::RequestLog;
use serde_json::json;
use tracing_subscriber::{filter::LevelFilter, fmt, layer::SubscriberExt, registry};

use crate::{
    client::{self, Request},
    database::Database,
    world::{World, basic, token_request},
};

const NUMBER: &str = "447700900123";

#[tokio::test]
async fn sqlite() {
    nothing_secret_is_left(Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres() {
    nothing_secret_is_left(Database::postgres().await).await;
}

async fn nothing_secret_is_left(database: Database) {
    record();
    let world = World::with(database, |config| config.log.requests = RequestLog::All).await;
    let secrets = use_every_secret(&world).await;
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    let dump = world.database.dump();
    let log = String::from_utf8(lines().clone()).unwrap();

    assert!(log.contains("/v1/management/workspaces/{workspace_id}/projects"), "requests are in the log");
    assert!(metrics.contains("ringtrue_http_requests_total"));
    assert!(contains(&dump, world.acme.client_id.as_bytes()), "the search finds what is there");
    for secret in &secrets.everywhere {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
        assert!(!metrics.contains(secret.as_str()), "{secret} is in the metrics");
        for form in forms(secret) {
            assert!(!contains(&dump, &form), "{secret} is in the database");
        }
    }
    for secret in &secrets.in_logs {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
        assert!(!metrics.contains(secret.as_str()), "{secret} is in the metrics");
    }
}

struct Secrets {
    /// What must be nowhere.
    everywhere: Vec<String>,
    /// What is stored as a setting, and must not be written anywhere else.
    in_logs: Vec<String>,
}

/// Shows every kind of secret at every door, right and wrong.
async fn use_every_secret(world: &World) -> Secrets {
    let project = world.project("Shop", json!({})).await;
    let key = "idempotency-key-of-mine";
    let create =
        Request::post(&format!("{}/credentials", project.path)).json(&json!({})).header("Idempotency-Key", key);
    let once = world.manage(create.clone()).await.assert(201).json();
    world.manage(create).await.assert(201);
    let (manager, product) =
        (world.manager().await, world.token(&project.client_id, &project.client_secret, "sim_swap").await);
    let revoked = world.manager().await;
    let (id, secret) = (&world.acme.client_id, &world.acme.client_secret);
    let guess = "a-guess-that-is-wrong";
    let hook = "token-in-a-callback-url";
    let url = format!("https://shop.example/hook?token={hook}");
    let workspaces = "/v1/management/workspaces";

    for request in [
        token_request(id, guess, "management"),
        token_request(secret, id, "management"),
        token_request(id, secret, &manager),
        Request::post(&format!("/oauth2/token?client_id={id}&client_secret={secret}")).form(&[]),
        Request::post("/oauth2/token").form(&[("grant_type", secret), ("client_secret", secret)]),
        Request::post("/oauth2/revoke").header("Authorization", basic(id, secret)).form(&[("token", &revoked)]),
        Request::get(workspaces).bearer(&manager),
        Request::get(workspaces).bearer(&revoked),
        Request::get(workspaces).bearer(&product),
        Request::get(workspaces).bearer(secret),
        Request::get(&format!("{workspaces}?access_token={manager}")),
        Request::get(&format!("{workspaces}/{secret}")).bearer(&manager),
        Request::get(&format!("{}/credentials/{secret}", world.acme.path())).bearer(&manager),
        Request::get(&format!("/{secret}/{manager}")),
        Request::get("/livez").header("X-Request-Id", format!("{secret} {secret}")).header("Cookie", &manager),
        Request::get(&format!("/v1/eligibility/phone-numbers/+{NUMBER}")),
        Request::get(&format!("/v1/eligibility/phone-numbers/%2B{NUMBER}")).bearer(&product),
        Request::get(&format!("{}/projects?search=name==%2B{NUMBER}", world.acme.path())).bearer(&manager),
        Request::get(&format!("{}/projects?search=%2B{NUMBER}==x", world.acme.path())).bearer(&manager),
        Request::patch(&project.path).bearer(&manager).json(&json!({"mode": secret})),
        Request::patch(&project.path).bearer(&manager).json(&json!({secret: secret})),
        Request::patch(&project.path).bearer(&manager).body("application/json", format!("{{\"name\":{secret}")),
        Request::patch(&project.path)
            .bearer(&manager)
            .json(&json!({"configuration": {"discovery": {"callback_url": url}}})),
        Request::patch(&project.path).bearer(&manager).json(
            &json!({"mode": "live", "configuration": {"discovery": {"redirect_url": url.replace("https", "http")}}}),
        ),
    ] {
        world.send(request).await;
    }
    let everywhere = [
        secret.clone(),
        project.client_secret.clone(),
        once["client_secret"].as_str().unwrap().to_owned(),
        manager,
        product,
        revoked,
        key.to_owned(),
        guess.to_owned(),
        NUMBER.to_owned(),
        BASE64_STANDARD.encode([7; 32]),
    ];
    Secrets { everywhere: everywhere.into(), in_logs: vec![hook.to_owned(), basic(id, secret)] }
}

/// A text as it may stand in a file: as it is, without its recognisable beginning, and in hex.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let bare = secret.trim_start_matches("rts_");
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    [secret.to_owned(), bare.to_owned(), hex(bare)].map(String::into_bytes).into()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Everything that the process has logged, at the finest level, since somebody began to record.
static LINES: Mutex<Vec<u8>> = Mutex::new(vec![]);

fn lines() -> MutexGuard<'static, Vec<u8>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record() {
    static RECORDING: Once = Once::new();
    RECORDING.call_once(|| {
        let subscriber = registry().with(LevelFilter::TRACE).with(fmt::layer().json().with_writer(|| Pen));
        tracing::subscriber::set_global_default(subscriber).expect("nobody else sets one up here");
    });
}

struct Pen;

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
