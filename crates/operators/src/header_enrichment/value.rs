//! Finds, decodes and parses the value that an operator's gateway adds to a request.

use std::str::FromStr;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use ringtrue_domain::phone::{Country, Msisdn, SmsAddress, SmsAddressKind};

use super::EnrichmentError;

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
            Encoding::Hex => hex::decode(value).ok(),
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
    /// An E.164 number within other text.
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
    /// Returns the digits in place of `{number}`. `None`: the pattern does not match, or matches with different
    /// numbers.
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
            ValueFormat::E164Digits => (Some(text), SmsAddressKind::International, None),
            ValueFormat::National(country) => (Some(text), SmsAddressKind::National, Some(*country)),
            ValueFormat::Pattern(pattern) => (pattern.find_digits(text), SmsAddressKind::International, None),
        };
        // Gateways send plain digits. Unlike in SMS senders, punctuation indicates a wrong format setting.
        let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'+');
        let plain = text.map(str::trim).filter(is_plain);
        plain.and_then(|text| SmsAddress { text, kind, country }.to_msisdn()).ok_or(EnrichmentError::InvalidNumber)
    }
}

/// Whether the text has no digits, or all its digits are equal. Gateways send one repeated digit when they do not know
/// the number.
pub(super) fn is_repeated_digit(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_digit);
    digits.next().is_none_or(|first| digits.all(|digit| digit == first))
}

/// Where requests contain the number: in a header, a cookie, or either. A request must contain exactly one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsisdnLocation {
    /// Name of the header, case-insensitive.
    pub header: Option<String>,
    /// Name of the cookie, case-sensitive.
    pub cookie: Option<String>,
}

impl MsisdnLocation {
    pub fn in_header(name: &str) -> Self {
        MsisdnLocation { header: Some(name.to_owned()), cookie: None }
    }

    pub fn in_cookie(name: &str) -> Self {
        MsisdnLocation { header: None, cookie: Some(name.to_owned()) }
    }

    /// Returns the value, if the request contains exactly one and it is not empty.
    pub(super) fn extract<'a>(&self, headers: &'a [(String, Vec<u8>)]) -> Result<&'a [u8], EnrichmentError> {
        let values_of = |header_name: &str| {
            let named = headers.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(header_name));
            named.map(|(_, value)| value.trim_ascii()).collect::<Vec<&'a [u8]>>()
        };
        let in_headers = self.header.as_deref().map(values_of).unwrap_or_default();
        let cookies = self.cookie.as_deref().map(|_| values_of("cookie")).unwrap_or_default();
        let in_cookies =
            cookies.into_iter().flat_map(|cookies| cookies.split(|byte| *byte == b';')).filter_map(|pair| {
                let at = pair.iter().position(|byte| *byte == b'=')?;
                let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
                let name_matches = self.cookie.as_deref().is_some_and(|expected| expected.as_bytes() == name);
                name_matches
                    .then(|| value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
            });
        let mut values = in_headers.into_iter().chain(in_cookies);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(EnrichmentError::Repeated),
            // Gateways that do not know the number send an empty value.
            (None | Some([]), _) => Err(EnrichmentError::Missing),
            (Some(value), None) => Ok(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_value_is_required() {
        let header = MsisdnLocation::in_header("X-MSISDN");
        let cookie = MsisdnLocation::in_cookie("Forward-msisdn");
        let either = MsisdnLocation { header: header.header.clone(), cookie: cookie.cookie.clone() };
        let absent = Err(EnrichmentError::Missing);
        let repeated = Err(EnrichmentError::Repeated);
        for (location, headers, expected) in [
            (&header, &[("x-msisdn", "447700900123")][..], Ok("447700900123")),
            (&header, &[("x-msisdn", " 447700900123\t")], Ok("447700900123")),
            (&header, &[("host", "x"), ("x-msisdn", "1"), ("accept", "*/*")], Ok("1")),
            (&header, &[], absent),
            (&header, &[("x-msisdn", "")], absent),
            (&header, &[("x-msisdn", "1"), ("x-msisdn", "1")], repeated),
            (&header, &[("x-msisdn", "1"), ("x-msisdn", "")], repeated),
            (&header, &[("x-msisdn-2", "1"), ("cookie", "x-msisdn=1")], absent),
            (&header, &[("x-msisdn", "1"), ("cookie", "Forward-msisdn=2")], Ok("1")),
            (&cookie, &[("cookie", "a=b; Forward-msisdn=1; c=d")], Ok("1")),
            (&cookie, &[("cookie", "a=b"), ("cookie", "Forward-msisdn=\"1=\"")], Ok("1=")),
            (&cookie, &[("cookie", "forward-msisdn=1; Forward-msisdn; Forward-msisdnx=1")], absent),
            (&cookie, &[("cookie", "Forward-msisdn=1;Forward-msisdn=1")], repeated),
            (&cookie, &[("cookie", "Forward-msisdn=1"), ("cookie", "Forward-msisdn=2")], repeated),
            (&cookie, &[("forward-msisdn", "1")], absent),
            (&either, &[("x-msisdn", "1")], Ok("1")),
            (&either, &[("cookie", "Forward-msisdn=1")], Ok("1")),
            (&either, &[("x-msisdn", "1"), ("cookie", "Forward-msisdn=1")], repeated),
        ] {
            let owned: Vec<_> =
                headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
            assert_eq!(location.extract(&owned), expected.map(str::as_bytes), "{location:?} {headers:?}");
        }
    }
}
