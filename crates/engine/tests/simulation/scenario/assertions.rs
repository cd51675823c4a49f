//! Compares all stored checks and their callbacks with the model.

use ringtrue_domain::{
    lifecycle::{AnyVerdict, Lifecycle},
    reverse_sms::SenderMatch,
    silent::OperatorVerdict,
};
use ringtrue_engine::{
    Engine,
    ports::{callbacks::CallbackRecord, store::TenantLookup},
};

use super::Scenario;
use crate::{
    invariants::CallbackAssertion,
    model::{ModelCheck, ModelVerdict},
};

impl Scenario {
    pub(super) fn assert_invariants(&self) {
        let posts = self.receivers().posts();
        for model in &self.models {
            let id = model.id.to_string();
            let posts: Vec<_> = posts.iter().filter(|post| post.check == id).collect();
            let state = self.state_of(model);
            let record = self.record_of(model);
            let Some(end) = model.end else {
                assert!(matches!(state, Lifecycle::Open(_)), "{model:?} is concluded: {state:?}");
                assert!(record.is_none() && posts.is_empty(), "{model:?} is open and has a callback");
                continue;
            };
            assert_eq!(state, end.state, "{model:?}");
            assert_eq!(record.is_some(), model.has_callback, "{model:?}");
            if let Some(record) = &record {
                let process_run = self.receivers().process_run();
                CallbackAssertion { model, end, record, posts, process_run, leased_at: &self.leased_at }.assert_all();
            }
        }
    }

    pub(super) fn state_of(&self, model: &ModelCheck) -> Lifecycle<ModelVerdict> {
        let (project, ModelCheck { id, product, number, .. }) = (self.project.id, model);
        let find = async |engine: &Engine| engine.store().find_check(project, *product, *id).await;
        let convert = |verdict| match verdict {
            AnyVerdict::Sender(SenderMatch(matched)) | AnyVerdict::Device(OperatorVerdict::Match(matched)) => {
                ModelVerdict::Match(matched)
            }
            AnyVerdict::Device(OperatorVerdict::Number(found)) => {
                let found = self.process().run(async |engine| engine.checks.unseal_discovered_number(*id, &found));
                if found.as_ref() == Some(number) { ModelVerdict::OwnNumber } else { ModelVerdict::AnotherNumber }
            }
            AnyVerdict::Sim(_) | AnyVerdict::Verification(_) => panic!("no such checks are created"),
        };
        match self.process().run(find).unwrap() {
            TenantLookup::Found(check) => check.map(convert).state,
            other => panic!("{model:?}: {other:?}"),
        }
    }

    pub(super) fn record_of(&self, model: &ModelCheck) -> Option<CallbackRecord> {
        let (project, id) = (self.project.id, model.id);
        match self.process().run(async |engine| engine.store().find_callback(project, id).await).unwrap() {
            TenantLookup::Found(record) => Some(record),
            TenantLookup::NotFound => None,
            TenantLookup::OtherTenant => panic!("{model:?} belongs to another tenant"),
        }
    }
}
