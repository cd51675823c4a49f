//! Whether there are binds, and what the networks and the console are told of it.

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::{networks::Networks, ports::Clock};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::Counters;

/// How a connector is, for a console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How many binds there are to be.
    pub binds: usize,
    pub binds_up: usize,
    /// Since when there has been a bind, or none.
    pub since: Timestamp,
    /// Whether the receivers count as heard.
    pub hears: bool,
    /// What went wrong last, also when all is well again.
    pub last_error: Option<LastError>,
}

/// Holds no number, text or password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub what: String,
    pub at: Timestamp,
}

#[derive(Debug)]
struct State {
    status: Status,
    /// The same as `since`, on the clock that timers go by.
    changed: Instant,
    /// The message centre does not know us.
    refused: bool,
}

pub(super) struct Presence {
    state: watch::Sender<State>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// A bind that is up, until this is dropped.
#[must_use = "the bind counts for as long as this is kept"]
pub(super) struct Up<'a>(&'a Presence);

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.0.change_binds(|binds| binds - 1);
    }
}

impl Presence {
    pub(super) fn new(binds: usize, clock: Arc<dyn Clock>, counters: Arc<Counters>) -> Self {
        counters.set_binds_up(0);
        let status = Status { binds, binds_up: 0, since: clock.now(), hears: true, last_error: None };
        let state = State { status, changed: Instant::now(), refused: false };
        Self { state: watch::Sender::new(state), clock, counters }
    }

    pub(super) fn status(&self) -> Status {
        self.state.borrow().status.clone()
    }

    pub(super) async fn wait_until(&self, mut wished: impl FnMut(&Status) -> bool) -> Status {
        let mut changes = self.state.subscribe();
        // There is always a sender: this has it.
        changes
            .wait_for(|state| wished(&state.status))
            .await
            .map_or_else(|_| self.status(), |state| state.status.clone())
    }

    pub(super) fn up(&self) -> Up<'_> {
        self.change_binds(|binds| binds + 1);
        Up(self)
    }

    pub(super) fn failed(&self, what: String, refused: bool) {
        let at = self.clock.now();
        self.state.send_modify(|state| {
            state.status.last_error = Some(LastError { what, at });
            state.refused |= refused;
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
                (status.since, state.changed, state.refused) = (now, Instant::now(), false);
            }
        });
    }

    /// Tells the networks whether the receivers are heard, for as long as it is run.
    pub(super) async fn tell(&self, networks: &Networks, name: &Arc<str>, receivers: &[Msisdn], grace: Duration) {
        let mut changes = self.state.subscribe();
        networks.hears(name, receivers, true);
        loop {
            let (up, hears, patience_ends) = {
                let State { status, changed, refused } = &*changes.borrow_and_update();
                let patience = if *refused { Duration::ZERO } else { grace };
                (status.binds_up > 0, status.hears, *changed + patience)
            };
            let still_hears = up || hears && Instant::now() < patience_ends;
            if still_hears != hears {
                networks.hears(name, receivers, still_hears);
                self.state.send_modify(|state| state.status.hears = still_hears);
                if still_hears {
                    tracing::info!(connector.name = %name, "the receivers of this connector are heard again");
                } else {
                    tracing::warn!(connector.name = %name, "the receivers of this connector are not heard");
                }
            }
            tokio::select! {
                told = changes.changed() => if told.is_err() { return },
                () = sleep_until(patience_ends), if still_hears && !up => {}
            }
        }
    }
}
