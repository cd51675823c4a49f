//! Databases that went back in time: noticing it, and putting right what a restore from a backup revives.
//!
//! Every heartbeat raises a counter in the database, the generation. A node remembers the last one that it has seen, in
//! memory and, where it has a state file, across restarts. A database whose counter is lower is an older one. A database
//! server also has an identity, which a restore changes; it is trusted less than a generation, since a standby that takes
//! over has a new identity as well and may have lost nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicI64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    id::time_ordered,
};

use crate::{
    Engine,
    keys::{self, RotateError, Rotation},
    ports::{Heartbeat, KeyPurpose, StoreError},
};

/// From the end of a check to the last attempt at its callback: six gaps, and seven attempts of ten seconds.
const CALLBACK_WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// How many callbacks are settled in one transaction.
const BATCH: u32 = 500;

/// What a node knows of the database's past.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// The last generation that was seen; zero: none.
    generation: AtomicI64,
    went_back_at: Mutex<Option<Timestamp>>,
}

impl Lineage {
    pub(crate) fn generation(&self) -> i64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn update(&self, heartbeat: &Heartbeat) {
        self.generation.store(heartbeat.generation, Ordering::Release);
        let mut known = self.went_back_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(at), true) = (heartbeat.went_back_at, *known != heartbeat.went_back_at) {
            tracing::error!(
                noticed_at = %at,
                "THE DATABASE IS OLDER THAN IT WAS: it was restored from a backup, copied or replaced. Tokens that were \
                 revoked since may work again, and old callbacks may be sent again. Stop all servers, run `ringtrue \
                 restored`, and start them again"
            );
        }
        *known = heartbeat.went_back_at;
    }
}

/// What was put right after a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Callbacks that are not sent any more, because their time was over.
    pub callbacks: u64,
    /// Checks that had expired and were ended.
    pub checks: usize,
    /// Sessions and links of the console that were ended.
    pub sessions: u64,
    pub event: AuditEvent,
}

impl Engine {
    /// The last generation of the database that this node has seen.
    pub fn database_generation(&self) -> i64 {
        self.lineage().generation()
    }

    /// Compares the database with what was remembered of it when a node last ran here: a generation, if any.
    pub async fn recognise_database(&self, remembered: Option<i64>) -> Result<(), StoreError> {
        self.lineage().generation.store(remembered.unwrap_or(0), Ordering::Release);
        self.beat_with_identity().await
    }

    /// Puts right what a restore from a backup has revived: ends all access tokens, sessions and links, ends checks that
    /// have expired, gives up callbacks whose time is over, and records that the database is accepted as it is.
    ///
    /// A check whose time was over long ago has probably ended otherwise after the backup, and its receiver was told:
    /// its callback is given up too, so that none contradicts what was said before.
    pub async fn accept_restored_database(&self) -> Result<Restored, RotateError> {
        let rotation = Rotation::by_operator(KeyPurpose::Token, true);
        let master = self.control_plane().master();
        keys::rotate(rotation, self.store(), master, self.clock(), self.entropy()).await?;
        let now = self.clock().now();
        // Servers send callbacks, not the command line.
        self.courier().stop_sending();
        let checks = self.sweep().await?;
        let mut callbacks = 0;
        loop {
            match self.store().give_up_overdue(now - CALLBACK_WINDOW, BATCH).await? {
                0 => break,
                given_up => callbacks += given_up,
            }
        }
        let at = self.clock().now();
        let event = AuditEvent {
            id: time_ordered(at, self.entropy().bytes()),
            workspace: None,
            at,
            actor: Actor::Operator,
            action: Action::DatabaseRestored,
            target: "database".to_owned(),
            changes: vec![],
            request_id: None,
        };
        let sessions = self.store().accept_restored_database(&event).await?;
        Ok(Restored { callbacks, checks, sessions, event })
    }
}
