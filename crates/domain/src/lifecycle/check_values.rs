//! Values that are stored with a check: the client's reference, hashed numbers and encrypted bytes.

use std::str::FromStr;

use crate::phone::NumberTail;

/// The client's own identifier for a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(String);

impl Reference {
    pub const MAX_CHARS: usize = 50;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("a reference has at most {} characters", Reference::MAX_CHARS)]
    TooLong,
    #[error("a reference must not contain the character U+0000")]
    Nul,
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            Err(InvalidReference::TooLong)
        } else if text.contains('\0') {
            Err(InvalidReference::Nul)
        } else {
            Ok(Reference(text.to_owned()))
        }
    }
}

/// A keyed hash of a phone number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
#[debug("NumberHash(…)")]
pub struct NumberHash(pub [u8; 32]);

/// Bytes encrypted with one of the deployment's keys, such as a phone number or a callback URL.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Sealed({} bytes)", self.0.len())]
pub struct Sealed(pub Vec<u8>);

/// A number in the form in which checks store it. It is erased when its retention period ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredNumber {
    pub hash: NumberHash,
    pub tail: NumberTail,
}

/// A number that a check discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredNumber {
    /// Hash and last digits of the number. `None` after erasure.
    pub number: Option<StoredNumber>,
    /// The encrypted number. `None` after erasure.
    pub sealed: Option<Sealed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_length_is_counted_in_characters() {
        assert!("😀".repeat(50).parse::<Reference>().is_ok());
        assert_eq!("😀".repeat(51).parse::<Reference>(), Err(InvalidReference::TooLong));
        assert_eq!("a\0b".parse::<Reference>(), Err(InvalidReference::Nul));
        assert!("<script>\r\n=HYPERLINK()\u{202e}".parse::<Reference>().is_ok());
    }
}
