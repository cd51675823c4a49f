//! Account management by deployment administrators.

use ringtrue_domain::{
    account::{Account, AccountId, Email},
    audit::Action,
    page::{Page, PageRequest},
};

use super::{AccessLink, Accounts};
use crate::actor::Administrator;
use crate::ports::{
    accounts::{AccountChangeOutcome, AccountRecord, AccountSummary, LinkPurpose},
    store::StoreError,
};

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("account not found")]
    NotFound,
    #[error("the account is disabled; enable it first")]
    Disabled,
    #[error("the last administrator of a deployment cannot be removed or disabled")]
    LastAdministrator,
    #[error("the account was changed meanwhile; try again")]
    Conflict,
    #[error("the account was not altered outside Ringtrue; disable it or remove its rights instead")]
    NotAltered,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Accounts {
    /// Creates an administrator account, or makes an existing account an administrator. Returns a link to set the
    /// password. An existing account that becomes an administrator loses its password, second factor, sessions and
    /// links, because they may belong to someone other than the owner of the email address.
    pub async fn invite_admin(&self, administrator: &Administrator, email: &Email) -> Result<AccessLink, AccountError> {
        let account = self.ensure_admin(administrator, email).await?;
        self.create_account_link(administrator, &account, LinkPurpose::SetPassword).await
    }

    /// Like [`invite_admin`](Self::invite_admin), but returns a link that signs in without a password. For trial
    /// deployments (`ringtrue dev`).
    pub async fn create_admin_sign_in_link(&self, email: &Email) -> Result<AccessLink, AccountError> {
        let operator = Administrator::of_command_line();
        let account = self.ensure_admin(&operator, email).await?;
        self.create_account_link(&operator, &account, LinkPurpose::SignIn).await
    }

    pub async fn create_password_reset_link(
        &self,
        administrator: &Administrator,
        account: AccountId,
    ) -> Result<AccessLink, AccountError> {
        let account = self.enabled_account(account).await?;
        self.create_account_link(administrator, &account, LinkPurpose::SetPassword).await
    }

    /// Makes an existing account an administrator, as [`invite_admin`](Self::invite_admin) does. Returns a link to set
    /// the password.
    pub async fn make_admin(
        &self,
        administrator: &Administrator,
        account: AccountId,
    ) -> Result<AccessLink, AccountError> {
        let account = self.enabled_account(account).await?;
        self.invite_admin(administrator, &account.email).await
    }

    pub async fn remove_admin(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = administrator.new_audit_event(&self.context, Action::AccountAdminRemoved, account);
        account_change_result(self.store.remove_admin(account, &audit).await?)
    }

    /// Disables an account, ends its sessions, and invalidates its links and the invitations that it has sent.
    pub async fn disable_account(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = administrator.new_audit_event(&self.context, Action::AccountDisabled, account);
        account_change_result(self.store.disable_account(account, &audit).await?)
    }

    pub async fn enable_account(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = administrator.new_audit_event(&self.context, Action::AccountEnabled, account);
        account_change_result(self.store.enable_account(account, &audit).await?)
    }

    /// Resets an account whose database row was altered outside Ringtrue. The account loses its rights, password,
    /// second factor, identity, memberships, sessions and links.
    pub async fn reset_altered_account(
        &self,
        administrator: &Administrator,
        email: &Email,
    ) -> Result<(), AccountError> {
        // The id of the account is unknown here. The store puts it into the audit event in place of this nil id.
        let unknown = AccountId(uuid::Uuid::nil());
        let audit = administrator.new_audit_event(&self.context, Action::AccountReset, unknown);
        match self.store.reset_altered_account(email, &audit).await? {
            None => Err(AccountError::NotFound),
            Some((_, false)) => Err(AccountError::NotAltered),
            Some((_, true)) => Ok(()),
        }
    }

    /// Lists all accounts, sorted by email address.
    pub async fn list_accounts(
        &self,
        _: &Administrator,
        page: PageRequest,
    ) -> Result<Page<AccountSummary>, StoreError> {
        self.store.list_accounts(page).await
    }

    pub async fn account_id_by_email(&self, _: &Administrator, email: &Email) -> Result<AccountId, AccountError> {
        let found = self.store.find_account_by_email(email).await?;
        found.map(|record| record.account.id).ok_or(AccountError::NotFound)
    }

    async fn enabled_account(&self, account: AccountId) -> Result<Account, AccountError> {
        let found = self.store.find_account(account).await?.ok_or(AccountError::NotFound)?;
        if found.is_disabled { Err(AccountError::Disabled) } else { Ok(found.account) }
    }

    async fn ensure_admin(&self, administrator: &Administrator, email: &Email) -> Result<Account, AccountError> {
        let AccountRecord { account, is_disabled, admin_by_claim, .. } =
            self.find_or_create_account(administrator, email).await?;
        if is_disabled {
            return Err(AccountError::Disabled);
        }
        if !account.is_admin || admin_by_claim {
            let audit = administrator.new_audit_event(&self.context, Action::AccountMadeAdmin, account.id);
            self.store.make_admin(account.id, &audit).await?;
        }
        Ok(account)
    }

    /// Returns the account with this email address, or creates it as an administrator.
    async fn find_or_create_account(
        &self,
        administrator: &Administrator,
        email: &Email,
    ) -> Result<AccountRecord, AccountError> {
        if let Some(known) = self.store.find_account_by_email(email).await? {
            return Ok(known);
        }
        let now = self.context.now();
        let id = AccountId(self.context.new_uuid(now));
        let account = Account { id, email: email.clone(), is_admin: true, created_at: now };
        let audit = administrator.new_audit_event(&self.context, Action::AccountCreated, id);
        if self.store.add_account(&account, &audit).await? {
            return Ok(AccountRecord {
                account,
                password: None,
                is_disabled: false,
                admin_by_claim: false,
                identity: None,
                second_factor: None,
            });
        }
        // Another request has created the account in the meantime.
        self.store.find_account_by_email(email).await?.ok_or(AccountError::NotFound)
    }
}

fn account_change_result(change: AccountChangeOutcome) -> Result<(), AccountError> {
    match change {
        AccountChangeOutcome::Changed | AccountChangeOutcome::Unchanged => Ok(()),
        AccountChangeOutcome::LastAdministrator => Err(AccountError::LastAdministrator),
    }
}
