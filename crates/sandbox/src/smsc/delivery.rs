//! The way of one SMS: message after message, each until it is answered.

use std::time::Duration;

use ringtrue_smpp::{pdu::CommandStatus, session::RequestError};
use tokio::{sync::oneshot, time::sleep};

use super::{
    Behaviour,
    binds::{Binds, Receiver},
    composition::Outgoing,
    observer::Observer,
};

/// How an SMS ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver took all of it.
    Acknowledged,
    /// The receiver does not want it, and was spared the rest.
    Rejected(CommandStatus),
    /// It was tried as often as allowed; this came of the last attempt.
    GaveUp(Setback),
    /// The message centre stopped first.
    Stopped,
}

/// Why a message has to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setback {
    /// The receiver cannot take it now.
    PutOff(CommandStatus),
    LinkLost,
    /// The receiver did not respond in time, or not sensibly.
    NoResponse,
}

/// What a sender holds of an SMS on its way. Dropping it changes nothing for the SMS.
#[derive(Debug)]
pub struct Ticket {
    pub(super) id: u64,
    pub(super) outcome: oneshot::Receiver<Outcome>,
}

impl Ticket {
    /// The number of the SMS, as in its [`Record`](super::Record).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Waits for its end.
    pub async fn delivered(self) -> Outcome {
        self.outcome.await.unwrap_or(Outcome::Stopped)
    }
}

/// How often, and how soon again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Persistence {
    pub(super) attempts: u32,
    pub(super) delay: Duration,
}

/// An SMS on its way.
pub(super) struct Delivery<'a> {
    pub(super) id: u64,
    pub(super) binds: &'a Binds,
    pub(super) observer: &'a Observer,
    pub(super) persistence: Persistence,
    pub(super) behaviour: &'a Behaviour,
    pub(super) links_to_lose: u32,
    pub(super) answers_to_lose: u32,
}

impl Delivery<'_> {
    pub(super) async fn run(mut self, messages: &[Outgoing]) -> Outcome {
        for _copy in 0..=self.behaviour.extra_copies {
            let mut receiver = None;
            for message in messages {
                if let Err(outcome) = self.deliver(message, &mut receiver).await {
                    return outcome;
                }
            }
        }
        Outcome::Acknowledged
    }

    /// Sends one message until it is taken. The parts of an SMS stay with a receiver for as long as there is one.
    async fn deliver(&mut self, message: &Outgoing, kept: &mut Option<Receiver>) -> Result<(), Outcome> {
        let mut attempts = 0;
        loop {
            let receiver = match kept.take().filter(|receiver| receiver.is_up() && !self.behaviour.scattered) {
                Some(receiver) => receiver,
                None => self.binds.next().await,
            };
            attempts += 1;
            self.observer.attempted(self.id);
            let setback = match self.attempt(message, &receiver).await {
                Attempt::Taken => {
                    *kept = Some(receiver);
                    return Ok(());
                }
                Attempt::Rejected(status) => return Err(Outcome::Rejected(status)),
                Attempt::Failed(setback) => setback,
            };
            // Before anyone learns of the setback, so that who moves the clock on hearing of it moves it for us too.
            let pause = sleep(self.persistence.delay);
            self.observer.count(|counts| counts.setbacks += 1);
            tracing::debug!(sms.id = self.id, sms.attempts = attempts, sms.setback = ?setback, "an SMS was not taken");
            if attempts >= self.persistence.attempts {
                return Err(Outcome::GaveUp(setback));
            }
            pause.await;
        }
    }

    async fn attempt(&mut self, message: &Outgoing, receiver: &Receiver) -> Attempt {
        let response = message.over(&receiver.link).await;
        if self.links_to_lose > 0 {
            // The response is there and nobody has looked at it: to the receiver, it was lost with the link.
            self.links_to_lose -= 1;
            receiver.cut.cancel();
            return Attempt::Failed(Setback::LinkLost);
        }
        if self.answers_to_lose > 0 {
            self.answers_to_lose -= 1;
            return Attempt::Failed(Setback::LinkLost);
        }
        match response {
            Ok(()) => Attempt::Taken,
            Err(RequestError::Refused(
                status @ (CommandStatus::RECEIVER_TEMPORARY_ERROR
                | CommandStatus::MESSAGE_QUEUE_FULL
                | CommandStatus::THROTTLED),
            )) => Attempt::Failed(Setback::PutOff(status)),
            Err(RequestError::Refused(status)) => Attempt::Rejected(status),
            Err(RequestError::Closed) => Attempt::Failed(Setback::LinkLost),
            // What cannot be written is refused by `send`, so the last of these does not come here.
            Err(
                RequestError::TimedOut
                | RequestError::Unexpected(_)
                | RequestError::Malformed(_)
                | RequestError::Unwritable(_),
            ) => Attempt::Failed(Setback::NoResponse),
        }
    }
}

enum Attempt {
    Taken,
    Rejected(CommandStatus),
    Failed(Setback),
}
