//! The simulated handsets of sandbox projects: they text through the sandbox operator, like real ones through theirs,
//! and their SIMs can be swapped.

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use jiff::Timestamp;
use ringtrue_domain::{
    phone::Msisdn,
    tenancy::{Mode, Project, ProjectId},
};
use ringtrue_engine::reverse_sms::Invitation;
use ringtrue_sandbox::{
    sim_drawer::SimDrawer,
    smsc::{Account, Behaviour, SendError, Sms, Smsc},
};

/// After this long a handset answers by itself, where its project asks for that.
const REPLY_AFTER: Duration = Duration::from_secs(2);
/// An SMS is usually through at once; whoever sends one need not wait longer than this to be told that it is queued.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cheap to clone. Without a sandbox operator there is nobody to send anything.
#[derive(Clone, Debug, Default)]
pub struct Handsets {
    smsc: Option<Arc<Smsc>>,
    drawer: Arc<SimDrawer>,
}

/// What befalls an SMS on its way. Nothing does by default.
#[derive(Clone, Default)]
pub struct Faults {
    pub late_seconds: Option<i64>,
    pub extra_copies: Option<i64>,
    pub spoofed_from: Option<String>,
    pub garbled: bool,
    pub parts: Option<i64>,
    pub out_of_order: bool,
    pub link_drops: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandsetError {
    #[error("this deployment runs no sandbox operator")]
    NoOperator,
    #[error("the text is too long for an SMS")]
    TooLong,
    #[error("the sandbox operator has too many messages on their way")]
    Busy,
    #[error(
        "this project or its workspace has too many simulated messages on their way; wait until some are delivered"
    )]
    TooMany,
}

/// One of them is a number.
impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("late_seconds", &self.late_seconds).finish_non_exhaustive()
    }
}

impl Faults {
    pub const LATE_SECONDS: RangeInclusive<i64> = 0..=3_600;
    pub const EXTRA_COPIES: RangeInclusive<i64> = 0..=10;
    pub const PARTS: RangeInclusive<i64> = 1..=10;
    pub const LINK_DROPS: RangeInclusive<i64> = 0..=3;

    fn behaviour(self) -> Behaviour {
        let count = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        let mut behaviour = Behaviour::new()
            .late(Duration::from_secs(count(self.late_seconds).into()))
            .duplicated(count(self.extra_copies))
            // Simulated for this message alone: all projects share the link.
            .losing_answers(count(self.link_drops));
        if let Some(parts) = self.parts.and_then(|parts| u8::try_from(parts).ok()) {
            behaviour = behaviour.split_into(parts);
        }
        if let Some(sender) = self.spoofed_from {
            behaviour = behaviour.spoofed(sender);
        }
        if self.garbled {
            behaviour = behaviour.garbled();
        }
        if self.out_of_order {
            behaviour = behaviour.parts_reversed();
        }
        behaviour
    }
}

impl Handsets {
    pub fn new(smsc: Arc<Smsc>, drawer: Arc<SimDrawer>) -> Self {
        Handsets { smsc: Some(smsc), drawer }
    }

    /// The number has had another SIM since this instant, as far as this project is told.
    pub fn swap_sim(&self, project: ProjectId, number: &Msisdn, at: Timestamp) {
        self.drawer.swap(project.0.as_u128(), number.as_str(), at.as_second());
    }

    /// The number has its first SIM again.
    pub fn put_sim_back(&self, project: ProjectId, number: &Msisdn) {
        self.drawer.put_back(project.0.as_u128(), number.as_str());
    }

    /// The numbers whose SIMs a project has swapped, and since when they have theirs.
    pub fn swapped_sims(&self, project: ProjectId) -> Vec<(String, Timestamp)> {
        let swapped = self.drawer.swapped(project.0.as_u128()).into_iter();
        swapped.filter_map(|(number, at)| Some((number, Timestamp::from_second(at).ok()?))).collect()
    }

    /// Sends an SMS from a handset of a project, and waits a moment for the operator to deliver it.
    pub async fn text(
        &self,
        project: &Project,
        from: &Msisdn,
        to: &Msisdn,
        body: &str,
        faults: Faults,
    ) -> Result<(), HandsetError> {
        let smsc = self.smsc.as_ref().ok_or(HandsetError::NoOperator)?;
        let is_late = faults.late_seconds.is_some_and(|seconds| seconds > 0);
        let sms = Sms::new(from.as_str(), to.as_str(), body).behaving(faults.behaviour()).of_account(account(project));
        let ticket = smsc.send(sms).map_err(|error| match error {
            SendError::QueueFull | SendError::Stopped => HandsetError::Busy,
            SendError::AccountFull => HandsetError::TooMany,
            SendError::NotE164 | SendError::TooLong | SendError::Unwritable(_) => HandsetError::TooLong,
        })?;
        if !is_late {
            let _ = tokio::time::timeout(PATIENCE, ticket.delivered()).await;
        }
        Ok(())
    }

    /// Has the handset with this number do what it is invited to, by itself.
    pub fn reply(&self, project: &Project, number: &str, invitation: &Invitation) {
        let Some((smsc, number)) = self.smsc.as_ref().zip(Msisdn::parse(number, Mode::Sandbox).ok()) else { return };
        let sms = Sms::new(number.as_str(), invitation.receiver.as_str(), invitation.sms_body.as_str());
        let sms = sms.behaving(Behaviour::new().late(REPLY_AFTER)).of_account(account(project));
        if let Err(error) = smsc.send(sms) {
            tracing::warn!(%error, "a simulated handset does not reply");
        }
    }
}

/// Simulated SMS reach the checks of the project whose handset has sent them, and no others. Projects of a workspace have
/// a share of the operator's queue together.
fn account(project: &Project) -> Account {
    Account { id: project.id.0.as_u128(), group: project.workspace.0.as_u128() }
}
