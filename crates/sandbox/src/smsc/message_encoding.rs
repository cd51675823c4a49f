//! Encodes an SMS into SMPP messages, with its scripted faults.

use bytes::BytesMut;
use fastrand::Rng;
use ringtrue_smpp::{
    esm_class::EsmClass,
    pdu::{Address, DataSm, Pdu, Request, ShortMessage, TlvTag, Tlvs},
    session::{Link, RequestError},
    text::{DataCoding, gsm},
    udh::{self, ConcatenationReference, Segment},
};

use super::{ConcatenationMode, FaultScript, SendError, Sms, sms::PartOrder};

/// Value of the TLV `message_state` for a delivered message.
const MESSAGE_STATE_DELIVERED: u8 = 2;

const ESM_CLASS_DELIVERY_RECEIPT: u8 = 0x04;

/// A message for an ESME.
#[derive(Clone, Debug)]
pub(super) enum OutboundMessage {
    DeliverSm(ShortMessage),
    DataSm(DataSm),
}

impl OutboundMessage {
    pub(super) async fn send_over(&self, link: &Link) -> Result<(), RequestError> {
        match self {
            Self::DeliverSm(message) => link.deliver_sm(message.clone()).await.map(drop),
            Self::DataSm(message) => link.data_sm(message.clone()).await.map(drop),
        }
    }

    /// Checks that the message can be encoded, so that the error is reported when the SMS is sent and not on delivery.
    fn validate(&self) -> Result<(), SendError> {
        let request = match self {
            Self::DeliverSm(message) => Request::DeliverSm(message.clone()),
            Self::DataSm(message) => Request::DataSm(message.clone()),
        };
        Ok(Pdu::request(1, request).encode(&mut BytesMut::new())?)
    }
}

/// Encodes the messages of an SMS, in sending order.
pub(super) fn encode_sms(
    sms: &Sms,
    reference: u16,
    account_tag: Option<TlvTag>,
    random: &mut Rng,
) -> Result<Vec<OutboundMessage>, SendError> {
    let Sms { from, to, text, faults, account } = sms;
    let template = MessageTemplate {
        source: faults.spoofed_sender.as_ref().unwrap_or(from).to_smpp_address()?,
        destination: to.to_smpp_address()?,
        receipt: faults.delivery_receipt.then(|| format!("{reference:04X}")),
        account: account_tag.zip(account.map(|account| account.id)),
        faults,
    };
    let text = template.receipt.as_ref().map_or_else(|| text.clone(), |id| receipt_text(id, text));
    let alphabet = faults.alphabet.unwrap_or_else(|| Alphabet::for_text(&text));
    let mut characters = alphabet.encode_characters(&text);
    if faults.garbled {
        for octet in characters.iter_mut().flatten() {
            *octet ^= random.u8(1..);
        }
    }
    let mut parts =
        assign_part_numbers(split_text(alphabet, characters, faults), concatenation_reference(reference, faults))?;
    match faults.part_order {
        PartOrder::Original => {}
        PartOrder::Reversed => parts.reverse(),
        PartOrder::Shuffled => random.shuffle(&mut parts),
    }
    let data_coding = faults.declared_coding.unwrap_or_else(|| alphabet.data_coding());
    let is_sent = |part: &TextPart| part.segment.is_none_or(|segment| faults.lost_part != Some(segment.sequence));
    let messages: Vec<_> =
        parts.into_iter().filter(is_sent).map(|part| template.build_message(part, data_coding)).collect();
    messages.iter().try_for_each(OutboundMessage::validate)?;
    Ok(messages)
}

/// Builds the text of a delivery receipt (SMPP 3.4, Appendix B). It quotes the whole text, to detect receivers that
/// mistake a receipt for a message.
fn receipt_text(id: &str, text: &str) -> String {
    let dates = "submit date:2601010000 done date:2601010000";
    format!("id:{id} sub:001 dlvrd:001 {dates} stat:DELIVRD err:000 text:{text}")
}

/// Text of an SMS, in one message or split into several.
enum TextParts {
    Single(Vec<u8>),
    Multiple(Vec<Vec<u8>>),
}

fn split_text(alphabet: Alphabet, characters: Vec<Vec<u8>>, faults: &FaultScript) -> TextParts {
    // With SAR TLVs the messages have no UDH, but the parts are as short as with one: the handset sent them with a UDH,
    // which the SMSC has removed.
    let header = match faults.concatenation {
        ConcatenationMode::MessagePayload => return TextParts::Single(characters.concat()),
        ConcatenationMode::Udh16Bit => 7,
        ConcatenationMode::Udh8Bit | ConcatenationMode::SarTlvs => 6,
    };
    match (faults.parts, alphabet.fit_single(&characters)) {
        (Some(parts), _) => TextParts::Multiple(alphabet.split_evenly(&characters, header, parts.into())),
        (None, Some(whole)) => TextParts::Single(whole),
        (None, None) => TextParts::Multiple(alphabet.split_filled(characters, header)),
    }
}

struct TextPart {
    segment: Option<Segment>,
    octets: Vec<u8>,
}

fn concatenation_reference(reference: u16, faults: &FaultScript) -> ConcatenationReference {
    match faults.concatenation {
        ConcatenationMode::Udh8Bit => ConcatenationReference::EightBit(reference.to_be_bytes()[1]),
        ConcatenationMode::Udh16Bit | ConcatenationMode::SarTlvs | ConcatenationMode::MessagePayload => {
            ConcatenationReference::SixteenBit(reference)
        }
    }
}

fn assign_part_numbers(parts: TextParts, reference: ConcatenationReference) -> Result<Vec<TextPart>, SendError> {
    let parts = match parts {
        TextParts::Single(octets) => return Ok(vec![TextPart { segment: None, octets }]),
        TextParts::Multiple(parts) => parts,
    };
    let total = u8::try_from(parts.len()).map_err(|_| SendError::TooLong)?;
    let part = |(sequence, octets)| TextPart { segment: Some(Segment { reference, total, sequence }), octets };
    Ok((1..=total).zip(parts).map(part).collect())
}

/// Common fields of the messages of an SMS.
struct MessageTemplate<'a> {
    source: Address,
    destination: Address,
    /// Message id of a delivery receipt. `None`: the messages are an ordinary SMS.
    receipt: Option<String>,
    /// Tag and value of the TLV that names the account of the sending handset.
    account: Option<(TlvTag, u128)>,
    faults: &'a FaultScript,
}

impl MessageTemplate<'_> {
    fn build_message(&self, part: TextPart, data_coding: DataCoding) -> OutboundMessage {
        let TextPart { segment, octets: text } = part;
        let mut tlvs = Tlvs::default();
        if let Some((tag, account)) = self.account {
            tlvs = tlvs.with(tag, account.to_be_bytes());
        }
        let header = match (segment, self.faults.concatenation) {
            (
                Some(Segment { reference, total, sequence }),
                ConcatenationMode::Udh8Bit | ConcatenationMode::Udh16Bit,
            ) => udh::encode_concatenation(reference, total, sequence),
            (
                Some(Segment { reference, total, sequence }),
                ConcatenationMode::SarTlvs | ConcatenationMode::MessagePayload,
            ) => {
                tlvs = tlvs
                    .with(TlvTag::SAR_MSG_REF_NUM, reference.value().to_be_bytes())
                    .with(TlvTag::SAR_TOTAL_SEGMENTS, [total])
                    .with(TlvTag::SAR_SEGMENT_SEQNUM, [sequence]);
                vec![]
            }
            (None, _) => vec![],
        };
        let mut esm_class = if header.is_empty() { EsmClass::default() } else { EsmClass::WITH_UDH };
        if let Some(id) = &self.receipt {
            esm_class.0 |= ESM_CLASS_DELIVERY_RECEIPT;
            tlvs = tlvs
                .with(TlvTag::RECEIPTED_MESSAGE_ID, format!("{id}\0"))
                .with(TlvTag::MESSAGE_STATE, [MESSAGE_STATE_DELIVERED]);
        }
        self.wrap_payload(esm_class, data_coding, [header, text].concat(), tlvs)
    }

    fn wrap_payload(
        &self,
        esm_class: EsmClass,
        data_coding: DataCoding,
        octets: Vec<u8>,
        tlvs: Tlvs,
    ) -> OutboundMessage {
        let (source, destination) = (self.source.clone(), self.destination.clone());
        if self.faults.by_data_sm {
            let tlvs = tlvs.with(TlvTag::MESSAGE_PAYLOAD, octets);
            return OutboundMessage::DataSm(DataSm {
                source,
                destination,
                esm_class,
                data_coding,
                tlvs,
                ..DataSm::default()
            });
        }
        let message = ShortMessage { source, destination, esm_class, data_coding, ..ShortMessage::default() };
        OutboundMessage::DeliverSm(if self.faults.concatenation == ConcatenationMode::MessagePayload {
            ShortMessage { tlvs: tlvs.with(TlvTag::MESSAGE_PAYLOAD, octets), ..message }
        } else {
            ShortMessage { short_message: octets, tlvs, ..message }
        })
    }
}

/// Maximum user data of a message on the air interface.
const MAX_MESSAGE_OCTETS: usize = 140;

const REPLACEMENT_OCTET: u8 = b'?';

/// Text encoding of an SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// GSM 03.38, one septet per octet.
    Gsm,
    Ascii,
    Latin1,
    /// Big-endian UTF-16.
    Ucs2,
    /// UTF-8, declared as binary data.
    Octets,
}

impl Alphabet {
    /// Returns the alphabet that a handset would choose.
    pub(super) fn for_text(text: &str) -> Self {
        if text.chars().all(|character| gsm::encode_char(character).is_some()) { Self::Gsm } else { Self::Ucs2 }
    }

    pub(super) fn data_coding(self) -> DataCoding {
        match self {
            Self::Gsm => DataCoding::DEFAULT,
            Self::Ascii => DataCoding::ASCII,
            Self::Latin1 => DataCoding::LATIN1,
            Self::Ucs2 => DataCoding::UCS2,
            Self::Octets => DataCoding::OCTETS,
        }
    }

    /// Encodes each character separately, because parts are split between characters.
    pub(super) fn encode_characters(self, text: &str) -> Vec<Vec<u8>> {
        text.chars().map(|character| self.encode_character(character)).collect()
    }

    fn encode_character(self, character: char) -> Vec<u8> {
        match self {
            Self::Gsm => gsm::encode(character.encode_utf8(&mut [0; 4])).unwrap_or_else(|| vec![REPLACEMENT_OCTET]),
            Self::Ascii if !character.is_ascii() => vec![REPLACEMENT_OCTET],
            Self::Ascii | Self::Latin1 => vec![u8::try_from(character).unwrap_or(REPLACEMENT_OCTET)],
            Self::Ucs2 => character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()).collect(),
            Self::Octets => character.encode_utf8(&mut [0; 4]).as_bytes().to_vec(),
        }
    }

    /// Returns the maximum number of text octets in a message with a header of this length. Septets are packed on the
    /// air, but not in SMPP.
    fn capacity(self, header_octets: usize) -> usize {
        let octets = MAX_MESSAGE_OCTETS - header_octets;
        match self {
            Self::Gsm | Self::Ascii => octets * 8 / 7,
            Self::Latin1 | Self::Ucs2 | Self::Octets => octets,
        }
    }

    /// Returns the text as a single message, if it fits.
    pub(super) fn fit_single(self, characters: &[Vec<u8>]) -> Option<Vec<u8>> {
        let whole = characters.concat();
        (whole.len() <= self.capacity(0)).then_some(whole)
    }

    /// Splits the text into parts of maximum length.
    pub(super) fn split_filled(self, characters: Vec<Vec<u8>>, header_octets: usize) -> Vec<Vec<u8>> {
        let capacity = self.capacity(header_octets);
        let mut parts = vec![vec![]];
        for character in characters {
            match parts.last_mut() {
                Some(last) if last.len() + character.len() <= capacity => last.extend(character),
                _ => parts.push(character),
            }
        }
        parts
    }

    /// Splits the text into at least `min_parts` parts of similar length.
    pub(super) fn split_evenly(self, characters: &[Vec<u8>], header_octets: usize, min_parts: usize) -> Vec<Vec<u8>> {
        let capacity = self.capacity(header_octets);
        let needed = characters.iter().map(Vec::len).sum::<usize>().div_ceil(capacity);
        let mut count = min_parts.max(needed).max(1);
        loop {
            let bound = |part: usize| part * characters.len() / count;
            let parts: Vec<_> = (0..count).map(|part| characters[bound(part)..bound(part + 1)].concat()).collect();
            if parts.iter().all(|part| part.len() <= capacity) {
                return parts;
            }
            count += 1;
        }
    }
}
