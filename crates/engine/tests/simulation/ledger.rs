//! What a bystander knows of each check: how it must have ended, by the rules alone.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, Lifecycle, Outcome},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, Origin, Sender},
    sandbox,
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::{reverse_sms::CreatedReverseSms, silent::CreatedSilent};

/// A check, and what has become of it.
#[derive(Clone, Debug)]
pub struct Subject {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    /// Of the person: claimed, or to be found out.
    pub number: Msisdn,
    pub awaits: Awaits,
    pub has_callback: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub end: Option<End>,
}

#[derive(Clone, Debug)]
pub enum Awaits {
    Sms { receiver: Msisdn, body: String },
    Device(Trip),
}

/// How far a device has come.
#[derive(Clone, Debug, Default)]
pub struct Trip {
    pub token: String,
    /// All that it was ever given, the newest last.
    pub tickets: Vec<String>,
    /// Whether the newest ticket has not been used.
    pub is_away: bool,
    /// What reveals what the operator said, and what that is.
    pub code: Option<(String, Said)>,
    pub wrong_codes: u32,
}

/// What a check says once it is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Match(bool),
    /// The person's own number.
    TheNumber,
    AnotherNumber,
}

#[derive(Clone, Copy, Debug)]
pub struct End {
    pub state: Lifecycle<Said>,
    /// When it was recorded, which for an expired check is later than its end.
    pub recorded_at: Timestamp,
}

impl Subject {
    pub fn new(created: CreatedReverseSms, number: Msisdn, has_callback: bool) -> Self {
        let CreatedReverseSms { check, invitation } = created;
        Subject {
            id: check.id,
            project: check.project,
            product: check.product,
            number,
            awaits: Awaits::Sms { receiver: invitation.receiver, body: invitation.sms_body },
            has_callback,
            created_at: check.created_at,
            expires_at: check.expires_at,
            end: None,
        }
    }

    pub fn silent(created: CreatedSilent, number: Msisdn, has_callback: bool) -> Self {
        let CreatedSilent { check, url, .. } = created;
        let (_, token) = url.split_once("?t=").unwrap();
        Subject {
            id: check.id,
            project: check.project,
            product: check.product,
            number,
            awaits: Awaits::Device(Trip { token: token.to_owned(), ..Trip::default() }),
            has_callback,
            created_at: check.created_at,
            expires_at: check.expires_at,
            end: None,
        }
    }

    pub fn has_device(&self) -> bool {
        matches!(self.awaits, Awaits::Device(_))
    }

    pub fn trip(&self) -> &Trip {
        match &self.awaits {
            Awaits::Device(trip) => trip,
            Awaits::Sms { .. } => panic!("it waits for no device"),
        }
    }

    pub fn trip_mut(&mut self) -> &mut Trip {
        match &mut self.awaits {
            Awaits::Device(trip) => trip,
            Awaits::Sms { .. } => panic!("it waits for no device"),
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
        self.end_with(Outcome::Completed(Said::Match(*from == self.number)), now)
    }

    /// How it ends if this is to be its end. `None`: it has ended before.
    pub fn end_with(&self, outcome: Outcome<Said>, now: Timestamp) -> Option<End> {
        match self.end {
            Some(_) => None,
            None if self.expires_at <= now => Some(self.expired(now)),
            None => Some(End { state: Lifecycle::Concluded { outcome, at: now }, recorded_at: now }),
        }
    }

    fn expired(&self, now: Timestamp) -> End {
        End { state: Lifecycle::Concluded { outcome: Outcome::Expired, at: self.expires_at }, recorded_at: now }
    }

    /// An SMS with its code.
    pub fn sms(&self, from: &Msisdn, now: Timestamp) -> InboundSms {
        let Awaits::Sms { receiver, body } = &self.awaits else { panic!("it waits for no SMS") };
        InboundSms {
            origin: Origin::Sandbox(self.project),
            connector: "sandbox".into(),
            from: Sender::Number(from.clone()),
            to: receiver.clone(),
            text: body.clone(),
            received_at: now,
        }
    }

    /// The number of ours that its end-user was not told to text.
    pub fn wrong_receiver(&self) -> Msisdn {
        let Awaits::Sms { receiver: right, .. } = &self.awaits else { panic!("it waits for no SMS") };
        let other = sandbox::RECEIVERS.into_iter().find(|receiver| *receiver != right.as_str());
        Msisdn::parse(other.unwrap(), Mode::Sandbox).unwrap()
    }
}

impl End {
    pub fn is_in_time(&self) -> bool {
        matches!(self.state, Lifecycle::Concluded { outcome: Outcome::Completed(_), .. })
    }
}
