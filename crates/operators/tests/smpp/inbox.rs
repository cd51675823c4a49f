//! An inbox that records messages, and can fail or block.

use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use ringtrue_domain::reverse_sms::InboundSms;
use ringtrue_engine::ports::{Inbox, PartialSms, SmsOutcome, StoreError};
use tokio::sync::watch;

#[derive(Default)]
pub struct FakeInbox {
    received: Mutex<Vec<InboundSms>>,
    partials: Mutex<Vec<PartialSms>>,
    /// Number of deliveries, including failed ones.
    deliveries: watch::Sender<usize>,
    failures: Mutex<usize>,
    blocked: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl FakeInbox {
    pub fn fail_next(&self, times: usize) {
        *lock(&self.failures) = times;
    }

    pub fn set_blocked(&self, blocked: bool) {
        self.blocked.send_replace(blocked);
    }

    pub fn received(&self) -> Vec<InboundSms> {
        lock(&self.received).clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.received().into_iter().map(|sms| sms.text).collect()
    }

    pub fn partials(&self) -> Vec<PartialSms> {
        lock(&self.partials).clone()
    }

    pub async fn wait_for_deliveries(&self, count: usize) {
        self.deliveries.subscribe().wait_for(|deliveries| *deliveries >= count).await.unwrap();
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        self.deliveries.send_modify(|deliveries| *deliveries += 1);
        self.blocked.subscribe().wait_for(|blocked| !blocked).await.unwrap();
        let mut failures = lock(&self.failures);
        if *failures > 0 {
            *failures -= 1;
            return Err(StoreError::Unavailable("as told".to_owned()));
        }
        lock(&self.received).push(sms);
        Ok(SmsOutcome::Concluded)
    }

    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError> {
        lock(&self.partials).push(partial);
        Ok(())
    }
}
