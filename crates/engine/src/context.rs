//! Dependencies and helper functions that all services of the engine share.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    lifecycle::{CheckId, NumberHash, Sealed, StoredNumber},
    phone::Msisdn,
    reverse_sms::{SmsCode, SmsEnvironment},
    tenancy::{Mode, ProjectId, WorkspaceId},
};
use uuid::Uuid;

use crate::{
    EngineSettings,
    control_plane::{ControlPlane, RefreshError},
    keys::KeyRing,
    ports::{
        clock::Clock, control_plane::ControlPlaneStore, entropy::Entropy, hashes::CodeHash, keys::KeyId,
        store::StoreError,
    },
};

const MIN_DERIVED_TOKEN_BYTES: usize = 16;

/// What all services need: the clock, random numbers, the control plane (with the keys), and the settings.
pub(crate) struct Context {
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub control_plane: Arc<ControlPlane>,
    pub control_plane_store: Arc<dyn ControlPlaneStore>,
    pub settings: EngineSettings,
}

impl Context {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn new_uuid(&self, at: Timestamp) -> Uuid {
        uuid_v7(at, self.entropy.bytes())
    }

    pub(crate) fn keys(&self) -> arc_swap::Guard<Arc<KeyRing>> {
        self.control_plane.keys()
    }

    /// Hashes `parts` with the hash key (HMAC). The hash reveals nothing to someone who does not have the master key.
    pub(crate) fn keyed_hash(&self, parts: &[&[u8]]) -> Result<[u8; 32], StoreError> {
        self.keys().hash(parts).ok_or_else(|| StoreError::Refused("no active hash key".to_owned()))
    }

    /// Derives a token from `parts` with the active link key (HMAC), so that the token need not be stored. Used for
    /// tokens in links and forms.
    pub(crate) fn derive_token(&self, parts: &[&[u8]]) -> Result<[u8; 32], StoreError> {
        let derived = self.keys().derive_link_token(parts, self.now());
        derived.ok_or_else(|| StoreError::Refused("no active link key".to_owned()))
    }

    /// Returns whether `given` is the token that [`derive_token`](Self::derive_token) derives from `parts` with any
    /// valid link key. `given` may be truncated to no less than 16 bytes.
    pub(crate) fn is_derived_token(&self, parts: &[&[u8]], given: &[u8]) -> bool {
        let is_long_enough = given.len() >= MIN_DERIVED_TOKEN_BYTES;
        is_long_enough
            && self.keys().valid_link_tokens(parts, self.now()).any(|token| {
                token.get(..given.len()).is_some_and(|token| verify_slices_are_equal(token, given).is_ok())
            })
    }

    pub(crate) fn hash_number(&self, number: &Msisdn) -> Result<NumberHash, StoreError> {
        self.keyed_hash(&[b"number", number.as_str().as_bytes()]).map(NumberHash)
    }

    /// Returns a number in the form that checks store: its hash and its last digits.
    pub(crate) fn hash_number_with_tail(&self, number: &Msisdn) -> Result<StoredNumber, StoreError> {
        Ok(StoredNumber { hash: self.hash_number(number)?, tail: number.tail() })
    }

    /// Hashes the code of an SMS. The hash includes the receiver, so that the code is valid only in an SMS to this
    /// receiver. It includes the environment, so that a simulated SMS matches neither a live check nor a check of
    /// another project.
    pub(crate) fn hash_code(
        &self,
        environment: SmsEnvironment,
        receiver: &Msisdn,
        code: &SmsCode,
    ) -> Result<CodeHash, StoreError> {
        let (mode, receiver, code) =
            (environment.mode().into_str().as_bytes(), receiver.as_str().as_bytes(), code.as_str());
        let hash = match environment {
            SmsEnvironment::Operator => self.keyed_hash(&[b"code", mode, receiver, code.as_bytes()]),
            SmsEnvironment::Sandbox(project) => {
                self.keyed_hash(&[b"code", mode, project.0.as_bytes(), receiver, code.as_bytes()])
            }
        };
        hash.map(CodeHash)
    }

    /// Returns whether a check is a sandbox check whose project has gone live since. `mode` is that of the check. Such
    /// a check neither completes nor can be read, because its simulated verdict could be mistaken for a real one.
    pub(crate) fn has_left_sandbox(&self, project: ProjectId, mode: Mode) -> bool {
        mode == Mode::Sandbox && self.control_plane.has_project_where(project, |project| project.mode == Mode::Live)
    }

    /// Encrypts and authenticates data with the active seal key. The same `context` is required to unseal it.
    pub(crate) fn seal(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.keys().seal(&*self.entropy, context, plain, self.now()).ok_or_else(missing_seal_key)
    }

    /// Decrypts sealed data. `None`: the seal key is missing, the data was sealed with another `context`, or it was
    /// altered.
    pub(crate) fn unseal(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.keys().unseal(context, sealed)
    }

    pub(crate) fn active_seal_key(&self) -> Option<KeyId> {
        self.keys().active_seal_key(self.now())
    }

    /// Seals data of a check. The same purpose and check are required to unseal it, so a purpose must never be renamed.
    pub(crate) fn seal_for_check(&self, purpose: &str, check: CheckId, plain: &[u8]) -> Result<Sealed, StoreError> {
        self.seal(format!("{purpose}:{check}").as_bytes(), plain).map(Sealed)
    }

    pub(crate) fn unseal_for_check(&self, purpose: &str, check: CheckId, sealed: &Sealed) -> Option<Vec<u8>> {
        self.unseal(format!("{purpose}:{check}").as_bytes(), &sealed.0)
    }

    /// Creates an audit event with an empty list of changed fields and without a request id.
    pub(crate) fn new_audit_event(
        &self,
        actor: Actor,
        action: Action,
        workspace: Option<WorkspaceId>,
        target: String,
    ) -> AuditEvent {
        let at = self.now();
        AuditEvent { id: self.new_uuid(at), workspace, at, actor, action, target, changes: vec![], request_id: None }
    }

    /// Creates an audit event about an account. It belongs to the deployment, not to a workspace.
    pub(crate) fn new_account_audit_event(&self, actor: Actor, action: Action, account: AccountId) -> AuditEvent {
        self.new_audit_event(actor, action, None, account.to_string())
    }

    /// Loads the changes of the control plane since the last refresh.
    pub(crate) async fn refresh(&self) -> Result<(), RefreshError> {
        self.control_plane.refresh(&*self.control_plane_store, self.now()).await
    }

    /// Refreshes the control plane after a write by this node, so that the next request sees the change.
    pub(crate) async fn refresh_after_write(&self) {
        if let Err(error) = self.refresh().await {
            // The change is stored; the next poll loads it.
            tracing::warn!(%error, "control-plane refresh after a write failed; retrying");
        }
    }
}

pub(crate) fn missing_seal_key() -> StoreError {
    StoreError::Refused("no active seal key".to_owned())
}
