//! Connectors of the kind `smpp`, and common settings of connectors.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use ringtrue_operators::smpp::{AddressRange, BindDirection, DefaultAlphabet, InterfaceVersion, PartOrder, SmppConfig};

use super::{assert_rejected, load, load_valid};
use crate::config::{Connector, ConnectorSection};

const SECRET: [(&str, &str); 1] = [("O2_PASSWORD", "hunter2")];

/// Required settings on six lines, then `rest`.
fn o2(rest: &str) -> String {
    format!(
        "[connectors.o2]\nkind = \"smpp\"\nhost = \"smsc.example.net\"\nport = 2775\nsystem_id = \"ringtrue\"\n\
         receivers = [\"+447700900001\"]\n{rest}"
    )
}

fn with_password(rest: &str) -> String {
    o2(&format!("password_env = \"O2_PASSWORD\"\n{rest}"))
}

fn only_smpp(connectors: &[ConnectorSection]) -> SmppConfig {
    let [ConnectorSection { connector: Connector::Smpp(smpp), .. }] = connectors else { panic!() };
    (**smpp).clone()
}

#[test]
fn omitted_members_have_defaults() {
    let smpp = only_smpp(&load_valid(&with_password(""), SECRET).connectors);
    let expected = SmppConfig {
        system_id: "ringtrue".to_owned(),
        password: "hunter2".into(),
        ..SmppConfig::new("o2", "smsc.example.net", 2775, smpp.receivers.clone())
    };
    assert_eq!(format!("{smpp:?}"), format!("{expected:?}"));
    assert_eq!(smpp.password, expected.password);
}

#[test]
fn every_member_is_read() {
    let smpp = only_smpp(
        &load_valid(
            &with_password(
                "tls = true
                tls_server_name = \"smsc.internal\"
                system_type = \"VMA\"
                bind = \"receiver\"
                interface_version = \"5.0\"
                address_ton = 1
                address_npi = 2
                address_range = \"^4477\"
                country = \"GB\"
                default_alphabet = \"latin1\"
                binds = 3
                window = 10
                enquire_link_interval = \"15s\"
                response_timeout = \"5s\"
                answer_timeout = \"4s\"
                reconnect_min = \"500ms\"
                reconnect_max = \"30s\"
                concatenation_deadline = \"2m\"
                parts = \"one_by_one\"
                grace = 0",
            ),
            SECRET,
        )
        .connectors,
    );
    assert_eq!(format!("{:?}", smpp.tls.unwrap().server_name), "DnsName(\"smsc.internal\")");
    assert_eq!(smpp.system_type, "VMA");
    assert_eq!((smpp.direction, smpp.interface_version), (BindDirection::Receiver, InterfaceVersion::V5_0));
    assert_eq!(smpp.address_range, AddressRange { ton: 1, npi: 2, pattern: "^4477".to_owned() });
    assert_eq!((smpp.country, smpp.default_alphabet), ("GB".parse().ok(), DefaultAlphabet::Latin1));
    assert_eq!((smpp.binds, smpp.window, smpp.part_order), (3, 10, PartOrder::OneByOne));
    let seconds = Duration::from_secs;
    assert_eq!((smpp.enquire_link_interval, smpp.response_timeout), (seconds(15), seconds(5)));
    assert_eq!((smpp.answer_timeout, smpp.concatenation_deadline), (seconds(4), seconds(120)));
    assert_eq!((smpp.reconnect_min, smpp.reconnect_max), (Duration::from_millis(500), seconds(30)));
    assert_eq!(smpp.grace, Duration::ZERO);
}

#[test]
fn invalid_connectors_are_rejected() {
    for (file, message) in [
        (
            "[connectors.O2]".to_owned(),
            "connectors.O2 (/etc/ringtrue/ringtrue.toml:1): found \"O2\"; allowed: a name of 1 to 40 lower-case \
             letters, \
             digits, `-` and `_`, other than \"sandbox\"",
        ),
        (
            "[connectors.sandbox]".to_owned(),
            "connectors.sandbox (/etc/ringtrue/ringtrue.toml:1): found \"sandbox\"; allowed: a name of 1 to 40 \
             lower-case letters, digits, `-` and `_`, other than \"sandbox\"",
        ),
        (
            "\n[connectors.o2]".to_owned(),
            "connectors.o2.kind (/etc/ringtrue/ringtrue.toml:2): found nothing; allowed: \"smpp\", \"sms_http\", \
             \"camara\" or \"header_enrichment\"",
        ),
        (
            "[connectors.o2]\nkind = \"smtp\"".to_owned(),
            "connectors.o2.kind (/etc/ringtrue/ringtrue.toml:2): found \"smtp\"; allowed: \"smpp\", \"sms_http\", \
             \"camara\" or \"header_enrichment\"",
        ),
        (
            "[connectors.o2]\nkind = \"smpp\"".to_owned(),
            "connectors.o2.host (/etc/ringtrue/ringtrue.toml:1): found nothing; allowed: a host name or an IP address, \
             without a port",
        ),
        (
            with_password("systemtype = \"VMA\""),
            "connectors.o2.systemtype (/etc/ringtrue/ringtrue.toml:8): unknown key; did you mean \
             connectors.o2.system_type?",
        ),
        (with_password("driver = \"twilio\""), "connectors.o2.driver (/etc/ringtrue/ringtrue.toml:8): unknown key"),
        (
            with_password("[connectors.o2.tls]\nca_file = \"ca.pem\""),
            "connectors.o2.tls.ca_file (/etc/ringtrue/ringtrue.toml:9): unknown key; did you mean \
             connectors.o2.tls_ca_file?",
        ),
        (
            with_password("tls_ca_file = \"ca.pem\""),
            "connectors.o2.tls (/etc/ringtrue/ringtrue.toml:1): found false; allowed: true, because \
             `connectors.o2.tls_ca_file` is set",
        ),
        (
            with_password("tls = true\ntls_ca_file = \"/nonexistent/ca.pem\""),
            "connectors.o2.tls_ca_file (/etc/ringtrue/ringtrue.toml:9): found \"/nonexistent/ca.pem\", which cannot be \
             read: No such file or directory (os error 2); allowed: a path to a file",
        ),
        (
            with_password("interface_version = 3.4"),
            "connectors.o2.interface_version (/etc/ringtrue/ringtrue.toml:8): found a floating-point number; allowed: \
             \"3.4\" or \"5.0\"",
        ),
        (
            with_password("reconnect_min = \"2m\""),
            "connectors.o2.reconnect_min (/etc/ringtrue/ringtrue.toml:8): found 2m; allowed: at most 1m, the value of \
             `connectors.o2.reconnect_max`",
        ),
        (
            with_password("").replace("smsc.example.net", "smsc.example.net:2775"),
            "connectors.o2.host (/etc/ringtrue/ringtrue.toml:3): found \"smsc.example.net:2775\"; allowed: a host name \
             or an IP address, without a port",
        ),
        (
            with_password("").replace("\"+447700900001\"", ""),
            "connectors.o2.receivers (/etc/ringtrue/ringtrue.toml:6): found []; allowed: at least one number",
        ),
        (
            with_password("").replace("01\"]", "01\", \"+447700900001\"]"),
            "connectors.o2.receivers (/etc/ringtrue/ringtrue.toml:6): found \"+447700900001\" twice; allowed: each \
             number only once",
        ),
    ] {
        assert_rejected(&file, SECRET, message);
    }
}

#[test]
fn connectors_that_share_a_receiver_need_the_same_country() {
    let spare = with_password("country = \"GB\"").replace("connectors.o2", "connectors.spare");
    load_valid(&format!("{}\n{spare}", with_password("country = \"GB\"")), SECRET);
    assert_rejected(
        &format!("{}\n{spare}", with_password("country = \"DE\"")),
        SECRET,
        "connectors.spare.receivers (/etc/ringtrue/ringtrue.toml:14): found \"+447700900001\", which `connectors.o2` \
         also serves; allowed: receivers of this connector only, or the same `country` as `connectors.o2`: otherwise \
         the sender of an SMS would depend on the connector",
    );
}

#[test]
fn secrets_come_from_files_or_variables() {
    assert_rejected(
        &o2("password = \"hunter2\""),
        [],
        "connectors.o2.password (/etc/ringtrue/ringtrue.toml:7): unknown key; did you mean \
         connectors.o2.password_file?",
    );
    assert_rejected(
        &o2(""),
        [],
        "connectors.o2.password_file (/etc/ringtrue/ringtrue.toml:1): found nothing; allowed: a path to a file \
         readable by its owner only; or set `connectors.o2.password_env`",
    );
    assert_rejected(
        &with_password("password_file = \"o2.password\""),
        SECRET,
        "connectors.o2.password_env (/etc/ringtrue/ringtrue.toml:7): found \"O2_PASSWORD\"; allowed: nothing, because \
         `connectors.o2.password_file` is set",
    );
    assert_rejected(
        &with_password(""),
        [],
        "connectors.o2.password_env (/etc/ringtrue/ringtrue.toml:7): found \"O2_PASSWORD\", which is not set; allowed: \
         the name of an environment variable that holds the secret",
    );
    assert_rejected(
        &with_password(""),
        [("O2_PASSWORD", "correct horse battery")],
        "connectors.o2.password_env (/etc/ringtrue/ringtrue.toml:7): found \"O2_PASSWORD\", which holds an invalid \
         value; allowed: a password of 1 to 8 ASCII characters, the limit of SMPP",
    );
    assert_rejected(
        &o2("password_env = \"hunter 2!\""),
        [],
        "connectors.o2.password_env (/etc/ringtrue/ringtrue.toml:7): found \"hunter 2!\"; allowed: the name of an \
         environment variable: letters, digits and `_`",
    );
}

#[test]
fn secret_variables_are_not_settings() {
    let file = o2("password_env = \"RINGTRUE_O2_PASSWORD\"");
    let secret = [("RINGTRUE_O2_PASSWORD", "hunter2")];
    assert_eq!(only_smpp(&load_valid(&file, secret).connectors).password, "hunter2".into());
    assert!(load("", secret).is_err());
    assert_rejected(
        &with_password(""),
        [("O2_PASSWORD", "hunter2"), ("RINGTRUE_CONNECTORS__O2__HOST", "smsc")],
        "RINGTRUE_CONNECTORS__O2__HOST: no setting for this environment variable; did you mean a section of \
         the file, [connectors]?",
    );
}

fn write_secret(folder: &Path, text: &str, mode: u32) -> String {
    let path = folder.join("o2.password");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

#[test]
fn secret_files_must_be_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_secret(folder.path(), "hunter2\n", 0o600);
    let file = o2(&format!("password_file = \"{path}\""));
    assert_eq!(only_smpp(&load_valid(&file, []).connectors).password, "hunter2".into());
    let message = |what: &str| {
        format!(
            "connectors.o2.password_file (/etc/ringtrue/ringtrue.toml:7): found \"{path}\", which {what}; allowed: a \
             path to a file readable by its owner only"
        )
    };
    write_secret(folder.path(), "hunter2\n", 0o644);
    assert_rejected(&file, [], &message("is readable by users other than its owner (mode 0644)"));
    fs::remove_file(&path).unwrap();
    assert_rejected(&file, [], &message("cannot be read: No such file or directory (os error 2)"));
}

#[test]
fn secrets_are_masked() {
    let loaded = load(&with_password(""), SECRET).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
    let shown: Vec<_> = loaded.changed.iter().map(|it| format!("{} = {}", it.key, it.value)).collect();
    assert_eq!(
        shown,
        [
            "connectors.o2.host = \"smsc.example.net\"",
            "connectors.o2.kind = \"smpp\"",
            "connectors.o2.password_env = \"O2_PASSWORD\"",
            "connectors.o2.port = 2775",
            "connectors.o2.receivers = [\"+447700900001\"]",
            "connectors.o2.system_id = \"ringtrue\"",
        ]
    );
}

#[test]
fn connectors_compare_by_settings_and_secrets() {
    let section = |file: &str, password| load_valid(file, [("O2_PASSWORD", password)]).connectors.remove(0);
    let old = section(&with_password(""), "hunter2");
    assert_eq!(old.name(), "o2");
    assert_eq!(old, section(&format!("# moved\n\n{}", with_password("")), "hunter2"));
    for (file, password) in [
        (with_password(""), "hunter3"),
        (with_password("binds = 2"), "hunter2"),
        (with_password("").replace("2775", "2776"), "hunter2"),
        (with_password("").replace("connectors.o2", "connectors.o3"), "hunter2"),
    ] {
        assert_ne!(old, section(&file, password), "{file}");
    }
}
