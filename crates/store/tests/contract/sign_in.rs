//! Tests identities of an OpenID provider, access rights by claim, and second factors.

use futures_util::future::join_all;
use ringtrue_domain::{
    account::{Account, AccountId, Role},
    audit::{Action, AuditEvent},
};
use ringtrue_engine::ports::{
    accounts::{
        AccountAccess, LinkPurpose, LinkedIdentity, MembershipGrants, NewSecondFactor, OpenIdSignIn, PasswordHash,
        SealedSeed, SecondFactor, SecondFactorProof, SecondFactorUse,
    },
    audit::AuditFilter,
    combined::Store,
    hashes::TokenHash,
};

use crate::{
    accounts::{event, invitation, invite, join_as, linked, login_attempt, password_set, session, signed_in, stored},
    fixture::StoreFixture,
    sample,
};

const ISSUER: &str = "https://op.example";
const SEED: SealedSeed = SealedSeed([7; SealedSeed::LENGTH]);

fn identity() -> LinkedIdentity {
    LinkedIdentity { hash: TokenHash(sample::random()), issuer: ISSUER.to_owned() }
}

fn new_access(email: &str) -> AccountAccess {
    let id = AccountId(sample::uuid());
    AccountAccess {
        account: Account { id, email: email.parse().unwrap(), is_admin: false, created_at: sample::now() },
        is_disabled: false,
        admin_by_claim: false,
        identity: None,
        memberships: vec![],
    }
}

async fn access(store: &dyn Store, account: AccountId) -> AccountAccess {
    store.find_access(account).await.unwrap().unwrap()
}

/// Signs in with an identity. Returns the session. `None`: the sign-in was rejected.
async fn sign_in(store: &dyn Store, before: Option<AccountAccess>, after: AccountAccess) -> Option<TokenHash> {
    let account = after.account.id;
    let session = session(account, sample::later(600));
    let (token, audit) = (session.token, [event(None, account, Action::AccountIdentityLinked)]);
    let is_done = store.sign_in_with_identity(OpenIdSignIn { before, after, session }, &audit).await.unwrap();
    assert_eq!(store.find_session(token, sample::now()).await.unwrap().is_some(), is_done);
    is_done.then_some(token)
}

pub async fn identity_belongs_to_one_account(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let identity = identity();
    let find = async |email: Option<&str>| {
        let email = email.map(|email| email.parse().unwrap());
        let found = store.find_access_by_identity(identity.hash, email.as_ref()).await.unwrap();
        found.map(|found| found.account.id)
    };
    assert_eq!(find(None).await, None);
    assert_eq!(find(Some("nobody@example.com")).await, None);
    assert_eq!(find(Some("jane@example.com")).await, Some(jane.id));

    let before = access(store, jane.id).await;
    let after = AccountAccess { identity: Some(identity.clone()), ..before.clone() };
    assert!(sign_in(store, Some(before.clone()), after.clone()).await.is_some());
    assert_eq!(find(Some("joe@example.com")).await, Some(jane.id), "the identity takes precedence");
    assert_eq!(access(store, jane.id).await, after);
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().identity, Some(identity.clone()));
    assert!(store.list_accounts(sample::page(1, 1)).await.unwrap().items[0].has_identity);

    // Rejected: the access rights have changed since they were read, or the identity belongs to another account.
    assert!(sign_in(store, Some(before), after.clone()).await.is_none());
    let others = access(store, joe.id).await;
    let taken = AccountAccess { identity: Some(identity.clone()), ..others.clone() };
    assert!(sign_in(store, Some(others), taken).await.is_none());
    assert!(
        sign_in(store, None, AccountAccess { identity: Some(self::identity()), ..new_access("joe@example.com") })
            .await
            .is_none()
    );

    let created = AccountAccess { identity: Some(self::identity()), ..new_access("new@example.com") };
    assert!(sign_in(store, None, created.clone()).await.is_some());
    assert_eq!(access(store, created.account.id).await, created);

    let token = sign_in(store, Some(after.clone()), after.clone()).await.unwrap();
    let unlinked = AccountAccess { identity: None, ..after.clone() };
    let audit = [event(None, jane.id, Action::AccountIdentityUnlinked)];
    assert!(!store.unlink_identity(&unlinked, &unlinked, &audit).await.unwrap());
    assert!(store.unlink_identity(&after, &unlinked, &audit).await.unwrap());
    assert_eq!(store.find_session(token, sample::now()).await.unwrap(), None);
    assert_eq!(find(None).await, None);
    let filter = AuditFilter { action: Some(Action::AccountIdentityUnlinked), actor: None };
    let events = store.list_all_audit_events(&filter, sample::first_100()).await.unwrap();
    assert_eq!(events.items, audit);
    let filter = AuditFilter { action: Some(Action::AccountPasswordSet), actor: None };
    assert_eq!(store.list_all_audit_events(&filter, sample::first_100()).await.unwrap().total_items, 0);
}

pub async fn first_link_removes_the_password_of_a_stranger(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let password = PasswordHash("$hash$".to_owned());
    let old = password_set(store, jane.id, &password).await;
    assert!(enable_second_factor(store, jane.id).await);
    let link = linked(store, jane.id, LinkPurpose::SetPassword).await;
    let before = access(store, jane.id).await;
    let after = AccountAccess { identity: Some(identity()), ..before.clone() };
    assert!(sign_in(store, Some(before), after.clone()).await.is_some());
    let record = store.find_account(jane.id).await.unwrap().unwrap();
    assert_eq!((record.password, record.second_factor), (None, None));
    assert_eq!(store.find_session(old, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_link(link, sample::now()).await.unwrap(), None);

    // A password that is set after the identity was linked is kept.
    let session = password_set(store, jane.id, &password).await;
    assert!(sign_in(store, Some(after.clone()), after).await.is_some());
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().password, Some(password));
    assert!(store.find_session(session, sample::now()).await.unwrap().is_some());
}

pub async fn roles_by_claim_and_by_hand_are_kept_apart(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let [acme, globex, initech] = [
        sample::stored_workspace(store).await.id,
        sample::stored_workspace(store).await.id,
        sample::stored_workspace(store).await.id,
    ];
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    for workspace in [acme, globex, initech] {
        join_as(store, &joe, workspace, Role::Owner).await;
    }
    join_as(store, &jane, acme, Role::Viewer).await;
    let grants = |workspace, manual, claimed| MembershipGrants { workspace, manual, claimed };
    let role_in = async |workspace| {
        let members = store.list_members(workspace, sample::first_100()).await.unwrap().items;
        members.into_iter().find(|(member, _)| member.id == jane.id).map(|(_, role)| role)
    };
    let replace = async |memberships: Vec<MembershipGrants>, is_admin: bool| {
        let before = access(store, jane.id).await;
        let account = Account { is_admin, ..before.account.clone() };
        let identity = Some(before.identity.clone().unwrap_or_else(identity));
        let after = AccountAccess { account, admin_by_claim: is_admin, identity, memberships, ..before.clone() };
        assert!(sign_in(store, Some(before), after.clone()).await.is_some());
        assert_eq!(access(store, jane.id).await, after);
    };
    assert_eq!(access(store, jane.id).await.memberships, [grants(acme, Some(Role::Viewer), None)]);
    let both = [grants(acme, Some(Role::Viewer), Some(Role::Owner)), grants(globex, None, Some(Role::Developer))];
    replace(both.to_vec(), true).await;
    assert_eq!((role_in(acme).await, role_in(globex).await), (Some(Role::Owner), Some(Role::Developer)));
    assert!(store.find_account(jane.id).await.unwrap().unwrap().admin_by_claim);

    // Sets a lower role manually. It has no effect while an OpenID claim grants the higher role.
    let audit = event(Some(acme), jane.id, Action::MembershipChanged);
    let membership = ringtrue_domain::account::Membership { workspace: acme, role: Role::Developer };
    store.change_member_role(jane.id, membership, &audit).await.unwrap();
    assert_eq!(role_in(acme).await, Some(Role::Owner));
    // Invites an account that is already a member by claim.
    let pending = invitation(initech, "jane@example.com", Role::Developer);
    invite(store, &pending, 100).await;
    replace(
        vec![
            grants(acme, Some(Role::Developer), Some(Role::Owner)),
            grants(globex, None, Some(Role::Developer)),
            grants(initech, None, Some(Role::Viewer)),
        ],
        true,
    )
    .await;
    let audit = AuditEvent { at: sample::now(), ..event(Some(initech), jane.id, Action::MembershipGranted) };
    store.accept_invitation(pending.id, jane.id, &audit).await.unwrap();
    assert_eq!(role_in(initech).await, Some(Role::Developer));

    // An owner's invitations end when the account is no longer an owner.
    let own = ringtrue_domain::account::Invitation {
        invited_by: Some(jane.id),
        ..invitation(acme, "new@example.com", Role::Viewer)
    };
    invite(store, &own, 100).await;
    replace(vec![grants(acme, Some(Role::Developer), None), grants(initech, Some(Role::Developer), None)], false).await;
    assert_eq!(
        (role_in(acme).await, role_in(globex).await, role_in(initech).await),
        (Some(Role::Developer), None, Some(Role::Developer))
    );
    assert_eq!(store.find_invitation(own.id, sample::now()).await.unwrap(), None);
    let record = store.find_account(jane.id).await.unwrap().unwrap();
    assert!(!record.account.is_admin && !record.admin_by_claim);

    // An account that is an administrator by an OpenID claim is also made one manually.
    replace(access(store, jane.id).await.memberships, true).await;
    let promote = || event(None, jane.id, Action::AccountMadeAdmin);
    assert!(store.make_admin(jane.id, &promote()).await.unwrap());
    assert!(!store.make_admin(jane.id, &promote()).await.unwrap());
    assert!(!store.find_account(jane.id).await.unwrap().unwrap().admin_by_claim);
}

async fn enable_second_factor(store: &dyn Store, account: AccountId) -> bool {
    let password = store.find_account(account).await.unwrap().unwrap().password;
    let factor = NewSecondFactor {
        account,
        seed: SEED,
        step: 100,
        password: password.unwrap_or(PasswordHash("$none$".to_owned())),
        replaces: None,
        session: TokenHash(sample::random()),
        attempts: vec![login_attempt()],
    };
    enable(store, factor).await
}

async fn enable(store: &dyn Store, factor: NewSecondFactor) -> bool {
    let audit = event(None, factor.account, Action::AccountSecondFactorEnabled);
    store.enable_second_factor(factor, &audit).await.unwrap()
}

/// Begins a session with a password and a second factor.
async fn begin(store: &dyn Store, account: AccountId, seed: SealedSeed, proof: SecondFactorProof) -> bool {
    let (session, audit) = (session(account, sample::later(600)), [event(None, account, Action::AccountSignedIn)]);
    let (password, used) = (PasswordHash("$hash$".to_owned()), SecondFactorUse { account, seed, proof });
    let attempts = [login_attempt(), login_attempt()];
    store.begin_session_with_second_factor(session, &password, used, attempts, &audit).await.unwrap()
}

pub async fn code_of_a_second_factor_is_accepted_once(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let password = PasswordHash("$hash$".to_owned());
    assert!(!enable_second_factor(store, jane.id).await, "no password");
    password_set(store, jane.id, &password).await;
    assert_eq!((enable_second_factor(store, jane.id).await, enable_second_factor(store, jane.id).await), (true, false));
    let record = store.find_account(jane.id).await.unwrap().unwrap();
    assert_eq!(record.second_factor, Some(SecondFactor { seed: SEED, last_step: 100, used_recovery_codes: 0 }));
    assert!(store.list_accounts(sample::page(1, 1)).await.unwrap().items[0].has_second_factor);

    // The password alone is not enough, because the account has a second factor.
    let audit = event(None, jane.id, Action::AccountSignedIn);
    let late = session(jane.id, sample::later(600));
    assert!(!store.begin_session(late, &password, login_attempt(), &audit).await.unwrap());

    let totp = |step| SecondFactorProof::Totp { step };
    let recovery = |index| SecondFactorProof::RecoveryCode { index };
    for (proof, is_accepted) in [
        (totp(100), false),
        (totp(101), true),
        (totp(101), false),
        (totp(99), false),
        (totp(103), true),
        (totp(102), false),
        (recovery(0), true),
        (recovery(0), false),
        (recovery(9), true),
        (recovery(9), false),
    ] {
        assert_eq!(begin(store, jane.id, SEED, proof).await, is_accepted, "{proof:?}");
    }
    assert!(!begin(store, jane.id, SealedSeed([8; SealedSeed::LENGTH]), totp(200)).await, "another secret");
    let used = store.find_account(jane.id).await.unwrap().unwrap().second_factor.unwrap();
    assert_eq!((used.last_step, used.used_recovery_codes), (103, 1 | 1 << 9));
    // If several sign-ins use the same code concurrently, only one succeeds.
    let tries = join_all((0..8).map(|_| begin(store, jane.id, SEED, totp(104)))).await;
    assert_eq!(tries.into_iter().filter(|is_accepted| *is_accepted).count(), 1);
}

pub async fn second_factor_is_removed_by_code_or_administrator(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    password_set(store, jane.id, &PasswordHash("$hash$".to_owned())).await;
    let audit = event(None, jane.id, Action::AccountSecondFactorDisabled);
    assert!(!store.remove_second_factor(jane.id, &audit).await.unwrap());
    enable_second_factor(store, jane.id).await;
    let disable = async |step| {
        let used = SecondFactorUse { account: jane.id, seed: SEED, proof: SecondFactorProof::Totp { step } };
        let audit = event(None, jane.id, Action::AccountSecondFactorDisabled);
        store.disable_second_factor(used, login_attempt(), &audit).await.unwrap()
    };
    assert_eq!((disable(100).await, disable(101).await, disable(102).await), (false, true, false));
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().second_factor, None);
    enable_second_factor(store, jane.id).await;
    assert!(store.remove_second_factor(jane.id, &audit).await.unwrap());
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().second_factor, None);
}

pub async fn second_factor_is_replaced_with_password_and_code(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let password = PasswordHash("$hash$".to_owned());
    let here = password_set(store, jane.id, &password).await;
    let found = store.find_session(here, sample::now()).await.unwrap().unwrap();
    assert!(found.has_password && !found.has_second_factor);
    let factor = |seed: u8, password: &PasswordHash, replaces: Option<i64>| NewSecondFactor {
        account: jane.id,
        seed: SealedSeed([seed; SealedSeed::LENGTH]),
        step: 100,
        password: password.clone(),
        replaces: replaces.map(|step| SecondFactorUse {
            account: jane.id,
            seed: SEED,
            proof: SecondFactorProof::Totp { step },
        }),
        session: here,
        attempts: vec![login_attempt(), login_attempt()],
    };
    let elsewhere = session(jane.id, sample::later(600));
    let there = elsewhere.token;
    let audit = event(None, jane.id, Action::AccountSignedIn);
    assert!(store.begin_session(elsewhere, &password, login_attempt(), &audit).await.unwrap());
    let changed = PasswordHash("$changed$".to_owned());
    assert!(!enable(store, factor(7, &changed, None)).await, "another password");
    assert!(store.find_session(there, sample::now()).await.unwrap().is_some());
    assert!(enable(store, factor(7, &password, None)).await);
    assert!(store.find_session(here, sample::now()).await.unwrap().unwrap().has_second_factor);
    assert_eq!(store.find_session(there, sample::now()).await.unwrap(), None, "began without the second factor");

    for (refused, why) in [
        (factor(8, &password, None), "no code"),
        (factor(8, &password, Some(100)), "a used code"),
        (factor(8, &changed, Some(101)), "another password"),
    ] {
        assert!(!enable(store, refused).await, "{why}");
    }
    assert!(enable(store, factor(8, &password, Some(101))).await, "a refusal uses no code");
    let record = store.find_account(jane.id).await.unwrap().unwrap();
    let new = SecondFactor { seed: SealedSeed([8; SealedSeed::LENGTH]), last_step: 100, used_recovery_codes: 0 };
    assert_eq!(record.second_factor, Some(new));
    assert!(!begin(store, jane.id, SEED, SecondFactorProof::Totp { step: 102 }).await, "the old one");
}

pub async fn link_of_an_account_with_a_second_factor_begins_no_session(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let jane = stored(store, "jane@example.com").await;
    let old = password_set(store, jane.id, &PasswordHash("$old$".to_owned())).await;
    enable_second_factor(store, jane.id).await;
    let link = linked(store, jane.id, LinkPurpose::SetPassword).await;
    let password = PasswordHash("$hash$".to_owned());
    let redeem = async |at| {
        let audit = AuditEvent { at, ..event(None, jane.id, Action::AccountPasswordSet) };
        store.redeem_link_without_session(link, jane.id, &password, &audit).await.unwrap()
    };
    assert!(!redeem(sample::later(60)).await, "expired");
    assert_eq!((redeem(sample::now()).await, redeem(sample::now()).await), (true, false));
    assert_eq!(store.find_session(old, sample::now()).await.unwrap(), None);
    assert_eq!(store.find_account(jane.id).await.unwrap().unwrap().password, Some(password));
    assert!(begin(store, jane.id, SEED, SecondFactorProof::Totp { step: 101 }).await);
}

pub async fn other_sessions_end_together(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (jane, joe) = (stored(store, "jane@example.com").await, stored(store, "joe@example.com").await);
    let mut sessions = vec![];
    for account in [jane.id, jane.id, jane.id, joe.id] {
        sessions.push(signed_in(store, account, sample::later(600)).await);
    }
    let end = async || {
        let audit = event(None, jane.id, Action::AccountSessionEnded);
        store.end_other_sessions(jane.id, sessions[1], &audit).await.unwrap()
    };
    assert_eq!((end().await, end().await), (true, false));
    let mut are_valid = vec![];
    for token in &sessions {
        are_valid.push(store.find_session(*token, sample::now()).await.unwrap().is_some());
    }
    assert_eq!(are_valid, [false, true, false, true]);
}
