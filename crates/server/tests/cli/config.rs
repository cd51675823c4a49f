//! `ringtrue config check` finds every configuration error that `serve` would report.

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

/// The database is not contacted.
#[test]
fn database_certificates_are_checked() {
    let deployment = Deployment::new();
    let mut check = deployment.command("config check");
    check.env("RINGTRUE_STORE__URL", "postgres://u:hunter2@127.0.0.1:1/db?sslmode=require&sslrootcert=nowhere.pem");
    let errors = run(&mut check).expect_code(3).errors();
    assert!(errors.contains("store.url: ") && errors.contains("sslrootcert nowhere.pem: "), "{errors}");
}

/// The key may be available to the server process only.
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
