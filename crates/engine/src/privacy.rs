//! Keeping no more of people than is needed, and forgetting them when asked.
//!
//! Numbers and codes are kept as keyed hashes: whoever holds the database without the master key learns none. What
//! must be read again, such as callback URLs and bodies, is sealed.

use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
    lifecycle::NumberHash,
    phone::Msisdn,
    reverse_sms::{Code, Origin},
};

use crate::{
    Engine,
    ports::{CodeHash, Erased, StoreError},
};

/// How many checks are cleared in one transaction.
const BATCH: u32 = 500;

impl Engine {
    pub(crate) fn number_hash(&self, number: &Msisdn) -> Result<NumberHash, StoreError> {
        self.hash(&[b"number", number.as_str().as_bytes()]).map(NumberHash)
    }

    /// With the receiver in it, a code sent to another number is another code; with the origin, a simulated SMS meets
    /// neither a live check nor one of another project.
    pub(crate) fn code_hash(&self, origin: Origin, receiver: &Msisdn, code: &Code) -> Result<CodeHash, StoreError> {
        let (mode, receiver, code) = (origin.mode().as_str().as_bytes(), receiver.as_str().as_bytes(), code.as_str());
        let hash = match origin {
            Origin::Operator => self.hash(&[b"code", mode, receiver, code.as_bytes()]),
            Origin::Sandbox(project) => self.hash(&[b"code", mode, project.0.as_bytes(), receiver, code.as_bytes()]),
        };
        hash.map(CodeHash)
    }

    /// The key by which the simulated operators of all nodes take each other's codes and tokens.
    pub fn sandbox_operator_key(&self) -> Result<[u8; 32], StoreError> {
        self.hash(&[b"sandbox operator"])
    }

    pub(crate) fn hash(&self, parts: &[&[u8]]) -> Result<[u8; 32], StoreError> {
        let hash = self.control_plane().keys().hash(parts);
        hash.ok_or_else(|| StoreError::Refused("no hash key is in use".to_owned()))
    }

    /// Erases what is kept of a number, in all projects, and leaves a line in the audit log. Tells what is still open:
    /// that follows when it has ended.
    pub async fn erase_number(&self, number: &Msisdn) -> Result<(Erased, AuditEvent), StoreError> {
        let at = self.clock().now();
        let audit = AuditEvent {
            id: time_ordered(at, self.entropy().bytes()),
            workspace: None,
            at,
            actor: Actor::Operator,
            action: Action::NumberErased,
            target: format!("…{}", number.tail()),
            changes: vec![],
            request_id: None,
        };
        let erased = self.store().erase_number(self.number_hash(number)?, &audit).await?;
        Ok((erased, AuditEvent { changes: erased.to_be_continued(), ..audit }))
    }

    /// Erases numbers, codes and callback bodies of checks that ended longer ago than they are kept for, or whose numbers
    /// are erased. Numbers that were found out are kept for a shorter time.
    pub(crate) async fn erase_due(&self, now: Timestamp) -> Result<Erased, StoreError> {
        let before = |retention| now.saturating_sub(retention).unwrap_or(Timestamp::MIN);
        let (old, old_discovered) = (before(self.retention()), before(self.discovery_retention()));
        let mut total = Erased::default();
        loop {
            // Whatever becomes of one, the others are tried.
            let batch = [
                self.store().erase_left(BATCH).await,
                self.store().erase_discovered(old_discovered, BATCH).await,
                self.store().erase_old(old, BATCH).await,
            ];
            let batch = batch.into_iter().collect::<Result<Vec<_>, _>>()?;
            if batch.iter().all(|erased| *erased == Erased::default()) {
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
