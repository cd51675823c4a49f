//! The simulated handsets of sandbox projects: they text through the sandbox operator, like real ones through theirs.

use std::{sync::Arc, time::Duration};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::reverse_sms::Invitation;
use ringtrue_sandbox::smsc::{Behaviour, SendError, Sms, Smsc};

/// After this long a handset answers by itself, where its project asks for that.
const REPLY_AFTER: Duration = Duration::from_secs(2);
/// An SMS is usually through at once; whoever sends one need not wait longer than this to be told that it is queued.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cheap to clone. Without a sandbox operator there is nobody to send anything.
#[derive(Clone, Debug, Default)]
pub struct Handsets(Option<Arc<Smsc>>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandsetError {
    #[error("this deployment runs no sandbox operator")]
    NoOperator,
    #[error("the text is too long for an SMS")]
    TooLong,
    #[error("the sandbox operator has too many messages on their way")]
    Busy,
}

impl Handsets {
    pub fn new(smsc: Arc<Smsc>) -> Self {
        Handsets(Some(smsc))
    }

    /// Sends an SMS, and waits a moment for the operator to deliver it.
    pub async fn text(&self, from: &Msisdn, to: &Msisdn, body: &str, faults: Behaviour) -> Result<(), HandsetError> {
        let smsc = self.0.as_ref().ok_or(HandsetError::NoOperator)?;
        let sms = Sms::new(from.as_str(), to.as_str(), body).behaving(faults);
        let ticket = smsc.send(sms).map_err(|error| match error {
            SendError::QueueFull | SendError::Stopped => HandsetError::Busy,
            SendError::NotE164 | SendError::TooLong | SendError::Unwritable(_) => HandsetError::TooLong,
        })?;
        let _ = tokio::time::timeout(PATIENCE, ticket.delivered()).await;
        Ok(())
    }

    /// Has the handset with this number do what it is invited to, by itself.
    pub fn reply(&self, number: &str, invitation: &Invitation) {
        let Some((smsc, number)) = self.0.as_ref().zip(Msisdn::parse(number, Mode::Sandbox).ok()) else { return };
        let sms = Sms::new(number.as_str(), invitation.receiver.as_str(), invitation.sms_body.as_str());
        if let Err(error) = smsc.send(sms.behaving(Behaviour::new().late(REPLY_AFTER))) {
            tracing::warn!(%error, "a simulated handset does not reply");
        }
    }
}
