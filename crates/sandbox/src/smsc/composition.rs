//! From an SMS to the messages that carry it, with everything wrong about them that was asked for.

use bytes::BytesMut;
use ringtrue_smpp::{
    pdu::{Address, DataSm, EsmClass, Pdu, Request, ShortMessage, Tag, Tlvs},
    session::{Link, RequestError},
    text::{DataCoding, Reference},
    udh::{self, Segment},
};

use super::{Alphabet, Behaviour, Carriage, SendError, Sms, behaviour::PartOrder};
use crate::random::Random;

/// `message_state` of a message that has reached its handset.
const DELIVERED: u8 = 2;

const RECEIPT: u8 = 0x04;

/// One message for the receiver, ready to be sent as often as it takes.
#[derive(Clone, Debug)]
pub(super) enum Outgoing {
    DeliverSm(ShortMessage),
    DataSm(DataSm),
}

impl Outgoing {
    pub(super) async fn over(&self, link: &Link) -> Result<(), RequestError> {
        match self {
            Self::DeliverSm(message) => link.deliver_sm(message.clone()).await.map(drop),
            Self::DataSm(message) => link.data_sm(message.clone()).await.map(drop),
        }
    }

    /// A message that cannot be written is refused to its handset, not found out about on the link.
    fn check(&self) -> Result<(), SendError> {
        let request = match self {
            Self::DeliverSm(message) => Request::DeliverSm(message.clone()),
            Self::DataSm(message) => Request::DataSm(message.clone()),
        };
        Ok(Pdu::request(1, request).encode(&mut BytesMut::new())?)
    }
}

/// The messages of an SMS, in the order in which they are to be sent.
pub(super) fn compose(
    sms: &Sms,
    reference: u16,
    account_tag: Option<Tag>,
    random: &mut Random,
) -> Result<Vec<Outgoing>, SendError> {
    let Sms { from, to, text, behaviour, account } = sms;
    let envelope = Envelope {
        source: behaviour.spoofed.as_ref().unwrap_or(from).address()?,
        destination: to.address()?,
        receipt: behaviour.receipt.then(|| format!("{reference:04X}")),
        account: account_tag.zip(account.map(|account| account.id)),
        behaviour,
    };
    let text = envelope.receipt.as_ref().map_or_else(|| text.clone(), |id| receipt_text(id, text));
    let alphabet = behaviour.alphabet.unwrap_or_else(|| Alphabet::for_text(&text));
    let mut characters = alphabet.characters(&text);
    if behaviour.garbled {
        for octet in characters.iter_mut().flatten() {
            *octet = random.octet_other_than(*octet);
        }
    }
    let mut parts = number(pieces(alphabet, characters, behaviour), reference)?;
    match behaviour.part_order {
        PartOrder::AsWritten => {}
        PartOrder::Reversed => parts.reverse(),
        PartOrder::Shuffled => random.shuffle(&mut parts),
    }
    let data_coding = behaviour.announced.unwrap_or_else(|| alphabet.data_coding());
    let arrives = |part: &Part| part.segment.is_none_or(|segment| behaviour.lost_part != Some(segment.sequence));
    let messages: Vec<_> = parts.into_iter().filter(arrives).map(|part| envelope.put(part, data_coding)).collect();
    messages.iter().try_for_each(Outgoing::check)?;
    Ok(messages)
}

/// The form of Appendix B of SMPP 3.4. The text is quoted whole: who takes a receipt for a message is to be found out.
fn receipt_text(id: &str, text: &str) -> String {
    // Receipts have dates; nobody reads these.
    let dates = "submit date:2601010000 done date:2601010000";
    format!("id:{id} sub:001 dlvrd:001 {dates} stat:DELIVRD err:000 text:{text}")
}

/// What is to be numbered, or one piece that is not.
enum Pieces {
    Whole(Vec<u8>),
    Several(Vec<Vec<u8>>),
}

fn pieces(alphabet: Alphabet, characters: Vec<Vec<u8>>, behaviour: &Behaviour) -> Pieces {
    // With SAR, the centre has taken the handset's header out; the text was cut to make room for it all the same.
    let header = match behaviour.carriage {
        Carriage::Payload => return Pieces::Whole(characters.concat()),
        Carriage::WideHeader => 7,
        Carriage::Header | Carriage::SarTlvs => 6,
    };
    match (behaviour.parts, alphabet.whole(&characters)) {
        (Some(parts), _) => Pieces::Several(alphabet.even(&characters, header, parts.into())),
        (None, Some(whole)) => Pieces::Whole(whole),
        (None, None) => Pieces::Several(alphabet.filled(characters, header)),
    }
}

struct Part {
    segment: Option<Segment>,
    octets: Vec<u8>,
}

fn number(pieces: Pieces, reference: u16) -> Result<Vec<Part>, SendError> {
    let pieces = match pieces {
        Pieces::Whole(octets) => return Ok(vec![Part { segment: None, octets }]),
        Pieces::Several(pieces) => pieces,
    };
    let total = u8::try_from(pieces.len()).map_err(|_| SendError::TooLong)?;
    let part = |(sequence, octets)| Part { segment: Some(Segment { reference, total, sequence }), octets };
    Ok((1..=total).zip(pieces).map(part).collect())
}

/// What all messages of an SMS have in common.
struct Envelope<'a> {
    source: Address,
    destination: Address,
    /// The id of the message that a receipt is for.
    receipt: Option<String>,
    /// Whom the handset belongs to, and the tag under which that is told.
    account: Option<(Tag, u128)>,
    behaviour: &'a Behaviour,
}

impl Envelope<'_> {
    fn put(&self, part: Part, data_coding: DataCoding) -> Outgoing {
        let Part { segment, octets: text } = part;
        let mut tlvs = Tlvs::default();
        if let Some((tag, account)) = self.account {
            tlvs = tlvs.with(tag, account.to_be_bytes());
        }
        let header = match (segment, self.behaviour.carriage) {
            (Some(Segment { reference, total, sequence }), Carriage::Header) => {
                let [_, reference] = reference.to_be_bytes();
                udh::concatenation(Reference::Eight(reference), total, sequence)
            }
            (Some(Segment { reference, total, sequence }), Carriage::WideHeader) => {
                udh::concatenation(Reference::Sixteen(reference), total, sequence)
            }
            (Some(Segment { reference, total, sequence }), Carriage::SarTlvs | Carriage::Payload) => {
                tlvs = tlvs
                    .with(Tag::SAR_MSG_REF_NUM, reference.to_be_bytes())
                    .with(Tag::SAR_TOTAL_SEGMENTS, [total])
                    .with(Tag::SAR_SEGMENT_SEQNUM, [sequence]);
                vec![]
            }
            (None, _) => vec![],
        };
        let mut esm_class = if header.is_empty() { EsmClass::default() } else { EsmClass::WITH_HEADER };
        if let Some(id) = &self.receipt {
            esm_class.0 |= RECEIPT;
            tlvs = tlvs.with(Tag::RECEIPTED_MESSAGE_ID, format!("{id}\0")).with(Tag::MESSAGE_STATE, [DELIVERED]);
        }
        self.seal(esm_class, data_coding, [header, text].concat(), tlvs)
    }

    fn seal(&self, esm_class: EsmClass, data_coding: DataCoding, octets: Vec<u8>, tlvs: Tlvs) -> Outgoing {
        let (source, destination) = (self.source.clone(), self.destination.clone());
        if self.behaviour.by_data_sm {
            let tlvs = tlvs.with(Tag::MESSAGE_PAYLOAD, octets);
            return Outgoing::DataSm(DataSm { source, destination, esm_class, data_coding, tlvs, ..DataSm::default() });
        }
        let message = ShortMessage { source, destination, esm_class, data_coding, ..ShortMessage::default() };
        Outgoing::DeliverSm(if self.behaviour.carriage == Carriage::Payload {
            ShortMessage { tlvs: tlvs.with(Tag::MESSAGE_PAYLOAD, octets), ..message }
        } else {
            ShortMessage { short_message: octets, tlvs, ..message }
        })
    }
}
