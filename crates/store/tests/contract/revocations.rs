use std::{collections::BTreeSet, future::poll_fn, task::Poll};

use futures_util::{FutureExt, future::join_all};
use ringtrue_engine::ports::ControlPlaneVersion;

use crate::{fixture::StoreFixture, sample};

pub async fn revocation_is_idempotent(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let revocation = sample::revocation();
    store.revoke_token(revocation).await.unwrap();
    store.revoke_token(revocation).await.unwrap();
    assert_eq!(store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().revocations, [revocation]);

    // Several in one batch.
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
    for result in join_all(revoked).await {
        result.unwrap();
    }
    let changes = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    let tokens = |revocations: &[ringtrue_engine::ports::Revocation]| {
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
            // Polled once and then dropped.
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
