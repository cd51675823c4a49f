//! Delivers one SMS: sends its messages one after the other, with retries.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use ringtrue_smpp::{
    pdu::CommandStatus,
    session::{Link, RequestError},
};
use tokio::{
    sync::{oneshot, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{FaultScript, SmscObserver, message_encoding::OutboundMessage};

/// Outcome of the delivery of an SMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver accepted all messages.
    Acknowledged,
    /// The receiver rejected a message; the rest was not sent.
    Rejected(CommandStatus),
    /// All attempts failed, the last one with this failure.
    RetriesExhausted(AttemptFailure),
    /// The SMSC stopped before the SMS was delivered.
    Stopped,
}

/// Failure of an attempt that is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    TemporaryError(CommandStatus),
    ConnectionLost,
    /// No valid response in time.
    NoResponse,
}

/// Handle of a sent SMS. Dropping it does not cancel the delivery.
#[derive(Debug)]
pub struct DeliveryHandle {
    pub(super) id: u64,
    pub(super) outcome: oneshot::Receiver<DeliveryOutcome>,
}

impl DeliveryHandle {
    /// Returns the id of the SMS, as in its [`SmsRecord`](super::SmsRecord).
    pub fn id(&self) -> u64 {
        self.id
    }

    pub async fn wait_for_outcome(self) -> DeliveryOutcome {
        self.outcome.await.unwrap_or(DeliveryOutcome::Stopped)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    pub(super) max_attempts: u32,
    pub(super) delay: Duration,
}

pub(super) struct DeliveryTask<'a> {
    pub(super) id: u64,
    pub(super) binds: &'a Binds,
    pub(super) observer: &'a SmscObserver,
    pub(super) retry_policy: RetryPolicy,
    pub(super) faults: &'a FaultScript,
    pub(super) connection_drops: u32,
    pub(super) lost_responses: u32,
}

impl DeliveryTask<'_> {
    pub(super) async fn run(mut self, messages: &[OutboundMessage]) -> DeliveryOutcome {
        for _copy in 0..=self.faults.extra_copies {
            let mut receiver = None;
            for message in messages {
                if let Err(outcome) = self.deliver(message, &mut receiver).await {
                    return outcome;
                }
            }
        }
        DeliveryOutcome::Acknowledged
    }

    /// Sends one message until it is accepted. All parts of an SMS use one receiver while it is connected.
    async fn deliver(
        &mut self,
        message: &OutboundMessage,
        current_receiver: &mut Option<ReceiverBind>,
    ) -> Result<(), DeliveryOutcome> {
        let mut attempts = 0;
        loop {
            let receiver = match current_receiver
                .take()
                .filter(|receiver| receiver.is_connected() && !self.faults.spread_over_binds)
            {
                Some(receiver) => receiver,
                None => self.binds.next_receiver().await,
            };
            attempts += 1;
            self.observer.record_attempt(self.id);
            let failure = match self.send_once(message, &receiver).await {
                AttemptResult::Accepted => {
                    *current_receiver = Some(receiver);
                    return Ok(());
                }
                AttemptResult::Rejected(status) => return Err(DeliveryOutcome::Rejected(status)),
                AttemptResult::Failed(failure) => failure,
            };
            // The timer starts before the failure is counted, because tests advance the paused clock as soon as they
            // see the count.
            let pause = sleep(self.retry_policy.delay);
            self.observer.update_counts(|counts| counts.failed_attempts += 1);
            tracing::debug!(
                sms.id = self.id, sms.attempts = attempts, sms.failure = ?failure,
                "sandbox SMS delivery attempt failed"
            );
            if attempts >= self.retry_policy.max_attempts {
                return Err(DeliveryOutcome::RetriesExhausted(failure));
            }
            pause.await;
        }
    }

    async fn send_once(&mut self, message: &OutboundMessage, receiver: &ReceiverBind) -> AttemptResult {
        let response = message.send_over(&receiver.link).await;
        if self.connection_drops > 0 {
            // Ignores the response, as if it were lost with the connection.
            self.connection_drops -= 1;
            receiver.disconnect.cancel();
            return AttemptResult::Failed(AttemptFailure::ConnectionLost);
        }
        if self.lost_responses > 0 {
            self.lost_responses -= 1;
            return AttemptResult::Failed(AttemptFailure::ConnectionLost);
        }
        match response {
            Ok(()) => AttemptResult::Accepted,
            Err(RequestError::Rejected(
                status @ (CommandStatus::RECEIVER_TEMPORARY_ERROR
                | CommandStatus::MESSAGE_QUEUE_FULL
                | CommandStatus::THROTTLED),
            )) => AttemptResult::Failed(AttemptFailure::TemporaryError(status)),
            Err(RequestError::Rejected(status)) => AttemptResult::Rejected(status),
            Err(RequestError::Closed) => AttemptResult::Failed(AttemptFailure::ConnectionLost),
            // `Encode` does not occur here, because `send` rejects unencodable messages.
            Err(
                RequestError::TimedOut
                | RequestError::UnexpectedResponse(_)
                | RequestError::Decode(_)
                | RequestError::Encode(_),
            ) => AttemptResult::Failed(AttemptFailure::NoResponse),
        }
    }
}

enum AttemptResult {
    Accepted,
    Rejected(CommandStatus),
    Failed(AttemptFailure),
}

/// A bind of an ESME that receives messages.
#[derive(Clone, Debug)]
pub(super) struct ReceiverBind {
    pub(super) link: Link,
    /// Cancelled to drop the connection without unbind.
    pub(super) disconnect: CancellationToken,
    /// Number of the connection; unique.
    pub(super) connection: u64,
}

impl ReceiverBind {
    pub(super) fn is_connected(&self) -> bool {
        !self.disconnect.is_cancelled()
    }
}

/// The binds that receive messages, used in round robin.
#[derive(Debug, Default)]
pub(super) struct Binds {
    receivers: watch::Sender<Vec<ReceiverBind>>,
    next_index: AtomicUsize,
}

impl Binds {
    /// Adds a receiver. Dropping the registration removes it.
    pub(super) fn register(&self, receiver: ReceiverBind) -> Registration<'_> {
        let connection = receiver.connection;
        self.receivers.send_modify(|receivers| receivers.push(receiver));
        Registration { binds: self, connection }
    }

    /// Returns the next receiver. Waits while there is none.
    pub(super) async fn next_receiver(&self) -> ReceiverBind {
        let mut changes = self.receivers.subscribe();
        let Ok(receivers) = changes.wait_for(|receivers| receivers.iter().any(ReceiverBind::is_connected)).await else {
            // Waiting fails only if the sender is dropped, and `self` keeps it alive.
            return pending().await;
        };
        let connected: Vec<_> = receivers.iter().filter(|receiver| receiver.is_connected()).collect();
        let next_index = self.next_index.fetch_add(1, Ordering::Relaxed);
        // Another thread may have dropped all connections after `wait_for`. Sending over any of them then fails and is
        // retried.
        match connected.get(next_index % connected.len().max(1)) {
            Some(receiver) => ReceiverBind::clone(receiver),
            None => receivers[next_index % receivers.len()].clone(),
        }
    }
}

/// Removes the receiver when dropped.
#[derive(Debug)]
pub(super) struct Registration<'a> {
    binds: &'a Binds,
    connection: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.binds.receivers.send_modify(|receivers| receivers.retain(|one| one.connection != self.connection));
    }
}
