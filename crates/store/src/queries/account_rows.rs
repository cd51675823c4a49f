//! Reads the columns of an account from the result of a join with another table.

use ringtrue_domain::account::{Account, AccountId};
use ringtrue_engine::ports::store::StoreError;

use crate::row::RowReader;

macro_rules! account_columns {
    () => {
        "accounts.id, accounts.email, accounts.is_admin, accounts.created_at"
    };
}
pub(super) use account_columns;

pub(super) fn read_account(row: &mut RowReader) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.uuid("id")?),
        email: row.parsed("email")?,
        is_admin: row.boolean("is_admin")?,
        created_at: row.instant("created_at")?,
    })
}
