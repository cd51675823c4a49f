use super::*;

#[test]
fn tables_come_first_then_codes_then_maps() {
    let folder = Folder::new();
    let routing = IpRouting::load(&everything(&folder)).unwrap();
    holds(
        &routing,
        &[
            // The deployment's own ranges, whatever databases say of them.
            ("5.1.128.1", "23415"),
            ("5.1.32.1", "26201"),
            ("192.0.2.127", "23420"),
            // Codes.
            ("5.1.0.1", "23410"),
            ("5.1.64.1", "23410"),
            ("5.1.33.1", "not mobile"),
            // The name of the provider.
            ("5.2.0.1", "23430"),
            ("5.2.32.1", "not mobile"),
            ("5.2.64.1", "unknown"),
            // Its autonomous system, by the one database and by the other.
            ("5.3.0.1", "23433"),
            ("5.3.32.1", "not mobile"),
            ("5.3.64.1", "unknown"),
            ("5.6.0.1", "23433"),
            // On no map.
            ("5.4.0.1", "unknown"),
            ("5.4.32.1", "not mobile"),
            // Codes that are none.
            ("5.5.0.1", "unknown"),
            // Nowhere at all.
            ("8.8.8.8", "unknown"),
            ("2a00:1::1", "310004"),
            ("2a00:1:0:1::1", "not mobile"),
            ("2a00:1:0:2::1", "310004"),
            ("2a00:2::1", "unknown"),
        ],
    );
}

#[test]
fn without_connection_types_maps_are_believed() {
    let folder = Folder::new();
    let config = IpRoutingConfig { connection_type_database: None, ..everything(&folder) };
    holds(
        &IpRouting::load(&config).unwrap(),
        &[
            ("5.1.33.1", "23410"),
            ("5.2.32.1", "23430"),
            ("5.3.64.1", "23433"),
            ("5.4.32.1", "unknown"),
            ("5.5.0.1", "23430"),
            ("5.6.32.1", "23433"),
        ],
    );
    let config = IpRoutingConfig { isp_database: None, ..config };
    holds(
        &IpRouting::load(&config).unwrap(),
        &[("5.1.33.1", "unknown"), ("5.2.0.1", "unknown"), ("5.3.64.1", "23433")],
    );
}

#[test]
fn a_mapped_address_is_unwrapped_and_no_other_disguise_is() {
    let folder = Folder::new();
    let routing = IpRouting::load(&everything(&folder)).unwrap();
    holds(
        &routing,
        &[
            ("::ffff:5.1.0.1", "23410"),
            ("::ffff:5.1.128.1", "23415"),
            ("::ffff:10.20.0.1", "23415"),
            ("::ffff:5.1.33.1", "not mobile"),
            // NAT64, 6to4, IPv4-compatible and translated, each with 5.1.0.1 in it.
            ("64:ff9b::501:1", "unknown"),
            ("64:ff9b:1::501:1", "unknown"),
            ("2002:501:1::1", "unknown"),
            ("::5.1.0.1", "unknown"),
            ("::ffff:0:501:1", "unknown"),
        ],
    );
}

#[test]
fn only_the_deployment_knows_what_is_behind_private_addresses() {
    let folder = Folder::new();
    let routing = IpRouting::load(&everything(&folder)).unwrap();
    for address in [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.1.1",
        "172.16.0.1",
        "192.0.2.200",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "2001:db8::1",
        "2001::1",
        "3fff::1",
    ] {
        holds(&routing, &[(address, "unknown")]);
    }
    holds(&routing, &[("10.20.0.1", "23415"), ("192.0.2.1", "23420"), ("2001:db8:1::1", "26201")]);
}

#[test]
fn nothing_configured_knows_nobody() {
    let routing = IpRouting::load(&IpRoutingConfig::default()).unwrap();
    assert!(routing.is_empty());
    holds(&routing, &[("5.1.0.1", "unknown"), ("10.0.0.1", "unknown"), ("2a00:1::1", "unknown")]);
    let folder = Folder::new();
    assert!(!IpRouting::load(&everything(&folder)).unwrap().is_empty());
}
