//! Inbound SMS, complete or partial.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckStatus,
    reverse_sms::{HashedSender, InboundSms, ReverseSmsCheck, SmsSender, find_code_candidates},
};

use crate::{
    Engine,
    activity::ActivityRecorder,
    checks::{downcast, truncate_to_millis},
    ports::{ConcludeOutcome, Inbox, PartialSms, SmsOutcome, StoreError},
};

#[async_trait]
impl Inbox for Engine {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        let at = truncate_to_millis(sms.received_at);
        let codes = find_code_candidates(&sms.text).into_iter().map(|code| self.hash_code(sms.origin, &sms.to, &code));
        let codes = codes.collect::<Result<Vec<_>, _>>()?;
        let from = match &sms.from {
            SmsSender::Number(number) => HashedSender::Number(self.hash_number(number)?),
            SmsSender::Unattributed => HashedSender::Unattributed,
        };
        if let Some(code) = codes.first()
            && let Some(check) = self.pending_codes().take(*code)
            && let SmsOutcome::Concluded = self.apply_sms(check, from, at, &sms.connector).await?
        {
            return Ok(SmsOutcome::Concluded);
        }
        let check = if codes.is_empty() { None } else { self.store().find_check_by_code(codes).await? };
        let Some(check) = check else {
            let InboundSms { origin, connector, from, to, .. } = sms;
            return self.mark_pending(PartialSms { origin, connector, from, to, received_at: at }).await;
        };
        self.apply_sms(downcast(check)?, from, at, &sms.connector).await
    }

    async fn receive_partial(&self, sms: PartialSms) -> Result<(), StoreError> {
        let received_at = truncate_to_millis(sms.received_at);
        self.mark_pending(PartialSms { received_at, ..sms }).await.map(drop)
    }
}

impl Engine {
    /// Concludes the check if the SMS matches it.
    async fn apply_sms(
        &self,
        check: ReverseSmsCheck,
        from: HashedSender,
        at: Timestamp,
        connector: &Arc<str>,
    ) -> Result<SmsOutcome, StoreError> {
        if self.has_left_sandbox(check.project, check.mode) {
            return Ok(SmsOutcome::Unmatched);
        }
        let key = ActivityRecorder::key_of(&check);
        match check.evaluate_sms(from, at) {
            Err(_) => Ok(SmsOutcome::TooLate),
            Ok(None) => Ok(SmsOutcome::Unmatched),
            Ok(Some(concluded)) => {
                let is_in_time = concluded.check().status() != CheckStatus::Expired;
                // A late SMS does not conclude the check; the expiry does.
                let connector = is_in_time.then(|| Arc::clone(connector));
                let ConcludeOutcome::Concluded { was_pending } =
                    self.conclude_via_connector(concluded, connector).await?
                else {
                    return Ok(SmsOutcome::TooLate);
                };
                if is_in_time && !was_pending {
                    self.activity_recorder().record_seen(key);
                }
                Ok(if is_in_time { SmsOutcome::Concluded } else { SmsOutcome::TooLate })
            }
        }
    }

    /// Marks the sender's checks as pending: something was received, but no valid code.
    async fn mark_pending(&self, sms: PartialSms) -> Result<SmsOutcome, StoreError> {
        let PartialSms { origin, connector, from: SmsSender::Number(number), to, received_at } = sms else {
            return Ok(SmsOutcome::Unusable);
        };
        let marked =
            self.store().mark_pending(origin, self.hash_number(&number)?, &to, &connector, received_at).await?;
        self.activity_recorder().record_pending(&marked);
        Ok(if marked.is_empty() { SmsOutcome::Unmatched } else { SmsOutcome::Pending })
    }
}
