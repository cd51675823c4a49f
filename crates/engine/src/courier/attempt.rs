//! One delivery attempt: signs the callback, sends it, and settles the attempt (stores its result).

use std::{num::NonZeroU32, pin::pin, time::Duration};

use ringtrue_callback_signature::{
    self as signature, ATTEMPT_HEADER, CallbackSigner, CoveredComponents, PRODUCT_HEADER,
};
use ringtrue_domain::{
    callback::{RetryDecision, retry_after_failure},
    lifecycle::Sealed,
    product::Product,
    tenancy::Mode,
    web_url::CallbackUrl,
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    ATTEMPT_TIMEOUT, AttemptResult, Courier, Exchange, Job, ReceivedResponse, SLOW_ATTEMPT_THRESHOLD, SentRequest, add,
    scheduler::SlotGrant, sealing,
};
use crate::{
    keys::KeyRing,
    ports::{
        callbacks::{AttemptOutcome, AttemptRecord, AttemptSettlement, LeasedCallback},
        store::StoreError,
        transport::{OutboundRequest, OutboundResponse, TransportError},
    },
};

/// Result of a test callback, which is sent once and not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestCallbackResult {
    /// HTTP status, or the reason why there was no response.
    pub response: Result<u16, TransportError>,
    pub elapsed: Duration,
}

/// Failure name in the log of an attempt whose URL or body this node could not unseal. The callback is retried as after
/// other failures, because another node may have sealed it with a key that this node has not loaded yet.
pub const UNREADABLE_FAILURE: &str = "unreadable";

const USER_AGENT: &str = concat!("Ringtrue/", env!("CARGO_PKG_VERSION"));
const AUTHORIZATION: &str = "authorization";
/// Maximum number of tries to store the result of an attempt. The pauses between them add up to about nine seconds.
const MAX_SETTLE_ATTEMPTS: u32 = 10;
const MIN_SETTLE_BACKOFF: Duration = Duration::from_millis(50);
const MAX_SETTLE_BACKOFF: Duration = Duration::from_secs(2);

/// The scheduler slot of a running attempt. Dropping it releases the slot and reports the result to the scheduler.
pub(super) struct AttemptSlot {
    pub courier: Courier,
    pub grant: SlotGrant,
    pub result: AttemptResult,
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        self.courier.scheduler().finish(&self.grant, self.result);
    }
}

impl Courier {
    pub(super) async fn attempt(&self, job: Job, slot: &mut AttemptSlot) {
        let Job { callback, url, .. } = job;
        let keys = self.0.dependencies.keys.key_ring();
        let started_at = self.now();
        let Some(body) = sealing::unseal_body(&keys, callback.check, &callback.body) else {
            return self.settle_unreadable(&callback).await;
        };
        let Some(signer) = keys.callback_signer(callback.mode, started_at) else {
            // Stores no result, so that the callback is leased and tried again after its current lease expires.
            tracing::error!("no active callback signing key");
            return;
        };
        let (product, attempt) = (callback.product, attempt_in_series(&callback));
        let date = signature::format_date(started_at);
        let Some(request) = self.build_signed_request(product, attempt, url, body, signer, date).await else { return };
        let sent = redacted_request(&request);
        let started = Instant::now();
        let response = self.post(request, slot).await;
        let ended_at = self.now();
        self.0.counters.count_attempt(
            response.as_ref().map(|response| response.status).map_err(|error| *error),
            started.elapsed(),
        );

        let is_delivered = matches!(response, Ok(OutboundResponse { status: 200, .. }));
        let is_fast = started.elapsed() < SLOW_ATTEMPT_THRESHOLD;
        slot.result = match (is_delivered, is_fast) {
            (true, true) => AttemptResult::Delivered,
            (true, false) => AttemptResult::DeliveredSlowly,
            (false, _) => AttemptResult::Failed,
        };
        let log = AttemptRecord {
            started_at,
            ended_at,
            status: response.as_ref().ok().map(|response| response.status),
            failure: response.as_ref().err().map(|error| error.into_str().to_owned()),
            exchange: self.seal_exchange(&keys, &callback, sent, response.ok()),
        };
        self.settle(&callback, is_delivered, log).await;
    }

    /// Signs a callback without sending it. `None`: there is no signing key, or the runtime is shutting down.
    pub(crate) async fn sign_once(
        &self,
        mode: Mode,
        product: Product,
        url: CallbackUrl,
        body: Vec<u8>,
    ) -> Option<OutboundRequest> {
        let (keys, now) = (self.0.dependencies.keys.key_ring(), self.now());
        let (signer, date) = (keys.callback_signer(mode, now)?, signature::format_date(now));
        self.build_signed_request(product, NonZeroU32::MIN, url, body, signer, date).await
    }

    /// Sends a callback once, without a queue, a retry or a log entry. `None`: there is no signing key, or the runtime
    /// is shutting down.
    pub(crate) async fn send_once(
        &self,
        mode: Mode,
        product: Product,
        url: CallbackUrl,
        body: Vec<u8>,
    ) -> Option<TestCallbackResult> {
        let request = self.sign_once(mode, product, url, body).await?;
        let started = Instant::now();
        let response = timeout(ATTEMPT_TIMEOUT, self.0.dependencies.transport.post(request)).await;
        let response = response.unwrap_or(Err(TransportError::Timeout)).map(|response| response.status);
        Some(TestCallbackResult { response, elapsed: started.elapsed() })
    }

    async fn build_signed_request(
        &self,
        product: Product,
        attempt: NonZeroU32,
        url: CallbackUrl,
        body: Vec<u8>,
        signer: CallbackSigner,
        date: String,
    ) -> Option<OutboundRequest> {
        let product = product.into_str();
        let sign = move || {
            let digest = signature::digest_header(&body);
            let covered = CoveredComponents {
                method: "post",
                target: url.target(),
                host: url.authority(),
                date: &date,
                product,
                digest: &digest,
            };
            let authorization = signature::authorization_header(&covered, &signer);
            let headers = vec![
                (PRODUCT_HEADER, product.to_owned()),
                (AUTHORIZATION, authorization),
                ("digest", digest),
                ("date", date),
                ("content-type", "application/json".to_owned()),
                ("user-agent", USER_AGENT.to_owned()),
                (ATTEMPT_HEADER, attempt.to_string()),
            ];
            OutboundRequest { url, headers, body }
        };
        self.0.dependencies.signing_pool.run(sign).await
    }

    async fn post(&self, request: OutboundRequest, slot: &mut AttemptSlot) -> Result<OutboundResponse, TransportError> {
        let mut post = pin!(timeout(ATTEMPT_TIMEOUT, self.0.dependencies.transport.post(request)));
        let response = if let Ok(response) = timeout(SLOW_ATTEMPT_THRESHOLD, &mut post).await {
            response
        } else {
            self.scheduler().mark_poor(&slot.grant);
            post.await
        };
        response.unwrap_or(Err(TransportError::Timeout))
    }

    /// Records a failed attempt for a callback whose URL or body cannot be unsealed.
    pub(super) async fn settle_unreadable(&self, callback: &LeasedCallback) {
        tracing::error!(check = %callback.check, "failed to unseal callback: no matching seal key");
        let now = self.now();
        let failure = Some(UNREADABLE_FAILURE.to_owned());
        let log = AttemptRecord { started_at: now, ended_at: now, status: None, failure, exchange: None };
        self.settle(callback, false, log).await;
    }

    /// Stores the result of an attempt and the time of the next one. If the store stays unavailable, the lease expires
    /// and the attempt is repeated.
    async fn settle(&self, callback: &LeasedCallback, is_delivered: bool, log: AttemptRecord) {
        let attempt = attempt_number(callback);
        let deadline = self.0.dependencies.projects.retry_for(callback.project).deadline(callback.created_at);
        let then = match retry_after_failure(attempt_in_series(callback), log.ended_at, deadline) {
            _ if is_delivered => AttemptOutcome::Delivered,
            RetryDecision::RetryAt(at) => AttemptOutcome::RetryAt(at),
            RetryDecision::GiveUp => AttemptOutcome::GivenUp,
        };
        let ended_at = log.ended_at;
        let settlement = AttemptSettlement { check: callback.check, attempt: attempt.get(), outcome: then, log };
        match self.settle_with_retries(settlement).await {
            Ok(false) => tracing::debug!(check = %callback.check, "callback attempt already settled by another node"),
            Ok(true) => {
                self.0.dependencies.activity.record_attempt(callback.project, callback.product, ended_at, then);
                match then {
                    AttemptOutcome::Delivered => add(&self.0.counters.delivered, 1),
                    AttemptOutcome::RetryAt(_) => {}
                    AttemptOutcome::GivenUp => add(&self.0.counters.given_up, 1),
                }
            }
            Err(error) => {
                add(&self.0.counters.unrecorded, 1);
                tracing::warn!(%error, check = %callback.check, "failed to store callback attempt; it will be repeated");
            }
        }
    }

    async fn settle_with_retries(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        let mut pause = MIN_SETTLE_BACKOFF;
        for _ in 1..MAX_SETTLE_ATTEMPTS {
            match self.0.dependencies.store.settle_attempt(settlement.clone()).await {
                Err(StoreError::Unavailable(_)) => {}
                response => return response,
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_SETTLE_BACKOFF);
        }
        self.0.dependencies.store.settle_attempt(settlement).await
    }

    fn seal_exchange(
        &self,
        keys: &KeyRing,
        callback: &LeasedCallback,
        sent: SentRequest,
        response: Option<OutboundResponse>,
    ) -> Option<Sealed> {
        let received = response.map(|response| {
            ReceivedResponse::truncated(
                response.status,
                response.headers,
                String::from_utf8_lossy(&response.body).into_owned(),
            )
        });
        let exchange = Exchange { sent, received };
        sealing::seal_exchange(keys, &*self.0.dependencies.entropy, self.now(), callback.check, &exchange)
    }
}

fn attempt_number(callback: &LeasedCallback) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(callback.failed_attempts)
}

/// Returns the attempt number that the receiver gets. Each manual resend starts a new series of attempts at 1, with the
/// full number of retries.
fn attempt_in_series(callback: &LeasedCallback) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(callback.failed_attempts.saturating_sub(callback.earlier_attempts))
}

/// Returns the request for the log, without the value of the signature.
fn redacted_request(request: &OutboundRequest) -> SentRequest {
    let redact = |(name, value): &(&'static str, String)| {
        let value = match value.split_once("signature=\"") {
            Some((before, _)) if *name == AUTHORIZATION => format!("{before}signature=\"…\""),
            _ => value.clone(),
        };
        ((*name).to_owned(), value)
    };
    let host = ("host".to_owned(), request.url.authority().to_owned());
    SentRequest {
        url: request.url.as_str().to_owned(),
        headers: std::iter::once(host).chain(request.headers.iter().map(redact)).collect(),
        body: String::from_utf8_lossy(&request.body).into_owned(),
    }
}
