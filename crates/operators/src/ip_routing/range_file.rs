//! Range files: each line holds a network id and an address range.

use std::{fs, net::IpAddr, path::Path};

use ipnet::IpNet;
use ringtrue_domain::network::{InvalidNetworkId, NetworkId};

use super::IpRoutingError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeLineError {
    #[error("expected a network id and a range, such as `23410 192.0.2.0/24`")]
    Format,
    #[error(transparent)]
    Network(#[from] InvalidNetworkId),
    #[error("invalid address range \"{0}\"")]
    Range(String),
}

pub(super) fn read_range_file(path: &Path) -> Result<Vec<(NetworkId, IpNet)>, IpRoutingError> {
    let text =
        fs::read_to_string(path).map_err(|problem| IpRoutingError::Unreadable { path: path.to_owned(), problem })?;
    let ranges = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let content = text.split('#').next().unwrap_or_default().trim();
        let parsed = (!content.is_empty()).then(|| parse_line(content))?;
        Some(parsed.map_err(|problem| IpRoutingError::Line { path: path.to_owned(), line, problem }))
    });
    ranges.collect()
}

fn parse_line(text: &str) -> Result<(NetworkId, IpNet), RangeLineError> {
    let mut words = text.split_whitespace();
    let (Some(network), Some(range), None) = (words.next(), words.next(), words.next()) else {
        return Err(RangeLineError::Format);
    };
    let network = network.parse()?;
    // A single address is a valid range.
    let range = range.parse().or_else(|_| range.parse::<IpAddr>().map(IpNet::from));
    let range =
        range.map_err(|_| RangeLineError::Range(text.split_whitespace().nth(1).unwrap_or_default().to_owned()))?;
    Ok((network, range))
}
