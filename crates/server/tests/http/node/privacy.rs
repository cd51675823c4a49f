//! Secrets, tokens and numbers must not appear in logs, metrics or the database. `cli/traces.rs` tests traces.

use std::{
    io::{self, Write},
    sync::Once,
};

use aws_lc_rs::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use memchr::memmem;
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::account::Role;
use ringtrue_server::config::LoggedRequests;
use serde_json::json;
use tracing_subscriber::{filter::LevelFilter, fmt, layer::SubscriberExt, registry};

use crate::{
    client::{self, Request, basic_auth, token_request},
    console::browser::Browser,
    database::Database,
    products::{
        reverse_sms::{CHECKS, ReverseSmsClient},
        scripted_sim_swap::ScriptedSimSwap,
        sim_swap::SimSwapClient,
    },
    receiver::Receiver,
    silent::{
        scripted_operator::{GOOD_CODE, ScriptedOperator},
        silent_client::{self, SilentClient},
    },
    verifications::page::{Started, navigation},
    world::{TestProject, World},
};

const NUMBER: &str = "447700900123";
/// Numbers used by this test only.
const CLAIMED: &str = "990481516200";
const OTHER: &str = "990481516242";
const SIM: &str = "990481516244";
/// Prefix of numbers used by this test only.
const SUBSCRIBER: &str = "9904815163";
const VERIFIED: &str = "990481516400";
const LOOKED_UP_ADDRESS: &str = "203.0.113.82";
const CLAIMED_ADDRESS: &str = "203.0.113.81";

#[tokio::test]
async fn sqlite() {
    no_secret_is_logged_or_stored(Database::sqlite().await).await;
}

#[tokio::test]
async fn postgres() {
    no_secret_is_logged_or_stored(Database::postgres().await).await;
}

async fn no_secret_is_logged_or_stored(database: Database) {
    record();
    let world = World::with(database, |config| config.log.requests = LoggedRequests::All).await;
    let mut secrets = use_every_secret(&world).await;
    secrets.everywhere.extend(verify_numbers(&world).await);
    secrets.everywhere.extend(send_device_requests(&world).await);
    secrets.everywhere.extend(visit_verification_page(&world).await);
    secrets.everywhere.extend(send_subscriber_requests(&world).await);
    secrets.everywhere.extend(preview_brand(&world).await);
    let metrics = client::send(world.node.metrics_address.unwrap(), &Request::get("/metrics")).await.text();
    let dump = world.database.dump();
    let log = String::from_utf8(lines().clone()).unwrap();

    assert!(log.contains("/v1/management/workspaces/{workspace_id}/projects"), "requests are in the log");
    assert!(metrics.contains("ringtrue_http_requests_total"));
    assert!(contains(&dump, world.acme.client_id.as_bytes()), "the client id is in the database: the search works");
    for secret in &secrets.everywhere {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
        assert!(!metrics.contains(secret.as_str()), "{secret} is in the metrics");
        for form in encodings(secret) {
            assert!(!contains(&dump, &form), "{secret} is in the database");
        }
    }
    for secret in &secrets.in_logs {
        assert!(!log.contains(secret.as_str()), "{secret} is in the log");
        assert!(!metrics.contains(secret.as_str()), "{secret} is in the metrics");
    }
}

struct Secrets {
    /// Secrets that must not appear in logs, metrics or the database.
    everywhere: Vec<String>,
    /// Secrets that the database stores as settings. They must not appear in logs or metrics.
    in_logs: Vec<String>,
}

/// Sends every kind of secret to every listener, in valid and invalid requests. Returns the secrets.
async fn use_every_secret(world: &World) -> Secrets {
    let project = world.project("Shop", json!({})).await;
    let key = "idempotency-key-of-mine";
    let create =
        Request::post(&format!("{}/credentials", project.path)).json(&json!({})).header("Idempotency-Key", key);
    let once = world.manage(create.clone()).await.assert(201).json();
    world.manage(create).await.assert(201);
    let (manager, product) =
        (world.management_token().await, world.token(&project.client_id, &project.client_secret, "sim_swap").await);
    let revoked = world.management_token().await;
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
        Request::post("/oauth2/revoke").basic(id, secret).form(&[("token", &revoked)]),
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
    Secrets { everywhere: everywhere.into(), in_logs: vec![hook.to_owned(), basic_auth(id, secret)] }
}

/// Creates checks with all outcomes, and accepts and rejects their callbacks. Returns all personal data involved.
async fn verify_numbers(world: &World) -> Vec<String> {
    let backend = ReverseSmsClient::sandbox(world).await;
    let mut receiver = Receiver::start().await;
    receiver.respond_with(["HTTP/1.1 500 Oops\r\nContent-Length: 19\r\n\r\nsaid-by-a-receiver\n"]);
    let path = "/path-of-a-callback?key=of-a-callback";
    let body = json!({"phone_number": format!("+{CLAIMED}"), "callback_url": receiver.url(path)});
    let create = Request::post(CHECKS).bearer(&backend.token).header("Idempotency-Key", "key-of-a-check").json(&body);
    let created = world.send(create.clone()).await.assert(201).json();
    world.send(create).await.assert(201);
    let field = |name: &str| created[name].as_str().unwrap().to_owned();
    let (to, sms_body) = (field("receiver_phone_number"), field("expected_sms_body"));
    let code = sms_body.rsplit(' ').next().unwrap().to_owned();

    // Sends an SMS without a code, an edited SMS with the code, and the edited SMS again after the check has expired.
    backend.text(&format!("+{CLAIMED}"), &to, "words-without-a-code").await;
    for _ in 0..2 {
        backend.text(&format!("+{OTHER}"), &to, &format!("words-around-a-code {code}")).await;
    }
    receiver.next().await;
    world.wait_for_callback_results().await;
    world.advance(jiff::SignedDuration::from_secs(10));
    assert_eq!(receiver.next().await.json()["match"], false);
    world.wait_for_callback_results().await;
    assert_eq!(world.node.engine.courier().metrics().delivered, 1);

    // Creates more checks of a number than allowed, and checks of unsupported and invalid numbers.
    for number in [CLAIMED, CLAIMED, CLAIMED, CLAIMED, CLAIMED, "990481516297", "990481516293", "99048151620099999"] {
        backend.post(json!({"phone_number": format!("+{number}")})).await;
    }
    backend.post(json!({"phone_number": CLAIMED, "callback_url": receiver.url(path)})).await;
    backend.list(&format!("?search=phone_number==%2B{CLAIMED}")).await;
    backend.get(CLAIMED).await;

    let words = ["words-without-a-code", "words-around-a-code", "said-by-a-receiver", "key-of-a-check"];
    let path = ["path-of-a-callback", "key=of-a-callback", "\"check_id\":"];
    let found_by_trying = [CLAIMED, OTHER].map(|number| sha256(&format!("+{number}")));
    let few = [CLAIMED.to_owned(), OTHER.to_owned(), code.clone(), sha256(&code), sms_body];
    let texts = words.into_iter().chain(path).map(str::to_owned);
    texts.chain(few).chain(found_by_trying).collect()
}

/// Sends valid and invalid requests of devices. Returns their tokens and numbers.
async fn send_device_requests(world: &World) -> Vec<String> {
    ScriptedOperator::of(world);
    let mut secrets: Vec<String> =
        [GOOD_CODE, "path-of-an-app", "key=of-an-app", CLAIMED_ADDRESS, SIM, &sha256(&format!("+{SIM}"))]
            .map(str::to_owned)
            .into();
    for path in silent_client::BOTH {
        let silent = SilentClient::new(world, path).await;
        let redirect_url = "https://app.example/path-of-an-app?key=of-an-app";
        let check = silent.create(json!({"redirect_url": redirect_url, "device_ip": CLAIMED_ADDRESS})).await;
        let token = check.target.split_once("?t=").unwrap().1;
        let state = silent.start_redirect(&format!("{}&sim=%2B{SIM}", check.target)).await;
        let end = silent.return_from_operator(&state).await;
        let parameters = silent_client::query(end.header("location").unwrap());
        let code = parameters.into_iter().find(|(name, _)| name == "code").unwrap().1;
        for target in [
            format!("{}&t={token}", check.target),
            format!("{}&sim={SIM}", check.target),
            format!("{}x", check.target),
            silent_client::callback(&state),
            silent_client::callback(&format!("{state}x")),
            format!("/southbound/camara/{state}/callback?state={state}&code={GOOD_CODE}&state=x"),
        ] {
            silent.open(&target).await;
        }
        silent.redeem(&check.id, &state).await.assert(400);
        silent.redeem(&code, &code).await.assert(400);
        silent.redeem(&check.id, &code).await.assert(200);
        secrets.extend([token.to_owned(), state, code]);
    }
    secrets
}

/// Visits a hosted verification page with valid and invalid requests. Returns its token, codes and number.
async fn visit_verification_page(world: &World) -> Vec<String> {
    ScriptedOperator::of(world);
    let project = world.project("Verifies on a page", json!({})).await;
    let bearer = world.token(&project.client_id, &project.client_secret, "verification").await;
    let body = json!({"phone_number": format!("+{VERIFIED}"), "redirect_url": "https://app.example/"});
    let created = world.send(Request::post("/v1/verifications").bearer(&bearer).json(&body)).await.assert(201).json();
    let path = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap();
    let open = async |target: &str| client::send(world.node.address, &Request::get(target)).await;
    open(path).await.assert(200);
    let silent = navigation(&format!("{path}/silent?sim=%2B{VERIFIED}"));
    let started = Started::new(client::send(world.node.address, &silent).await);
    let end = client::send(world.node.address, &started.come_back()).await.assert(302);
    let (_, key) = started.cookie.split_once('=').unwrap();
    let parameters = silent_client::query(end.header("location").unwrap());
    let code = parameters.into_iter().find(|(name, _)| name == "code").unwrap().1;
    let Started { state, .. } = &started;
    for target in [format!("{path}x"), format!("{path}/{state}"), format!("{path}/next?code={code}")] {
        assert!(open(&target).await.status >= 400);
    }
    vec![path.strip_prefix("/v/").unwrap().to_owned(), state.clone(), key.to_owned(), code, VERIFIED.to_owned()]
}

/// Previews a brand in the console, with valid and invalid requests. Returns the values of the brand.
async fn preview_brand(world: &World) -> Vec<String> {
    let project = world.project("Previews a brand", json!({})).await;
    let mut viewer = Browser::member(world, &world.acme, Role::Viewer).await;
    let workspace = &world.acme.workspace_id;
    let path = format!("/console/workspaces/{workspace}/projects/{}/settings/preview", project.project_id);
    let (name, host) = ("Brand-before-launch", "logo-before-launch.example");
    let query = format!("name={name}&logo_url=https://{host}/logo.svg");
    assert!(viewer.get(&format!("{path}?{query}")).await.assert(200).text().contains(host));
    viewer.get(&format!("{path}?{query}&unknown={name}")).await.assert(400);
    Browser::new(world).get(&format!("{path}?{query}")).await.assert(303);
    vec![name.to_owned(), host.to_owned()]
}

/// Sends valid and invalid SIM Swap and eligibility requests. Returns their numbers and addresses.
async fn send_subscriber_requests(world: &World) -> Vec<String> {
    ScriptedSimSwap::simulated(world);
    let backend = SimSwapClient::sandbox(world).await;
    for suffix in ["00", "01", "93", "94", "95", "97", "98", "99", "0099999999"] {
        backend.create(&format!("+{SUBSCRIBER}{suffix}")).await;
    }
    backend.get(&format!("+{SUBSCRIBER}00")).await;
    backend.list(&format!("?search=phone_number==%2B{SUBSCRIBER}00")).await;

    let TestProject { client_id, client_secret, .. } = &backend.project;
    let token = world.token(client_id, client_secret, "eligibility").await;
    let numbers = ["00", "93", "94", "97", "0099999999"].map(|suffix| format!("{SUBSCRIBER}{suffix}"));
    let encodings = numbers.iter().flat_map(|number| ["+", "%2B", "", "%20+"].map(|plus| format!("{plus}{number}")));
    let of_numbers = encodings.map(|number| format!("/v1/eligibility/phone-numbers/{number}"));
    let of_addresses = [LOOKED_UP_ADDRESS, "198.51.100.81", "192.0.2.81", "203.0.113.82.1", "2001:db8:4815::1623"];
    let of_addresses = of_addresses.map(|address| format!("/v1/eligibility/device-ips/{address}"));
    for path in of_numbers.chain(of_addresses) {
        world.send(Request::get(&path)).await.assert(401);
        world.send(Request::get(&path).bearer(&token)).await;
        world.send(Request::post(&path).bearer(&token)).await.assert(405);
    }
    let addresses = [LOOKED_UP_ADDRESS, "198.51.100.81", "192.0.2.81", "203.0.113.82.1", "2001:db8:4815"];
    let hashes = numbers.iter().map(|number| sha256(&format!("+{number}")));
    [SUBSCRIBER].into_iter().chain(addresses).map(str::to_owned).chain(hashes).collect()
}

/// Returns the SHA-256 of a text in hex. Tests search for it, too, because an unkeyed hash of a phone number can be
/// reversed by brute force.
fn sha256(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.len().is_multiple_of(2).then_some(text.as_bytes())?;
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Returns the forms in which a secret could be stored: verbatim, without its prefix, in hex, and as hash bytes.
fn encodings(secret: &str) -> Vec<Vec<u8>> {
    let bare = secret.trim_start_matches("rts_");
    let texts = [secret.to_owned(), bare.to_owned(), hex(bare.as_bytes())].map(String::into_bytes);
    texts.into_iter().chain(unhex(secret).filter(|bytes| bytes.len() == 32)).collect()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memmem::find(haystack, needle).is_some()
}

/// All log output at the most verbose level since recording started.
static LOG_LINES: Mutex<Vec<u8>> = Mutex::new(vec![]);

fn lines() -> MutexGuard<'static, Vec<u8>> {
    LOG_LINES.lock()
}

fn record() {
    static RECORDING: Once = Once::new();
    RECORDING.call_once(|| {
        let subscriber = registry().with(LevelFilter::TRACE).with(fmt::layer().json().with_writer(|| LogCapture));
        tracing::subscriber::set_global_default(subscriber).expect("no other subscriber is set");
    });
}

struct LogCapture;

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
