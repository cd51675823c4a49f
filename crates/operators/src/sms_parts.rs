//! Encodes and decodes SMS parts as connectors store them: the `data_coding` octet and the user data without its
//! header.

use ringtrue_engine::ports::sms::CompleteSms;
use ringtrue_smpp::{
    reassembly::decode_parts,
    text::{DataCoding, DefaultAlphabet},
    udh::Segment,
};

/// Maximum size of a part: more than an SMS part contains in any coding. A larger message is not a part, whatever its
/// header says.
const MAX_PART_OCTETS: usize = 1_024;

/// Whether a message is a part of a concatenated SMS. A message with invalid part numbers is treated as complete.
pub(crate) fn is_part(segment: Segment, octets: &[u8]) -> bool {
    segment.total > 1 && (1..=segment.total).contains(&segment.sequence) && octets.len() <= MAX_PART_OCTETS
}

pub(crate) fn encode_part(data_coding: DataCoding, octets: &[u8]) -> Vec<u8> {
    [&[data_coding.0], octets].concat()
}

pub(crate) fn decode_sms(sms: &CompleteSms, default: DefaultAlphabet) -> String {
    let parts = sms.contents.iter().filter_map(|content| content.split_first());
    decode_parts(parts.map(|(data_coding, octets)| (DataCoding(*data_coding), octets)), default)
}
