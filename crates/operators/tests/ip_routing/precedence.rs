use super::*;

#[test]
fn ranges_precede_plmn_codes_and_maps() {
    let folder = TestFolder::new();
    let routing = IpRouting::load(&full_config(&folder)).unwrap();
    assert_located(
        &routing,
        &[
            // Configured ranges take precedence over databases.
            ("5.1.128.1", "23415"),
            ("5.1.32.1", "26201"),
            ("192.0.2.127", "23420"),
            // The ISP database contains MCC and MNC.
            ("5.1.0.1", "23410"),
            ("5.1.64.1", "23410"),
            ("5.1.33.1", "not mobile"),
            // The ISP name is mapped to a network.
            ("5.2.0.1", "23430"),
            ("5.2.32.1", "not mobile"),
            ("5.2.64.1", "unknown"),
            // The autonomous system, from the ISP or the ASN database, is mapped to a network.
            ("5.3.0.1", "23433"),
            ("5.3.32.1", "not mobile"),
            ("5.3.64.1", "unknown"),
            ("5.6.0.1", "23433"),
            // Neither the ISP name nor the autonomous system is mapped.
            ("5.4.0.1", "unknown"),
            ("5.4.32.1", "not mobile"),
            // MCC and MNC are invalid.
            ("5.5.0.1", "unknown"),
            // No source contains the address.
            ("8.8.8.8", "unknown"),
            ("2a00:1::1", "310004"),
            ("2a00:1:0:1::1", "not mobile"),
            ("2a00:1:0:2::1", "310004"),
            ("2a00:2::1", "unknown"),
        ],
    );
}

#[test]
fn maps_apply_without_connection_types() {
    let folder = TestFolder::new();
    let config = IpRoutingConfig { connection_type_database: None, ..full_config(&folder) };
    assert_located(
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
    assert_located(
        &IpRouting::load(&config).unwrap(),
        &[("5.1.33.1", "unknown"), ("5.2.0.1", "unknown"), ("5.3.64.1", "23433")],
    );
}

#[test]
fn only_ipv4_mapped_addresses_are_unwrapped() {
    let folder = TestFolder::new();
    let routing = IpRouting::load(&full_config(&folder)).unwrap();
    assert_located(
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
fn private_addresses_are_found_only_in_configured_ranges() {
    let folder = TestFolder::new();
    let routing = IpRouting::load(&full_config(&folder)).unwrap();
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
        assert_located(&routing, &[(address, "unknown")]);
    }
    assert_located(&routing, &[("10.20.0.1", "23415"), ("192.0.2.1", "23420"), ("2001:db8:1::1", "26201")]);
}

#[test]
fn empty_configuration_locates_nothing() {
    let routing = IpRouting::load(&IpRoutingConfig::default()).unwrap();
    assert!(routing.is_empty());
    assert_located(&routing, &[("5.1.0.1", "unknown"), ("10.0.0.1", "unknown"), ("2a00:1::1", "unknown")]);
    let folder = TestFolder::new();
    assert!(!IpRouting::load(&full_config(&folder)).unwrap().is_empty());
}
