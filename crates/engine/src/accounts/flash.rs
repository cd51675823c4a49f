//! A message from a form to the page that follows it, such as the secret of a new credential. The browser carries it in
//! a cookie, sealed and bound to its session, so that any node can show it and nothing is stored.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};

use super::{Accounts, SessionToken, add_clamped};
use crate::ports::StoreError;

/// Enough for the redirect, even over a slow connection.
pub const FLASH_MAX_AGE: SignedDuration = SignedDuration::from_secs(60);
const EXPIRY_BYTES: usize = 8;

impl Accounts {
    /// Seals a message that only this session can open, for a short time.
    pub fn seal_flash(&self, session: &SessionToken, message: &str) -> Result<String, StoreError> {
        let expires_at = add_clamped(self.context.now(), FLASH_MAX_AGE).as_millisecond();
        let plain = [&expires_at.to_be_bytes(), message.as_bytes()].concat();
        Ok(BASE64_URL_SAFE_NO_PAD.encode(self.context.seal(&flash_context(session), &plain)?))
    }

    /// `None`: the message belongs to another session, has expired or was altered.
    pub fn open_flash(&self, session: &SessionToken, sealed: &str) -> Option<String> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let plain = self.context.unseal(&flash_context(session), &sealed)?;
        let (expires_at, message) = plain.split_first_chunk::<EXPIRY_BYTES>()?;
        let expires_at = Timestamp::from_millisecond(i64::from_be_bytes(*expires_at)).ok()?;
        (self.context.now() < expires_at).then(|| String::from_utf8(message.to_vec()).ok()).flatten()
    }
}

fn flash_context(session: &SessionToken) -> Vec<u8> {
    format!("flash:{}", session.reveal()).into_bytes()
}
