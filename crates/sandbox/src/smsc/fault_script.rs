//! Scripted faults of an SMS.

use std::time::Duration;

use ringtrue_smpp::text::DataCoding;

use super::{Alphabet, SmsAddress};

/// How the parts of a long text are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConcatenationMode {
    /// UDH with an 8-bit reference, as handsets do.
    #[default]
    Udh8Bit,
    /// UDH with a 16-bit reference.
    Udh16Bit,
    /// TLVs `sar_msg_ref_num`, `sar_total_segments` and `sar_segment_seqnum`.
    SarTlvs,
    /// No parts: the TLV `message_payload` holds the whole text.
    MessagePayload,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartOrder {
    #[default]
    Original,
    Reversed,
    Shuffled,
}

/// Faults of one SMS. All can be combined; the default has none.
#[expect(clippy::struct_excessive_bools, reason = "independent faults")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultScript {
    pub(super) delay: Duration,
    pub(super) extra_copies: u32,
    pub(super) spoofed_sender: Option<SmsAddress>,
    pub(super) garbled: bool,
    pub(super) alphabet: Option<Alphabet>,
    pub(super) declared_coding: Option<DataCoding>,
    pub(super) concatenation: ConcatenationMode,
    pub(super) parts: Option<u8>,
    pub(super) part_order: PartOrder,
    pub(super) lost_part: Option<u8>,
    pub(super) spread_over_binds: bool,
    pub(super) by_data_sm: bool,
    pub(super) connection_drops: u32,
    pub(super) lost_responses: u32,
    pub(super) delivery_receipt: bool,
}

impl FaultScript {
    pub fn new() -> Self {
        Self::default()
    }

    /// Delays the first attempt.
    #[must_use]
    pub fn delayed_by(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Delivers additional copies of all parts.
    #[must_use]
    pub fn duplicated(self, extra_copies: u32) -> Self {
        Self { extra_copies, ..self }
    }

    /// Replaces the sender address.
    #[must_use]
    pub fn with_spoofed_sender(self, sender: impl Into<SmsAddress>) -> Self {
        Self { spoofed_sender: Some(sender.into()), ..self }
    }

    /// Replaces every octet of the text; headers and lengths stay valid.
    #[must_use]
    pub fn garbled(self) -> Self {
        Self { garbled: true, ..self }
    }

    /// Encodes the text in this alphabet; missing characters become question marks. Default: the GSM alphabet if it has
    /// all characters, else UCS-2.
    #[must_use]
    pub fn encoded_in(self, alphabet: Alphabet) -> Self {
        Self { alphabet: Some(alphabet), ..self }
    }

    /// Declares this `data_coding`, independent of the encoding.
    #[must_use]
    pub fn declared_as(self, data_coding: DataCoding) -> Self {
        Self { declared_coding: Some(data_coding), ..self }
    }

    #[must_use]
    pub fn concatenated_by(self, concatenation: ConcatenationMode) -> Self {
        Self { concatenation, ..self }
    }

    /// Splits the text into at least this number of parts, which may be empty; a single part is still numbered. No
    /// effect with [`ConcatenationMode::MessagePayload`].
    #[must_use]
    pub fn split_into(self, parts: u8) -> Self {
        Self { parts: Some(parts.max(1)), ..self }
    }

    #[must_use]
    pub fn parts_reversed(self) -> Self {
        Self { part_order: PartOrder::Reversed, ..self }
    }

    /// The seed determines the order.
    #[must_use]
    pub fn parts_shuffled(self) -> Self {
        Self { part_order: PartOrder::Shuffled, ..self }
    }

    /// Omits the part with this number, counted from 1.
    #[must_use]
    pub fn without_part(self, sequence: u8) -> Self {
        Self { lost_part: Some(sequence), ..self }
    }

    /// Sends each part over the next bind, instead of all over one.
    #[must_use]
    pub fn spread_over_binds(self) -> Self {
        Self { spread_over_binds: true, ..self }
    }

    /// Uses `data_sm` instead of `deliver_sm`.
    #[must_use]
    pub fn by_data_sm(self) -> Self {
        Self { by_data_sm: true, ..self }
    }

    /// Drops the connection after the receiver has responded, and ignores the response, this number of times. The
    /// message is sent again over the next connection.
    #[must_use]
    pub fn dropping_connections(self, times: u32) -> Self {
        Self { connection_drops: times, ..self }
    }

    /// Ignores the receiver's response this number of times, and sends the message again. The connection stays open, so
    /// that other SMS are not affected.
    #[must_use]
    pub fn losing_responses(self, times: u32) -> Self {
        Self { lost_responses: times, ..self }
    }

    /// Sends a delivery receipt that quotes the text, instead of a message.
    #[must_use]
    pub fn as_delivery_receipt(self) -> Self {
        Self { delivery_receipt: true, ..self }
    }
}
