use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, NumberHash, Sealed},
    product::Product,
    sign_in::SignInId,
    tenancy::{ClientId, ProjectId},
};
use ringtrue_engine::ports::{
    activity::{UsageDelta, UsageFilter, UsagePeriod},
    combined::Store,
    hashes::TokenHash,
    sign_in::{CodeRedemption, EndedSignIn, PushedAuthorization, SignInCheck, SignInEnd, SignInRecord, SignInSession},
};

use crate::{fixture::StoreFixture, sample};

fn client() -> ClientId {
    "prj_client".parse().unwrap()
}

pub fn record() -> SignInRecord {
    let now = sample::now();
    SignInRecord {
        id: SignInId(sample::uuid()),
        project: ProjectId(sample::uuid()),
        client: client(),
        request: Sealed(vec![1, 2, 3]),
        created_at: now,
        expires_at: now + SignedDuration::from_mins(15),
        check: None,
        number: None,
        end: None,
    }
}

pub fn proven() -> SignInEnd {
    SignInEnd::Proven {
        proof: Sealed(vec![4, 5]),
        code_expires_at: sample::now() + SignedDuration::from_secs(60),
        redeemed_at: None,
        revoked_at: None,
    }
}

/// The end of a sign-in, which is counted.
pub fn ended(record: &SignInRecord, end: SignInEnd, session: Option<SignInSession>) -> EndedSignIn {
    let (status, matched) = match end {
        SignInEnd::Proven { .. } => (CheckStatus::Completed, Some(true)),
        SignInEnd::Failed { .. } => (CheckStatus::Error, None),
    };
    let usage = UsageDelta {
        project: record.project,
        product: Product::SignIn,
        at: record.created_at,
        status,
        matched,
        network: None,
        via: None,
        delta: 1,
    };
    EndedSignIn { id: record.id, end, session, usage: Some(usage) }
}

pub fn check(product: Product) -> SignInCheck {
    SignInCheck { product, id: CheckId(sample::uuid()) }
}

/// Stores rows in all tables of sign-ins, and a value in every optional column.
pub async fn store_everything(store: &dyn Store, project: ProjectId) {
    let record = SignInRecord { project, ..record() };
    store.create_sign_in(record.clone()).await.unwrap();
    let number = Some(Sealed(vec![9]));
    assert!(store.replace_sign_in_check(record.id, None, check(Product::Verification), number).await.unwrap());
    let session = SignInSession {
        token: TokenHash(sample::random()),
        project,
        number: NumberHash(sample::random()),
        proof: Sealed(vec![6]),
        expires_at: sample::later(3_600),
    };
    assert!(store.end_sign_in(ended(&record, proven(), Some(session))).await.unwrap());
    for expected in [CodeRedemption::Redeemed, CodeRedemption::AlreadyRedeemed] {
        let redeemed = store.redeem_sign_in_code(record.id, sample::now(), sample::later(300)).await.unwrap();
        assert_eq!(redeemed, expected);
    }
    let failed = SignInRecord { project, ..self::record() };
    store.create_sign_in(failed.clone()).await.unwrap();
    let end = SignInEnd::Failed { error: "access_denied cancelled".to_owned() };
    assert!(store.end_sign_in(ended(&failed, end, None)).await.unwrap());
    let pushed = PushedAuthorization {
        reference: TokenHash(sample::random()),
        client: client(),
        parameters: Sealed(vec![7, 8]),
        expires_at: sample::later(90),
    };
    store.push_authorization(pushed).await.unwrap();
    assert!(store.record_assertion(TokenHash(sample::random()), sample::later(300)).await.unwrap());
}

pub async fn open_sign_in_changes_its_check(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let record = record();
    store.create_sign_in(record.clone()).await.unwrap();
    assert_eq!(store.find_sign_in(record.id).await.unwrap(), Some(record.clone()));
    assert_eq!(store.find_sign_in(SignInId(sample::uuid())).await.unwrap(), None);

    let (first, second) = (check(Product::Verification), check(Product::Discovery));
    let number = Some(Sealed(vec![9]));
    assert!(store.replace_sign_in_check(record.id, None, first, number.clone()).await.unwrap());
    let stored = store.find_sign_in(record.id).await.unwrap().unwrap();
    assert_eq!((stored.check, stored.number), (Some(first), number));
    // A request that has not seen the first check changes nothing.
    assert!(!store.replace_sign_in_check(record.id, None, second, None).await.unwrap());
    assert!(!store.replace_sign_in_check(record.id, Some(second.id), second, None).await.unwrap());
    assert!(store.replace_sign_in_check(record.id, Some(first.id), second, None).await.unwrap());
    let stored = store.find_sign_in(record.id).await.unwrap().unwrap();
    assert_eq!((stored.check, stored.number), (Some(second), None));
}

pub async fn sign_in_ends_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let failed = SignInEnd::Failed { error: "access_denied cancelled".to_owned() };
    for (end, other) in [(proven(), failed.clone()), (failed, proven())] {
        let record = record();
        store.create_sign_in(record.clone()).await.unwrap();
        let session = SignInSession {
            token: TokenHash(sample::random()),
            project: record.project,
            number: NumberHash(sample::random()),
            proof: Sealed(vec![6]),
            expires_at: sample::now() + SignedDuration::from_hours(1),
        };
        assert!(store.end_sign_in(ended(&record, end.clone(), None)).await.unwrap());
        assert!(!store.end_sign_in(ended(&record, other, Some(session.clone()))).await.unwrap());
        assert_eq!(store.find_sign_in(record.id).await.unwrap().unwrap().end, Some(end));
        let found = store.find_sign_in_session(session.token, session.project, sample::now()).await.unwrap();
        assert_eq!(found, None, "the session of a refused end is not stored");
        assert!(!store.replace_sign_in_check(record.id, None, check(Product::Discovery), None).await.unwrap());
    }
    // A sign-in by session has ended when it is created, and a sign-in by network has its check.
    let (by_session, by_network) = (Some(proven()), Some(check(Product::SecureSna)));
    for record in [SignInRecord { end: by_session, ..record() }, SignInRecord { check: by_network, ..record() }] {
        store.create_sign_in(record.clone()).await.unwrap();
        assert_eq!(store.find_sign_in(record.id).await.unwrap(), Some(record.clone()));
        assert_eq!(store.find_sign_in_of_code(record.id).await.unwrap(), Some(record));
    }
}

pub async fn ended_sign_ins_are_counted_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (shop, _) = sample::stored_project(store, acme.id, "Shop").await;
    let failed = || SignInEnd::Failed { error: "access_denied cancelled".to_owned() };
    for end in [proven(), failed(), failed()] {
        let record = SignInRecord { project: shop.id, ..record() };
        store.create_sign_in(record.clone()).await.unwrap();
        assert!(store.end_sign_in(ended(&record, end, None)).await.unwrap());
        assert!(!store.end_sign_in(ended(&record, proven(), None)).await.unwrap());
    }
    let usage = UsageFilter {
        from: sample::later(-86_400),
        to: sample::later(86_400),
        period: UsagePeriod::Day,
        project: Some(shop.id),
    };
    let counted = store.usage(acme.id, usage).await.unwrap();
    let counted: Vec<_> = counted.iter().map(|row| (row.product, row.status, row.matched, row.count)).collect();
    let of = |status, matched, count| (Product::SignIn, status, matched, count);
    assert_eq!(counted, [of(CheckStatus::Completed, Some(true), 1), of(CheckStatus::Error, None, 2)]);
}

pub async fn code_is_redeemed_once_in_a_race(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (now, until) = (sample::now(), sample::now() + SignedDuration::from_mins(5));
    let record = SignInRecord { end: Some(proven()), ..record() };
    store.create_sign_in(record.clone()).await.unwrap();
    let calls = join_all((0..4).map(|_| store.redeem_sign_in_code(record.id, now, until))).await;
    let redeemed = calls.iter().filter(|call| *call.as_ref().unwrap() == CodeRedemption::Redeemed).count();
    let again = calls.iter().filter(|call| *call.as_ref().unwrap() == CodeRedemption::AlreadyRedeemed).count();
    assert_eq!((redeemed, again), (1, 3));
    let stored = store.find_sign_in(record.id).await.unwrap().unwrap();
    let Some(SignInEnd::Proven { redeemed_at, revoked_at, .. }) = stored.end else { panic!("{stored:?}") };
    assert_eq!((redeemed_at, revoked_at, stored.expires_at), (Some(now), Some(now), until));
}

/// Two nodes change the same sign-ins at the same time.
pub async fn sign_in_changes_once_in_a_race(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let store = &*fixture.store;
    let records: Vec<_> = (0..20).map(|_| record()).collect();
    join_all(records.iter().map(|record| store.create_sign_in(record.clone()))).await;
    let checks: Vec<_> = (0..4).map(|_| check(Product::Discovery)).collect();
    let replacements = records.iter().flat_map(|record| {
        let tries = checks.iter().zip(stores.iter().cycle());
        tries.map(|(check, store)| store.replace_sign_in_check(record.id, None, *check, None))
    });
    let replaced: Vec<_> = join_all(replacements).await.into_iter().map(Result::unwrap).collect();
    for (record, replaced) in records.iter().zip(replaced.chunks(checks.len())) {
        let winners: Vec<_> = checks.iter().zip(replaced).filter(|(_, replaced)| **replaced).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(store.find_sign_in(record.id).await.unwrap().unwrap().check, Some(*winners[0].0));
    }
    let session = |record: &SignInRecord| SignInSession {
        token: TokenHash(sample::random()),
        project: record.project,
        number: NumberHash(sample::random()),
        proof: Sealed(vec![6]),
        expires_at: sample::later(3_600),
    };
    let sessions: Vec<_> = records.iter().flat_map(|record| [session(record), session(record)]).collect();
    let ends = sessions.iter().zip(stores.iter().cycle()).enumerate().map(|(number, (session, store))| {
        let end = EndedSignIn { usage: None, ..ended(&records[number / 2], proven(), Some(session.clone())) };
        store.end_sign_in(end)
    });
    let ended: Vec<_> = join_all(ends).await.into_iter().map(Result::unwrap).collect();
    assert!(ended.chunks(2).all(|ends| ends[0] != ends[1]), "{ended:?}");
    for (session, is_stored) in sessions.iter().zip(ended) {
        let found = store.find_sign_in_session(session.token, session.project, sample::now()).await.unwrap();
        assert_eq!(found.is_some(), is_stored);
    }
}

pub async fn late_and_missing_codes_are_invalid(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let until = sample::now() + SignedDuration::from_mins(5);
    let late = sample::now() + SignedDuration::from_secs(60);
    let proven = SignInRecord { end: Some(proven()), ..record() };
    let open = record();
    for record in [proven.clone(), open.clone()] {
        store.create_sign_in(record).await.unwrap();
    }
    for (id, at) in [(proven.id, late), (open.id, sample::now()), (SignInId(sample::uuid()), sample::now())] {
        assert_eq!(store.redeem_sign_in_code(id, at, until).await.unwrap(), CodeRedemption::Invalid);
    }
    let early = late - SignedDuration::from_millis(1);
    assert_eq!(store.redeem_sign_in_code(proven.id, early, until).await.unwrap(), CodeRedemption::Redeemed);
}

pub async fn pushed_request_is_taken_once_by_its_client(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let pushed = PushedAuthorization {
        reference: TokenHash(sample::random()),
        client: client(),
        parameters: Sealed(vec![7, 8]),
        expires_at: sample::now() + SignedDuration::from_secs(90),
    };
    store.push_authorization(pushed.clone()).await.unwrap();
    let stranger = "prj_other".parse().unwrap();
    let take =
        async |client: &ClientId, at| store.take_pushed_authorization(pushed.reference, client, at).await.unwrap();
    assert_eq!(take(&stranger, sample::now()).await, None);
    assert_eq!(take(&client(), pushed.expires_at).await, None, "expired");
    assert_eq!(take(&client(), sample::now()).await, Some(pushed.parameters.clone()));
    assert_eq!(take(&client(), sample::now()).await, None, "used");
}

pub async fn sessions_and_assertions_end(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let record = record();
    store.create_sign_in(record.clone()).await.unwrap();
    let session = SignInSession {
        token: TokenHash(sample::random()),
        project: record.project,
        number: NumberHash(sample::random()),
        proof: Sealed(vec![6]),
        expires_at: sample::now() + SignedDuration::from_hours(1),
    };
    assert!(store.end_sign_in(ended(&record, proven(), Some(session.clone()))).await.unwrap());
    let find = async |project, at| store.find_sign_in_session(session.token, project, at).await.unwrap();
    assert_eq!(find(session.project, sample::now()).await, Some(session.clone()));
    assert_eq!(find(ProjectId(sample::uuid()), sample::now()).await, None, "another project");
    assert_eq!(find(session.project, session.expires_at).await, None, "expired");

    let assertion = TokenHash(sample::random());
    let until = sample::now() + SignedDuration::from_mins(5);
    let calls = join_all((0..4).map(|_| store.record_assertion(assertion, until))).await;
    assert_eq!(calls.into_iter().filter(|call| *call.as_ref().unwrap()).count(), 1, "used once in a race");

    // Housekeeping deletes what has expired, and only that.
    let later = sample::now() + SignedDuration::from_mins(30);
    store.delete_expired(later).await.unwrap();
    assert_eq!(store.find_sign_in(record.id).await.unwrap(), None);
    assert!(store.record_assertion(assertion, until).await.unwrap(), "forgotten");
    assert_eq!(find(session.project, sample::now()).await, Some(session.clone()));
    store.delete_expired(session.expires_at).await.unwrap();
    assert_eq!(find(session.project, sample::now()).await, None);
}
