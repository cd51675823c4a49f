//! Redirect sessions of silent checks.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, Sealed},
    network::NetworkId,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    BeginRedirect, ConsumedState, RedirectSession, RedirectSessionRecord, RedirectSessionStore, SealedVerdict,
    StoreError, TokenHash, UsageDelta,
};

use super::SqlStore;
use crate::{
    check_row_mapping,
    driver::{ConsumeState, Database, StoreVerdict, TransactionEnd, values},
    row::{Row, RowReader},
};

/// Columns of a redirect session, read after those of its check.
macro_rules! redirect_session_columns {
    () => {
        "redirect_sessions.input, redirect_sessions.code_hash, redirect_sessions.verdict, redirect_sessions.wrong_codes"
    };
}
pub(crate) use redirect_session_columns;

#[async_trait]
impl<D: Database> RedirectSessionStore for SqlStore<D> {
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError> {
        let row = self.database.find_redirect_session(check).await?;
        row.map(|row| session_from_row(row).map(|(record, _)| record)).transpose()
    }

    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError> {
        self.database.begin_redirect(redirect).await
    }

    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError> {
        let Some(row) = self.database.consume_state(ConsumeState { check, state_hash: state }).await? else {
            return Ok(None);
        };
        let (record, mut rest) = session_from_row(row)?;
        Ok(Some(ConsumedState { record, pending_redirect: Sealed(rest.bytes("pending_redirect")?) }))
    }

    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError> {
        self.database.store_verdict(StoreVerdict { check, verdict }).await
    }

    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let row = tx
                        .first(
                            "update redirect_sessions set wrong_codes = wrong_codes + 1 where check_id = $1
                             returning wrong_codes",
                            values![check],
                        )
                        .await?;
                    row.map(|row| wrong_codes(&mut row.reader("redirect_sessions")))
                        .transpose()
                        .map(TransactionEnd::Commit)
                })
            })
            .await
    }
}

/// Reads a check and its redirect session, and returns the reader for the columns after them.
fn session_from_row(row: Row) -> Result<(RedirectSessionRecord, RowReader), StoreError> {
    let (check, mut row) = check_row_mapping::check_and_rest_from_row(row)?;
    let Some(input) = row.bytes_or_null("input")?.map(Sealed) else {
        return Ok((RedirectSessionRecord { check, session: None }, row));
    };
    let verdict = match (row.bytes_or_null("code_hash")?, row.bytes_or_null("verdict")?) {
        (Some(code), Some(verdict)) => {
            let code = code.try_into().map_err(|_| row.corrupt("code_hash", "not 32 bytes"))?;
            Some(SealedVerdict { code_hash: TokenHash(code), verdict: Sealed(verdict) })
        }
        (None, None) => None,
        _ => return Err(row.corrupt("verdict", "requires a code hash")),
    };
    let session = RedirectSession { input, verdict, wrong_codes: wrong_codes(&mut row)? };
    Ok((RedirectSessionRecord { check, session: Some(session) }, row))
}

fn wrong_codes(row: &mut RowReader) -> Result<u32, StoreError> {
    let count = row.int("wrong_codes")?;
    u32::try_from(count).map_err(|_| row.corrupt("wrong_codes", "not a count"))
}

/// The counter changes of a redirect, if any. `before` has the check's columns `id, project_id, product, created_at,
/// status, network_id`.
pub(crate) fn redirect_usage_changes(
    before: Row,
    redirect: &BeginRedirect,
) -> Result<Option<[UsageDelta; 2]>, StoreError> {
    let mut row = before.reader("checks");
    row.uuid("id")?;
    let before = UsageDelta {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        at: row.instant("created_at")?,
        status: row.parsed("status")?,
        matched: None,
        network: row.parsed_or_null::<NetworkId>("network_id")?,
        delta: -1,
    };
    let after = UsageDelta {
        status: CheckStatus::Pending,
        network: Some(redirect.network.clone()),
        delta: 1,
        ..before.clone()
    };
    let is_changed = (before.status, &before.network) != (after.status, &after.network);
    Ok(is_changed.then_some([before, after]))
}
