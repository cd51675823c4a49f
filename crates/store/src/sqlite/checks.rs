//! Checks, one at a time.

use ringtrue_domain::lifecycle::{self, AnyCheck, CheckId, ErrorCode, Reference};
use ringtrue_engine::ports::{Admitted, Awaits, CodeHash, Completion, NewCheck, Recorded, StoreError};

use super::writer::{Step, Turn};
use crate::{
    check_rows::{self, check_columns, has_device},
    driver::{Conclusion, Ending, NewEnded, Tx, values},
    guard,
    verbs::idempotency::{claim_was_lost, complete_sql},
};

impl Step for NewCheck {
    type Answer = Admitted;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<Admitted>, StoreError> {
        if let Some(refused) = pass_guard(turn, self)? {
            return Ok(Ending::Rollback(refused));
        }
        complete(turn, self.completion.as_ref())?;
        insert(turn, self)?;
        turn.count([check_rows::count_of(self)]);
        Ok(Ending::Commit(Admitted::Stored))
    }
}

/// Writes the answer of a keyed request. One whose claim was taken over must not do anything: someone else is doing it.
fn complete(turn: &mut Turn<'_>, completion: Option<&Completion>) -> Result<(), StoreError> {
    let Some(completion) = completion else { return Ok(()) };
    let completed = turn.change(
        complete_sql!(),
        values![completion.sealed_answer.as_slice(), completion.tenant, completion.key_digest, completion.claim],
    )?;
    if completed == 0 { Err(claim_was_lost()) } else { Ok(()) }
}

/// Counts the checks of the same product that this project has about the number.
fn pass_guard(turn: &mut Turn<'_>, new: &NewCheck) -> Result<Option<Admitted>, StoreError> {
    let (Some(claimed), Some(guard)) = (new.check.claimed, new.guard) else { return Ok(None) };
    let at = new.check.created_at;
    let rows = turn.rows(
        "select created_at from checks where number_hash = $1 and project_id = $2 and created_at > $3 and product = $4
          order by created_at desc limit $5",
        values![
            claimed.hash,
            new.check.project,
            at.as_millisecond() - guard::window_millis(guard),
            new.check.product.as_str(),
            i64::from(guard.creates),
        ],
    )?;
    let mut instants = rows.into_iter().map(|row| row.of("checks").int("created_at")).collect::<Result<Vec<_>, _>>()?;
    instants.reverse();
    let closed = guard::closed_until(guard, &instants).filter(|until| at < *until);
    Ok(closed.map(|until| Admitted::TooOften { until }))
}

fn insert(turn: &mut Turn<'_>, new: &NewCheck) -> Result<(), StoreError> {
    let check = &new.check;
    let (receiver, code) = match &new.awaits {
        Awaits::Sms { receiver, code } => (Some(receiver.as_str()), Some(*code)),
        Awaits::Device { brief } => {
            let insert = "insert into journeys (check_id, brief, wrong_codes) values ($1, $2, 0)";
            turn.change(insert, values![check.id, brief])?;
            (None, None)
        }
    };
    turn.change(
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
    turn.change(insert, values![check.expires_at, check.id])?;
    Ok(())
}

impl Step for NewEnded {
    type Answer = ();

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<()>, StoreError> {
        complete(turn, self.completion.as_ref())?;
        turn.insert(self);
        turn.count([self.count()]);
        Ok(Ending::Commit(()))
    }
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

impl Step for Conclusion {
    type Answer = Recorded;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<Recorded>, StoreError> {
        let ending = &self.ending;
        let left = "select id, expires_at, pending_at, network_id from checks where id = $1 and concluded_at is null";
        let Some(left) = turn.first(left, values![ending.check()])? else {
            return Ok(Ending::Rollback(Recorded::AlreadyConcluded));
        };
        let mut left = left.of("checks");
        left.uuid("id")?;
        let due_at = left.instant("expires_at")?;
        let was_pending = left.instant_or_null("pending_at")?.is_some();
        let network = left.parsed_or_null("network_id")?;
        end(turn, ending)?;
        let delete = "delete from deadlines where due_at = $1 and check_id = $2";
        turn.change(delete, values![due_at, ending.check()])?;
        if has_device(ending.product()) {
            turn.change("delete from journeys where check_id = $1", values![ending.check()])?;
        }
        if let Some(callback) = &self.callback {
            turn.change(
                "insert into callbacks
                        (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body)
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
            )?;
        }
        turn.count(self.counts(was_pending, network));
        Ok(Ending::Commit(Recorded::Now { was_pending }))
    }
}

fn end(turn: &mut Turn<'_>, ending: &lifecycle::Ending) -> Result<(), StoreError> {
    let discovered = ending.discovered();
    let number = discovered.and_then(|discovered| discovered.number);
    turn.change(
        "update checks
            set concluded_at = $1, status = $2, matched = $3, error_code = $4,
                number_hash = coalesce($5, number_hash), number_tail = coalesce($6, number_tail), number_sealed = $7,
                connector = coalesce($8, connector)
          where id = $9",
        values![
            ending.at(),
            ending.status().as_str(),
            ending.matched(),
            ending.error_code().map(ErrorCode::as_str),
            number.map(|number| number.hash),
            number.map(|number| number.tail.to_string()),
            discovered.and_then(|discovered| discovered.sealed.as_ref()),
            ending.connector(),
            ending.check(),
        ],
    )?;
    Ok(())
}
