//! What operators bring: SMS, whole or in part.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::Status,
    phone::Msisdn,
    reverse_sms::{InboundSms, ReceivedFrom, ReverseSmsCheck, Sender, candidates},
    tenancy::Mode,
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
        let codes = candidates(&sms.text).into_iter().map(|code| self.code_hash(sms.mode, &sms.to, &code));
        let codes = codes.collect::<Result<Vec<_>, _>>()?;
        let check = if codes.is_empty() { None } else { self.store().check_by_code(codes).await? };
        let Some(check) = check else {
            return self.notice(sms.mode, &sms.from, &sms.to, at).await;
        };
        let check: ReverseSmsCheck = narrowed(check)?;
        let from = match &sms.from {
            Sender::Number(number) => ReceivedFrom::Number(self.number_hash(number)?),
            Sender::Unattributed => ReceivedFrom::Unattributed,
            Sender::Nobody => return Ok(Disposition::Unusable),
        };
        let first_seen = (check.status() == Status::Accepted).then(|| Activity::place_of(&check));
        match check.receive(from, at) {
            Err(_) => Ok(Disposition::TooLate),
            Ok(None) => Ok(Disposition::Unmatched),
            Ok(Some(concluded)) => {
                let is_in_time = concluded.check().status() != Status::Expired;
                let recorded = self.conclude(concluded).await?;
                let decided = recorded == Recorded::Now && is_in_time;
                if let (true, Some(place)) = (decided, first_seen) {
                    self.activity().seen(place);
                }
                Ok(if decided { Disposition::Concluded } else { Disposition::TooLate })
            }
        }
    }

    async fn glimpse(&self, glimpse: Glimpse) -> Result<(), StoreError> {
        let at = whole_millis(glimpse.seen_at);
        self.notice(glimpse.mode, &glimpse.from, &glimpse.to, at).await.map(drop)
    }
}

impl Engine {
    /// Something came from this number, though not what a check waits for.
    async fn notice(
        &self,
        mode: Mode,
        from: &Sender,
        to: &Msisdn,
        at: jiff::Timestamp,
    ) -> Result<Disposition, StoreError> {
        let Sender::Number(number) = from else { return Ok(Disposition::Unusable) };
        let moved = self.store().mark_pending(mode, self.number_hash(number)?, to, at).await?;
        self.activity().marked_pending(&moved);
        Ok(if moved.is_empty() { Disposition::Unmatched } else { Disposition::Pending })
    }
}
