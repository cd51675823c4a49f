//! Which networks there are, to read what others write of them.

use std::{collections::BTreeSet, sync::Arc};

use ringtrue_domain::network::NetworkId;

/// The networks that this deployment knows.
///
/// A network code has two digits or three, and `02` and `002` are not the same. Not everybody who writes one cares: in
/// names of hosts it is always filled up to three digits, and programs lose zeros. Where what is written is not known
/// and another form of it is, that form is meant.
#[derive(Clone, Debug, Default)]
pub struct KnownNetworks(Arc<BTreeSet<NetworkId>>);

impl FromIterator<NetworkId> for KnownNetworks {
    fn from_iter<I: IntoIterator<Item = NetworkId>>(ids: I) -> Self {
        KnownNetworks(Arc::new(ids.into_iter().collect()))
    }
}

impl KnownNetworks {
    /// The network of a country code and a network code. `None`: that is not what they are.
    pub fn meant(&self, country: &str, network: &str) -> Option<NetworkId> {
        let (country, network) = (country.trim(), network.trim());
        let are_digits = country.bytes().chain(network.bytes()).all(|byte| byte.is_ascii_digit());
        if names_nobody(country) || !are_digits || country.len() != 3 || !(1..=3).contains(&network.len()) {
            return None;
        }
        let written: NetworkId = format!("{country}{network:0>2}").parse().ok()?;
        if self.0.contains(&written) {
            return Some(written);
        }
        let other = match network.len() {
            3 => network.strip_prefix('0').map(str::to_owned),
            _ => Some(format!("{network:0>3}")),
        };
        let other = other.and_then(|network| format!("{country}{network}").parse().ok());
        Some(other.filter(|other| self.0.contains(other)).unwrap_or(written))
    }

    /// The same, of both codes in a row.
    pub fn meant_by(&self, codes: &str) -> Option<NetworkId> {
        let (country, network) = codes.trim().split_at_checked(3)?;
        self.meant(country, network)
    }
}

/// Whether a country code, or one that begins with it, is the zeros by which some write that there is no network.
pub fn names_nobody(codes: &str) -> bool {
    codes.trim().bytes().take(3).all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_code_is_read_in_any_length() {
        let known: KnownNetworks =
            ["26202", "310012", "310260", "23410"].into_iter().map(|id| id.parse().unwrap()).collect();
        for (country, network, id) in [
            ("262", "02", Some("26202")),
            ("262", "002", Some("26202")),
            ("262", "2", Some("26202")),
            ("310", "012", Some("310012")),
            ("310", "12", Some("310012")),
            ("310", "260", Some("310260")),
            ("234", "010", Some("23410")),
            (" 234 ", " 10", Some("23410")),
            // Known or not, it is a network.
            ("262", "07", Some("26207")),
            ("262", "007", Some("262007")),
            ("262", "7", Some("26207")),
            ("302", "720", Some("302720")),
            ("26", "202", None),
            ("2620", "2", None),
            ("262", "", None),
            ("262", "0002", None),
            ("262", "0x", None),
            ("262", "+1", None),
            ("", "02", None),
            ("000", "00", None),
            ("000", "10", None),
            ("２６２", "02", None),
        ] {
            assert_eq!(known.meant(country, network).as_ref().map(NetworkId::as_str), id, "{country} {network}");
        }
        for (codes, id) in [
            ("26202", Some("26202")),
            ("262002", Some("26202")),
            ("2622", Some("26202")),
            ("310260", Some("310260")),
            ("262", None),
            ("26", None),
            ("é2602", None),
            ("2620002", None),
        ] {
            assert_eq!(known.meant_by(codes).as_ref().map(NetworkId::as_str), id, "{codes}");
        }
    }
}
