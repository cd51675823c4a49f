use std::{collections::BTreeSet, future::poll_fn, task::Poll};

use futures_util::{FutureExt, future::join_all};
use ringtrue_engine::ports::Version;

use crate::{bench::Bench, sample};

pub async fn revoking_twice_is_revoking_once(bench: &Bench) {
    let store = &*bench.store;
    let revocation = sample::revocation();
    store.revoke(revocation).await.unwrap();
    store.revoke(revocation).await.unwrap();
    assert_eq!(store.changes_since(Version(0), sample::now()).await.unwrap().revocations, [revocation]);

    // Several of the same batch.
    let revocation = sample::revocation();
    for answer in join_all((0..20).map(|_| store.revoke(revocation))).await {
        answer.unwrap();
    }
    assert_eq!(store.changes_since(Version(0), sample::now()).await.unwrap().revocations.len(), 2);
}

pub async fn many_revoke_at_once(bench: &Bench) {
    let stores = [bench.store.clone(), bench.database.open().await];
    let revocations: Vec<_> = (0..500).map(|_| sample::revocation()).collect();
    let revoked = revocations.iter().zip(stores.iter().cycle()).map(|(&revocation, store)| store.revoke(revocation));
    for answer in join_all(revoked).await {
        answer.unwrap();
    }
    let changes = bench.store.changes_since(Version(0), sample::now()).await.unwrap();
    let tokens = |revocations: &[ringtrue_engine::ports::Revocation]| {
        revocations.iter().map(|revocation| revocation.token).collect::<BTreeSet<_>>()
    };
    assert_eq!(tokens(&changes.revocations), tokens(&revocations));
}

pub async fn a_caller_that_goes_away_harms_nobody(bench: &Bench) {
    let store = &*bench.store;
    for _ in 0..20 {
        let stays: Vec<_> = (0..10).map(|_| sample::revocation()).collect();
        let goes: Vec<_> = (0..10).map(|_| sample::revocation()).collect();
        let mut staying = join_all(stays.iter().map(|&revocation| store.revoke(revocation)));
        {
            // These are asked for, and then forgotten.
            let mut going = join_all(goes.iter().map(|&revocation| store.revoke(revocation)));
            poll_fn(|context| {
                drop(going.poll_unpin(context));
                drop(staying.poll_unpin(context));
                Poll::Ready(())
            })
            .await;
        }
        let known = store.changes_since(Version(0), sample::now()).await.unwrap().version;
        assert!(known >= Version(0));
        for answer in staying.await {
            answer.unwrap();
        }
        let stored = store.changes_since(Version(0), sample::now()).await.unwrap().revocations;
        assert!(stays.iter().all(|revocation| stored.contains(revocation)));
    }
}
