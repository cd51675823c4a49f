//! Status of the binds, and availability of the receivers.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::{networks::Networks, ports::Clock};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::SmppCounters;

/// Status of an SMPP connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmppStatus {
    /// Configured number of binds.
    pub binds: usize,
    pub binds_up: usize,
    /// Time of the last change between no bind and at least one.
    pub since: Timestamp,
    /// Stays true for the grace period after the last bind is lost.
    pub receivers_available: bool,
    /// The last error; kept after recovery.
    pub last_error: Option<LastBindError>,
}

/// Never contains a number, text or password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastBindError {
    pub message: String,
    pub at: Timestamp,
}

#[derive(Debug)]
struct State {
    status: SmppStatus,
    /// `since` on the monotonic clock.
    changed_at: Instant,
    /// Skips the grace period.
    credentials_rejected: bool,
}

pub(super) struct BindStatus {
    state: watch::Sender<State>,
    clock: Arc<dyn Clock>,
    counters: Arc<SmppCounters>,
}

impl fmt::Debug for BindStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindStatus").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// Counts a bind as up until dropped.
#[must_use = "the bind counts as up only while this guard lives"]
pub(super) struct BindUpGuard<'a>(&'a BindStatus);

impl Drop for BindUpGuard<'_> {
    fn drop(&mut self) {
        self.0.change_binds(|binds| binds - 1);
    }
}

impl BindStatus {
    pub(super) fn new(binds: usize, clock: Arc<dyn Clock>, counters: Arc<SmppCounters>) -> Self {
        counters.set_binds_up(0);
        let status = SmppStatus { binds, binds_up: 0, since: clock.now(), receivers_available: true, last_error: None };
        let state = State { status, changed_at: Instant::now(), credentials_rejected: false };
        Self { state: watch::Sender::new(state), clock, counters }
    }

    pub(super) fn status(&self) -> SmppStatus {
        self.state.borrow().status.clone()
    }

    pub(super) async fn wait_until(&self, mut predicate: impl FnMut(&SmppStatus) -> bool) -> SmppStatus {
        let mut changes = self.state.subscribe();
        // The sender is never dropped while `self` lives.
        changes
            .wait_for(|state| predicate(&state.status))
            .await
            .map_or_else(|_| self.status(), |state| state.status.clone())
    }

    pub(super) fn mark_up(&self) -> BindUpGuard<'_> {
        self.change_binds(|binds| binds + 1);
        BindUpGuard(self)
    }

    pub(super) fn record_failure(&self, message: String, credentials_rejected: bool) {
        let at = self.clock.now();
        self.state.send_modify(|state| {
            state.status.last_error = Some(LastBindError { message, at });
            state.credentials_rejected |= credentials_rejected;
        });
    }

    fn change_binds(&self, change: impl FnOnce(usize) -> usize) {
        let now = self.clock.now();
        self.state.send_modify(|state| {
            let status = &mut state.status;
            let had_one = status.binds_up > 0;
            status.binds_up = change(status.binds_up);
            self.counters.set_binds_up(status.binds_up);
            if had_one != (status.binds_up > 0) {
                (status.since, state.changed_at, state.credentials_rejected) = (now, Instant::now(), false);
            }
        });
    }

    /// Publishes the availability of the receivers to the networks; never returns.
    pub(super) async fn publish_availability(
        &self,
        networks: &Networks,
        name: &Arc<str>,
        receivers: &[Msisdn],
        grace: Duration,
    ) {
        let mut changes = self.state.subscribe();
        networks.set_receivers_available(name, receivers, true);
        loop {
            let (is_up, receivers_available, grace_ends) = {
                let State { status, changed_at, credentials_rejected } = &*changes.borrow_and_update();
                let grace_period = if *credentials_rejected { Duration::ZERO } else { grace };
                (status.binds_up > 0, status.receivers_available, *changed_at + grace_period)
            };
            let are_available = is_up || receivers_available && Instant::now() < grace_ends;
            if are_available != receivers_available {
                networks.set_receivers_available(name, receivers, are_available);
                self.state.send_modify(|state| state.status.receivers_available = are_available);
                if are_available {
                    tracing::info!(connector.name = %name, "receiver numbers back in service");
                } else {
                    tracing::warn!(connector.name = %name, "receiver numbers out of service: no bound connector");
                }
            }
            tokio::select! {
                change = changes.changed() => if change.is_err() { return },
                () = sleep_until(grace_ends), if are_available && !is_up => {}
            }
        }
    }
}
