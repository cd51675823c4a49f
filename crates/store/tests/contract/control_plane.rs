use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};

use futures_util::{
    FutureExt, StreamExt,
    future::{join, join_all},
    stream,
};
use ringtrue_domain::{
    audit::Action,
    tenancy::{ClientId, Credential, CredentialOwner, Project, ProjectId, Workspace, WorkspaceId},
};
use ringtrue_engine::ports::{
    combined::Store,
    control_plane::ControlPlaneChanges,
    keys::{KeyPurpose, SealedKey},
    store::ControlPlaneVersion,
    tokens::{Revocation, TokenId},
};

use crate::{fixture::StoreFixture, sample};

pub async fn an_idle_store_has_no_changes(fixture: &StoreFixture) {
    let changes = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, ControlPlaneVersion(0));
    assert!(changes.is_full_snapshot && changes.workspaces.is_empty());
    assert_eq!(changes.keys, Some(vec![]));

    sample::stored_workspace(&*fixture.store).await;
    let version = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    let changes = fixture.store.changes_since(version, sample::now()).await.unwrap();
    assert_eq!(changes.version, version);
    assert!(!changes.is_full_snapshot);
    assert!(changes.workspaces.is_empty() && changes.credentials.is_empty() && changes.keys.is_none());
}

pub async fn changes_since_zero_are_a_full_snapshot(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let key = sample::key(KeyPurpose::Token);
    assert!(store.add_first_key(&key, &sample::event(None, Action::KeyCreated)).await.unwrap());
    let revocation = sample::revocation();
    store.revoke_token(revocation).await.unwrap();
    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::later(9), &event).await.unwrap();

    let changes = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, ControlPlaneVersion(5));
    assert!(changes.is_full_snapshot);
    assert_eq!(changes.workspaces, [acme]);
    assert_eq!(changes.projects, [project]);
    assert_eq!(changes.keys, Some(vec![key]));
    assert_eq!(changes.revocations, [revocation]);
    let deleted = Credential { deleted_at: Some(sample::later(9)), ..credential };
    assert!(changes.credentials.len() == 2 && changes.credentials.contains(&deleted), "{:?}", changes.credentials);
}

pub async fn changes_contain_only_changed_rows(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, credential) = sample::stored_project(store, acme.id, "Shop").await;
    store.add_first_key(&sample::key(KeyPurpose::Seal), &sample::event(None, Action::KeyCreated)).await.unwrap();
    let since = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;

    let disabled = Project { disabled: true, revision: project.revision.next(), ..project };
    store.update_project(&disabled, None, None, &[sample::event(acme.id, Action::ProjectUpdated)]).await.unwrap();
    let changes = store.changes_since(since, sample::now()).await.unwrap();
    assert_eq!(changes.projects, [disabled]);
    assert!(!changes.is_full_snapshot);
    assert!(changes.workspaces.is_empty() && changes.credentials.is_empty() && changes.keys.is_none());

    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();
    let changes = store.changes_since(changes.version, sample::now()).await.unwrap();
    assert_eq!(changes.credentials, [Credential { deleted_at: Some(sample::now()), ..credential }]);
    assert!(changes.projects.is_empty());
}

/// Running nodes may have a newer state than a database that was restored from a backup, so changes alone do not
/// suffice.
pub async fn older_database_returns_a_full_snapshot(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    let known = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;

    let ahead = ControlPlaneVersion(known.0 + 7);
    let changes = store.changes_since(ahead, sample::now()).await.unwrap();
    assert!(changes.is_full_snapshot);
    assert_eq!(changes.version, known);
    assert_eq!((changes.workspaces, changes.projects), (vec![acme], vec![project]));
    assert_eq!((changes.credentials.len(), changes.keys), (2, Some(vec![])));
}

pub async fn empty_database_returns_a_full_snapshot(fixture: &StoreFixture) {
    let changes = fixture.store.changes_since(ControlPlaneVersion(7), sample::now()).await.unwrap();
    assert!(changes.is_full_snapshot && changes.workspaces.is_empty() && changes.credentials.is_empty());
    assert_eq!((changes.version, changes.keys), (ControlPlaneVersion(0), Some(vec![])));
}

pub async fn expired_revocation_is_not_a_change(fixture: &StoreFixture) {
    let store = &*fixture.store;
    sample::stored_workspace(store).await;
    let (short, long) = (sample::revocation(), Revocation { expires_at: sample::later(7200), ..sample::revocation() });
    for revocation in [short, long] {
        store.revoke_token(revocation).await.unwrap();
    }
    for known in [ControlPlaneVersion(0), ControlPlaneVersion(1)] {
        let revocations = async |at| store.changes_since(known, at).await.unwrap().revocations;
        assert_eq!(revocations(sample::later(3599)).await, [short, long], "since {known:?}");
        assert_eq!(revocations(sample::later(3600)).await, [long], "since {known:?}");
        assert_eq!(revocations(sample::later(7200)).await, [], "since {known:?}");
    }
}

pub async fn deleted_credential_remains_in_changes(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let known = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    let event = sample::event(acme.id, Action::CredentialDeleted);
    store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();

    let year = 365 * 24 * 60 * 60;
    store.delete_expired(sample::later(year)).await.unwrap();
    for since in [ControlPlaneVersion(0), known] {
        let credentials = store.changes_since(since, sample::later(year)).await.unwrap().credentials;
        let is_contained =
            credentials.iter().any(|one| one.client_id == credential.client_id && one.deleted_at.is_some());
        assert!(is_contained, "since {since:?}");
    }
}

pub async fn rolled_back_change_keeps_the_version(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    sample::stored_project(store, acme.id, "Shop").await;
    let before = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    let twin = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, twin.id));
    store.create_project(&twin, &credential, &[], None, 1_000).await.unwrap();
    let name = "Nobody".parse().unwrap();
    let event = sample::event(acme.id, Action::WorkspaceUpdated);
    store.rename_workspace(WorkspaceId(sample::uuid()), &name, None, sample::now(), &event).await.unwrap();
    assert_eq!(store.changes_since(before, sample::now()).await.unwrap().version, before);
}

pub async fn change_triggers_the_notification(fixture: &StoreFixture) {
    let notification = fixture.store.change_notification();
    let notified = |what: &'static str| {
        let notification = notification.clone();
        async move { tokio::time::timeout(Duration::from_secs(10), notification.notified()).await.expect(what) }
    };
    if matches!(fixture.database, crate::fixture::Database::Postgres { .. }) {
        notified("initial notification").await;
    }
    sample::stored_workspace(&*fixture.store).await;
    notified("change").await;
    fixture.store.revoke_token(sample::revocation()).await.unwrap();
    notified("revocation").await;
}

/// Writers on two nodes change all kinds of rows, while a reader keeps its copy up to date by polling.
pub async fn polling_reader_misses_no_change(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let writing = AtomicBool::new(true);

    let writers = (0..12).map(|number: usize| {
        let store = stores[number % 2].clone();
        async move { write_rows(&*store, &acme.id, number).await }
    });
    let reader = async {
        let mut copy = Copy::default();
        while writing.load(Ordering::SeqCst) {
            copy.apply(fixture.store.changes_since(copy.version, sample::now()).await.unwrap());
        }
        copy.apply(fixture.store.changes_since(copy.version, sample::now()).await.unwrap());
        copy
    };
    let all_writers = async {
        join_all(writers).await;
        writing.store(false, Ordering::SeqCst);
    };
    let ((), copy) = join(all_writers, reader).await;

    let mut snapshot = Copy::default();
    snapshot.apply(fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap());
    assert_eq!(copy, snapshot);
    assert_eq!((snapshot.projects.len(), snapshot.revocations.len()), (12 * 3, 12 * 12));
    assert!(snapshot.workspaces.len() == 1 && snapshot.keys.len() == 1);
}

async fn write_rows(store: &dyn Store, acme: &WorkspaceId, number: usize) {
    let acme = *acme;
    let key = sample::key(KeyPurpose::Callback);
    store.add_first_key(&key, &sample::event(None, Action::KeyCreated)).await.unwrap();
    for round in 0..3 {
        let (project, credential) = sample::stored_project(store, acme, &format!("{number} {round}")).await;
        let changed = Project { disabled: true, revision: project.revision.next(), ..project };
        store.update_project(&changed, None, None, &[sample::event(acme, Action::ProjectUpdated)]).await.unwrap();
        for result in join_all((0..4).map(|_| store.revoke_token(sample::revocation()))).await {
            result.unwrap();
        }
        let event = sample::event(acme, Action::CredentialDeleted);
        store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await.unwrap();
        let name = format!("Acme {number}").parse().unwrap();
        let event = sample::event(acme, Action::WorkspaceUpdated);
        store.rename_workspace(acme, &name, None, sample::now(), &event).await.unwrap();
    }
}

/// A copy of the control plane, as a node has it in memory.
#[derive(Debug, Default, PartialEq)]
struct Copy {
    version: ControlPlaneVersion,
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    projects: BTreeMap<ProjectId, Project>,
    credentials: BTreeMap<ClientId, Credential>,
    keys: Vec<SealedKey>,
    revocations: BTreeMap<TokenId, Revocation>,
}

impl Copy {
    fn apply(&mut self, changes: ControlPlaneChanges) {
        assert!(changes.version >= self.version, "versions never decrease");
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

pub async fn revocation_is_idempotent(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let revocation = sample::revocation();
    store.revoke_token(revocation).await.unwrap();
    store.revoke_token(revocation).await.unwrap();
    assert_eq!(store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations, [revocation]);

    // Revokes the same token several times in one batch.
    let revocation = sample::revocation();
    for result in join_all((0..20).map(|_| store.revoke_token(revocation))).await {
        result.unwrap();
    }
    assert_eq!(store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations.len(), 2);
}

pub async fn concurrent_revocations_are_stored(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let revocations: Vec<_> = (0..500).map(|_| sample::revocation()).collect();
    let revoked =
        revocations.iter().zip(stores.iter().cycle()).map(|(&revocation, store)| store.revoke_token(revocation));
    // Only some calls run at a time, so that none waits too long for a connection.
    stream::iter(revoked).buffer_unordered(16).for_each(async |result| result.unwrap()).await;
    let changes = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    let tokens = |revocations: &[ringtrue_engine::ports::tokens::Revocation]| {
        revocations.iter().map(|revocation| revocation.token).collect::<BTreeSet<_>>()
    };
    assert_eq!(tokens(&changes.revocations), tokens(&revocations));
}

pub async fn cancelled_caller_does_not_affect_others(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for _ in 0..20 {
        let kept: Vec<_> = (0..10).map(|_| sample::revocation()).collect();
        let dropped: Vec<_> = (0..10).map(|_| sample::revocation()).collect();
        let mut awaited = join_all(kept.iter().map(|&revocation| store.revoke_token(revocation)));
        {
            // These calls are polled once, and then dropped.
            let mut cancelled = join_all(dropped.iter().map(|&revocation| store.revoke_token(revocation)));
            poll_fn(|context| {
                drop(cancelled.poll_unpin(context));
                drop(awaited.poll_unpin(context));
                Poll::Ready(())
            })
            .await;
        }
        let known = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
        assert!(known >= ControlPlaneVersion(0));
        for result in awaited.await {
            result.unwrap();
        }
        let stored = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations;
        assert!(kept.iter().all(|revocation| stored.contains(revocation)));
    }
}
