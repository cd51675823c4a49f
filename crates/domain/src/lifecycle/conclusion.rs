//! Verdicts of any product, and the conclusion of a check as the store records it.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Check, CheckId, CheckStatus, Concluded, DiscoveredNumber, ErrorCode};
use crate::{
    network::NetworkId,
    product::Product,
    reverse_sms::SenderMatch,
    silent::OperatorVerdict,
    sim_swap::SimSwapVerdict,
    tenancy::ProjectId,
    verification::{Method, VerificationVerdict},
};

/// The common view of all verdicts, for storing and counting.
pub trait Verdict {
    /// Whether the number is the claimed one. `None` in products without a claimed number.
    fn matched(&self) -> Option<bool>;

    /// The number that the check discovered (Discovery only).
    fn discovered(&self) -> Option<&DiscoveredNumber> {
        None
    }

    /// The verdict of a verification, which has more columns.
    fn verification(&self) -> Option<VerificationVerdict> {
        None
    }
}

/// The verdict of a check of any product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyVerdict {
    Sender(SenderMatch),
    Device(OperatorVerdict),
    Sim(SimSwapVerdict),
    Verification(VerificationVerdict),
}

pub type AnyCheck = Check<AnyVerdict>;

impl Verdict for AnyVerdict {
    fn matched(&self) -> Option<bool> {
        match self {
            AnyVerdict::Sender(verdict) => verdict.matched(),
            AnyVerdict::Device(verdict) => verdict.matched(),
            AnyVerdict::Sim(verdict) => verdict.matched(),
            AnyVerdict::Verification(verdict) => verdict.matched(),
        }
    }

    fn discovered(&self) -> Option<&DiscoveredNumber> {
        match self {
            AnyVerdict::Device(verdict) => verdict.discovered(),
            AnyVerdict::Sender(_) | AnyVerdict::Sim(_) | AnyVerdict::Verification(_) => None,
        }
    }

    fn verification(&self) -> Option<VerificationVerdict> {
        match self {
            AnyVerdict::Verification(verdict) => Some(*verdict),
            AnyVerdict::Sender(_) | AnyVerdict::Device(_) | AnyVerdict::Sim(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the verdict belongs to another product")]
pub struct WrongProduct;

impl From<SenderMatch> for AnyVerdict {
    fn from(verdict: SenderMatch) -> Self {
        AnyVerdict::Sender(verdict)
    }
}

impl From<OperatorVerdict> for AnyVerdict {
    fn from(verdict: OperatorVerdict) -> Self {
        AnyVerdict::Device(verdict)
    }
}

impl TryFrom<AnyVerdict> for SenderMatch {
    type Error = WrongProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, WrongProduct> {
        match verdict {
            AnyVerdict::Sender(verdict) => Ok(verdict),
            _ => Err(WrongProduct),
        }
    }
}

impl TryFrom<AnyVerdict> for OperatorVerdict {
    type Error = WrongProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, WrongProduct> {
        match verdict {
            AnyVerdict::Device(verdict) => Ok(verdict),
            _ => Err(WrongProduct),
        }
    }
}

impl From<SimSwapVerdict> for AnyVerdict {
    fn from(verdict: SimSwapVerdict) -> Self {
        AnyVerdict::Sim(verdict)
    }
}

impl TryFrom<AnyVerdict> for SimSwapVerdict {
    type Error = WrongProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, WrongProduct> {
        match verdict {
            AnyVerdict::Sim(verdict) => Ok(verdict),
            _ => Err(WrongProduct),
        }
    }
}

impl From<VerificationVerdict> for AnyVerdict {
    fn from(verdict: VerificationVerdict) -> Self {
        AnyVerdict::Verification(verdict)
    }
}

impl TryFrom<AnyVerdict> for VerificationVerdict {
    type Error = WrongProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, WrongProduct> {
        match verdict {
            AnyVerdict::Verification(verdict) => Ok(verdict),
            _ => Err(WrongProduct),
        }
    }
}

/// The conclusion of a check as the store records it. It can only be created from a [`Concluded`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConclusion {
    check: CheckId,
    project: ProjectId,
    product: Product,
    network: Option<NetworkId>,
    created_at: Timestamp,
    status: CheckStatus,
    matched: Option<bool>,
    discovered: Option<DiscoveredNumber>,
    verification: Option<VerificationVerdict>,
    error_code: Option<ErrorCode>,
    at: Timestamp,
    connector: Option<Arc<str>>,
}

impl<V: Verdict + Clone> From<&Concluded<V>> for CheckConclusion {
    fn from(concluded: &Concluded<V>) -> Self {
        let check = concluded.check();
        CheckConclusion {
            check: check.id,
            project: check.project,
            product: check.product,
            network: check.network.clone(),
            created_at: check.created_at,
            status: check.status(),
            matched: check.verdict().and_then(Verdict::matched),
            discovered: check.verdict().and_then(Verdict::discovered).cloned(),
            verification: check.verdict().and_then(Verdict::verification),
            error_code: check.error_code(),
            at: check.updated_at().unwrap_or(check.expires_at),
            connector: None,
        }
    }
}

impl CheckConclusion {
    /// Sets the connector whose SMS concluded the check.
    #[must_use]
    pub fn via_connector(self, connector: Option<Arc<str>>) -> Self {
        CheckConclusion { connector, ..self }
    }

    /// Name of the connector whose SMS concluded the check.
    pub fn connector(&self) -> Option<&str> {
        self.connector.as_deref()
    }

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

    pub fn status(&self) -> CheckStatus {
        self.status
    }

    pub fn matched(&self) -> Option<bool> {
        self.matched
    }

    pub fn discovered(&self) -> Option<&DiscoveredNumber> {
        self.discovered.as_ref()
    }

    /// The method that gave the verdict of a verification.
    pub fn method(&self) -> Option<Method> {
        self.verification.map(|verdict| verdict.method)
    }

    /// Of a verification that asked about SIM changes.
    pub fn no_sim_change(&self) -> Option<bool> {
        self.verification?.no_sim_change
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        self.error_code
    }

    pub fn at(&self) -> Timestamp {
        self.at
    }
}
