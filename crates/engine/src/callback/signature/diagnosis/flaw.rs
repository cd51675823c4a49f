//! What is wrong with a request, in a word for programs and in sentences for people.

use std::fmt;

use jiff::SignedDuration;

use super::{BodyChange, HostChange, TOLERANCE, TargetChange, TextDamage};
use crate::callback::signature::{ALGORITHM, COMPONENTS, InvalidAuthorization};

/// Why a receiver cannot trust a request. Its [`Display`](fmt::Display) leads to the cause.
#[derive(Clone, PartialEq, Eq)]
pub enum Flaw {
    HeaderMissing(&'static str),
    HeaderTwice(&'static str),
    /// A header of this name goes on in the next line.
    HeaderFolded(String),
    /// Nothing that is known to happen to the header explains it.
    Authorization(InvalidAuthorization, String),
    AuthorizationText(TextDamage),
    Algorithm(String),
    Components(String),
    ComponentsReordered(String),
    UnknownKey(String),
    RetiredKey(String),
    UnusableKey(String),
    /// The signature is valid, and the receiver serves live checks.
    SandboxKey(String),
    /// The signature fits another key than the one that is named.
    OtherKey {
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
        arrived: String,
    },
    Body {
        change: BodyChange,
        claimed: String,
        actual: String,
        length: usize,
    },
    DateMalformed(String),
    DateReplaced {
        signed: String,
        arrived: String,
    },
    /// How old the signature is; below zero, it is of the future.
    DateSkew(SignedDuration),
    Method(String),
    Target {
        change: TargetChange,
        signed: String,
        arrived: String,
    },
    Host {
        change: HostChange,
        signed: String,
        arrived: String,
    },
    Source {
        signed: String,
        arrived: String,
    },
    /// All that is signed arrived as it was sent.
    SignatureDamaged,
    Unexplained,
}

impl Flaw {
    /// The part of the request that it is in.
    pub fn part(&self) -> &'static str {
        match self {
            Flaw::HeaderMissing(_) | Flaw::HeaderTwice(_) | Flaw::HeaderFolded(_) => "header",
            Flaw::Authorization(..) | Flaw::AuthorizationText(_) => "authorization",
            Flaw::Algorithm(_) => "algorithm",
            Flaw::Components(_) | Flaw::ComponentsReordered(_) => "components",
            Flaw::UnknownKey(_) | Flaw::RetiredKey(_) | Flaw::UnusableKey(_) | Flaw::OtherKey { .. } => "key",
            Flaw::SandboxKey(_) => "mode",
            Flaw::DigestMalformed(_) | Flaw::DigestReplaced { .. } => "digest",
            Flaw::Body { .. } => "body",
            Flaw::DateMalformed(_) | Flaw::DateReplaced { .. } | Flaw::DateSkew(_) => "date",
            Flaw::Method(_) => "method",
            Flaw::Target { .. } => "target",
            Flaw::Host { .. } => "host",
            Flaw::Source { .. } => "product",
            Flaw::SignatureLength { .. } | Flaw::SignatureDamaged | Flaw::Unexplained => "signature",
        }
    }

    /// One word for each that can be told from the others.
    pub fn as_str(&self) -> &'static str {
        match self {
            Flaw::HeaderMissing(_) => "header_missing",
            Flaw::HeaderTwice(_) => "header_twice",
            Flaw::HeaderFolded(_) => "header_folded",
            Flaw::Authorization(..) => "authorization",
            Flaw::AuthorizationText(damage) => damage.as_str(),
            Flaw::Algorithm(_) => "algorithm",
            Flaw::Components(_) => "components",
            Flaw::ComponentsReordered(_) => "components_reordered",
            Flaw::UnknownKey(_) => "key_unknown",
            Flaw::RetiredKey(_) => "key_retired",
            Flaw::UnusableKey(_) => "key_unusable",
            Flaw::SandboxKey(_) => "key_sandbox",
            Flaw::OtherKey { .. } => "key_other",
            Flaw::SignatureLength { .. } => "signature_length",
            Flaw::DigestMalformed(_) => "digest_malformed",
            Flaw::DigestReplaced { .. } => "digest_replaced",
            Flaw::Body { change, .. } => change.as_str(),
            Flaw::DateMalformed(_) => "date_malformed",
            Flaw::DateReplaced { .. } => "date_replaced",
            Flaw::DateSkew(_) => "date_skew",
            Flaw::Method(_) => "method",
            Flaw::Target { change, .. } => change.as_str(),
            Flaw::Host { change, .. } => change.as_str(),
            Flaw::Source { .. } => "source",
            Flaw::SignatureDamaged => "signature_damaged",
            Flaw::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::HeaderMissing(name) => {
                write!(f, "the header `{name}` is missing: a proxy removed it, or this is no callback of Ringtrue")
            }
            Flaw::HeaderTwice(name) => {
                write!(f, "the header `{name}` is there twice: which of the two was signed cannot be known")
            }
            Flaw::HeaderFolded(name) => {
                write!(f, "the header `{name}` is broken into lines; in one line, as it was sent, the signature fits")
            }
            Flaw::Authorization(why, found) => {
                write!(f, "the `Authorization` header is not one of ours: {why}: found `{found}`")
            }
            Flaw::AuthorizationText(damage) => {
                write!(f, "the `Authorization` header was changed on the way: {}", damage.story())
            }
            Flaw::Algorithm(found) => write!(f, "the algorithm is not `{ALGORITHM}`: found `{found}`"),
            Flaw::Components(found) => {
                write!(f, "the signature does not cover `{COMPONENTS}`: it covers `{found}`")
            }
            Flaw::ComponentsReordered(found) => write!(
                f,
                "the names in `headers` are in another order than they were signed in: it covers `{found}`, and \
                 `{COMPONENTS}` was signed. Build the text in the order that the header gives"
            ),
            Flaw::UnknownKey(kid) => write!(f, "the key set has no key with the id `{kid}`"),
            Flaw::RetiredKey(kid) => write!(
                f,
                "the key `{kid}` was ours and is published no more: the callback is old, or the key was withdrawn"
            ),
            Flaw::UnusableKey(kid) => {
                write!(f, "the key `{kid}` in the key set is not an RSA key of at least 2048 bits")
            }
            Flaw::SandboxKey(kid) => write!(
                f,
                "the signature is valid, but `{kid}` is the key of sandbox checks, which prove nothing about a number: a \
                 receiver of live callbacks refuses it. Any sandbox project can name any URL, so also refuse a \
                 `check_id` that you did not create"
            ),
            Flaw::OtherKey { named, used } => write!(
                f,
                "`keyId` names `{named}`, but the signature is by the key `{used}`. Take the key that `keyId` names, and \
                 leave the header as it came"
            ),
            Flaw::SignatureLength { length, expected } => write!(
                f,
                "the signature is {length} bytes long, and those of this key are {expected}: part of it is missing"
            ),
            Flaw::DigestMalformed(found) => {
                write!(f, "the `digest` header is not `SHA-256=` and 44 characters of base64: found `{found}`")
            }
            Flaw::DigestReplaced { signed, arrived } => {
                write!(f, "the `digest` header is not the one that was signed: `{signed}` was, and `{arrived}` arrived")
            }
            Flaw::Body { change, claimed, actual, length } => write!(
                f,
                "the body is not the one that was signed: its SHA-256 is not that of the `digest` header: the header says \
                 `{claimed}`, the {length} bytes that arrived have `{actual}`. {} Take the digest of the bytes as they \
                 came, before anything parses them or writes them anew",
                change.story()
            ),
            Flaw::DateMalformed(found) => write!(
                f,
                "the `date` header is not an IMF-fixdate: found `{found}`; expected such as `Sat, 14 Nov 2026 09:30:00 \
                 GMT`"
            ),
            Flaw::DateReplaced { signed, arrived } => write!(
                f,
                "the `date` header is not the one that was signed: `{signed}` was, and `{arrived}` arrived. A proxy has \
                 replaced it, or it was written anew in another form"
            ),
            Flaw::DateSkew(age) => f.write_str(&skew(*age)),
            Flaw::Method(found) => {
                write!(f, "the method is not the one that was signed, `POST`: `{found}` arrived")
            }
            Flaw::Target { change, signed, arrived } => write!(
                f,
                "the path or query is not the one that was signed: `{signed}` was signed, and `{arrived}` arrived. {} \
                 Path and query are signed byte for byte",
                change.story()
            ),
            Flaw::Host { change, signed, arrived } => write!(
                f,
                "the `host` is not the one that was signed: `{signed}` was signed, and `{arrived}` arrived. {} The host \
                 is signed as the callback URL has it: with its port, unless that is the default",
                change.story()
            ),
            Flaw::Source { signed, arrived } => write!(
                f,
                "the header `x-service-callback` is not the one that was signed: `{signed}` was, found `{arrived}`"
            ),
            Flaw::SignatureDamaged => f.write_str(
                "all that is signed arrived as it was sent, and yet the signature does not fit: its own letters were \
                 changed on the way",
            ),
            Flaw::Unexplained => f.write_str(
                "the signature does not fit the request: no usual change explains it. Path, query, host, date, product \
                 or digest differ from what was signed, or another key than `keyId` says was used",
            ),
        }
    }
}

fn skew(age: SignedDuration) -> String {
    let (seconds, direction) = (age.abs().as_secs(), if age.is_positive() { "past" } else { "future" });
    let (minutes, seconds, most) = (seconds / 60, seconds % 60, TOLERANCE.as_mins());
    format!(
        "the signature fits, but its `date` is {minutes} min {seconds} s in the {direction}. More than {most} minutes are \
         not to be trusted: it is a request that someone sent again, or one of the two clocks is wrong"
    )
}

/// Masked: a target may carry a token.
impl fmt::Debug for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flaw({})", self.as_str())
    }
}
