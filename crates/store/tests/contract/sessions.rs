use futures_util::future::join_all;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, Membership, Role},
    audit::Action,
    login_throttle::{FREE_ATTEMPTS_PER_ACCOUNT, FREE_ATTEMPTS_PER_ADDRESS},
};
use ringtrue_engine::ports::{
    accounts::{
        LinkPurpose, LoginAttempt, LoginBlocked, LoginThrottleKey, NewSession, OneTimeLink, PasswordChange,
        PasswordHash, SessionAccess,
    },
    hashes::TokenHash,
};

use crate::{
    accounts::{
        NO_PASSWORD, disable, event, join_as, linked, login_attempt, make_admin, password_set, session, signed_in,
        stored,
    },
    fixture::{Database, StoreFixture},
    sample,
};

pub async fn session_is_valid_until_it_expires_or_ends(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let jane = stored(store, "jane@example.com").await;
    join_as(store, &jane, acme.id, Role::Viewer).await;
    let token = signed_in(store, jane.id, sample::later(60)).await;

    let found = store.find_session(token, sample::later(59)).await.unwrap().unwrap();
    let membership = Membership { workspace: acme.id, role: Role::Viewer };
    assert_eq!((found.account, found.memberships), (jane.clone(), vec![membership]));
    assert_eq!((found.created_at, found.seen_at), (sample::now(), sample::now()));
    assert_eq!(store.find_session(token, sample::later(60)).await.unwrap(), None);
    assert_eq!(store.find_session(TokenHash([7; 32]), sample::now()).await.unwrap(), None);

    store.extend_session(token, sample::later(50), sample::later(90)).await.unwrap();
    // An extension with earlier times changes nothing.
    store.extend_session(token, sample::later(40), sample::later(80)).await.unwrap();
    let kept = store.find_session(token, sample::later(89)).await.unwrap().unwrap();
    assert_eq!(kept.seen_at, sample::later(50));

    let end = || async { store.end_session(token, &event(None, jane.id, Action::AccountSignedOut)).await.unwrap() };
    assert_eq!((end().await, end().await), (true, false));
    assert_eq!(store.find_session(token, sample::now()).await.unwrap(), None);
}

pub async fn sessions_per_account_are_limited(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let others = signed_in(store, joe.id, sample::later(600)).await;
    let mut tokens = vec![];
    for second in 0..52 {
        let session = NewSession { created_at: sample::later(second), ..session(jane.id, sample::later(600)) };
        tokens.push(session.token);
        let audit = event(None, jane.id, Action::AccountSignedIn);
        assert!(store.begin_session(session, &NO_PASSWORD, login_attempt(), &audit).await.unwrap());
    }
    let sessions = store.list_sessions(jane.id, sample::later(60)).await.unwrap();
    let newest: Vec<_> = tokens.iter().rev().take(50).copied().collect();
    assert_eq!(sessions.iter().map(|session| session.token).collect::<Vec<_>>(), newest);
    assert_eq!(sessions[0].origin, session(jane.id, sample::now()).origin);
    assert_eq!(sessions[0].created_at, sample::later(51));
    assert_eq!(store.list_sessions(jane.id, sample::later(600)).await.unwrap(), []);
    assert!(store.find_session(others, sample::now()).await.unwrap().is_some());
}

pub async fn access_of_many_sessions_is_read_together(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let [jane, joe, root, gone] = ["jane", "joe", "root", "gone"].map(|name| format!("{name}@example.com"));
    let (jane, joe) = (stored(store, &jane).await, stored(store, &joe).await);
    let (root, gone) = (stored(store, &root).await, stored(store, &gone).await);
    make_admin(store, root.id).await;
    join_as(store, &jane, acme.id, Role::Viewer).await;
    join_as(store, &jane, other.id, Role::Owner).await;
    let mut tokens = vec![];
    for account in [&jane, &joe, &root, &gone] {
        tokens.push(signed_in(store, account.id, sample::later(60)).await);
    }
    disable(store, gone.id).await;
    let [first, second, third, _] = tokens[..] else { panic!("four") };
    let access = |token, is_admin, workspaces| SessionAccess { token, is_admin, workspaces };
    let mut expected =
        vec![access(first, false, vec![acme.id]), access(second, false, vec![]), access(third, true, vec![])];
    expected.sort_by_key(|access| access.token);
    let mut found = store.session_access(&tokens, &[acme.id], sample::later(59)).await.unwrap();
    found.sort_by_key(|access| access.token);
    assert_eq!(found, expected);
    assert_eq!(store.session_access(&tokens, &[acme.id], sample::later(60)).await.unwrap(), []);
    let mut both = store.session_access(&[first], &[acme.id, other.id], sample::now()).await.unwrap().remove(0);
    both.workspaces.sort_unstable();
    assert_eq!(both.workspaces, [acme.id, other.id]);
    assert_eq!(store.session_access(&[], &[], sample::now()).await.unwrap(), []);
}

pub async fn link_is_redeemed_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let voided = linked(store, jane.id, LinkPurpose::SetPassword).await;
    let others = linked(store, joe.id, LinkPurpose::SignIn).await;
    let link = linked(store, jane.id, LinkPurpose::SignIn).await;
    assert_eq!(store.find_link(voided, sample::now()).await.unwrap(), None, "a later link voids it");
    assert!(store.find_link(others, sample::now()).await.unwrap().is_some());
    let record = OneTimeLink { account: jane.clone(), purpose: LinkPurpose::SignIn, expires_at: sample::later(60) };
    assert_eq!(store.find_link(link, sample::later(59)).await.unwrap(), Some(record));
    assert_eq!(store.find_link(link, sample::later(60)).await.unwrap(), None);

    let sign_in = async |account: AccountId, at: Timestamp| {
        let session = NewSession { created_at: at, ..session(account, sample::later(600)) };
        let (token, audit) = (session.token, [event(None, account, Action::AccountSignedIn)]);
        (store.redeem_link(link, None, session, &audit).await.unwrap(), token)
    };
    assert!(!sign_in(joe.id, sample::now()).await.0, "the link of another account");
    assert!(!sign_in(jane.id, sample::later(60)).await.0, "expired");
    let (used, token) = sign_in(jane.id, sample::now()).await;
    assert!(used && store.find_session(token, sample::now()).await.unwrap().is_some());
    let (used, token) = sign_in(jane.id, sample::now()).await;
    assert!(!used && store.find_session(token, sample::now()).await.unwrap().is_none());
}

pub async fn concurrent_redemptions_of_a_link_succeed_once(fixture: &StoreFixture) {
    let jane = stored(&*fixture.store, "jane@example.com").await;
    let link = linked(&*fixture.store, jane.id, LinkPurpose::SignIn).await;
    let tries = (0..8).map(|_| async {
        let audit = [event(None, jane.id, Action::AccountSignedIn)];
        fixture.store.redeem_link(link, None, session(jane.id, sample::later(60)), &audit).await.unwrap()
    });
    let used = join_all(tries).await;
    assert_eq!(used.into_iter().filter(|used| *used).count(), 1);
}

pub async fn new_password_ends_other_sessions_and_links(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let old = signed_in(store, jane.id, sample::later(600)).await;
    let password = PasswordHash("$hash$".to_owned());
    let new = password_set(store, jane.id, &password).await;
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().password, Some(password.clone()));
    assert_eq!(store.find_session(old, sample::now()).await.unwrap(), None);
    assert!(store.find_session(new, sample::now()).await.unwrap().is_some());

    let second = session(jane.id, sample::later(600));
    let (elsewhere, audit) = (second.token, event(None, jane.id, Action::AccountSignedIn));
    assert!(store.begin_session(second, &password, login_attempt(), &audit).await.unwrap());
    let pending = linked(store, jane.id, LinkPurpose::SetPassword).await;
    let change = async |current: &PasswordHash| {
        let new_hash = PasswordHash("$other$".to_owned());
        let change = PasswordChange {
            account: jane.id,
            current: current.clone(),
            new: new_hash,
            session: new,
            attempt: login_attempt(),
        };
        store.change_password(change, &event(None, jane.id, Action::AccountPasswordSet)).await.unwrap()
    };
    assert!(!change(&PasswordHash("$wrong$".to_owned())).await);
    assert!(change(&password).await);
    assert!(!change(&password).await, "the password has changed");
    assert!(store.find_session(new, sample::now()).await.unwrap().is_some());
    assert_eq!(store.find_session(elsewhere, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_link(pending, sample::now()).await.unwrap(), None);
}

pub async fn expired_sessions_and_links_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    signed_in(store, jane.id, sample::later(10)).await;
    linked(store, jane.id, LinkPurpose::SignIn).await;
    assert_eq!(store.delete_expired(sample::later(9)).await.unwrap(), 0);
    assert_eq!(store.delete_expired(sample::later(10)).await.unwrap(), 1);
    assert_eq!(store.delete_expired(sample::later(60)).await.unwrap(), 1);
}

/// Returns a login attempt for an account from an address, `second` seconds from now.
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
    // All nodes share the counts.
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
    // A successful login also resets the failures before it.
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
