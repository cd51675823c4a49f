//! DNS response encoder.

use super::query::{HEADER_BYTES, MAX_UDP_PAYLOAD, OPT, Query};

pub(super) const IN: u16 = 1;
const SOA: u16 = 6;
pub(super) const NAPTR: u16 = 35;

const QR_FLAG: u16 = 0x8000;
const AA_FLAG: u16 = 0x0400;
const TC_FLAG: u16 = 0x0200;
const RD_FLAG: u16 = 0x0100;
/// Compressed name; the other bits are the offset.
const POINTER: u16 = 0xC000;

/// In seconds.
const TTL: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseCode {
    NoError,
    FormatError,
    ServerFailure,
    NxDomain,
    NotImplemented,
    Refused,
    /// Unsupported EDNS version.
    BadVersion,
}

impl ResponseCode {
    /// RCODE bits of the header, and the extended bits of EDNS.
    fn bits(self) -> (u16, u8) {
        match self {
            ResponseCode::NoError => (0, 0),
            ResponseCode::FormatError => (1, 0),
            ResponseCode::ServerFailure => (2, 0),
            ResponseCode::NxDomain => (3, 0),
            ResponseCode::NotImplemented => (4, 0),
            ResponseCode::Refused => (5, 0),
            ResponseCode::BadVersion => (0, 1),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsResponse {
    pub code: ResponseCode,
    /// Service and regular expression of NAPTR records.
    pub records: Vec<(&'static str, String)>,
    /// Number of labels before the zone's name; `None`: outside of the zone.
    pub labels_before_zone: Option<usize>,
    pub is_truncated: bool,
}

impl DnsResponse {
    /// A response without records.
    pub(super) fn with_code(code: ResponseCode) -> Self {
        Self { code, records: vec![], labels_before_zone: None, is_truncated: false }
    }

    /// A truncated response (TC flag).
    pub(super) fn truncated() -> Self {
        Self { is_truncated: true, ..Self::with_code(ResponseCode::NoError) }
    }

    /// Encodes the response; truncated if it exceeds `max_bytes`.
    pub(super) fn encode_within(&self, query: &Query<'_>, max_bytes: usize) -> Vec<u8> {
        let whole = self.encode(query);
        if whole.len() <= max_bytes { whole } else { Self::truncated().encode(query) }
    }

    fn encode(&self, query: &Query<'_>) -> Vec<u8> {
        let question = query.question.as_ref().ok();
        let (code, extended_code) = self.code.bits();
        // A negative response has the SOA of the zone (RFC 2308).
        let zone =
            self.labels_before_zone.filter(|_| self.records.is_empty()).zip(question).map(|(labels, question)| {
                let before: usize = question.labels.iter().take(labels).map(|label| label.len() + 1).sum();
                POINTER | to_u16(HEADER_BYTES + before)
            });
        let mut flags = QR_FLAG | code;
        for (is_set, flag) in [
            (self.labels_before_zone.is_some(), AA_FLAG),
            (self.is_truncated, TC_FLAG),
            (query.recursion_desired, RD_FLAG),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let counts = [question.iter().len(), self.records.len(), zone.iter().len(), query.edns.iter().len()];
        let mut message = [query.id.to_be_bytes(), flags.to_be_bytes()].concat();
        for count in counts {
            message.extend(to_u16(count).to_be_bytes());
        }
        message.extend(question.map_or(&[][..], |question| question.wire));
        for (service, expression) in &self.records {
            write_record(&mut message, POINTER | to_u16(HEADER_BYTES), NAPTR, &naptr_data(service, expression));
        }
        if let Some(zone) = zone {
            write_record(&mut message, zone, SOA, &soa_data(zone));
        }
        if query.edns.is_some() {
            message.push(0);
            message.extend([OPT.to_be_bytes(), MAX_UDP_PAYLOAD.to_be_bytes()].concat());
            message.extend([extended_code, 0, 0, 0, 0, 0]);
        }
        message
    }
}

fn write_record(message: &mut Vec<u8>, name: u16, record_type: u16, data: &[u8]) {
    message.extend([name.to_be_bytes(), record_type.to_be_bytes(), IN.to_be_bytes()].concat());
    message.extend(TTL.to_be_bytes());
    message.extend(to_u16(data.len()).to_be_bytes());
    message.extend(data);
}

/// Data of a terminal NAPTR record.
fn naptr_data(service: &str, expression: &str) -> Vec<u8> {
    let (order, preference) = (10_u16, 100_u16);
    let mut data = [order.to_be_bytes(), preference.to_be_bytes()].concat();
    for text in ["u", service, expression] {
        let text = text.as_bytes();
        let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
        data.push(length);
        data.extend(text.iter().take(length.into()));
    }
    data.push(0);
    data
}

/// Data of the SOA record; the zone name is also MNAME and RNAME.
fn soa_data(zone: u16) -> Vec<u8> {
    let (serial, refresh, retry, expire) = (1_u32, 3_600_u32, 600_u32, 86_400_u32);
    let numbers = [serial, refresh, retry, expire, TTL].map(u32::to_be_bytes);
    [&zone.to_be_bytes()[..], &zone.to_be_bytes(), numbers.as_flattened()].concat()
}

/// All lengths are below the maximum of a DNS message.
fn to_u16(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}
