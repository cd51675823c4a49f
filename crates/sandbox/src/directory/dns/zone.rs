//! What is said of a name.

use super::{
    super::{
        DirectoryConfig,
        subscriber::{Register, Subscriber, digits_of},
    },
    query::{Query, Question, Unanswerable},
    reply::{Code, IN, NAPTR, Reply},
};

/// Any class, or any kind of record.
const ANY: u16 = 255;
/// RFC 4769.
const SERVICE: &str = "E2U+pstn:tel";

/// How a record tells whose a number is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordStyle {
    /// By the network's codes: `!^(.*)$!tel:\1;mcc=234;mnc=30!`.
    #[default]
    Codes,
    /// By the codes that operators are known by to each other (RFC 4694), which here are both codes in a row:
    /// `!^.*$!tel:+447700900124;npdi;rn=23410;rn-context=sandbox.invalid;spn=23410!`. Where a number was never ported,
    /// `npdi` stands alone.
    RoutingNumber,
}

#[derive(Debug)]
pub(in crate::directory) struct Zone {
    suffix: Vec<Box<[u8]>>,
    style: RecordStyle,
    ported_only: bool,
}

impl Zone {
    /// `None`: the suffix is no name, or numbers would not fit before it.
    pub(in crate::directory) fn new(config: &DirectoryConfig) -> Option<Self> {
        const LONGEST_SUFFIX: usize = 220;
        let suffix = config.suffix.trim_matches('.');
        let labels: Vec<Box<[u8]>> = suffix.split('.').map(|label| label.as_bytes().into()).collect();
        let are_labels = labels.iter().all(|label| (1..=63).contains(&label.len()));
        let (style, ported_only) = (config.records, config.ported_only);
        (are_labels && suffix.len() <= LONGEST_SUFFIX).then_some(Self { suffix: labels, style, ported_only })
    }

    pub(super) fn answer(&self, query: &Query<'_>, register: &Register) -> Reply {
        match &query.asked {
            Err(Unanswerable::Malformed) => Reply::of(Code::FormatError),
            Err(Unanswerable::NotAQuestion) => Reply::of(Code::NotImplemented),
            Ok(_) if query.edns.is_some_and(|edns| edns.version > 0) => Reply::of(Code::BadVersion),
            Ok(question) => self.look_up(question, register).unwrap_or_else(|| Reply::of(Code::Refused)),
        }
    }

    /// `None`: a name outside of the zone.
    fn look_up(&self, question: &Question<'_>, register: &Register) -> Option<Reply> {
        let zone_after = question.labels.len().checked_sub(self.suffix.len())?;
        let (labels, suffix) = question.labels.split_at_checked(zone_after)?;
        let is_below = suffix.iter().zip(&self.suffix).all(|(label, own)| label.eq_ignore_ascii_case(own));
        if !is_below || ![IN, ANY].contains(&question.class) {
            return None;
        }
        let digits = digits_of(labels.iter().copied());
        let subscriber = digits.as_ref().and_then(|digits| register.find(digits));
        // Where a longer name exists, so does this one, and it has no records.
        let exists = labels.is_empty() || digits.is_some_and(|digits| register.has_beginning(&digits));
        let code = if exists { Code::NoError } else { Code::NoSuchName };
        let wants_records = [NAPTR, ANY].contains(&question.kind);
        let records = subscriber.filter(|_| wants_records).and_then(|subscriber| self.record(subscriber));
        Some(Reply { records: records.into_iter().collect(), zone_after: Some(zone_after), ..Reply::of(code) })
    }

    fn record(&self, subscriber: &Subscriber) -> Option<(&'static str, String)> {
        let Subscriber { number, network, ported_from, .. } = subscriber;
        if self.ported_only && ported_from.is_none() {
            return None;
        }
        let expression = match self.style {
            RecordStyle::Codes => format!(r"!^(.*)$!tel:\1;mcc={};mnc={}!", network.mcc(), network.mnc()),
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
        Some((SERVICE, expression))
    }
}
