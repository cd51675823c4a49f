//! Encoding and format of an enriched value.

use std::str::FromStr;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ringtrue_domain::phone::{AddressKind, Country, Msisdn, SmsAddress};

use super::{EnrichmentError, cipher::decode_hex};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Plain,
    Hex,
    /// With or without padding.
    Base64,
}

impl Encoding {
    pub(super) fn decode(self, value: &[u8]) -> Result<Vec<u8>, EnrichmentError> {
        const OPTIONAL_PADDING: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        match self {
            Encoding::Plain => Some(value.to_vec()),
            Encoding::Hex => decode_hex(value),
            Encoding::Base64 => GeneralPurpose::new(&STANDARD, OPTIONAL_PADDING).decode(value).ok(),
        }
        .ok_or(EnrichmentError::Undecodable)
    }
}

/// Format of the decoded value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    /// Country code and number; a leading `+` or `00` is accepted.
    #[default]
    E164Digits,
    /// National format, with or without the leading zero.
    National(Country),
    /// E.164 number within other text.
    Pattern(NumberPattern),
}

/// Text around a number, such as `msisdn={number};`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberPattern {
    before: String,
    after: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern must contain `{{number}}` once, with text before or after it and no digit next to it")]
pub struct InvalidNumberPattern;

impl FromStr for NumberPattern {
    type Err = InvalidNumberPattern;

    fn from_str(text: &str) -> Result<Self, InvalidNumberPattern> {
        let (before, after) = text.split_once("{number}").ok_or(InvalidNumberPattern)?;
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        let is_unanchored = before.is_empty() && after.is_empty();
        let touches_digit = is_digit(before.as_bytes().last()) || is_digit(after.as_bytes().first());
        if is_unanchored || touches_digit || after.contains("{number}") {
            return Err(InvalidNumberPattern);
        }
        Ok(NumberPattern { before: before.to_owned(), after: after.to_owned() })
    }
}

impl NumberPattern {
    /// Returns the digits at the placeholder. `None`: no match, or several different ones.
    fn find_digits<'a>(&self, text: &'a str) -> Option<&'a str> {
        let starts = text.match_indices(self.before.as_str()).map(|(at, before)| at + before.len());
        let found = starts.filter_map(|start| {
            let preceding = text.as_bytes()[..start].last();
            let starts_inside_digits =
                self.before.is_empty() && preceding.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'+');
            let rest = &text[start..];
            let plus = usize::from(rest.starts_with('+'));
            let end = plus + rest[plus..].bytes().take_while(u8::is_ascii_digit).count();
            let fits = end > plus && rest[end..].starts_with(self.after.as_str()) && !starts_inside_digits;
            fits.then(|| &rest[..end])
        });
        let mut found = found.collect::<Vec<_>>();
        found.dedup();
        if let [digits] = found[..] { Some(digits) } else { None }
    }
}

impl ValueFormat {
    pub(super) fn parse(&self, text: &str) -> Result<Msisdn, EnrichmentError> {
        let (text, kind, country) = match self {
            ValueFormat::E164Digits => (Some(text), AddressKind::International, None),
            ValueFormat::National(country) => (Some(text), AddressKind::National, Some(*country)),
            ValueFormat::Pattern(pattern) => (pattern.find_digits(text), AddressKind::International, None),
        };
        // Gateways send plain digits. Unlike in SMS senders, punctuation indicates a wrong format setting.
        let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'+');
        let plain = text.map(str::trim).filter(is_plain);
        plain.and_then(|text| SmsAddress { text, kind, country }.to_msisdn()).ok_or(EnrichmentError::InvalidNumber)
    }
}

/// Gateways send one repeated digit when they do not know the number.
pub(super) fn is_repeated_digit(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_digit);
    digits.next().is_none_or(|first| digits.all(|digit| digit == first))
}
