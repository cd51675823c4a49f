use ringtrue_domain::{
    audit::Action,
    tenancy::{CredentialOwner, Name, RateLimits, Workspace, WorkspaceId},
};
use ringtrue_engine::ports::store::{ControlPlaneVersion, StoreError, TenantLookup};

use crate::{fixture::StoreFixture, sample};

pub async fn workspace_is_visible_only_to_itself(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let nowhere = WorkspaceId(sample::uuid());
    assert_eq!(store.find_workspace(acme.id, acme.id).await.unwrap(), TenantLookup::Found(acme.clone()));
    assert_eq!(store.find_workspace(other.id, acme.id).await.unwrap(), TenantLookup::OtherTenant);
    assert_eq!(store.find_workspace(acme.id, nowhere).await.unwrap(), TenantLookup::NotFound);
}

pub async fn workspaces_are_listed_newest_first(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let mut ids = Vec::new();
    for age in [20, 10, 30] {
        let workspace = Workspace { created_at: sample::later(-age), ..sample::workspace() };
        let credential = sample::credential(CredentialOwner::Workspace(workspace.id));
        store.create_workspace(&workspace, Some(&credential), &[]).await.unwrap();
        ids.push(workspace.id);
    }
    let listed = store.list_all_workspaces(sample::page(2, 1)).await.unwrap();
    assert_eq!(listed.items.iter().map(|workspace| workspace.id).collect::<Vec<_>>(), [ids[1], ids[0]]);
    assert_eq!((listed.total_items, listed.total_pages()), (3, 2));
    assert_eq!(store.list_all_workspaces(sample::page(2, 2)).await.unwrap().items[0].id, ids[2]);
    assert_eq!(store.list_all_workspaces(sample::page(100, i32::MAX.unsigned_abs())).await.unwrap().items, []);
}

pub async fn workspace_name_and_limits_are_updated(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let name = "Grüße 100% \"quoted\" \\ 📱".parse().unwrap();
    let event = sample::event(acme.id, Action::WorkspaceUpdated);

    let renamed = store.rename_workspace(acme.id, &name, None, sample::later(1), &event).await.unwrap();
    let expected = Workspace { name, updated_at: sample::later(1), ..acme };
    assert_eq!(renamed.as_ref(), Some(&expected));

    let limits = RateLimits { read: Some(u32::MAX), token: Some(0), ..RateLimits::default() };
    let event = sample::event(expected.id, Action::WorkspaceUpdated);
    let limited = store.set_workspace_rate_limits(expected.id, limits, sample::later(2), &event).await.unwrap();
    let expected = Workspace { rate_limits: limits, updated_at: sample::later(2), ..expected };
    assert_eq!(limited.as_ref(), Some(&expected));
    assert_eq!(store.find_workspace(expected.id, expected.id).await.unwrap(), TenantLookup::Found(expected));
}

pub async fn missing_workspace_is_not_updated(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let nowhere = WorkspaceId(sample::uuid());
    let event = sample::event(acme.id, Action::WorkspaceUpdated);
    let name = "Nobody".parse().unwrap();
    assert_eq!(store.rename_workspace(nowhere, &name, None, sample::now(), &event).await.unwrap(), None);
    let limits = RateLimits::default();
    assert_eq!(store.set_workspace_rate_limits(nowhere, limits, sample::now(), &event).await.unwrap(), None);
    let audit = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap();
    assert_eq!(audit.total_items, 1, "only the creation was recorded");
}

pub async fn workspace_creation_is_atomic(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let twin = Workspace { id: acme.id, ..sample::workspace() };
    let credential = sample::credential(CredentialOwner::Workspace(twin.id));
    let refused = store.create_workspace(&twin, Some(&credential), &[]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");

    // The credential is rejected after the workspace was inserted, so the insert must be rolled back.
    let other = sample::workspace();
    let foreign = sample::credential(CredentialOwner::Workspace(WorkspaceId(sample::uuid())));
    let refused = store.create_workspace(&other, Some(&foreign), &[]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(store.find_workspace(other.id, other.id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().workspaces, [acme]);
}

pub async fn stale_workspace_is_not_renamed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let read = sample::stored_workspace(store).await;
    let names: [Name; 2] = ["First".parse().unwrap(), "Second".parse().unwrap()];
    for (name, is_renamed) in [(&names[0], true), (&names[1], false)] {
        let event = sample::event(read.id, Action::WorkspaceUpdated);
        let renamed = store.rename_workspace(read.id, name, Some(&read), sample::now(), &event).await.unwrap();
        assert_eq!(renamed.is_some(), is_renamed);
    }
    let TenantLookup::Found(now) = store.find_workspace(read.id, read.id).await.unwrap() else {
        panic!("workspace not found")
    };
    assert_eq!(now.name, names[0]);
}
