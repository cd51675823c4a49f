//! The verdict of a check of any product, and the conclusion of a check in the form in which it is stored.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Check, CheckId, CheckStatus, Concluded, DiscoveredNumber, ErrorCode};
use crate::{
    network::NetworkId,
    product::Product,
    reverse_sms::SenderMatch,
    silent::{OperatorVerdict, SilentWay, WalletFailure},
    sim_swap::SimSwapVerdict,
    tenancy::ProjectId,
    verification::{Method, VerificationVerdict},
};

/// What the verdicts of all products have in common, for storing and counting them.
pub trait Verdict {
    /// Whether the number matches the claimed one; for SIM Swap, whether the SIM is unchanged. `None`: the product has
    /// no claimed number.
    fn matched(&self) -> Option<bool>;

    /// The number that the check discovered (Discovery only).
    fn discovered_number(&self) -> Option<&DiscoveredNumber> {
        None
    }

    /// The verdict of a verification, which also has a method and a result about SIM changes. `None` for other
    /// products.
    fn verification_verdict(&self) -> Option<VerificationVerdict> {
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

    fn discovered_number(&self) -> Option<&DiscoveredNumber> {
        match self {
            AnyVerdict::Device(verdict) => verdict.discovered_number(),
            AnyVerdict::Sender(_) | AnyVerdict::Sim(_) | AnyVerdict::Verification(_) => None,
        }
    }

    fn verification_verdict(&self) -> Option<VerificationVerdict> {
        match self {
            AnyVerdict::Verification(verdict) => Some(*verdict),
            AnyVerdict::Sender(_) | AnyVerdict::Device(_) | AnyVerdict::Sim(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the verdict belongs to another product")]
pub struct WrongProduct;

/// Converts the verdicts of products to and from [`AnyVerdict`].
macro_rules! verdict_conversions {
    ($($variant:ident($verdict:ty),)*) => {$(
        impl From<$verdict> for AnyVerdict {
            fn from(verdict: $verdict) -> Self {
                AnyVerdict::$variant(verdict)
            }
        }

        impl TryFrom<AnyVerdict> for $verdict {
            type Error = WrongProduct;

            fn try_from(verdict: AnyVerdict) -> Result<Self, WrongProduct> {
                match verdict {
                    AnyVerdict::$variant(verdict) => Ok(verdict),
                    _ => Err(WrongProduct),
                }
            }
        }
    )*};
}

verdict_conversions! {
    Sender(SenderMatch),
    Device(OperatorVerdict),
    Sim(SimSwapVerdict),
    Verification(VerificationVerdict),
}

/// The conclusion of a check, in the form in which it is stored. Other crates can only create it from a [`Concluded`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckConclusion {
    pub check: CheckId,
    pub project: ProjectId,
    pub product: Product,
    pub network: Option<NetworkId>,
    pub created_at: Timestamp,
    pub status: CheckStatus,
    pub matched: Option<bool>,
    pub discovered: Option<DiscoveredNumber>,
    pub verification: Option<VerificationVerdict>,
    pub error_code: Option<ErrorCode>,
    pub at: Timestamp,
    pub provenance: Provenance,
}

/// What led to the conclusion of a check, for its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Name of the connector whose SMS concluded the check. `None`: it was not concluded by an SMS.
    pub connector: Option<Arc<str>>,
    /// The way that a silent check took last. `None`: no device has begun it, or the check is of another product.
    pub way: Option<SilentWay>,
    /// Why the phone's wallet led to no verdict. `None`: it led to one, or was not asked.
    pub wallet_failure: Option<WalletFailure>,
}

impl From<SilentWay> for Provenance {
    fn from(way: SilentWay) -> Self {
        Provenance { way: Some(way), ..Provenance::default() }
    }
}

impl From<WalletFailure> for Provenance {
    fn from(failure: WalletFailure) -> Self {
        Provenance { wallet_failure: Some(failure), ..SilentWay::OperatorToken.into() }
    }
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
            discovered: check.verdict().and_then(Verdict::discovered_number).cloned(),
            verification: check.verdict().and_then(Verdict::verification_verdict),
            error_code: check.error_code(),
            at: check.updated_at().unwrap_or(check.expires_at),
            provenance: Provenance::default(),
        }
    }
}

impl CheckConclusion {
    #[must_use]
    pub fn with_provenance(self, provenance: Provenance) -> Self {
        CheckConclusion { provenance, ..self }
    }

    /// The method that gave the verdict of a verification. `None` for other products, or without a verdict.
    pub fn method(&self) -> Option<Method> {
        self.verification.map(|verdict| verdict.method)
    }

    /// Whether the SIM is unchanged, for a verification that asked about it. `None`: it did not ask, or got no answer.
    pub fn no_sim_change(&self) -> Option<bool> {
        self.verification?.no_sim_change
    }
}
