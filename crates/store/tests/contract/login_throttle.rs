use futures_util::future::join_all;
use ringtrue_domain::{
    audit::Action,
    login_throttle::{FREE_ATTEMPTS_PER_ACCOUNT, FREE_ATTEMPTS_PER_ADDRESS},
};
use ringtrue_engine::ports::{LoginAttempt, LoginBlocked, LoginThrottleKey};

use crate::{
    accounts::{NO_PASSWORD, event, session, stored},
    fixture::{Database, StoreFixture},
    sample,
};

/// A login attempt at an account from an address, `second` seconds from now.
fn attempt(account: u8, address: u8, second: i64) -> LoginAttempt {
    let mut pair = [address; 32];
    pair[0] = account;
    pair[1] = 200;
    LoginAttempt {
        account: LoginThrottleKey(pair),
        address: LoginThrottleKey([address; 32]),
        at: sample::later(second),
    }
}

pub async fn failed_logins_delay_only_their_account_and_address(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let count = async |attempt: LoginAttempt| store.count_login_attempt(attempt).await.unwrap();
    for _ in 0..FREE_ATTEMPTS_PER_ACCOUNT {
        assert_eq!(count(attempt(1, 1, 0)).await, None);
    }
    let wait = |until| Some(LoginBlocked { key: attempt(1, 1, 0).account, until: sample::later(until) });
    assert_eq!(count(attempt(1, 1, 0)).await, wait(1));
    assert_eq!(count(attempt(1, 2, 0)).await, None, "another address");
    assert_eq!(count(attempt(2, 1, 0)).await, None, "another account");
    assert_eq!(count(attempt(1, 1, 1)).await, None);
    assert_eq!(count(attempt(1, 1, 1)).await, wait(3));
    assert_eq!(count(attempt(1, 1, 2)).await, wait(3), "blocked attempts are not counted");
    // All nodes share the state.
    let other = fixture.database.open().await;
    assert_eq!(other.count_login_attempt(attempt(1, 1, 2)).await.unwrap(), wait(3));
    assert_eq!(other.count_login_attempt(attempt(1, 1, 3)).await.unwrap(), None);
    assert_eq!(count(attempt(1, 1, 3)).await, wait(7));
}

pub async fn address_that_tries_many_accounts_is_delayed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for account in 0..u8::try_from(FREE_ATTEMPTS_PER_ADDRESS).unwrap() {
        assert_eq!(store.count_login_attempt(attempt(account, 7, 0)).await.unwrap(), None);
    }
    let wait = LoginBlocked { key: attempt(0, 7, 0).address, until: sample::later(1) };
    assert_eq!(store.count_login_attempt(attempt(99, 7, 0)).await.unwrap(), Some(wait));
    assert_eq!(store.count_login_attempt(attempt(99, 8, 0)).await.unwrap(), None);
}

pub async fn successful_login_resets_the_throttle(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let succeed = async || {
        assert_eq!(store.count_login_attempt(attempt(1, 1, 0)).await.unwrap(), None);
        let audit = event(None, jane.id, Action::AccountSignedIn);
        let session = session(jane.id, sample::later(600));
        assert!(store.begin_session(session, &NO_PASSWORD, attempt(1, 1, 0), &audit).await.unwrap());
    };
    for _ in 0..2 * FREE_ATTEMPTS_PER_ADDRESS {
        succeed().await;
    }
    // A success also resets earlier failures.
    for _ in 1..FREE_ATTEMPTS_PER_ACCOUNT {
        assert_eq!(store.count_login_attempt(attempt(1, 1, 0)).await.unwrap(), None);
    }
    succeed().await;
    for _ in 0..FREE_ATTEMPTS_PER_ACCOUNT {
        assert_eq!(store.count_login_attempt(attempt(1, 1, 0)).await.unwrap(), None);
    }
    assert!(store.count_login_attempt(attempt(1, 1, 0)).await.unwrap().is_some());
}

pub async fn concurrent_attempts_pass_only_within_the_free_limit(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let attempts = (0..24).map(|number| {
        let store = if number % 2 == 0 { &fixture.store } else { &other };
        store.count_login_attempt(attempt(1, 1, 0))
    });
    let results = join_all(attempts).await.into_iter().map(Result::unwrap);
    assert_eq!(results.filter(Option::is_none).count(), usize::try_from(FREE_ATTEMPTS_PER_ACCOUNT).unwrap());
}

pub async fn throttle_entries_expire(fixture: &StoreFixture) {
    let store = &*fixture.store;
    store.count_login_attempt(attempt(1, 1, 0)).await.unwrap();
    store.count_login_attempt(attempt(2, 1, 5)).await.unwrap();
    assert_eq!(store.delete_expired(sample::later(3_600)).await.unwrap(), 0);
    assert_eq!(store.delete_expired(sample::later(3_601)).await.unwrap(), 1);
    assert_eq!(store.delete_expired(sample::later(3_606)).await.unwrap(), 2);
}

pub async fn throttle_entries_are_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    for _ in 0..FREE_ATTEMPTS_PER_ACCOUNT {
        assert_eq!(store.count_login_attempt(attempt(1, 1, 60)).await.unwrap(), None);
    }
    let old = sample::now().as_millisecond();
    let key_hash = match fixture.database {
        Database::Sqlite { .. } => "cast(printf('%032d', n) as blob)",
        Database::Postgres { .. } => "convert_to(lpad(n::text, 32, '0'), 'UTF8')",
    };
    fixture
        .database
        .execute(&format!(
            "insert into login_throttle (key_hash, failed_attempts, last_attempt_at)
             with recursive step (n) as (select 1 union all select n + 1 from step where n < 100500)
             select {key_hash}, 1, {old} from step"
        ))
        .await;
    assert_eq!(store.delete_expired(sample::later(60)).await.unwrap(), 502);
    assert_eq!(store.delete_expired(sample::later(60)).await.unwrap(), 0);
    assert!(store.count_login_attempt(attempt(1, 1, 60)).await.unwrap().is_some(), "the newest entries remain");
}
