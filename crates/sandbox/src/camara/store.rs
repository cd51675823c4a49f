//! In-memory store of grants, used codes and tokens, CIBA requests and SIM swaps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{expiring_map::ExpiringMap, scope::Scopes, sim::PhoneNumber};

/// How the user was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum AuthenticationMethod {
    /// By the mobile network of the device.
    Network,
    /// By an operator token of the SIM.
    Sim,
    /// Not authenticated: the client has named the number.
    Named,
}

/// The user of a token.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Subject {
    pub number: PhoneNumber,
    pub authentication: AuthenticationMethod,
}

/// A grant. Without a subject it is "two-legged".
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Grant {
    pub client_id: String,
    pub scopes: Scopes,
    pub subject: Option<Subject>,
}

/// Content of an authorization code.
#[derive(Deserialize, Serialize)]
pub(super) struct Authorization {
    pub grant: Grant,
    pub redirect_uri: String,
    pub code_challenge: Option<String>,
    pub nonce: Option<String>,
    pub until: i64,
}

/// Content of an access token.
#[derive(Deserialize, Serialize)]
pub(super) struct AccessToken {
    pub grant: Grant,
    pub until: i64,
}

/// A pending CIBA request.
pub(super) struct BackchannelRequest {
    pub grant: Grant,
    /// Earliest time of the next poll; `None` before the first poll.
    pub next_poll_at: Option<i64>,
    pub interval: i64,
    pub expires_at: i64,
}

pub(super) struct OperatorStore {
    /// Redeemed codes with their access tokens.
    pub used_codes: ExpiringMap<String>,
    /// Used single-use tokens and revoked tokens.
    pub used_tokens: ExpiringMap<()>,
    pub backchannel_requests: ExpiringMap<BackchannelRequest>,
    /// `jti` values of client assertions, by client.
    pub used_jtis: ExpiringMap<()>,
    /// Unix times of SIM swaps by number.
    pub sim_swaps: ExpiringMap<i64>,
}

impl OperatorStore {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            used_codes: ExpiringMap::new(capacity),
            used_tokens: ExpiringMap::new(capacity),
            backchannel_requests: ExpiringMap::new(capacity),
            used_jtis: ExpiringMap::new(capacity),
            sim_swaps: ExpiringMap::new(capacity),
        }
    }
}

/// Hides numbers, codes and tokens.
impl fmt::Debug for OperatorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OperatorStore")
    }
}
