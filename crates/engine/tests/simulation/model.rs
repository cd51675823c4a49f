//! Model of checks, which predicts each check's conclusion from the specification alone.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckOutcome, Lifecycle},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::{checks::reverse_sms::CreatedReverseSms, silent::CreatedSilent};
use ringtrue_sandbox::operator_access::RECEIVERS;

/// The expected state of a check.
#[derive(Clone, Debug)]
pub struct ModelCheck {
    pub id: CheckId,
    pub project: ProjectId,
    pub product: Product,
    /// The end-user's number: the number to verify, or the number that Discovery has to find.
    pub number: Msisdn,
    pub expectation: Expectation,
    pub has_callback: bool,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub end: Option<ModelConclusion>,
}

#[derive(Clone, Debug)]
pub enum Expectation {
    Sms { receiver: Msisdn, body: String },
    Device(ModelDevice),
}

/// The expected state of a device.
#[derive(Clone, Debug, Default)]
pub struct ModelDevice {
    pub token: String,
    /// The `state` of each redirect of the device, newest last.
    pub states: Vec<String>,
    /// Whether the device is at the operator: the newest `state` is not used yet.
    pub is_redirected: bool,
    /// The code that the device got, and the verdict that its redemption reveals.
    pub code: Option<(String, ModelVerdict)>,
    pub wrong_codes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelVerdict {
    Match(bool),
    /// The number that Discovery found is the end-user's number.
    OwnNumber,
    AnotherNumber,
}

#[derive(Clone, Copy, Debug)]
pub struct ModelConclusion {
    pub state: Lifecycle<ModelVerdict>,
    /// When the conclusion was stored. A check expires at its deadline, but its expiry may be stored later.
    pub recorded_at: Timestamp,
}

impl ModelCheck {
    pub fn new(created: CreatedReverseSms, number: Msisdn, has_callback: bool) -> Self {
        let CreatedReverseSms { check, instructions } = created;
        ModelCheck {
            id: check.id,
            project: check.project,
            product: check.product,
            number,
            expectation: Expectation::Sms { receiver: instructions.receiver, body: instructions.sms_body },
            has_callback,
            created_at: check.created_at,
            expires_at: check.expires_at,
            end: None,
        }
    }

    pub fn silent(created: CreatedSilent, number: Msisdn, has_callback: bool) -> Self {
        let CreatedSilent { check, url, .. } = created;
        let (_, token) = url.split_once("?t=").unwrap();
        ModelCheck {
            id: check.id,
            project: check.project,
            product: check.product,
            number,
            expectation: Expectation::Device(ModelDevice { token: token.to_owned(), ..ModelDevice::default() }),
            has_callback,
            created_at: check.created_at,
            expires_at: check.expires_at,
            end: None,
        }
    }

    pub fn has_device(&self) -> bool {
        matches!(self.expectation, Expectation::Device(_))
    }

    pub fn device(&self) -> &ModelDevice {
        match &self.expectation {
            Expectation::Device(device) => device,
            Expectation::Sms { .. } => panic!("the check expects no device"),
        }
    }

    pub fn device_mut(&mut self) -> &mut ModelDevice {
        match &mut self.expectation {
            Expectation::Device(device) => device,
            Expectation::Sms { .. } => panic!("the check expects no device"),
        }
    }

    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.end.is_none() && self.expires_at <= now
    }

    pub fn expire_if_overdue(&mut self, now: Timestamp) {
        if self.is_overdue(now) {
            self.end = Some(self.expired(now));
        }
    }

    /// Returns the conclusion that an SMS with the check's code from this number must cause. `None`: the check is
    /// already concluded.
    pub fn expected_conclusion_by_sms(&self, from: &Msisdn, now: Timestamp) -> Option<ModelConclusion> {
        self.expected_conclusion(CheckOutcome::Completed(ModelVerdict::Match(*from == self.number)), now)
    }

    /// Returns the conclusion with this outcome or, if the check is overdue, its expiry. `None`: the check is already
    /// concluded.
    pub fn expected_conclusion(&self, outcome: CheckOutcome<ModelVerdict>, now: Timestamp) -> Option<ModelConclusion> {
        match self.end {
            Some(_) => None,
            None if self.expires_at <= now => Some(self.expired(now)),
            None => Some(ModelConclusion { state: Lifecycle::Concluded { outcome, at: now }, recorded_at: now }),
        }
    }

    fn expired(&self, now: Timestamp) -> ModelConclusion {
        ModelConclusion {
            state: Lifecycle::Concluded { outcome: CheckOutcome::Expired, at: self.expires_at },
            recorded_at: now,
        }
    }

    /// Builds an SMS with the code of the check, sent by this number.
    pub fn sms(&self, from: &Msisdn, now: Timestamp) -> InboundSms {
        let Expectation::Sms { receiver, body } = &self.expectation else { panic!("the check expects no SMS") };
        InboundSms {
            environment: SmsEnvironment::Sandbox(self.project),
            connector: "sandbox".into(),
            from: SmsSender::Number(from.clone()),
            to: receiver.clone(),
            text: body.clone(),
            received_at: now,
        }
    }

    /// Returns a receiver other than the one assigned to the check.
    pub fn wrong_receiver(&self) -> Msisdn {
        let Expectation::Sms { receiver: right, .. } = &self.expectation else { panic!("the check expects no SMS") };
        let other = RECEIVERS.into_iter().find(|receiver| *receiver != right.as_str());
        Msisdn::parse(other.unwrap(), Mode::Sandbox).unwrap()
    }
}

impl ModelConclusion {
    pub fn is_completed(&self) -> bool {
        matches!(self.state, Lifecycle::Concluded { outcome: CheckOutcome::Completed(_), .. })
    }
}
