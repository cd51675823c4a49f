//! Where a deployment and its data live.

use std::{fmt, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    Eu,
    Us,
}

impl Region {
    pub const ALL: [Region; 2] = [Region::Eu, Region::Us];

    pub fn as_str(self) -> &'static str {
        match self {
            Region::Eu => "eu",
            Region::Us => "us",
        }
    }

    /// The region that a host name speaks for: its first label, when that is a region.
    pub fn of_host(host: &str) -> Option<Region> {
        let (first_label, rest) = host.split_once('.')?;
        if rest.is_empty() {
            return None;
        }
        Region::ALL.into_iter().find(|region| first_label.eq_ignore_ascii_case(region.as_str()))
    }

    /// Sees that a deployment in this region holds the data of no workspace that resides elsewhere.
    pub fn holds_only_its_own(self, residences: impl IntoIterator<Item = Region>) -> Result<(), Misplaced> {
        let elsewhere: Vec<Region> = residences.into_iter().filter(|residence| *residence != self).collect();
        match elsewhere.first() {
            None => Ok(()),
            Some(there) => Err(Misplaced { here: self, there: *there, workspaces: elsewhere.len() }),
        }
    }
}

/// Data that lies in another region than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this deployment is in the region `{here}`, but its database holds workspaces that reside in `{there}`: {workspaces}"
)]
pub struct Misplaced {
    pub here: Region,
    pub there: Region,
    /// How many.
    pub workspaces: usize,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a region: `eu` and `us` are")]
pub struct NotARegion;

impl FromStr for Region {
    type Err = NotARegion;

    fn from_str(text: &str) -> Result<Self, NotARegion> {
        Region::ALL.into_iter().find(|region| region.as_str() == text).ok_or(NotARegion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_names_a_region_by_its_first_label() {
        for (host, region) in [
            ("eu.api.example.com", Some(Region::Eu)),
            ("US.api.example.com", Some(Region::Us)),
            ("europe.example.com", None),
            ("eu", None),
            ("us.", None),
            ("localhost", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(Region::of_host(host), region, "{host}");
        }
    }

    #[test]
    fn a_deployment_holds_what_resides_in_its_region() {
        use Region::{Eu, Us};
        for (here, residences, elsewhere) in [
            (Eu, &[][..], None),
            (Eu, &[Eu, Eu], None),
            (Us, &[Us], None),
            (Us, &[Eu], Some((Eu, 1))),
            (Eu, &[Eu, Us, Us], Some((Us, 2))),
        ] {
            let expected = elsewhere.map(|(there, workspaces)| Misplaced { here, there, workspaces });
            assert_eq!(here.holds_only_its_own(residences.iter().copied()).err(), expected, "{here}, {residences:?}");
        }
    }
}
