//! MaxMind's test databases, in the folder `MAXMIND_TEST_DATA`.

use std::io::{Write, stderr};

use super::*;

#[test]
#[expect(clippy::disallowed_methods, reason = "optional test data")]
fn maxmind_test_databases_are_read() {
    let Some(folder) = std::env::var_os("MAXMIND_TEST_DATA").map(PathBuf::from) else {
        // `eprintln!` output of passing tests is hidden.
        writeln!(stderr(), "skipped: MAXMIND_TEST_DATA does not name the folder of MaxMind's test databases").unwrap();
        return;
    };
    let config = IpRoutingConfig {
        isp_database: Some(folder.join("GeoIP2-ISP-Test.mmdb")),
        connection_type_database: Some(folder.join("GeoIP2-Connection-Type-Test.mmdb")),
        asn_database: Some(folder.join("GeoLite2-ASN-Test.mmdb")),
        isps: [("Sprint PCS".to_owned(), network("310120"))].into(),
        autonomous_systems: [(35908, network("310999")), (209, network("310998"))].into(),
        ..IpRoutingConfig::default()
    };
    assert_located(
        &IpRouting::load(&config).unwrap(),
        &[
            ("149.101.100.1", "310004"),
            ("::ffff:149.101.100.1", "310004"),
            ("108.96.0.1", "310120"),
            ("67.43.156.1", "310999"),
            ("1.0.1.1", "unknown"),
            ("80.214.0.1", "unknown"),
            ("96.1.0.1", "not mobile"),
            ("214.78.120.1", "not mobile"),
            ("216.160.83.57", "not mobile"),
            ("2003::1", "not mobile"),
            ("8.8.8.8", "unknown"),
        ],
    );
}
