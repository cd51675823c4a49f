//! `ringtrue config init` writes a valid configuration, and `config check` finds every error that `serve` would report.

use std::{fs, os::unix::fs::PermissionsExt};

use super::{
    process::run,
    setup::{Deployment, MASTER_KEY},
};

const CAMARA: &str = "[connectors.three]\nkind = \"camara\"\nnetworks = [\"23420\"]\nissuer = \"https://op.example\"\n\
                      api_root = \"https://api.op.example\"\nclient_id = \"us\"\n\
                      client_authentication = \"client_secret_basic\"\nclient_secret_file = \"secret\"\n";
const HLR: &str =
    "[number_sources.hlr]\nkind = \"http_hlr\"\ndriver = \"generic_json\"\nnetwork_pointer = \"/mccmnc\"\n";

#[test]
fn config_check_reports_the_same_errors_as_serve() {
    let deployment = Deployment::migrated();
    deployment.write("secret", "hunter2", 0o600);
    deployment.write("garbage", "neither a certificate nor a table\n", 0o600);
    for (lines, problem) in [
        (format!("{CAMARA}pkce = false\nopenid_scope = false"), "connectors.three: enable PKCE or the scope `openid`"),
        (format!("{CAMARA}tls_ca_file = \"garbage\""), "connectors.three: the extra root certificates file"),
        (
            format!("{HLR}url = \"https://hlr.example/lookup\""),
            "number_sources.hlr: neither the URL nor the body contains",
        ),
        (
            format!("{HLR}url = \"https://hlr.example/{{number}}\"\ntls_ca_file = \"garbage\""),
            "number_sources.hlr: the extra root certificates file",
        ),
        (
            "ingress = { listen = \"127.0.0.1:1\", tls = { certificate = \"garbage\", key = \"garbage\" } }".to_owned(),
            "ingress.tls: garbage: ",
        ),
        ("ip_routing.range_files = [\"garbage\"]".to_owned(), "garbage:1: "),
        ("ip_routing.asn_database = \"garbage\"".to_owned(), "garbage is not a valid MaxMind database"),
        ("ip_routing.isp_database = \"nowhere\"".to_owned(), "failed to read nowhere"),
        ("callbacks.ca_file = \"garbage\"".to_owned(), "callbacks.ca_file: the extra root certificates file"),
        ("http.tls = { certificate = \"garbage\", key = \"garbage\" }".to_owned(), "http.tls: garbage: "),
    ] {
        deployment.configure(&lines);
        for command in ["config check", "serve"] {
            let errors = deployment.run(command).expect_code(3).errors();
            let expected = format!("ringtrue: invalid configuration: {problem}");
            assert!(errors.contains(&expected), "{command}: {errors}\n{expected}");
        }
    }
}

/// `config check` finds a missing certificate file without contacting the database.
#[test]
fn database_certificates_are_checked() {
    let deployment = Deployment::new();
    let mut check = deployment.command("config check");
    check.env("RINGTRUE_STORE__URL", "postgres://u:hunter2@127.0.0.1:1/db?sslmode=require&sslrootcert=nowhere.pem");
    let errors = run(&mut check).expect_code(3).errors();
    assert!(errors.contains("store.url: ") && errors.contains("sslrootcert nowhere.pem: "), "{errors}");
}

/// A missing master key is no error, because it may be available to the server process only.
#[test]
fn master_key_is_checked_if_present() {
    let deployment = Deployment::new();
    assert_eq!(deployment.run("config check").expect_code(0).errors(), "");
    let mut check = deployment.command("config check");
    check.env("RINGTRUE_KEYS__MASTER_KEY_FILE", "");
    let note = "No master key configured: `ringtrue serve` requires one.\n";
    assert_eq!(run(&mut check).expect_code(0).errors(), note);
    check.env("RINGTRUE_MASTER_KEY", "c2hvcnQ=");
    run(&mut check).expect_code(3);
    deployment.write("master.key", MASTER_KEY, 0o644);
    let errors = deployment.run("config check").expect_code(3).errors();
    assert!(errors.contains("is readable by users other than its owner"), "{errors}");
}

/// A deployment whose `etc` was written by `config init`, with a database of its own.
fn initialised() -> Deployment {
    let deployment = Deployment::new();
    let next = deployment.run("config init etc").expect_code(0).text();
    let option = format!("--config {}", deployment.path("etc/ringtrue.toml").display());
    for command in ["migrate", "doctor", "serve"] {
        assert!(next.contains(&format!("\n  ringtrue {command} {option} ")), "{next}");
    }
    let database = format!("sqlite:{}", deployment.path("ringtrue.db").display());
    edit_config(&deployment, |text| text.replace("sqlite:/var/lib/ringtrue/ringtrue.db", &database));
    deployment
}

fn edit_config(deployment: &Deployment, edit: impl Fn(String) -> String) {
    let path = deployment.path("etc/ringtrue.toml");
    fs::write(&path, edit(fs::read_to_string(&path).unwrap())).unwrap();
}

#[test]
fn initial_configuration_starts_a_server() {
    let deployment = initialised();
    let mode = |name: &str| fs::metadata(deployment.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(["etc", "etc/master.key", "etc/ringtrue.toml"].map(mode), [0o700, 0o600, 0o600]);
    deployment.run("migrate --config etc/ringtrue.toml").expect_code(0);
    deployment.run("workspaces create Acme --config etc/ringtrue.toml").expect_code(0);
    let mut doctor = deployment.command("doctor --config etc/ringtrue.toml");
    // The default ports may be in use on this machine.
    doctor.envs([("RINGTRUE_HTTP__LISTEN", "127.0.0.1:0"), ("RINGTRUE_METRICS__LISTEN", "off")]);
    let text = run(doctor.env("RINGTRUE_HTTP__MAX_CONNECTIONS", "100")).expect_code(0).text();
    assert!(text.contains("✓ master key: ") && text.contains("\nAll checks passed, with warnings"), "{text}");
}

#[test]
fn initial_configuration_has_valid_examples() {
    let deployment = initialised();
    deployment.write("etc/o2.password", "hunter2", 0o600);
    let certificate = rcgen::generate_simple_self_signed(["verify.example.com".to_owned()]).unwrap();
    deployment.write("etc/chain.pem", &certificate.cert.pem(), 0o644);
    deployment.write("etc/key.pem", &certificate.signing_key.serialize_pem(), 0o600);
    // In the initial configuration, `# ` starts a comment, and `#` without a space disables a setting.
    let uncomment = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
        _ => format!("{line}\n"),
    };
    edit_config(&deployment, |text| text.lines().map(uncomment).collect());
    let text = deployment.run("config check --config etc/ringtrue.toml").expect_code(0).text();
    for key in ["base_url", "http.trusted_proxies", "http.tls.key", "networks.23410.prefixes", "connectors.o2.host"] {
        assert!(text.contains(key), "{key}: {text}");
    }
}

#[test]
fn existing_files_are_not_replaced() {
    for name in ["ringtrue.toml", "master.key"] {
        let deployment = Deployment::new();
        fs::create_dir(deployment.path("etc")).unwrap();
        deployment.write(&format!("etc/{name}"), "mine", 0o600);
        let errors = deployment.run("config init etc").expect_code(1).errors();
        assert!(errors.contains(&format!("etc/{name} already exists")), "{errors}");
        let names: Vec<_> =
            fs::read_dir(deployment.path("etc")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [name]);
        assert_eq!(fs::read_to_string(deployment.path("etc").join(name)).unwrap(), "mine");
    }
}

#[test]
fn created_files_are_printed_as_json() {
    let deployment = Deployment::new();
    let created = deployment.run("config init etc --output json").json();
    let etc = deployment.path("etc").canonicalize().unwrap();
    assert_eq!(created["config_file"], etc.join("ringtrue.toml").to_str().unwrap());
    assert_eq!(created["master_key_file"], etc.join("master.key").to_str().unwrap());
    let key = fs::read_to_string(etc.join("master.key")).unwrap();
    assert!(key.len() == 45 && key.ends_with('\n'), "32 bytes in base64, and a line feed");
}
