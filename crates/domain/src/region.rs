//! Data residency regions.

crate::named_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Region {
        Eu = "eu",
        Us = "us",
    }

    #[error("unknown region; use `eu` or `us`")]
    pub struct InvalidRegion;
}

impl Region {
    /// The region in the first label of a host name.
    pub fn from_host(host: &str) -> Option<Region> {
        let (first_label, rest) = host.split_once('.')?;
        if rest.is_empty() {
            return None;
        }
        Region::ALL.into_iter().find(|region| first_label.eq_ignore_ascii_case(region.as_str()))
    }

    /// Fails if a workspace resides in another region than this one.
    pub fn check_residency(self, residences: impl IntoIterator<Item = Region>) -> Result<(), ResidencyViolation> {
        let elsewhere: Vec<Region> = residences.into_iter().filter(|residence| *residence != self).collect();
        match elsewhere.first() {
            None => Ok(()),
            Some(there) => Err(ResidencyViolation { here: self, there: *there, workspaces: elsewhere.len() }),
        }
    }
}

/// A database contains workspaces of another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this deployment is in the region `{here}`, but its database holds workspaces that reside in `{there}`: {workspaces}"
)]
pub struct ResidencyViolation {
    pub here: Region,
    pub there: Region,
    /// Number of these workspaces.
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
