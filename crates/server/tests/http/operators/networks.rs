//! Live projects: supported networks, assigned receivers, lost binds and reloads.

use std::{collections::BTreeSet, fs};

use anyhow::anyhow;
use ringtrue_sandbox::smsc::{DeliveryOutcome, Sms, Smsc, SmscConfig};
use ringtrue_server::config::{self, Config, Environment};
use ringtrue_test_support::poll_until;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    database::Database,
    products::reverse_sms::ReverseSmsClient,
    world::World,
};

pub const SECRET: &str = "jgk9TQ2HcV0-1bXn_e7Lw4Rz";
pub const AUTH_TOKEN: &str = "hunter2";

/// Three operators with different receiver pools, all served by one webhook.
pub const THREE: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    prefixes = ["+447700"]
    receivers = ["+447700900001", "+447700900002"]

    [networks.23415]
    name = "Vodafone"
    country = "GB"
    prefixes = ["+447702"]

    [networks.27203]
    name = "Meteor"
    country = "IE"
    prefixes = ["+35385"]

    [receivers]
    default = ["+12015550123"]

    [receivers.countries]
    GB = ["+447700900003"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001", "+447700900002", "+447700900003", "+12015550123"]
"#;

const LANDLINE: &str = "+442071838750";

/// Parses a configuration file with an ingress listener on a free port.
pub fn configured(settings: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ringtrue.toml");
    fs::write(&file, format!("ingress.listen = \"127.0.0.1:0\"\n{settings}")).unwrap();
    let variables = [("PATH_SECRET", SECRET), ("AUTH_TOKEN", AUTH_TOKEN), ("SMSC_PASSWORD", "sandbox")];
    let loaded = config::load(Some(&file), &variables.into_iter().collect::<Environment>());
    loaded.unwrap_or_else(|error| panic!("{error}")).config
}

/// Starts a node with the networks, connectors and ingress of these settings.
pub async fn world_with(settings: &str) -> World {
    world_on(Database::sqlite().await, settings).await
}

pub async fn world_on(database: Database, settings: &str) -> World {
    let parsed = configured(settings);
    World::with(database, |config| {
        (config.ingress, config.networks, config.connectors) = (parsed.ingress, parsed.networks, parsed.connectors);
        config.ip_routing = parsed.ip_routing;
        config.callbacks.allow_http = true;
    })
    .await
}

/// Creates a live project that may use these networks for Reverse SMS.
pub async fn live<'a>(world: &'a World, networks: &[&str]) -> ReverseSmsClient<'a> {
    let backend = ReverseSmsClient::new(world, json!({"mode": "live"})).await;
    allow(&backend, networks, "reverse_sms").await;
    backend
}

async fn allow(backend: &ReverseSmsClient<'_>, networks: &[&str], product: &str) {
    let networks: Vec<Value> =
        networks.iter().map(|network| json!({"network_id": network, "products": [product]})).collect();
    let request = Request::put(&format!("{}/allowed-networks", backend.project.path));
    backend.world.manage(request.json(&json!({"networks": networks}))).await.assert(200);
}

async fn create(backend: &ReverseSmsClient<'_>, number: &str) -> HttpResponse {
    backend.post(json!({"phone_number": number})).await
}

async fn receiver(backend: &ReverseSmsClient<'_>, number: &str) -> String {
    create(backend, number).await.assert(201).json()["receiver_phone_number"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn authorization_checks_run_in_order() {
    let world = world_with(THREE).await;
    let backend = live(&world, &[]).await;
    let (unknown, known) = ("+4915112345678", "+447700900123");
    create(&backend, "+4477").await.assert_problem(400, "phone_number_invalid");
    create(&backend, unknown).await.assert_problem(400, "mno_not_supported");
    create(&backend, LANDLINE).await.assert_problem(400, "mno_not_supported");
    create(&backend, known).await.assert_problem(403, "forbidden");

    allow(&backend, &["23410"], "sim_swap").await;
    create(&backend, known).await.assert_problem(403, "forbidden");
    allow(&backend, &["23415"], "reverse_sms").await;
    create(&backend, known).await.assert_problem(403, "forbidden");
    allow(&backend, &["23410"], "reverse_sms").await;
    create(&backend, known).await.assert(201);
    create(&backend, "+447702900123").await.assert_problem(403, "forbidden");
    create(&backend, LANDLINE).await.assert_problem(400, "mno_not_supported");
    create(&backend, unknown).await.assert_problem(400, "mno_not_supported");

    // Removes the allowed networks of this project. Other projects are not affected.
    allow(&backend, &[], "reverse_sms").await;
    create(&backend, known).await.assert_problem(403, "forbidden");
    let found = backend.list("?search=network_id==23410").await.assert(200).json();
    assert_eq!(found["page"]["total_elements"], 1, "rejected requests are not stored");
}

#[tokio::test]
async fn receivers_are_taken_from_the_nearest_pool_in_turn() {
    let world = world_with(THREE).await;
    let backend = live(&world, &["23410", "23415", "27203"]).await;
    let mut own = vec![];
    for last in 0..4 {
        own.push(receiver(&backend, &format!("+44770090012{last}")).await);
    }
    assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), 2, "{own:?}");
    assert!(own[0] != own[1] && own[0] == own[2] && own[1] == own[3], "receivers alternate: {own:?}");
    assert!(own.iter().all(|number| ["+447700900001", "+447700900002"].contains(&number.as_str())));
    assert_eq!(receiver(&backend, "+447702900123").await, "+447700900003", "receiver of the country");
    assert_eq!(receiver(&backend, "+353851234567").await, "+12015550123", "default receiver");
}

/// Settings with two networks on one SMPP connector. If its bind is lost, British numbers can use the receiver of a
/// webhook, while Irish numbers have no other receiver.
fn linked(smsc: &Smsc, more: &str) -> String {
    format!(
        r#"
        [networks.23410]
        name = "O2"
        country = "GB"
        prefixes = ["+447700"]
        receivers = ["+447700900001"]

        [networks.27203]
        name = "Meteor"
        country = "IE"
        prefixes = ["+35385"]
        receivers = ["+353851234500"]

        [receivers.countries]
        GB = ["+447700900003"]

        [connectors.o2]
        kind = "smpp"
        host = "127.0.0.1"
        port = {port}
        system_id = "sandbox"
        password_env = "SMSC_PASSWORD"
        grace = "0s"
        reconnect_min = "100ms"
        reconnect_max = "200ms"
        receivers = ["+447700900001", "+353851234500"]

        [connectors.kannel]
        kind = "sms_http"
        driver = "kannel"
        public_url = "http://127.0.0.1/southbound/sms/kannel"
        path_secret_env = "PATH_SECRET"
        {more}
        "#,
        port = smsc.address().port(),
    )
}

async fn start_smsc() -> Smsc {
    Smsc::start(SmscConfig::default()).await.unwrap()
}

/// Returns a generator of distinct numbers with this prefix.
fn numbers(prefix: &str) -> impl FnMut() -> String {
    let mut next = 0;
    move || {
        next += 1;
        format!("{prefix}{next:06}")
    }
}

#[tokio::test]
async fn receivers_without_a_bound_connector_are_not_assigned() {
    let smsc = start_smsc().await;
    let world = world_with(&linked(&smsc, r#"receivers = ["+447700900003"]"#)).await;
    let backend = live(&world, &["23410", "27203"]).await;
    let (mut british, mut irish) = (numbers("+447700"), numbers("+353851"));
    smsc.observer().wait_until(|counts| counts.binds == 1).await;
    // Before the first bind the receiver may have been unavailable for a moment.
    poll_until("the bound receiver is assigned", async || receiver(&backend, &british()).await == "+447700900001")
        .await;
    assert_eq!(receiver(&backend, &irish()).await, "+353851234500");

    smsc.set_refuse_binds(true);
    smsc.drop_connections();
    poll_until("the next pool is used", async || receiver(&backend, &british()).await == "+447700900003").await;
    create(&backend, &irish()).await.assert_problem(400, "mno_not_supported");

    smsc.set_refuse_binds(false);
    poll_until("the connector is bound again", async || receiver(&backend, &british()).await == "+447700900001").await;
    assert_eq!(receiver(&backend, &irish()).await, "+353851234500");
}

#[tokio::test]
async fn receiver_of_two_connectors_is_available_while_one_is_bound() {
    let smsc = start_smsc().await;
    smsc.set_refuse_binds(true);
    let world = world_with(&linked(&smsc, r#"receivers = ["+447700900001", "+447700900003"]"#)).await;
    let backend = live(&world, &["23410", "27203"]).await;
    let mut irish = numbers("+353851");
    poll_until("the connector is down", async || create(&backend, &irish()).await.status == 400).await;
    assert_eq!(receiver(&backend, "+447700900123").await, "+447700900001");
}

#[tokio::test]
async fn reload_adds_a_network_and_keeps_the_bind() {
    let smsc = start_smsc().await;
    let settings = linked(&smsc, r#"receivers = ["+447700900003"]"#).replace("grace = \"0s\"", "grace = \"1m\"");
    let world = world_with(&settings).await;
    let backend = live(&world, &["23410"]).await;
    smsc.observer().wait_until(|counts| counts.binds == 1).await;
    let check = backend.create(json!({"phone_number": "+447700900123"})).await;
    create(&backend, "+447702900123").await.assert_problem(400, "mno_not_supported");

    // From now on the SMSC rejects binds. If a reload dropped the bind, it could not be restored, and the test would
    // fail.
    smsc.set_refuse_binds(true);
    let added = "[networks.23415]\nname = \"Vodafone\"\ncountry = \"GB\"\nprefixes = [\"+447702\"]\n";
    world.node.reload(Ok(configured(&format!("{settings}\n{added}")))).await;
    allow(&backend, &["23410", "23415"], "reverse_sms").await;
    assert_eq!(receiver(&backend, "+447702900123").await, "+447700900003");
    let sent = smsc.send(Sms::new("+447700900123", check.receiver.as_str(), check.body.as_str())).unwrap();
    assert_eq!(sent.wait_for_outcome().await, DeliveryOutcome::Acknowledged);
    assert_eq!(backend.expect_status(&check.id, "COMPLETED").await["match"], true);
    assert_eq!((smsc.counts().binds, smsc.counts().binds_rejected), (1, 0));

    // An invalid configuration changes nothing.
    world.node.reload(Err(anyhow!("unreadable"))).await;
    assert_eq!(receiver(&backend, "+447702900124").await, "+447700900003");
    assert_eq!((smsc.counts().binds, smsc.counts().binds_rejected), (1, 0));

    // Changed settings replace the connector.
    world.node.reload(Ok(configured(&settings.replace("grace = \"1m\"", "grace = \"2m\"")))).await;
    create(&backend, "+447702900125").await.assert_problem(400, "mno_not_supported");
    smsc.observer().wait_until(|counts| counts.binds == 0 && counts.binds_rejected > 0).await;
}
