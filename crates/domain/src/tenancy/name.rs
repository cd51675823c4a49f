//! Display names of workspaces and projects.

use std::str::FromStr;

/// 1 to 100 characters, not all blank, without control characters (C0, C1, DEL) and bidirectional formatting
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    pub const MAX_CHARS: usize = 100;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::display_as_str::display_as_str!(Name);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("a name must not be empty or blank")]
    Blank,
    #[error("a name has at most 100 characters")]
    TooLong,
    #[error("a name must not contain control characters")]
    ControlCharacter,
    #[error("a name must not contain characters that change the direction of text, such as U+202E")]
    BidiControl,
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
        } else if text.chars().any(is_bidi_control) {
            Err(InvalidName::BidiControl)
        } else {
            Ok(Name(text.to_owned()))
        }
    }
}

/// The Unicode property `Bidi_Control`: such characters can make a name look like another one.
fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected() {
        for good in ["a", "Bank of Example", "Ünïcode 📱", "متجر", "חנות", &"é".repeat(100)] {
            assert!(good.parse::<Name>().is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", InvalidName::Blank),
            (" \t", InvalidName::Blank),
            (&*"é".repeat(101), InvalidName::TooLong),
            ("a\0b", InvalidName::ControlCharacter),
            ("line\nbreak", InvalidName::ControlCharacter),
            ("del\u{7f}", InvalidName::ControlCharacter),
            ("c1\u{85}", InvalidName::ControlCharacter),
            ("c1\u{9b}31m", InvalidName::ControlCharacter),
            ("Bank\u{202E}knaB", InvalidName::BidiControl),
            ("\u{200F}Bank", InvalidName::BidiControl),
            ("Bank\u{2066}", InvalidName::BidiControl),
            ("\u{061C}Bank", InvalidName::BidiControl),
        ] {
            assert_eq!(bad.parse::<Name>(), Err(why), "{bad:?}");
        }
    }
}
