//! What a bystander knows of each check: how it must have ended, by the rules alone.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, Lifecycle, Outcome},
    phone::Msisdn,
    reverse_sms::{InboundSms, Sender, SenderMatch},
    sandbox,
    tenancy::Mode,
};
use ringtrue_engine::reverse_sms::CreatedReverseSms;

/// A check, and what has become of it.
#[derive(Clone, Debug)]
pub struct Subject {
    pub id: CheckId,
    pub number: Msisdn,
    pub receiver: Msisdn,
    pub sms_body: String,
    pub has_callback: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
pub struct End {
    pub state: Lifecycle<SenderMatch>,
    /// When it was recorded, which for an expired check is later than its end.
    pub recorded_at: Timestamp,
}

impl Subject {
    pub fn new(created: CreatedReverseSms, number: Msisdn, has_callback: bool) -> Self {
        let CreatedReverseSms { check, invitation } = created;
        Subject {
            id: check.id,
            number,
            receiver: invitation.receiver,
            sms_body: invitation.sms_body,
            has_callback,
            created_at: check.created_at,
            expires_at: check.expires_at,
            end: None,
        }
    }

    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.end.is_none() && self.expires_at <= now
    }

    /// Someone looks at it: its time may be up.
    pub fn is_looked_at(&mut self, now: Timestamp) {
        if self.is_overdue(now) {
            self.end = Some(self.expired(now));
        }
    }

    /// How it ends if its code comes from this number. `None`: it has ended before.
    pub fn end_by(&self, from: &Msisdn, now: Timestamp) -> Option<End> {
        match self.end {
            Some(_) => None,
            None if self.expires_at <= now => Some(self.expired(now)),
            None => {
                let outcome = Outcome::Completed(SenderMatch(*from == self.number));
                Some(End { state: Lifecycle::Concluded { outcome, at: now }, recorded_at: now })
            }
        }
    }

    fn expired(&self, now: Timestamp) -> End {
        End { state: Lifecycle::Concluded { outcome: Outcome::Expired, at: self.expires_at }, recorded_at: now }
    }

    /// An SMS with its code.
    pub fn sms(&self, from: &Msisdn, now: Timestamp) -> InboundSms {
        InboundSms {
            mode: Mode::Sandbox,
            from: Sender::Number(from.clone()),
            to: self.receiver.clone(),
            text: self.sms_body.clone(),
            received_at: now,
        }
    }

    /// The number of ours that its end-user was not told to text.
    pub fn wrong_receiver(&self) -> Msisdn {
        let other = sandbox::RECEIVERS.into_iter().find(|receiver| *receiver != self.receiver.as_str());
        Msisdn::parse(other.unwrap(), Mode::Sandbox).unwrap()
    }
}

impl End {
    pub fn is_in_time(&self) -> bool {
        matches!(self.state, Lifecycle::Concluded { outcome: Outcome::Completed(_), .. })
    }
}
