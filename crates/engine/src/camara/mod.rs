//! CAMARA's Number Verification and SIM Swap, as an operator offers them: grants of access tokens, and the operations.
//!
//! Network authentication is part of the authorization endpoint, in [`sign_in`](crate::sign_in). The checks of the
//! project do the work: `verify` is a Secure SNA check, `device-phone-number` a Discovery check, and SIM Swap a SIM Swap
//! check.

mod grants;
mod operations;
mod sealed;

use std::sync::Arc;

pub use grants::{BackchannelRequest, BackchannelResponse, GrantError};
pub use operations::{LatestSimChange, SimSwapError, SimSwapQuestion, VerifyError};

use crate::{checks::Checks, context::Context, ports::sign_in::SignInStore, sign_in::SignIns, silent::SilentFlow};

/// Service for clients of CAMARA's APIs.
#[derive(derive_more::Debug)]
#[debug("Camara")]
pub struct Camara {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn SignInStore>,
    pub(crate) sign_ins: Arc<SignIns>,
    pub(crate) silent: Arc<SilentFlow>,
    pub(crate) checks: Arc<Checks>,
}

impl Camara {
    /// Whether this deployment offers CAMARA's APIs.
    pub fn is_enabled(&self) -> bool {
        self.context.settings.camara_enabled
    }
}
