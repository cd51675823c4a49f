//! Verdicts as they are kept, and ends as they are recorded.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Check, CheckId, Concluded, DiscoveredNumber, ErrorCode, Status};
use crate::{
    network::NetworkId, product::Product, reverse_sms::SenderMatch, silent::Proof, sim_swap::SimSwap,
    tenancy::ProjectId,
};

/// What all verdicts have in common for those who only keep and count them.
pub trait Verdict {
    /// Whether the number was the claimed one, in products that say so.
    fn matched(&self) -> Option<bool>;

    /// The number that was found out, in products that find one out.
    fn discovered(&self) -> Option<&DiscoveredNumber> {
        None
    }
}

/// The verdict of a check of any product, for those who keep checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyVerdict {
    Sender(SenderMatch),
    Device(Proof),
    Sim(SimSwap),
}

pub type AnyCheck = Check<AnyVerdict>;

impl Verdict for AnyVerdict {
    fn matched(&self) -> Option<bool> {
        match self {
            AnyVerdict::Sender(verdict) => verdict.matched(),
            AnyVerdict::Device(proof) => proof.matched(),
            AnyVerdict::Sim(verdict) => verdict.matched(),
        }
    }

    fn discovered(&self) -> Option<&DiscoveredNumber> {
        match self {
            AnyVerdict::Device(proof) => proof.discovered(),
            AnyVerdict::Sender(_) | AnyVerdict::Sim(_) => None,
        }
    }
}

/// The verdict is of another product than it was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the verdict is of another product")]
pub struct OtherProduct;

impl From<SenderMatch> for AnyVerdict {
    fn from(verdict: SenderMatch) -> Self {
        AnyVerdict::Sender(verdict)
    }
}

impl From<Proof> for AnyVerdict {
    fn from(proof: Proof) -> Self {
        AnyVerdict::Device(proof)
    }
}

impl TryFrom<AnyVerdict> for SenderMatch {
    type Error = OtherProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, OtherProduct> {
        match verdict {
            AnyVerdict::Sender(verdict) => Ok(verdict),
            AnyVerdict::Device(_) | AnyVerdict::Sim(_) => Err(OtherProduct),
        }
    }
}

impl TryFrom<AnyVerdict> for Proof {
    type Error = OtherProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, OtherProduct> {
        match verdict {
            AnyVerdict::Device(proof) => Ok(proof),
            AnyVerdict::Sender(_) | AnyVerdict::Sim(_) => Err(OtherProduct),
        }
    }
}

impl From<SimSwap> for AnyVerdict {
    fn from(verdict: SimSwap) -> Self {
        AnyVerdict::Sim(verdict)
    }
}

impl TryFrom<AnyVerdict> for SimSwap {
    type Error = OtherProduct;

    fn try_from(verdict: AnyVerdict) -> Result<Self, OtherProduct> {
        match verdict {
            AnyVerdict::Sim(verdict) => Ok(verdict),
            AnyVerdict::Sender(_) | AnyVerdict::Device(_) => Err(OtherProduct),
        }
    }
}

/// The end of a check of any product, as it is recorded: only a [`Concluded`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    check: CheckId,
    project: ProjectId,
    product: Product,
    network: Option<NetworkId>,
    created_at: Timestamp,
    status: Status,
    matched: Option<bool>,
    discovered: Option<DiscoveredNumber>,
    error_code: Option<ErrorCode>,
    at: Timestamp,
    connector: Option<Arc<str>>,
}

impl<V: Verdict + Clone> From<&Concluded<V>> for Ending {
    fn from(concluded: &Concluded<V>) -> Self {
        let check = concluded.check();
        Ending {
            check: check.id,
            project: check.project,
            product: check.product,
            network: check.network.clone(),
            created_at: check.created_at,
            status: check.status(),
            matched: check.verdict().and_then(Verdict::matched),
            discovered: check.verdict().and_then(Verdict::discovered).cloned(),
            error_code: check.error_code(),
            at: check.updated_at().unwrap_or(check.expires_at),
            connector: None,
        }
    }
}

impl Ending {
    /// The same end, by what a connector of this name has brought, where one has.
    #[must_use]
    pub fn brought_by(self, connector: Option<Arc<str>>) -> Self {
        Ending { connector, ..self }
    }

    /// The name of the connector that brought what ended the check, where one did.
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

    pub fn status(&self) -> Status {
        self.status
    }

    pub fn matched(&self) -> Option<bool> {
        self.matched
    }

    pub fn discovered(&self) -> Option<&DiscoveredNumber> {
        self.discovered.as_ref()
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        self.error_code
    }

    pub fn at(&self) -> Timestamp {
        self.at
    }
}
