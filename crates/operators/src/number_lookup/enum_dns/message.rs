//! The question on the wire, and whether what comes back answers it.
//!
//! Names and headers are read by a library. Records are read one by one here: it reads a message wholly or not at all,
//! and one record that somebody wrote in his own way should not spoil the others.

use std::fmt;

use hickory_resolver::proto::{
    ProtoError,
    op::{Edns, Header, Message, MessageType, OpCode, Query as Question, ResponseCode},
    rr::{DNSClass, Name, RecordType},
    serialize::binary::{BinDecodable, BinDecoder, DecodeError},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::Entropy;

use super::record::Record;

/// What a datagram may hold without being taken apart on its way.
const PAYLOAD: u16 = 1_232;

/// A question about one number, to be sent to one server.
pub struct Query {
    id: u16,
    name: Name,
    wire: Vec<u8>,
}

/// What a message is to a query.
#[derive(Debug)]
pub enum Reception {
    /// To another one, or to none.
    NotOurs,
    /// An answer of which only a part was sent.
    Cut,
    Answer(Answer),
}

/// Masked: records hold numbers.
pub struct Answer {
    pub code: ResponseCode,
    pub records: Vec<Record>,
    /// Some of it could not be read.
    pub is_spoilt: bool,
    /// It has the letters of the question in their case. If not, the server does not care, or it is forged.
    pub keeps_case: bool,
}

impl Query {
    /// `None`: the suffix is too long, which is known before.
    pub fn new(number: &Msisdn, suffix: &str, entropy: &dyn Entropy, mixes_case: bool, edns: bool) -> Option<Self> {
        let id = u16::from_be_bytes(entropy.bytes());
        let suffix = if mixes_case { in_random_case(suffix, entropy) } else { suffix.to_owned() };
        let reversed: String = number.digits().chars().rev().flat_map(|digit| [digit, '.']).collect();
        let name = Name::from_ascii(format!("{reversed}{suffix}.")).ok()?;
        let wire = written(id, &name, edns).ok()?;
        Some(Query { id, name, wire })
    }

    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Reads a message that came from where the question was sent.
    pub fn read(&self, message: &[u8]) -> Reception {
        let mut decoder = BinDecoder::new(message);
        let Ok(header) = Header::read(&mut decoder) else { return Reception::NotOurs };
        let about = header.metadata;
        let is_response =
            about.id == self.id && about.message_type == MessageType::Response && about.op_code == OpCode::Query;
        if !is_response {
            return Reception::NotOurs;
        }
        match header.counts.queries {
            // Some cut off everything. What comes over TCP then is looked at more closely.
            0 if about.truncation => return Reception::Cut,
            // Who cannot read a question may not be able to repeat it.
            0 if header.counts.answers == 0 && !is_about_the_name(about.response_code) => {
                return Reception::Answer(Answer::new(about.response_code, true));
            }
            1 => {}
            _ => return Reception::NotOurs,
        }
        let Ok(question) = Question::read(&mut decoder) else { return Reception::NotOurs };
        let is_ours = question.query_type == RecordType::NAPTR
            && question.query_class == DNSClass::IN
            && question.name == self.name;
        if !is_ours {
            return Reception::NotOurs;
        }
        if about.truncation {
            return Reception::Cut;
        }
        let mut answer = Answer::new(about.response_code, question.name.eq_case(&self.name));
        let read_on = self.read_records(&mut decoder, header.counts.answers, &mut answer);
        answer.is_spoilt |= read_on.is_err();
        Reception::Answer(answer)
    }

    /// The records of our name, and of the one that it is an alias of.
    fn read_records(&self, decoder: &mut BinDecoder<'_>, count: u16, answer: &mut Answer) -> Result<(), DecodeError> {
        let mut wanted = self.name.clone();
        for _ in 0..count {
            let owner = Name::read(decoder)?;
            let kind = RecordType::from(decoder.read_u16()?.unverified());
            let class = decoder.read_u16()?.unverified();
            decoder.read_u32()?;
            let length = decoder.read_u16()?.unverified();
            let start = u16::try_from(decoder.index()).map_err(|_| DecodeError::InsufficientBytes)?;
            let data = decoder.read_slice(length.into())?.unverified();
            if owner != wanted || class != u16::from(DNSClass::IN) {
                continue;
            }
            match kind {
                RecordType::CNAME => wanted = Name::read(&mut decoder.clone(start))?,
                RecordType::NAPTR => match Record::read(data) {
                    Some(record) => answer.records.push(record),
                    None => answer.is_spoilt = true,
                },
                _ => {}
            }
        }
        Ok(())
    }
}

impl Answer {
    fn new(code: ResponseCode, keeps_case: bool) -> Self {
        Answer { code, records: vec![], is_spoilt: false, keeps_case }
    }
}

/// Whether a code says something of the name that was asked for, and not only of the server.
fn is_about_the_name(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NoError | ResponseCode::NXDomain)
}

fn written(id: u16, name: &Name, edns: bool) -> Result<Vec<u8>, ProtoError> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Question::query(name.clone(), RecordType::NAPTR));
    if edns {
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD);
        message.set_edns(edns);
    }
    message.to_vec()
}

fn in_random_case(text: &str, entropy: &dyn Entropy) -> String {
    let mut coins = vec![0; text.len()];
    entropy.fill(&mut coins);
    let toss = |(letter, coin): (char, u8)| match coin & 1 {
        0 => letter.to_ascii_lowercase(),
        _ => letter.to_ascii_uppercase(),
    };
    text.chars().zip(coins).map(toss).collect()
}

/// Masked: the name is the number.
impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query({} bytes)", self.wire.len())
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {} records)", self.code, self.records.len())
    }
}
