use super::*;

#[track_caller]
fn refused(config: &IpRoutingConfig, message: &str) {
    let error = IpRouting::load(config).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn a_file_of_ranges_may_say_much() {
    let folder = Folder::new();
    let file = "# agreed on 2026-03-01\n\n23410 192.0.2.0/25 # half of it\n\t23410\t 2001:db8::1/48\r\n\
                23415  192.0.2.128\n23415 192.0.2.128/32\n26201 23.124.1.200/20\n";
    let config = IpRoutingConfig { range_files: vec![folder.write("ranges", file)], ..IpRoutingConfig::default() };
    holds(
        &IpRouting::load(&config).unwrap(),
        &[
            ("192.0.2.127", "23410"),
            ("192.0.2.128", "23415"),
            ("192.0.2.129", "unknown"),
            ("2001:db8::ffff:1", "23410"),
            ("23.124.0.0", "26201"),
            ("23.124.15.255", "26201"),
            ("23.124.16.0", "unknown"),
        ],
    );
}

#[test]
fn a_line_that_is_none_is_named() {
    let folder = Folder::new();
    for (file, problem) in [
        ("23410", "ranges:1: a line is the id of a network and a range"),
        ("\n\n23410 192.0.2.0/24 x", "ranges:3: a line is the id of a network and a range"),
        ("o2 192.0.2.0/24", "ranges:1: a network id is five or six digits"),
        ("23410 192.0.2.0/33", "ranges:1: \"192.0.2.0/33\" is not a range of addresses"),
        ("# fine\n23410 example.com", "ranges:2: \"example.com\" is not a range of addresses"),
    ] {
        let config = IpRoutingConfig { range_files: vec![folder.write("ranges", file)], ..IpRoutingConfig::default() };
        refused(&config, problem);
    }
}

#[test]
fn a_range_has_one_network() {
    let folder = Folder::new();
    let config = IpRoutingConfig {
        ranges: [(network("23415"), vec!["192.0.2.0/24".parse().unwrap()])].into(),
        range_files: vec![folder.write("ranges", "23410 192.0.2.77/24")],
        ..IpRoutingConfig::default()
    };
    refused(&config, "the range 192.0.2.0/24 is of the network 23415 and of the network 23410");
}

#[test]
fn a_file_that_is_missing_or_broken_is_named() {
    let folder = Folder::new();
    let missing = folder.0.path().join("missing");
    let good = fs::read(folder.isp()).unwrap();
    let cut = folder.write("cut.mmdb", &good[..good.len() / 2]);
    let text = folder.write("text.mmdb", "not a database");
    // One bit of the tree leads to where there is no node.
    let mut bent = good.clone();
    bent[0] ^= 0x40;
    let bent = folder.write("bent.mmdb", bent);
    let ranges = |path| IpRoutingConfig { range_files: vec![path], ..IpRoutingConfig::default() };
    let isp = |path| IpRoutingConfig { isp_database: Some(path), ..IpRoutingConfig::default() };
    refused(&ranges(missing.clone()), "missing cannot be read: No such file");
    refused(&isp(missing), "missing cannot be read: No such file");
    refused(&isp(cut), "cut.mmdb is no good MaxMind database: ");
    refused(&isp(text), "text.mmdb is no good MaxMind database: ");
    refused(&isp(bent), "bent.mmdb is no good MaxMind database: ");
}

#[test]
fn a_database_of_another_kind_is_noticed() {
    let folder = Folder::new();
    let config = IpRoutingConfig { isp_database: Some(folder.connection_type()), ..IpRoutingConfig::default() };
    refused(
        &config,
        "connection-type.mmdb is a database of the type \"GeoIP2-Connection-Type\", and not one of providers",
    );
    let config = IpRoutingConfig { connection_type_database: Some(folder.isp()), ..IpRoutingConfig::default() };
    refused(&config, "isp.mmdb is a database of the type \"GeoIP2-ISP\", and not one of connection types");
    let config = IpRoutingConfig { asn_database: Some(folder.connection_type()), ..IpRoutingConfig::default() };
    refused(&config, "and not one of autonomous systems");
}
