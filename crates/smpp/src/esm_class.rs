//! The `esm_class` field of messages.

/// The `esm_class` field: message type, and flags for UDH and reply path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EsmClass(pub u8);

/// Message type in `esm_class`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    Ordinary,
    DeliveryReceipt,
    SmeAcknowledgement,
    UserAcknowledgement,
    ConversationAbort,
    IntermediateNotification,
    Reserved,
}

impl EsmClass {
    /// Default message type, with a user data header.
    pub const WITH_UDH: Self = Self(Self::UDHI_MASK);

    const UDHI_MASK: u8 = 0x40;
    const REPLY_PATH_MASK: u8 = 0x80;
    const MESSAGE_TYPE_MASK: u8 = 0x3C;

    pub fn message_type(self) -> MessageType {
        match self.0 & Self::MESSAGE_TYPE_MASK {
            0x00 => MessageType::Ordinary,
            0x04 => MessageType::DeliveryReceipt,
            0x08 => MessageType::SmeAcknowledgement,
            0x10 => MessageType::UserAcknowledgement,
            0x18 => MessageType::ConversationAbort,
            0x20 => MessageType::IntermediateNotification,
            _ => MessageType::Reserved,
        }
    }

    pub fn has_udh(self) -> bool {
        self.0 & Self::UDHI_MASK != 0
    }

    pub fn has_reply_path(self) -> bool {
        self.0 & Self::REPLY_PATH_MASK != 0
    }
}
