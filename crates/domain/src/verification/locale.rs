//! The language of the hosted page.

use std::str::FromStr;

use unic_langid::LanguageIdentifier;

/// A language tag (BCP 47) in canonical case, without extensions, such as `pt-BR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locale(String);

impl Locale {
    pub const MAX_BYTES: usize = 35;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::display_as_str::display_as_str!(Locale);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a locale is a language tag (BCP 47) of at most {} characters, such as `de` or `pt-BR`", Locale::MAX_BYTES)]
pub struct InvalidLocale;

impl FromStr for Locale {
    type Err = InvalidLocale;

    /// Drops extensions, such as a calendar, because they do not change the language.
    fn from_str(text: &str) -> Result<Self, InvalidLocale> {
        let is_well_formed = text.len() <= Self::MAX_BYTES
            && text.split('-').all(|subtag| (1..=8).contains(&subtag.len()))
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_well_formed {
            return Err(InvalidLocale);
        }
        let subtags: Vec<_> = text.split('-').take_while(|subtag| subtag.len() > 1).collect();
        let tag: LanguageIdentifier = subtags.join("-").parse().map_err(|_| InvalidLocale)?;
        Ok(Locale(tag.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_canonical_and_have_no_extensions() {
        for (text, tag) in [
            ("de", Some("de")),
            ("PT-br", Some("pt-BR")),
            ("zh-hant-tw", Some("zh-Hant-TW")),
            ("de-DE-u-co-phonebk", Some("de-DE")),
            ("ar-XB", Some("ar-XB")),
            ("", None),
            ("d", None),
            ("en_US", None),
            ("en-", None),
            ("x-private", None),
            ("deutsch-und-sonst-nichts-anderes-mehr", None),
            ("de;q=1", None),
            ("dé", None),
        ] {
            let parsed = text.parse::<Locale>().ok();
            assert_eq!(parsed.as_ref().map(Locale::as_str), tag, "{text}");
        }
    }
}
