//! `ringtrue connectors operator-token init` writes certificates that a connector accepts with the printed settings.

use std::{fs, os::unix::fs::PermissionsExt};

use super::setup::Deployment;

const FILES: [&str; 4] =
    ["operator-token.crt", "operator-token.key", "operator-token-root.crt", "operator-token-root.key"];

/// A connector that accepts the printed settings, up to its last line.
const CONNECTOR: &str = "[connectors.three]\nkind = \"camara\"\nnetworks = [\"23420\"]\n\
                         issuer = \"http://127.0.0.1:1\"\napi_root = \"http://127.0.0.1:1\"\nclient_id = \"us\"\n\
                         signing_key_file = \"etc/operator-token-root.key\"\nsigning_key_id = \"1\"\n";

#[test]
fn printed_settings_are_valid() {
    let deployment = Deployment::migrated();
    let mut command = deployment.command("connectors operator-token init --dir etc --organisation");
    let text = super::process::run(command.arg("Example Ltd")).expect_code(0).text();
    for name in FILES {
        let metadata = fs::metadata(deployment.path("etc").join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        assert!(text.contains(name), "{name}: {text}");
    }
    let settings: Vec<&str> = text.lines().filter(|line| line.starts_with("  operator_tokens")).collect();
    assert_eq!(settings.len(), 7, "{text}");
    deployment.configure(&format!("{CONNECTOR}{}", settings.join("\n")));
    deployment.run("config check").expect_code(0);
    // The operator's endpoints are closed, so the command fails.
    let findings = deployment.run("doctor").expect_code(1).text();
    let expected = "✓ operator tokens of three: connectors.three.operator_tokens_certificate_file is valid for 36";
    assert!(findings.contains(expected), "{findings}");
}

#[test]
fn existing_files_are_not_replaced() {
    for name in FILES {
        let deployment = Deployment::new();
        fs::create_dir(deployment.path("etc")).unwrap();
        deployment.write(&format!("etc/{name}"), "mine", 0o600);
        let errors = deployment.run("connectors operator-token init --dir etc").expect_code(1).errors();
        assert!(errors.contains(&format!("etc/{name} already exists")), "{errors}");
        let names: Vec<_> =
            fs::read_dir(deployment.path("etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [name]);
    }
}

#[test]
fn created_files_are_printed_as_json() {
    let deployment = Deployment::new();
    let created = deployment.run("connectors operator-token init --dir etc --output json").json();
    let etc = deployment.path("etc").canonicalize().unwrap();
    let members = ["certificate_file", "key_file", "root_certificate_file", "root_key_file"];
    for (member, name) in members.into_iter().zip(FILES) {
        assert_eq!(created[member], etc.join(name).to_str().unwrap());
    }
    let sha256 = created["root_sha256"].as_str().unwrap();
    assert!(sha256.len() == 95 && sha256.split(':').all(|octet| octet.len() == 2), "{sha256}");
}

#[test]
fn organisation_fits_into_a_certificate() {
    let deployment = Deployment::new();
    let mut command = deployment.command("connectors operator-token init --dir etc --organisation");
    let errors = super::process::run(command.arg("x".repeat(65))).expect_code(2).errors();
    assert!(errors.contains("expected 1 to 64 characters"), "{errors}");
    assert!(!deployment.path("etc").exists());
}
