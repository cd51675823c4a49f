use super::*;

#[track_caller]
fn assert_rejected(config: &IpRoutingConfig, message: &str) {
    let error = IpRouting::load(config).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn range_file_is_parsed() {
    let folder = TestFolder::new();
    let file = "# agreed on 2026-03-01\n\n23410 192.0.2.0/25 # half of it\n\t23410\t 2001:db8::1/48\r\n\
                23415  192.0.2.128\n23415 192.0.2.128/32\n26201 23.124.1.200/20\n";
    let config = IpRoutingConfig { range_files: vec![folder.write("ranges", file)], ..IpRoutingConfig::default() };
    assert_located(
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
fn invalid_line_is_reported() {
    let folder = TestFolder::new();
    for (file, problem) in [
        ("23410", "ranges:1: expected a network id and a range"),
        ("\n\n23410 192.0.2.0/24 x", "ranges:3: expected a network id and a range"),
        ("o2 192.0.2.0/24", "ranges:1: a network id is five or six digits"),
        ("23410 192.0.2.0/33", "ranges:1: invalid address range \"192.0.2.0/33\""),
        ("# fine\n23410 example.com", "ranges:2: invalid address range \"example.com\""),
    ] {
        let config = IpRoutingConfig { range_files: vec![folder.write("ranges", file)], ..IpRoutingConfig::default() };
        assert_rejected(&config, problem);
    }
}

#[test]
fn conflicting_range_is_reported() {
    let folder = TestFolder::new();
    let config = IpRoutingConfig {
        address_ranges: [(network("23415"), vec!["192.0.2.0/24".parse().unwrap()])].into(),
        range_files: vec![folder.write("ranges", "23410 192.0.2.77/24")],
        ..IpRoutingConfig::default()
    };
    assert_rejected(&config, "the range 192.0.2.0/24 is assigned to both 23415 and 23410");
}

#[test]
fn missing_or_corrupt_file_is_reported() {
    let folder = TestFolder::new();
    let missing = folder.0.path().join("missing");
    let good = fs::read(folder.isp()).unwrap();
    let cut = folder.write("cut.mmdb", &good[..good.len() / 2]);
    let text = folder.write("text.mmdb", "not a database");
    // One flipped bit makes the tree point outside the file.
    let mut corrupt = good.clone();
    corrupt[0] ^= 0x40;
    let corrupt = folder.write("corrupt.mmdb", corrupt);
    let ranges = |path| IpRoutingConfig { range_files: vec![path], ..IpRoutingConfig::default() };
    let isp = |path| IpRoutingConfig { isp_database: Some(path), ..IpRoutingConfig::default() };
    assert_rejected(&ranges(missing.clone()), "missing: No such file");
    assert_rejected(&isp(missing), "missing: No such file");
    assert_rejected(&isp(cut), "cut.mmdb is not a valid MaxMind database: ");
    assert_rejected(&isp(text), "text.mmdb is not a valid MaxMind database: ");
    assert_rejected(&isp(corrupt), "corrupt.mmdb is not a valid MaxMind database: ");
}

#[test]
fn wrong_database_type_is_reported() {
    let folder = TestFolder::new();
    let config = IpRoutingConfig { isp_database: Some(folder.connection_type()), ..IpRoutingConfig::default() };
    assert_rejected(
        &config,
        "connection-type.mmdb has the database type \"GeoIP2-Connection-Type\"; expected an ISP database",
    );
    let config = IpRoutingConfig { connection_type_database: Some(folder.isp()), ..IpRoutingConfig::default() };
    assert_rejected(&config, "isp.mmdb has the database type \"GeoIP2-ISP\"; expected a connection type database");
    let config = IpRoutingConfig { asn_database: Some(folder.connection_type()), ..IpRoutingConfig::default() };
    assert_rejected(&config, "expected an ASN database");
}
