//! Names that people give to workspaces and projects.

use std::{fmt, str::FromStr};

/// 1 to 100 characters, not all blank, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    pub const MAX_CHARS: usize = 100;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("a name must not be empty or blank")]
    Blank,
    #[error("a name has at most 100 characters")]
    TooLong,
    #[error("a name must not contain control characters")]
    ControlCharacter,
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.trim().is_empty() {
            Err(InvalidName::Blank)
        } else if text.chars().count() > Self::MAX_CHARS {
            Err(InvalidName::TooLong)
        } else if text.chars().any(char::is_control) {
            Err(InvalidName::ControlCharacter)
        } else {
            Ok(Name(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "Bank of Example", "Ünïcode 📱", &"é".repeat(100)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", InvalidName::Blank),
            (" \t", InvalidName::Blank),
            (&*"é".repeat(101), InvalidName::TooLong),
            ("a\0b", InvalidName::ControlCharacter),
            ("line\nbreak", InvalidName::ControlCharacter),
        ] {
            assert_eq!(bad.parse::<Name>(), Err(why), "{bad:?}");
        }
    }
}
