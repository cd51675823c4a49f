//! What a handset sends, and to whom.

use std::fmt;

use ringtrue_smpp::pdu::{Address, EncodeError};
use thiserror::Error;

use super::{Account, Behaviour};

/// One end of an SMS.
#[derive(Clone, PartialEq, Eq)]
pub enum Party {
    /// A number in E.164 form, `+` and digits. It is sent as an international number, without its `+`.
    Number(String),
    /// An address as it is to stand in the PDU: short codes, names, national numbers, nonsense.
    Raw(Address),
}

impl From<&str> for Party {
    fn from(number: &str) -> Self {
        Self::Number(number.to_owned())
    }
}

impl From<String> for Party {
    fn from(number: String) -> Self {
        Self::Number(number)
    }
}

impl From<Address> for Party {
    fn from(address: Address) -> Self {
        Self::Raw(address)
    }
}

/// Masked, so that a number never reaches a log by accident.
impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "Number({} characters)", number.chars().count()),
            Self::Raw(address) => write!(f, "{address:?}"),
        }
    }
}

impl Party {
    /// What is written for a person to read.
    pub fn shown(&self) -> &str {
        match self {
            Self::Number(number) => number,
            Self::Raw(address) => &address.value,
        }
    }

    pub(super) fn address(&self) -> Result<Address, SendError> {
        match self {
            Self::Raw(address) => Ok(address.clone()),
            Self::Number(number) => {
                let digits = number.strip_prefix('+').ok_or(SendError::NotE164)?;
                let shape_is_right = (1..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
                if shape_is_right { Ok(Address::international(digits)) } else { Err(SendError::NotE164) }
            }
        }
    }
}

/// An SMS as its sender wrote it, and what befalls it on its way.
#[derive(Clone, PartialEq, Eq)]
pub struct Sms {
    pub from: Party,
    pub to: Party,
    pub text: String,
    pub behaviour: Behaviour,
    /// Whom the handset belongs to.
    pub account: Option<Account>,
}

/// Tells of the text how long it is, never what it says.
impl fmt::Debug for Sms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sms")
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("behaviour", &self.behaviour)
            .field("account", &self.account)
            .finish()
    }
}

impl Sms {
    /// An SMS that nothing befalls.
    pub fn new(from: impl Into<Party>, to: impl Into<Party>, text: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into(), text: text.into(), behaviour: Behaviour::default(), account: None }
    }

    #[must_use]
    pub fn behaving(self, behaviour: Behaviour) -> Self {
        Self { behaviour, ..self }
    }

    #[must_use]
    pub fn of_account(self, account: Account) -> Self {
        Self { account: Some(account), ..self }
    }
}

/// Why an SMS was not taken from its handset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("a number has a + and 1 to 15 digits; anything else is given as a raw address")]
    NotE164,
    #[error("the text needs more than 255 parts")]
    TooLong,
    #[error(transparent)]
    Unwritable(#[from] EncodeError),
    #[error("the queue is full")]
    QueueFull,
    #[error("the account has too many messages on their way")]
    AccountFull,
    #[error("the message centre has stopped")]
    Stopped,
}
