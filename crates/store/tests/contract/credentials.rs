use futures_util::future::join_all;
use ringtrue_domain::{
    audit::Action,
    tenancy::{ClientId, Credential, CredentialOwner, ProjectId},
};
use ringtrue_engine::ports::{CredentialDeleted, CredentialLimits, CredentialWritten, Found, StoreError, Version};

use crate::{bench::Bench, sample};

pub async fn a_credential_is_found_by_its_owner_alone(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (shop, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let (bank, _) = sample::stored_project(store, acme.id, "Bank").await;
    let id = &credential.client_id;
    let mine = CredentialOwner::Project(acme.id, shop.id);
    assert_eq!(store.find_credential(mine, id).await.unwrap(), Found::Mine(credential.clone()));
    for stranger in [
        CredentialOwner::Project(acme.id, bank.id),
        CredentialOwner::Project(other.id, shop.id),
        CredentialOwner::Workspace(acme.id),
        CredentialOwner::Workspace(other.id),
    ] {
        assert_eq!(store.find_credential(stranger, id).await.unwrap(), Found::SomeoneElses, "{stranger:?}");
    }
    assert_eq!(store.find_credential(mine, &sample::client_id()).await.unwrap(), Found::Nothing);

    let of_workspace = Credential { expires_at: None, ..sample::credential(CredentialOwner::Workspace(acme.id)) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&of_workspace, &event, None, sample::LIMITS).await.unwrap();
    let id = &of_workspace.client_id;
    assert_eq!(store.find_credential(mine, id).await.unwrap(), Found::SomeoneElses);
    assert_eq!(store.find_credential(of_workspace.owner, id).await.unwrap(), Found::Mine(of_workspace.clone()));
    assert_eq!(store.audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items, [event]);
}

pub async fn a_deleted_credential_is_nothing(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let (owner, id) = (credential.owner, &credential.client_id);
    let event = sample::event(acme.id, Action::CredentialDeleted);
    assert_eq!(
        store.delete_credential(owner, id, None, sample::now(), &event).await.unwrap(),
        Found::Mine(CredentialDeleted::Done)
    );
    let newest = store.audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items;
    assert_eq!(newest, std::slice::from_ref(&event));

    assert_eq!(store.find_credential(owner, id).await.unwrap(), Found::Nothing);
    assert_eq!(store.find_credential(CredentialOwner::Workspace(acme.id), id).await.unwrap(), Found::Nothing);
    assert_eq!(store.delete_credential(owner, id, None, sample::now(), &event).await.unwrap(), Found::Nothing);
    assert_eq!(store.list_credentials(owner, sample::whole()).await.unwrap().total_items, 0);
}

pub async fn only_the_owner_deletes_a_credential(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (shop, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(other.id, Action::CredentialDeleted);
    for stranger in [CredentialOwner::Project(other.id, shop.id), CredentialOwner::Workspace(acme.id)] {
        let answer =
            store.delete_credential(stranger, &credential.client_id, None, sample::now(), &event).await.unwrap();
        assert_eq!(answer, Found::SomeoneElses);
    }
    let nobodys = store.delete_credential(credential.owner, &sample::client_id(), None, sample::now(), &event).await;
    assert_eq!(nobodys.unwrap(), Found::Nothing);
    assert_eq!(store.audit_events(other.id, sample::ANY, sample::whole()).await.unwrap().total_items, 1);
    let found = store.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, Found::Mine(credential));
}

pub async fn of_many_who_delete_a_credential_one_does(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let acme = sample::stored_workspace(&*bench.store).await;
    let (_, credential) = sample::stored_project(&*bench.store, acme.id, "Shop").await;
    let before = bench.store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap().total_items;
    let attempts = (0..8).map(|number| {
        let (store, credential) = (stores[number % 2].clone(), &credential);
        async move {
            let event = sample::event(acme.id, Action::CredentialDeleted);
            let answer =
                store.delete_credential(credential.owner, &credential.client_id, None, sample::now(), &event).await;
            answer.unwrap()
        }
    });
    let answers = join_all(attempts).await;
    assert_eq!(answers.iter().filter(|&answer| *answer == Found::Mine(CredentialDeleted::Done)).count(), 1);
    assert_eq!(bench.store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap().total_items, before + 1);
}

pub async fn credentials_are_listed_newest_first_by_owner(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (shop, first) = sample::stored_project(store, acme.id, "Shop").await;
    sample::stored_project(store, acme.id, "Bank").await;
    let owner = CredentialOwner::Project(acme.id, shop.id);
    let newer = Credential { created_at: sample::later(2), ..sample::credential(owner) };
    let event = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&newer, &event, None, sample::LIMITS).await.unwrap();

    let listed = store.list_credentials(owner, sample::whole()).await.unwrap();
    assert_eq!((listed.items, listed.total_items), (vec![newer.clone(), first.clone()], 2));
    assert_eq!(store.list_credentials(owner, sample::page(1, 2)).await.unwrap().items, [first]);
    let of_workspace = store.list_credentials(CredentialOwner::Workspace(acme.id), sample::whole()).await.unwrap();
    assert_eq!(of_workspace.total_items, 1);
}

pub async fn a_credential_needs_its_project(bench: &Bench) {
    let store = &*bench.store;
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

pub async fn a_client_id_is_given_once(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (_, credential) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(acme.id, Action::CredentialCreated);
    let refused = store.create_credential(&credential, &event, None, sample::LIMITS).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    // The store goes on.
    let fresh = sample::credential(credential.owner);
    store.create_credential(&fresh, &event, None, sample::LIMITS).await.unwrap();
}

pub async fn an_owner_has_a_bounded_number_of_live_credentials(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let acme = sample::stored_workspace(&*bench.store).await;
    let (_, first) = sample::stored_project(&*bench.store, acme.id, "Shop").await;
    let limits = CredentialLimits { live: 4, ..sample::LIMITS };
    let create = async |number: usize| {
        let event = sample::event(acme.id, Action::CredentialCreated);
        let credential = sample::credential(first.owner);
        stores[number % 2].create_credential(&credential, &event, None, limits).await.unwrap()
    };
    let written = join_all((0..12).map(create)).await;
    assert_eq!(written.iter().filter(|written| **written == CredentialWritten::Done).count(), 3, "{written:?}");
    let listed = bench.store.list_credentials(first.owner, sample::whole()).await.unwrap();
    assert_eq!(listed.total_items, 4);

    // Neither deleted nor expired ones count, nor those of the workspace.
    let event = || sample::event(acme.id, Action::CredentialDeleted);
    bench.store.delete_credential(first.owner, &first.client_id, None, sample::now(), &event()).await.unwrap();
    assert_eq!(create(0).await, CredentialWritten::Done);
    assert_eq!(create(0).await, CredentialWritten::LimitReached);
    let later = Credential { created_at: sample::later(3600), ..sample::credential(first.owner) };
    let later = Credential { expires_at: None, ..later };
    for credential in [later, sample::credential(CredentialOwner::Workspace(acme.id))] {
        let written = bench.store.create_credential(&credential, &event(), None, limits).await.unwrap();
        assert_eq!(written, CredentialWritten::Done);
    }
}

pub async fn the_newest_dead_credentials_of_a_workspace_are_kept(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (_, others) = sample::stored_project(store, other.id, "Shop").await;
    let owner = CredentialOwner::Workspace(acme.id);
    // Two of those below, and the workspace's first, which expires after an hour.
    let limits = CredentialLimits { dead: 3, ..sample::LIMITS };
    let create = async |credential: &Credential| {
        let event = sample::event(acme.id, Action::CredentialCreated);
        store.create_credential(credential, &event, None, limits).await.unwrap();
    };
    let mut made = vec![];
    for number in 0..5 {
        let credential = Credential { expires_at: Some(sample::later(60 + number)), ..sample::credential(owner) };
        create(&credential).await;
        made.push(credential.client_id);
    }
    for (at, kept) in [(3600, 5), (7200, 2)] {
        let credential = Credential { created_at: sample::later(at), expires_at: None, ..sample::credential(owner) };
        create(&credential).await;
        let known = store.changes_since(Version(0), sample::now()).await.unwrap().credentials;
        let is_known = |id: &&ClientId| known.iter().any(|credential| credential.client_id == **id);
        assert_eq!(made.iter().filter(is_known).count(), kept, "after {at} seconds");
    }
    assert_eq!(store.find_credential(owner, &made[4]).await.unwrap().map(drop), Found::Mine(()));
    assert_eq!(store.find_credential(others.owner, &others.client_id).await.unwrap(), Found::Mine(others));
}

pub async fn a_credential_is_deleted_as_it_was_read(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let (_, read) = sample::stored_project(store, acme.id, "Shop").await;
    let version = store.changes_since(Version(0), sample::now()).await.unwrap().version;
    let recorded = [(sample::client_id(), sample::later(60)), (read.client_id.clone(), sample::later(60))];
    store.record_credential_uses(&recorded).await.unwrap();
    store.record_credential_uses(&[(read.client_id.clone(), sample::now())]).await.unwrap();
    let used = Credential { last_used_at: Some(sample::later(60)), ..read.clone() };
    assert_eq!(store.find_credential(read.owner, &read.client_id).await.unwrap(), Found::Mine(used));
    assert_eq!(store.changes_since(version, sample::now()).await.unwrap().version, version, "nodes need not follow");

    let event = sample::event(acme.id, Action::CredentialDeleted);
    let other = Credential { created_at: sample::later(1), ..read.clone() };
    // A use since the reading is no change.
    for (expected, outcome) in [(&other, CredentialDeleted::Stale), (&read, CredentialDeleted::Done)] {
        let deleted = store.delete_credential(read.owner, &read.client_id, Some(expected), sample::now(), &event).await;
        assert_eq!(deleted.unwrap(), Found::Mine(outcome));
    }
}
