//! Display names of workspaces, projects, brands and credentials.

use std::str::FromStr;

use icu_normalizer::ComposingNormalizer;
use icu_properties::{CodePointSetData, props::DefaultIgnorableCodePoint};

/// A name of 1 to 100 characters. Parsing removes surrounding spaces, normalises to Unicode's form C, and rejects
/// control, direction-changing and invisible characters. Two names therefore never differ only in such invisible ways.
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
    #[error("a name must not contain control characters, such as U+{:04X}", u32::from(*.0))]
    ControlCharacter(char),
    #[error(
        "a name must not contain characters that change the direction of text, such as U+{:04X}",
        u32::from(*.0)
    )]
    BidiControl(char),
    #[error("a name must not contain invisible characters, such as U+{:04X}", u32::from(*.0))]
    Invisible(char),
}

impl FromStr for Name {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.trim().is_empty() {
            return Err(InvalidName::Blank);
        }
        let trimmed = text.trim_matches(|symbol: char| symbol.is_whitespace() && !symbol.is_control());
        trimmed.chars().try_for_each(check_character)?;
        let name = ComposingNormalizer::new_nfc().normalize(trimmed);
        if name.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(InvalidName::TooLong);
        }
        Ok(Name(name.into_owned()))
    }
}

fn check_character(symbol: char) -> Result<(), InvalidName> {
    if symbol.is_control() {
        Err(InvalidName::ControlCharacter(symbol))
    } else if is_bidi_control(symbol) {
        Err(InvalidName::BidiControl(symbol))
    } else if is_invisible(symbol) {
        Err(InvalidName::Invisible(symbol))
    } else {
        Ok(())
    }
}

/// Whether a character has the Unicode property `Bidi_Control`. Such characters can make a name look like another one.
fn is_bidi_control(symbol: char) -> bool {
    matches!(symbol, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is invisible: it has the Unicode property `Default_Ignorable_Code_Point`, or is a line or
/// paragraph separator or the empty Braille pattern.
fn is_invisible(symbol: char) -> bool {
    matches!(symbol, '\u{2028}' | '\u{2029}' | '\u{2800}')
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_the_same_are_equal() {
        for (text, name) in [
            ("a", "a"),
            ("Bank of Example", "Bank of Example"),
            ("Ünïcode 📱", "Ünïcode 📱"),
            ("متجر", "متجر"),
            ("חנות", "חנות"),
            ("Caf\u{e9}", "Caf\u{e9}"),
            ("Cafe\u{301}", "Caf\u{e9}"),
            ("A\u{30a}ngstrom", "\u{c5}ngstrom"),
            ("\u{212b}ngstrom", "\u{c5}ngstrom"),
            (" Shop\u{a0}", "Shop"),
            ("\u{3000}Shop ", "Shop"),
            (&*"e\u{301}".repeat(100), &*"\u{e9}".repeat(100)),
        ] {
            assert_eq!(text.parse::<Name>().as_ref().map(Name::as_str), Ok(name), "{text:?}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for (bad, why) in [
            ("", InvalidName::Blank),
            (" \t", InvalidName::Blank),
            (&*"é".repeat(101), InvalidName::TooLong),
            (&*"e\u{301}".repeat(101), InvalidName::TooLong),
            ("a\0b", InvalidName::ControlCharacter('\0')),
            ("line\nbreak", InvalidName::ControlCharacter('\n')),
            ("Shop\n", InvalidName::ControlCharacter('\n')),
            ("del\u{7f}", InvalidName::ControlCharacter('\u{7f}')),
            ("c1\u{85}", InvalidName::ControlCharacter('\u{85}')),
            ("c1\u{9b}31m", InvalidName::ControlCharacter('\u{9b}')),
            ("Bank\u{202E}knaB", InvalidName::BidiControl('\u{202E}')),
            ("\u{200F}Bank", InvalidName::BidiControl('\u{200F}')),
            ("Bank\u{2066}", InvalidName::BidiControl('\u{2066}')),
            ("\u{061C}Bank", InvalidName::BidiControl('\u{061C}')),
            ("Shop\u{200b}", InvalidName::Invisible('\u{200b}')),
            ("\u{200b}", InvalidName::Invisible('\u{200b}')),
            ("Sh\u{ad}op", InvalidName::Invisible('\u{ad}')),
            ("Sh\u{200d}op", InvalidName::Invisible('\u{200d}')),
            ("\u{feff}Shop", InvalidName::Invisible('\u{feff}')),
            ("Shop\u{3164}", InvalidName::Invisible('\u{3164}')),
            ("Shop\u{e0041}", InvalidName::Invisible('\u{e0041}')),
            ("Shop\u{fe0f}", InvalidName::Invisible('\u{fe0f}')),
            ("Sh\u{2028}op", InvalidName::Invisible('\u{2028}')),
            ("Shop\u{2800}", InvalidName::Invisible('\u{2800}')),
        ] {
            assert_eq!(bad.parse::<Name>(), Err(why), "{bad:?}");
        }
        let text = InvalidName::Invisible('\u{200b}').to_string();
        assert_eq!(text, "a name must not contain invisible characters, such as U+200B");
    }
}
