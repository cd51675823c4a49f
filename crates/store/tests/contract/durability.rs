use ringtrue_engine::ports::{ClaimOutcome, ControlPlaneVersion, TenantLookup};

use crate::{fixture::StoreFixture, sample};

pub async fn completed_writes_survive_a_reopen(fixture: &StoreFixture) {
    let first = fixture.database.open().await;
    let acme = sample::stored_workspace(&*first).await;
    let (project, credential) = sample::stored_project(&*first, acme.id, "Shop").await;
    let revocation = sample::revocation();
    first.revoke_token(revocation).await.unwrap();
    let request = sample::claim(acme.id.0, 1, 1);
    first.claim_idempotency_key(&request).await.unwrap();
    let version = first.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().version;
    drop(first);

    let second = fixture.database.open().await;
    let changes = second.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, version);
    assert_eq!((changes.workspaces, changes.projects), (vec![acme.clone()], vec![project]));
    assert_eq!(changes.revocations, [revocation]);
    let found = second.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, TenantLookup::Found(credential));
    let again = sample::claim(acme.id.0, 1, 1);
    assert_eq!(second.claim_idempotency_key(&again).await.unwrap(), ClaimOutcome::InProgress);
}

pub async fn two_processes_share_a_database(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let acme = sample::stored_workspace(&*fixture.store).await;
    assert_eq!(other.find_workspace(acme.id, acme.id).await.unwrap(), TenantLookup::Found(acme.clone()));
    sample::stored_project(&*other, acme.id, "Shop").await;
    assert_eq!(fixture.store.changes_since(ControlPlaneVersion(1), sample::now()).await.unwrap().projects.len(), 1);
}
