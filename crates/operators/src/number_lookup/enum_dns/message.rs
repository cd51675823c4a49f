//! Encoding of ENUM queries, and matching of replies.
//!
//! Names and headers are decoded by hickory. Records are decoded here one by one: hickory rejects a whole message
//! because of one malformed record.

use std::fmt;

use hickory_resolver::proto::{
    ProtoError,
    op::{Edns, Header, Message, MessageType, OpCode, Query as Question, ResponseCode},
    rr::{DNSClass, Name, RecordType},
    serialize::binary::{BinDecodable, BinDecoder, DecodeError},
};
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::ports::Entropy;

use super::naptr_record::NaptrRecord;

/// Avoids IP fragmentation.
const EDNS_PAYLOAD_BYTES: u16 = 1_232;

/// A query for one number.
pub struct EnumQuery {
    id: u16,
    name: Name,
    wire: Vec<u8>,
}

/// Relation of a received message to a query.
#[derive(Debug)]
pub enum ReplyMatch {
    Unrelated,
    Truncated,
    Answer(EnumAnswer),
}

/// Masked: records contain numbers.
pub struct EnumAnswer {
    pub code: ResponseCode,
    pub records: Vec<NaptrRecord>,
    pub has_unreadable_records: bool,
    /// Preserves the letter case of the query. If not, the server normalises case, or the reply is forged.
    pub case_matches: bool,
}

impl EnumQuery {
    /// `None`: the suffix is too long; the configuration rules that out.
    pub fn new(number: &Msisdn, suffix: &str, entropy: &dyn Entropy, randomize_case: bool, edns: bool) -> Option<Self> {
        let id = u16::from_be_bytes(entropy.bytes());
        let suffix = if randomize_case { with_random_case(suffix, entropy) } else { suffix.to_owned() };
        let reversed: String = number.digits().chars().rev().flat_map(|digit| [digit, '.']).collect();
        let name = Name::from_ascii(format!("{reversed}{suffix}.")).ok()?;
        let wire = encode_query(id, &name, edns).ok()?;
        Some(EnumQuery { id, name, wire })
    }

    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Decodes a message from the queried server.
    pub fn match_reply(&self, message: &[u8]) -> ReplyMatch {
        let mut decoder = BinDecoder::new(message);
        let Ok(header) = Header::read(&mut decoder) else { return ReplyMatch::Unrelated };
        let metadata = header.metadata;
        let is_response = metadata.id == self.id
            && metadata.message_type == MessageType::Response
            && metadata.op_code == OpCode::Query;
        if !is_response {
            return ReplyMatch::Unrelated;
        }
        match header.counts.queries {
            // Some servers truncate everything; the TCP reply is checked again.
            0 if metadata.truncation => return ReplyMatch::Truncated,
            // A server that cannot parse the question may omit it.
            0 if header.counts.answers == 0 && !concerns_name(metadata.response_code) => {
                return ReplyMatch::Answer(EnumAnswer::new(metadata.response_code, true));
            }
            1 => {}
            _ => return ReplyMatch::Unrelated,
        }
        let Ok(question) = Question::read(&mut decoder) else { return ReplyMatch::Unrelated };
        let is_ours = question.query_type == RecordType::NAPTR
            && question.query_class == DNSClass::IN
            && question.name == self.name;
        if !is_ours {
            return ReplyMatch::Unrelated;
        }
        if metadata.truncation {
            return ReplyMatch::Truncated;
        }
        let mut answer = EnumAnswer::new(metadata.response_code, question.name.eq_case(&self.name));
        let read_result = self.read_records(&mut decoder, header.counts.answers, &mut answer);
        answer.has_unreadable_records |= read_result.is_err();
        ReplyMatch::Answer(answer)
    }

    /// Reads the records of the queried name and of its CNAME targets.
    fn read_records(
        &self,
        decoder: &mut BinDecoder<'_>,
        count: u16,
        answer: &mut EnumAnswer,
    ) -> Result<(), DecodeError> {
        let mut owner_name = self.name.clone();
        for _ in 0..count {
            let owner = Name::read(decoder)?;
            let kind = RecordType::from(decoder.read_u16()?.unverified());
            let class = decoder.read_u16()?.unverified();
            decoder.read_u32()?;
            let length = decoder.read_u16()?.unverified();
            let start = u16::try_from(decoder.index()).map_err(|_| DecodeError::InsufficientBytes)?;
            let data = decoder.read_slice(length.into())?.unverified();
            if owner != owner_name || class != u16::from(DNSClass::IN) {
                continue;
            }
            match kind {
                RecordType::CNAME => owner_name = Name::read(&mut decoder.clone(start))?,
                RecordType::NAPTR => match NaptrRecord::parse(data) {
                    Some(record) => answer.records.push(record),
                    None => answer.has_unreadable_records = true,
                },
                _ => {}
            }
        }
        Ok(())
    }
}

impl EnumAnswer {
    fn new(code: ResponseCode, case_matches: bool) -> Self {
        EnumAnswer { code, records: vec![], has_unreadable_records: false, case_matches }
    }
}

/// Whether a code concerns the queried name, not only the server.
fn concerns_name(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NoError | ResponseCode::NXDomain)
}

fn encode_query(id: u16, name: &Name, edns: bool) -> Result<Vec<u8>, ProtoError> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Question::query(name.clone(), RecordType::NAPTR));
    if edns {
        let mut edns = Edns::new();
        edns.set_max_payload(EDNS_PAYLOAD_BYTES);
        message.set_edns(edns);
    }
    message.to_vec()
}

fn with_random_case(text: &str, entropy: &dyn Entropy) -> String {
    let mut random_bytes = vec![0; text.len()];
    entropy.fill(&mut random_bytes);
    let set_case = |(letter, random_byte): (char, u8)| match random_byte & 1 {
        0 => letter.to_ascii_lowercase(),
        _ => letter.to_ascii_uppercase(),
    };
    text.chars().zip(random_bytes).map(set_case).collect()
}

/// Masked: the name is the number.
impl fmt::Debug for EnumQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnumQuery({} bytes)", self.wire.len())
    }
}

impl fmt::Debug for EnumAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnumAnswer({}, {} records)", self.code, self.records.len())
    }
}
