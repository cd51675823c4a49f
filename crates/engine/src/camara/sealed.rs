//! Sealed data that clients keep.
//!
//! The JSON keys and purposes must not change, because sealed data could then no longer be read.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{context::Context, ports::store::StoreError};

const SEAL_CONTEXT: &[u8] = b"camara-backchannel-request";

/// An approved backchannel request, which the client keeps as `auth_req_id`. Encrypted, it needs no row.
#[derive(Serialize, Deserialize)]
pub(super) struct ApprovedRequest {
    pub id: Uuid,
    pub client: String,
    pub scope: String,
    /// The client's `login_hint`, which may contain a number or a token.
    pub hint: String,
    /// Unix time in seconds.
    pub expires_at: i64,
}

impl ApprovedRequest {
    pub(super) fn seal(&self, context: &Context) -> Result<String, StoreError> {
        let plain = serde_json::to_vec(self).map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(context.seal(SEAL_CONTEXT, &plain)?))
    }

    /// `None`: the text is no sealed request of this deployment.
    pub(super) fn unseal(context: &Context, text: &str) -> Option<Self> {
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        serde_json::from_slice(&context.unseal(SEAL_CONTEXT, &sealed)?).ok()
    }
}
