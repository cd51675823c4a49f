//! `ringtrue serve`: how it starts, and how it stops.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use serde_json::Value;

use super::{
    process::{PATIENCE, address, get, token},
    setup::Deployment,
};

/// A request whose body never comes: it is in flight once the server asks for the body.
fn hang(base_url: &str) -> TcpStream {
    let address = address(base_url);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic eDp4\r\nexpect: 100-continue\r\n\
                content-type: application/x-www-form-urlencoded\r\ncontent-length: 100";
    write!(stream, "{head}\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");
    stream
}

#[test]
fn a_running_server_notices_what_commands_do() {
    let deployment = Deployment::migrated();
    let (server, base_url) = deployment.serve();
    assert_eq!(get(&base_url, "/readyz").0, 200);
    let published = || {
        let (status, body) = get(&base_url, "/.well-known/jwks.json");
        assert_eq!(status, 200);
        let keys: Value = serde_json::from_str(&body).unwrap();
        keys["keys"].as_array().unwrap().len()
    };
    assert_eq!(published(), 2, "the live key and the sandbox key");

    let created = deployment.run("workspace create Acme --output json").json();
    deployment.run("keys rotate --purpose callback").expect_code(0);
    let rotated = Instant::now();
    while published() != 3 {
        assert!(rotated.elapsed() < PATIENCE, "the server does not notice");
    }
    // Changes are noticed in their order: whoever knows the key knows the workspace.
    assert_eq!(token(&base_url, &created, "management"), 200);
    server.stop();
}

#[test]
fn a_hangup_reads_the_certificate_again_and_ends_nothing() {
    let deployment = Deployment::migrated();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    deployment.write("chain.pem", &pair.cert.pem(), 0o644);
    deployment.write("key.pem", &pair.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let (server, base_url) = deployment.serve();
    assert!(base_url.starts_with("https://127.0.0.1:"), "{base_url}");
    server.signal("HUP");
    server.wait_for("a certificate was read again");
    server.wait_for("networks, receivers, connectors, number sources and address tables were read again");
    deployment.write("chain.pem", "no certificate", 0o644);
    server.signal("HUP");
    server.wait_for("a certificate was not replaced");
    server.stop();
}

#[test]
fn a_configuration_that_is_not_taken_over_is_told_of_with_the_cause() {
    let deployment = Deployment::migrated();
    let (server, _) = deployment.serve();
    deployment.configure(
        "[number_sources.hlr]\nkind = \"http_hlr\"\ndriver = \"generic_json\"\nnetwork_pointer = \"/mccmnc\"\n\
         url = \"https://hlr.example\"",
    );
    server.signal("HUP");
    let line = server.wait_for("stay as they were");
    assert!(line.contains("number_sources.hlr: neither the URL nor the body has a place"), "{line}");
    server.stop();
}

#[test]
fn help_tells_all_that_a_hangup_reads_again() {
    let help = Deployment::new().run("serve --help").expect_code(0).text();
    let wrapped = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let all = "certificates, networks, receivers, connectors, number sources, address tables";
    assert!(wrapped.contains(&format!("SIGHUP reads again: {all}")), "{help}");
}

#[test]
fn a_second_signal_ends_what_a_first_one_lets_finish() {
    let deployment = Deployment::migrated();
    deployment.configure("http.body_timeout = \"10m\"\nhttp.request_timeout = \"10m\"\nhttp.shutdown_grace = \"1h\"");
    let (mut server, base_url) = deployment.serve();
    let _in_flight = hang(&base_url);
    server.signal("TERM");
    server.wait_for("stopping");
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(1));
}

#[test]
fn the_grace_of_a_stop_ends() {
    let deployment = Deployment::migrated();
    deployment.configure("http.body_timeout = \"10m\"\nhttp.request_timeout = \"10m\"\nhttp.shutdown_grace = \"50ms\"");
    let (mut server, base_url) = deployment.serve();
    let _in_flight = hang(&base_url);
    server.signal("INT");
    assert_eq!(server.end().code(), Some(1));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let deployment = Deployment::migrated();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = deployment.command("serve");
    command.env("RINGTRUE_HTTP__LISTEN", &address);
    let errors = super::process::run(&mut command).expect_code(1).errors();
    assert!(errors.contains(&format!("cannot listen on {address}")), "{errors}");
}
