use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Membership, Role},
    audit::{Action, Actor, AuditEvent},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    Guess, Guesser, LinkPurpose, LinkRecord, NewLink, NewSession, PasswordHash, Store, TokenHash,
};

use crate::{bench::Bench, sample};

fn account(email: &str) -> Account {
    Account { id: AccountId(sample::uuid()), email: email.parse().unwrap(), is_admin: false, created_at: sample::now() }
}

pub fn event(workspace: Option<WorkspaceId>, account: AccountId, action: Action) -> AuditEvent {
    AuditEvent {
        id: sample::uuid(),
        workspace,
        at: sample::now(),
        actor: Actor::Account(account),
        action,
        target: account.to_string(),
        changes: vec![],
        request_id: None,
    }
}

pub async fn stored(store: &dyn Store, email: &str) -> Account {
    let account = account(email);
    assert!(store.add_account(&account, &event(None, account.id, Action::AccountCreated)).await.unwrap());
    account
}

pub fn session(account: AccountId, expires_at: Timestamp) -> NewSession {
    NewSession { token: TokenHash(sample::random()), account, created_at: sample::now(), expires_at }
}

/// A guess that nobody else makes.
fn guess() -> Guess {
    Guess { account: Guesser(sample::random()), address: Guesser(sample::random()), at: sample::now() }
}

fn link(account: AccountId, purpose: LinkPurpose) -> NewLink {
    NewLink { token: TokenHash(sample::random()), account, purpose, expires_at: sample::later(60) }
}

pub async fn an_address_has_one_account(bench: &Bench) {
    let store = &*bench.store;
    let jane = stored(store, "jane@example.com").await;
    let again = account("JANE@example.com");
    assert!(!store.add_account(&again, &event(None, again.id, Action::AccountCreated)).await.unwrap());
    let found = store.account_by_email(&jane.email).await.unwrap().unwrap();
    assert_eq!((found.account, found.password), (jane, None));
    assert_eq!(store.account_by_email(&"joe@example.com".parse().unwrap()).await.unwrap(), None);
}

pub async fn somebody_becomes_an_admin_once(bench: &Bench) {
    let store = &*bench.store;
    let jane = stored(store, "jane@example.com").await;
    let made = || async { store.make_admin(jane.id, &event(None, jane.id, Action::AccountMadeAdmin)).await.unwrap() };
    assert_eq!((made().await, made().await), (true, false));
    assert!(store.account_by_email(&jane.email).await.unwrap().unwrap().account.is_admin);
}

pub async fn members_belong_to_their_workspace(bench: &Bench) {
    let store = &*bench.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    for (account, workspace, role, changes) in [
        (&joe, &acme, Role::Viewer, true),
        (&jane, &acme, Role::Owner, true),
        (&jane, &acme, Role::Owner, false),
        (&joe, &acme, Role::Developer, true),
        (&jane, &other, Role::Viewer, true),
    ] {
        let audit = event(Some(workspace.id), account.id, Action::MembershipGranted);
        let membership = Membership { workspace: workspace.id, role };
        assert_eq!(store.grant(account.id, membership, &audit).await.unwrap(), changes, "{role}");
    }
    let expected = vec![(jane.clone(), Role::Owner), (joe.clone(), Role::Developer)];
    assert_eq!(store.members(acme.id).await.unwrap(), expected);
    assert_eq!(store.members(other.id).await.unwrap(), [(jane.clone(), Role::Viewer)]);

    let audit = event(Some(acme.id), joe.id, Action::MembershipWithdrawn);
    assert!(store.withdraw(joe.id, acme.id, &audit).await.unwrap());
    let audit = event(Some(acme.id), joe.id, Action::MembershipWithdrawn);
    assert!(!store.withdraw(joe.id, acme.id, &audit).await.unwrap());
    assert_eq!(store.members(acme.id).await.unwrap(), [(jane.clone(), Role::Owner)]);

    let events = store.audit_events(acme.id, sample::ANY, sample::whole()).await.unwrap().items;
    let granted = events.iter().filter(|event| event.action == Action::MembershipGranted).count();
    assert_eq!((granted, &events[0].actor), (3, &Actor::Account(joe.id)));
}

pub async fn accounts_have_addresses(bench: &Bench) {
    let store = &*bench.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let mut found = store.emails(&[joe.id, AccountId(sample::uuid()), jane.id]).await.unwrap();
    found.sort();
    assert_eq!(found, [(jane.id, jane.email), (joe.id, joe.email)]);
    assert_eq!(store.emails(&[]).await.unwrap(), []);
}

pub async fn a_session_is_good_until_it_expires_or_ends(bench: &Bench) {
    let store = &*bench.store;
    let acme = sample::stored_workspace(store).await;
    let jane = stored(store, "jane@example.com").await;
    let membership = Membership { workspace: acme.id, role: Role::Viewer };
    store.grant(jane.id, membership, &event(Some(acme.id), jane.id, Action::MembershipGranted)).await.unwrap();
    let session = session(jane.id, sample::later(60));
    store.begin_session(session, guess(), &event(None, jane.id, Action::AccountSignedIn)).await.unwrap();

    let found = store.session(session.token, sample::later(59)).await.unwrap().unwrap();
    assert_eq!((found.account, found.memberships), (jane.clone(), vec![membership]));
    assert_eq!((found.created_at, found.seen_at), (sample::now(), sample::now()));
    assert_eq!(store.session(session.token, sample::later(60)).await.unwrap(), None);
    assert_eq!(store.session(TokenHash([7; 32]), sample::now()).await.unwrap(), None);

    store.keep_session(session.token, sample::later(50), sample::later(90)).await.unwrap();
    // Whoever is late takes nothing back.
    store.keep_session(session.token, sample::later(40), sample::later(80)).await.unwrap();
    let kept = store.session(session.token, sample::later(89)).await.unwrap().unwrap();
    assert_eq!(kept.seen_at, sample::later(50));

    let end =
        || async { store.end_session(session.token, &event(None, jane.id, Action::AccountSignedOut)).await.unwrap() };
    assert_eq!((end().await, end().await), (true, false));
    assert_eq!(store.session(session.token, sample::now()).await.unwrap(), None);
}

pub async fn a_link_is_good_once(bench: &Bench) {
    let store = &*bench.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let link = link(jane.id, LinkPurpose::SignIn);
    store.add_link(link).await.unwrap();
    let record = LinkRecord { account: jane.clone(), purpose: LinkPurpose::SignIn };
    assert_eq!(store.link(link.token, sample::later(59)).await.unwrap(), Some(record));
    assert_eq!(store.link(link.token, sample::later(60)).await.unwrap(), None);

    let sign_in = async |account: AccountId, at: Timestamp| {
        let session = NewSession { created_at: at, ..session(account, sample::later(600)) };
        let audit = [event(None, account, Action::AccountSignedIn)];
        (store.use_link(link.token, None, session, &audit).await.unwrap(), session.token)
    };
    assert!(!sign_in(joe.id, sample::now()).await.0, "it is another's");
    assert!(!sign_in(jane.id, sample::later(60)).await.0, "it is too late");
    let (used, token) = sign_in(jane.id, sample::now()).await;
    assert!(used && store.session(token, sample::now()).await.unwrap().is_some());
    let (used, token) = sign_in(jane.id, sample::now()).await;
    assert!(!used && store.session(token, sample::now()).await.unwrap().is_none());
}

pub async fn of_many_who_use_a_link_one_comes_in(bench: &Bench) {
    let jane = stored(&*bench.store, "jane@example.com").await;
    let link = link(jane.id, LinkPurpose::SignIn);
    bench.store.add_link(link).await.unwrap();
    let tries = (0..8).map(|_| async {
        let audit = [event(None, jane.id, Action::AccountSignedIn)];
        bench.store.use_link(link.token, None, session(jane.id, sample::later(60)), &audit).await.unwrap()
    });
    let used = futures_util::future::join_all(tries).await;
    assert_eq!(used.into_iter().filter(|used| *used).count(), 1);
}

pub async fn a_new_password_ends_what_the_old_one_opened(bench: &Bench) {
    let store = &*bench.store;
    let jane = stored(store, "jane@example.com").await;
    let old = session(jane.id, sample::later(600));
    store.begin_session(old, guess(), &event(None, jane.id, Action::AccountSignedIn)).await.unwrap();
    let (first, second) = (link(jane.id, LinkPurpose::SetPassword), link(jane.id, LinkPurpose::SetPassword));
    store.add_link(first).await.unwrap();
    store.add_link(second).await.unwrap();

    let (new, password) = (session(jane.id, sample::later(600)), PasswordHash("$hash$".to_owned()));
    let audit = [event(None, jane.id, Action::AccountPasswordSet)];
    assert!(store.use_link(first.token, Some(&password), new, &audit).await.unwrap());
    assert_eq!(store.account_by_email(&jane.email).await.unwrap().unwrap().password, Some(password));
    assert_eq!(store.session(old.token, sample::now()).await.unwrap(), None);
    assert!(store.session(new.token, sample::now()).await.unwrap().is_some());
    assert_eq!(store.link(second.token, sample::now()).await.unwrap(), None);
}

pub async fn expired_sessions_and_links_are_forgotten(bench: &Bench) {
    let store = &*bench.store;
    let jane = stored(store, "jane@example.com").await;
    store
        .begin_session(session(jane.id, sample::later(10)), guess(), &event(None, jane.id, Action::AccountSignedIn))
        .await
        .unwrap();
    store.add_link(link(jane.id, LinkPurpose::SignIn)).await.unwrap();
    assert_eq!(store.forget_expired(sample::later(9)).await.unwrap(), 0);
    assert_eq!(store.forget_expired(sample::later(10)).await.unwrap(), 1);
    assert_eq!(store.forget_expired(sample::later(60)).await.unwrap(), 1);
}
