//! How a number is written in a header.

use std::str::FromStr;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ringtrue_domain::phone::{Address, AddressKind, Country, Msisdn};

use super::{Refusal, cipher::hex};

/// What the bytes of a value are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Plain,
    Hex,
    /// With or without `=` at the end.
    Base64,
}

impl Encoding {
    pub(super) fn decode(self, value: &[u8]) -> Result<Vec<u8>, Refusal> {
        const FORGIVING: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        match self {
            Encoding::Plain => Some(value.to_vec()),
            Encoding::Hex => hex(value),
            Encoding::Base64 => GeneralPurpose::new(&STANDARD, FORGIVING).decode(value).ok(),
        }
        .ok_or(Refusal::Undecodable)
    }
}

/// What a value says, once it can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ValueFormat {
    /// The country code and the number; a `+` or `00` before it is fine.
    #[default]
    E164Digits,
    /// As it is dialled within the country, with or without the leading zero.
    National(Country),
    /// In E.164, among other things.
    Pattern(Pattern),
}

/// What stands around a number, as in `msisdn={number};`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    before: String,
    after: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a pattern is what stands before a number, `{{number}}`, and what stands after it; not a digit next to it")]
pub struct BadPattern;

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let (before, after) = text.split_once("{number}").ok_or(BadPattern)?;
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        let is_vague = before.is_empty() && after.is_empty();
        let touches = is_digit(before.as_bytes().last()) || is_digit(after.as_bytes().first());
        if is_vague || touches || after.contains("{number}") {
            return Err(BadPattern);
        }
        Ok(Pattern { before: before.to_owned(), after: after.to_owned() })
    }
}

impl Pattern {
    /// The digits that stand in their place. Not if that could be said of two numbers.
    fn digits<'a>(&self, text: &'a str) -> Option<&'a str> {
        let starts = text.match_indices(self.before.as_str()).map(|(at, before)| at + before.len());
        let found = starts.filter_map(|start| {
            let preceding = text.as_bytes()[..start].last();
            let is_cut = self.before.is_empty() && preceding.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'+');
            let rest = &text[start..];
            let plus = usize::from(rest.starts_with('+'));
            let end = plus + rest[plus..].bytes().take_while(u8::is_ascii_digit).count();
            let fits = end > plus && rest[end..].starts_with(self.after.as_str()) && !is_cut;
            fits.then(|| &rest[..end])
        });
        let mut found = found.collect::<Vec<_>>();
        found.dedup();
        if let [digits] = found[..] { Some(digits) } else { None }
    }
}

impl ValueFormat {
    pub(super) fn read(&self, text: &str) -> Result<Msisdn, Refusal> {
        let (text, kind, country) = match self {
            ValueFormat::E164Digits => (Some(text), AddressKind::International, None),
            ValueFormat::National(country) => (Some(text), AddressKind::National, Some(*country)),
            ValueFormat::Pattern(pattern) => (pattern.digits(text), AddressKind::International, None),
        };
        // A gateway writes digits. Punctuation, which is dropped from the senders of SMS, means another setting here.
        let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'+');
        let plain = text.map(str::trim).filter(is_plain);
        plain.and_then(|text| Address { text, kind, country }.number()).ok_or(Refusal::NotANumber)
    }
}

/// What gateways write when they do not know the number: the same digit again and again.
pub(super) fn is_stand_in(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_digit);
    digits.next().is_none_or(|first| digits.all(|digit| digit == first))
}
