//! SMS that simulated handsets send, and the faults that a test or user can script for them.

use std::time::Duration;

use derive_setters::Setters;
use ringtrue_smpp::{
    pdu::{Address, EncodeError, Npi, Ton},
    text::DataCoding,
};
use thiserror::Error;

use super::{Alphabet, QueueAccount};

/// Sender or receiver address of an SMS. `Debug` shows only its length, to keep numbers out of logs.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum SmsAddress {
    /// E.164 number with `+`; sent as an international number without `+`.
    #[debug("Number({} characters)", _0.chars().count())]
    Number(String),
    /// Raw address of the PDU: short code, alphanumeric sender, national number, or an invalid one.
    Raw(Address),
}

impl From<&str> for SmsAddress {
    fn from(number: &str) -> Self {
        Self::Number(number.to_owned())
    }
}

impl From<String> for SmsAddress {
    fn from(number: String) -> Self {
        Self::Number(number)
    }
}

impl From<Address> for SmsAddress {
    fn from(address: Address) -> Self {
        Self::Raw(address)
    }
}

impl SmsAddress {
    /// Parses a sender that cannot be attributed to a subscriber. An empty text is a withheld sender, three to eight
    /// digits are a short code, and up to eleven letters, digits, spaces and `-._&` with a letter are an alphanumeric
    /// sender. `None`: any other text.
    pub fn parse_unattributed(text: &str) -> Option<Self> {
        let is_alphanumeric = |character: char| character.is_ascii_alphanumeric() || " -._&".contains(character);
        let ton = match text.len() {
            0 => Ton::UNKNOWN,
            3..=8 if text.bytes().all(|byte| byte.is_ascii_digit()) => Ton::NETWORK_SPECIFIC,
            1..=11 if text.chars().all(is_alphanumeric) && text.contains(|c: char| c.is_ascii_alphabetic()) => {
                Ton::ALPHANUMERIC
            }
            _ => return None,
        };
        Some(Self::Raw(Address { ton, npi: Npi::UNKNOWN, value: text.to_owned() }))
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Number(number) => number,
            Self::Raw(address) => &address.value,
        }
    }

    pub(super) fn to_smpp_address(&self) -> Result<Address, SendError> {
        match self {
            Self::Raw(address) => Ok(address.clone()),
            Self::Number(number) => {
                let digits = number.strip_prefix('+').ok_or(SendError::NotE164)?;
                let is_valid = (1..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
                if is_valid { Ok(Address::international(digits)) } else { Err(SendError::NotE164) }
            }
        }
    }
}

/// An SMS with its scripted faults. `Debug` shows the length of the text, never the text.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct Sms {
    pub from: SmsAddress,
    pub to: SmsAddress,
    #[debug("{} characters", text.chars().count())]
    pub text: String,
    pub faults: FaultScript,
    /// Account that owns the sending handset, whose limits in the queue apply. `None`: only the queue's total limit
    /// applies.
    pub account: Option<QueueAccount>,
}

impl Sms {
    /// Creates an SMS without faults.
    pub fn new(from: impl Into<SmsAddress>, to: impl Into<SmsAddress>, text: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), text: text.into(), faults: FaultScript::default(), account: None }
    }

    #[must_use]
    pub fn with_faults(self, faults: FaultScript) -> Self {
        Self { faults, ..self }
    }

    #[must_use]
    pub fn with_account(self, account: QueueAccount) -> Self {
        Self { account: Some(account), ..self }
    }
}

/// Why the SMSC rejects an SMS.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("invalid E.164 number: must be + and 1 to 15 digits; use a raw address for others")]
    NotE164,
    #[error("text needs more than 255 parts")]
    TooLong,
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("SMS queue is full")]
    QueueFull,
    #[error("account has too many queued SMS")]
    AccountFull,
    #[error("SMSC has stopped")]
    Stopped,
}

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

/// Faults to simulate in the delivery of one SMS. All can be combined. The default has none.
#[expect(clippy::struct_excessive_bools, reason = "independent faults")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Setters)]
#[setters(strip_option)]
pub struct FaultScript {
    /// Delays the first attempt.
    #[setters(rename = "delayed_by")]
    pub(super) delay: Duration,
    /// Delivers additional copies of all parts.
    #[setters(rename = "duplicated")]
    pub(super) extra_copies: u32,
    /// Replaces the sender address.
    #[setters(rename = "with_spoofed_sender", into)]
    pub(super) spoofed_sender: Option<SmsAddress>,
    /// Replaces every octet of the text; headers and lengths stay valid.
    #[setters(bool)]
    pub(super) garbled: bool,
    /// Encodes the text in this alphabet; missing characters become question marks. Default: the GSM alphabet if it has
    /// all characters, else UCS-2.
    #[setters(rename = "encoded_in")]
    pub(super) alphabet: Option<Alphabet>,
    /// Declares this `data_coding`, independent of the encoding.
    #[setters(rename = "declared_as")]
    pub(super) declared_coding: Option<DataCoding>,
    #[setters(rename = "concatenated_by")]
    pub(super) concatenation: ConcatenationMode,
    #[setters(skip)]
    pub(super) parts: Option<u8>,
    #[setters(skip)]
    pub(super) part_order: PartOrder,
    /// Omits the part with this number, counted from 1.
    #[setters(rename = "without_part")]
    pub(super) lost_part: Option<u8>,
    /// Sends each part over the next bind, instead of all over one.
    #[setters(bool)]
    pub(super) spread_over_binds: bool,
    /// Uses `data_sm` instead of `deliver_sm`.
    #[setters(bool)]
    pub(super) by_data_sm: bool,
    /// Drops the connection after the receiver has responded, and ignores the response, this number of times. The
    /// message is sent again over the next connection.
    #[setters(rename = "dropping_connections")]
    pub(super) connection_drops: u32,
    /// Ignores the receiver's response this number of times, and sends the message again. The connection stays open, so
    /// that other SMS are not affected.
    #[setters(rename = "losing_responses")]
    pub(super) lost_responses: u32,
    /// Sends a delivery receipt that quotes the text, instead of a message.
    #[setters(rename = "as_delivery_receipt", bool)]
    pub(super) delivery_receipt: bool,
}

impl FaultScript {
    pub fn new() -> Self {
        Self::default()
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

    /// Sends the parts in a random order, which the seed determines.
    #[must_use]
    pub fn parts_shuffled(self) -> Self {
        Self { part_order: PartOrder::Shuffled, ..self }
    }
}
