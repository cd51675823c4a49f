use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::{join, join_all};
use ringtrue_domain::{
    audit::Action,
    tenancy::{ClientId, Credential, CredentialOwner, Project, ProjectId, Workspace, WorkspaceId},
};
use ringtrue_engine::ports::{Changes, KeyPurpose, Revocation, SealedKey, Store, TokenId, Version};

use crate::{bench::Bench, sample};

pub async fn an_idle_store_has_no_changes(bench: &Bench) {
    let changes = bench.store.changes_since(Version(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, Version(0));
    assert!(changes.is_everything && changes.workspaces.is_empty());
    assert_eq!(changes.keys, Some(vec![]));

    sample::stored_workspace(&*bench.store).await;
    let version = bench.store.changes_since(Version(0), sample::now()).await.unwrap().version;
    let changes = bench.store.changes_since(version, sample::now()).await.unwrap();
    assert_eq!(changes.version, version);
    assert!(!changes.is_everything);
    assert!(changes.workspaces.is_empty() && changes.credentials.is_empty() && changes.keys.is_none());
}

pub async fn everything_is_a_change_since_nothing(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (project, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let key = sample::key(KeyPurpose::Token);
    assert!(store.add_first_key(&key, &sample::event(None, Action::KeyCreated)).await.unwrap());
    let revocation = sample::revocation();
    store.revoke(revocation).await.unwrap();
    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::later(9), &event).await.unwrap();

    let changes = store.changes_since(Version(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, Version(5));
    assert!(changes.is_everything);
    assert_eq!(changes.workspaces, [acme]);
    assert_eq!(changes.projects, [project]);
    assert_eq!(changes.keys, Some(vec![key]));
    assert_eq!(changes.revocations, [revocation]);
    let deleted = Credential { deleted_at: Some(sample::later(9)), ..credential };
    assert!(changes.credentials.len() == 2 && changes.credentials.contains(&deleted), "{:?}", changes.credentials);
}

pub async fn only_what_changed_is_a_change(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (project, credential) = sample::stored_project(store, acme.id, "Shop").await;
    store.add_first_key(&sample::key(KeyPurpose::Seal), &sample::event(None, Action::KeyCreated)).await.unwrap();
    let since = store.changes_since(Version(0), sample::now()).await.unwrap().version;

    let disabled = Project { disabled: true, revision: project.revision.next(), ..project };
    store.update_project(&disabled, None, &[sample::event(acme.id, Action::ProjectUpdated)]).await.unwrap();
    let changes = store.changes_since(since, sample::now()).await.unwrap();
    assert_eq!(changes.projects, [disabled]);
    assert!(!changes.is_everything);
    assert!(changes.workspaces.is_empty() && changes.credentials.is_empty() && changes.keys.is_none());

    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();
    let changes = store.changes_since(changes.version, sample::now()).await.unwrap();
    assert_eq!(changes.credentials, [Credential { deleted_at: Some(sample::now()), ..credential }]);
    assert!(changes.projects.is_empty());
}

/// A database that was restored from a backup knows less than the nodes that go on running.
pub async fn a_database_that_went_back_tells_everything(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    let known = store.changes_since(Version(0), sample::now()).await.unwrap().version;

    let ahead = Version(known.0 + 7);
    let changes = store.changes_since(ahead, sample::now()).await.unwrap();
    assert!(changes.is_everything);
    assert_eq!(changes.version, known);
    assert_eq!((changes.workspaces, changes.projects), (vec![acme], vec![project]));
    assert_eq!((changes.credentials.len(), changes.keys), (2, Some(vec![])));
}

pub async fn an_empty_database_in_place_of_another_tells_so(bench: &Bench) {
    let changes = bench.store.changes_since(Version(7), sample::now()).await.unwrap();
    assert!(changes.is_everything && changes.workspaces.is_empty() && changes.credentials.is_empty());
    assert_eq!((changes.version, changes.keys), (Version(0), Some(vec![])));
}

pub async fn a_revocation_that_is_over_is_not_told(bench: &Bench) {
    let store = &*bench.store;
    sample::stored_workspace(store).await;
    let (short, long) = (sample::revocation(), Revocation { expires_at: sample::later(7200), ..sample::revocation() });
    for revocation in [short, long] {
        store.revoke(revocation).await.unwrap();
    }
    for known in [Version(0), Version(1)] {
        let told = async |at| store.changes_since(known, at).await.unwrap().revocations;
        assert_eq!(told(sample::later(3599)).await, [short, long], "since {known:?}");
        assert_eq!(told(sample::later(3600)).await, [long], "since {known:?}");
        assert_eq!(told(sample::later(7200)).await, [], "since {known:?}");
    }
}

pub async fn a_credential_that_was_deleted_long_ago_is_still_told(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let known = store.changes_since(Version(0), sample::now()).await.unwrap().version;
    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();

    let year = 365 * 24 * 60 * 60;
    store.forget_expired(sample::later(year)).await.unwrap();
    for since in [Version(0), known] {
        let told = store.changes_since(since, sample::later(year)).await.unwrap().credentials;
        let is_told = told.iter().any(|one| one.client_id == credential.client_id && one.deleted_at.is_some());
        assert!(is_told, "since {since:?}");
    }
}

pub async fn a_refused_change_is_no_change(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    sample::stored_project(store, acme.id, "Shop").await;
    let before = store.changes_since(Version(0), sample::now()).await.unwrap().version;
    let twin = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, twin.id));
    store.create_project(&twin, &credential, &[], None, 1_000).await.unwrap();
    let name = "Nobody".parse().unwrap();
    let event = sample::event(acme.id, Action::WorkspaceUpdated);
    store.rename_workspace(WorkspaceId(sample::uuid()), &name, None, sample::now(), &event).await.unwrap();
    assert_eq!(store.changes_since(before, sample::now()).await.unwrap().version, before);
}

pub async fn a_change_is_hinted_at(bench: &Bench) {
    let hint = bench.store.change_hint();
    let heard = |what: &'static str| {
        let hint = hint.clone();
        async move { tokio::time::timeout(Duration::from_secs(10), hint.notified()).await.expect(what) }
    };
    if matches!(bench.database, crate::bench::Database::Postgres { .. }) {
        heard("the connection that listens is up").await;
    }
    sample::stored_workspace(&*bench.store).await;
    heard("a change").await;
    bench.store.revoke(sample::revocation()).await.unwrap();
    heard("a revocation").await;
}

/// Writers of every kind, on two nodes, while a reader keeps a copy by its polls alone.
pub async fn a_reader_that_polls_misses_nothing(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let acme = sample::stored_workspace(&*bench.store).await;
    let writing = AtomicBool::new(true);

    let writers = (0..12).map(|number: usize| {
        let store = stores[number % 2].clone();
        async move { write_a_lot(&*store, &acme.id, number).await }
    });
    let reader = async {
        let mut copy = Copy::default();
        while writing.load(Ordering::SeqCst) {
            copy.apply(bench.store.changes_since(copy.version, sample::now()).await.unwrap());
        }
        copy.apply(bench.store.changes_since(copy.version, sample::now()).await.unwrap());
        copy
    };
    let everybody = async {
        join_all(writers).await;
        writing.store(false, Ordering::SeqCst);
    };
    let ((), copy) = join(everybody, reader).await;

    let mut whole = Copy::default();
    whole.apply(bench.store.changes_since(Version(0), sample::now()).await.unwrap());
    assert_eq!(copy, whole);
    assert_eq!((whole.projects.len(), whole.revocations.len()), (12 * 3, 12 * 12));
    assert!(whole.workspaces.len() == 1 && whole.keys.len() == 1);
}

async fn write_a_lot(store: &dyn Store, acme: &WorkspaceId, number: usize) {
    let acme = *acme;
    let key = sample::key(KeyPurpose::Callback);
    store.add_first_key(&key, &sample::event(None, Action::KeyCreated)).await.unwrap();
    for round in 0..3 {
        let (project, credential) = sample::stored_project(store, acme, &format!("{number} {round}")).await;
        let changed = Project { disabled: true, revision: project.revision.next(), ..project };
        store.update_project(&changed, None, &[sample::event(acme, Action::ProjectUpdated)]).await.unwrap();
        for answer in join_all((0..4).map(|_| store.revoke(sample::revocation()))).await {
            answer.unwrap();
        }
        let event = sample::event(acme, Action::CredentialDeleted);
        store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();
        let name = format!("Acme {number}").parse().unwrap();
        let event = sample::event(acme, Action::WorkspaceUpdated);
        store.rename_workspace(acme, &name, None, sample::now(), &event).await.unwrap();
    }
}

/// What a node keeps in memory.
#[derive(Debug, Default, PartialEq)]
struct Copy {
    version: Version,
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    projects: BTreeMap<ProjectId, Project>,
    credentials: BTreeMap<ClientId, Credential>,
    keys: Vec<SealedKey>,
    revocations: BTreeMap<TokenId, Revocation>,
}

impl Copy {
    fn apply(&mut self, changes: Changes) {
        assert!(changes.version >= self.version, "versions do not go back");
        self.version = changes.version;
        self.workspaces.extend(changes.workspaces.into_iter().map(|it| (it.id, it)));
        self.projects.extend(changes.projects.into_iter().map(|it| (it.id, it)));
        self.credentials.extend(changes.credentials.into_iter().map(|it| (it.client_id.clone(), it)));
        self.revocations.extend(changes.revocations.into_iter().map(|it| (it.token, it)));
        if let Some(keys) = changes.keys {
            self.keys = keys;
        }
    }
}
