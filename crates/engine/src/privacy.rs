//! Keyed hashes of personal data, and its erasure.
//!
//! Numbers and codes are stored as keyed hashes, which reveal nothing without the master key. Data that must be read
//! again, such as callback URLs and bodies, is sealed.

use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
    lifecycle::NumberHash,
    phone::Msisdn,
    reverse_sms::{SmsCode, SmsOrigin},
};

use crate::{
    Engine,
    ports::{CodeHash, ErasureCounts, StoreError},
};

const MAX_BATCH_CHECKS: u32 = 500;

impl Engine {
    pub(crate) fn hash_number(&self, number: &Msisdn) -> Result<NumberHash, StoreError> {
        self.keyed_hash(&[b"number", number.as_str().as_bytes()]).map(NumberHash)
    }

    /// Includes the receiver, so that a code matches only at its receiver, and the origin, so that a simulated SMS
    /// matches neither a live check nor one of another project.
    pub(crate) fn hash_code(
        &self,
        origin: SmsOrigin,
        receiver: &Msisdn,
        code: &SmsCode,
    ) -> Result<CodeHash, StoreError> {
        let (mode, receiver, code) = (origin.mode().as_str().as_bytes(), receiver.as_str().as_bytes(), code.as_str());
        let hash = match origin {
            SmsOrigin::Operator => self.keyed_hash(&[b"code", mode, receiver, code.as_bytes()]),
            SmsOrigin::Sandbox(project) => {
                self.keyed_hash(&[b"code", mode, project.0.as_bytes(), receiver, code.as_bytes()])
            }
        };
        hash.map(CodeHash)
    }

    /// Key shared by the simulated operators of all nodes, so that they accept each other's codes and tokens.
    pub fn derive_sandbox_operator_key(&self) -> Result<[u8; 32], StoreError> {
        self.keyed_hash(&[b"sandbox operator"])
    }

    pub(crate) fn keyed_hash(&self, parts: &[&[u8]]) -> Result<[u8; 32], StoreError> {
        let hash = self.control_plane().keys().hash(parts);
        hash.ok_or_else(|| StoreError::Refused("no active hash key".to_owned()))
    }

    /// Erases a number in all projects and writes an audit event. Data of open checks is erased after they conclude;
    /// the returned event lists it.
    pub async fn erase_number(&self, number: &Msisdn) -> Result<(ErasureCounts, AuditEvent), StoreError> {
        let at = self.clock().now();
        let audit = AuditEvent {
            id: uuid_v7(at, self.entropy().bytes()),
            workspace: None,
            at,
            actor: Actor::Operator,
            action: Action::NumberErased,
            target: format!("…{}", number.tail()),
            changes: vec![],
            request_id: None,
        };
        let erased = self.store().erase_number(self.hash_number(number)?, &audit).await?;
        Ok((erased, AuditEvent { changes: erased.audit_details(), ..audit }))
    }

    /// Erases numbers, codes and callback bodies of concluded checks after their retention, or after the erasure of
    /// their number. Discovered numbers have a shorter retention.
    pub(crate) async fn erase_due(&self, now: Timestamp) -> Result<ErasureCounts, StoreError> {
        let cutoff = |retention| now.saturating_sub(retention).unwrap_or(Timestamp::MIN);
        let (old, old_discovered) = (cutoff(self.number_retention()), cutoff(self.discovery_retention()));
        let mut total = ErasureCounts::default();
        loop {
            // Runs all three even if one fails.
            let batch = [
                self.store().erase_deferred(MAX_BATCH_CHECKS).await,
                self.store().erase_discovered_numbers(old_discovered, MAX_BATCH_CHECKS).await,
                self.store().erase_old_checks(old, MAX_BATCH_CHECKS).await,
            ];
            let batch = batch.into_iter().collect::<Result<Vec<_>, _>>()?;
            if batch.iter().all(|erased| *erased == ErasureCounts::default()) {
                return Ok(total);
            }
            for erased in batch {
                total.checks += erased.checks;
                total.callbacks += erased.callbacks;
                total.attempts += erased.attempts;
            }
        }
    }
}
