//! Write ops on checks.

use ringtrue_domain::lifecycle::{self, AnyCheck, CheckId, ErrorCode, Reference};
use ringtrue_engine::ports::{
    CodeHash, ConcludeOutcome, CreateCheckOutcome, Expectation, IdempotentResponse, NewCheck, StoreError,
};

use super::writer::{BatchTransaction, WriteOp};
use crate::{
    check_row_mapping::{self, check_columns, has_redirect_session},
    driver::{ConcludeCheck, NewConcludedCheck, TransactionEnd, Tx, values},
    number_limit,
    queries::idempotency::{claim_lost_error, store_response_sql},
};

impl WriteOp for NewCheck {
    type Output = CreateCheckOutcome;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<CreateCheckOutcome>, StoreError> {
        if let Some(refused) = check_number_limit(tx, self)? {
            return Ok(TransactionEnd::Rollback(refused));
        }
        store_response(tx, self.idempotent_response.as_ref())?;
        insert(tx, self)?;
        tx.defer_counts([check_row_mapping::new_check_usage(self)]);
        Ok(TransactionEnd::Commit(CreateCheckOutcome::Created))
    }
}

/// Stores the response of a request with an idempotency key. Fails if another request has taken the claim over.
fn store_response(tx: &mut BatchTransaction<'_>, response: Option<&IdempotentResponse>) -> Result<(), StoreError> {
    let Some(response) = response else { return Ok(()) };
    let stored = tx.execute(
        store_response_sql!(),
        values![response.sealed_response.as_slice(), response.tenant, response.key_digest, response.claim_id],
    )?;
    if stored == 0 { Err(claim_lost_error()) } else { Ok(()) }
}

/// Applies the per-number limit of a project and product.
fn check_number_limit(tx: &mut BatchTransaction<'_>, new: &NewCheck) -> Result<Option<CreateCheckOutcome>, StoreError> {
    let (Some(claimed), Some(limit)) = (new.check.claimed, new.number_limit) else { return Ok(None) };
    let at = new.check.created_at;
    let rows = tx.query(
        "select created_at from checks where number_hash = $1 and project_id = $2 and created_at > $3 and product = $4
          order by created_at desc limit $5",
        values![
            claimed.hash,
            new.check.project,
            at.as_millisecond() - number_limit::window_millis(limit),
            new.check.product.as_str(),
            i64::from(limit.max_checks),
        ],
    )?;
    let mut instants =
        rows.into_iter().map(|row| row.reader("checks").int("created_at")).collect::<Result<Vec<_>, _>>()?;
    instants.reverse();
    let blocked = number_limit::blocked_until(limit, &instants).filter(|until| at < *until);
    Ok(blocked.map(|retry_at| CreateCheckOutcome::TooManyChecks { retry_at }))
}

fn insert(tx: &mut BatchTransaction<'_>, new: &NewCheck) -> Result<(), StoreError> {
    let check = &new.check;
    let (receiver, code) = match &new.expectation {
        Expectation::Sms { receiver, code } => (Some(receiver.as_str()), Some(*code)),
        Expectation::Device { input } => {
            let insert = "insert into redirect_sessions (check_id, input, wrong_codes) values ($1, $2, 0)";
            tx.execute(insert, values![check.id, input])?;
            (None, None)
        }
    };
    tx.execute(
        "insert into checks (id, project_id, created_at, expires_at, product, mode, status, network_id, receiver,
                             number_hash, number_tail, reference_id, callback_url, code_hash, redirect_url)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        values![
            check.id,
            check.project,
            check.created_at,
            check.expires_at,
            check.product.as_str(),
            check.mode.as_str(),
            check.status().as_str(),
            check.network.as_ref(),
            receiver,
            check.claimed.map(|claimed| claimed.hash),
            check.claimed.map(|claimed| claimed.tail.to_string()),
            check.reference.as_ref().map(Reference::as_str),
            check.callback_url.as_ref(),
            code,
            check.redirect_url.as_ref(),
        ],
    )?;
    let insert = "insert into deadlines (due_at, check_id) values ($1, $2)";
    tx.execute(insert, values![check.expires_at, check.id])?;
    Ok(())
}

impl WriteOp for NewConcludedCheck {
    type Output = ();

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<()>, StoreError> {
        store_response(tx, self.idempotent_response.as_ref())?;
        tx.defer_insert(self);
        tx.defer_counts([self.usage()]);
        Ok(TransactionEnd::Commit(()))
    }
}

pub(super) async fn find(tx: &mut dyn Tx, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
    let row = tx.first(concat!("select ", check_columns!(), " from checks where id = $1"), values![id]).await?;
    row.map(check_row_mapping::check_from_row).transpose()
}

pub(super) async fn find_by_code(tx: &mut dyn Tx, codes: &[CodeHash]) -> Result<Option<AnyCheck>, StoreError> {
    let mut found = Vec::new();
    for &code in codes {
        let sql = concat!("select ", check_columns!(), " from checks where code_hash = $1");
        found.extend(tx.first(sql, values![code]).await?);
    }
    check_row_mapping::prefer_open_check(found.into_iter().map(check_row_mapping::check_from_row))
}

impl WriteOp for ConcludeCheck {
    type Output = ConcludeOutcome;

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<ConcludeOutcome>, StoreError> {
        let conclusion = &self.conclusion;
        let open = "select id, expires_at, pending_at, network_id from checks where id = $1 and concluded_at is null";
        let Some(row) = tx.query_first(open, values![conclusion.check()])? else {
            return Ok(TransactionEnd::Rollback(ConcludeOutcome::AlreadyConcluded));
        };
        let mut row = row.reader("checks");
        row.uuid("id")?;
        let due_at = row.instant("expires_at")?;
        let was_pending = row.instant_or_null("pending_at")?.is_some();
        let network = row.parsed_or_null("network_id")?;
        update_concluded(tx, conclusion)?;
        let delete = "delete from deadlines where due_at = $1 and check_id = $2";
        tx.execute(delete, values![due_at, conclusion.check()])?;
        if has_redirect_session(conclusion.product()) {
            tx.execute("delete from redirect_sessions where check_id = $1", values![conclusion.check()])?;
        }
        if let Some(callback) = &self.callback {
            tx.execute(
                "insert into callbacks
                        (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body)
                 values ($1, $2, $3, $4, 0, 'waiting', $5, $6, $7)",
                values![
                    conclusion.check(),
                    conclusion.project(),
                    conclusion.at(),
                    callback.due_at,
                    conclusion.product().as_str(),
                    &callback.url,
                    &callback.body,
                ],
            )?;
        }
        tx.defer_counts(self.usage_changes(was_pending, network));
        Ok(TransactionEnd::Commit(ConcludeOutcome::Concluded { was_pending }))
    }
}

fn update_concluded(tx: &mut BatchTransaction<'_>, conclusion: &lifecycle::CheckConclusion) -> Result<(), StoreError> {
    let discovered = conclusion.discovered();
    let number = discovered.and_then(|discovered| discovered.number);
    tx.execute(
        "update checks
            set concluded_at = $1, status = $2, matched = $3, error_code = $4,
                number_hash = coalesce($5, number_hash), number_tail = coalesce($6, number_tail), number_sealed = $7,
                connector = coalesce($8, connector)
          where id = $9",
        values![
            conclusion.at(),
            conclusion.status().as_str(),
            conclusion.matched(),
            conclusion.error_code().map(ErrorCode::as_str),
            number.map(|number| number.hash),
            number.map(|number| number.tail.to_string()),
            discovered.and_then(|discovered| discovered.sealed.as_ref()),
            conclusion.connector(),
            conclusion.check(),
        ],
    )?;
    Ok(())
}
