//! Reverse SMS: creating, reading and listing checks. What operators bring is in [`inbox`](self).

mod awaited;
mod inbox;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::{Check, CheckId, ClaimedNumber, Lifecycle, Open, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{Code, Origin, ReverseSmsCheck},
    sandbox::{self, Script},
    search::Filter,
    tenancy::{Mode, Project, ProjectId, SmsPrefix, Ttl},
    web_url::CallbackUrl,
};

use crate::{
    Engine,
    checks::{CreateError, ReadError, pass_gates, require_enabled, whole_millis},
    idempotency::Once,
    ports::{Awaits, NewCheck, StoreError},
};
pub(crate) use awaited::Awaited;

/// What a caller asks for. Number and URL are still text: what they may be depends on the project's mode.
#[derive(Clone)]
pub struct CreateReverseSms {
    pub phone_number: String,
    pub reference: Option<Reference>,
    pub callback_url: Option<String>,
}

/// Masked: it is all about a person.
impl std::fmt::Debug for CreateReverseSms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateReverseSms").field("reference", &self.reference).finish_non_exhaustive()
    }
}

/// What the end-user has to do. Nobody is told a second time.
#[derive(Clone)]
pub struct Invitation {
    pub receiver: Msisdn,
    pub sms_body: String,
    /// In seconds.
    pub ttl: u16,
}

/// Masked: who knows the text can end the check.
impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation").field("receiver", &self.receiver).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct CreatedReverseSms {
    pub check: ReverseSmsCheck,
    pub invitation: Invitation,
}

impl Engine {
    pub async fn create_reverse_sms(
        &self,
        project: &Project,
        request: CreateReverseSms,
        once: Option<Once<'_, CreatedReverseSms>>,
    ) -> Result<CreatedReverseSms, CreateError> {
        require_enabled(project)?;
        let settings = &project.configuration.reverse_sms;
        let own_url = request.callback_url.as_deref();
        let own_url = own_url.map(|url| CallbackUrl::parse(url, &self.urls().for_mode(project.mode)));
        let own_url = own_url.transpose().map_err(CreateError::CallbackUrl)?;
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let (network, receiver) = self.route(project, &number).await?;

        let now = whole_millis(self.clock().now());
        let id = CheckId(time_ordered(now, self.entropy().bytes()));
        let ttl = settings.ttl.unwrap_or(Ttl::DEFAULT).seconds();
        let code = Code::from_random(self.entropy().bytes());
        let callback_url = own_url.as_ref().or(settings.callback_url.as_ref());
        let check = Check {
            id,
            project: project.id,
            product: Product::ReverseSms,
            mode: project.mode,
            network: Some(network),
            claimed: Some(ClaimedNumber { hash: self.number_hash(&number)?, tail: number.tail() }),
            reference: request.reference,
            callback_url: callback_url.map(|url| self.seal_callback_url(id, url)).transpose()?,
            redirect_url: None,
            created_at: now,
            expires_at: now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(Open::Accepted),
        };
        let prefix = settings.prefix.as_ref().map_or(SmsPrefix::DEFAULT, SmsPrefix::as_str);
        let sms_body = format!("{prefix} {}", code.as_str());
        let created = CreatedReverseSms { check, invitation: Invitation { receiver, sms_body, ttl } };

        let receiver = created.invitation.receiver.clone();
        let code = self.code_hash(Origin::for_project(project), &receiver, &code)?;
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            awaits: Awaits::Sms { receiver, code },
            guard: self.number_guard(project.mode),
            completion: self.completion(once, &created)?,
        };
        self.store_new(new).await?;
        self.awaited().remember(code, created.check.clone());
        Ok(created)
    }

    /// The number's network, and the number that its owner is to text, if all gates are open.
    async fn route(&self, project: &Project, number: &Msisdn) -> Result<(NetworkId, Msisdn), CreateError> {
        if project.mode == Mode::Sandbox {
            return self.simulated_route(number);
        }
        let network = self.network_of(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let receiver = self.networks().receiver(&network);
        pass_gates(project, Product::ReverseSms, &network.id, receiver.is_some())?;
        Ok((network.id, receiver.ok_or(CreateError::MnoNotSupported)?))
    }

    fn simulated_route(&self, number: &Msisdn) -> Result<(NetworkId, Msisdn), CreateError> {
        match Script::of(number.tail()) {
            Script::NothingSupported | Script::NoSubscriber => Err(CreateError::MnoNotSupported),
            Script::LookupDown => Err(CreateError::LookupUnavailable),
            Script::OperatorFault
            | Script::Silence
            | Script::NoSecureSna
            | Script::OperatorTimeout
            | Script::Even
            | Script::Odd => {
                let receiver = sandbox::RECEIVERS[self.networks().next_simulated() % sandbox::RECEIVERS.len()];
                let network = sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported)?;
                Ok((network, Msisdn::parse(receiver, Mode::Sandbox)?))
            }
        }
    }

    /// A check as it is now.
    pub async fn reverse_sms(&self, project: ProjectId, id: CheckId) -> Result<ReverseSmsCheck, ReadError> {
        self.check(project, Product::ReverseSms, id).await
    }

    /// The project's checks, newest first.
    pub async fn reverse_sms_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<ReverseSmsCheck>, StoreError> {
        self.checks(project, Product::ReverseSms, filter, page).await
    }
}
