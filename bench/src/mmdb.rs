//! Writer of an ISP database in MaxMind DB format 2.0.

use std::{collections::HashMap, net::IpAddr};

use anyhow::ensure;
use ipnet::IpNet;
use ringtrue_domain::network::NetworkId;

/// Ranges must be disjoint. All ranges of a network share one record.
pub fn build_database(ranges: &[(NetworkId, IpNet)]) -> anyhow::Result<Vec<u8>> {
    let (mut tree, mut data, mut written) = (Tree::default(), vec![], HashMap::new());
    for (network, range) in ranges {
        let offset = *written.entry(network).or_insert_with(|| {
            let offset = data.len();
            let (country, code) = network.as_str().split_at(3);
            write_map(&mut data, 2);
            write_text(&mut data, "mobile_country_code");
            write_text(&mut data, country);
            write_text(&mut data, "mobile_network_code");
            write_text(&mut data, code);
            offset
        });
        tree.insert(*range, offset);
    }
    let nodes = u32::try_from(tree.0.len())?;
    let mut file = tree.encode()?;
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    write_metadata(&mut file, nodes);
    Ok(file)
}

#[derive(Clone, Copy)]
enum Record {
    Empty,
    Node(usize),
    Data(usize),
}

struct Tree(Vec<[Record; 2]>);

impl Default for Tree {
    fn default() -> Self {
        Tree(vec![[Record::Empty; 2]])
    }
}

impl Tree {
    fn insert(&mut self, range: IpNet, data: usize) {
        // IPv4 addresses use the lowest 32 bits.
        let (bits, length) = match range.network() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 96 + range.prefix_len()),
            IpAddr::V6(address) => (address.to_bits(), range.prefix_len()),
        };
        let side = |depth: u8| usize::from(bits >> (127 - depth) & 1 == 1);
        let mut node = 0;
        for depth in 0..length - 1 {
            node = match self.0[node][side(depth)] {
                Record::Node(next) => next,
                Record::Empty | Record::Data(_) => {
                    self.0.push([Record::Empty; 2]);
                    let next = self.0.len() - 1;
                    self.0[node][side(depth)] = Record::Node(next);
                    next
                }
            };
        }
        self.0[node][side(length - 1)] = Record::Data(data);
    }

    /// Three bytes per record.
    fn encode(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.0.len() * 6);
        for record in self.0.iter().flatten() {
            let number = match record {
                Record::Empty => self.0.len(),
                Record::Node(node) => *node,
                Record::Data(offset) => self.0.len() + 16 + offset,
            };
            let [above, number @ ..] = u32::try_from(number)?.to_be_bytes();
            ensure!(above == 0, "too many ranges for 24-bit records");
            bytes.extend(number);
        }
        Ok(bytes)
    }
}

fn write_metadata(file: &mut Vec<u8>, nodes: u32) {
    write_map(file, 9);
    write_text(file, "node_count");
    file.push(6 << 5 | 4);
    file.extend(nodes.to_be_bytes());
    for (name, value) in [
        ("record_size", 24_u16),
        ("ip_version", 6),
        ("binary_format_major_version", 2),
        ("binary_format_minor_version", 0),
    ] {
        write_text(file, name);
        file.push(5 << 5 | 2);
        file.extend(value.to_be_bytes());
    }
    write_text(file, "database_type");
    write_text(file, "GeoIP2-ISP");
    write_text(file, "build_epoch");
    // Extended types have a second byte.
    file.extend([8, 9 - 7]);
    file.extend(1_700_000_000_u64.to_be_bytes());
    write_text(file, "languages");
    file.extend([0, 11 - 7]);
    write_text(file, "description");
    write_map(file, 0);
}

/// The control byte has the type in the upper three bits and the length below 29 in the others.
fn write_map(into: &mut Vec<u8>, entries: u8) {
    into.push(7 << 5 | entries);
}

fn write_text(into: &mut Vec<u8>, text: &str) {
    into.push(2 << 5 | u8::try_from(text.len()).unwrap_or_default());
    into.extend(text.as_bytes());
}
