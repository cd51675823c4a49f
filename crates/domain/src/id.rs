//! Identifiers, which are UUIDs of version 7 and therefore sort by time.

use jiff::Timestamp;
use uuid::{Builder, Uuid};

/// Builds a UUID of version 7.
pub fn uuid_v7(at: Timestamp, randomness: [u8; 10]) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &randomness).into_uuid()
}

/// Defines an identifier type that is distinct from all others.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub uuid::Uuid);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::id::InvalidId;

            /// Accepts only the hyphenated form, in upper or lower case.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if text.len() != 36 {
                    return Err(crate::id::InvalidId);
                }
                uuid::Uuid::try_parse(text).map($name).map_err(|_| crate::id::InvalidId)
            }
        }
    };
}
pub(crate) use identifier;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID")]
pub struct InvalidId;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let early = uuid_v7(Timestamp::from_millisecond(1_000).unwrap(), [255; 10]);
        let late = uuid_v7(Timestamp::from_millisecond(1_001).unwrap(), [0; 10]);
        assert!(early < late);
        assert_eq!(late.get_version_num(), 7);
    }
}
