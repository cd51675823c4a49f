//! What the operator remembers of its clients' doings.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{expiring::Expiring, scope::Scopes, sim::PhoneNumber};

/// How the operator came to know whose device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum Authentication {
    /// By the network that the device is on.
    Network,
    /// By a token that the SIM in the device has given.
    Sim,
    /// Not at all: the client has named the number.
    Named,
}

/// The user that a token is about.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Subject {
    pub number: PhoneNumber,
    pub authentication: Authentication,
}

/// What a client was granted. Without a subject it is "two-legged": nobody's in particular.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Grant {
    pub client_id: String,
    pub scopes: Scopes,
    pub subject: Option<Subject>,
}

/// What a device was sent back with: the content of an authorization code.
#[derive(Deserialize, Serialize)]
pub(super) struct Authorization {
    pub grant: Grant,
    pub redirect_uri: String,
    pub code_challenge: Option<String>,
    pub nonce: Option<String>,
    pub until: i64,
}

/// The content of an access token.
#[derive(Deserialize, Serialize)]
pub(super) struct AccessToken {
    pub grant: Grant,
    pub until: i64,
}

/// A request by CIBA, which its client asks about until it is decided.
pub(super) struct BackchannelRequest {
    pub grant: Grant,
    /// When it may be asked about again; `None` before the first time.
    pub patience_until: Option<i64>,
    pub interval: i64,
    pub until: i64,
}

pub(super) struct Memory {
    /// Codes that were redeemed, each with the access token that it was exchanged for.
    pub used_codes: Expiring<String>,
    /// Access tokens that were good for one call and had it, or were taken back.
    pub used_tokens: Expiring<()>,
    pub backchannel: Expiring<BackchannelRequest>,
    /// The `jti` of signed tokens, each with its client.
    pub used_jtis: Expiring<()>,
    /// When SIMs were changed, by number.
    pub swaps: Expiring<i64>,
}

impl Memory {
    pub(super) fn new(room: usize) -> Self {
        Self {
            used_codes: Expiring::new(room),
            used_tokens: Expiring::new(room),
            backchannel: Expiring::new(room),
            used_jtis: Expiring::new(room),
            swaps: Expiring::new(room),
        }
    }
}

/// Full of numbers, codes and tokens.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}
