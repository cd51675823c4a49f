//! Sign-in by OpenID Connect: finds or creates the account of an identity, and grants the access rights that the
//! configuration assigns to the values of a claim (`groups` by default).
//!
//! At its first sign-in, an identity is linked to the account with its email address, which the provider must have
//! verified. From then on, issuer and subject identify the account, even if the address changes. Each sign-in replaces
//! the rights that the claim granted at earlier sign-ins. Rights from invitations or other users stay.

use std::collections::BTreeMap;

use ringtrue_domain::{
    account::{Account, AccountId, Email, Role},
    audit::{Action, Actor, AuditEvent},
    tenancy::WorkspaceId,
};

use super::{AccountError, Accounts, ClientInfo, RejectedFactor, SessionToken, sessions::SignInMethod};
use crate::actor::Administrator;
use crate::ports::{
    accounts::{AccountAccess, LinkedIdentity, MembershipGrants, OpenIdSignIn},
    hashes::TokenHash,
    store::StoreError,
};

/// Maximum number of tries to update an account while other requests change it at the same time.
const MAX_UPDATE_ATTEMPTS: usize = 3;

/// A verified identity from the OpenID Connect provider. Masked in debug output, because it is personal data.
#[derive(Clone, derive_more::Debug)]
#[debug("ExternalIdentity(…)")]
pub struct ExternalIdentity {
    pub issuer: String,
    pub subject: String,
    pub email: Option<Email>,
    /// Whether the provider has verified that the email address belongs to the subject.
    pub is_email_verified: bool,
    /// Values of the configured claim that grants access rights (`groups` by default).
    pub roles: Vec<String>,
}

/// Decides which identities of the configured provider get an account, and which rights the values of its roles claim
/// grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityPolicy {
    /// Whether identities without an account and without an invitation get an account.
    pub create_accounts: bool,
    /// Claim values that make an account an administrator.
    pub administrators: Vec<String>,
    pub workspaces: Vec<WorkspaceClaim>,
}

/// A claim value that makes an account a member of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceClaim {
    pub value: String,
    pub workspace: WorkspaceId,
    pub role: Role,
}

/// The access rights that the claim of an identity grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ClaimedAccess {
    is_admin: bool,
    roles: BTreeMap<WorkspaceId, Role>,
}

impl IdentityPolicy {
    /// Returns whether any claim value grants access rights.
    pub fn grants_access(&self) -> bool {
        !self.administrators.is_empty() || !self.workspaces.is_empty()
    }

    fn claimed_access(&self, values: &[String]) -> ClaimedAccess {
        let mut roles = BTreeMap::new();
        for claim in self.workspaces.iter().filter(|claim| values.contains(&claim.value)) {
            let role = roles.entry(claim.workspace).or_insert(claim.role);
            *role = (*role).max(claim.role);
        }
        ClaimedAccess { is_admin: self.administrators.iter().any(|value| values.contains(value)), roles }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("the provider has not confirmed your email address")]
    UnverifiedEmail,
    #[error("you have no account; ask an administrator or an owner of your workspace to invite you")]
    NoAccount,
    #[error("the account with your email address is linked to another identity; an administrator can unlink it")]
    OtherIdentity,
    #[error("your account is disabled")]
    Disabled,
    #[error("your account was changed meanwhile; sign in again")]
    Conflict,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Accounts {
    /// Signs in to the account of an identity. If the identity has no account, creates one, provided that the policy or
    /// an invitation to the identity's email address permits it.
    pub async fn sign_in_with_identity(
        &self,
        identity: &ExternalIdentity,
        policy: &IdentityPolicy,
        invitation_token: Option<&str>,
        client: &ClientInfo,
    ) -> Result<SessionToken, IdentityError> {
        let hash = TokenHash(self.context.keyed_hash(&[
            b"identity",
            identity.issuer.as_bytes(),
            identity.subject.as_bytes(),
        ])?);
        let linked = LinkedIdentity { hash, issuer: identity.issuer.clone() };
        let email = identity.email.as_ref().filter(|_| identity.is_email_verified);
        let claimed = self.known_workspaces_only(policy.claimed_access(&identity.roles));
        let reject = |found: Option<&AccountAccess>, error| {
            self.record_failed_sign_in(found.map(|found| found.account.id), RejectedFactor::OpenIdConnect);
            Err(error)
        };
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let before = self.store.find_access_by_identity(hash, email).await?;
            let current = match (&before, email) {
                (Some(found), _) if found.identity.as_ref().is_some_and(|other| other.hash != hash) => {
                    return reject(Some(found), IdentityError::OtherIdentity);
                }
                (Some(found), _) if found.is_disabled => return reject(Some(found), IdentityError::Disabled),
                (Some(found), _) => found.clone(),
                (None, None) => return reject(None, IdentityError::UnverifiedEmail),
                (None, Some(email)) => {
                    if !policy.create_accounts && !self.is_invited(invitation_token, email).await? {
                        return reject(None, IdentityError::NoAccount);
                    }
                    self.new_account_access(email)
                }
            };
            let account = current.account.id;
            let after =
                AccountAccess { identity: Some(linked.clone()), ..access_with_claims(current.clone(), &claimed) };
            let new_event = |action| self.context.new_account_audit_event(Actor::Account(account), action, account);
            let mut audit = vec![];
            audit.extend(before.is_none().then(|| new_event(Action::AccountCreated)));
            audit.extend(current.identity.is_none().then(|| new_event(Action::AccountIdentityLinked)));
            audit.extend(self.access_events(&Actor::System, None, &current, &after));
            audit.push(new_event(Action::AccountSignedIn));
            let (token, session) = self.new_session(account, SignInMethod::Identity, client)?;
            if self.store.sign_in_with_identity(OpenIdSignIn { before, after, session }, &audit).await? {
                return Ok(token);
            }
        }
        Err(IdentityError::Conflict)
    }

    /// Unlinks the identity of an account. Withdraws the rights that the claim granted, ends the account's sessions,
    /// and invalidates its links. The next sign-in by OpenID Connect with the account's address links an identity
    /// again.
    pub async fn unlink_identity(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let before = self.store.find_access(account).await?.ok_or(AccountError::NotFound)?;
            if before.identity.is_none() {
                return Ok(());
            }
            let after =
                AccountAccess { identity: None, ..access_with_claims(before.clone(), &ClaimedAccess::default()) };
            let mut audit =
                vec![administrator.new_audit_event(&self.context, Action::AccountIdentityUnlinked, account)];
            let (actor, request_id) = administrator.actor_and_request_id();
            audit.extend(self.access_events(&actor, request_id.as_deref(), &before, &after));
            if self.store.unlink_identity(&before, &after, &audit).await? {
                return Ok(());
            }
        }
        Err(AccountError::Conflict)
    }

    fn new_account_access(&self, email: &Email) -> AccountAccess {
        let now = self.context.now();
        let id = AccountId(self.context.new_uuid(now));
        AccountAccess {
            account: Account { id, email: email.clone(), is_admin: false, created_at: now },
            is_disabled: false,
            admin_by_claim: false,
            identity: None,
            memberships: vec![],
        }
    }

    async fn is_invited(&self, token: Option<&str>, email: &Email) -> Result<bool, IdentityError> {
        let Some(token) = token else { return Ok(false) };
        match self.find_invitation(token).await {
            Ok(pending) => Ok(pending.invitation.email == *email),
            Err(super::InvitationError::Store(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// Drops roles in workspaces that do not exist. The configuration can name such workspaces, because it is not
    /// checked against the database.
    fn known_workspaces_only(&self, mut claimed: ClaimedAccess) -> ClaimedAccess {
        claimed.roles.retain(|workspace, _| {
            let is_known = self.context.control_plane.workspace(*workspace).is_some();
            if !is_known {
                tracing::warn!(%workspace, "`console.openid_connect.workspaces` names an unknown workspace");
            }
            is_known
        });
        claimed
    }

    fn access_events(
        &self,
        actor: &Actor,
        request_id: Option<&str>,
        before: &AccountAccess,
        after: &AccountAccess,
    ) -> Vec<AuditEvent> {
        let account = after.account.id;
        let new_event = |action, workspace| AuditEvent {
            request_id: request_id.map(str::to_owned),
            ..self.context.new_audit_event(actor.clone(), action, workspace, account.to_string())
        };
        let admin_change = match (before.account.is_admin, after.account.is_admin) {
            (false, true) => Some(Action::AccountMadeAdmin),
            (true, false) => Some(Action::AccountAdminRemoved),
            _ => None,
        };
        let membership_changes = role_changes(before, after).into_iter().map(|(workspace, action)| {
            let changes = if action == Action::MembershipChanged { vec!["role".to_owned()] } else { vec![] };
            AuditEvent { changes, ..new_event(action, Some(workspace)) }
        });
        admin_change.map(|action| new_event(action, None)).into_iter().chain(membership_changes).collect()
    }
}

/// Replaces the rights that came from the claim with `claimed`. Keeps the rights that users have granted.
fn access_with_claims(before: AccountAccess, claimed: &ClaimedAccess) -> AccountAccess {
    let is_manual_admin = before.account.is_admin && !before.admin_by_claim;
    let mut grants: BTreeMap<WorkspaceId, MembershipGrants> = before
        .memberships
        .iter()
        .map(|grants| (grants.workspace, MembershipGrants { claimed: None, ..*grants }))
        .collect();
    for (workspace, role) in &claimed.roles {
        let none = MembershipGrants { workspace: *workspace, manual: None, claimed: None };
        grants.entry(*workspace).or_insert(none).claimed = Some(*role);
    }
    AccountAccess {
        account: Account { is_admin: is_manual_admin || claimed.is_admin, ..before.account },
        admin_by_claim: !is_manual_admin && claimed.is_admin,
        memberships: grants.into_values().filter(|grants| grants.role().is_some()).collect(),
        ..before
    }
}

fn role_changes(before: &AccountAccess, after: &AccountAccess) -> Vec<(WorkspaceId, Action)> {
    let roles = |access: &AccountAccess| -> BTreeMap<WorkspaceId, Role> {
        access.memberships.iter().filter_map(|grants| Some((grants.workspace, grants.role()?))).collect()
    };
    let (old, new) = (roles(before), roles(after));
    let granted = new.iter().filter_map(|(workspace, role)| match old.get(workspace) {
        None => Some((*workspace, Action::MembershipGranted)),
        Some(known) if known != role => Some((*workspace, Action::MembershipChanged)),
        Some(_) => None,
    });
    let withdrawn = old.keys().filter(|workspace| !new.contains_key(*workspace));
    granted.chain(withdrawn.map(|workspace| (*workspace, Action::MembershipWithdrawn))).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId(Uuid::from_u128(number))
    }

    fn grants(number: u128, manual: Option<Role>, claimed: Option<Role>) -> MembershipGrants {
        MembershipGrants { workspace: workspace(number), manual, claimed }
    }

    fn access(is_admin: bool, admin_by_claim: bool, memberships: Vec<MembershipGrants>) -> AccountAccess {
        let account = Account {
            id: AccountId(Uuid::from_u128(9)),
            email: "jane@example.com".parse().unwrap(),
            is_admin,
            created_at: Timestamp::UNIX_EPOCH,
        };
        AccountAccess { account, is_disabled: false, admin_by_claim, identity: None, memberships }
    }

    #[test]
    fn highest_role_of_all_matching_values_applies() {
        let claim =
            |value: &str, number, role| WorkspaceClaim { value: value.into(), workspace: workspace(number), role };
        let policy = IdentityPolicy {
            create_accounts: false,
            administrators: vec!["admins".into()],
            workspaces: vec![
                claim("team", 1, Role::Viewer),
                claim("leads", 1, Role::Owner),
                claim("team", 2, Role::Developer),
                claim("other", 3, Role::Owner),
            ],
        };
        let access = policy.claimed_access(&["team".into(), "leads".into(), "unknown".into()]);
        let roles = BTreeMap::from([(workspace(1), Role::Owner), (workspace(2), Role::Developer)]);
        assert_eq!(access, ClaimedAccess { is_admin: false, roles });
        assert!(policy.claimed_access(&["admins".into()]).is_admin);
        assert_eq!(policy.claimed_access(&[]), ClaimedAccess::default());
    }

    #[test]
    fn claims_neither_remove_nor_replace_manual_rights() {
        let before = access(
            false,
            false,
            vec![
                grants(1, Some(Role::Viewer), None),
                grants(2, None, Some(Role::Owner)),
                grants(3, Some(Role::Developer), Some(Role::Owner)),
            ],
        );
        let roles = BTreeMap::from([(workspace(1), Role::Owner), (workspace(4), Role::Viewer)]);
        let after = access_with_claims(before.clone(), &ClaimedAccess { is_admin: true, roles });
        assert_eq!(
            after.memberships,
            [
                grants(1, Some(Role::Viewer), Some(Role::Owner)),
                grants(3, Some(Role::Developer), None),
                grants(4, None, Some(Role::Viewer)),
            ]
        );
        assert!(after.account.is_admin && after.admin_by_claim);
        assert_eq!(
            role_changes(&before, &after),
            [
                (workspace(1), Action::MembershipChanged),
                (workspace(3), Action::MembershipChanged),
                (workspace(4), Action::MembershipGranted),
                (workspace(2), Action::MembershipWithdrawn),
            ]
        );
        let without = access_with_claims(after, &ClaimedAccess::default());
        assert_eq!(without.memberships, [grants(1, Some(Role::Viewer), None), grants(3, Some(Role::Developer), None)]);
        assert!(!without.account.is_admin && !without.admin_by_claim);
    }

    #[test]
    fn manual_administrator_stays_one_without_the_claim() {
        let before = access(true, false, vec![]);
        let with = access_with_claims(before, &ClaimedAccess { is_admin: true, roles: BTreeMap::new() });
        assert!(with.account.is_admin && !with.admin_by_claim);
        assert!(access_with_claims(with, &ClaimedAccess::default()).account.is_admin);
    }
}
