//! What operators bring: SMS, whole or in part.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::Status,
    reverse_sms::{InboundSms, ReceivedFrom, ReverseSmsCheck, Sender, candidates},
};

use crate::{
    Engine,
    activity::Activity,
    checks::{narrowed, whole_millis},
    ports::{Disposition, Glimpse, Inbox, Recorded, StoreError},
};

#[async_trait]
impl Inbox for Engine {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        let at = whole_millis(sms.received_at);
        let codes = candidates(&sms.text).into_iter().map(|code| self.code_hash(sms.origin, &sms.to, &code));
        let codes = codes.collect::<Result<Vec<_>, _>>()?;
        let from = match &sms.from {
            Sender::Number(number) => ReceivedFrom::Number(self.number_hash(number)?),
            Sender::Unattributed => ReceivedFrom::Unattributed,
        };
        if let Some(code) = codes.first()
            && let Some(check) = self.awaited().take(*code)
            && let Disposition::Concluded = self.taken(check, from, at, &sms.connector).await?
        {
            return Ok(Disposition::Concluded);
        }
        let check = if codes.is_empty() { None } else { self.store().check_by_code(codes).await? };
        let Some(check) = check else {
            let InboundSms { origin, connector, from, to, .. } = sms;
            return self.notice(Glimpse { origin, connector, from, to, seen_at: at }).await;
        };
        self.taken(narrowed(check)?, from, at, &sms.connector).await
    }

    async fn glimpse(&self, glimpse: Glimpse) -> Result<(), StoreError> {
        let seen_at = whole_millis(glimpse.seen_at);
        self.notice(Glimpse { seen_at, ..glimpse }).await.map(drop)
    }
}

impl Engine {
    /// A check takes what may be its SMS.
    async fn taken(
        &self,
        check: ReverseSmsCheck,
        from: ReceivedFrom,
        at: Timestamp,
        connector: &Arc<str>,
    ) -> Result<Disposition, StoreError> {
        if self.has_left_sandbox(check.project, check.mode) {
            return Ok(Disposition::Unmatched);
        }
        let place = Activity::place_of(&check);
        match check.receive(from, at) {
            Err(_) => Ok(Disposition::TooLate),
            Ok(None) => Ok(Disposition::Unmatched),
            Ok(Some(concluded)) => {
                let is_in_time = concluded.check().status() != Status::Expired;
                // One that comes too late has ended nothing.
                let connector = is_in_time.then(|| Arc::clone(connector));
                let Recorded::Now { was_pending } = self.conclude_by(concluded, connector).await? else {
                    return Ok(Disposition::TooLate);
                };
                if is_in_time && !was_pending {
                    self.activity().seen(place);
                }
                Ok(if is_in_time { Disposition::Concluded } else { Disposition::TooLate })
            }
        }
    }

    /// Something came from this number, though not what a check waits for.
    async fn notice(&self, glimpse: Glimpse) -> Result<Disposition, StoreError> {
        let Glimpse { origin, connector, from: Sender::Number(number), to, seen_at } = glimpse else {
            return Ok(Disposition::Unusable);
        };
        let moved = self.store().mark_pending(origin, self.number_hash(&number)?, &to, &connector, seen_at).await?;
        self.activity().marked_pending(&moved);
        Ok(if moved.is_empty() { Disposition::Unmatched } else { Disposition::Pending })
    }
}
