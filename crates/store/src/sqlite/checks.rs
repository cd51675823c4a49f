//! Checks, one at a time.

use ringtrue_domain::lifecycle::{AnyCheck, CheckId, ErrorCode, Reference};
use ringtrue_engine::ports::{Admitted, Awaits, CodeHash, NewCheck, Recorded, StoreError};

use crate::{
    check_rows::{self, check_columns, has_device},
    driver::{Conclusion, Ending, Tx, values},
    guard,
    verbs::{idempotency, usage},
};

pub(super) async fn create(tx: &mut dyn Tx, new: &NewCheck) -> Result<Ending<Admitted>, StoreError> {
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
async fn pass_guard(tx: &mut dyn Tx, new: &NewCheck) -> Result<Option<Admitted>, StoreError> {
    let Some(claimed) = new.check.claimed else { return Ok(None) };
    let at = new.check.created_at;
    let rows = tx
        .run(
            "select created_at from checks where number_hash = $1 and project_id = $2 and created_at > $3 and product <> 'discovery'
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

async fn insert(tx: &mut dyn Tx, new: &NewCheck) -> Result<(), StoreError> {
    let check = &new.check;
    let (receiver, code) = match &new.awaits {
        Awaits::Sms { receiver, code } => (Some(receiver.as_str()), Some(*code)),
        Awaits::Device { brief } => {
            tx.run("insert into journeys (check_id, brief, wrong_codes) values ($1, $2, 0)", values![check.id, brief])
                .await?;
            (None, None)
        }
    };
    tx.run(
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
    )
    .await?;
    tx.run("insert into deadlines (due_at, check_id) values ($1, $2)", values![check.expires_at, check.id]).await?;
    Ok(())
}

pub(super) async fn find(tx: &mut dyn Tx, id: CheckId) -> Result<Option<AnyCheck>, StoreError> {
    let row = tx.first(concat!("select ", check_columns!(), " from checks where id = $1"), values![id]).await?;
    row.map(check_rows::check).transpose()
}

pub(super) async fn find_by_code(tx: &mut dyn Tx, codes: &[CodeHash]) -> Result<Option<AnyCheck>, StoreError> {
    let mut known = Vec::new();
    for &code in codes {
        let sql = concat!("select ", check_columns!(), " from checks where code_hash = $1");
        known.extend(tx.first(sql, values![code]).await?);
    }
    check_rows::open_or_first(known.into_iter().map(check_rows::check))
}

pub(super) async fn conclude(tx: &mut dyn Tx, conclusion: &Conclusion) -> Result<Ending<Recorded>, StoreError> {
    let ending = &conclusion.ending;
    let discovered = ending.discovered();
    let number = discovered.and_then(|discovered| discovered.number);
    let row = tx
        .first(
            "update checks
                set concluded_at = $1, status = $2, matched = $3, error_code = $4,
                    number_hash = coalesce($5, number_hash), number_tail = coalesce($6, number_tail), number_sealed = $7
              where id = $8 and concluded_at is null
             returning id, expires_at, pending_at, network_id",
            values![
                ending.at(),
                ending.status().as_str(),
                ending.matched(),
                ending.error_code().map(ErrorCode::as_str),
                number.map(|number| number.hash),
                number.map(|number| number.tail.to_string()),
                discovered.and_then(|discovered| discovered.sealed.as_ref()),
                ending.check(),
            ],
        )
        .await?;
    let Some(row) = row else { return Ok(Ending::Rollback(Recorded::AlreadyConcluded)) };
    let mut row = row.of("checks");
    row.uuid("id")?;
    let due_at = row.instant("expires_at")?;
    let was_pending = row.instant_or_null("pending_at")?.is_some();
    let network = row.parsed_or_null("network_id")?;
    tx.run("delete from deadlines where due_at = $1 and check_id = $2", values![due_at, ending.check()]).await?;
    if has_device(ending.product()) {
        tx.run("delete from journeys where check_id = $1", values![ending.check()]).await?;
    }
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
    usage::change(tx, &conclusion.counts(was_pending, network)).await?;
    Ok(Ending::Commit(Recorded::Now))
}
