//! Networks and receiver pools.

use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    phone::Msisdn,
    tenancy::Mode,
};

use super::{assert_rejected, load_valid};

/// Serves two numbers; seven lines.
const CONNECTOR: &str = "[connectors.o2]\nkind = \"smpp\"\nhost = \"smsc.example.net\"\nport = 2775\n\
                         system_id = \"ringtrue\"\npassword_env = \"PASSWORD\"\n\
                         receivers = [\"+447700900001\", \"+447700900002\"]\n";

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Live).unwrap()
}

#[test]
fn networks_and_pools_are_read() {
    let file = format!(
        "{CONNECTOR}
        [networks.23410]
        name = \"O2\"
        aliases = [\"Telefonica\"]
        country = \"GB\"
        prefixes = [\"+447700\", \"447701\"]
        receivers = [\"+447700900001\"]
        [networks.310004]
        name = \"Verizon\"
        country = \"US\"
        [receivers]
        default = [\"+447700900001\", \"+447700900002\"]
        [receivers.countries]
        GB = [\"+447700900002\"]"
    );
    let o2 = Network {
        id: "23410".parse().unwrap(),
        name: "O2".to_owned(),
        aliases: vec!["Telefonica".to_owned()],
        country: "GB".parse().unwrap(),
        prefixes: vec!["447700".to_owned(), "447701".to_owned()],
        receivers: vec![number("+447700900001")],
    };
    let verizon = Network {
        id: "310004".parse().unwrap(),
        name: "Verizon".to_owned(),
        aliases: vec![],
        country: "US".parse().unwrap(),
        prefixes: vec![],
        receivers: vec![],
    };
    let countries = vec![("GB".parse().unwrap(), vec![number("+447700900002")])];
    let default_pool = vec![number("+447700900001"), number("+447700900002")];
    let expected = NetworkDirectory::new(vec![o2, verizon], countries, default_pool).unwrap();
    assert_eq!(load_valid(&file, [("PASSWORD", "secret")]).networks, expected);
}

/// `rest` starts on line 8.
#[track_caller]
fn assert_rejected_with_connector(rest: &str, message: &str) {
    assert_rejected(&format!("{CONNECTOR}{rest}"), [("PASSWORD", "secret")], message);
}

const O2: &str = "[networks.23410]\nname = \"O2\"\ncountry = \"GB\"\n";

#[test]
fn invalid_networks_are_rejected() {
    let named = |member: &str| format!("{O2}{member}");
    for (rest, message) in [
        (
            "[networks.o2]\nname = \"O2\"".to_owned(),
            "networks.o2 (/etc/ringtrue/ringtrue.toml:8): found \"o2\"; allowed: a network id: five or six digits, MCC \
             and MNC",
        ),
        (
            "[networks.23410]".to_owned(),
            "networks.23410.name (/etc/ringtrue/ringtrue.toml:8): found nothing; allowed: 1 to 100 characters without \
             control characters",
        ),
        (
            "[networks.23410]\nname = \"O2\"".to_owned(),
            "networks.23410.country (/etc/ringtrue/ringtrue.toml:8): found nothing; allowed: a two-letter country \
             code, such as \"GB\"",
        ),
        (
            "[networks.23410]\nname = \"O2\"\ncountry = \"UK\"".to_owned(),
            "networks.23410.country (/etc/ringtrue/ringtrue.toml:10): found \"UK\"; allowed: a two-letter country \
             code, such as \"GB\"",
        ),
        (
            named("prefix = [\"+447700\"]"),
            "networks.23410.prefix (/etc/ringtrue/ringtrue.toml:11): unknown key; did you mean \
             networks.23410.prefixes?",
        ),
        (
            named("prefixes = [\"07700\"]"),
            "networks.23410.prefixes (/etc/ringtrue/ringtrue.toml:11): found [\"07700\"]; allowed: a list, each item \
             a number prefix of 1 to 15 digits with the country code, such as \"+447700\"",
        ),
        (
            named("prefixes = [\"447700\", \"+447700\"]"),
            "networks.23410.prefixes (/etc/ringtrue/ringtrue.toml:11): found \"447700\" twice; allowed: each prefix \
             only once",
        ),
        (
            named("prefixes = [\"44\"]\n[networks.23415]\nname = \"V\"\ncountry = \"GB\"\nprefixes = [\"+44\"]"),
            "networks.23415.prefixes (/etc/ringtrue/ringtrue.toml:15): found \"44\"; allowed: prefixes of this network \
             only; this one is also in `networks.23410.prefixes`",
        ),
        (
            named("aliases = [\"23411\"]\n[networks.23415]\nname = \"V\"\ncountry = \"GB\"\naliases = [\"23411\"]"),
            "networks.23415.aliases (/etc/ringtrue/ringtrue.toml:15): found \"23411\"; allowed: ids of this network \
             only; this one is also in `networks.23410.aliases`",
        ),
        (
            named("aliases = [\"23415\"]\n[networks.23415]\nname = \"V\"\ncountry = \"GB\""),
            "networks.23410.aliases (/etc/ringtrue/ringtrue.toml:11): found \"23415\"; allowed: ids of this network \
             only; this is the id of `networks.23415`",
        ),
        (
            "networks.23410 = \"O2\"".to_owned(),
            "connectors.o2.networks.23410 (/etc/ringtrue/ringtrue.toml:8): unknown key",
        ),
        (
            "[networks]\n23410 = \"O2\"".to_owned(),
            "networks.23410 (/etc/ringtrue/ringtrue.toml:9): unknown key; did you mean a section, \
             [networks.23410]?",
        ),
        (
            "[network.23410]\nname = \"O2\"".to_owned(),
            "network.23410.name (/etc/ringtrue/ringtrue.toml:9): unknown key; did you mean \
             networks.23410.name?",
        ),
    ] {
        assert_rejected_with_connector(&rest, message);
    }
    assert_rejected(
        "networks = 5",
        [],
        "networks (/etc/ringtrue/ringtrue.toml:1): unknown key; did you mean a section, [networks]?",
    );
    load_valid("[networks]\n[receivers.countries]\n[connectors]", []);
}

#[test]
fn receivers_without_a_connector_are_rejected() {
    let served = "receivers of connectors: \"+447700900001\", \"+447700900002\"";
    for (rest, key, line) in [
        (format!("{O2}receivers = [\"+447700900003\"]"), "networks.23410.receivers", 11),
        ("[receivers.countries]\nGB = [\"+447700900003\"]".to_owned(), "receivers.countries.GB", 9),
        ("[receivers]\ndefault = [\"+447700900003\"]".to_owned(), "receivers.default", 9),
    ] {
        let message = format!(
            "{key} (/etc/ringtrue/ringtrue.toml:{line}): found \"+447700900003\", which no connector serves; allowed: \
             {served}"
        );
        assert_rejected_with_connector(&rest, &message);
    }
    assert_rejected(
        "receivers.default = [\"+447700900003\"]",
        [],
        "receivers.default (/etc/ringtrue/ringtrue.toml:1): found \"+447700900003\", which no connector serves; \
         allowed: receivers of connectors; no connector is configured",
    );
}

#[test]
fn invalid_pools_are_rejected() {
    for (rest, message) in [
        (
            "[receivers]\ndefault = [\"07700900001\"]",
            "receivers.default (/etc/ringtrue/ringtrue.toml:9): found [\"07700900001\"]; allowed: a list, each item a \
             phone number in E.164 format, such as \"+447700900001\"",
        ),
        (
            "[receivers]\ndefault = [\"+447700900001\", \"+447700900001\"]",
            "receivers.default (/etc/ringtrue/ringtrue.toml:9): found \"+447700900001\" twice; allowed: each number \
             only once",
        ),
        (
            "[receivers.countries]\nBritain = [\"+447700900001\"]",
            "receivers.countries.Britain (/etc/ringtrue/ringtrue.toml:9): found \"Britain\"; allowed: a two-letter \
             country code, such as \"GB\"",
        ),
        (
            "[receivers.countries.GB]\nnumbers = [\"+447700900001\"]",
            "receivers.countries.GB.numbers (/etc/ringtrue/ringtrue.toml:9): unknown key; did you mean \
             receivers.countries.GB?",
        ),
        ("[receivers]\nGB = [\"+447700900001\"]", "receivers.GB (/etc/ringtrue/ringtrue.toml:9): unknown key"),
    ] {
        assert_rejected_with_connector(rest, message);
    }
}
