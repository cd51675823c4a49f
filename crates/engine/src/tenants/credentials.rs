//! Client credentials: create, rotate, list and delete. A secret is returned only when it is created.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
    product::{Product, Scope},
    tenancy::{ClientId, ClientSecret, Credential, CredentialOwner, Name, WorkspaceId},
};
use strum::VariantArray as _;

use super::{MAX_WRITE_ATTEMPTS, Management, ManagementError, Precondition};
use crate::actor::ManagementActor;
use crate::{
    control_plane::MAX_DEAD_CREDENTIALS,
    idempotency::IdempotentRequest,
    ports::{
        idempotency::IdempotentResponse,
        store::{StoreError, TenantLookup},
        tenants::{CreateCredentialOutcome, CredentialLimits, DeleteCredentialOutcome, RotateCredentialOutcome},
    },
    tokens::digest_secret,
};

#[derive(Clone, Debug, Default)]
pub struct NewCredential {
    /// `None`: every scope that the owner can have.
    pub scopes: Option<Vec<Scope>>,
    pub expires_at: Option<Timestamp>,
    pub label: Option<Name>,
}

/// A new credential with its secret. The secret is not stored.
#[derive(Clone, Debug)]
pub struct IssuedCredential {
    pub credential: Credential,
    pub secret: ClientSecret,
}

impl Management {
    pub async fn create_credential(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
        new: NewCredential,
        idempotency: Option<IdempotentRequest<'_, IssuedCredential>>,
    ) -> Result<IssuedCredential, ManagementError> {
        self.authorize(manager, owner).await?;
        if new.expires_at.is_some_and(|at| at <= self.context.now()) {
            let problem = "`expires_at` must be in the future".to_owned();
            return Err(ManagementError::InvalidMember { member: "/expires_at", problem });
        }
        let scopes = new.scopes.unwrap_or_else(|| all_scopes(owner));
        if !scopes.iter().all(|scope| all_scopes(owner).contains(scope)) {
            let problem = match owner {
                CredentialOwner::Workspace(_) => "a workspace credential can have only the scope `management`",
                CredentialOwner::Project(..) => "a project credential can have only the scopes of products",
            };
            return Err(ManagementError::InvalidMember { member: "/scopes", problem: problem.to_owned() });
        }
        let mut issued = self.generate_credential(owner, scopes, new.expires_at, &manager.actor);
        issued.credential.label = new.label;
        let target = issued.credential.client_id.to_string();
        let audit = manager.new_audit_event(&self.context, Action::CredentialCreated, target, vec![]);
        let completion = self.idempotency.seal_response(idempotency.as_ref(), &issued)?;
        self.store_credential(&issued, &audit, completion.as_ref()).await?;
        Ok(issued)
    }

    async fn store_credential(
        &self,
        issued: &IssuedCredential,
        audit: &AuditEvent,
        completion: Option<&IdempotentResponse>,
    ) -> Result<(), ManagementError> {
        let limits = self.credential_limits();
        match self.store.create_credential(&issued.credential, audit, completion, limits).await? {
            CreateCredentialOutcome::Created => {
                self.context.refresh_after_write().await;
                Ok(())
            }
            CreateCredentialOutcome::LimitReached => Err(self.too_many_credentials(issued.credential.owner)),
        }
    }

    fn credential_limits(&self) -> CredentialLimits {
        let max_live = self.context.settings.tenant_limits.credentials_per_owner;
        CredentialLimits { max_live, max_dead: MAX_DEAD_CREDENTIALS }
    }

    fn too_many_credentials(&self, owner: CredentialOwner) -> ManagementError {
        let owner = match owner {
            CredentialOwner::Workspace(_) => "workspace",
            CredentialOwner::Project(..) => "project",
        };
        let max = self.credential_limits().max_live;
        let detail = format!("the {owner} has reached its limit of {max} live credentials; delete one first");
        ManagementError::LimitReached(detail)
    }

    /// Creates a credential with the scopes, label and lifetime of another one. The old credential stays valid for
    /// `overlap`, so that clients can switch without an interruption.
    pub async fn rotate_credential(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
        client_id: &ClientId,
        overlap: SignedDuration,
    ) -> Result<IssuedCredential, ManagementError> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let old = self.credential(manager, owner, client_id).await?;
            let now = self.context.now();
            if !old.is_active(now) {
                return Err(ManagementError::CredentialNotFound);
            }
            let retires_at = now.saturating_add(overlap).unwrap_or(Timestamp::MAX);
            let retires_at = old.valid_until().map_or(retires_at, |end| end.min(retires_at));
            // The new credential gets the lifetime of the old one: 90 days from now if the old one was created for 90
            // days.
            let lifetime = old.expires_at.map(|end| end.duration_since(old.created_at));
            let expires_at = lifetime.map(|lifetime| now.saturating_add(lifetime).unwrap_or(Timestamp::MAX));
            let mut issued = self.generate_credential(owner, old.scopes.clone(), expires_at, &manager.actor);
            issued.credential.label.clone_from(&old.label);
            let changes = vec![format!("replaces={client_id}"), format!("overlap_until={retires_at:.3}")];
            let target = issued.credential.client_id.to_string();
            let audit = manager.new_audit_event(&self.context, Action::CredentialCreated, target, changes);
            let (new, limits) = (&issued.credential, self.credential_limits());
            let outcome = match self.store.rotate_credential(&old, new, retires_at, &audit, limits).await {
                // The row was altered outside Ringtrue. No node accepts the credential, so there is nothing to replace.
                Err(StoreError::Altered(_)) => return Err(ManagementError::CredentialNotFound),
                outcome => outcome?,
            };
            match outcome {
                RotateCredentialOutcome::Rotated => {
                    self.context.refresh_after_write().await;
                    return Ok(issued);
                }
                RotateCredentialOutcome::Stale => {}
                RotateCredentialOutcome::LimitReached => return Err(self.too_many_credentials(owner)),
            }
        }
        Err(ManagementError::ConcurrentUpdates)
    }

    /// Creates a workspace credential. Used by the command line.
    pub async fn create_workspace_credential_as_operator(
        &self,
        workspace: WorkspaceId,
        expires_at: Option<Timestamp>,
    ) -> Result<IssuedCredential, ManagementError> {
        if let TenantLookup::NotFound = self.store.find_workspace(workspace, workspace).await? {
            return Err(ManagementError::WorkspaceNotFound);
        }
        self.create_credential_as_operator(CredentialOwner::Workspace(workspace), expires_at).await
    }

    /// Creates a credential with every scope that its owner can have. The audit log names those who run the server
    /// (`operator`) as the actor.
    pub async fn create_credential_as_operator(
        &self,
        owner: CredentialOwner,
        expires_at: Option<Timestamp>,
    ) -> Result<IssuedCredential, ManagementError> {
        let issued = self.generate_credential(owner, all_scopes(owner), expires_at, &Actor::Operator);
        let target = issued.credential.client_id.to_string();
        let operator = ManagementActor::of_command_line(owner.workspace());
        let audit = operator.new_audit_event(&self.context, Action::CredentialCreated, target, vec![]);
        self.store_credential(&issued, &audit, None).await?;
        Ok(issued)
    }

    pub async fn credential(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
        client_id: &ClientId,
    ) -> Result<Credential, ManagementError> {
        self.authorize(manager, owner).await?;
        let found = self.store.find_credential(owner, client_id).await?;
        found.found_or(ManagementError::OtherOwner("credential"), ManagementError::CredentialNotFound)
    }

    pub async fn list_credentials(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
        page: PageRequest,
    ) -> Result<Page<Credential>, ManagementError> {
        self.authorize(manager, owner).await?;
        Ok(self.store.list_credentials(owner, page).await?)
    }

    /// Deletes a credential. Its tokens are rejected from then on. The last live credential of a workspace cannot be
    /// deleted, because the workspace's backends need a credential to create another one.
    pub async fn delete_credential(
        &self,
        manager: &ManagementActor,
        owner: CredentialOwner,
        client_id: &ClientId,
        condition: Precondition<'_, Credential>,
    ) -> Result<(), ManagementError> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let current = self.credential(manager, owner, client_id).await?;
            if !condition(&current) {
                return Err(ManagementError::PreconditionFailed);
            }
            let audit =
                manager.new_audit_event(&self.context, Action::CredentialDeleted, client_id.to_string(), vec![]);
            match self.store.delete_credential(owner, client_id, Some(&current), audit.at, &audit).await? {
                TenantLookup::Found(DeleteCredentialOutcome::Deleted) => {
                    self.context.refresh_after_write().await;
                    return Ok(());
                }
                TenantLookup::Found(DeleteCredentialOutcome::Stale) => {}
                TenantLookup::Found(DeleteCredentialOutcome::LastOfWorkspace) => {
                    return Err(ManagementError::LastCredential);
                }
                TenantLookup::OtherTenant => return Err(ManagementError::OtherOwner("credential")),
                TenantLookup::NotFound => return Err(ManagementError::CredentialNotFound),
            }
        }
        Err(ManagementError::ConcurrentUpdates)
    }

    /// Generates a credential with a new client id and secret. Does not store it.
    pub(super) fn generate_credential(
        &self,
        owner: CredentialOwner,
        scopes: Vec<Scope>,
        expires_at: Option<Timestamp>,
        creator: &Actor,
    ) -> IssuedCredential {
        let prefix = match owner {
            CredentialOwner::Workspace(_) => "wsp",
            CredentialOwner::Project(..) => "prj",
        };
        let id = format!("{prefix}_{}", BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<16>()));
        // The prefix lets secret scanners find a leaked secret.
        let secret = format!("rts_{}", BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<32>()));
        #[expect(clippy::expect_used, reason = "base64url is within the alphabet of client ids")]
        let client_id = id.parse().expect("a generated client id is valid");
        let credential = Credential {
            client_id,
            owner,
            secret_digest: digest_secret(&secret),
            scopes,
            label: None,
            created_at: self.context.now(),
            created_by: creator.clone(),
            expires_at,
            retires_at: None,
            deleted_at: None,
            last_used_at: None,
        };
        IssuedCredential { credential, secret: ClientSecret::new(secret) }
    }
}

pub(super) fn all_scopes(owner: CredentialOwner) -> Vec<Scope> {
    match owner {
        CredentialOwner::Workspace(_) => vec![Scope::Management],
        CredentialOwner::Project(..) => Product::VARIANTS.iter().copied().map(Scope::Product).collect(),
    }
}
