//! Writes a database of providers, by the public description of MaxMind's format, version 2.0.

use std::{collections::HashMap, net::IpAddr};

use anyhow::ensure;
use ipnet::IpNet;
use ringtrue_domain::network::NetworkId;

/// Ranges do not lie in each other. A network's record is written once, and all its ranges refer to it.
pub fn database(ranges: &[(NetworkId, IpNet)]) -> anyhow::Result<Vec<u8>> {
    let (mut tree, mut data, mut written) = (Tree::default(), vec![], HashMap::new());
    for (network, range) in ranges {
        let offset = *written.entry(network).or_insert_with(|| {
            let offset = data.len();
            let (country, code) = network.as_str().split_at(3);
            map(&mut data, 2);
            text(&mut data, "mobile_country_code");
            text(&mut data, country);
            text(&mut data, "mobile_network_code");
            text(&mut data, code);
            offset
        });
        tree.insert(*range, offset);
    }
    let nodes = u32::try_from(tree.0.len())?;
    let mut file = tree.encode()?;
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    describe(&mut file, nodes);
    Ok(file)
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
        // An IPv4 address stands in the lowest bits.
        let (bits, length) = match range.network() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 96 + range.prefix_len()),
            IpAddr::V6(address) => (address.to_bits(), range.prefix_len()),
        };
        let side = |depth: u8| usize::from(bits >> (127 - depth) & 1 == 1);
        let mut node = 0;
        for depth in 0..length - 1 {
            node = match self.0[node][side(depth)] {
                Record::Node(next) => next,
                Record::Nothing | Record::Data(_) => {
                    self.0.push([Record::Nothing; 2]);
                    let next = self.0.len() - 1;
                    self.0[node][side(depth)] = Record::Node(next);
                    next
                }
            };
        }
        self.0[node][side(length - 1)] = Record::Data(data);
    }

    /// Three bytes for each record.
    fn encode(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.0.len() * 6);
        for record in self.0.iter().flatten() {
            let number = match record {
                Record::Nothing => self.0.len(),
                Record::Node(node) => *node,
                Record::Data(offset) => self.0.len() + 16 + offset,
            };
            let [above, number @ ..] = u32::try_from(number)?.to_be_bytes();
            ensure!(above == 0, "too many ranges for records of this size");
            bytes.extend(number);
        }
        Ok(bytes)
    }
}

fn describe(file: &mut Vec<u8>, nodes: u32) {
    map(file, 9);
    text(file, "node_count");
    file.push(6 << 5 | 4);
    file.extend(nodes.to_be_bytes());
    for (name, value) in [
        ("record_size", 24_u16),
        ("ip_version", 6),
        ("binary_format_major_version", 2),
        ("binary_format_minor_version", 0),
    ] {
        text(file, name);
        file.push(5 << 5 | 2);
        file.extend(value.to_be_bytes());
    }
    text(file, "database_type");
    text(file, "GeoIP2-ISP");
    text(file, "build_epoch");
    // A type past the seventh has a byte of its own.
    file.extend([8, 9 - 7]);
    file.extend(1_700_000_000_u64.to_be_bytes());
    text(file, "languages");
    file.extend([0, 11 - 7]);
    text(file, "description");
    map(file, 0);
}

/// A control byte has the type in its first three bits and the length in the others. All is shorter than 29 here.
fn map(into: &mut Vec<u8>, entries: u8) {
    into.push(7 << 5 | entries);
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.push(2 << 5 | u8::try_from(text.len()).unwrap_or_default());
    into.extend(text.as_bytes());
}
