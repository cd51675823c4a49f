//! Detection of a database that was restored from a backup, and the repair after it.
//!
//! Every heartbeat increments a counter in the database, the generation. A node keeps the last generation in memory
//! and, with a state file, across restarts. A lower generation means that the database was rolled back. A database
//! server also has an identity, which a restore changes; it is weaker evidence, since a promoted standby has a new
//! identity too and may have lost nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::uuid_v7,
};

use crate::{
    Engine,
    keys::{self, KeyRotation, RotateError},
    ports::{HeartbeatResult, KeyPurpose, StoreError},
};

/// From the conclusion of a check to the last attempt at its callback: six delays, and seven attempts of ten seconds.
const MAX_CALLBACK_AGE: SignedDuration = SignedDuration::from_mins(5);
const MAX_BATCH_CALLBACKS: u32 = 500;

/// Detects that the database was rolled back.
#[derive(Debug, Default)]
pub(crate) struct RollbackDetector {
    /// Last seen generation, or zero.
    generation: AtomicI64,
    rollback_detected_at: Mutex<Option<Timestamp>>,
}

impl RollbackDetector {
    pub(crate) fn generation(&self) -> i64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn update(&self, heartbeat: &HeartbeatResult) {
        self.generation.store(heartbeat.generation, Ordering::Release);
        let mut known = self.rollback_detected_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(at), true) = (heartbeat.rollback_detected_at, *known != heartbeat.rollback_detected_at) {
            tracing::error!(
                noticed_at = %at,
                "DATABASE ROLLED BACK: it was restored from a backup, copied or replaced. Tokens revoked since then may be \
                 valid again, and old callbacks may be sent again. Stop all servers, run `ringtrue restored`, and start \
                 them again"
            );
        }
        *known = heartbeat.rollback_detected_at;
    }
}

/// Result of the repair after a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// Callbacks given up because they were overdue.
    pub callbacks: u64,
    /// Expired checks that were concluded.
    pub checks: usize,
    /// Console sessions and links that were ended.
    pub sessions: u64,
    pub event: AuditEvent,
}

impl Engine {
    /// The last generation that this node has seen.
    pub fn database_generation(&self) -> i64 {
        self.rollback_detector().generation()
    }

    /// Compares the database's generation with the one in the node's state file, if any.
    pub async fn detect_rollback(&self, last_seen: Option<i64>) -> Result<(), StoreError> {
        self.rollback_detector().generation.store(last_seen.unwrap_or(0), Ordering::Release);
        self.send_heartbeat_with_identity().await
    }

    /// Repairs a database after a restore from a backup: invalidates all access tokens, sessions and links, concludes
    /// expired checks, gives up overdue callbacks, and records that the database is accepted.
    ///
    /// An expired check was probably concluded with another outcome after the backup, and that callback was delivered.
    /// Its callback is given up too, so that it cannot contradict the delivered one.
    pub async fn accept_restored_database(&self) -> Result<RestoreReport, RotateError> {
        let rotation = KeyRotation::by_operator(KeyPurpose::Token, true);
        let master = self.control_plane().master_key();
        keys::rotate_key(rotation, self.store(), master, self.clock(), self.entropy()).await?;
        let now = self.clock().now();
        // The command line must not send callbacks; servers do.
        self.courier().stop_sending();
        let checks = self.sweep().await?;
        let mut callbacks = 0;
        loop {
            match self.store().give_up_overdue_callbacks(now - MAX_CALLBACK_AGE, MAX_BATCH_CALLBACKS).await? {
                0 => break,
                given_up => callbacks += given_up,
            }
        }
        let at = self.clock().now();
        let event = AuditEvent {
            id: uuid_v7(at, self.entropy().bytes()),
            workspace: None,
            at,
            actor: Actor::Operator,
            action: Action::DatabaseRestored,
            target: "database".to_owned(),
            changes: vec![],
            request_id: None,
        };
        let sessions = self.store().accept_restored_database(&event).await?;
        Ok(RestoreReport { callbacks, checks, sessions, event })
    }
}
