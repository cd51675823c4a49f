//! Writes sign-ins in batches.

use std::collections::HashSet;

use jiff::Timestamp;
use ringtrue_domain::lifecycle::{Sealed, ShardBucket};
use ringtrue_engine::ports::sign_in::{EndedSignIn, SignInRecord, SignInSession};
use uuid::Uuid;

use super::{
    BatchQueues,
    batch_queue::{
        BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, rows_by_id, update_counters,
    },
};
use crate::operation::{SignInEndColumns, SignInOperation};

/// Takes one round trip. If sign-ins end in the batch, a second one inserts their sessions and updates the counters.
///
/// Of several operations on the same row, only the first one in a batch is tried. The others fail, as if they came
/// later: a sign-in ends once, its check is replaced once, and a code or an assertion is used once.
impl BatchedOperation for SignInOperation {
    const NAME: &'static str = "sign_in";
    const FIRST_COUNTER_SLOT: i16 = 7;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.sign_in
    }

    fn bucket(&self) -> Option<ShardBucket> {
        None
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<bool>, BatchError> {
        let mut seen = HashSet::new();
        let is_tried: Vec<bool> = batch.iter().map(|operation| seen.insert(row_key(operation))).collect();
        let mut tried: Vec<&SignInOperation> =
            batch.iter().zip(&is_tried).filter_map(|(operation, is_tried)| is_tried.then_some(*operation)).collect();
        tried.sort_by_key(|operation| row_key(operation));
        let ends: Vec<&EndedSignIn> = tried.iter().copied().filter_map(as_ended_sign_in).collect();

        let statements = [insert_sign_ins(&tried), update_sign_ins(&tried), insert_assertions(&tried)];
        let rows = if ends.is_empty() { tx.commit(&statements).await? } else { tx.run(&statements).await? };
        let [_, changed, used] = rows.as_slice() else { return Err(BatchError::wrong_results()) };
        let changed = rows_by_id(changed)?;
        let used: HashSet<&[u8]> = used.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let is_written = |operation: &SignInOperation| match operation {
            SignInOperation::Create(_) => true,
            SignInOperation::UseAssertion { assertion, .. } => used.contains(&assertion.0[..]),
            operation => Uuid::from_slice(row_key(operation)).is_ok_and(|id| changed.contains_key(&id)),
        };
        let outcomes = batch.iter().zip(is_tried).map(|(operation, is_tried)| is_tried && is_written(operation));
        let outcomes = outcomes.collect();
        if !ends.is_empty() {
            let ended: Vec<_> = ends.into_iter().filter(|ended| changed.contains_key(&ended.id.0)).collect();
            let mut statements = vec![insert_sessions(&ended)];
            statements.extend(update_counters(ended.iter().filter_map(|ended| ended.usage.as_ref()), tx.counters())?);
            tx.commit(&statements).await?;
        }
        Ok(outcomes)
    }
}

/// Returns the key of the row that an operation writes. Ids and hashes differ in length.
fn row_key(operation: &SignInOperation) -> &[u8] {
    match operation {
        SignInOperation::Create(record) => record.id.0.as_bytes(),
        SignInOperation::ReplaceCheck { id, .. } | SignInOperation::Redeem { id, .. } => id.0.as_bytes(),
        SignInOperation::End(ended) => ended.id.0.as_bytes(),
        SignInOperation::UseAssertion { assertion, .. } => &assertion.0,
    }
}

fn as_ended_sign_in(operation: &SignInOperation) -> Option<&EndedSignIn> {
    match operation {
        SignInOperation::End(ended) => Some(ended),
        _ => None,
    }
}

fn insert_sign_ins<'a>(operations: &[&'a SignInOperation]) -> BatchStatement<'a> {
    let created = |operation: &&'a SignInOperation| match operation {
        SignInOperation::Create(record) => Some(record),
        _ => None,
    };
    let records: Vec<&SignInRecord> = operations.iter().filter_map(created).collect();
    let end = |record: &&'a SignInRecord| SignInEndColumns::new(record.end.as_ref());
    BatchStatement::new(
        "insert into sign_ins (id, project_id, client_id, request, created_at, expires_at, check_product, check_id, number,
                               proof, code_expires_at, error)
         select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[],
                              $8::uuid[], $9::bytea[], $10::bytea[], $11::bigint[], $12::text[])",
    )
    .column(&records, |record| record.id.0)
    .column(&records, |record| record.project.0)
    .column(&records, |record| record.client.as_str())
    .column(&records, |record| bytes(&record.request))
    .column(&records, |record| record.created_at.as_millisecond())
    .column(&records, |record| record.expires_at.as_millisecond())
    .column(&records, |record| record.check.map(|check| check.product.into_str()))
    .column(&records, |record| record.check.map(|check| check.id.0))
    .column(&records, |record| record.number.as_ref().map(bytes))
    .column(&records, |record| end(record).proof.map(bytes))
    .column(&records, |record| end(record).code_expires_at.map(Timestamp::as_millisecond))
    .column(&records, |record| end(record).error)
}

/// Applies each change whose condition holds, and returns the ids of the changed sign-ins. A change has a check, the time
/// of the redemption, or the columns of an end.
fn update_sign_ins<'a>(operations: &[&'a SignInOperation]) -> BatchStatement<'a> {
    let is_change = |operation: &&SignInOperation| {
        !matches!(operation, SignInOperation::Create(_) | SignInOperation::UseAssertion { .. })
    };
    let changes: Vec<&SignInOperation> = operations.iter().copied().filter(is_change).collect();
    let end =
        |operation: &&'a SignInOperation| SignInEndColumns::new(as_ended_sign_in(operation).map(|ended| &ended.end));
    let redeemed = |operation: &&SignInOperation| match operation {
        SignInOperation::Redeem { at, expires_at, .. } => Some((at.as_millisecond(), expires_at.as_millisecond())),
        _ => None,
    };
    let replaced = |operation: &&'a SignInOperation| match operation {
        SignInOperation::ReplaceCheck { from, to, number, .. } => Some((*from, *to, number.as_ref())),
        _ => None,
    };
    BatchStatement::new(
        "update sign_ins held
            set check_product = coalesce(new.check_product, held.check_product),
                check_id = coalesce(new.check_id, held.check_id),
                number = case when new.check_id is null then held.number else new.number end,
                proof = coalesce(new.proof, held.proof),
                code_expires_at = coalesce(new.code_expires_at, held.code_expires_at),
                error = coalesce(new.error, held.error),
                redeemed_at = coalesce(new.redeemed_at, held.redeemed_at),
                expires_at = coalesce(new.expires_at, held.expires_at)
           from unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::bytea[], $6::bytea[], $7::bigint[],
                       $8::text[], $9::bigint[], $10::bigint[])
                as new (id, from_check, check_product, check_id, number, proof, code_expires_at, error, redeemed_at,
                        expires_at)
          where held.id = new.id and held.id = any($1)
            and case when new.redeemed_at is not null
                     then held.redeemed_at is null and held.code_expires_at > new.redeemed_at
                     else held.proof is null and held.error is null
                          and (new.check_id is null or held.check_id is not distinct from new.from_check) end
         returning held.id",
    )
    .column(&changes, |change| Uuid::from_slice(row_key(change)).unwrap_or_default())
    .column(&changes, |change| replaced(change).and_then(|(from, ..)| from).map(|check| check.0))
    .column(&changes, |change| replaced(change).map(|(_, to, _)| to.product.into_str()))
    .column(&changes, |change| replaced(change).map(|(_, to, _)| to.id.0))
    .column(&changes, |change| replaced(change).and_then(|(.., number)| number).map(bytes))
    .column(&changes, |change| end(change).proof.map(bytes))
    .column(&changes, |change| end(change).code_expires_at.map(Timestamp::as_millisecond))
    .column(&changes, |change| end(change).error)
    .column(&changes, |change| redeemed(change).map(|(at, _)| at))
    .column(&changes, |change| redeemed(change).map(|(_, expires_at)| expires_at))
}

/// Returns the hashes of the assertions that were not used before.
fn insert_assertions<'a>(operations: &[&'a SignInOperation]) -> BatchStatement<'a> {
    let used = |operation: &&'a SignInOperation| match operation {
        SignInOperation::UseAssertion { assertion, expires_at } => {
            Some((&assertion.0[..], expires_at.as_millisecond()))
        }
        _ => None,
    };
    let (hashes, expiries): (Vec<&[u8]>, Vec<i64>) = operations.iter().filter_map(used).unzip();
    BatchStatement::new(
        "insert into used_assertions (assertion_hash, expires_at)
         select * from unnest($1::bytea[], $2::bigint[])
         on conflict (assertion_hash) do nothing
         returning assertion_hash",
    )
    .with(hashes)
    .with(expiries)
}

fn insert_sessions<'a>(ended: &[&'a EndedSignIn]) -> BatchStatement<'a> {
    let mut sessions: Vec<&SignInSession> = ended.iter().filter_map(|ended| ended.session.as_ref()).collect();
    sessions.sort_by_key(|session| session.token.0);
    BatchStatement::new(
        "insert into sign_in_sessions (token_hash, project_id, number_hash, proof, expires_at)
         select * from unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bytea[], $5::bigint[])",
    )
    .column(&sessions, |session| &session.token.0[..])
    .column(&sessions, |session| session.project.0)
    .column(&sessions, |session| &session.number.0[..])
    .column(&sessions, |session| bytes(&session.proof))
    .column(&sessions, |session| session.expires_at.as_millisecond())
}

fn bytes(sealed: &Sealed) -> &[u8] {
    &sealed.0
}
