//! SMS of handsets.

use std::fmt;

use ringtrue_smpp::pdu::{Address, EncodeError};
use thiserror::Error;

use super::{Account, FaultScript};

/// Sender or receiver address of an SMS.
#[derive(Clone, PartialEq, Eq)]
pub enum SmsAddress {
    /// E.164 number with `+`; sent as an international number without `+`.
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

/// Masked, to keep numbers out of logs.
impl fmt::Debug for SmsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "Number({} characters)", number.chars().count()),
            Self::Raw(address) => write!(f, "{address:?}"),
        }
    }
}

impl SmsAddress {
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

/// An SMS with its scripted faults.
#[derive(Clone, PartialEq, Eq)]
pub struct Sms {
    pub from: SmsAddress,
    pub to: SmsAddress,
    pub text: String,
    pub faults: FaultScript,
    /// Owner of the handset.
    pub account: Option<Account>,
}

/// Shows the length of the text, never the text.
impl fmt::Debug for Sms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sms")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("faults", &self.faults)
            .field("account", &self.account)
            .finish()
    }
}

impl Sms {
    /// An SMS without faults.
    pub fn new(from: impl Into<SmsAddress>, to: impl Into<SmsAddress>, text: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), text: text.into(), faults: FaultScript::default(), account: None }
    }

    #[must_use]
    pub fn with_faults(self, faults: FaultScript) -> Self {
        Self { faults, ..self }
    }

    #[must_use]
    pub fn with_account(self, account: Account) -> Self {
        Self { account: Some(account), ..self }
    }
}

/// Rejection of an SMS by the SMSC.
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
