//! Reverse SMS: the end-user proves a number by sending an SMS with a code. Creates, reads and lists checks, and
//! receives the SMS.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{Check, CheckId, CheckStatus, Lifecycle, OpenState, Provenance, Reference},
    page::{Page, PageRequest},
    phone::Msisdn,
    product::Product,
    reverse_sms::{
        HashedSender, InboundSms, ReverseSmsCheck, SmsCode, SmsEnvironment, SmsSender, find_code_candidates,
    },
    search::Filter,
    tenancy::{Project, ProjectId, ReverseSmsTtl, SmsPrefix},
    web_url::CallbackUrl,
};

use super::{Checks, CreateError, ReadError, downcast, require_enabled_project};
use crate::{
    activity::ActivityRecorder,
    courier::sealing::seal_callback_url,
    idempotency::{IdempotentRequest, companion_row},
    lookups::operator_access::SmsRoute,
    ports::{
        checks::{ConcludeOutcome, Expectation, NewCheck},
        sms::{Inbox, PartialSms, SmsOutcome},
        store::StoreError,
    },
};

/// Request to create a check. Number and URL are not parsed yet, because their validation depends on the project's
/// mode.
#[derive(Clone, derive_more::Debug)]
pub struct CreateReverseSms {
    #[debug(skip)]
    pub phone_number: String,
    pub reference: Option<Reference>,
    #[debug(skip)]
    pub callback_url: Option<String>,
}

/// The SMS that the end-user has to send. Returned only when the check is created.
#[derive(Clone, derive_more::Debug)]
pub struct SmsInstructions {
    pub receiver: Msisdn,
    /// Masked: anyone with the text can conclude the check.
    #[debug(skip)]
    pub sms_body: String,
    /// Time until the check expires, in seconds.
    pub ttl: u16,
}

#[derive(Clone, Debug)]
pub struct CreatedReverseSms {
    pub check: ReverseSmsCheck,
    pub instructions: SmsInstructions,
}

impl Checks {
    pub async fn create_reverse_sms(
        &self,
        project: &Project,
        request: CreateReverseSms,
        idempotency: Option<IdempotentRequest<'_, CreatedReverseSms>>,
    ) -> Result<CreatedReverseSms, CreateError> {
        require_enabled_project(project)?;
        let settings = &project.configuration.reverse_sms;
        let requested_url = request.callback_url.as_deref();
        let requested_url =
            requested_url.map(|url| CallbackUrl::parse(url, &self.context.settings.url_policy.for_mode(project.mode)));
        let requested_url = requested_url.transpose().map_err(CreateError::CallbackUrl)?;
        let number = Msisdn::parse(&request.phone_number, project.mode)?;
        let operators = self.operators.for_mode(project.mode);
        let SmsRoute { network, receiver } = operators.sms_route(project, &number).await?;

        let now = self.context.now();
        let claimed = self.context.hash_number_with_tail(&number)?;
        let number_limit = operators.number_limit();
        let row = companion_row(number_limit.map(|_| claimed.hash), idempotency.as_ref());
        let (code, code_hash) = self.generate_colocated(row, || {
            let code = SmsCode::from_random(self.context.entropy.bytes());
            let hash = self.context.hash_code(SmsEnvironment::for_project(project), &receiver, &code)?;
            Ok((hash.bucket(), (code, hash)))
        })?;
        let id = CheckId(self.context.new_uuid(now)).with_bucket(code_hash.bucket());
        let ttl = settings.ttl.unwrap_or(ReverseSmsTtl::DEFAULT).seconds();
        let callback_url = requested_url.as_ref().or(project.configuration.callback_url(Product::ReverseSms));
        let check = Check {
            id,
            project: project.id,
            product: Product::ReverseSms,
            mode: project.mode,
            network: Some(network),
            claimed: Some(claimed),
            reference: request.reference,
            callback_url: callback_url.map(|url| seal_callback_url(&self.context, id, url)).transpose()?,
            verification: None,
            redirect_url: None,
            created_at: now,
            expires_at: now.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let prefix = settings.prefix.as_ref().map_or(SmsPrefix::DEFAULT, SmsPrefix::as_str);
        let sms_body = format!("{prefix} {}", code.as_str());
        let created = CreatedReverseSms { check, instructions: SmsInstructions { receiver, sms_body, ttl } };

        let receiver = created.instructions.receiver.clone();
        let new = NewCheck {
            check: created.check.clone().map(Into::into),
            expectation: Expectation::Sms { receiver, code: code_hash },
            number_limit,
            idempotent_response: self.idempotency.seal_response(idempotency.as_ref(), &created)?,
            verification: None,
        };
        self.store_check(new).await?;
        self.pending_codes.insert(code_hash, created.check.clone());
        Ok(created)
    }

    pub async fn reverse_sms_check(&self, project: ProjectId, id: CheckId) -> Result<ReverseSmsCheck, ReadError> {
        self.read_check(project, Product::ReverseSms, id).await
    }

    /// Lists the Reverse SMS checks of a project, newest first.
    pub async fn reverse_sms_checks(
        &self,
        project: ProjectId,
        filter: Option<Filter>,
        page: PageRequest,
    ) -> Result<Page<ReverseSmsCheck>, StoreError> {
        self.list_checks(project, Product::ReverseSms, filter, page).await
    }

    /// Concludes a check with an SMS that contains its code. The check matches if the sender of the SMS is the claimed
    /// number.
    async fn apply_sms(
        &self,
        check: ReverseSmsCheck,
        from: HashedSender,
        at: Timestamp,
        connector: &Arc<str>,
    ) -> Result<SmsOutcome, StoreError> {
        if self.context.has_left_sandbox(check.project, check.mode) {
            return Ok(SmsOutcome::Unmatched);
        }
        let Some(from) = self.operators.for_mode(check.mode).sms_sender(&check, from) else {
            return Ok(SmsOutcome::Unmatched);
        };
        let key = ActivityRecorder::key_of(&check);
        let Ok(concluded) = check.evaluate_sms(from, at) else { return Ok(SmsOutcome::TooLate) };
        let is_in_time = concluded.check().status() != CheckStatus::Expired;
        // An SMS that arrives after the deadline concludes the check as expired. Then its connector is not stored,
        // because the SMS did not decide the outcome.
        let connector = is_in_time.then(|| Arc::clone(connector));
        let provenance = Provenance { connector, ..Provenance::default() };
        let ConcludeOutcome::Concluded { was_pending } = self.conclude_with_provenance(concluded, provenance).await?
        else {
            return Ok(SmsOutcome::TooLate);
        };
        if is_in_time && !was_pending {
            self.activity.record_seen(key);
        }
        Ok(if is_in_time { SmsOutcome::Concluded } else { SmsOutcome::TooLate })
    }

    /// Marks the open checks of the sender's number as pending, after an SMS without a valid code.
    async fn mark_pending(&self, sms: PartialSms) -> Result<SmsOutcome, StoreError> {
        let PartialSms { environment, connector, from: SmsSender::Number(number), to, received_at } = sms else {
            return Ok(SmsOutcome::Unusable);
        };
        let marked = self
            .store
            .mark_pending(environment, self.context.hash_number(&number)?, &to, &connector, received_at)
            .await?;
        self.activity.record_pending(&marked);
        Ok(if marked.is_empty() { SmsOutcome::Unmatched } else { SmsOutcome::Pending })
    }
}

#[async_trait]
impl Inbox for Checks {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        let codes = find_code_candidates(&sms.text)
            .into_iter()
            .map(|code| self.context.hash_code(sms.environment, &sms.to, &code));
        let codes = codes.collect::<Result<Vec<_>, _>>()?;
        let from = match &sms.from {
            SmsSender::Number(number) => HashedSender::Number(self.context.hash_number(number)?),
            SmsSender::Unattributed => HashedSender::Unattributed,
        };
        if let Some(code) = codes.first()
            && let Some(check) = self.pending_codes.take(*code)
            && let SmsOutcome::Concluded = self.apply_sms(check, from, sms.received_at, &sms.connector).await?
        {
            return Ok(SmsOutcome::Concluded);
        }
        let check = if codes.is_empty() { None } else { self.store.find_check_by_code(codes).await? };
        let Some(check) = check else {
            let InboundSms { environment, connector, from, to, received_at, .. } = sms;
            return self.mark_pending(PartialSms { environment, connector, from, to, received_at }).await;
        };
        self.apply_sms(downcast(check)?, from, sms.received_at, &sms.connector).await
    }

    async fn receive_partial(&self, sms: PartialSms) -> Result<(), StoreError> {
        self.mark_pending(sms).await.map(drop)
    }
}
