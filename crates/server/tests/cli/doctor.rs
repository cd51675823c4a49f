//! `ringtrue doctor` on valid and broken deployments.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use serde_json::Value;

use super::{
    process::{self, address},
    setup::{Deployment, MASTER_KEY, OTHER_MASTER_KEY},
};

/// Runs `doctor` and returns check, verdict and detail of each finding.
fn run_doctor(deployment: &Deployment, variables: &[(&str, &str)], code: i32) -> Vec<(String, String, String)> {
    let mut command = deployment.command("doctor --output json");
    command.envs(variables.iter().copied());
    let done = process::run(&mut command).expect_code(code);
    let findings: Value = serde_json::from_str(&done.text()).expect("the output is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let findings = findings.as_array().unwrap().iter();
    findings.map(|finding| (text(&finding["check"]), text(&finding["verdict"]), text(&finding["detail"]))).collect()
}

/// Asserts that exactly this check fails.
#[track_caller]
fn assert_only_failure(deployment: &Deployment, variables: &[(&str, &str)], check: &str, detail: &str) {
    let findings = run_doctor(deployment, variables, 1);
    let bad: Vec<_> = findings.iter().filter(|(_, verdict, _)| verdict == "bad").collect();
    let [(found, _, text)] = bad.as_slice() else { panic!("{findings:#?}") };
    assert!(found == check && text.contains(detail), "{findings:#?}");
}

#[test]
fn valid_deployment_passes() {
    let deployment = Deployment::migrated();
    let text = deployment.run("doctor").expect_code(0).text();
    for line in [
        "✓ configuration: ringtrue.toml",
        "✓ schema: up to date",
        "✓ writes: accepted",
        "✓ clock: ",
        "✓ disk: ",
        "✓ files: ",
        "- DNS: `base_url` has no host name to ask for",
        "- host names: this deployment has no host name",
        "! connectors: none: only sandbox projects can verify numbers\n  → Add a `[connectors.NAME]` section",
        "! receivers: none: live projects cannot use Reverse SMS\n  → ",
        "! networks: none: every number of a live project is rejected with `mno_not_supported`\n  → ",
        "\nAll checks passed, with warnings: see the lines marked !.\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("✓ keys: none yet") && !text.contains('✗'), "{text}");

    deployment.run("workspace create Acme").expect_code(0);
    let text = deployment.run("doctor").expect_code(0).text();
    let keys = "✓ keys: token: active; callback: active; sandbox_callback: active; id_token: active; id_token_ec: active; seal";
    assert!(text.contains(keys), "{text}");
}

#[test]
fn failed_checks_have_a_hint() {
    let deployment = Deployment::new();
    let text = deployment.run("doctor").expect_code(1).text();
    assert!(text.contains("✗ schema: not created yet\n  → Run `ringtrue migrate`.\n"), "{text}");
    assert!(text.contains("- keys: the schema does not match this release\n"), "{text}");
    assert!(!deployment.path("ringtrue.db").exists(), "doctor must not change anything");
}

#[test]
fn missing_database_directory_is_reported() {
    let deployment = Deployment::migrated();
    for (url, problem) in [
        ("sqlite:nowhere/ringtrue.db", "the directory nowhere does not exist"),
        ("sqlite:ringtrue.toml/ringtrue.db", "ringtrue.toml is not a directory"),
    ] {
        assert_only_failure(&deployment, &[("RINGTRUE_STORE__URL", url)], "database", problem);
    }
    assert!(!deployment.path("nowhere").exists(), "doctor must not change anything");
}

#[test]
fn each_failure_is_reported() {
    let deployment = Deployment::migrated();
    deployment.run("workspace create Acme").expect_code(0);
    assert_only_failure(&deployment, &[("RINGTRUE_REGION", "mars")], "configuration", "found \"mars\"");
    assert_only_failure(&deployment, &[("RINGTRUE_MASTER_KEY", "short")], "master key", "RINGTRUE_MASTER_KEY");
    assert_only_failure(&deployment, &[("RINGTRUE_MASTER_KEY", OTHER_MASTER_KEY)], "keys", "cannot unseal the");
    let elsewhere = "in the region `us`, but its database holds workspaces that reside in `eu`: 1";
    assert_only_failure(&deployment, &[("RINGTRUE_REGION", "us")], "data residency", elsewhere);
    let away = [("RINGTRUE_STORE__URL", "postgres://u:hunter2@127.0.0.1:1/ringtrue")];
    assert_only_failure(&deployment, &away, "database", "127.0.0.1:1");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || drop(other.accept()));
    assert_only_failure(
        &deployment,
        &[("RINGTRUE_METRICS__LISTEN", &taken)],
        "metrics.listen",
        "is in use by another program",
    );
    answering.join().unwrap();
    deployment.write("master.key", MASTER_KEY, 0o640);
    assert_only_failure(&deployment, &[], "master key", "mode 0640");
}

#[test]
fn low_limit_of_open_files_is_reported() {
    let deployment = Deployment::migrated();
    for (limit, code, line) in [
        ("ulimit -n 512", 1, "✗ open files: 512 allowed, but `http.max_connections` may need 1072\n"),
        // A soft limit is only a warning, because a service manager can raise it.
        ("ulimit -S -n 512", 0, "! open files: 512 allowed, but `http.max_connections` may need 1072 in this shell\n"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limit} && exec \"$0\" doctor"), env!("CARGO_BIN_EXE_ringtrue")]);
        shell.current_dir(deployment.path("")).env("RINGTRUE_HTTP__MAX_CONNECTIONS", "1000");
        let text = process::run(&mut shell).expect_code(code).text();
        assert!(text.contains(line), "{limit}: {text}");
    }
}

#[test]
fn unknown_own_host_name_is_reported() {
    let deployment = Deployment::migrated();
    let host_names = |base_url: &str, code: i32| {
        let findings = run_doctor(&deployment, &[("RINGTRUE_BASE_URL", base_url)], code);
        findings.into_iter().find(|(check, ..)| check == "host names").unwrap()
    };
    let (_, verdict, detail) = host_names("https://ringtrue.invalid", 1);
    assert_eq!((verdict.as_str(), detail.as_str()), ("bad", "cannot resolve ringtrue.invalid"));
}

#[test]
fn certificate_and_key_mismatch_is_reported() {
    let deployment = Deployment::migrated();
    let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    deployment.write("chain.pem", &one.cert.pem(), 0o644);
    deployment.write("key.pem", &one.signing_key.serialize_pem(), 0o600);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let findings = run_doctor(&deployment, &[], 0);
    assert!(findings.iter().any(|(check, verdict, _)| check == "TLS" && verdict == "good"), "{findings:#?}");

    deployment.write("key.pem", &other.signing_key.serialize_pem(), 0o600);
    assert_only_failure(&deployment, &[], "TLS", "does not match the private key");
    std::fs::remove_file(deployment.path("chain.pem")).unwrap();
    assert_only_failure(&deployment, &[], "TLS", "chain.pem");
}

#[test]
fn running_server_is_recognised() {
    let deployment = Deployment::migrated();
    let (server, base_url) = deployment.serve();
    let listen = address(&base_url);
    let findings = run_doctor(&deployment, &[("RINGTRUE_HTTP__LISTEN", listen)], 0);
    let (_, verdict, detail) = findings.iter().find(|(check, ..)| check == "http.listen").unwrap();
    assert_eq!((verdict.as_str(), detail), ("good", &format!("Ringtrue is already listening on {listen}")));
    server.stop();
}

#[test]
fn running_server_with_tls_is_recognised_by_its_certificate() {
    let deployment = Deployment::migrated();
    let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    let install = |pair: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        deployment.write("chain.pem", &pair.cert.pem(), 0o644);
        deployment.write("key.pem", &pair.signing_key.serialize_pem(), 0o600);
    };
    install(&one);
    deployment.configure("http.tls = { certificate = \"chain.pem\", key = \"key.pem\" }");
    let (server, base_url) = deployment.serve();
    let listen = [("RINGTRUE_HTTP__LISTEN", base_url.strip_prefix("https://").unwrap())];
    let findings = run_doctor(&deployment, &listen, 0);
    let (_, verdict, detail) = findings.iter().find(|(check, ..)| check == "http.listen").unwrap();
    assert!(verdict == "good" && detail.ends_with(", with the certificate of the file"), "{findings:#?}");

    install(&other);
    assert_only_failure(&deployment, &listen, "http.listen", "with another certificate than chain.pem");
    server.stop();
}

#[test]
fn operators_are_reached() {
    let deployment = Deployment::migrated();
    let (smsc, operator) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [&smsc, &operator].map(|listener| listener.local_addr().unwrap().port());
    deployment.configure(&format!(
        r#"
        [networks.23410]
        name = "O2"
        country = "GB"
        prefixes = ["+447700"]
        receivers = ["+447700900001"]

        [connectors.smsc]
        kind = "smpp"
        host = "127.0.0.1"
        port = {}
        system_id = "us"
        password_env = "SECRET"
        receivers = ["+447700900001"]

        [connectors.api]
        kind = "camara"
        networks = ["23410"]
        issuer = "http://127.0.0.1:{port}"
        api_root = "http://127.0.0.1:{port}"
        client_id = "us"
        client_authentication = "client_secret_basic"
        client_secret_env = "SECRET"
        "#,
        ports[0],
        port = ports[1],
    ));
    let variables = [("SECRET", "hunter2")];
    let origin = format!("http://127.0.0.1:{}", ports[1]);
    let document = format!(r#"{{"issuer": "{origin}", "token_endpoint": "{origin}/token"}}"#);
    let answering = std::thread::spawn(move || {
        for body in [document.as_str(), "{}"] {
            let (mut stream, _) = operator.accept().unwrap();
            let head = read_head(&mut stream);
            let length = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
            assert!(!head.to_ascii_lowercase().contains("authorization"), "{head}");
        }
    });
    let findings = run_doctor(&deployment, &variables, 0);
    assert!(findings.iter().all(|(_, verdict, _)| verdict != "warning"), "{findings:#?}");
    for (check, detail) in [
        ("connector smsc", format!("127.0.0.1:{} accepts connections; the password is not tried", ports[0])),
        ("connector api", format!("{origin} responds; the credentials are not tried")),
        ("connectors", "2 configured".to_owned()),
        ("receivers", "1 configured".to_owned()),
        ("networks", "1 configured".to_owned()),
    ] {
        assert!(findings.contains(&(check.to_owned(), "good".to_owned(), detail)), "{findings:#?}");
    }
    answering.join().unwrap();
    drop(smsc);
    let failures = run_doctor(&deployment, &variables, 1);
    for (check, detail) in [("connector smsc", "refused"), ("connector api", "/.well-known/openid-configuration: ")] {
        let is_reported = |(found, verdict, text): &(String, String, String)| {
            found == check && verdict == "bad" && text.contains(detail)
        };
        assert!(failures.iter().any(is_reported), "{failures:#?}");
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn exposed_database_is_reported() {
    let deployment = Deployment::migrated();
    std::fs::set_permissions(deployment.path("ringtrue.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_only_failure(&deployment, &[], "disk", "every user of this machine can open ringtrue.db (mode 0644)");
}

#[test]
fn findings_are_csv_with_a_header() {
    let text = Deployment::migrated().run("doctor --output csv").expect_code(0).text();
    assert!(text.starts_with("check,verdict,detail,remedy\nconfiguration,good,ringtrue.toml,\n"), "{text}");
}
