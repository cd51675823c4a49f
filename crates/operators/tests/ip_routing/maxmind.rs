//! IP routing with MaxMind's test databases, in the folder that `MAXMIND_TEST_DATA` names, and an encoder for small
//! databases in the MaxMind DB File Format 2.0.

use std::{
    io::{Write, stderr},
    net::IpAddr,
};

use ipnet::IpNet;

use super::*;

#[test]
#[expect(clippy::disallowed_methods, reason = "optional test data")]
fn maxmind_test_databases_are_read() {
    let Some(folder) = std::env::var_os("MAXMIND_TEST_DATA").map(PathBuf::from) else {
        // The test harness would hide the output of `eprintln!`.
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

pub enum Value {
    Text(&'static str),
    Short(u16),
    Number(u32),
    Long(u64),
    EmptyList,
    Map(Vec<(&'static str, Value)>),
}

/// Encodes a database with one record per range. Ranges must not be nested.
pub fn database(database_type: &'static str, records: &[(&str, Value)]) -> Vec<u8> {
    let mut tree = Tree::default();
    let mut data = vec![];
    for (range, value) in records {
        tree.insert(range.parse().unwrap(), data.len());
        encode(value, &mut data);
    }
    let metadata = Value::Map(vec![
        ("node_count", Value::Number(u32::try_from(tree.0.len()).unwrap())),
        ("record_size", Value::Short(24)),
        ("ip_version", Value::Short(6)),
        ("database_type", Value::Text(database_type)),
        ("binary_format_major_version", Value::Short(2)),
        ("binary_format_minor_version", Value::Short(0)),
        ("build_epoch", Value::Long(1_700_000_000)),
        ("languages", Value::EmptyList),
        ("description", Value::Map(vec![("en", Value::Text("a test"))])),
    ]);
    let mut file = tree.encode();
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    encode(&metadata, &mut file);
    file
}

#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    Data(usize),
}

struct Tree(Vec<[Record; 2]>);

impl Default for Tree {
    fn default() -> Self {
        Tree(vec![[Record::Nothing; 2]])
    }
}

impl Tree {
    fn insert(&mut self, range: IpNet, data: usize) {
        // The tree is for IPv6. IPv4 addresses are its lowest 32 bits.
        let (bits, length) = match range.network() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 96 + range.prefix_len()),
            IpAddr::V6(address) => (address.to_bits(), range.prefix_len()),
        };
        let mut node = 0;
        for depth in 0..length {
            let side = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == length {
                self.0[node][side] = Record::Data(data);
            } else if let Record::Node(next) = self.0[node][side] {
                node = next;
            } else {
                self.0.push([Record::Nothing; 2]);
                let next = self.0.len() - 1;
                self.0[node][side] = Record::Node(next);
                node = next;
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let number = |record: &Record| match record {
            Record::Nothing => self.0.len(),
            Record::Node(node) => *node,
            Record::Data(offset) => self.0.len() + 16 + offset,
        };
        let records = self.0.iter().flatten().map(|record| u32::try_from(number(record)).unwrap().to_be_bytes());
        records.flat_map(|[_, high, middle, low]| [high, middle, low]).collect()
    }
}

/// Encodes a value. The control byte holds the type in its first three bits and the length (below 29) in the others.
fn encode(value: &Value, into: &mut Vec<u8>) {
    let control =
        |kind: u8, length: usize| kind << 5 | u8::try_from(length).ok().filter(|length| *length < 29).unwrap();
    match value {
        Value::Text(text) => {
            into.push(control(2, text.len()));
            into.extend(text.as_bytes());
        }
        Value::Short(number) => {
            into.push(control(5, 2));
            into.extend(number.to_be_bytes());
        }
        // Types above 7 are written in an extra byte.
        Value::EmptyList => into.extend([control(0, 0), 11 - 7]),
        Value::Long(number) => {
            into.extend([control(0, 8), 9 - 7]);
            into.extend(number.to_be_bytes());
        }
        Value::Number(number) => {
            into.push(control(6, 4));
            into.extend(number.to_be_bytes());
        }
        Value::Map(entries) => {
            into.push(control(7, entries.len()));
            for (key, value) in entries {
                encode(&Value::Text(key), into);
                encode(value, into);
            }
        }
    }
}
