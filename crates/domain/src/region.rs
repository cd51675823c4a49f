//! Regions in which data resides.

use strum::{Display, EnumString, IntoStaticStr};

use crate::parse_error::default_error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidRegion, parse_err_fn = default_error)]
pub enum Region {
    Eu,
    Us,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown region; use `eu` or `us`")]
pub struct InvalidRegion;

impl Region {
    /// Returns the region that is the first label of a host name. `None`: the label is not a region.
    pub fn from_host(host: &str) -> Option<Region> {
        let (first_label, rest) = host.split_once('.')?;
        if rest.is_empty() {
            return None;
        }
        first_label.to_ascii_lowercase().parse().ok()
    }

    /// Fails if any workspace resides in another region than this one.
    pub fn check_residency(self, residences: impl IntoIterator<Item = Region>) -> Result<(), ResidencyViolation> {
        let elsewhere: Vec<Region> = residences.into_iter().filter(|residence| *residence != self).collect();
        match elsewhere.first() {
            None => Ok(()),
            Some(there) => Err(ResidencyViolation { here: self, there: *there, workspaces: elsewhere.len() }),
        }
    }
}

/// The database contains workspaces that reside in another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this deployment is in the region `{here}`, but its database holds workspaces that reside in `{there}`: {workspaces}"
)]
pub struct ResidencyViolation {
    pub here: Region,
    pub there: Region,
    /// Number of workspaces that reside in another region.
    pub workspaces: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_host_label_selects_the_region() {
        for (host, region) in [
            ("eu.api.example.com", Some(Region::Eu)),
            ("US.api.example.com", Some(Region::Us)),
            ("europe.example.com", None),
            ("eu", None),
            ("us.", None),
            ("localhost", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(Region::from_host(host), region, "{host}");
        }
    }

    #[test]
    fn workspaces_must_reside_in_the_deployment_region() {
        use Region::{Eu, Us};
        for (here, residences, elsewhere) in [
            (Eu, &[][..], None),
            (Eu, &[Eu, Eu], None),
            (Us, &[Us], None),
            (Us, &[Eu], Some((Eu, 1))),
            (Eu, &[Eu, Us, Us], Some((Us, 2))),
        ] {
            let expected = elsewhere.map(|(there, workspaces)| ResidencyViolation { here, there, workspaces });
            assert_eq!(here.check_residency(residences.iter().copied()).err(), expected, "{here}, {residences:?}");
        }
    }
}
