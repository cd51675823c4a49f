//! Finds receivers that have failed for a long time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::CheckId, tenancy::Project};

use super::{CallbackFilter, CallbackSummary, Callbacks, list::ERASED};
use crate::ports::{
    callbacks::{CallbackSelection, CallbackState},
    store::StoreError,
};

/// How long all attempts must have failed before a receiver counts as failing.
const MIN_FAILING_MINUTES: i64 = 60;
/// Age of the checks whose undelivered callbacks are considered. A receiver without newer ones may be out of use.
const MAX_FAILURE_AGE_MINUTES: i64 = 24 * 60;
/// Ends of the time slices in which deliveries are searched, newest first. Slices get longer with their age, so that
/// few of them reach back for a week.
const SLICE_ENDS_MINUTES_AGO: [i64; 12] = [
    10,
    20,
    30,
    40,
    50,
    MIN_FAILING_MINUTES,
    2 * 60,
    4 * 60,
    8 * 60,
    MAX_FAILURE_AGE_MINUTES,
    3 * 24 * 60,
    7 * 24 * 60,
];
/// Maximum number of callbacks that are read from each slice. With more callbacks, they are a sample.
const CALLBACKS_PER_SLICE: u32 = 100;
/// Maximum number of undelivered callbacks that are read and counted.
const MAX_UNDELIVERED: u32 = 500;
const MAX_FAILING_RECEIVERS: usize = 10;

/// A receiver to which all attempts have failed for at least an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingReceiver {
    /// Host of the callback URL, with the port unless it is the default one.
    pub receiver: String,
    /// All known attempts since this time have failed.
    pub since: Timestamp,
    /// Callbacks that wait for another attempt.
    pub waiting: usize,
    /// Callbacks that were given up.
    pub given_up: usize,
    /// Whether there may be more undelivered callbacks than these numbers say.
    pub is_at_least: bool,
    /// HTTP status or failure name of the last attempt.
    pub last_reason: String,
}

impl Callbacks {
    /// Finds receivers of a project to which all attempts have failed for at least an hour, up to ten. Costs one
    /// indexed query if no callback of the last day is undelivered.
    pub async fn failing_receivers(&self, project: &Project) -> Result<Vec<FailingReceiver>, StoreError> {
        let now = self.context.now();
        let before_now = |minutes| now.checked_sub(SignedDuration::from_mins(minutes)).unwrap_or(Timestamp::MIN);
        let recent = |selection| CallbackFilter {
            created_from: Some(before_now(MAX_FAILURE_AGE_MINUTES)),
            ..CallbackFilter::new(selection)
        };
        let undelivered = self.read_callbacks(project, &recent(CallbackSelection::Failing), MAX_UNDELIVERED).await?;
        let mut unresolved: BTreeSet<String> = failures(&undelivered.callbacks).map(|it| it.receiver.clone()).collect();
        if unresolved.is_empty() {
            return Ok(vec![]);
        }
        let is_at_least = undelivered.read_back_to.is_some();
        let recovered = self.read_callbacks(project, &recent(CallbackSelection::Recovered), MAX_UNDELIVERED).await?;
        let mut observed = Observed::default();
        observed.extend(undelivered.callbacks);
        observed.extend(recovered.callbacks);
        let mut slice_end = None;
        for minutes in SLICE_ENDS_MINUTES_AGO {
            unresolved.retain(|receiver| observed.last_delivery(receiver).is_none());
            if unresolved.is_empty() {
                break;
            }
            let slice = CallbackFilter {
                created_from: Some(before_now(minutes)),
                created_before: slice_end,
                ..CallbackFilter::new(CallbackSelection::All)
            };
            observed.extend(self.read_callbacks(project, &slice, CALLBACKS_PER_SLICE).await?.callbacks);
            slice_end = slice.created_from;
        }
        Ok(observed.failing_receivers(now, is_at_least))
    }
}

/// Returns the callbacks whose last attempt failed and whose URL is known.
fn failures<'c>(callbacks: impl IntoIterator<Item = &'c CallbackSummary>) -> impl Iterator<Item = &'c CallbackSummary> {
    let is_failure =
        |callback: &&CallbackSummary| callback.attempts > 0 && !is_delivery(callback) && callback.receiver != ERASED;
    callbacks.into_iter().filter(is_failure)
}

/// Returns whether the last attempt delivered the callback. The callback may be waiting again, because it was resent.
fn is_delivery(callback: &CallbackSummary) -> bool {
    callback.state == CallbackState::Delivered || callback.reason == "200"
}

/// Callbacks that were read, each of them once.
#[derive(Default)]
struct Observed(BTreeMap<CheckId, CallbackSummary>);

impl Observed {
    fn extend(&mut self, callbacks: Vec<CallbackSummary>) {
        self.0.extend(callbacks.into_iter().map(|callback| (callback.check, callback)));
    }

    fn last_delivery(&self, receiver: &str) -> Option<Timestamp> {
        let deliveries = self.0.values().filter(|callback| callback.receiver == receiver && is_delivery(callback));
        deliveries.filter_map(|callback| callback.last_attempt_at).max()
    }

    fn failing_receivers(&self, now: Timestamp, is_at_least: bool) -> Vec<FailingReceiver> {
        let mut by_receiver: BTreeMap<&str, Vec<&CallbackSummary>> = BTreeMap::new();
        for callback in failures(self.0.values()) {
            by_receiver.entry(&callback.receiver).or_default().push(callback);
        }
        let is_old = |at: &Timestamp| now.duration_since(*at) >= SignedDuration::from_mins(MIN_FAILING_MINUTES);
        let failing = by_receiver.into_iter().filter_map(|(receiver, mut failures)| {
            let last_delivery = self.last_delivery(receiver);
            failures.retain(|callback| callback.last_attempt_at > last_delivery);
            let since = failures.iter().filter_map(|callback| callback.failing_since.max(last_delivery)).min();
            let last = failures.iter().max_by_key(|callback| callback.last_attempt_at)?;
            let given_up = failures.iter().filter(|callback| callback.state == CallbackState::GivenUp).count();
            Some(FailingReceiver {
                receiver: receiver.to_owned(),
                since: since.filter(is_old)?,
                waiting: failures.len() - given_up,
                given_up,
                is_at_least,
                last_reason: last.reason.clone(),
            })
        });
        failing.take(MAX_FAILING_RECEIVERS).collect()
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::product::Product;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn before(minutes: i64) -> Timestamp {
        NOW - SignedDuration::from_mins(minutes)
    }

    /// Describes a callback: receiver, minutes since the first and since the last attempt, and its last result.
    type Case = (&'static str, i64, i64, &'static str);

    /// Describes an issue: receiver, minutes since its start, callbacks that wait and were given up, last result.
    type Expected = (&'static str, i64, usize, usize, &'static str);

    fn observed(cases: &[Case]) -> Observed {
        let mut observed = Observed::default();
        let callback = |(number, (receiver, first, last, reason)): (u128, &Case)| CallbackSummary {
            check: CheckId(Uuid::from_u128(number)),
            product: Product::ReverseSms,
            receiver: (*receiver).to_owned(),
            reason: (*reason).to_owned(),
            attempts: 7,
            last_attempt_at: Some(before(*last)),
            failing_since: Some(before(*first)),
            state: match *reason {
                "200" => CallbackState::Delivered,
                "timeout" => CallbackState::Waiting { due_at: NOW },
                _ => CallbackState::GivenUp,
            },
            may_resend: false,
        };
        observed.extend((0..).zip(cases).map(callback).collect());
        observed
    }

    #[test]
    fn receiver_fails_if_nothing_was_delivered_for_an_hour() {
        let cases: [(&[Case], &[Expected]); 8] = [
            (&[], &[]),
            (&[("a", 59, 55, "503")], &[]),
            (&[("a", 60, 56, "503")], &[("a", 60, 0, 1, "503")]),
            // A callback that is retried for a long time.
            (&[("a", 600, 1, "timeout")], &[("a", 600, 1, 0, "timeout")]),
            // The last reason is that of the newest attempt.
            (&[("a", 90, 86, "503"), ("a", 30, 1, "timeout")], &[("a", 90, 1, 1, "timeout")]),
            // A delivery ends the failures before it.
            (&[("a", 90, 86, "503"), ("a", 80, 80, "200")], &[]),
            (&[("a", 200, 196, "503"), ("a", 190, 190, "200"), ("a", 100, 96, "500")], &[("a", 100, 0, 1, "500")]),
            (&[("a", 90, 86, "503"), ("b", 80, 80, "200"), ("erased", 90, 86, "503")], &[("a", 90, 0, 1, "503")]),
        ];
        for (callbacks, expected) in cases {
            let found = observed(callbacks).failing_receivers(NOW, false);
            let shown: Vec<_> = found
                .iter()
                .map(|it| {
                    let minutes = NOW.duration_since(it.since).as_mins();
                    (it.receiver.as_str(), minutes, it.waiting, it.given_up, it.last_reason.as_str())
                })
                .collect();
            assert_eq!(shown, expected, "{callbacks:?}");
        }
    }

    #[test]
    fn callback_that_is_resent_after_its_delivery_is_no_failure() {
        let mut resent = observed(&[("a", 90, 90, "200")]);
        resent.0.values_mut().for_each(|callback| callback.state = CallbackState::Waiting { due_at: NOW });
        assert_eq!(resent.failing_receivers(NOW, false), []);
        assert_eq!(resent.last_delivery("a"), Some(before(90)));
    }
}
