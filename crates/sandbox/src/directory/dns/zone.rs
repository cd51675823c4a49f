//! ENUM zone: resolves names to NAPTR records.

use super::{
    super::{
        DirectoryConfig,
        subscriber::{Subscriber, SubscriberTable, parse_enum_labels},
    },
    query::{Query, QueryError, Question},
    response::{DnsResponse, IN, NAPTR, ResponseCode},
};

/// QTYPE and QCLASS `*`.
const ANY: u16 = 255;
/// Enumservice of RFC 4769.
const ENUM_SERVICE: &str = "E2U+pstn:tel";

/// Format of the NAPTR records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordStyle {
    /// MCC and MNC: `!^(.*)$!tel:\1;mcc=234;mnc=30!`.
    #[default]
    MccMnc,
    /// Routing number and service provider of a ported number (RFC 4694), both MCC and MNC here:
    /// `!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!`. Only `npdi` if not ported.
    RoutingNumber,
}

#[derive(Debug)]
pub(in crate::directory) struct Zone {
    suffix: Vec<Box<[u8]>>,
    style: RecordStyle,
    ported_only: bool,
}

impl Zone {
    /// `None`: the suffix is not a DNS name, or too long for ENUM names below it.
    pub(in crate::directory) fn new(config: &DirectoryConfig) -> Option<Self> {
        const MAX_SUFFIX_BYTES: usize = 220;
        let suffix = config.suffix.trim_matches('.');
        let labels: Vec<Box<[u8]>> = suffix.split('.').map(|label| label.as_bytes().into()).collect();
        let are_labels = labels.iter().all(|label| (1..=63).contains(&label.len()));
        let (style, ported_only) = (config.records, config.ported_only);
        (are_labels && suffix.len() <= MAX_SUFFIX_BYTES).then_some(Self { suffix: labels, style, ported_only })
    }

    pub(super) fn respond(&self, query: &Query<'_>, subscribers: &SubscriberTable) -> DnsResponse {
        match &query.question {
            Err(QueryError::Malformed) => DnsResponse::with_code(ResponseCode::FormatError),
            Err(QueryError::UnsupportedOpcode) => DnsResponse::with_code(ResponseCode::NotImplemented),
            Ok(_) if query.edns.is_some_and(|edns| edns.version > 0) => {
                DnsResponse::with_code(ResponseCode::BadVersion)
            }
            Ok(question) => {
                self.look_up(question, subscribers).unwrap_or_else(|| DnsResponse::with_code(ResponseCode::Refused))
            }
        }
    }

    /// `None`: outside of the zone.
    fn look_up(&self, question: &Question<'_>, subscribers: &SubscriberTable) -> Option<DnsResponse> {
        let labels_before_zone = question.labels.len().checked_sub(self.suffix.len())?;
        let (labels, suffix) = question.labels.split_at_checked(labels_before_zone)?;
        let is_below = suffix.iter().zip(&self.suffix).all(|(label, own)| label.eq_ignore_ascii_case(own));
        if !is_below || ![IN, ANY].contains(&question.class) {
            return None;
        }
        let digits = parse_enum_labels(labels.iter().copied());
        let subscriber = digits.as_ref().and_then(|digits| subscribers.find(digits));
        // Empty non-terminal names exist (RFC 8020).
        let exists = labels.is_empty() || digits.is_some_and(|digits| subscribers.has_prefix(&digits));
        let code = if exists { ResponseCode::NoError } else { ResponseCode::NxDomain };
        let is_naptr_query = [NAPTR, ANY].contains(&question.record_type);
        let records = subscriber.filter(|_| is_naptr_query).and_then(|subscriber| self.naptr_record(subscriber));
        Some(DnsResponse {
            records: records.into_iter().collect(),
            labels_before_zone: Some(labels_before_zone),
            ..DnsResponse::with_code(code)
        })
    }

    fn naptr_record(&self, subscriber: &Subscriber) -> Option<(&'static str, String)> {
        let Subscriber { number, network, ported_from, .. } = subscriber;
        if self.ported_only && ported_from.is_none() {
            return None;
        }
        let expression = match self.style {
            RecordStyle::MccMnc => format!(r"!^(.*)$!tel:\1;mcc={};mnc={}!", network.mcc(), network.mnc()),
            RecordStyle::RoutingNumber => {
                let ported = ported_from.is_some();
                let to = if ported {
                    format!(";rn={network};rn-context=sandbox.invalid;spn={network}")
                } else {
                    String::new()
                };
                format!("!^.*$!tel:{};npdi{to}!", number.as_str())
            }
        };
        Some((ENUM_SERVICE, expression))
    }
}
