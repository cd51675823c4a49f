//! Credentials: made, listed, deleted. A secret is shown once, when it is made.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::Timestamp;
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    product::{Product, Scope},
    tenancy::{ClientId, ClientSecret, Credential, CredentialOwner, SecretDigest, WorkspaceId},
};

use super::{Condition, ManagementError, Manager, TRIES};
use crate::{
    Engine,
    control_plane::DEAD_CREDENTIALS_KEPT,
    idempotency::Once,
    ports::{Completion, CredentialDeleted, CredentialLimits, CredentialWritten, Found, StoreError},
};

#[derive(Clone, Debug, Default)]
pub struct NewCredential {
    /// All that the owner can have, when absent.
    pub scopes: Option<Vec<Scope>>,
    pub expires_at: Option<Timestamp>,
}

/// A credential with its secret, as only its maker sees it.
#[derive(Clone, Debug)]
pub struct IssuedCredential {
    pub credential: Credential,
    pub secret: ClientSecret,
}

impl Engine {
    pub async fn create_credential(
        &self,
        manager: &Manager,
        owner: CredentialOwner,
        new: NewCredential,
        once: Option<Once<'_, IssuedCredential>>,
    ) -> Result<IssuedCredential, ManagementError> {
        self.authorize(manager, owner).await?;
        if new.expires_at.is_some_and(|at| at <= self.clock().now()) {
            let problem = "`expires_at` must be in the future".to_owned();
            return Err(ManagementError::InvalidMember { member: "/expires_at", problem });
        }
        let scopes = new.scopes.unwrap_or_else(|| every_scope(owner));
        if !scopes.iter().all(|scope| every_scope(owner).contains(scope)) {
            let problem = match owner {
                CredentialOwner::Workspace(_) => "a workspace credential has the scope `management` only",
                CredentialOwner::Project(..) => "a project credential has the scopes of products only",
            };
            return Err(ManagementError::InvalidMember { member: "/scopes", problem: problem.to_owned() });
        }
        let issued = self.issue(owner, scopes, new.expires_at)?;
        let target = issued.credential.client_id.to_string();
        let audit = self.audit(manager, Action::CredentialCreated, target, vec![]);
        let completion = self.completion(once, &issued)?;
        self.store_credential(&issued, &audit, completion.as_ref()).await?;
        Ok(issued)
    }

    async fn store_credential(
        &self,
        issued: &IssuedCredential,
        audit: &AuditEvent,
        completion: Option<&Completion>,
    ) -> Result<(), ManagementError> {
        let most = self.tenant_limits().credentials_per_owner;
        let limits = CredentialLimits { live: most, dead: DEAD_CREDENTIALS_KEPT };
        match self.store().create_credential(&issued.credential, audit, completion, limits).await? {
            CredentialWritten::Done => {
                self.see_own_change().await;
                Ok(())
            }
            CredentialWritten::LimitReached => {
                let owner = match issued.credential.owner {
                    CredentialOwner::Workspace(_) => "workspace",
                    CredentialOwner::Project(..) => "project",
                };
                let detail = format!("the {owner} has {most} live credentials, which is the limit; delete one first");
                Err(ManagementError::LimitReached(detail))
            }
        }
    }

    /// A workspace credential made at the command line.
    pub async fn create_workspace_credential(
        &self,
        workspace: WorkspaceId,
        expires_at: Option<Timestamp>,
    ) -> Result<IssuedCredential, ManagementError> {
        if let Found::Nothing = self.store().find_workspace(workspace, workspace).await? {
            return Err(ManagementError::WorkspaceNotFound);
        }
        self.operator_credential(CredentialOwner::Workspace(workspace), expires_at).await
    }

    /// A credential made by whoever runs the deployment, with every scope that its owner can have.
    pub async fn operator_credential(
        &self,
        owner: CredentialOwner,
        expires_at: Option<Timestamp>,
    ) -> Result<IssuedCredential, ManagementError> {
        let issued = self.issue(owner, every_scope(owner), expires_at)?;
        let target = issued.credential.client_id.to_string();
        let audit = self.audit_by(Actor::Operator, Action::CredentialCreated, owner.workspace(), target, vec![]);
        self.store_credential(&issued, &audit, None).await?;
        Ok(issued)
    }

    pub async fn credential(
        &self,
        manager: &Manager,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<Credential, ManagementError> {
        self.authorize(manager, owner).await?;
        match self.store().find_credential(owner, client_id).await? {
            Found::Mine(credential) => Ok(credential),
            Found::SomeoneElses => Err(ManagementError::NotYours("credential")),
            Found::Nothing => Err(ManagementError::CredentialNotFound),
        }
    }

    pub async fn credentials(
        &self,
        manager: &Manager,
        owner: CredentialOwner,
        page: PageRequest,
    ) -> Result<Page<Credential>, ManagementError> {
        self.authorize(manager, owner).await?;
        Ok(self.store().list_credentials(owner, page).await?)
    }

    /// Deletes a credential. Its tokens die with it.
    pub async fn delete_credential(
        &self,
        manager: &Manager,
        owner: CredentialOwner,
        client_id: &ClientId,
        condition: Condition<'_, Credential>,
    ) -> Result<(), ManagementError> {
        for _ in 0..TRIES {
            let current = self.credential(manager, owner, client_id).await?;
            if !condition(&current) {
                return Err(ManagementError::PreconditionFailed);
            }
            let audit = self.audit(manager, Action::CredentialDeleted, client_id.to_string(), vec![]);
            match self.store().delete_credential(owner, client_id, Some(&current), audit.at, &audit).await? {
                Found::Mine(CredentialDeleted::Done) => {
                    self.see_own_change().await;
                    return Ok(());
                }
                Found::Mine(CredentialDeleted::Stale) => {}
                Found::SomeoneElses => return Err(ManagementError::NotYours("credential")),
                Found::Nothing => return Err(ManagementError::CredentialNotFound),
            }
        }
        Err(ManagementError::Contended)
    }

    /// Draws a new id and secret.
    pub(super) fn issue(
        &self,
        owner: CredentialOwner,
        scopes: Vec<Scope>,
        expires_at: Option<Timestamp>,
    ) -> Result<IssuedCredential, StoreError> {
        let prefix = match owner {
            CredentialOwner::Workspace(_) => "wsp",
            CredentialOwner::Project(..) => "prj",
        };
        let id = format!("{prefix}_{}", BASE64_URL_SAFE_NO_PAD.encode(self.entropy().bytes::<16>()));
        // A recognisable beginning lets secret scanners find a leaked one.
        let secret = format!("rts_{}", BASE64_URL_SAFE_NO_PAD.encode(self.entropy().bytes::<32>()));
        #[expect(clippy::expect_used, reason = "base64url is within the alphabet of client ids")]
        let client_id = id.parse().expect("a drawn client id is one");
        let mut credential = Credential {
            client_id,
            owner,
            secret_digest: SecretDigest([0; 32]),
            scopes,
            created_at: self.clock().now(),
            expires_at,
            deleted_at: None,
            last_used_at: None,
        };
        credential.secret_digest = self.credential_digest(&credential, &secret)?;
        Ok(IssuedCredential { credential, secret: ClientSecret::new(secret) })
    }
}

/// What a credential of this owner can have at most.
pub(super) fn every_scope(owner: CredentialOwner) -> Vec<Scope> {
    match owner {
        CredentialOwner::Workspace(_) => vec![Scope::Management],
        CredentialOwner::Project(..) => Product::ALL.into_iter().map(Scope::Product).collect(),
    }
}
