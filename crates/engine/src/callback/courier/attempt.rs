//! One attempt: signed, sent, settled.

use std::{num::NonZeroU32, pin::pin, time::Duration};

use ringtrue_domain::{
    callback::{Next, after_failure},
    lifecycle::Sealed,
    web_url::CallbackUrl,
};
use tokio::time::{Instant, sleep, timeout};

use super::{Courier, Ended, Job, LONGEST_ATTEMPT, SLOW_ATTEMPT, add, scheduler::Grant};
use crate::{
    callback::{
        Exchange, Received, Sent, sealing,
        signature::{self, ATTEMPT_HEADER, Covered, SOURCE_HEADER},
    },
    keys::{CallbackSigner, KeyRing},
    ports::{Answer, AttemptLog, LeasedCallback, Outgoing, Settlement, StoreError, Then, Undelivered},
};

/// The word for an attempt that could not be made: its URL or body does not open. Another node may have sealed it with
/// a key that this one has not seen yet, so it is tried again like any other.
pub const UNREADABLE: &str = "unreadable";

const USER_AGENT: &str = concat!("Ringtrue/", env!("CARGO_PKG_VERSION"));
const AUTHORIZATION: &str = "authorization";
/// About eleven seconds of them.
const SETTLE_TRIES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A place among the attempts under way, free again when it is dropped.
pub(super) struct Slot {
    pub courier: Courier,
    pub grant: Grant,
    pub ended: Ended,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.courier.scheduler().end(&self.grant, self.ended);
    }
}

impl Courier {
    pub(super) async fn attempt(&self, job: Job, slot: &mut Slot) {
        let Job { callback, url, .. } = job;
        let keys = self.0.parts.keys.key_ring();
        let started_at = self.now();
        let Some(body) = sealing::open_body(&keys, callback.check, &callback.body) else {
            return self.fail_unread(&callback).await;
        };
        let Some(signer) = keys.callback_signer(callback.mode, started_at) else {
            // Its lease runs out; by then there may be one.
            tracing::error!("there is no key to sign callbacks with");
            return;
        };
        let Some(request) = self.signed(&callback, url, body, signer, signature::date(started_at)).await else {
            return;
        };
        let sent = sent(&request);
        let begun = Instant::now();
        let answer = self.post(request, slot).await;
        let ended_at = self.now();
        self.0.tally.count_attempt(answer.as_ref().map(|answer| answer.status).map_err(|why| *why), begun.elapsed());

        let is_delivered = matches!(answer, Ok(Answer { status: 200, .. }));
        let is_quick = begun.elapsed() < SLOW_ATTEMPT;
        slot.ended = match (is_delivered, is_quick) {
            (true, true) => Ended::Delivered,
            (true, false) => Ended::DeliveredSlowly,
            (false, _) => Ended::Failed,
        };
        let log = AttemptLog {
            started_at,
            ended_at,
            status: answer.as_ref().ok().map(|answer| answer.status),
            failure: answer.as_ref().err().map(|why| why.as_str().to_owned()),
            exchange: self.sealed_exchange(&keys, &callback, sent, answer.ok()),
        };
        self.settle(&callback, is_delivered, log).await;
    }

    async fn signed(
        &self,
        callback: &LeasedCallback,
        url: CallbackUrl,
        body: Vec<u8>,
        signer: CallbackSigner,
        date: String,
    ) -> Option<Outgoing> {
        let source = callback.product.as_str();
        let attempt = attempt_in_series(callback);
        let sign = move || {
            let digest = signature::digest(&body);
            let covered = Covered {
                method: "post",
                target: url.target(),
                host: url.authority(),
                date: &date,
                source,
                digest: &digest,
            };
            let authorization = signature::sign(&covered, &signer);
            let headers = vec![
                (SOURCE_HEADER, source.to_owned()),
                (AUTHORIZATION, authorization),
                ("digest", digest),
                ("date", date),
                ("content-type", "application/json".to_owned()),
                ("user-agent", USER_AGENT.to_owned()),
                (ATTEMPT_HEADER, attempt.to_string()),
            ];
            Outgoing { url, headers, body }
        };
        self.0.desk.run(sign).await
    }

    async fn post(&self, request: Outgoing, slot: &mut Slot) -> Result<Answer, Undelivered> {
        let mut post = pin!(timeout(LONGEST_ATTEMPT, self.0.parts.transport.post(request)));
        let answer = if let Ok(answer) = timeout(SLOW_ATTEMPT, &mut post).await {
            answer
        } else {
            self.scheduler().mark_slow(&slot.grant);
            post.await
        };
        answer.unwrap_or(Err(Undelivered::Timeout))
    }

    /// Settles an attempt that could not even be made.
    pub(super) async fn fail_unread(&self, callback: &LeasedCallback) {
        tracing::error!(check = %callback.check, "a callback does not open with our seal keys");
        let now = self.now();
        let failure = Some(UNREADABLE.to_owned());
        let log = AttemptLog { started_at: now, ended_at: now, status: None, failure, exchange: None };
        self.settle(callback, false, log).await;
    }

    /// Records an attempt. A store that is away is asked again for a while; after that the lease runs out, and the
    /// attempt is made again.
    async fn settle(&self, callback: &LeasedCallback, is_delivered: bool, log: AttemptLog) {
        let attempt = attempt_of(callback);
        let then = match after_failure(attempt_in_series(callback), log.ended_at) {
            _ if is_delivered => Then::Delivered,
            Next::RetryAt(at) => Then::RetryAt(at),
            Next::GiveUp => Then::GivenUp,
        };
        let ended_at = log.ended_at;
        let settlement = Settlement { check: callback.check, attempt: attempt.get(), then, log };
        match self.settle_for_a_while(settlement).await {
            Ok(false) => tracing::debug!(check = %callback.check, "another node has settled this attempt"),
            Ok(true) => {
                self.0.parts.activity.attempted(callback.project, callback.product, ended_at, then);
                match then {
                    Then::Delivered => add(&self.0.tally.delivered, 1),
                    Then::RetryAt(_) => {}
                    Then::GivenUp => add(&self.0.tally.given_up, 1),
                }
            }
            Err(error) => {
                add(&self.0.tally.unsettled, 1);
                tracing::warn!(%error, check = %callback.check, "an attempt could not be recorded and will be repeated");
            }
        }
    }

    async fn settle_for_a_while(&self, settlement: Settlement) -> Result<bool, StoreError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..SETTLE_TRIES {
            match self.0.parts.store.settle(settlement.clone()).await {
                Err(StoreError::Unavailable(_)) => {}
                answer => return answer,
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.0.parts.store.settle(settlement).await
    }

    fn sealed_exchange(
        &self,
        keys: &KeyRing,
        callback: &LeasedCallback,
        sent: Sent,
        answer: Option<Answer>,
    ) -> Option<Sealed> {
        let received = answer.map(|answer| {
            Received::bounded(answer.status, answer.headers, String::from_utf8_lossy(&answer.body).into_owned())
        });
        let exchange = Exchange { sent, received };
        sealing::seal_exchange(keys, &*self.0.parts.entropy, self.now(), callback.check, &exchange)
    }
}

fn attempt_of(callback: &LeasedCallback) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(callback.failed_attempts)
}

/// A callback that is sent again begins anew: receivers are told 1, and it is tried as often as the first time.
fn attempt_in_series(callback: &LeasedCallback) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(callback.failed_attempts.saturating_sub(callback.earlier_attempts))
}

/// What is remembered of a request: all but the signature's value.
fn sent(request: &Outgoing) -> Sent {
    let shown = |(name, value): &(&'static str, String)| {
        let value = match value.split_once("signature=\"") {
            Some((before, _)) if *name == AUTHORIZATION => format!("{before}signature=\"…\""),
            _ => value.clone(),
        };
        ((*name).to_owned(), value)
    };
    let host = ("host".to_owned(), request.url.authority().to_owned());
    Sent {
        url: request.url.as_str().to_owned(),
        headers: std::iter::once(host).chain(request.headers.iter().map(shown)).collect(),
        body: String::from_utf8_lossy(&request.body).into_owned(),
    }
}
