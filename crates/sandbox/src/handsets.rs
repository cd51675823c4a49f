//! Simulated handsets of sandbox projects, which send SMS through the sandbox operator, and whose wallet hands out the
//! operator's tokens.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use ringtrue_domain::{
    network::NetworkId,
    phone::{InvalidPhoneNumber, Msisdn},
    silent::AppOrigin,
    tenancy::{Mode, Project},
};
use ringtrue_engine::{
    checks::reverse_sms::SmsInstructions, lookups::operator_access::ExpectedSms,
    ports::operator_tokens::DigitalCredential,
};

use crate::{
    camara::PhoneNumber,
    operator_access::{queue_account_of, send_automatic_reply},
    smsc::{FaultScript, SendError, Sms, SmsAddress, Smsc},
    wallet::{CredentialRequest, Forgery, InvalidRequest, PROTOCOL, Wallet, WalletError},
};

/// Maximum time for which sending an SMS waits for its delivery. After that, the delivery continues in the background.
const DELIVERY_WAIT: Duration = Duration::from_secs(2);

/// Simulated handsets. Cheap to clone. Their use fails if the deployment has no sandbox operator.
#[derive(Clone, Debug, Default)]
pub struct Handsets(Option<SandboxServices>);

/// Parts of the sandbox operator that handsets use.
#[derive(Clone, Debug)]
struct SandboxServices {
    smsc: Arc<Smsc>,
    wallet: Arc<Wallet>,
}

/// Sender of a simulated SMS: a number, or an address that cannot be attributed to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedSender(SmsAddress);

impl SimulatedSender {
    /// Parses a number, or a sender that [`SmsAddress::parse_unattributed`] accepts.
    pub fn parse(text: &str) -> Result<Self, InvalidPhoneNumber> {
        match SmsAddress::parse_unattributed(text) {
            Some(address) => Ok(SimulatedSender(address)),
            None => Msisdn::parse(text, Mode::Sandbox).map(|number| (&number).into()),
        }
    }
}

impl From<&Msisdn> for SimulatedSender {
    fn from(number: &Msisdn) -> Self {
        SimulatedSender(number.as_str().into())
    }
}

/// Delivery faults of a simulated SMS. None by default.
#[derive(Clone, Debug, Default)]
pub struct SmsFaults {
    pub late_seconds: Option<i64>,
    pub extra_copies: Option<i64>,
    pub spoofed_from: Option<SimulatedSender>,
    pub garbled: bool,
    pub parts: Option<i64>,
    pub out_of_order: bool,
    pub link_drops: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandsetError {
    #[error("the sandbox operator is disabled in this deployment")]
    NoOperator,
    #[error("the text exceeds the length of an SMS")]
    TooLong,
    #[error("the sandbox operator's queue is full")]
    Busy,
    #[error("too many simulated messages in transit for this project or workspace; wait until some are delivered")]
    TooMany,
    #[error(transparent)]
    InvalidCredentialRequest(#[from] InvalidRequest),
    #[error("the wallet does not offer this SIM, because its operator does not support Secure SNA for it")]
    SimNotEligible,
    #[error("the wallet of this simulated phone never answers, because the number of its SIM ends in 98")]
    NoAnswer,
    #[error("the simulated wallet failed")]
    WalletFailed,
}

impl From<WalletError> for HandsetError {
    fn from(error: WalletError) -> Self {
        match error {
            WalletError::NotEligible => HandsetError::SimNotEligible,
            WalletError::NoAnswer => HandsetError::NoAnswer,
            WalletError::Cryptography => HandsetError::WalletFailed,
        }
    }
}

impl SmsFaults {
    pub const ALLOWED_LATE_SECONDS: RangeInclusive<i64> = 0..=3_600;
    pub const ALLOWED_EXTRA_COPIES: RangeInclusive<i64> = 0..=10;
    pub const ALLOWED_PARTS: RangeInclusive<i64> = 1..=10;
    pub const ALLOWED_LINK_DROPS: RangeInclusive<i64> = 0..=3;

    fn into_fault_script(self) -> FaultScript {
        let count = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let mut faults = FaultScript::new()
            .delayed_by(Duration::from_secs(count(self.late_seconds).into()))
            .duplicated(count(self.extra_copies))
            // Simulates dropped links for this message only. Dropping the connection would affect all projects, because
            // they share it.
            .losing_responses(count(self.link_drops));
        if let Some(parts) = self.parts.and_then(|parts| u8::try_from(parts).ok()) {
            faults = faults.split_into(parts);
        }
        if let Some(sender) = self.spoofed_from {
            faults = faults.with_spoofed_sender(sender.0);
        }
        if self.garbled {
            faults = faults.garbled();
        }
        if self.out_of_order {
            faults = faults.parts_reversed();
        }
        faults
    }
}

impl Handsets {
    pub fn new(smsc: Arc<Smsc>, wallet: Arc<Wallet>) -> Self {
        Handsets(Some(SandboxServices { smsc, wallet }))
    }

    fn services(&self) -> Result<&SandboxServices, HandsetError> {
        self.0.as_ref().ok_or(HandsetError::NoOperator)
    }

    /// Sends an SMS from a handset of a project and waits briefly for its delivery.
    pub async fn send_sms(
        &self,
        project: &Project,
        from: SimulatedSender,
        to: &Msisdn,
        body: &str,
        faults: SmsFaults,
    ) -> Result<(), HandsetError> {
        let smsc = &self.services()?.smsc;
        let is_late = faults.late_seconds.is_some_and(|seconds| seconds > 0);
        let sms = Sms::new(from.0, to.as_str(), body)
            .with_faults(faults.into_fault_script())
            .with_account(queue_account_of(project));
        let delivery = smsc.send(sms).map_err(|error| match error {
            SendError::QueueFull | SendError::Stopped => HandsetError::Busy,
            SendError::AccountFull => HandsetError::TooMany,
            SendError::NotE164 | SendError::TooLong | SendError::Encode(_) => HandsetError::TooLong,
        })?;
        if !is_late {
            let _ = tokio::time::timeout(DELIVERY_WAIT, delivery.wait_for_outcome()).await;
        }
        Ok(())
    }

    /// Sends, from the handset with this number, the SMS that a check expects.
    pub fn send_automatic_reply(&self, project: &Project, number: &str, invitation: &SmsInstructions) {
        let Some((services, number)) = self.0.as_ref().zip(Msisdn::parse(number, Mode::Sandbox).ok()) else { return };
        let expected = ExpectedSms { from: &number, to: &invitation.receiver, body: &invitation.sms_body };
        send_automatic_reply(&services.smsc, project, &expected);
    }

    /// Validates a request to the wallet, as a phone does before it shows the consent text.
    pub fn validate_credential_request(&self, request: &DigitalCredential) -> Result<CredentialRequest, HandsetError> {
        Ok(self.services()?.wallet.read_request(&request.protocol, &request.data)?)
    }

    /// Returns whether the wallet offers the SIM with this number.
    pub fn offers_sim(number: &Msisdn) -> bool {
        number.as_str().parse().is_ok_and(|number| Wallet::offers(&number))
    }

    /// Responds to a request, as the wallet does after its user has confirmed the consent for this SIM. Without a network,
    /// the SIM belongs to the simulated operator.
    pub fn respond_to_credential_request(
        &self,
        request: &CredentialRequest,
        sim: &Msisdn,
        origin: &AppOrigin,
        network: Option<&NetworkId>,
        forgery: Option<Forgery>,
    ) -> Result<DigitalCredential, HandsetError> {
        let sim: PhoneNumber = sim.as_str().parse().map_err(|_| HandsetError::SimNotEligible)?;
        let carrier = network.map(NetworkId::as_str);
        let data = self.services()?.wallet.respond(request, &sim, origin.as_str(), carrier, forgery)?;
        Ok(DigitalCredential { protocol: PROTOCOL.to_owned(), data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders() {
        let kind = |text: &str| match SimulatedSender::parse(text) {
            Ok(SimulatedSender(SmsAddress::Number(number))) => number,
            Ok(SimulatedSender(SmsAddress::Raw(address))) => address.ton.to_string(),
            Err(error) => error.to_string(),
        };
        for (text, expected) in [
            ("+990123456700", "+990123456700"),
            ("", "unknown"),
            ("112", "network_specific"),
            ("80123456", "network_specific"),
            ("My Bank", "alphanumeric"),
            ("3-2-1 Bank", "alphanumeric"),
            ("ELEVENCHARS", "alphanumeric"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        for invalid in ["12", "990123456700", "TWELVE CHARS", "+12", "Bücher", "---", "BANK\n", "+BANK"] {
            assert!(SimulatedSender::parse(invalid).is_err(), "{invalid}");
        }
    }
}
