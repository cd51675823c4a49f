//! Causes of a failed verification, each with a machine-readable name and an explanation.

use std::fmt;

use jiff::SignedDuration;

use super::{BodyChange, HeaderDamage, HostChange, MAX_DATE_SKEW, TargetChange};
use crate::{ALGORITHM, COMPONENTS, InvalidAuthorization};

/// The cause of a failed verification. Its [`Display`](fmt::Display) text explains the cause and how to fix it.
#[derive(Clone, PartialEq, Eq)]
pub enum FailureCause {
    MissingHeader(&'static str),
    DuplicateHeader(&'static str),
    /// A header is folded over several lines. Contains its name.
    HeaderFolded(String),
    /// The `Authorization` header is invalid, and no known [`HeaderDamage`] explains why. Contains the received value.
    InvalidAuthorization(InvalidAuthorization, String),
    AuthorizationDamaged(HeaderDamage),
    UnsupportedAlgorithm(String),
    UnexpectedComponents(String),
    ComponentsReordered(String),
    UnknownKey(String),
    RetiredKey(String),
    UnusableKey(String),
    /// The signature is valid, but made with the sandbox key, and the receiver expects live checks.
    SandboxKey(String),
    /// The signature was not made with the key that `keyId` names, but with another one.
    WrongKeyId {
        named: String,
        used: String,
    },
    SignatureLength {
        length: usize,
        expected: usize,
    },
    DigestMalformed(String),
    DigestReplaced {
        signed: String,
        received: String,
    },
    BodyChanged {
        change: BodyChange,
        claimed: String,
        actual: String,
        length: usize,
    },
    DateMalformed(String),
    DateReplaced {
        signed: String,
        received: String,
    },
    /// The signature is valid, but too old or in the future. Contains its age, which is negative for a future date.
    DateSkew(SignedDuration),
    MethodChanged(String),
    TargetChanged {
        change: TargetChange,
        signed: String,
        received: String,
    },
    HostChanged {
        change: HostChange,
        signed: String,
        received: String,
    },
    ProductChanged {
        signed: String,
        received: String,
    },
    /// All signed components are unchanged, so the signature itself was changed.
    SignatureDamaged,
    Unexplained,
}

impl FailureCause {
    /// Returns the part of the request that failed verification.
    pub fn part(&self) -> &'static str {
        match self {
            FailureCause::MissingHeader(_) | FailureCause::DuplicateHeader(_) | FailureCause::HeaderFolded(_) => {
                "header"
            }
            FailureCause::InvalidAuthorization(..) | FailureCause::AuthorizationDamaged(_) => "authorization",
            FailureCause::UnsupportedAlgorithm(_) => "algorithm",
            FailureCause::UnexpectedComponents(_) | FailureCause::ComponentsReordered(_) => "components",
            FailureCause::UnknownKey(_)
            | FailureCause::RetiredKey(_)
            | FailureCause::UnusableKey(_)
            | FailureCause::WrongKeyId { .. } => "key",
            FailureCause::SandboxKey(_) => "mode",
            FailureCause::DigestMalformed(_) | FailureCause::DigestReplaced { .. } => "digest",
            FailureCause::BodyChanged { .. } => "body",
            FailureCause::DateMalformed(_) | FailureCause::DateReplaced { .. } | FailureCause::DateSkew(_) => "date",
            FailureCause::MethodChanged(_) => "method",
            FailureCause::TargetChanged { .. } => "target",
            FailureCause::HostChanged { .. } => "host",
            FailureCause::ProductChanged { .. } => "product",
            FailureCause::SignatureLength { .. } | FailureCause::SignatureDamaged | FailureCause::Unexplained => {
                "signature"
            }
        }
    }

    /// Returns the machine-readable name.
    pub fn as_str(&self) -> &'static str {
        match self {
            FailureCause::MissingHeader(_) => "header_missing",
            FailureCause::DuplicateHeader(_) => "header_twice",
            FailureCause::HeaderFolded(_) => "header_folded",
            FailureCause::InvalidAuthorization(..) => "authorization",
            FailureCause::AuthorizationDamaged(damage) => damage.into_str(),
            FailureCause::UnsupportedAlgorithm(_) => "algorithm",
            FailureCause::UnexpectedComponents(_) => "components",
            FailureCause::ComponentsReordered(_) => "components_reordered",
            FailureCause::UnknownKey(_) => "key_unknown",
            FailureCause::RetiredKey(_) => "key_retired",
            FailureCause::UnusableKey(_) => "key_unusable",
            FailureCause::SandboxKey(_) => "key_sandbox",
            FailureCause::WrongKeyId { .. } => "key_other",
            FailureCause::SignatureLength { .. } => "signature_length",
            FailureCause::DigestMalformed(_) => "digest_malformed",
            FailureCause::DigestReplaced { .. } => "digest_replaced",
            FailureCause::BodyChanged { change, .. } => change.into_str(),
            FailureCause::DateMalformed(_) => "date_malformed",
            FailureCause::DateReplaced { .. } => "date_replaced",
            FailureCause::DateSkew(_) => "date_skew",
            FailureCause::MethodChanged(_) => "method",
            FailureCause::TargetChanged { change, .. } => change.into_str(),
            FailureCause::HostChanged { change, .. } => change.into_str(),
            FailureCause::ProductChanged { .. } => "source",
            FailureCause::SignatureDamaged => "signature_damaged",
            FailureCause::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureCause::MissingHeader(name) => {
                write!(f, "the header `{name}` is missing: a proxy removed it, or this is not a Ringtrue callback")
            }
            FailureCause::DuplicateHeader(name) => {
                write!(f, "the header `{name}` occurs more than once, so the signed value is ambiguous")
            }
            FailureCause::HeaderFolded(name) => {
                write!(f, "the header `{name}` is folded over several lines; on one line, the signature is valid")
            }
            FailureCause::InvalidAuthorization(error, found) => {
                write!(f, "invalid `Authorization` header: {error}; received `{found}`")
            }
            FailureCause::AuthorizationDamaged(damage) => {
                write!(f, "the `Authorization` header was changed in transit: {}", damage.description())
            }
            FailureCause::UnsupportedAlgorithm(found) => {
                write!(f, "unsupported algorithm `{found}`: expected `{ALGORITHM}`")
            }
            FailureCause::UnexpectedComponents(found) => {
                write!(f, "the signature must cover `{COMPONENTS}`, but covers `{found}`")
            }
            FailureCause::ComponentsReordered(found) => write!(
                f,
                "the `headers` parameter is `{found}`, but `{COMPONENTS}` was signed. Build the signing string in the \
                 order of the parameter as it was sent"
            ),
            FailureCause::UnknownKey(kid) => write!(f, "the key set has no key with the id `{kid}`"),
            FailureCause::RetiredKey(kid) => write!(
                f,
                "the key `{kid}` is retired and no longer published: the callback is old, or the key was withdrawn"
            ),
            FailureCause::UnusableKey(kid) => {
                write!(f, "the key `{kid}` in the key set is not an RSA key of at least 2048 bits")
            }
            FailureCause::SandboxKey(kid) => write!(
                f,
                "the signature is valid, but `{kid}` is the key of sandbox checks, which prove nothing about a number. \
                 Receivers of live callbacks must reject it. Any sandbox project can send callbacks to any URL, so also \
                 reject a `check_id` that you did not create"
            ),
            FailureCause::WrongKeyId { named, used } => write!(
                f,
                "`keyId` is `{named}`, but the signature was made with the key `{used}`. Use the key that `keyId` \
                 names, and do not change the header"
            ),
            FailureCause::SignatureLength { length, expected } => {
                write!(f, "the signature has {length} bytes instead of {expected}: it was truncated or changed")
            }
            FailureCause::DigestMalformed(found) => {
                write!(f, "invalid `digest` header `{found}`: expected `SHA-256=` and 44 base64 characters")
            }
            FailureCause::DigestReplaced { signed, received } => {
                write!(f, "the `digest` header was changed: signed `{signed}`, received `{received}`")
            }
            FailureCause::BodyChanged { change, claimed, actual, length } => write!(
                f,
                "the body was changed: the `digest` header is `{claimed}`, but the digest of the {length} received \
                 bytes is `{actual}`. {} Compute the digest of the raw bytes, before anything parses or re-serializes them",
                change.description()
            ),
            FailureCause::DateMalformed(found) => write!(
                f,
                "invalid `date` header `{found}`: expected an IMF-fixdate such as `Sat, 14 Nov 2026 09:30:00 GMT`"
            ),
            FailureCause::DateReplaced { signed, received } => write!(
                f,
                "the `date` header was changed: signed `{signed}`, received `{received}`. A proxy replaced or \
                 reformatted it"
            ),
            FailureCause::DateSkew(age) => f.write_str(&describe_skew(*age)),
            FailureCause::MethodChanged(found) => {
                write!(f, "the method was changed: signed `POST`, received `{found}`")
            }
            FailureCause::TargetChanged { change, signed, received } => write!(
                f,
                "the path or query was changed: signed `{signed}`, received `{received}`. {} Path and query are signed \
                 byte for byte",
                change.description()
            ),
            FailureCause::HostChanged { change, signed, received } => write!(
                f,
                "the `host` was changed: signed `{signed}`, received `{received}`. {} The signed host is that of the \
                 callback URL: with its port, unless it is the default port",
                change.description()
            ),
            FailureCause::ProductChanged { signed, received } => {
                write!(f, "the `x-service-callback` header was changed: signed `{signed}`, received `{received}`")
            }
            FailureCause::SignatureDamaged => f.write_str(
                "all signed components are unchanged, but the signature is invalid: its value was changed in transit",
            ),
            FailureCause::Unexplained => f.write_str(
                "invalid signature, and no common change explains it. Path, query, host, date, product or digest \
                 differ from the signed values, or the signature was made with another key than `keyId`",
            ),
        }
    }
}

fn describe_skew(age: SignedDuration) -> String {
    let (seconds, direction) = (age.abs().as_secs(), if age.is_positive() { "past" } else { "future" });
    let (minutes, seconds, max) = (seconds / 60, seconds % 60, MAX_DATE_SKEW.as_mins());
    format!(
        "the signature is valid, but its `date` is {minutes} min {seconds} s in the {direction}. More than {max} \
         minutes are rejected: the request was replayed, or one of the two clocks is wrong"
    )
}

/// Hides the values, because a target may contain a token.
impl fmt::Debug for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FailureCause({})", self.as_str())
    }
}
