//! Answers on the wire.

use super::query::{HEADER, LARGEST_DATAGRAM, OPT, Query};

pub(super) const IN: u16 = 1;
const SOA: u16 = 6;
pub(super) const NAPTR: u16 = 35;

const IS_RESPONSE: u16 = 0x8000;
const IS_AUTHORITATIVE: u16 = 0x0400;
const IS_CUT: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
/// A name that stands elsewhere in the message, where the other bits say.
const POINTER: u16 = 0xC000;

/// How long an answer may be kept, in seconds.
const TTL: u32 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    NoError,
    FormatError,
    ServerFailure,
    NoSuchName,
    NotImplemented,
    Refused,
    /// A version of EDNS that nobody has heard of.
    BadVersion,
}

impl Code {
    /// The four bits in the header, and the eight above them that EDNS has room for.
    fn bits(self) -> (u16, u8) {
        match self {
            Code::NoError => (0, 0),
            Code::FormatError => (1, 0),
            Code::ServerFailure => (2, 0),
            Code::NoSuchName => (3, 0),
            Code::NotImplemented => (4, 0),
            Code::Refused => (5, 0),
            Code::BadVersion => (0, 1),
        }
    }
}

/// What is said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub code: Code,
    /// Services and expressions of NAPTR records that lead to a URI.
    pub records: Vec<(&'static str, String)>,
    /// How many of the question's labels stand before the zone's name. `None`: it is not in the zone.
    pub zone_after: Option<usize>,
    pub is_cut: bool,
}

impl Reply {
    /// One that says nothing of the name.
    pub(super) fn of(code: Code) -> Self {
        Self { code, records: vec![], zone_after: None, is_cut: false }
    }

    /// One that says only that there is more to say.
    pub(super) fn cut() -> Self {
        Self { is_cut: true, ..Self::of(Code::NoError) }
    }

    /// As a message, without records if there is no room for them.
    pub(super) fn fitting(&self, query: &Query<'_>, room: usize) -> Vec<u8> {
        let whole = self.written(query);
        if whole.len() <= room { whole } else { Self::cut().written(query) }
    }

    fn written(&self, query: &Query<'_>) -> Vec<u8> {
        let question = query.asked.as_ref().ok();
        let (code, more_of_code) = self.code.bits();
        // A name without records is told together with who says so, and for how long that holds.
        let zone = self.zone_after.filter(|_| self.records.is_empty()).zip(question).map(|(labels, question)| {
            let before: usize = question.labels.iter().take(labels).map(|label| label.len() + 1).sum();
            POINTER | number(HEADER + before)
        });
        let mut flags = IS_RESPONSE | code;
        for (is_set, flag) in [
            (self.zone_after.is_some(), IS_AUTHORITATIVE),
            (self.is_cut, IS_CUT),
            (query.wants_recursion, RECURSION_DESIRED),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let counts = [question.iter().len(), self.records.len(), zone.iter().len(), query.edns.iter().len()];
        let mut message = [query.id.to_be_bytes(), flags.to_be_bytes()].concat();
        for count in counts {
            message.extend(number(count).to_be_bytes());
        }
        message.extend(question.map_or(&[][..], |question| question.wire));
        for (service, expression) in &self.records {
            record(&mut message, POINTER | number(HEADER), NAPTR, &naptr(service, expression));
        }
        if let Some(zone) = zone {
            record(&mut message, zone, SOA, &authority(zone));
        }
        if query.edns.is_some() {
            message.push(0);
            message.extend([OPT.to_be_bytes(), LARGEST_DATAGRAM.to_be_bytes()].concat());
            message.extend([more_of_code, 0, 0, 0, 0, 0]);
        }
        message
    }
}

fn record(message: &mut Vec<u8>, name: u16, kind: u16, data: &[u8]) {
    message.extend([name.to_be_bytes(), kind.to_be_bytes(), IN.to_be_bytes()].concat());
    message.extend(TTL.to_be_bytes());
    message.extend(number(data.len()).to_be_bytes());
    message.extend(data);
}

/// A record that leads to a URI, and to no other name.
fn naptr(service: &str, expression: &str) -> Vec<u8> {
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

/// The zone is its own server and its own master.
fn authority(zone: u16) -> Vec<u8> {
    let (serial, refresh, retry, expire) = (1_u32, 3_600_u32, 600_u32, 86_400_u32);
    let numbers = [serial, refresh, retry, expire, TTL].map(u32::to_be_bytes);
    [&zone.to_be_bytes()[..], &zone.to_be_bytes(), numbers.as_flattened()].concat()
}

/// Nothing here is longer than a message can be.
fn number(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}
