//! Looking at everything there is.

use ringtrue_domain::{
    lifecycle::{AnyVerdict, Lifecycle},
    reverse_sms::SenderMatch,
    silent::Proof,
};
use ringtrue_engine::{
    Engine,
    ports::{CallbackRecord, Found},
};

use super::Play;
use crate::{
    invariants::Witness,
    ledger::{Said, Subject},
};

impl Play {
    /// Everything that must hold.
    pub(super) fn look(&self) {
        let posts = self.receivers().posts();
        for subject in &self.subjects {
            let id = subject.id.to_string();
            let posts: Vec<_> = posts.iter().filter(|post| post.check == id).collect();
            let state = self.state_of(subject);
            let record = self.record_of(subject);
            let Some(end) = subject.end else {
                assert!(matches!(state, Lifecycle::Open(_)), "{subject:?} has ended: {state:?}");
                assert!(record.is_none() && posts.is_empty(), "{subject:?} is open, and has a callback");
                continue;
            };
            assert_eq!(state, end.state, "{subject:?}");
            assert_eq!(record.is_some(), subject.has_callback, "{subject:?}");
            if let Some(record) = &record {
                let life = self.receivers().life();
                Witness { subject, end, record, posts, life, leased_at: &self.leased_at }.testify();
            }
        }
    }

    pub(super) fn state_of(&self, subject: &Subject) -> Lifecycle<Said> {
        let (project, Subject { id, product, number, .. }) = (self.project.id, subject);
        let find = async |engine: &Engine| engine.store().find_check(project, *product, *id).await;
        let say = |verdict| match verdict {
            AnyVerdict::Sender(SenderMatch(matched)) | AnyVerdict::Device(Proof::Match(matched)) => {
                Said::Match(matched)
            }
            AnyVerdict::Device(Proof::Number(found)) => {
                let found = self.process().run(async |engine| engine.open_number(*id, &found));
                if found.as_ref() == Some(number) { Said::TheNumber } else { Said::AnotherNumber }
            }
            AnyVerdict::Sim(_) => panic!("nobody asks about SIM cards"),
        };
        match self.process().run(find).unwrap() {
            Found::Mine(check) => check.map(say).state,
            other => panic!("{subject:?}: {other:?}"),
        }
    }

    pub(super) fn record_of(&self, subject: &Subject) -> Option<CallbackRecord> {
        let (project, id) = (self.project.id, subject.id);
        match self.process().run(async |engine| engine.store().callback(project, id).await).unwrap() {
            Found::Mine(record) => Some(record),
            Found::Nothing => None,
            Found::SomeoneElses => panic!("{subject:?} belongs to someone else"),
        }
    }
}
