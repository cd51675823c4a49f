//! Protocol constants: command ids, statuses, TLV tags, TON and NPI, with their names in the specification.
//!
//! Newtypes rather than enums, because a peer may send any value.

use std::fmt;

macro_rules! named_constants {
    ($(#[$doc:meta])* $type:ident($int:ty) { $($(#[$note:meta])* $name:ident = $value:literal $spec_name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub $int);

        impl $type {
            $($(#[$note])* pub const $name: Self = Self($value);)*

            /// Returns the name in the specification. `None`: the value is not one of these constants.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($spec_name),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

named_constants! {
    /// `command_id` of a PDU.
    CommandId(u32) {
        BIND_RECEIVER = 0x01 "bind_receiver";
        BIND_TRANSMITTER = 0x02 "bind_transmitter";
        QUERY_SM = 0x03 "query_sm";
        SUBMIT_SM = 0x04 "submit_sm";
        DELIVER_SM = 0x05 "deliver_sm";
        UNBIND = 0x06 "unbind";
        REPLACE_SM = 0x07 "replace_sm";
        CANCEL_SM = 0x08 "cancel_sm";
        BIND_TRANSCEIVER = 0x09 "bind_transceiver";
        OUTBIND = 0x0B "outbind";
        ENQUIRE_LINK = 0x15 "enquire_link";
        SUBMIT_MULTI = 0x21 "submit_multi";
        ALERT_NOTIFICATION = 0x102 "alert_notification";
        DATA_SM = 0x103 "data_sm";
        GENERIC_NACK = 0x8000_0000 "generic_nack";
        BIND_RECEIVER_RESP = 0x8000_0001 "bind_receiver_resp";
        BIND_TRANSMITTER_RESP = 0x8000_0002 "bind_transmitter_resp";
        SUBMIT_SM_RESP = 0x8000_0004 "submit_sm_resp";
        DELIVER_SM_RESP = 0x8000_0005 "deliver_sm_resp";
        UNBIND_RESP = 0x8000_0006 "unbind_resp";
        BIND_TRANSCEIVER_RESP = 0x8000_0009 "bind_transceiver_resp";
        ENQUIRE_LINK_RESP = 0x8000_0015 "enquire_link_resp";
        DATA_SM_RESP = 0x8000_0103 "data_sm_resp";
    }
}

impl CommandId {
    const RESPONSE_MASK: u32 = 0x8000_0000;

    /// Whether the PDU is a response, which includes `generic_nack`.
    pub fn is_response(self) -> bool {
        self.0 & Self::RESPONSE_MASK != 0
    }
}

named_constants! {
    /// `command_status` of a response.
    CommandStatus(u32) {
        OK = 0x00 "ESME_ROK";
        INVALID_MESSAGE_LENGTH = 0x01 "ESME_RINVMSGLEN";
        INVALID_COMMAND_LENGTH = 0x02 "ESME_RINVCMDLEN";
        INVALID_COMMAND_ID = 0x03 "ESME_RINVCMDID";
        /// The operation is not allowed in this state of the session.
        INCORRECT_BIND_STATUS = 0x04 "ESME_RINVBNDSTS";
        ALREADY_BOUND = 0x05 "ESME_RALYBND";
        SYSTEM_ERROR = 0x08 "ESME_RSYSERR";
        INVALID_SOURCE_ADDRESS = 0x0A "ESME_RINVSRCADR";
        INVALID_DESTINATION_ADDRESS = 0x0B "ESME_RINVDSTADR";
        INVALID_MESSAGE_ID = 0x0C "ESME_RINVMSGID";
        BIND_FAILED = 0x0D "ESME_RBINDFAIL";
        INVALID_PASSWORD = 0x0E "ESME_RINVPASWD";
        INVALID_SYSTEM_ID = 0x0F "ESME_RINVSYSID";
        MESSAGE_QUEUE_FULL = 0x14 "ESME_RMSGQFUL";
        INVALID_SERVICE_TYPE = 0x15 "ESME_RINVSERTYP";
        INVALID_ESM_CLASS = 0x43 "ESME_RINVESMCLASS";
        SUBMIT_FAILED = 0x45 "ESME_RSUBMITFAIL";
        INVALID_SYSTEM_TYPE = 0x53 "ESME_RINVSYSTYP";
        THROTTLED = 0x58 "ESME_RTHROTTLED";
        INVALID_SCHEDULE = 0x61 "ESME_RINVSCHED";
        INVALID_VALIDITY = 0x62 "ESME_RINVEXPIRY";
        /// Temporary error of the receiver; the SMSC should retry later.
        RECEIVER_TEMPORARY_ERROR = 0x64 "ESME_RX_T_APPN";
        /// Permanent error of the receiver; the SMSC should not retry.
        RECEIVER_PERMANENT_ERROR = 0x65 "ESME_RX_P_APPN";
        /// The receiver rejects the message.
        RECEIVER_REJECTED = 0x66 "ESME_RX_R_APPN";
        INVALID_TLV_STREAM = 0xC0 "ESME_RINVOPTPARSTREAM";
        TLV_NOT_ALLOWED = 0xC1 "ESME_ROPTPARNOTALLWD";
        INVALID_TLV_LENGTH = 0xC2 "ESME_RINVPARLEN";
        MISSING_TLV = 0xC3 "ESME_RMISSINGOPTPARAM";
        INVALID_TLV_VALUE = 0xC4 "ESME_RINVOPTPARAMVAL";
        DELIVERY_FAILURE = 0xFE "ESME_RDELIVERYFAILURE";
        UNKNOWN_ERROR = 0xFF "ESME_RUNKNOWNERR";
    }
}

impl CommandStatus {
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}

named_constants! {
    /// Tag of a TLV.
    TlvTag(u16) {
        SOURCE_NETWORK_TYPE = 0x000E "source_network_type";
        RECEIPTED_MESSAGE_ID = 0x001E "receipted_message_id";
        USER_MESSAGE_REFERENCE = 0x0204 "user_message_reference";
        SAR_MSG_REF_NUM = 0x020C "sar_msg_ref_num";
        SAR_TOTAL_SEGMENTS = 0x020E "sar_total_segments";
        SAR_SEGMENT_SEQNUM = 0x020F "sar_segment_seqnum";
        SC_INTERFACE_VERSION = 0x0210 "sc_interface_version";
        MS_AVAILABILITY_STATUS = 0x0422 "ms_availability_status";
        NETWORK_ERROR_CODE = 0x0423 "network_error_code";
        MESSAGE_PAYLOAD = 0x0424 "message_payload";
        MESSAGE_STATE = 0x0427 "message_state";
    }
}

named_constants! {
    /// Type of number of an address.
    Ton(u8) {
        UNKNOWN = 0 "unknown";
        INTERNATIONAL = 1 "international";
        NATIONAL = 2 "national";
        NETWORK_SPECIFIC = 3 "network_specific";
        SUBSCRIBER = 4 "subscriber";
        ALPHANUMERIC = 5 "alphanumeric";
        ABBREVIATED = 6 "abbreviated";
    }
}

named_constants! {
    /// Numbering plan indicator of an address.
    Npi(u8) {
        UNKNOWN = 0 "unknown";
        ISDN = 1 "isdn";
        DATA = 3 "data";
        TELEX = 4 "telex";
        LAND_MOBILE = 6 "land_mobile";
        NATIONAL = 8 "national";
        PRIVATE = 9 "private";
        ERMES = 10 "ermes";
        INTERNET = 14 "internet";
        WAP = 18 "wap";
    }
}
