//! `ringtrue serve`: startup, reload and shutdown.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use serde_json::Value;

use super::{
    process::{TIMEOUT, address, get, token},
    setup::Deployment,
};

/// Opens a request that stays in progress: the server has sent 100 Continue, but the body never arrives.
fn open_request_in_flight(base_url: &str) -> TcpStream {
    let address = address(base_url);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic eDp4\r\nexpect: 100-continue\r\n\
                content-type: application/x-www-form-urlencoded\r\ncontent-length: 100";
    write!(stream, "{head}\r\nhost: {address}\r\n\r\n").unwrap();
    let mut response = [0; 12];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 100");
    stream
}

#[test]
fn running_server_picks_up_changes_by_commands() {
    let deployment = Deployment::migrated();
    let (server, base_url) = deployment.serve();
    assert_eq!(get(&base_url, "/readyz").0, 200);
    let published = || {
        let (status, body) = get(&base_url, "/.well-known/jwks.json");
        assert_eq!(status, 200);
        let keys: Value = serde_json::from_str(&body).unwrap();
        keys["keys"].as_array().unwrap().iter().filter(|key| key["use_mode"] != "id_token").count()
    };
    assert_eq!(published(), 2, "the live key and the sandbox key");

    let created = deployment.run("workspace create Acme --output json").json();
    deployment.run("keys rotate --purpose callback").expect_code(0);
    let rotated = Instant::now();
    while published() != 3 {
        assert!(rotated.elapsed() < TIMEOUT, "the server does not pick up the change");
    }
    // Changes become visible in order: once the server knows the new key, it also knows the workspace created before.
    assert_eq!(token(&base_url, &created, "management"), 200);
    server.stop();
}

#[test]
fn sighup_reloads_the_certificate() {
    let deployment = Deployment::migrated();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    deployment.write("chain.pem", &pair.cert.pem(), 0o644);
    deployment.write("key.pem", &pair.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let (server, base_url) = deployment.serve();
    assert!(base_url.starts_with("https://127.0.0.1:"), "{base_url}");
    server.signal("HUP");
    server.wait_for("certificate reloaded");
    server.wait_for("configuration reloaded: networks, receivers, connectors, number sources and address tables");
    deployment.write("chain.pem", "no certificate", 0o644);
    server.signal("HUP");
    server.wait_for("failed to reload certificate; keeping the current one");
    server.stop();
}

#[test]
fn failed_reload_is_logged_with_its_cause() {
    let deployment = Deployment::migrated();
    let (server, _) = deployment.serve();
    deployment.configure(
        "[number_sources.hlr]\nkind = \"http_hlr\"\ndriver = \"generic_json\"\nnetwork_pointer = \"/mccmnc\"\n\
         url = \"https://hlr.example\"",
    );
    server.signal("HUP");
    let line = server.wait_for("failed to reload configuration");
    assert!(line.contains("number_sources.hlr: neither the URL nor the body contains"), "{line}");
    server.stop();
}

#[test]
fn help_lists_what_sighup_reloads() {
    let help = Deployment::new().run("serve --help").expect_code(0).text();
    let wrapped = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = "certificates, networks, receivers, connectors, number sources, address tables";
    assert!(wrapped.contains(&format!("SIGHUP reloads: {all}")), "{help}");
}

#[test]
fn second_signal_aborts_draining() {
    let deployment = Deployment::migrated();
    deployment.configure("http.body_timeout = \"10m\"\nhttp.request_timeout = \"10m\"\nhttp.shutdown_grace = \"1h\"");
    let (mut server, base_url) = deployment.serve();
    let _in_flight = open_request_in_flight(&base_url);
    server.signal("TERM");
    server.wait_for("stopping");
    server.signal("TERM");
    assert_eq!(server.wait_for_exit().code(), Some(1));
}

#[test]
fn draining_is_bounded_by_shutdown_grace() {
    let deployment = Deployment::migrated();
    deployment.configure("http.body_timeout = \"10m\"\nhttp.request_timeout = \"10m\"\nhttp.shutdown_grace = \"50ms\"");
    let (mut server, base_url) = deployment.serve();
    let _in_flight = open_request_in_flight(&base_url);
    server.signal("INT");
    assert_eq!(server.wait_for_exit().code(), Some(1));
}

#[test]
fn address_in_use_is_reported() {
    let deployment = Deployment::migrated();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = deployment.command("serve");
    command.env("RINGTRUE_HTTP__LISTEN", &address);
    let errors = super::process::run(&mut command).expect_code(1).errors();
    assert!(errors.contains(&format!("failed to listen on {address}")), "{errors}");
}
