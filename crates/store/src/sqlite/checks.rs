//! Checks, one at a time.

use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode, Reference},
    reverse_sms::ReverseSmsCheck,
};
use ringtrue_engine::ports::{Admitted, CodeHash, NewReverseSms, Recorded, StoreError};

use crate::{
    check_rows::{self, check_columns},
    driver::{Conclusion, Ending, Tx, values},
    guard,
    verbs::{idempotency, usage},
};

pub(super) async fn create(tx: &mut dyn Tx, new: &NewReverseSms) -> Result<Ending<Admitted>, StoreError> {
    let refused = pass_guard(tx, new).await?;
    if let Some(refused) = refused {
        return Ok(Ending::Rollback(refused));
    }
    idempotency::complete(tx, new.completion.as_ref()).await?;
    insert(tx, new).await?;
    usage::change(tx, &[check_rows::count_of(new)]).await?;
    Ok(Ending::Commit(Admitted::Stored))
}

/// Counts the checks that this project has about the number.
async fn pass_guard(tx: &mut dyn Tx, new: &NewReverseSms) -> Result<Option<Admitted>, StoreError> {
    let Some(claimed) = new.check.claimed else { return Ok(None) };
    let at = new.check.created_at;
    let rows = tx
        .run(
            "select created_at from checks where number_hash = $1 and project_id = $2 and created_at > $3
              order by created_at desc limit $4",
            values![
                claimed.hash,
                new.check.project,
                at.as_millisecond() - guard::window_millis(new.guard),
                i64::from(new.guard.creates),
            ],
        )
        .await?;
    let mut instants = rows.into_iter().map(|row| row.of("checks").int("created_at")).collect::<Result<Vec<_>, _>>()?;
    instants.reverse();
    let closed = guard::closed_until(new.guard, &instants).filter(|until| at < *until);
    Ok(closed.map(|until| Admitted::TooOften { until }))
}

async fn insert(tx: &mut dyn Tx, new: &NewReverseSms) -> Result<(), StoreError> {
    let check = &new.check;
    tx.run(
        "insert into checks (id, project_id, created_at, expires_at, product, mode, status, network_id, receiver,
                             number_hash, number_tail, reference_id, callback_url, code_hash)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
        values![
            check.id,
            check.project,
            check.created_at,
            check.expires_at,
            check.product.as_str(),
            check.mode.as_str(),
            check.status().as_str(),
            check.network.as_ref(),
            new.receiver.as_str(),
            check.claimed.map(|claimed| claimed.hash),
            check.claimed.map(|claimed| claimed.tail.to_string()),
            check.reference.as_ref().map(Reference::as_str),
            check.callback_url.as_ref(),
            new.code,
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn find(tx: &mut dyn Tx, id: CheckId) -> Result<Option<ReverseSmsCheck>, StoreError> {
    let row = tx
        .first(
            concat!("select ", check_columns!(), " from checks where id = $1 and product = 'reverse_sms'"),
            values![id],
        )
        .await?;
    row.map(check_rows::reverse_sms).transpose()
}

pub(super) async fn find_by_code(tx: &mut dyn Tx, codes: &[CodeHash]) -> Result<Option<ReverseSmsCheck>, StoreError> {
    let mut known = Vec::new();
    for &code in codes {
        let sql = concat!("select ", check_columns!(), " from checks where code_hash = $1");
        known.extend(tx.first(sql, values![code]).await?);
    }
    check_rows::open_or_first(known.into_iter().map(check_rows::reverse_sms))
}

pub(super) async fn conclude(tx: &mut dyn Tx, conclusion: &Conclusion) -> Result<Ending<Recorded>, StoreError> {
    let ending = &conclusion.ending;
    let row = tx
        .first(
            "update checks set concluded_at = $1, status = $2, matched = $3, error_code = $4
              where id = $5 and concluded_at is null
             returning id, pending_at",
            values![
                ending.at(),
                ending.status().as_str(),
                ending.matched(),
                ending.error_code().map(ErrorCode::as_str),
                ending.check(),
            ],
        )
        .await?;
    let Some(row) = row else { return Ok(Ending::Rollback(Recorded::AlreadyConcluded)) };
    let mut row = row.of("checks");
    row.uuid("id")?;
    let was_pending = row.instant_or_null("pending_at")?.is_some();
    if let Some(callback) = &conclusion.callback {
        tx.run(
            "insert into callbacks (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body)
             values ($1, $2, $3, $4, 0, 'waiting', $5, $6, $7)",
            values![
                ending.check(),
                ending.project(),
                ending.at(),
                callback.due_at,
                ending.product().as_str(),
                &callback.url,
                &callback.body,
            ],
        )
        .await?;
    }
    usage::change(tx, &conclusion.counts(was_pending)).await?;
    Ok(Ending::Commit(Recorded::Now))
}
