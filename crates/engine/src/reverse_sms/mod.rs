//! Reverse SMS: creating, reading and listing checks. [`inbox`](self) handles inbound SMS.

mod inbox;
mod pending_code_cache;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::uuid_v7,
    lifecycle::{Check, CheckId, ClaimedNumber, Lifecycle, OpenState, Reference},
    network::NetworkId,
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{ReverseSmsCheck, SmsCode, SmsOrigin},
    sandbox::{self, SandboxScript},
    search::Filter,
    tenancy::{Mode, Project, ProjectId, SmsPrefix, Ttl},
    web_url::CallbackUrl,
};

use crate::{
    Engine,
    checks::{CreateError, ReadError, require_eligible, require_enabled, truncate_to_millis},
    idempotency::IdempotentRequest,
    ports::{Expectation, NewCheck, StoreError},
};
pub(crate) use pending_code_cache::PendingCodeCache;

/// Create request. Number and URL are unparsed: their validation depends on the project's mode.
#[derive(Clone)]
pub struct CreateReverseSms {
    pub phone_number: String,
    pub reference: Option<Reference>,
    pub callback_url: Option<String>,
}

/// Masked: personal data.
impl std::fmt::Debug for CreateReverseSms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateReverseSms").field("reference", &self.reference).finish_non_exhaustive()
    }
}

/// SMS that the end-user has to send. Returned only at creation.
#[derive(Clone)]
pub struct SmsInstructions {
    pub receiver: Msisdn,
    pub sms_body: String,
    /// In seconds.
    pub ttl: u16,
}

/// Masked: anyone with the text can conclude the check.
impl std::fmt::Debug for SmsInstructions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation").field("receiver", &self.receiver).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct CreatedReverseSms {
    pub check: ReverseSmsCheck,
    pub instructions: SmsInstructions,
}

impl Engine {
    pub async fn create_reverse_sms(
        &self,
        project: &Project,
        request: CreateReverseSms,
        idempotency: Option<IdempotentRequest<'_, CreatedReverseSms>>,
    ) -> Result<CreatedReverseSms, CreateError> {
        require_enabled(project)?;
        let settings = &project.configuration.reverse_sms;
        let requested_url = request.callback_url.as_deref();
        let requested_url = requested_url.map(|url| CallbackUrl::parse(url, &self.url_policy().for_mode(project.mode)));
        let requested_url = requested_url.transpose().map_err(CreateError::CallbackUrl)?;
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let (network, receiver) = self.select_receiver(project, &number).await?;

        let now = truncate_to_millis(self.clock().now());
        let id = CheckId(uuid_v7(now, self.entropy().bytes()));
        let ttl = settings.ttl.unwrap_or(Ttl::DEFAULT).seconds();
        let code = SmsCode::from_random(self.entropy().bytes());
        let callback_url = requested_url.as_ref().or(settings.callback_url.as_ref());
        let check = Check {
            id,
            project: project.id,
            product: Product::ReverseSms,
            mode: project.mode,
            network: Some(network),
            claimed: Some(ClaimedNumber { hash: self.hash_number(&number)?, tail: number.tail() }),
            reference: request.reference,
            callback_url: callback_url.map(|url| self.seal_callback_url(id, url)).transpose()?,
            redirect_url: None,
            created_at: now,
            expires_at: now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let prefix = settings.prefix.as_ref().map_or(SmsPrefix::DEFAULT, SmsPrefix::as_str);
        let sms_body = format!("{prefix} {}", code.as_str());
        let created = CreatedReverseSms { check, instructions: SmsInstructions { receiver, sms_body, ttl } };

        let receiver = created.instructions.receiver.clone();
        let code = self.hash_code(SmsOrigin::for_project(project), &receiver, &code)?;
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            expectation: Expectation::Sms { receiver, code },
            number_limit: self.number_limit(project.mode),
            idempotent_response: self.seal_idempotent_response(idempotency, &created)?,
        };
        self.store_check(new).await?;
        self.pending_codes().insert(code, created.check.clone());
        Ok(created)
    }

    /// The number's network and a receiver for it, if the project may use them.
    async fn select_receiver(&self, project: &Project, number: &Msisdn) -> Result<(NetworkId, Msisdn), CreateError> {
        if project.mode == Mode::Sandbox {
            return self.select_simulated_receiver(number);
        }
        let network = self.resolve_network(number).await?.ok_or(CreateError::MnoNotSupported)?;
        let receiver = self.networks().next_receiver(&network);
        require_eligible(project, Product::ReverseSms, &network.id, receiver.is_some())?;
        Ok((network.id, receiver.ok_or(CreateError::MnoNotSupported)?))
    }

    fn select_simulated_receiver(&self, number: &Msisdn) -> Result<(NetworkId, Msisdn), CreateError> {
        match SandboxScript::of(number.tail()) {
            SandboxScript::NothingSupported | SandboxScript::NoSubscriber => Err(CreateError::MnoNotSupported),
            SandboxScript::LookupDown => Err(CreateError::LookupUnavailable),
            SandboxScript::OperatorFault
            | SandboxScript::Silence
            | SandboxScript::NoSecureSna
            | SandboxScript::OperatorTimeout
            | SandboxScript::Even
            | SandboxScript::Odd => {
                let receiver = sandbox::RECEIVERS[self.networks().next_simulated_index() % sandbox::RECEIVERS.len()];
                let network = sandbox::NETWORK_ID.parse().map_err(|_| CreateError::MnoNotSupported)?;
                Ok((network, Msisdn::parse(receiver, Mode::Sandbox)?))
            }
        }
    }

    pub async fn reverse_sms_check(&self, project: ProjectId, id: CheckId) -> Result<ReverseSmsCheck, ReadError> {
        self.read_check(project, Product::ReverseSms, id).await
    }

    /// Newest first.
    pub async fn reverse_sms_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<ReverseSmsCheck>, StoreError> {
        self.list_checks(project, Product::ReverseSms, filter, page).await
    }
}
