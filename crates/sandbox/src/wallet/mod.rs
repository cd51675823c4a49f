//! Simulated wallet of a phone, which hands out operator tokens of its SIMs through the Digital Credentials API
//! (OpenID for Verifiable Presentations, with the credential format of GSMA TS.43).
//!
//! [`Wallet::read_request`] validates a request as a real wallet does before it shows the consent text.
//! [`Wallet::respond`] then responds for a SIM: an issuer JWT, and a binding JWT with the operator token, encrypted for
//! the requesting party. The last two digits of the SIM's number select whether the wallet offers it. A response can be
//! forged, so that its recipient has to find out.
//!
//! Deliberately absent: the registration of root certificates with operators (the wallet accepts each root), and a trust
//! anchor for the issuer, whose certificate is self-signed.

mod certificate;
mod encryption;
mod request;
mod response;

use std::sync::Arc;

use aws_lc_rs::error::Unspecified;
use serde_json::Value;
use strum::{EnumString, IntoStaticStr, VariantNames};
use thiserror::Error;

pub use self::request::{Consent, CredentialRequest, InvalidRequest};
use self::response::{Issuer, Response};
use crate::camara::{Operator, PhoneNumber, WalletSupport};

/// Protocol of requests and responses: OpenID for Verifiable Presentations 1.0 with unsigned requests.
pub const PROTOCOL: &str = "openid4vp-v1-unsigned";
/// MCC and MNC of the simulated operator.
const OWN_CARRIER: &str = "00101";

/// The wallets of all simulated phones, with SIMs of one operator.
#[derive(Debug)]
pub struct Wallet {
    operator: Arc<Operator>,
    issuer: Issuer,
}

/// A way to forge a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Forgery {
    /// The issuer JWT is not signed by the key of its certificate.
    IssuerSignature,
    /// The binding JWT is not signed by the key that the issuer JWT confirms.
    BindingSignature,
    /// The response is for another origin.
    Audience,
    /// The response is for another request.
    Nonce,
    /// The operator did not issue the operator token.
    OperatorToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WalletError {
    #[error("the operator does not issue operator tokens for this SIM")]
    NotEligible,
    #[error("the wallet never answers")]
    NoAnswer,
    #[error("random number generator or key failure")]
    Cryptography,
}

impl From<Unspecified> for WalletError {
    fn from(Unspecified: Unspecified) -> Self {
        WalletError::Cryptography
    }
}

impl Wallet {
    pub fn new(operator: Arc<Operator>) -> Result<Self, Unspecified> {
        Ok(Wallet { operator, issuer: Issuer::generate()? })
    }

    /// Validates a member of `digital.requests`.
    pub fn read_request(&self, protocol: &str, data: &Value) -> Result<CredentialRequest, InvalidRequest> {
        CredentialRequest::read(protocol, data, self.operator.now())
    }

    /// Returns whether the wallet offers the SIM with this number. It also offers SIMs for which it never answers.
    pub fn offers(sim: &PhoneNumber) -> bool {
        sim.wallet_support() != WalletSupport::NotEligible
    }

    /// Responds for the SIM with this number to a request of a page or app with this origin. Without a carrier (MCC and
    /// MNC), the SIM belongs to the simulated operator. Returns the `data` of the response.
    pub fn respond(
        &self,
        request: &CredentialRequest,
        sim: &PhoneNumber,
        origin: &str,
        carrier: Option<&str>,
        forgery: Option<Forgery>,
    ) -> Result<Value, WalletError> {
        match sim.wallet_support() {
            WalletSupport::Supported => {}
            WalletSupport::NotEligible => return Err(WalletError::NotEligible),
            WalletSupport::NoAnswer => return Err(WalletError::NoAnswer),
        }
        let operator_token = self.operator.issue_operator_token(sim)?;
        let response = Response {
            request,
            operator_token: &operator_token,
            origin,
            carrier: carrier.unwrap_or(OWN_CARRIER),
            forgery,
            now: self.operator.now(),
        };
        Ok(response.build(&self.issuer, self.operator.issuer())?)
    }
}
