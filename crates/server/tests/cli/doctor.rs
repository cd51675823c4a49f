//! `ringtrue doctor`, on good and on broken deployments.

use std::net::TcpListener;

use serde_json::Value;

use super::{
    process::{self, address},
    setup::{Deployment, MASTER_KEY, OTHER_MASTER_KEY},
};

/// The verdict on each check, by its name.
fn examine(deployment: &Deployment, variables: &[(&str, &str)], code: i32) -> Vec<(String, String, String)> {
    let mut command = deployment.command("doctor --output json");
    command.envs(variables.iter().copied());
    let done = process::run(&mut command).expect_code(code);
    let findings: Value = serde_json::from_str(&done.text()).expect("the output is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = findings.as_array().unwrap().iter();
    findings.map(|finding| (text(&finding["check"]), text(&finding["verdict"]), text(&finding["detail"]))).collect()
}

/// Finds one thing wrong, and nothing else.
#[track_caller]
fn finds(deployment: &Deployment, variables: &[(&str, &str)], check: &str, detail: &str) {
    let findings = examine(deployment, variables, 1);
    let bad: Vec<_> = findings.iter().filter(|(_, verdict, _)| verdict == "bad").collect();
    let [(found, _, text)] = bad.as_slice() else { panic!("{findings:#?}") };
    assert!(found == check && text.contains(detail), "{findings:#?}");
}

#[test]
fn a_good_deployment_is_well() {
    let deployment = Deployment::migrated();
    let text = deployment.run("doctor").expect_code(0).text();
    for line in
        ["✓ configuration: ringtrue.toml", "✓ schema: up to date", "✓ writes: taken", "✓ clock: ", "All is well."]
    {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("✓ keys: none yet") && !text.contains('✗'), "{text}");

    deployment.run("workspace create Acme").expect_code(0);
    let text = deployment.run("doctor").expect_code(0).text();
    assert!(text.contains("✓ keys: token: active; callback: active; sandbox_callback: active; seal: active"), "{text}");
}

#[test]
fn a_remedy_comes_with_what_is_wrong() {
    let deployment = Deployment::new();
    let text = deployment.run("doctor").expect_code(1).text();
    assert!(text.contains("✗ schema: there is none yet\n  → Run `ringtrue migrate`.\n"), "{text}");
    assert!(text.contains("- keys: the schema does not fit\n"), "{text}");
    assert!(!deployment.path("ringtrue.db").exists(), "looking changes nothing");
}

#[test]
fn a_database_without_its_directory_is_found() {
    let deployment = Deployment::migrated();
    for (url, problem) in [
        ("sqlite:nowhere/ringtrue.db", "the directory nowhere does not exist"),
        ("sqlite:ringtrue.toml/ringtrue.db", "ringtrue.toml is not a directory"),
    ] {
        finds(&deployment, &[("RINGTRUE_STORE__URL", url)], "database", problem);
    }
    assert!(!deployment.path("nowhere").exists(), "looking changes nothing");
}

#[test]
fn what_is_wrong_is_found() {
    let deployment = Deployment::migrated();
    deployment.run("workspace create Acme").expect_code(0);
    finds(&deployment, &[("RINGTRUE_REGION", "mars")], "configuration", "found \"mars\"");
    finds(&deployment, &[("RINGTRUE_MASTER_KEY", "short")], "master key", "RINGTRUE_MASTER_KEY");
    finds(&deployment, &[("RINGTRUE_MASTER_KEY", OTHER_MASTER_KEY)], "keys", "does not open the");
    let elsewhere = "in the region `us`, but its database holds workspaces that reside in `eu`: 1";
    finds(&deployment, &[("RINGTRUE_REGION", "us")], "data residency", elsewhere);
    let away = [("RINGTRUE_STORE__URL", "postgres://u:hunter2@127.0.0.1:1/ringtrue")];
    finds(&deployment, &away, "database", "127.0.0.1:1");
    finds(&deployment, &[("RINGTRUE_HTTP__MAX_CONNECTIONS", "1000000")], "open files", "may need 1000072");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || drop(other.accept()));
    finds(&deployment, &[("RINGTRUE_METRICS__LISTEN", &taken)], "metrics.listen", "something else listens on");
    answering.join().unwrap();
    deployment.write("master.key", MASTER_KEY, 0o640);
    finds(&deployment, &[], "master key", "mode 0640");
}

#[test]
fn a_certificate_that_is_not_the_keys_is_found() {
    let deployment = Deployment::migrated();
    let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    deployment.write("chain.pem", &one.cert.pem(), 0o644);
    deployment.write("key.pem", &one.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let findings = examine(&deployment, &[], 0);
    assert!(findings.iter().any(|(check, verdict, _)| check == "TLS" && verdict == "good"), "{findings:#?}");

    deployment.write("key.pem", &other.signing_key.serialize_pem(), 0o600);
    finds(&deployment, &[], "TLS", "do not make a pair");
    std::fs::remove_file(deployment.path("chain.pem")).unwrap();
    finds(&deployment, &[], "TLS", "chain.pem");
}

#[test]
fn a_server_that_runs_already_is_recognised() {
    let deployment = Deployment::migrated();
    let (server, base_url) = deployment.serve();
    let listen = address(&base_url);
    let findings = examine(&deployment, &[("RINGTRUE_HTTP__LISTEN", listen)], 0);
    let (_, verdict, detail) = findings.iter().find(|(check, ..)| check == "http.listen").unwrap();
    assert_eq!((verdict.as_str(), detail), ("good", &format!("a Ringtrue listens on {listen} already")));
    server.stop();
}
