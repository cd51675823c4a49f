//! What a silent check keeps to itself: tokens that are derived or hashed, and notes that are sealed.
//!
//! Everything is bound to its check and to what it is, so that nothing of one check can be passed off as another's.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ringtrue_domain::{
    lifecycle::{CheckId, DiscoveredNumber, Sealed},
    phone::Msisdn,
    tenancy::Mode,
    web_url::RedirectUrl,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    Engine,
    ports::{Reply, StoreError, TokenHash},
    sweeper::no_seal_key,
};

/// What must be known when the device comes.
pub(super) struct Brief {
    /// `None`: it is to be found out.
    pub number: Option<Msisdn>,
    /// Where the caller said that the device would come from.
    pub announced: Option<IpAddr>,
}

/// What must be known when the device is back from its operator.
#[derive(Serialize, Deserialize)]
pub(super) struct Leg {
    pub connector: String,
    pub departed_from: IpAddr,
    /// The connector's own notes, in base64url.
    memory: String,
}

impl Leg {
    pub(super) fn new(connector: &str, departed_from: IpAddr, memory: &[u8]) -> Self {
        Leg { connector: connector.to_owned(), departed_from, memory: BASE64_URL_SAFE_NO_PAD.encode(memory) }
    }

    pub(super) fn memory(&self) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.memory).unwrap_or_default()
    }
}

/// As they are sealed.
#[derive(Serialize, Deserialize)]
struct BriefNote {
    number: Option<String>,
    announced: Option<IpAddr>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyNote {
    Match(bool),
    Number(String),
}

/// A ticket is the check's id, something random, and our own mark that it is a ticket of ours.
const TICKET_BYTES: usize = 48;
/// In seconds. Until then whoever comes back late is told that the check has ended, and sent where it was to go.
const FORGOTTEN_AFTER: i64 = 900;

impl Engine {
    /// The token in a check's URL. Derived, not stored: 128 bits that nobody can guess without the hash key.
    pub(super) fn device_token(&self, check: CheckId) -> Result<String, StoreError> {
        let hash = self.hash(&[b"device-url", check.0.as_bytes()])?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(&hash[..16]))
    }

    /// Whether this is the token in a check's URL, whether or not there is such a check.
    pub fn is_device_token(&self, check: CheckId, token: &str) -> Result<bool, StoreError> {
        let right = self.device_token(check)?;
        Ok(verify_slices_are_equal(right.as_bytes(), token.as_bytes()).is_ok())
    }

    /// A new ticket, and its hash.
    pub(super) fn ticket(&self, check: CheckId) -> Result<(String, TokenHash), StoreError> {
        let random: [u8; 16] = self.entropy().bytes();
        let body = [check.0.as_bytes().as_slice(), &random].concat();
        let mark = self.hash(&[b"ticket-mark", &body])?;
        let ticket = BASE64_URL_SAFE_NO_PAD.encode([&body, &mark[..16]].concat());
        let hash = self.token_hash(b"ticket", check, &ticket)?;
        Ok((ticket, hash))
    }

    /// The check that a ticket of ours is of. Whether it is still good is for the store to say.
    pub(super) fn check_of_ticket(&self, ticket: &str) -> Result<Option<CheckId>, StoreError> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(ticket).ok().filter(|bytes| bytes.len() == TICKET_BYTES);
        let Some(bytes) = bytes else { return Ok(None) };
        let (body, mark) = bytes.split_at(TICKET_BYTES - 16);
        let right = self.hash(&[b"ticket-mark", body])?;
        let is_ours = verify_slices_are_equal(&right[..16], mark).is_ok();
        let id = Uuid::from_slice(&body[..16]).ok().filter(|_| is_ours);
        Ok(id.filter(|id| self.is_recent(*id)).map(CheckId))
    }

    /// Whether a check of this id may still matter to a device. One that cannot costs no look into the store.
    fn is_recent(&self, check: Uuid) -> bool {
        let made = check.get_timestamp().and_then(|made| i64::try_from(made.to_unix().0).ok());
        made.is_some_and(|made| self.clock().now().as_second() - made <= FORGOTTEN_AFTER)
    }

    /// The code that a device brings back to the caller, and its hash.
    pub(super) fn redirect_code(&self, check: CheckId) -> Result<(String, TokenHash), StoreError> {
        let code = BASE64_URL_SAFE_NO_PAD.encode(self.entropy().bytes::<32>());
        let hash = self.redirect_code_hash(check, &code)?;
        Ok((code, hash))
    }

    pub(super) fn redirect_code_hash(&self, check: CheckId, code: &str) -> Result<TokenHash, StoreError> {
        self.token_hash(b"redirect-code", check, code)
    }

    pub(super) fn ticket_hash(&self, check: CheckId, ticket: &str) -> Result<TokenHash, StoreError> {
        self.token_hash(b"ticket", check, ticket)
    }

    fn token_hash(&self, kind: &[u8], check: CheckId, token: &str) -> Result<TokenHash, StoreError> {
        self.hash(&[kind, check.0.as_bytes(), token.as_bytes()]).map(TokenHash)
    }

    pub(super) fn seal_brief(&self, check: CheckId, brief: &Brief) -> Result<Sealed, StoreError> {
        let number = brief.number.as_ref().map(|number| number.as_str().to_owned());
        self.seal_note("brief", check, &BriefNote { number, announced: brief.announced })
    }

    pub(super) fn open_brief(&self, check: CheckId, mode: Mode, sealed: &Sealed) -> Result<Brief, StoreError> {
        let note: BriefNote = self.open_note("brief", check, sealed)?;
        let number = note.number.map(|number| Msisdn::parse(&number, mode)).transpose();
        Ok(Brief { number: number.map_err(|_| unreadable(check))?, announced: note.announced })
    }

    pub(super) fn seal_leg(&self, check: CheckId, leg: &Leg) -> Result<Sealed, StoreError> {
        self.seal_note("leg", check, leg)
    }

    pub(super) fn open_leg(&self, check: CheckId, sealed: &Sealed) -> Result<Leg, StoreError> {
        self.open_note("leg", check, sealed)
    }

    pub(super) fn seal_reply(&self, check: CheckId, reply: &Reply) -> Result<Sealed, StoreError> {
        let note = match reply {
            Reply::Match(matched) => ReplyNote::Match(*matched),
            Reply::Number(number) => ReplyNote::Number(number.as_str().to_owned()),
        };
        self.seal_note("reply", check, &note)
    }

    pub(super) fn open_reply(&self, check: CheckId, mode: Mode, sealed: &Sealed) -> Result<Reply, StoreError> {
        match self.open_note("reply", check, sealed)? {
            ReplyNote::Match(matched) => Ok(Reply::Match(matched)),
            ReplyNote::Number(number) => Msisdn::parse(&number, mode).map(Reply::Number).map_err(|_| unreadable(check)),
        }
    }

    pub(super) fn seal_redirect_url(&self, check: CheckId, url: &RedirectUrl) -> Result<Sealed, StoreError> {
        self.seal("redirect-url", check, url.as_str().as_bytes())
    }

    /// `None`: it cannot be read any more, and the device is answered in person.
    pub(super) fn open_redirect_url(&self, check: CheckId, sealed: &Sealed) -> Option<RedirectUrl> {
        let text = String::from_utf8(self.unseal("redirect-url", check, sealed)?).ok()?;
        RedirectUrl::from_stored(&text).ok()
    }

    pub(super) fn seal_number(&self, check: CheckId, number: &Msisdn) -> Result<Sealed, StoreError> {
        self.seal("number", check, number.as_str().as_bytes())
    }

    /// The number that a check has found out, unless it has been erased.
    pub fn open_number(&self, check: CheckId, number: &DiscoveredNumber) -> Option<Msisdn> {
        let text = String::from_utf8(self.unseal("number", check, number.sealed.as_ref()?)?).ok()?;
        Msisdn::parse(&text, Mode::Sandbox).ok()
    }

    fn seal_note<T: Serialize>(&self, what: &str, check: CheckId, note: &T) -> Result<Sealed, StoreError> {
        let plain = serde_json::to_vec(note).map_err(|_| unreadable(check))?;
        self.seal(what, check, &plain)
    }

    fn open_note<T: DeserializeOwned>(&self, what: &str, check: CheckId, sealed: &Sealed) -> Result<T, StoreError> {
        let plain = self.unseal(what, check, sealed).ok_or_else(|| unreadable(check))?;
        serde_json::from_slice(&plain).map_err(|_| unreadable(check))
    }

    fn seal(&self, what: &str, check: CheckId, plain: &[u8]) -> Result<Sealed, StoreError> {
        let context = format!("{what}:{check}");
        let keys = self.control_plane().keys();
        let sealed = keys.seal(self.entropy(), context.as_bytes(), plain, self.clock().now());
        sealed.map(Sealed).ok_or_else(no_seal_key)
    }

    fn unseal(&self, what: &str, check: CheckId, sealed: &Sealed) -> Option<Vec<u8>> {
        self.control_plane().keys().unseal(format!("{what}:{check}").as_bytes(), &sealed.0)
    }
}

fn unreadable(check: CheckId) -> StoreError {
    StoreError::Inconsistent {
        table: "journeys",
        row: check.to_string(),
        problem: "a note that cannot be read".to_owned(),
    }
}
