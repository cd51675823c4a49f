//! Accounts as those who run the deployment see and change them.

use ringtrue_domain::{
    account::{Account, AccountId, Email},
    audit::{Action, AuditEvent},
    id::time_ordered,
    page::{Page, PageRequest},
};

use super::{AccessLink, Administrator};
use crate::{
    Engine,
    ports::{AccountChange, AccountRecord, AccountSummary, LinkPurpose, StoreError},
};

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("there is no such account")]
    NotFound,
    #[error("the account is disabled; enable it first")]
    Disabled,
    #[error("a deployment keeps at least one administrator")]
    LastAdministrator,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Creates an administrator, or makes an account one, and gives a link to choose a password. The password, sessions
    /// and links of an account that was none before are removed: nobody has proved who has them.
    pub async fn invite_admin(&self, administrator: &Administrator, email: &Email) -> Result<AccessLink, AccountError> {
        let account = self.admin(administrator, email).await?;
        self.new_account_link(administrator, &account, LinkPurpose::SetPassword).await
    }

    /// The same with a link that signs in without a password: for a deployment to try things out with.
    pub async fn let_admin_in(&self, email: &Email) -> Result<AccessLink, AccountError> {
        let operator = Administrator::operator();
        let account = self.admin(&operator, email).await?;
        self.new_account_link(&operator, &account, LinkPurpose::SignIn).await
    }

    /// A link to choose a new password for an account.
    pub async fn reset_password(
        &self,
        administrator: &Administrator,
        account: AccountId,
    ) -> Result<AccessLink, AccountError> {
        let account = self.enabled_account(account).await?;
        self.new_account_link(administrator, &account, LinkPurpose::SetPassword).await
    }

    /// Makes an account an administrator, and gives the link by which its owner chooses a new password.
    pub async fn make_admin(
        &self,
        administrator: &Administrator,
        account: AccountId,
    ) -> Result<AccessLink, AccountError> {
        let account = self.enabled_account(account).await?;
        self.invite_admin(administrator, &account.email).await
    }

    pub async fn remove_admin(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = self.administrators_event(administrator, Action::AccountAdminRemoved, account);
        changed(self.store().remove_admin(account, &audit).await?)
    }

    /// Disables an account: its sessions and links end, and nobody signs in with it.
    pub async fn disable_account(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = self.administrators_event(administrator, Action::AccountDisabled, account);
        changed(self.store().disable_account(account, &audit).await?)
    }

    pub async fn enable_account(&self, administrator: &Administrator, account: AccountId) -> Result<(), AccountError> {
        let audit = self.administrators_event(administrator, Action::AccountEnabled, account);
        changed(self.store().enable_account(account, &audit).await?)
    }

    /// All accounts, by their addresses.
    pub async fn accounts(&self, _: &Administrator, page: PageRequest) -> Result<Page<AccountSummary>, StoreError> {
        self.store().accounts(page).await
    }

    /// The account with an address.
    pub async fn account_of(&self, _: &Administrator, email: &Email) -> Result<AccountId, AccountError> {
        let found = self.store().account_by_email(email).await?;
        found.map(|record| record.account.id).ok_or(AccountError::NotFound)
    }

    pub(super) fn administrators_event(
        &self,
        administrator: &Administrator,
        action: Action,
        account: AccountId,
    ) -> AuditEvent {
        let (actor, request_id) = administrator.named();
        AuditEvent { request_id, ..self.account_event(actor, action, account) }
    }

    async fn enabled_account(&self, account: AccountId) -> Result<Account, AccountError> {
        let found = self.store().account(account).await?.ok_or(AccountError::NotFound)?;
        if found.is_disabled { Err(AccountError::Disabled) } else { Ok(found.account) }
    }

    async fn admin(&self, administrator: &Administrator, email: &Email) -> Result<Account, AccountError> {
        let AccountRecord { account, is_disabled, .. } = self.account_or_new(administrator, email).await?;
        if is_disabled {
            return Err(AccountError::Disabled);
        }
        if !account.is_admin {
            let audit = self.administrators_event(administrator, Action::AccountMadeAdmin, account.id);
            self.store().make_admin(account.id, &audit).await?;
        }
        Ok(account)
    }

    /// Returns the account with this address, or creates it as an administrator.
    async fn account_or_new(
        &self,
        administrator: &Administrator,
        email: &Email,
    ) -> Result<AccountRecord, AccountError> {
        if let Some(known) = self.store().account_by_email(email).await? {
            return Ok(known);
        }
        let now = self.clock().now();
        let id = AccountId(time_ordered(now, self.entropy().bytes()));
        let account = Account { id, email: email.clone(), is_admin: true, created_at: now };
        let audit = self.administrators_event(administrator, Action::AccountCreated, id);
        if self.store().add_account(&account, &audit).await? {
            return Ok(AccountRecord { account, password: None, is_disabled: false });
        }
        // Another request created it in the meantime.
        self.store().account_by_email(email).await?.ok_or(AccountError::NotFound)
    }
}

fn changed(change: AccountChange) -> Result<(), AccountError> {
    match change {
        AccountChange::Done | AccountChange::Unchanged => Ok(()),
        AccountChange::LastAdministrator => Err(AccountError::LastAdministrator),
    }
}
