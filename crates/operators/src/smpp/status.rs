//! Status of the binds, and availability of the receivers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::{
    lookups::networks::Networks,
    ports::{clock::Clock, connectors::LastError, sms::SmsOutcome},
};
use strum::{IntoStaticStr, VariantArray};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Status of an SMPP connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmppStatus {
    /// Configured number of binds.
    pub binds: usize,
    pub binds_up: usize,
    /// Number of binds on another node that holds the lease of an exclusive connector. `None`: no other node is known
    /// to hold it.
    pub other_node_binds: Option<usize>,
    /// When the connector last changed between no bind and at least one. If the connector is exclusive, a bind of
    /// another node counts too.
    pub since: Timestamp,
    /// Whether the receivers are in service. Stays true for the grace period after the last bind is lost.
    pub receivers_available: bool,
    /// The last error, kept after recovery. Never contains a number, text or password.
    pub last_error: Option<LastError>,
}

impl SmppStatus {
    /// Whether this node, or the one that holds the lease, receives SMS.
    fn is_bound(&self) -> bool {
        self.binds_up > 0 || self.is_standby()
    }

    /// Whether another node is bound instead of this one.
    pub fn is_standby(&self) -> bool {
        self.other_node_binds.is_some_and(|binds| binds > 0)
    }
}

#[derive(Debug)]
pub(super) struct State {
    status: SmppStatus,
    /// `since` on the monotonic clock.
    changed_at: Instant,
    /// Whether the SMSC rejected our credentials. The receivers are then out of service without a grace period.
    credentials_rejected: bool,
}

#[derive(derive_more::Debug)]
#[debug("BindStatus({:?})", state.borrow())]
pub(super) struct BindStatus {
    state: watch::Sender<State>,
    clock: Arc<dyn Clock>,
    counters: Arc<SmppCounters>,
}

/// Counts a bind as up until this guard is dropped.
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
        let status = SmppStatus {
            binds,
            binds_up: 0,
            other_node_binds: None,
            since: clock.now(),
            receivers_available: true,
            last_error: None,
        };
        let state = State { status, changed_at: Instant::now(), credentials_rejected: false };
        Self { state: watch::Sender::new(state), clock, counters }
    }

    pub(super) fn status(&self) -> SmppStatus {
        self.state.borrow().status.clone()
    }

    pub(super) async fn wait_until(&self, mut predicate: impl FnMut(&SmppStatus) -> bool) -> SmppStatus {
        let mut changes = self.state.subscribe();
        // Waiting fails only if the sender is dropped, and `self` keeps it alive.
        changes
            .wait_for(|state| predicate(&state.status))
            .await
            .map_or_else(|_| self.status(), |state| state.status.clone())
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn mark_up(&self) -> BindUpGuard<'_> {
        self.change_binds(|binds| binds + 1);
        BindUpGuard(self)
    }

    /// Sets the number of binds on another node that holds the lease. `None`: no other node is known to hold it.
    pub(super) fn set_other_node(&self, binds: Option<usize>) {
        if self.state.borrow().status.other_node_binds != binds {
            self.change(|status| status.other_node_binds = binds);
        }
    }

    pub(super) fn record_failure(&self, message: String, credentials_rejected: bool) {
        let at = self.clock.now();
        self.state.send_modify(|state| {
            state.status.last_error = Some(LastError { message, at });
            state.credentials_rejected |= credentials_rejected;
        });
    }

    fn change_binds(&self, change: impl FnOnce(usize) -> usize) {
        self.change(|status| {
            status.binds_up = change(status.binds_up);
            self.counters.set_binds_up(status.binds_up);
        });
    }

    fn change(&self, change: impl FnOnce(&mut SmppStatus)) {
        let now = self.clock.now();
        self.state.send_modify(|state| {
            let was_bound = state.status.is_bound();
            change(&mut state.status);
            if was_bound != state.status.is_bound() {
                state.status.since = now;
                (state.changed_at, state.credentials_rejected) = (Instant::now(), false);
            }
        });
    }

    /// Reports to [`Networks`] whether the receivers are in service. Never returns.
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
                (status.is_bound(), status.receivers_available, *changed_at + grace_period)
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

/// Outcome of a received message or part. The name is the value of a label in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SmppOutcome {
    /// Counts every message, whatever its outcome.
    Received,
    // Outcomes of complete SMS, with the names of `SmsOutcome`.
    Concluded,
    TooLate,
    Pending,
    Unmatched,
    Unusable,
    /// Dropped: a delivery receipt, or another message that is not an SMS.
    NotAnSms,
    /// Dropped: not to one of our numbers.
    OtherReceiver,
    /// Dropped: unsupported coding.
    Unreadable,
    /// A part was stored and acknowledged. The part that completes an SMS counts under the outcome of the SMS instead.
    #[strum(serialize = "part_taken")]
    PartAcknowledged,
    /// An SMS expired before all parts arrived.
    PartsMissing,
    /// Answered with a temporary error; the SMSC resends it.
    TemporaryError,
    /// Not a valid PDU.
    Malformed,
}

impl From<SmsOutcome> for SmppOutcome {
    fn from(outcome: SmsOutcome) -> Self {
        match outcome {
            SmsOutcome::Concluded => Self::Concluded,
            SmsOutcome::TooLate => Self::TooLate,
            SmsOutcome::Pending => Self::Pending,
            SmsOutcome::Unmatched => Self::Unmatched,
            SmsOutcome::Unusable => Self::Unusable,
        }
    }
}

/// Counters of a connector. They outlive the connector, so that its replacement continues them.
#[derive(Debug, Default)]
pub struct SmppCounters {
    outcomes: [AtomicU64; SmppOutcome::VARIANTS.len()],
    binds_up: AtomicUsize,
}

impl SmppCounters {
    pub fn get(&self, outcome: SmppOutcome) -> u64 {
        self.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Returns all counts, with the labels of their outcomes.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        SmppOutcome::VARIANTS.iter().map(|outcome| (outcome.into_str(), self.get(*outcome)))
    }

    pub fn binds_up(&self) -> usize {
        self.binds_up.load(Ordering::Relaxed)
    }

    pub(super) fn increment(&self, outcome: SmppOutcome) {
        self.add(outcome, 1);
    }

    pub(super) fn add(&self, outcome: SmppOutcome, amount: u64) {
        self.outcomes[outcome as usize].fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn set_binds_up(&self, binds: usize) {
        self.binds_up.store(binds, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_counter_and_a_label() {
        let counters = SmppCounters::default();
        for (times, outcome) in (1..).zip(SmppOutcome::VARIANTS) {
            counters.add(*outcome, times);
            assert_eq!(counters.get(*outcome), times);
        }
        // The inbox's outcomes have the same labels in all connectors.
        for outcome in [
            SmsOutcome::Concluded,
            SmsOutcome::TooLate,
            SmsOutcome::Pending,
            SmsOutcome::Unmatched,
            SmsOutcome::Unusable,
        ] {
            assert_eq!(SmppOutcome::from(outcome).into_str(), outcome.into_str());
        }
    }
}
