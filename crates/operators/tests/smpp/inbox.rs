//! An inbox that remembers, fails and dawdles as it is told.

use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use ringtrue_domain::reverse_sms::InboundSms;
use ringtrue_engine::ports::{Disposition, Glimpse, Inbox, StoreError};
use tokio::sync::watch;

#[derive(Default)]
pub struct FakeInbox {
    received: Mutex<Vec<InboundSms>>,
    glimpses: Mutex<Vec<Glimpse>>,
    /// How many SMS have come to the door, those turned away included.
    arrivals: watch::Sender<usize>,
    failures: Mutex<usize>,
    shut: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl FakeInbox {
    /// The next so many SMS fail.
    pub fn fail(&self, times: usize) {
        *lock(&self.failures) = times;
    }

    /// Nothing is answered until it is opened.
    pub fn shut(&self, shut: bool) {
        self.shut.send_replace(shut);
    }

    pub fn received(&self) -> Vec<InboundSms> {
        lock(&self.received).clone()
    }

    pub fn texts(&self) -> Vec<String> {
        self.received().into_iter().map(|sms| sms.text).collect()
    }

    pub fn glimpses(&self) -> Vec<Glimpse> {
        lock(&self.glimpses).clone()
    }

    /// Waits until so many SMS have come to the door.
    pub async fn arrivals(&self, count: usize) {
        self.arrivals.subscribe().wait_for(|arrivals| *arrivals >= count).await.unwrap();
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        self.arrivals.send_modify(|arrivals| *arrivals += 1);
        self.shut.subscribe().wait_for(|shut| !shut).await.unwrap();
        let mut failures = lock(&self.failures);
        if *failures > 0 {
            *failures -= 1;
            return Err(StoreError::Unavailable("as told".to_owned()));
        }
        lock(&self.received).push(sms);
        Ok(Disposition::Concluded)
    }

    async fn glimpse(&self, glimpse: Glimpse) -> Result<(), StoreError> {
        lock(&self.glimpses).push(glimpse);
        Ok(())
    }
}
