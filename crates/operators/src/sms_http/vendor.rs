//! What a driver knows of its vendor.

use http::{Method, StatusCode};
use jiff::Timestamp;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::{
    text::{DataCoding, DefaultAlphabet},
    udh::{self, Segment},
};
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

use super::{
    request::{Reply, Request},
    secret::{Digest, digest},
};

/// One vendor's way of calling us. A driver translates: whether a message is new, ours or storable is not its concern.
pub(super) trait Vendor {
    fn methods(&self) -> &'static [Method];

    /// Whether the vendor's signature is on the request. Without a signature scheme, everything passes: then the
    /// configuration insists on a path secret or on known addresses.
    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged>;

    /// The messages in an authentic request; none, if it is about something else.
    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable>;

    /// What tells the vendor that it need not send this again.
    fn acknowledgement(&self) -> Reply {
        Reply::empty(StatusCode::OK)
    }

    /// The answer to what cannot be read.
    fn dismissal(&self) -> Reply {
        Reply::empty(StatusCode::BAD_REQUEST)
    }
}

/// What a valid signature says beside that it is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Proof {
    pub signed_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    /// Meant for one request only.
    pub nonce: Option<Digest>,
}

impl Proof {
    /// Seconds since 1970, as they stand in a request.
    pub fn at(seconds: &str) -> Result<Self, Forged> {
        let seconds = seconds.parse().map_err(|_| Forged)?;
        let signed_at = Timestamp::from_second(seconds).map_err(|_| Forged)?;
        Ok(Proof { signed_at: Some(signed_at), ..Proof::default() })
    }

    pub fn once(self, nonce: &str) -> Self {
        Proof { nonce: Some(digest(&[nonce.as_bytes()])), ..self }
    }
}

/// The vendor did not sign this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forged;

/// Not what the vendor's documentation describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// A message as a vendor wrote it. No `Debug`: everything in it is to be kept out of logs.
pub(super) struct Message {
    /// The same whenever the vendor sends this message again.
    pub id: Option<String>,
    /// Empty if the sender is withheld.
    pub from: String,
    pub to: String,
    /// How the vendor writes numbers that have no `+`.
    pub kind: AddressKind,
    pub text: Text,
}

impl Message {
    /// The same whenever the vendor sends this message, or this part of one, again.
    pub fn key(&self) -> Option<Digest> {
        match &self.text {
            // One message to several of our numbers is several messages.
            Text::Whole(_) => self.id.as_deref().map(|id| digest(&[id.as_bytes(), self.to.as_bytes()])),
            Text::Part(part) => Some(self.part_key(part)),
        }
    }

    /// Some vendors give all parts of a message one id, and some gateways give none.
    pub fn part_key(&self, Part { segment, octets, .. }: &Part) -> Digest {
        digest(&[
            self.id.as_deref().unwrap_or_default().as_bytes(),
            self.from.as_bytes(),
            self.to.as_bytes(),
            &segment.reference.to_be_bytes(),
            &[segment.total, segment.sequence],
            octets,
        ])
    }
}

/// A sender in JSON. One that is withheld may be absent, `null`, or anything else that is no text: all are empty.
pub(super) fn sender<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    })
}

pub(super) enum Text {
    Whole(String),
    Part(Part),
}

/// Part of a longer message.
pub(super) struct Part {
    pub segment: Segment,
    pub data_coding: DataCoding,
    pub octets: Vec<u8>,
}

impl Text {
    /// Octets behind a user data header, which says whether they are part of a longer message.
    pub fn with_header(header: &[u8], data_coding: DataCoding, octets: Vec<u8>) -> Self {
        let segment = udh::cut(header).ok().and_then(|(header, _)| header.segment().ok().flatten());
        match segment {
            Some(segment) => Text::Part(Part { segment, data_coding, octets }),
            None => Text::Whole(data_coding.coding(DefaultAlphabet::default()).decode(&octets)),
        }
    }
}
