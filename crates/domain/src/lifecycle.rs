//! Where a check stands, whatever its product.
//!
//! A check is open until it ends, and it ends once. Only this module makes a [`Concluded`], the one thing that a store
//! records an end from, and a callback is rendered from an [`Ending`], so a callback for an open check cannot be written.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{
    id::identifier,
    network::NetworkId,
    phone::NumberTail,
    product::Product,
    tenancy::{Mode, ProjectId},
};

identifier!(
    /// Names a check of any product.
    CheckId
);

/// Where a check stands. `V` is what its product says once it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle<V> {
    Open(Open),
    Concluded { outcome: Outcome<V>, at: Timestamp },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    Accepted,
    /// Part of what the check waits for has been seen.
    Pending {
        since: Timestamp,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<V> {
    Completed(V),
    Expired,
    Error(ErrorCode),
}

/// The status as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Accepted,
    Pending,
    Completed,
    Expired,
    Error,
}

impl Status {
    pub const ALL: [Status; 5] = [Status::Accepted, Status::Pending, Status::Completed, Status::Expired, Status::Error];
    /// The names, for filters.
    pub const NAMES: [&'static str; 5] = ["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Accepted => "ACCEPTED",
            Status::Pending => "PENDING",
            Status::Completed => "COMPLETED",
            Status::Expired => "EXPIRED",
            Status::Error => "ERROR",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a status")]
pub struct NotAStatus;

impl FromStr for Status {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or(NotAStatus)
    }
}

/// Why a check ended in an error. Grows additively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// Our own fault.
    InternalError,
    /// The device does not come from a mobile network.
    NotMobileIp,
    /// The device comes from another address than the one that was announced.
    IpMismatch,
    /// The device comes from another network than the number's.
    IpMsisdnMismatch,
    /// No operator that we reach serves the device or the number.
    MnoNotSupported,
    /// The operator is reached, but not by sending devices to it.
    MnoRedirectUnsupported,
    /// The operator did not answer in time.
    MnoTimeout,
    /// The operator cannot tell whose the device or the number is.
    MnoUserNotFound,
    /// The operator's answer makes no sense.
    MnoResponseError,
    /// The operator failed, or does not let us ask.
    MnoServerError,
    /// The operator has, or may give, no data.
    MnoNoDataAvailable,
    /// Too many wrong codes were submitted.
    CodeAttemptsExceeded,
}

impl ErrorCode {
    pub const ALL: [ErrorCode; 12] = [
        ErrorCode::InternalError,
        ErrorCode::NotMobileIp,
        ErrorCode::IpMismatch,
        ErrorCode::IpMsisdnMismatch,
        ErrorCode::MnoNotSupported,
        ErrorCode::MnoRedirectUnsupported,
        ErrorCode::MnoTimeout,
        ErrorCode::MnoUserNotFound,
        ErrorCode::MnoResponseError,
        ErrorCode::MnoServerError,
        ErrorCode::MnoNoDataAvailable,
        ErrorCode::CodeAttemptsExceeded,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InternalError => "internal_error",
            ErrorCode::NotMobileIp => "not_mobile_ip",
            ErrorCode::IpMismatch => "ip_mismatch",
            ErrorCode::IpMsisdnMismatch => "ip_msisdn_mismatch",
            ErrorCode::MnoNotSupported => "mno_not_supported",
            ErrorCode::MnoRedirectUnsupported => "mno_redirect_unsupported",
            ErrorCode::MnoTimeout => "mno_timeout",
            ErrorCode::MnoUserNotFound => "mno_user_not_found",
            ErrorCode::MnoResponseError => "mno_response_error",
            ErrorCode::MnoServerError => "mno_server_error",
            ErrorCode::MnoNoDataAvailable => "mno_no_data_available",
            ErrorCode::CodeAttemptsExceeded => "code_attempts_exceeded",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an error code of a check")]
pub struct NotAnErrorCode;

impl FromStr for ErrorCode {
    type Err = NotAnErrorCode;

    fn from_str(text: &str) -> Result<Self, NotAnErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.as_str() == text).ok_or(NotAnErrorCode)
    }
}

/// The caller's own name for a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference(String);

impl Reference {
    pub const MAX_CHARS: usize = 50;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    #[error("a reference has at most {} characters", Reference::MAX_CHARS)]
    TooLong,
    #[error("a reference must not contain the character U+0000")]
    Nul,
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            Err(InvalidReference::TooLong)
        } else if text.contains('\0') {
            Err(InvalidReference::Nul)
        } else {
            Ok(Reference(text.to_owned()))
        }
    }
}

/// A keyed hash of a phone number: enough to compare it by, useless without the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NumberHash(pub [u8; 32]);

impl fmt::Debug for NumberHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NumberHash(…)")
    }
}

/// Bytes that only the holder of the seal keys can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(pub Vec<u8>);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// The number that a check is about, as far as it is kept. Erased some time after the check has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedNumber {
    pub hash: NumberHash,
    pub tail: NumberTail,
}

/// A check of a product whose verdict is `V`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check<V> {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    pub mode: Mode,
    pub network: Option<NetworkId>,
    /// `None` once it has been erased.
    pub claimed: Option<ClaimedNumber>,
    pub reference: Option<Reference>,
    /// Where the callback goes.
    pub callback_url: Option<Sealed>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub state: Lifecycle<V>,
}

/// Someone else was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the check has ended already")]
pub struct AlreadyConcluded;

impl<V: Clone> Check<V> {
    pub fn status(&self) -> Status {
        match &self.state {
            Lifecycle::Open(Open::Accepted) => Status::Accepted,
            Lifecycle::Open(Open::Pending { .. }) => Status::Pending,
            Lifecycle::Concluded { outcome, .. } => outcome.status(),
        }
    }

    pub fn updated_at(&self) -> Option<Timestamp> {
        match self.state {
            Lifecycle::Open(Open::Accepted) => None,
            Lifecycle::Open(Open::Pending { since }) => Some(since),
            Lifecycle::Concluded { at, .. } => Some(at),
        }
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        match self.state {
            Lifecycle::Concluded { outcome: Outcome::Error(code), .. } => Some(code),
            _ => None,
        }
    }

    pub fn verdict(&self) -> Option<&V> {
        match &self.state {
            Lifecycle::Concluded { outcome: Outcome::Completed(verdict), .. } => Some(verdict),
            _ => None,
        }
    }

    /// Open, though its time is up: nobody has recorded its end yet.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        matches!(self.state, Lifecycle::Open(_)) && self.expires_at <= now
    }

    /// Ends the check because its time is up. Its end is the deadline, whenever somebody comes to record it.
    pub fn expire(self) -> Result<Concluded<V>, AlreadyConcluded> {
        let deadline = self.expires_at;
        self.conclude(Outcome::Expired, deadline)
    }

    /// Ends the check with an outcome that came `at` an instant, unless its time was up by then.
    pub(crate) fn end(self, outcome: Outcome<V>, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        if self.expires_at <= at { self.expire() } else { self.conclude(outcome, at) }
    }

    fn conclude(mut self, outcome: Outcome<V>, at: Timestamp) -> Result<Concluded<V>, AlreadyConcluded> {
        match self.state {
            Lifecycle::Concluded { .. } => Err(AlreadyConcluded),
            Lifecycle::Open(_) => {
                self.state = Lifecycle::Concluded { outcome, at };
                Ok(Concluded { check: self })
            }
        }
    }
}

impl<V> Outcome<V> {
    pub fn status(&self) -> Status {
        match self {
            Outcome::Completed(_) => Status::Completed,
            Outcome::Expired => Status::Expired,
            Outcome::Error(_) => Status::Error,
        }
    }
}

/// A check that has just reached its end, still to be recorded.
#[must_use = "a conclusion that is not recorded never reaches the caller"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluded<V> {
    check: Check<V>,
}

impl<V> Concluded<V> {
    pub fn check(&self) -> &Check<V> {
        &self.check
    }

    pub fn into_check(self) -> Check<V> {
        self.check
    }
}

/// What all verdicts have in common for those who only keep and count them.
pub trait Verdict {
    /// Whether the number was the claimed one, in products that say so.
    fn matched(&self) -> Option<bool>;
}

/// The end of a check of any product, as it is recorded: only a [`Concluded`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    check: CheckId,
    project: ProjectId,
    product: Product,
    network: Option<NetworkId>,
    created_at: Timestamp,
    status: Status,
    matched: Option<bool>,
    error_code: Option<ErrorCode>,
    at: Timestamp,
}

impl<V: Verdict + Clone> From<&Concluded<V>> for Ending {
    fn from(concluded: &Concluded<V>) -> Self {
        let check = concluded.check();
        Ending {
            check: check.id,
            project: check.project,
            product: check.product,
            network: check.network.clone(),
            created_at: check.created_at,
            status: check.status(),
            matched: check.verdict().and_then(Verdict::matched),
            error_code: check.error_code(),
            at: check.updated_at().unwrap_or(check.expires_at),
        }
    }
}

impl Ending {
    pub fn check(&self) -> CheckId {
        self.check
    }

    pub fn project(&self) -> ProjectId {
        self.project
    }

    pub fn product(&self) -> Product {
        self.product
    }

    pub fn network(&self) -> Option<&NetworkId> {
        self.network.as_ref()
    }

    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn matched(&self) -> Option<bool> {
        self.matched
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        self.error_code
    }

    pub fn at(&self) -> Timestamp {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for (status, name) in Status::ALL.into_iter().zip(Status::NAMES) {
            assert_eq!(status.as_str(), name);
            assert_eq!(name.parse(), Ok(status));
        }
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
        }
    }

    #[test]
    fn a_reference_is_counted_in_characters() {
        assert!("😀".repeat(50).parse::<Reference>().is_ok());
        assert_eq!("😀".repeat(51).parse::<Reference>(), Err(InvalidReference::TooLong));
        assert_eq!("a\0b".parse::<Reference>(), Err(InvalidReference::Nul));
        assert!("<script>\r\n=HYPERLINK()\u{202e}".parse::<Reference>().is_ok());
    }
}
