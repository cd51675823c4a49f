//! NAPTR records (RFC 3403), as ENUM providers write them, and the choice of the one that determines the network.
//!
//! A record maps the number to a URI by a regular expression. Some servers send backslashes doubled, as in zone files,
//! and escape semicolons. Neither numbers nor their URIs contain backslashes, so any run of them counts as one.

use hickory_resolver::proto::op::ResponseCode;
use regex::{Captures, RegexBuilder};
use ringtrue_domain::{network::NetworkId, phone::Msisdn};
use ringtrue_engine::ports::lookups::{LookupError, LookupResult};

use super::{EnumAnswer, RecordRules};
use crate::number_lookup::is_zero_plmn;

/// Limits for the regular expressions in records, which the DNS server chooses. A typical expression compiles to a few
/// kilobytes.
const REGEX_SIZE_LIMIT: usize = 256 * 1_024;
const REGEX_NEST_LIMIT: u32 = 16;

/// ENUM services whose URIs identify the network.
const SERVICES: [&str; 5] = ["pstn:tel", "pstn:sip", "pstn", "sip", "tel"];

/// A NAPTR record. `Debug` omits the expression, which may contain the number.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("NaptrRecord({order} {preference}, {})", String::from_utf8_lossy(service))]
pub struct NaptrRecord {
    pub order: u16,
    pub preference: u16,
    flags: Box<[u8]>,
    service: Box<[u8]>,
    expression: Box<[u8]>,
}

/// Error for a record whose regular expression or replacement cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRecord;

impl NaptrRecord {
    /// Parses RDATA. The replacement field, unused in ENUM, is ignored.
    pub fn parse(mut data: &[u8]) -> Option<Self> {
        let number = |data: &mut &[u8]| Some(u16::from_be_bytes([*data.split_off_first()?, *data.split_off_first()?]));
        let text = |data: &mut &[u8]| {
            let length = *data.split_off_first()?;
            data.split_off(..usize::from(length)).map(Box::from)
        };
        Some(NaptrRecord {
            order: number(&mut data)?,
            preference: number(&mut data)?,
            flags: text(&mut data)?,
            service: text(&mut data)?,
            expression: text(&mut data)?,
        })
    }

    /// Whether the record yields a URI (flag `u`) of an ENUM service whose URIs identify the number's network.
    pub fn is_number_service(&self) -> bool {
        let service = String::from_utf8_lossy(&self.service).to_ascii_lowercase();
        let mut parts = service.split('+').map(str::trim);
        self.flags.trim_ascii().eq_ignore_ascii_case(b"u")
            && parts.clone().any(|part| part == "e2u")
            && parts.any(|part| SERVICES.contains(&part))
    }

    /// Returns the URI for a number. `None`: the record's expression does not match the number.
    pub fn uri_for_number(&self, number: &Msisdn) -> Result<Option<String>, InvalidRecord> {
        let text = str::from_utf8(&self.expression).map_err(|_| InvalidRecord)?.trim();
        let delimiter = text.chars().next().ok_or(InvalidRecord)?;
        let is_valid_delimiter = !delimiter.is_ascii_alphanumeric() && delimiter != '\\';
        let mut parts = split_unescaped(&text[delimiter.len_utf8()..], delimiter).into_iter();
        let (Some(pattern), Some(replacement), Some(flags), None, true) =
            (parts.next(), parts.next(), parts.next(), parts.next(), is_valid_delimiter)
        else {
            return Err(InvalidRecord);
        };
        let expression = RegexBuilder::new(&with_single_backslashes(pattern))
            .case_insensitive(flags.eq_ignore_ascii_case("i"))
            .size_limit(REGEX_SIZE_LIMIT)
            .dfa_size_limit(REGEX_SIZE_LIMIT)
            .nest_limit(REGEX_NEST_LIMIT)
            .build()
            .map_err(|_| InvalidRecord)?;
        expression.captures(number.as_str()).map(|found| expand_replacement(replacement, &found)).transpose()
    }
}

/// Splits a text at the delimiters that no backslash escapes.
fn split_unescaped(text: &str, delimiter: char) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (vec![], 0, false);
    for (at, character) in text.char_indices() {
        if character == delimiter && !escaped {
            parts.push(&text[start..at]);
            start = at + character.len_utf8();
        }
        escaped = character == '\\';
    }
    parts.push(&text[start..]);
    parts
}

fn with_single_backslashes(pattern: &str) -> String {
    let mut single = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        if character != '\\' || !single.ends_with('\\') {
            single.push(character);
        }
    }
    single
}

fn expand_replacement(replacement: &str, found: &Captures<'_>) -> Result<String, InvalidRecord> {
    let mut uri = String::with_capacity(replacement.len());
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            uri.push(character);
            continue;
        }
        match characters.find(|character| *character != '\\') {
            Some('0') => return Err(InvalidRecord),
            Some(digit) if digit.is_ascii_digit() => {
                let group = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).ok_or(InvalidRecord)?;
                uri.push_str(found.get(group).map_or("", |group| group.as_str()));
            }
            Some(escaped) => uri.push(escaped),
            None => {}
        }
    }
    Ok(uri)
}

/// How to proceed after a server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnumDecision {
    /// The result of this lookup source. Other servers would return the same.
    Final(Result<LookupResult, LookupError>),
    /// This server failed; another one may not.
    TryNextServer(LookupError),
    /// This server does not support EDNS.
    RetryWithoutEdns,
}

/// Interpretation of one record.
enum RecordMeaning {
    Network(NetworkId),
    /// The operator code is not in the configured tables: the number is ported to an unknown network.
    OtherNetwork,
    NotPorted,
    UnknownSubscriber,
    Refused,
    Nothing,
    /// The expression does not match the number.
    NotApplicable,
    Unreadable,
}

impl RecordRules {
    pub fn evaluate(&self, answer: &EnumAnswer, number: &Msisdn) -> EnumDecision {
        match answer.code {
            ResponseCode::NoError => EnumDecision::Final(self.evaluate_records(answer, number)),
            ResponseCode::NXDomain => EnumDecision::Final(Ok(self.unknown_number_result())),
            // REFUSED with records is a refusal of this number or account, not a server failure.
            ResponseCode::Refused if !answer.records.is_empty() => EnumDecision::Final(Err(LookupError::Refused)),
            ResponseCode::FormErr | ResponseCode::NotImp => EnumDecision::RetryWithoutEdns,
            _ => EnumDecision::TryNextServer(LookupError::Refused),
        }
    }

    /// Evaluates the records by order and preference. The first record that identifies a network wins. Without one, an
    /// operator code that is not in the configured tables means another network. Otherwise a refusal is an error, and
    /// so are unreadable records if no record is readable.
    fn evaluate_records(&self, answer: &EnumAnswer, number: &Msisdn) -> Result<LookupResult, LookupError> {
        let mut records: Vec<&NaptrRecord> =
            answer.records.iter().filter(|record| record.is_number_service()).collect();
        records.sort_by_key(|record| (record.order, record.preference));
        let (mut has_other_network, mut has_refusal, mut has_unknown_subscriber, mut has_readable_record) =
            (false, false, false, false);
        let mut has_unreadable_records = answer.has_unreadable_records;
        for record in records {
            match self.interpret(record, number) {
                RecordMeaning::Network(network) => return Ok(LookupResult::Network(network)),
                RecordMeaning::NotPorted => {
                    if let (Some(network), false) = (&self.not_ported, has_other_network) {
                        return Ok(LookupResult::Network(network.clone()));
                    }
                }
                RecordMeaning::OtherNetwork => has_other_network = true,
                RecordMeaning::Refused => has_refusal = true,
                RecordMeaning::UnknownSubscriber => has_unknown_subscriber = true,
                RecordMeaning::Nothing => {}
                RecordMeaning::NotApplicable => continue,
                RecordMeaning::Unreadable => {
                    has_unreadable_records = true;
                    continue;
                }
            }
            has_readable_record = true;
        }
        if has_other_network {
            return Ok(LookupResult::OtherNetwork);
        }
        match (has_refusal, has_unknown_subscriber) {
            (true, _) => Err(LookupError::Refused),
            (false, true) => Ok(self.unknown_number_result()),
            (false, false) if has_unreadable_records && !has_readable_record => Err(LookupError::InvalidResponse),
            (false, false) => Ok(LookupResult::NoData),
        }
    }

    fn interpret(&self, record: &NaptrRecord, number: &Msisdn) -> RecordMeaning {
        let text = match record.uri_for_number(number) {
            Ok(Some(text)) => text,
            Ok(None) => return RecordMeaning::NotApplicable,
            Err(InvalidRecord) => return RecordMeaning::Unreadable,
        };
        let Some(uri) = NumberUri::parse(&text) else { return RecordMeaning::Unreadable };
        let has_code = |name: &str, code: u16| uri.parameter(name).is_some_and(|value| value.parse() == Ok(code));
        let has_value = |name: &str| uri.parameter(name).is_some_and(|value| !value.is_empty());
        let has_error = uri.parameter("err").is_some_and(|value| value.parse() != Ok(0_u16));
        if has_error {
            RecordMeaning::Refused
        } else if has_code("q_stat", 102) {
            RecordMeaning::Nothing
        } else if has_code("gsm_error_code", 1) {
            RecordMeaning::UnknownSubscriber
        } else if let Some(network) = self.network(&uri) {
            RecordMeaning::Network(network)
        } else if has_value("rn") || has_value("spn") {
            RecordMeaning::OtherNetwork
        } else if uri.has_plmn() {
            // The URI contains an MCC and MNC, but they are invalid.
            RecordMeaning::Unreadable
        } else if uri.parameter("npdi").is_some() && uri.parameter("rn").is_none() && uri.parameter("spn").is_none() {
            RecordMeaning::NotPorted
        } else {
            RecordMeaning::Nothing
        }
    }

    fn network(&self, uri: &NumberUri) -> Option<NetworkId> {
        let resolve = |(country, network): (&str, &str)| self.known_networks.network_id_from_mcc_mnc(country, network);
        let by_parameters = uri.plmn_from_parameters().and_then(resolve);
        by_parameters
            .or_else(|| uri.parameter("mccmnc").and_then(|codes| self.known_networks.network_id_from_plmn(codes)))
            .or_else(|| uri.plmn_from_host().and_then(resolve))
            .or_else(|| uri.parameter("rn").and_then(|code| self.routing_numbers.find(code)).cloned())
            .or_else(|| uri.parameter("spn").and_then(|code| self.service_providers.find(code)).cloned())
    }

    /// Returns the result for a number that the source does not know.
    fn unknown_number_result(&self) -> LookupResult {
        if self.is_authoritative { LookupResult::NoSubscriber } else { LookupResult::NoData }
    }
}

/// `tel:` or `sip:` URI (RFC 3966, RFC 3261).
struct NumberUri {
    host: String,
    /// Names, in lower case, and values.
    parameters: Vec<(String, String)>,
}

impl NumberUri {
    /// Returns `None` if the text is not a `tel:` or `sip:` URI.
    fn parse(text: &str) -> Option<Self> {
        let text = text.replace(['<', '>', '"'], "");
        let (scheme, rest) = text.trim().split_once(':')?;
        let rest = rest.split('?').next().unwrap_or_default();
        let (user, host) = match scheme.to_ascii_lowercase().as_str() {
            "tel" => (rest, ""),
            "sip" | "sips" => rest.split_once('@').unwrap_or(("", rest)),
            _ => return None,
        };
        let host_name = host.split([';', ':']).next().unwrap_or_default().to_ascii_lowercase();
        let parameters = [user, host].into_iter().flat_map(|part| part.split(';').skip(1)).filter_map(parse_parameter);
        Some(NumberUri { host: host_name, parameters: parameters.collect() })
    }

    /// Returns the first parameter of this name. The value is empty if the parameter has none.
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known_name, _)| known_name == name).map(|(_, value)| value.as_str())
    }

    fn plmn_from_parameters(&self) -> Option<(&str, &str)> {
        self.parameter("mcc").zip(self.parameter("mnc"))
    }

    /// Whether the URI names a network by MCC and MNC, valid or not. Empty and zero codes do not count.
    fn has_plmn(&self) -> bool {
        let in_two_values = self.plmn_from_parameters().or_else(|| self.plmn_from_host());
        let country = in_two_values.map(|(country, _)| country).or_else(|| self.parameter("mccmnc"));
        country.is_some_and(|country| !is_zero_plmn(country))
    }

    /// Returns MCC and MNC from a host such as `ims.mnc010.mcc234.3gppnetwork.org`.
    fn plmn_from_host(&self) -> Option<(&str, &str)> {
        let label = |prefix| self.host.split('.').find_map(|label| label.strip_prefix(prefix));
        Some((label("mcc")?, label("mnc")?))
    }
}

fn parse_parameter(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then(|| (name, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::tenancy::Mode;

    use super::*;

    fn naptr_record(flags: &str, service: &str, expression: &str) -> NaptrRecord {
        let mut data = vec![0, 10, 0, 100];
        for text in [flags, service, expression] {
            data.push(u8::try_from(text.len()).unwrap());
            data.extend_from_slice(text.as_bytes());
        }
        data.push(0);
        NaptrRecord::parse(&data).unwrap()
    }

    #[test]
    fn flags_and_service_select_records() {
        for (flags, service, is_number_service) in [
            ("u", "E2U+pstn:tel", true),
            ("U", "e2u+PSTN:SIP", true),
            ("u", "E2U+SIP", true),
            ("u", "E2U+tel", true),
            ("u", "sip+E2U", true),
            ("u", "E2U+email:mailto+pstn:tel", true),
            ("u", "E2U+email:mailto", false),
            ("u", "pstn:tel", false),
            ("u", "E2U", false),
            ("", "E2U+pstn:tel", false),
            ("s", "E2U+pstn:tel", false),
            ("us", "E2U+pstn:tel", false),
        ] {
            assert_eq!(naptr_record(flags, service, "").is_number_service(), is_number_service, "{flags} {service}");
        }
    }

    #[test]
    fn expressions_are_applied() {
        let number = Msisdn::parse("+447700900123", Mode::Live).unwrap();
        for (expression, uri) in [
            (r"!^.*$!tel:+447700900123;npdi!", Ok(Some("tel:+447700900123;npdi"))),
            (r"!^(.*)$!tel:\1;mcc=234;mnc=10!", Ok(Some("tel:+447700900123;mcc=234;mnc=10"))),
            (r"!^(.*)$!tel:\\1\;mcc=234\;mnc=10!", Ok(Some("tel:+447700900123;mcc=234;mnc=10"))),
            (r"!^(.*)$!tel:\\\\1\\;mcc=234!", Ok(Some("tel:+447700900123;mcc=234"))),
            (r"/^\+44(.*)$/tel:+44\1;rn=1/", Ok(Some("tel:+447700900123;rn=1"))),
            (r"!^\\+(44)(7[0-9]+)$!tel:+\2\1!", Ok(Some("tel:+770090012344"))),
            (r"~^(.*)$~sip:\1@a\~b~", Ok(Some("sip:+447700900123@a~b"))),
            ("é^(.*)$étel:\\1é", Ok(Some("tel:+447700900123"))),
            (r"!^\+(44|49)[[:digit:]]*$!tel:\1!i", Ok(Some("tel:44"))),
            (r" !^.*$!<TEL:+447700900123>! ", Ok(Some("<TEL:+447700900123>"))),
            (r"!^(x)?.*$!tel:\1\2\9!", Ok(Some("tel:"))),
            (r"!.!a\!", Err(InvalidRecord)),
            (r"!^.*$!a\", Err(InvalidRecord)),
            (r"!^\+49.*$!tel:1!", Ok(None)),
            ("", Err(InvalidRecord)),
            ("!", Err(InvalidRecord)),
            ("!^.*$!tel:1", Err(InvalidRecord)),
            ("!^.*$!tel:1!!", Err(InvalidRecord)),
            ("1^.*$1tel:21", Err(InvalidRecord)),
            ("!^(.*$!tel:1!", Err(InvalidRecord)),
            (r"!^.*$!\0!", Err(InvalidRecord)),
            (r"\^.*$\tel\", Err(InvalidRecord)),
            ("!(((((((((((((((((((((((x)))))))))))))))))))))))!tel:1!", Err(InvalidRecord)),
            ("!((x{900}){900}){900}!tel:1!", Err(InvalidRecord)),
        ] {
            let applied = naptr_record("u", "E2U+pstn:tel", expression).uri_for_number(&number);
            assert_eq!(applied.as_ref().map(Option::as_deref), uri.as_ref().copied(), "{expression}");
        }
    }

    #[test]
    fn truncated_data_is_rejected() {
        let whole = b"\0\x0a\0\x64\x01u\x03E2U\x02!!";
        assert!(NaptrRecord::parse(whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(NaptrRecord::parse(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn parameters_on_both_sides_of_the_host_are_parsed() {
        let uri =
            NumberUri::parse("sip:+1-215-555-0123;NPDI;rn=+1-215-555-0199@gw.example.com:5060;user=phone?a=b;c=d");
        let uri = uri.unwrap();
        assert_eq!(uri.parameter("npdi"), Some(""));
        assert_eq!(uri.parameter("rn"), Some("+1-215-555-0199"));
        assert_eq!(uri.parameter("user"), Some("phone"));
        assert_eq!(uri.parameter("c"), None);
        assert_eq!(uri.plmn_from_host(), None);
        for other in ["", "tel", "mailto:a@b", "http://a/;mcc=234;mnc=10", ":"] {
            assert!(NumberUri::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn plmn_is_parsed_from_host() {
        for (text, plmn) in [
            ("sip:+49172@ims.mnc002.mcc262.3gppnetwork.org;cost=0.1", Some(("262", "002"))),
            ("sip:+49172@IMS.MNC02.MCC262.3gppnetwork.org:5060", Some(("262", "02"))),
            ("SIPS:ims.mnc002.mcc262.3gppnetwork.org", Some(("262", "002"))),
            ("sip:+49172@unknown;err=1", None),
            ("sip:+49172@mcc262.example", None),
            ("tel:+49172;mcc262.mnc02", None),
        ] {
            assert_eq!(NumberUri::parse(text).unwrap().plmn_from_host(), plmn, "{text}");
        }
    }
}
