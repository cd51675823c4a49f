//! What can befall an SMS on its way. Everything can be combined; nothing befalls it by default.

use std::time::Duration;

use ringtrue_smpp::text::DataCoding;

use super::{Alphabet, Party};

/// How the parts of a longer text are told to belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carriage {
    /// By a user data header with a reference of eight bits, as handsets do.
    #[default]
    Header,
    /// By a user data header with a reference of sixteen bits.
    WideHeader,
    /// By the TLVs `sar_msg_ref_num`, `sar_total_segments` and `sar_segment_seqnum`.
    SarTlvs,
    /// Not at all: the TLV `message_payload` holds the whole text, however short or long.
    Payload,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartOrder {
    #[default]
    AsWritten,
    Reversed,
    Shuffled,
}

/// The faults of one SMS.
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own, and all combine")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    pub(super) late: Duration,
    pub(super) extra_copies: u32,
    pub(super) spoofed: Option<Party>,
    pub(super) garbled: bool,
    pub(super) alphabet: Option<Alphabet>,
    pub(super) announced: Option<DataCoding>,
    pub(super) carriage: Carriage,
    pub(super) parts: Option<u8>,
    pub(super) part_order: PartOrder,
    pub(super) lost_part: Option<u8>,
    pub(super) scattered: bool,
    pub(super) by_data_sm: bool,
    pub(super) links_to_lose: u32,
    pub(super) answers_to_lose: u32,
    pub(super) receipt: bool,
}

impl Behaviour {
    pub fn new() -> Self {
        Self::default()
    }

    /// It sets out only after a while.
    #[must_use]
    pub fn late(self, late: Duration) -> Self {
        Self { late, ..self }
    }

    /// It arrives so many times more than once, with all its parts.
    #[must_use]
    pub fn duplicated(self, extra_copies: u32) -> Self {
        Self { extra_copies, ..self }
    }

    /// It says that it is from someone else.
    #[must_use]
    pub fn spoofed(self, sender: impl Into<Party>) -> Self {
        Self { spoofed: Some(sender.into()), ..self }
    }

    /// Every octet of its text is another one. Headers and lengths stay right.
    #[must_use]
    pub fn garbled(self) -> Self {
        Self { garbled: true, ..self }
    }

    /// It is written in this alphabet; characters that the alphabet lacks become question marks. Without this, it is
    /// the GSM alphabet if that has them all, else UCS-2.
    #[must_use]
    pub fn coded(self, alphabet: Alphabet) -> Self {
        Self { alphabet: Some(alphabet), ..self }
    }

    /// Its field `data_coding` says this, whatever the text is written in.
    #[must_use]
    pub fn announced_as(self, data_coding: DataCoding) -> Self {
        Self { announced: Some(data_coding), ..self }
    }

    /// How its parts are told to belong together.
    #[must_use]
    pub fn carried_by(self, carriage: Carriage) -> Self {
        Self { carriage, ..self }
    }

    /// It goes in so many parts, or more if it is too long for that; a single one is still numbered. Parts may be
    /// empty. Of no effect with [`Carriage::Payload`].
    #[must_use]
    pub fn split_into(self, parts: u8) -> Self {
        Self { parts: Some(parts.max(1)), ..self }
    }

    /// Its last part comes first.
    #[must_use]
    pub fn parts_reversed(self) -> Self {
        Self { part_order: PartOrder::Reversed, ..self }
    }

    /// Its parts come in an order that the seed decides.
    #[must_use]
    pub fn parts_shuffled(self) -> Self {
        Self { part_order: PartOrder::Shuffled, ..self }
    }

    /// The part with this number, counted from one, never comes.
    #[must_use]
    pub fn without_part(self, sequence: u8) -> Self {
        Self { lost_part: Some(sequence), ..self }
    }

    /// Each part goes over the next bind, rather than all over one.
    #[must_use]
    pub fn scattered(self) -> Self {
        Self { scattered: true, ..self }
    }

    /// It comes by `data_sm` instead of `deliver_sm`.
    #[must_use]
    pub fn by_data_sm(self) -> Self {
        Self { by_data_sm: true, ..self }
    }

    /// So many times the receiver has answered, and its link breaks before the answer has been heard: it gets the
    /// message again, over the next link.
    #[must_use]
    pub fn losing_links(self, times: u32) -> Self {
        Self { links_to_lose: times, ..self }
    }

    /// So many times the receiver's answer counts as lost with the link, and the message is sent again. The link stays, so
    /// that no other SMS is affected.
    #[must_use]
    pub fn losing_answers(self, times: u32) -> Self {
        Self { answers_to_lose: times, ..self }
    }

    /// It is no message but the receipt for one, with the text quoted in it.
    #[must_use]
    pub fn as_receipt(self) -> Self {
        Self { receipt: true, ..self }
    }
}
