//! Resolves MCC and MNC to configured networks.

use std::{collections::BTreeSet, sync::Arc};

use ringtrue_domain::network::NetworkId;

/// The configured networks.
///
/// An MNC has two or three digits, and `02` differs from `002`. Sources are not exact about it: host names always use
/// three digits, and some programs drop leading zeros. If the given form is unknown and another form is known, the
/// known one is used.
#[derive(Clone, Debug, Default)]
pub struct KnownNetworks(Arc<BTreeSet<NetworkId>>);

impl FromIterator<NetworkId> for KnownNetworks {
    fn from_iter<I: IntoIterator<Item = NetworkId>>(ids: I) -> Self {
        KnownNetworks(Arc::new(ids.into_iter().collect()))
    }
}

impl KnownNetworks {
    /// `None`: not a valid MCC and MNC.
    pub fn resolve_plmn(&self, mcc: &str, mnc: &str) -> Option<NetworkId> {
        let (mcc, mnc) = (mcc.trim(), mnc.trim());
        let are_digits = mcc.bytes().chain(mnc.bytes()).all(|byte| byte.is_ascii_digit());
        if is_zero_plmn(mcc) || !are_digits || mcc.len() != 3 || !(1..=3).contains(&mnc.len()) {
            return None;
        }
        let given: NetworkId = format!("{mcc}{mnc:0>2}").parse().ok()?;
        if self.0.contains(&given) {
            return Some(given);
        }
        let alternative = match mnc.len() {
            3 => mnc.strip_prefix('0').map(str::to_owned),
            _ => Some(format!("{mnc:0>3}")),
        };
        let alternative = alternative.and_then(|mnc| format!("{mcc}{mnc}").parse().ok());
        Some(alternative.filter(|alternative| self.0.contains(alternative)).unwrap_or(given))
    }

    /// Resolves MCC and MNC in one string.
    pub fn resolve_plmn_code(&self, plmn: &str) -> Option<NetworkId> {
        let (mcc, mnc) = plmn.trim().split_at_checked(3)?;
        self.resolve_plmn(mcc, mnc)
    }
}

/// Whether the MCC is zero, which some sources send for "no network".
pub fn is_zero_plmn(plmn: &str) -> bool {
    plmn.trim().bytes().take(3).all(|digit| digit == b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnc_of_any_length_resolves() {
        let known: KnownNetworks =
            ["26202", "310012", "310260", "23410"].into_iter().map(|id| id.parse().unwrap()).collect();
        for (mcc, mnc, id) in [
            ("262", "02", Some("26202")),
            ("262", "002", Some("26202")),
            ("262", "2", Some("26202")),
            ("310", "012", Some("310012")),
            ("310", "12", Some("310012")),
            ("310", "260", Some("310260")),
            ("234", "010", Some("23410")),
            (" 234 ", " 10", Some("23410")),
            // Unknown networks are returned as given.
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
            assert_eq!(known.resolve_plmn(mcc, mnc).as_ref().map(NetworkId::as_str), id, "{mcc} {mnc}");
        }
        for (plmn, id) in [
            ("26202", Some("26202")),
            ("262002", Some("26202")),
            ("2622", Some("26202")),
            ("310260", Some("310260")),
            ("262", None),
            ("26", None),
            ("é2602", None),
            ("2620002", None),
        ] {
            assert_eq!(known.resolve_plmn_code(plmn).as_ref().map(NetworkId::as_str), id, "{plmn}");
        }
    }
}
