use ringtrue_engine::ports::{ClaimOutcome, Found, Version};

use crate::{bench::Bench, sample};

pub async fn what_was_answered_is_there_after_opening_again(bench: &Bench) {
    let first = bench.database.open().await;
    let acme = sample::stored_workspace(&*first).await;
    let (project, credential) = sample::stored_project(&*first, acme.id, "Shop").await;
    let revocation = sample::revocation();
    first.revoke(revocation).await.unwrap();
    let request = sample::claim(acme.id.0, 1, 1);
    first.claim(&request).await.unwrap();
    let version = first.changes_since(Version(0), sample::now()).await.unwrap().version;
    drop(first);

    let second = bench.database.open().await;
    let changes = second.changes_since(Version(0), sample::now()).await.unwrap();
    assert_eq!(changes.version, version);
    assert_eq!((changes.workspaces, changes.projects), (vec![acme.clone()], vec![project]));
    assert_eq!(changes.revocations, [revocation]);
    let found = second.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, Found::Mine(credential));
    let again = sample::claim(acme.id.0, 1, 1);
    assert_eq!(second.claim(&again).await.unwrap(), ClaimOutcome::InProgress);
}

pub async fn two_processes_share_a_database(bench: &Bench) {
    let other = bench.database.open().await;
    let acme = sample::stored_workspace(&*bench.store).await;
    assert_eq!(other.find_workspace(acme.id, acme.id).await.unwrap(), Found::Mine(acme.clone()));
    sample::stored_project(&*other, acme.id, "Shop").await;
    assert_eq!(bench.store.changes_since(Version(1), sample::now()).await.unwrap().projects.len(), 1);
}
