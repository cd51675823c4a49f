//! Number lookup with the sandbox directory: by ENUM and, if that fails, by HLR.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use ringtrue_sandbox::directory::{DirectoryFault, EnumFault, HlrFault};
use serde_json::json;

use crate::{
    client::{HttpResponse, Request},
    operators::networks::configured,
    world::World,
};

/// Number that has a prefix of O2, but was ported to EE.
const PORTED: &str = "+447700900124";
const ABSENT: &str = "+447700900125";
const OTHER: &str = "+447700900126";
const UNKNOWN_NUMBER: &str = "+447700900199";
/// Number that matches no configured prefix.
const FOREIGN: &str = "+4915112345678";

const DEPLOYMENT: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    prefixes = ["+447700"]
    receivers = ["+447700900001"]

    [networks.23430]
    name = "EE"
    country = "GB"
    receivers = ["+447700900001"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001"]

    [sandbox]
    enum_listen = "127.0.0.1:0"
    hlr_listen = "127.0.0.1:0"
    subscribers = [
        "+447700900124 23430 ported-from 23410",
        "+447700900125 23430 absent",
        "+447700900126 23410",
    ]
"#;

/// Writes a secret to a private file, and returns its path.
fn secret(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

async fn eligibility(world: &World, token: &str, number: &str) -> HttpResponse {
    world.send(Request::get(&format!("/v1/eligibility/phone-numbers/{number}")).bearer(token)).await
}

/// Returns the network and the available products of a number.
async fn network_and_products(world: &World, token: &str, number: &str) -> (String, Vec<String>) {
    let response = eligibility(world, token, number).await.assert(200).json();
    let products = response["products"].as_array().unwrap().iter();
    let products = products.map(|product| product["product_id"].as_str().unwrap().to_owned()).collect();
    (response["network"]["network_id"].as_str().unwrap().to_owned(), products)
}

#[tokio::test]
async fn live_number_is_looked_up_by_enum_then_hlr() {
    let folder = tempfile::tempdir().unwrap();
    let secret_file = secret(folder.path(), "secret", "hunter2");
    let header_file = secret(folder.path(), "header", "Bearer hunter2");
    let deployment = format!("{DEPLOYMENT}\nhlr_secret_file = \"{secret_file}\"\n");
    let parsed = configured(&deployment);
    let world = World::configured(|config| {
        (config.ingress, config.networks, config.connectors) = (parsed.ingress, parsed.networks, parsed.connectors);
        config.sandbox = parsed.sandbox;
    })
    .await;
    let directory = world.node.directory.as_ref().unwrap();
    let sources = |prefixes: &str, timeout_settings: &str| {
        format!(
            r#"
            {deployment}
            [number_lookup]
            order = ["enum", "hlr"]
            prefixes = "{prefixes}"
            deadline = "30s"

            [number_sources.enum]
            kind = "enum_dns"
            servers = ["{dns}"]
            {timeout_settings}

            [number_sources.hlr]
            kind = "http_hlr"
            driver = "generic_json"
            url = "{hlr}?number={{number}}"
            secret_header = "authorization"
            client_secret_file = "{header_file}"
            country_code_pointer = "/mcc"
            network_code_pointer = "/mnc"
            state_pointer = "/status"
            absent_values = ["absent"]
            invalid_values = ["unknown"]
            "#,
            dns = directory.dns_address().unwrap(),
            hlr = directory.hlr_url().unwrap(),
        )
    };
    let project = world.project("Curious", json!({"mode": "live"})).await;
    let networks = ["23410", "23430"].map(|id| json!({"network_id": id, "products": ["reverse_sms"]}));
    let allow = Request::put(&format!("{}/allowed-networks", project.path));
    world.manage(allow.json(&json!({"networks": networks}))).await.assert(200);
    let token = world.token(&project.client_id, &project.client_secret, "eligibility").await;
    let (o2, ee) =
        (("23410".to_owned(), vec!["reverse_sms".to_owned()]), ("23430".to_owned(), vec!["reverse_sms".to_owned()]));
    assert_eq!(
        network_and_products(&world, &token, PORTED).await,
        o2,
        "the prefix selects the network without sources"
    );

    world.node.reload(Ok(configured(&sources("fallback", "timeout = \"10s\"")))).await;
    assert_eq!(network_and_products(&world, &token, PORTED).await, ee);
    assert_eq!((directory.counts().udp_queries, directory.counts().hlr_requests), (1, 0));
    eligibility(&world, &token, UNKNOWN_NUMBER).await.assert_problem(404, "subscriber_not_found");
    assert_eq!((directory.counts().udp_queries, directory.counts().hlr_requests), (2, 1));

    directory.set_fault(DirectoryFault::Enum(EnumFault::NoResponse));
    let short_timeout = "timeout = \"50ms\"\ntries = 1";
    world.node.reload(Ok(configured(&sources("fallback", short_timeout)))).await;
    assert_eq!(network_and_products(&world, &token, PORTED).await, ee);
    assert_eq!(
        network_and_products(&world, &token, ABSENT).await,
        ee,
        "the HLR returns the network of absent subscribers"
    );
    assert_eq!((directory.counts().hlr_requests, directory.counts().unauthorized), (3, 0));

    directory.set_fault(DirectoryFault::Hlr(HlrFault::InternalError));
    assert_eq!(
        network_and_products(&world, &token, OTHER).await,
        o2,
        "the prefix is the fallback while both sources fail"
    );
    eligibility(&world, &token, FOREIGN).await.assert_problem(503, "lookup_unavailable");
    world.node.reload(Ok(configured(&sources("never", short_timeout)))).await;
    eligibility(&world, &token, OTHER).await.assert_problem(503, "lookup_unavailable");
    directory.clear_faults();
    assert_eq!(network_and_products(&world, &token, OTHER).await, o2);
}
