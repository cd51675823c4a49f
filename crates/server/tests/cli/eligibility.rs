//! `ringtrue eligibility explain`.

use std::{io::Write, net::UdpSocket, process::Stdio, thread};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{
    process::{CommandOutput, request, run},
    setup::Deployment,
};

/// Networks: O2 has all connectors, Vodafone has none, Meteor has only a receiver.
const NETWORKS: &str = r#"
    ingress.listen = "127.0.0.1:0"

    [networks.23410]
    name = "O2"
    country = "GB"
    aliases = ["23411"]
    prefixes = ["+447700"]
    address_ranges = ["82.132.0.0/16"]
    receivers = ["+447700900001"]

    [networks.23415]
    name = "Vodafone"
    country = "GB"
    prefixes = ["+447702"]

    [networks.27203]
    name = "Meteor"
    country = "IE"
    prefixes = ["+35385"]

    [receivers.countries]
    IE = ["+353850000001"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001", "+353850000001"]

    [connectors.o2]
    kind = "camara"
    networks = ["23410"]
    issuer = "https://operator.example"
    api_root = "https://api.operator.example"
    client_id = "us"
    client_authentication = "client_secret_basic"
    client_secret_env = "O2_SECRET"
"#;

fn explain(deployment: &Deployment, line: &str) -> CommandOutput {
    let mut command = deployment.command(&format!("eligibility explain {line}"));
    run(command.env("PATH_SECRET", "jgk9TQ2HcV0-1bXn_e7Lw4Rz").env("O2_SECRET", "hunter2"))
}

fn explain_json(deployment: &Deployment, line: &str) -> Value {
    explain(deployment, &format!("{line} --output json")).json()
}

/// Returns each product with the condition (gate) that excludes it, in the order of the output. `open` means that the
/// product is available.
fn gates(explanation: &Value) -> Vec<(&str, &str)> {
    let products = explanation["products"].as_array().unwrap().iter();
    let gates = products.map(|explanation| {
        let gate = explanation["gate"].as_str().unwrap_or("open");
        assert_eq!(explanation["eligible"], gate == "open");
        assert_eq!(explanation["why"].is_null(), gate == "open");
        (explanation["product"].as_str().unwrap(), gate)
    });
    gates.collect()
}

#[test]
fn explanation_has_sources_network_and_gates() {
    let deployment = Deployment::migrated();
    deployment.configure(NETWORKS);
    let explanation = explain_json(&deployment, "+447700900123");
    assert_eq!((&explanation["user"], &explanation["network_id"]), (&json!("…23"), &json!("23410")));
    assert_eq!((&explanation["network"], &explanation["project_id"]), (&json!("O2 (GB)"), &Value::Null));
    assert_eq!(explanation["sources"], json!([{"source": "prefixes", "said": "23410"}]));
    assert_eq!(explanation["note"], "network taken from the number's prefix: no source was queried");
    let open = |product| (product, "open");
    let unsupported = |product| (product, "product support");
    let silent = [open("secure_sna"), unsupported("sim_swap"), open("reverse_sms"), open("discovery")];
    assert_eq!(gates(&explanation), silent);
    assert!(explanation["connectors"].as_str().unwrap().contains("as configured"));

    for (user, expected) in [
        ("82.132.1.2", silent),
        ("::ffff:82.132.1.2", silent),
        ("+447702900123", ["secure_sna", "sim_swap", "reverse_sms", "discovery"].map(|name| (name, "connectivity"))),
        (
            "+353851234567",
            [unsupported("secure_sna"), unsupported("sim_swap"), open("reverse_sms"), unsupported("discovery")],
        ),
    ] {
        assert_eq!(gates(&explain_json(&deployment, user)), expected, "{user}");
    }
    for (user, shown, problem) in [
        ("+4915112345678", "…78", "no source has data about this number"),
        ("10.0.0.1", "an IPv4 address", "private, reserved"),
        ("2a00::1", "an IPv6 address", "private, reserved"),
    ] {
        let explanation = explain_json(&deployment, user);
        assert_eq!((&explanation["user"], &explanation["products"]), (&json!(shown), &json!([])), "{user}");
        assert!(explanation["network"].as_str().unwrap().contains(problem), "{explanation}");
    }

    let table = explain(&deployment, "+353851234567").expect_code(0).text();
    for part in
        ["Meteor (IE)", "SOURCE", "prefixes  27203", "PRODUCT", "no connector to this operator supports this product"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("353851234567"), "{table}");
}

#[test]
fn configured_connectors_count_as_available() {
    let deployment = Deployment::migrated();
    deployment.configure(&format!("{NETWORKS}\n    sim_swap = \"client_credentials\"\n    verify_scope = \"\""));
    let explanation = explain_json(&deployment, "+447700900123");
    let expected =
        [("secure_sna", "product support"), ("sim_swap", "open"), ("reverse_sms", "open"), ("discovery", "open")];
    assert_eq!(gates(&explanation), expected);
}

#[test]
fn failed_source_is_named() {
    let broken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = broken.local_addr().unwrap();
    // Runs a name server that responds with SERVFAIL.
    thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((length, from)) = broken.recv_from(&mut packet) {
            packet[2..4].copy_from_slice(&[0x81, 0x82]);
            let _ = broken.send_to(&packet[..length], from);
        }
    });
    let deployment = Deployment::migrated();
    deployment
        .configure(&format!("{NETWORKS}\n[number_sources.enum]\nkind = \"enum_dns\"\nservers = [\"{address}\"]\n"));
    let explanation = explain_json(&deployment, "+447700900123");
    assert_eq!(explanation["sources"][0]["source"], "enum");
    assert!(explanation["sources"][0]["said"].as_str().unwrap().starts_with("failed: "), "{explanation}");
    assert_eq!(explanation["sources"][1], json!({"source": "prefixes", "said": "23410"}));
    assert_eq!(explanation["network"], "O2 (GB)");
    let note = "network taken from the number's prefix: no source returned one; failed: enum";
    assert_eq!(explanation["note"], note);
    let explanation = explain_json(&deployment, "+4915112345678");
    assert!(explanation["network"].as_str().unwrap().starts_with("none: number lookup unavailable"), "{explanation}");
    assert_eq!(explanation["note"], Value::Null);
}

/// Creates a project through the Management API.
fn project(base_url: &str, workspace: &Value, mode: &str) -> String {
    let [id, secret] = ["client_id", "client_secret"].map(|name| workspace[name].as_str().unwrap());
    let head = format!(
        "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic {}\r\ncontent-type: application/x-www-form-urlencoded",
        BASE64_STANDARD.encode(format!("{id}:{secret}"))
    );
    let (_, token) = request(base_url, &head, "grant_type=client_credentials&scope=management");
    let token: Value = serde_json::from_str(&token).unwrap();
    let call = |method: &str, path: &str, body: Value| {
        let path = format!("/v1/management/workspaces/{}/projects{path}", workspace["workspace_id"].as_str().unwrap());
        let token = token["access_token"].as_str().unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json");
        let (status, answer) = request(base_url, &head, &body.to_string());
        assert!([200, 201].contains(&status), "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let products = ["eligibility", "secure_sna", "reverse_sms"];
    let project = call("POST", "", json!({"name": mode, "mode": mode, "products": products}));
    let project = project["project_id"].as_str().unwrap();
    let allowed = json!({"networks": [{"network_id": "23410", "products": ["secure_sna", "discovery"]}]});
    call("PUT", &format!("/{project}/allowed-networks"), allowed);
    project.to_owned()
}

#[test]
fn project_permissions_are_a_gate() {
    let deployment = Deployment::migrated();
    let workspace = deployment.run("workspace create Acme --output json").json();
    // Configures a network, because projects can allow only configured networks. No connector is needed for this.
    deployment.configure("[networks.23410]\nname = \"O2\"\ncountry = \"GB\"");
    let (server, base_url) = deployment.serve();
    let [live, sandbox] = ["live", "sandbox"].map(|mode| project(&base_url, &workspace, mode));
    server.stop();
    deployment.configure(NETWORKS);

    let explanation = explain_json(&deployment, &format!("+447700900123 --project {live}"));
    assert_eq!((&explanation["project_id"], &explanation["mode"]), (&json!(live), &json!("live")));
    let closed = |product| (product, "authorisation");
    let expected = [("secure_sna", "open"), closed("sim_swap"), closed("reverse_sms"), closed("discovery")];
    assert_eq!(gates(&explanation), expected);
    let why = |index: usize| explanation["products"][index]["why"].as_str().unwrap();
    assert_eq!(why(1), "the product is not enabled for the project");
    assert_eq!(why(2), "the project is not allowed to use this network for this product");

    let explanation = explain_json(&deployment, &format!("+990123456796 --project {sandbox}"));
    assert_eq!((&explanation["network_id"], &explanation["sources"]), (&json!("00101"), &json!([])));
    assert_eq!(gates(&explanation)[..2], [("secure_sna", "product support"), closed("sim_swap")]);

    let unknown = "01a1d965-88c2-7f04-b1c6-9d3a5e7f1024";
    let refused = explain(&deployment, &format!("+447700900123 --project {unknown}")).expect_code(1).errors();
    assert!(refused.contains("project not found"), "{refused}");
}

#[test]
fn user_is_read_from_standard_input() {
    let deployment = Deployment::migrated();
    let mut command = deployment.command("eligibility explain - --output json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"+447700900145\n").unwrap();
    let done = child.wait_with_output().unwrap();
    let explanation: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(explanation["user"], "…45");
}

#[test]
fn invalid_user_is_rejected_and_not_echoed() {
    let deployment = Deployment::migrated();
    for (user, problem) in [
        ("07700900123", "neither a phone number in E.164 form nor an IP address"),
        ("447700900124", "neither"),
        ("0x7f.1", "neither"),
        ("1.2.3", "neither"),
        ("fe80::1%eth0", "neither"),
        ("+44(0)7700900123", "invalid phone number"),
        ("+990123456700", "for sandbox projects only"),
        ("-", "neither"),
    ] {
        let refused = explain(&deployment, user).expect_code(2).errors();
        assert!(refused.contains(problem), "{refused}");
        assert!(user == "-" || !refused.contains(user), "{refused}");
    }
}
