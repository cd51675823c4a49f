use futures_util::future::{join, join_all};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{Account, AccountId, Invitation, InvitationId, Membership, Role},
    audit::{Action, Actor, AuditEvent},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    accounts::{
        AcceptOutcome, AccountChangeOutcome, InviteOutcome, LinkPurpose, LoginAttempt, LoginThrottleKey,
        MemberChangeOutcome, NewOneTimeLink, NewSession, PasswordHash, SessionOrigin,
    },
    combined::Store,
    hashes::TokenHash,
};

use crate::{fixture::StoreFixture, sample};

/// The value that the store expects instead of a password hash if the account has no password.
pub const NO_PASSWORD: PasswordHash = PasswordHash(String::new());

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
    let origin = SessionOrigin { network: "203.0.113.0/24".to_owned(), user_agent: "Browser/1".to_owned() };
    NewSession { token: TokenHash(sample::random()), account, origin, created_at: sample::now(), expires_at }
}

/// Begins a session for an account without a password.
pub async fn signed_in(store: &dyn Store, account: AccountId, expires_at: Timestamp) -> TokenHash {
    let session = session(account, expires_at);
    let token = session.token;
    let audit = event(None, account, Action::AccountSignedIn);
    assert!(store.begin_session(session, &NO_PASSWORD, login_attempt(), &audit).await.unwrap());
    token
}

/// Returns a login attempt with unique throttle keys.
pub fn login_attempt() -> LoginAttempt {
    LoginAttempt {
        account: LoginThrottleKey(sample::random()),
        address: LoginThrottleKey(sample::random()),
        at: sample::now(),
    }
}

fn link(account: AccountId, purpose: LinkPurpose) -> NewOneTimeLink {
    NewOneTimeLink { token: TokenHash(sample::random()), account, purpose, expires_at: sample::later(60) }
}

pub async fn linked(store: &dyn Store, account: AccountId, purpose: LinkPurpose) -> TokenHash {
    let link = link(account, purpose);
    assert!(store.add_link(link, &event(None, account, Action::AccountLinkCreated)).await.unwrap());
    link.token
}

pub fn invitation(workspace: WorkspaceId, email: &str, role: Role) -> Invitation {
    Invitation {
        id: InvitationId(sample::uuid()),
        workspace,
        email: email.parse().unwrap(),
        role,
        invited_by: None,
        created_at: sample::now(),
        expires_at: sample::later(60),
    }
}

fn invitation_by(account: AccountId, workspace: WorkspaceId) -> Invitation {
    Invitation { invited_by: Some(account), ..invitation(workspace, "new@example.com", Role::Owner) }
}

async fn is_pending(store: &dyn Store, invitation: &Invitation) -> bool {
    store.find_invitation(invitation.id, sample::now()).await.unwrap().is_some()
}

pub async fn invite(store: &dyn Store, invitation: &Invitation, limit: u32) -> InviteOutcome {
    let audit = event(Some(invitation.workspace), AccountId(sample::uuid()), Action::InvitationCreated);
    store.create_invitation(invitation, limit, &audit).await.unwrap()
}

async fn accept(store: &dyn Store, invitation: &Invitation, account: AccountId, at: Timestamp) -> AcceptOutcome {
    let audit = AuditEvent { at, ..event(Some(invitation.workspace), account, Action::MembershipGranted) };
    store.accept_invitation(invitation.id, account, &audit).await.unwrap()
}

/// Makes an account a member through an invitation.
pub async fn join_as(store: &dyn Store, account: &Account, workspace: WorkspaceId, role: Role) {
    let invitation = invitation(workspace, account.email.as_str(), role);
    assert_eq!(invite(store, &invitation, 100).await, InviteOutcome::Pending);
    assert_eq!(accept(store, &invitation, account.id, sample::now()).await, AcceptOutcome::Accepted);
}

async fn set_role(store: &dyn Store, account: AccountId, workspace: WorkspaceId, role: Role) -> MemberChangeOutcome {
    let audit = event(Some(workspace), account, Action::MembershipChanged);
    store.change_member_role(account, Membership { workspace, role }, &audit).await.unwrap()
}

async fn withdraw(store: &dyn Store, account: AccountId, workspace: WorkspaceId) -> MemberChangeOutcome {
    let audit = event(Some(workspace), account, Action::MembershipWithdrawn);
    store.remove_member(account, workspace, &audit).await.unwrap()
}

pub async fn make_admin(store: &dyn Store, account: AccountId) -> bool {
    store.make_admin(account, &event(None, account, Action::AccountMadeAdmin)).await.unwrap()
}

async fn remove_admin(store: &dyn Store, account: AccountId) -> AccountChangeOutcome {
    store.remove_admin(account, &event(None, account, Action::AccountAdminRemoved)).await.unwrap()
}

pub async fn disable(store: &dyn Store, account: AccountId) -> AccountChangeOutcome {
    store.disable_account(account, &event(None, account, Action::AccountDisabled)).await.unwrap()
}

async fn members(store: &dyn Store, workspace: WorkspaceId) -> Vec<(Account, Role)> {
    store.list_members(workspace, sample::first_100()).await.unwrap().items
}

/// Sets a password through a one-time link. Returns the token of the session that this begins.
pub async fn password_set(store: &dyn Store, account: AccountId, hash: &PasswordHash) -> TokenHash {
    let token = linked(store, account, LinkPurpose::SetPassword).await;
    let session = session(account, sample::later(600));
    let (session_token, audit) = (session.token, [event(None, account, Action::AccountPasswordSet)]);
    assert!(store.redeem_link(token, Some(hash), session, &audit).await.unwrap());
    session_token
}

pub async fn email_has_one_account(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let again = account("JANE@example.com");
    assert!(!store.add_account(&again, &event(None, again.id, Action::AccountCreated)).await.unwrap());
    let found = store.find_account_by_email(&jane.email).await.unwrap().unwrap();
    assert_eq!((&found.account, &found.password, found.is_disabled), (&jane, &None, false));
    assert_eq!(store.find_account(jane.id).await.unwrap(), Some(found));
    assert_eq!(store.find_account_by_email(&"joe@example.com".parse().unwrap()).await.unwrap(), None);
}

pub async fn promotion_removes_password_sessions_and_links(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let old = PasswordHash("$hash$".to_owned());
    let token = password_set(store, jane.id, &old).await;
    let pending = linked(store, jane.id, LinkPurpose::SetPassword).await;
    assert_eq!((make_admin(store, jane.id).await, make_admin(store, jane.id).await), (true, false));
    let found = store.find_account(jane.id).await.unwrap().unwrap();
    assert!(found.account.is_admin && found.password.is_none());
    assert_eq!(store.find_session(token, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_link(pending, sample::now()).await.unwrap(), None);
    // A sign-in fails if it has verified the old password before the change, but begins its session afterwards.
    let late = session(jane.id, sample::later(600));
    let audit = event(None, jane.id, Action::AccountSignedIn);
    assert!(!store.begin_session(late, &old, login_attempt(), &audit).await.unwrap());
}

pub async fn last_administrator_cannot_be_removed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    assert_eq!(remove_admin(store, jane.id).await, AccountChangeOutcome::Unchanged);
    make_admin(store, jane.id).await;
    assert_eq!(remove_admin(store, jane.id).await, AccountChangeOutcome::LastAdministrator);
    assert_eq!(disable(store, jane.id).await, AccountChangeOutcome::LastAdministrator);
    make_admin(store, joe.id).await;
    assert_eq!(disable(store, joe.id).await, AccountChangeOutcome::Changed);
    assert_eq!(
        remove_admin(store, jane.id).await,
        AccountChangeOutcome::LastAdministrator,
        "the other account is disabled"
    );
    let enabled = store.enable_account(joe.id, &event(None, joe.id, Action::AccountEnabled)).await.unwrap();
    assert_eq!(enabled, AccountChangeOutcome::Changed);
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    join_as(store, &jane, acme.id, Role::Owner).await;
    let (owners, admins) = (invitation_by(jane.id, acme.id), invitation_by(jane.id, other.id));
    for new in [&owners, &admins] {
        assert_eq!(invite(store, new, 100).await, InviteOutcome::Pending);
    }
    assert_eq!(remove_admin(store, jane.id).await, AccountChangeOutcome::Changed);
    assert!(!store.find_account(jane.id).await.unwrap().unwrap().account.is_admin);
    assert_eq!((is_pending(store, &owners).await, is_pending(store, &admins).await), (true, false));
}

pub async fn concurrent_removals_keep_one_administrator(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let (here, there) = (&*fixture.store, &*other);
    let (jane, joe) = (stored(here, "jane@example.com").await, stored(here, "joe@example.com").await);
    for _ in 0..6 {
        make_admin(here, jane.id).await;
        make_admin(here, joe.id).await;
        let changes = join(remove_admin(here, jane.id), disable(there, joe.id)).await;
        let done = [changes.0, changes.1].into_iter().filter(|change| *change == AccountChangeOutcome::Changed).count();
        assert_eq!(done, 1, "{changes:?}");
        here.enable_account(joe.id, &event(None, joe.id, Action::AccountEnabled)).await.unwrap();
    }
}

pub async fn disabled_account_has_no_access(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let jane = stored(store, "jane@example.com").await;
    let token = signed_in(store, jane.id, sample::later(600)).await;
    let pending = linked(store, jane.id, LinkPurpose::SignIn).await;
    let own = invitation_by(jane.id, acme.id);
    assert_eq!(invite(store, &own, 100).await, InviteOutcome::NotAllowed, "not a member");
    join_as(store, &jane, acme.id, Role::Developer).await;
    assert_eq!(invite(store, &own, 100).await, InviteOutcome::NotAllowed, "not an owner");
    assert_eq!(set_role(store, jane.id, acme.id, Role::Owner).await, MemberChangeOutcome::Changed);
    assert_eq!(invite(store, &own, 100).await, InviteOutcome::Pending);
    assert_eq!(
        (disable(store, jane.id).await, disable(store, jane.id).await),
        (AccountChangeOutcome::Changed, AccountChangeOutcome::Unchanged)
    );
    assert!(store.find_account(jane.id).await.unwrap().unwrap().is_disabled);
    assert!(!is_pending(store, &own).await);
    assert_eq!(invite(store, &own, 100).await, InviteOutcome::NotAllowed, "disabled");
    assert_eq!(store.find_session(token, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_link(pending, sample::now()).await.unwrap(), None);
    let audit = event(None, jane.id, Action::AccountSignedIn);
    let late = session(jane.id, sample::later(600));
    assert!(!store.begin_session(late, &NO_PASSWORD, login_attempt(), &audit).await.unwrap());
    assert!(!store.redeem_link(pending, None, session(jane.id, sample::later(600)), &[audit]).await.unwrap());
    for account in [jane.id, AccountId(sample::uuid())] {
        let late = link(account, LinkPurpose::SignIn);
        assert!(!store.add_link(late, &event(None, account, Action::AccountLinkCreated)).await.unwrap());
        assert_eq!(store.find_link(late.token, sample::now()).await.unwrap(), None);
    }
    let other = sample::stored_workspace(store).await;
    let invited = invitation(other.id, "jane@example.com", Role::Viewer);
    assert_eq!(invite(store, &invited, 100).await, InviteOutcome::Pending);
    assert_eq!(accept(store, &invited, jane.id, sample::now()).await, AcceptOutcome::NotValid);

    let listed = store.list_accounts(sample::page(1, 1)).await.unwrap();
    assert_eq!((listed.total_items, listed.items[0].is_disabled), (1, true));
    assert_eq!(listed.items[0].signed_in_at, Some(sample::now()));
}

pub async fn only_the_invited_email_accepts_an_invitation(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let first = invitation(acme.id, "jane@example.com", Role::Viewer);
    let elsewhere = invitation(other.id, "jane@example.com", Role::Owner);
    let late = Invitation { expires_at: sample::later(10), ..invitation(other.id, "joe@example.com", Role::Owner) };
    for new in [&first, &elsewhere, &late] {
        assert_eq!(invite(store, new, 100).await, InviteOutcome::Pending);
    }
    assert_eq!(members(store, acme.id).await, [], "an invitation is not a membership");
    // A second invitation of the same address replaces the first.
    let second = invitation(acme.id, "jane@example.com", Role::Developer);
    assert_eq!(invite(store, &second, 100).await, InviteOutcome::Pending);
    assert_eq!(store.find_invitation(first.id, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_invitation(second.id, sample::later(59)).await.unwrap(), Some(second.clone()));
    assert_eq!(store.find_invitation(second.id, sample::later(60)).await.unwrap(), None);
    let pending = store.list_invitations(acme.id, sample::now(), sample::first_100()).await.unwrap();
    assert_eq!((pending.total_items, &pending.items), (1, &vec![second.clone()]));

    for (invitation, account, at, outcome) in [
        (&first, &jane, 0, AcceptOutcome::NotValid),
        (&second, &joe, 0, AcceptOutcome::NotValid),
        (&second, &jane, 60, AcceptOutcome::NotValid),
        (&second, &jane, 0, AcceptOutcome::Accepted),
        (&second, &jane, 0, AcceptOutcome::NotValid),
        (&late, &joe, 10, AcceptOutcome::NotValid),
    ] {
        assert_eq!(accept(store, invitation, account.id, sample::later(at)).await, outcome, "{invitation:?} {at}");
    }
    assert_eq!(members(store, acme.id).await, [(jane.clone(), Role::Developer)]);
    assert_eq!(members(store, other.id).await, [], "other invitations stay pending");
    let again = invitation(acme.id, "jane@example.com", Role::Owner);
    assert_eq!(invite(store, &again, 100).await, InviteOutcome::AlreadyMember);

    let audit = event(Some(acme.id), jane.id, Action::InvitationWithdrawn);
    assert!(
        !store.withdraw_invitation(acme.id, elsewhere.id, &audit).await.unwrap(),
        "invitation of another workspace"
    );
    assert!(store.withdraw_invitation(other.id, elsewhere.id, &audit).await.unwrap());
    assert_eq!(accept(store, &elsewhere, jane.id, sample::now()).await, AcceptOutcome::NotValid);
    assert_eq!(members(store, other.id).await, []);

    // If an invitation is withdrawn and accepted concurrently, only one of the two succeeds.
    let there = fixture.database.open().await;
    for _ in 0..6 {
        let raced = invitation(other.id, "jane@example.com", Role::Viewer);
        assert_eq!(invite(store, &raced, 100).await, InviteOutcome::Pending);
        let audit = event(Some(other.id), jane.id, Action::InvitationWithdrawn);
        let withdrawal = there.withdraw_invitation(other.id, raced.id, &audit);
        let (withdrawn, acceptance) = join(withdrawal, accept(store, &raced, jane.id, sample::now())).await;
        let is_accepted = acceptance == AcceptOutcome::Accepted;
        assert_ne!(withdrawn.unwrap(), is_accepted);
        let change = if is_accepted { MemberChangeOutcome::Changed } else { MemberChangeOutcome::NotAMember };
        assert_eq!(withdraw(store, jane.id, other.id).await, change);
    }
}

pub async fn invitation_creates_a_missing_account(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let password = PasswordHash("$hash$".to_owned());
    let create = async |invitation: &Invitation, account: &Account| {
        let audit = [event(None, account.id, Action::AccountCreated)];
        let is_valid = store.create_invited_account(invitation.id, account, &password, &audit).await.unwrap();
        (is_valid, store.find_account(account.id).await.unwrap().and_then(|record| record.password))
    };
    let invited = invitation(acme.id, "jane@example.com", Role::Owner);
    invite(store, &invited, 100).await;
    assert_eq!(create(&invited, &account("joe@example.com")).await, (false, None));
    let jane = account("jane@example.com");
    assert_eq!(create(&invited, &jane).await, (true, Some(password.clone())));
    assert_eq!(members(store, acme.id).await, [], "the invitation stays pending");
    // If an account with this email address exists, the result is the same, but nothing is written.
    assert_eq!(create(&invited, &account("jane@example.com")).await, (true, None));
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().password, Some(password.clone()));
    assert_eq!(accept(store, &invited, jane.id, sample::now()).await, AcceptOutcome::Accepted);
    assert_eq!(create(&invited, &account("jane@example.com")).await, (false, None));

    let withdrawn = invitation(acme.id, "joe@example.com", Role::Owner);
    invite(store, &withdrawn, 100).await;
    let audit = event(Some(acme.id), jane.id, Action::InvitationWithdrawn);
    assert!(store.withdraw_invitation(acme.id, withdrawn.id, &audit).await.unwrap());
    assert_eq!(create(&withdrawn, &account("joe@example.com")).await, (false, None));

    // An existing account is not changed, even if it has no password.
    let admin = stored(store, "root@example.com").await;
    let invited = invitation(acme.id, "root@example.com", Role::Viewer);
    invite(store, &invited, 100).await;
    assert_eq!(create(&invited, &account("root@example.com")).await, (true, None));
    assert_eq!(store.find_account(admin.id).await.unwrap().unwrap().password, None);
    assert_eq!(members(store, acme.id).await, [(jane, Role::Owner)]);
}

pub async fn members_and_invitations_are_limited(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let jane = stored(store, "jane@example.com").await;
    join_as(store, &jane, acme.id, Role::Owner).await;
    let new: Vec<_> = (0..8).map(|n| invitation(acme.id, &format!("{n}@example.com"), Role::Viewer)).collect();
    let invited = join_all(new.iter().enumerate().map(|(number, new)| {
        let store = if number % 2 == 0 { store } else { &*other };
        invite(store, new, 4)
    }))
    .await;
    assert_eq!(invited.iter().filter(|invited| **invited == InviteOutcome::Pending).count(), 3, "{invited:?}");
    let page = store.list_invitations(acme.id, sample::now(), sample::page(2, 2)).await.unwrap();
    assert_eq!((page.total_items, page.items.len()), (3, 1));
    // Invitations that were replaced or have expired do not count.
    let again = invitation(acme.id, page.items[0].email.as_str(), Role::Owner);
    assert_eq!(invite(store, &again, 4).await, InviteOutcome::Pending);
    let later = Invitation { created_at: sample::later(60), ..invitation(acme.id, "late@example.com", Role::Owner) };
    assert_eq!(invite(store, &later, 4).await, InviteOutcome::Pending);
}

pub async fn members_belong_to_their_workspace(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    join_as(store, &joe, acme.id, Role::Viewer).await;
    join_as(store, &jane, acme.id, Role::Owner).await;
    join_as(store, &jane, other.id, Role::Viewer).await;
    for (account, workspace, role, outcome) in [
        (&joe, &acme, Role::Developer, MemberChangeOutcome::Changed),
        (&joe, &acme, Role::Developer, MemberChangeOutcome::Changed),
        (&jane, &acme, Role::Viewer, MemberChangeOutcome::LastOwner),
        (&joe, &other, Role::Owner, MemberChangeOutcome::NotAMember),
        (&jane, &other, Role::Developer, MemberChangeOutcome::Changed),
    ] {
        assert_eq!(set_role(store, account.id, workspace.id, role).await, outcome, "{role}");
    }
    let expected = vec![(jane.clone(), Role::Owner), (joe.clone(), Role::Developer)];
    assert_eq!(members(store, acme.id).await, expected);
    let second = store.list_members(acme.id, sample::page(1, 2)).await.unwrap();
    assert_eq!((second.total_items, second.items), (2, vec![(joe.clone(), Role::Developer)]));
    assert_eq!(members(store, other.id).await, [(jane.clone(), Role::Developer)]);

    assert_eq!(withdraw(store, jane.id, acme.id).await, MemberChangeOutcome::LastOwner);
    assert_eq!(withdraw(store, joe.id, acme.id).await, MemberChangeOutcome::Changed);
    assert_eq!(withdraw(store, joe.id, acme.id).await, MemberChangeOutcome::NotAMember);
    assert_eq!(members(store, acme.id).await, [(jane.clone(), Role::Owner)]);
    // A disabled owner does not count as an owner.
    join_as(store, &joe, acme.id, Role::Owner).await;
    disable(store, joe.id).await;
    assert_eq!(withdraw(store, jane.id, acme.id).await, MemberChangeOutcome::LastOwner);
    assert_eq!(withdraw(store, joe.id, acme.id).await, MemberChangeOutcome::Changed);

    let events = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap().items;
    let count = |action| events.iter().filter(|event| event.action == action).count();
    assert_eq!(
        [Action::MembershipGranted, Action::MembershipChanged, Action::MembershipWithdrawn].map(count),
        [3, 1, 2]
    );

    // A removed owner cannot return by an invitation that this owner has created.
    let (kate, back) = (stored(store, "kate@example.com").await, stored(store, "new@example.com").await);
    join_as(store, &kate, other.id, Role::Owner).await;
    for is_removed in [true, false] {
        join_as(store, &kate, acme.id, Role::Owner).await;
        let (own, elsewhere) = (invitation_by(kate.id, acme.id), invitation_by(kate.id, other.id));
        let others = invitation(acme.id, "other@example.com", Role::Viewer);
        for new in [&own, &elsewhere, &others] {
            assert_eq!(invite(store, new, 100).await, InviteOutcome::Pending);
        }
        let change = if is_removed {
            withdraw(store, kate.id, acme.id).await
        } else {
            set_role(store, kate.id, acme.id, Role::Developer).await
        };
        assert_eq!(change, MemberChangeOutcome::Changed);
        assert_eq!(accept(store, &own, back.id, sample::now()).await, AcceptOutcome::NotValid);
        for (new, expected) in [(&own, false), (&elsewhere, true), (&others, true)] {
            assert_eq!(is_pending(store, new).await, expected, "{new:?}");
        }
    }
}

pub async fn concurrent_removals_keep_one_owner(fixture: &StoreFixture) {
    let other = fixture.database.open().await;
    let (here, there) = (&*fixture.store, &*other);
    let (jane, joe) = (stored(here, "jane@example.com").await, stored(here, "joe@example.com").await);
    for round in 0..6 {
        let acme = sample::stored_workspace(here).await.id;
        join_as(here, &jane, acme, Role::Owner).await;
        join_as(here, &joe, acme, Role::Owner).await;
        let changes = match round % 2 {
            0 => join(withdraw(here, jane.id, acme), withdraw(there, joe.id, acme)).await,
            _ => join(set_role(here, jane.id, acme, Role::Viewer), withdraw(there, joe.id, acme)).await,
        };
        let done = [changes.0, changes.1].into_iter().filter(|change| *change == MemberChangeOutcome::Changed).count();
        assert_eq!(done, 1, "{changes:?}");
        let owners = members(here, acme).await.into_iter().filter(|(_, role)| *role == Role::Owner).count();
        assert_eq!(owners, 1);
    }
}

pub async fn emails_of_accounts_are_read(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let mut found = store.emails_of_accounts(&[joe.id, AccountId(sample::uuid()), jane.id]).await.unwrap();
    found.sort();
    assert_eq!(found, [(jane.id, jane.email), (joe.id, joe.email)]);
    assert_eq!(store.emails_of_accounts(&[]).await.unwrap(), []);
}

pub async fn unused_accounts_and_invitations_expire(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let [unused, linked_account, seen, member] =
        ["unused", "linked", "seen", "member"].map(|name| format!("{name}@example.com"));
    let unused = stored(store, &unused).await;
    let linked_account = stored(store, &linked_account).await;
    let (seen, member) = (stored(store, &seen).await, stored(store, &member).await);
    join_as(store, &member, acme.id, Role::Owner).await;
    signed_in(store, seen.id, sample::later(1)).await;
    let week = SignedDuration::from_hours(7 * 24);
    let lasting =
        NewOneTimeLink { expires_at: sample::now() + week * 2, ..link(linked_account.id, LinkPurpose::SetPassword) };
    store.add_link(lasting, &event(None, linked_account.id, Action::AccountLinkCreated)).await.unwrap();
    let invited = invitation(acme.id, "new@example.com", Role::Viewer);
    invite(store, &invited, 100).await;

    // The first call deletes the session and the invitation, the second the two unused accounts.
    assert_eq!(store.delete_expired(sample::now() + week - SignedDuration::from_secs(1)).await.unwrap(), 2);
    assert_eq!(store.delete_expired(sample::now() + week).await.unwrap(), 2);
    for (account, is_there) in [(&unused, false), (&member, false), (&linked_account, true), (&seen, true)] {
        assert_eq!(store.find_account(account.id).await.unwrap().is_some(), is_there, "{}", account.email);
    }
    assert_eq!(members(store, acme.id).await, []);
}
