//! Identifiers: UUIDs of version 7, so that ids sort by time.

use jiff::Timestamp;
use uuid::{Builder, Uuid};

/// A new version 7 identifier from an instant and randomness, both given by the caller.
pub fn time_ordered(at: Timestamp, randomness: [u8; 10]) -> Uuid {
    let millis = u64::try_from(at.as_millisecond()).unwrap_or(0);
    Builder::from_unix_timestamp_millis(millis, &randomness).into_uuid()
}

/// Makes a distinct type of an identifier, so that one kind cannot be passed for another.
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
            type Err = crate::id::NotAnId;

            /// Takes the hyphenated form only, in either case.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if text.len() != 36 {
                    return Err(crate::id::NotAnId);
                }
                uuid::Uuid::try_parse(text).map($name).map_err(|_| crate::id::NotAnId)
            }
        }
    };
}
pub(crate) use identifier;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID")]
pub struct NotAnId;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ids_sort_after_earlier_ones() {
        let early = time_ordered(Timestamp::from_millisecond(1_000).unwrap(), [255; 10]);
        let late = time_ordered(Timestamp::from_millisecond(1_001).unwrap(), [0; 10]);
        assert!(early < late);
        assert_eq!(late.get_version_num(), 7);
    }
}
