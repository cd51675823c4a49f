//! Ranges in a file: on each line a network's id and a range.

use std::{fs, net::IpAddr, path::Path};

use ipnet::IpNet;
use ringtrue_domain::network::{NetworkId, NotANetworkId};

use super::IpRoutingError;

/// Why a line is not a network's id and a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotARow {
    #[error("a line is the id of a network and a range, as in `23410 192.0.2.0/24`")]
    Shape,
    #[error(transparent)]
    Network(#[from] NotANetworkId),
    #[error("\"{0}\" is not a range of addresses")]
    Range(String),
}

pub(super) fn read(path: &Path) -> Result<Vec<(NetworkId, IpNet)>, IpRoutingError> {
    let text =
        fs::read_to_string(path).map_err(|problem| IpRoutingError::Unreadable { path: path.to_owned(), problem })?;
    let rows = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let said = text.split('#').next().unwrap_or_default().trim();
        let row = (!said.is_empty()).then(|| row(said))?;
        Some(row.map_err(|problem| IpRoutingError::Row { path: path.to_owned(), line, problem }))
    });
    rows.collect()
}

fn row(text: &str) -> Result<(NetworkId, IpNet), NotARow> {
    let mut words = text.split_whitespace();
    let (Some(network), Some(range), None) = (words.next(), words.next(), words.next()) else {
        return Err(NotARow::Shape);
    };
    let network = network.parse()?;
    // A single address is a range too.
    let range = range.parse().or_else(|_| range.parse::<IpAddr>().map(IpNet::from));
    let range = range.map_err(|_| NotARow::Range(text.split_whitespace().nth(1).unwrap_or_default().to_owned()))?;
    Ok((network, range))
}
