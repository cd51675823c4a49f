use futures_util::future::join_all;
use ringtrue_domain::{
    audit::{Action, Actor},
    tenancy::{ClientId, Credential, CredentialOwner, ProjectId},
};
use ringtrue_engine::ports::{
    store::{ControlPlaneVersion, StoreError, TenantLookup},
    tenants::{CreateCredentialOutcome, CredentialLimits, DeleteCredentialOutcome, RotateCredentialOutcome},
};

use crate::{fixture::StoreFixture, sample};

pub async fn credential_is_visible_only_to_its_owner(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (shop, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let (bank, _) = sample::stored_project(store, acme.id, "Bank").await;
    let id = &credential.client_id;
    let mine = CredentialOwner::Project(acme.id, shop.id);
    assert_eq!(store.find_credential(mine, id).await.unwrap(), TenantLookup::Found(credential.clone()));
    for other_owner in [
        CredentialOwner::Project(acme.id, bank.id),
        CredentialOwner::Project(other.id, shop.id),
        CredentialOwner::Workspace(acme.id),
        CredentialOwner::Workspace(other.id),
    ] {
        assert_eq!(store.find_credential(other_owner, id).await.unwrap(), TenantLookup::OtherTenant, "{other_owner:?}");
    }
    assert_eq!(store.find_credential(mine, &sample::client_id()).await.unwrap(), TenantLookup::NotFound);

    let of_workspace = Credential { expires_at: None, ..sample::credential(CredentialOwner::Workspace(acme.id)) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&of_workspace, &event, None, sample::LIMITS).await.unwrap();
    let id = &of_workspace.client_id;
    assert_eq!(store.find_credential(mine, id).await.unwrap(), TenantLookup::OtherTenant);
    assert_eq!(store.find_credential(of_workspace.owner, id).await.unwrap(), TenantLookup::Found(of_workspace.clone()));
    assert_eq!(store.list_audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items, [event]);
}

pub async fn deleted_credential_is_not_found(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let (owner, id) = (credential.owner, &credential.client_id);
    let event = sample::event(acme.id, Action::CredentialDeleted);
    assert_eq!(
        store.delete_credential(owner, id, None, sample::now(), &event).await.unwrap(),
        TenantLookup::Found(DeleteCredentialOutcome::Deleted)
    );
    let newest = store.list_audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items;
    assert_eq!(newest, std::slice::from_ref(&event));

    assert_eq!(store.find_credential(owner, id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.find_credential(CredentialOwner::Workspace(acme.id), id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.delete_credential(owner, id, None, sample::now(), &event).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.list_credentials(owner, sample::first_100()).await.unwrap().total_items, 0);
}

pub async fn credential_is_deleted_only_by_its_owner(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (shop, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(other.id, Action::CredentialDeleted);
    for other_owner in [CredentialOwner::Project(other.id, shop.id), CredentialOwner::Workspace(acme.id)] {
        let result =
            store.delete_credential(other_owner, &credential.client_id, None, sample::now(), &event).await.unwrap();
        assert_eq!(result, TenantLookup::OtherTenant);
    }
    let missing = store.delete_credential(credential.owner, &sample::client_id(), None, sample::now(), &event).await;
    assert_eq!(missing.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.list_audit_events(other.id, sample::ANY, sample::first_100()).await.unwrap().total_items, 1);
    let found = store.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, TenantLookup::Found(credential));
}

pub async fn concurrent_deletions_of_a_credential_succeed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let (_, credential) = sample::stored_project(&*fixture.store, acme.id, "Shop").await;
    let before = fixture.store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items;
    let attempts = (0..8).map(|number| {
        let (store, credential) = (stores[number % 2].clone(), &credential);
        async move {
            let event = sample::event(acme.id, Action::CredentialDeleted);
            let result =
                store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await;
            result.unwrap()
        }
    });
    let results = join_all(attempts).await;
    assert_eq!(
        results.iter().filter(|&result| *result == TenantLookup::Found(DeleteCredentialOutcome::Deleted)).count(),
        1
    );
    assert_eq!(
        fixture.store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items,
        before + 1
    );
}

pub async fn credentials_are_listed_newest_first_by_owner(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (shop, first) = sample::stored_project(store, acme.id, "Shop").await;
    sample::stored_project(store, acme.id, "Bank").await;
    let owner = CredentialOwner::Project(acme.id, shop.id);
    let newer = Credential { created_at: sample::later(2), ..sample::credential(owner) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&newer, &event, None, sample::LIMITS).await.unwrap();

    let listed = store.list_credentials(owner, sample::first_100()).await.unwrap();
    assert_eq!((listed.items, listed.total_items), (vec![newer.clone(), first.clone()], 2));
    assert_eq!(store.list_credentials(owner, sample::page(1, 2)).await.unwrap().items, [first]);
    let of_workspace = store.list_credentials(CredentialOwner::Workspace(acme.id), sample::first_100()).await.unwrap();
    assert_eq!(of_workspace.total_items, 1);
}

pub async fn credential_of_a_missing_project_is_rejected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (shop, _) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(acme.id, Action::CredentialCreated);
    for owner in
        [CredentialOwner::Project(acme.id, ProjectId(sample::uuid())), CredentialOwner::Project(other.id, shop.id)]
    {
        let refused = store.create_credential(&sample::credential(owner), &event, None, sample::LIMITS).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }
}

pub async fn client_id_is_unique(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(acme.id, Action::CredentialCreated);
    let refused = store.create_credential(&credential, &event, None, sample::LIMITS).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    // After the failure, the store still works.
    let fresh = sample::credential(credential.owner);
    store.create_credential(&fresh, &event, None, sample::LIMITS).await.unwrap();
}

pub async fn live_credentials_per_owner_are_limited(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let (_, first) = sample::stored_project(&*fixture.store, acme.id, "Shop").await;
    let limits = CredentialLimits { max_live: 4, ..sample::LIMITS };
    let create = async |number: usize| {
        let event = sample::event(acme.id, Action::CredentialCreated);
        let credential = sample::credential(first.owner);
        stores[number % 2].create_credential(&credential, &event, None, limits).await.unwrap()
    };
    let written = join_all((0..12).map(create)).await;
    assert_eq!(
        written.iter().filter(|written| **written == CreateCredentialOutcome::Created).count(),
        3,
        "{written:?}"
    );
    let listed = fixture.store.list_credentials(first.owner, sample::first_100()).await.unwrap();
    assert_eq!(listed.total_items, 4);

    // Credentials that are deleted or expired, or belong to the workspace, do not count towards the project's limit.
    let event = || sample::event(acme.id, Action::CredentialDeleted);
    fixture.store.delete_credential(first.owner, &first.client_id, None, sample::now(), &event()).await.unwrap();
    assert_eq!(create(0).await, CreateCredentialOutcome::Created);
    assert_eq!(create(0).await, CreateCredentialOutcome::LimitReached);
    let later = Credential { created_at: sample::later(3600), ..sample::credential(first.owner) };
    let later = Credential { expires_at: None, ..later };
    for credential in [later, sample::credential(CredentialOwner::Workspace(acme.id))] {
        let written = fixture.store.create_credential(&credential, &event(), None, limits).await.unwrap();
        assert_eq!(written, CreateCredentialOutcome::Created);
    }
}

pub async fn only_newest_dead_credentials_are_kept(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (_, others) = sample::stored_project(store, other.id, "Shop").await;
    let owner = CredentialOwner::Workspace(acme.id);
    // Three dead credentials are kept: two of those below, and the workspace's first one, which expires after an hour.
    let limits = CredentialLimits { max_dead: 3, ..sample::LIMITS };
    let create = async |credential: &Credential| {
        let event = sample::event(acme.id, Action::CredentialCreated);
        store.create_credential(credential, &event, None, limits).await.unwrap();
    };
    let mut created = vec![];
    for number in 0..5 {
        let credential = Credential { expires_at: Some(sample::later(60 + number)), ..sample::credential(owner) };
        create(&credential).await;
        created.push(credential.client_id);
    }
    for (at, kept) in [(3600, 5), (7200, 2)] {
        let credential = Credential { created_at: sample::later(at), expires_at: None, ..sample::credential(owner) };
        create(&credential).await;
        let known = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().credentials;
        let is_known = |id: &&ClientId| known.iter().any(|credential| credential.client_id == **id);
        assert_eq!(created.iter().filter(is_known).count(), kept, "after {at} seconds");
    }
    assert_eq!(store.find_credential(owner, &created[4]).await.unwrap().map(drop), TenantLookup::Found(()));
    assert_eq!(store.find_credential(others.owner, &others.client_id).await.unwrap(), TenantLookup::Found(others));
}

pub async fn last_live_credential_of_a_workspace_is_not_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let owner = CredentialOwner::Workspace(acme.id);
    let [first] = &store.list_credentials(owner, sample::first_100()).await.unwrap().items[..] else { panic!() };
    let delete = async |credential: &Credential, at| {
        let event = sample::event(acme.id, Action::CredentialDeleted);
        store.delete_credential(owner, &credential.client_id, None, at, &event).await.unwrap()
    };
    let last = TenantLookup::Found(DeleteCredentialOutcome::LastOfWorkspace);
    let deleted = TenantLookup::Found(DeleteCredentialOutcome::Deleted);
    let before = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items;
    assert_eq!(delete(first, sample::now()).await, last);
    let events = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().total_items;
    assert_eq!(events, before, "nothing is written");

    // A credential that is about to retire does not count as live, but its successor does.
    let new = Credential { expires_at: None, ..sample::credential(owner) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.rotate_credential(first, &new, sample::later(100), &event, sample::LIMITS).await.unwrap();
    assert_eq!(delete(&new, sample::later(10)).await, last);
    assert_eq!(delete(first, sample::later(10)).await, deleted);

    // An expired credential does not count as live either, and can be deleted.
    let expired = Credential { expires_at: Some(sample::later(20)), ..sample::credential(owner) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&expired, &event, None, sample::LIMITS).await.unwrap();
    assert_eq!(delete(&new, sample::later(20)).await, last);
    assert_eq!(delete(&expired, sample::later(20)).await, deleted);
}

pub async fn concurrent_deletions_leave_a_workspace_credential(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let owner = CredentialOwner::Workspace(acme.id);
    for _ in 0..7 {
        let event = sample::event(acme.id, Action::CredentialCreated);
        let credential = Credential { expires_at: None, ..sample::credential(owner) };
        fixture.store.create_credential(&credential, &event, None, sample::LIMITS).await.unwrap();
    }
    let all = fixture.store.list_credentials(owner, sample::first_100()).await.unwrap().items;
    let deletions = all.iter().zip(stores.iter().cycle()).map(|(credential, store)| async move {
        let event = sample::event(acme.id, Action::CredentialDeleted);
        store.delete_credential(owner, &credential.client_id, None, sample::now(), &event).await.unwrap()
    });
    let results = join_all(deletions).await;
    let last = TenantLookup::Found(DeleteCredentialOutcome::LastOfWorkspace);
    assert_eq!(results.iter().filter(|&result| *result == last).count(), 1);
    assert_eq!(fixture.store.list_credentials(owner, sample::first_100()).await.unwrap().total_items, 1);
}

pub async fn stale_credential_is_not_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (_, read) = sample::stored_project(store, acme.id, "Shop").await;
    let version = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    let recorded = [(sample::client_id(), sample::later(60)), (read.client_id.clone(), sample::later(60))];
    store.record_credential_uses(&recorded).await.unwrap();
    store.record_credential_uses(&[(read.client_id.clone(), sample::now())]).await.unwrap();
    let used = Credential { last_used_at: Some(sample::later(60)), ..read.clone() };
    assert_eq!(store.find_credential(read.owner, &read.client_id).await.unwrap(), TenantLookup::Found(used));
    assert_eq!(
        store.changes_since(version, sample::now()).await.unwrap().version,
        version,
        "a use is not a control-plane change"
    );

    let event = sample::event(acme.id, Action::CredentialDeleted);
    let other = Credential { created_at: sample::later(1), ..read.clone() };
    // A use of the credential since the read does not make the expected state stale.
    for (expected, outcome) in [(&other, DeleteCredentialOutcome::Stale), (&read, DeleteCredentialOutcome::Deleted)] {
        let deleted = store.delete_credential(read.owner, &read.client_id, Some(expected), sample::now(), &event).await;
        assert_eq!(deleted.unwrap(), TenantLookup::Found(outcome));
    }
}

pub async fn replaced_credential_retires(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (_, old) = sample::stored_project(store, acme.id, "Shop").await;
    let version = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    store.record_credential_uses(&[(old.client_id.clone(), sample::later(60))]).await.unwrap();
    let event = || sample::event(acme.id, Action::CredentialCreated);
    let rotate = async |old: &Credential, limits| {
        let new = Credential { created_by: Actor::Operator, label: None, ..sample::credential(old.owner) };
        let outcome = store.rotate_credential(old, &new, sample::later(100), &event(), limits).await.unwrap();
        (new, outcome)
    };
    let stale = Credential { created_at: sample::later(1), ..old.clone() };
    assert_eq!(rotate(&stale, sample::LIMITS).await.1, RotateCredentialOutcome::Stale);
    let full = CredentialLimits { max_live: 1, ..sample::LIMITS };
    assert_eq!(rotate(&old, full).await.1, RotateCredentialOutcome::LimitReached);
    let unchanged = store.changes_since(version, sample::now()).await.unwrap();
    assert_eq!((unchanged.version, unchanged.credentials), (version, vec![]));

    let (new, outcome) = rotate(&old, sample::LIMITS).await;
    assert_eq!(outcome, RotateCredentialOutcome::Rotated);
    let retiring =
        Credential { retires_at: Some(sample::later(100)), last_used_at: Some(sample::later(60)), ..old.clone() };
    assert_eq!(store.find_credential(old.owner, &new.client_id).await.unwrap(), TenantLookup::Found(new.clone()));
    assert_eq!(store.find_credential(old.owner, &old.client_id).await.unwrap(), TenantLookup::Found(retiring));
    let changed = store.changes_since(version, sample::now()).await.unwrap().credentials;
    assert_eq!(changed.len(), 2, "other nodes learn of both");
    // `old` was read before the first rotation.
    assert_eq!(rotate(&old, sample::LIMITS).await.1, RotateCredentialOutcome::Stale);

    // The old credential does not count as live after it has retired.
    let later = Credential { created_at: sample::later(100), ..sample::credential(old.owner) };
    let limits = CredentialLimits { max_live: 2, ..sample::LIMITS };
    let created = store.create_credential(&later, &event(), None, limits).await.unwrap();
    assert_eq!(created, CreateCredentialOutcome::Created);
}
