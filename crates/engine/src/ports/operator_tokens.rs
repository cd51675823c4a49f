//! Port for operator tokens (GSMA TS.43), which a phone's wallet hands out through the Digital Credentials API. They
//! prove the phone's SIM to its operator over any connection, such as Wi-Fi.
//!
//! A wallet's answer is no verdict: it carries a temporary token, and only the operator says whose it is.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
};
use serde_json::Value;
use zeroize::Zeroizing;

/// Private key (P-256 scalar, big-endian) for one request. The wallet encrypts the operator token for it.
pub type CredentialKey = Zeroizing<[u8; 32]>;

/// What a request to a wallet contains beside the connector's own settings.
#[derive(Clone, Copy, derive_more::Debug)]
// Hides the fields: they contain a number and a key.
#[debug("CredentialRequest({check})")]
pub struct CredentialRequest<'a> {
    pub check: CheckId,
    /// The number to verify. Wallets offer its SIM first. The answer proves nothing about it. `None`: a browser that
    /// shows the hosted page gets the request, and may not know the number.
    pub number_hint: Option<&'a Msisdn>,
    /// Unguessable, single use, of the characters `A-Z a-z 0-9 _ -`.
    pub nonce: &'a str,
    pub key: &'a CredentialKey,
    pub now: Timestamp,
}

/// A member of `digital.requests` in the options of `navigator.credentials.get`, or the result of that call.
#[derive(Clone, PartialEq, derive_more::Debug)]
#[debug("DigitalCredential({protocol})")]
pub struct DigitalCredential {
    pub protocol: String,
    pub data: Value,
}

/// A wallet's answer. Its nonce is parsed, and belongs to the check.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("CredentialResponse({check})")]
pub struct CredentialResponse<'a> {
    pub check: CheckId,
    pub nonce: &'a str,
    pub key: &'a CredentialKey,
    /// Origins at which the wallet may have been asked: of web pages, or `android:apk-key-hash:…` of apps.
    pub origins: &'a [&'a str],
    pub credential: &'a DigitalCredential,
    pub now: Timestamp,
}

/// The operator's temporary token from a wallet's answer.
#[derive(derive_more::Debug)]
#[debug("OperatorToken(…)")]
pub struct OperatorToken {
    pub temporary_token: Zeroizing<String>,
    /// MCC and MNC of the SIM's network, as the phone states them.
    pub carrier: Option<String>,
}

/// A connector to an operator that accepts tokens from wallets.
#[async_trait]
pub trait OperatorTokenVerifier: Send + Sync {
    /// Whether the operator can currently be asked about tokens. Users should confirm only if it can.
    fn is_available(&self) -> bool;

    /// Builds a signed request for the wallet. Does not send anything.
    fn credential_request(&self, request: CredentialRequest<'_>) -> Result<DigitalCredential, ErrorCode>;

    /// Returns the nonce that an answer states, before anything of the answer is verified. `None`: the answer is
    /// malformed.
    fn stated_nonce(&self, credential: &DigitalCredential) -> Option<String>;

    /// Verifies the wallet's answer. Asks nobody, and proves nothing about the number. The error is the reason, without
    /// text from the answer.
    fn verify_credential(&self, response: &CredentialResponse<'_>) -> Result<OperatorToken, &'static str>;

    /// Returns the network of a SIM, given as MCC and MNC. `None`: the connector does not serve it.
    fn network_of_carrier(&self, carrier: &str) -> Option<NetworkId>;

    /// Exchanges a temporary token from a wallet, and asks the operator whether the phone has the number. Called at most
    /// once per token, because operators' tokens are single use.
    async fn verify_number_with_token(
        &self,
        check: CheckId,
        number: &Msisdn,
        temporary_token: &str,
    ) -> Result<bool, ErrorCode>;
}
