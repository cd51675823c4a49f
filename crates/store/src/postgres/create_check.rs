//! Batched creation of checks, with the per-number limit.
//!
//! The limit is rarely reached. A batch is therefore first inserted on the condition that no number is over its limit,
//! which takes one round trip. If that fails, two more follow: one reads the recent checks of each number, the other
//! inserts the checks within the limit. Batches with responses for idempotency keys always take the second way.
//!
//! The limit counts the checks themselves. An advisory lock on each number, held until the commit, serialises batches
//! that count the same number.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::{
    lifecycle::{Reference, Sealed},
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::NumberLimit,
};
use ringtrue_engine::ports::{CodeHash, CreateCheckOutcome, Expectation, IdempotentResponse, NewCheck};
use uuid::Uuid;

use super::{
    batch_queue::{BatchError, BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction},
    checks::column_values,
    counters::bind_counters,
};
use crate::{
    check_row_mapping, number_limit,
    queries::{idempotency::claim_lost_error, usage::upsert_counters_sql},
};

impl BatchedOperation for NewCheck {
    type Output = CreateCheckOutcome;
    const NAME: &'static str = "create";
    /// Each check takes an entry of the server's lock table.
    const MAX_BATCH_SIZE: usize = 512;
    const FIRST_COUNTER_SLOT: i16 = 1;

    fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, CreateCheckOutcome> {
        Box::pin(async move {
            let mut responses: Vec<_> = batch.iter().filter_map(|new| new.idempotent_response.as_ref()).collect();
            responses.sort_unstable_by_key(|response| (response.tenant, response.key_digest));

            let numbers = LimitedNumbers::of_batch(batch);
            if responses.is_empty() && numbers.are_distinct {
                let mut new: Vec<&NewCheck> = batch.iter().collect();
                new.sort_unstable_by_key(|new| new.check.id);
                let mut statements = vec![lock_numbers(&numbers), insert_checks(&new, LimitCheck::Now, tx.slot())?];
                statements.extend(insert_redirect_sessions(&new));
                let (rows, committed) = tx.try_commit(&statements).await?;
                if let Some([row]) = rows.get(1).map(Vec::as_slice)
                    && row.try_get(0)?
                {
                    return Ok((vec![CreateCheckOutcome::Created; batch.len()], committed));
                }
            }
            let outcomes = apply_limits(batch, numbers, &responses, &mut tx).await?;
            let (mut admitted, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
            for (new, outcome) in batch.iter().zip(&outcomes) {
                if *outcome == CreateCheckOutcome::Created { admitted.push(new) } else { refused.push(new) }
            }
            admitted.sort_unstable_by_key(|new| new.check.id);
            let mut statements = vec![insert_checks(&admitted, LimitCheck::Done, tx.slot())?];
            statements.extend(insert_redirect_sessions(&admitted));
            let refused_responses: Vec<_> = refused.iter().filter_map(|new| new.idempotent_response.as_ref()).collect();
            if !refused_responses.is_empty() {
                statements.insert(0, clear_responses(&refused_responses));
            }
            let (_, committed) = tx.commit(&statements).await?;
            Ok((outcomes, committed))
        })
    }
}

/// Stores the responses of requests with idempotency keys. Returns a row for each claim that is still held.
pub(super) fn store_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update idempotency_keys held set response = new.response
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[]) as new (tenant, key_digest, claim, response)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.response is null
         returning 1",
    )
    .with(column_values(responses, |response| response.tenant))
    .with(column_values(responses, |response| &response.key_digest[..]))
    .with(column_values(responses, |response| response.claim_id))
    .with(column_values(responses, |response| &response.sealed_response[..]))
}

/// Clears the responses of requests over the limit: they stored nothing.
fn clear_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update idempotency_keys held set response = null
           from unnest($1::uuid[], $2::bytea[], $3::uuid[]) as new (tenant, key_digest, claim)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim",
    )
    .with(column_values(responses, |response| response.tenant))
    .with(column_values(responses, |response| &response.key_digest[..]))
    .with(column_values(responses, |response| response.claim_id))
}

/// Number hash, project and product: what the limit counts by.
type LimitKey = ([u8; 32], Uuid, &'static str);

fn limit_of(new: &NewCheck) -> Option<(LimitKey, NumberLimit)> {
    let (claimed, limit) = new.check.claimed.zip(new.number_limit)?;
    Some(((claimed.hash.0, new.check.project.0, new.check.product.as_str()), limit))
}

/// The numbers of a batch, each with its check of the widest limit.
struct LimitedNumbers<'a> {
    numbers: BTreeMap<LimitKey, (&'a NewCheck, NumberLimit)>,
    are_distinct: bool,
}

impl<'a> LimitedNumbers<'a> {
    fn of_batch(batch: &'a [NewCheck]) -> Self {
        let (mut numbers, mut are_distinct) = (BTreeMap::<LimitKey, (&NewCheck, NumberLimit)>::new(), true);
        for new in batch {
            let Some((key, limit)) = limit_of(new) else { continue };
            let widest = numbers.entry(key).or_insert((new, limit));
            are_distinct &= std::ptr::eq(widest.0, new);
            if (limit.max_checks, limit.window_seconds) > (widest.1.max_checks, widest.1.window_seconds) {
                *widest = (new, limit);
            }
        }
        LimitedNumbers { numbers, are_distinct }
    }
}

/// Applies the limits in the order of the batch, and stores the responses.
async fn apply_limits(
    batch: &[NewCheck],
    numbers: LimitedNumbers<'_>,
    responses: &[&IdempotentResponse],
    tx: &mut PipelinedTransaction<'_>,
) -> Result<Vec<CreateCheckOutcome>, BatchError> {
    let mut statements = vec![lock_numbers(&numbers), select_recent_checks(&numbers.numbers)];
    if !responses.is_empty() {
        statements.push(store_responses(responses));
    }
    let mut rows = tx.run(&statements).await?;
    // A request outlived its lease. Splitting the batch isolates it.
    if !responses.is_empty() && rows.pop().is_none_or(|stored| stored.len() < responses.len()) {
        return Err(BatchError::Rows(claim_lost_error()));
    }
    let keys: Vec<LimitKey> = numbers.numbers.into_keys().collect();
    let mut instants = HashMap::<LimitKey, Vec<i64>>::new();
    for row in rows.pop().iter().flatten() {
        let index = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
        if let Some(key) = index.and_then(|index| keys.get(index)) {
            instants.entry(*key).or_default().push(row.try_get(1)?);
        }
    }
    let admit = |new: &NewCheck| {
        let Some((key, limit)) = limit_of(new) else { return CreateCheckOutcome::Created };
        let instants = instants.entry(key).or_default();
        let at = new.check.created_at;
        if let Some(retry_at) = number_limit::blocked_until(limit, instants).filter(|retry_at| at < *retry_at) {
            return CreateCheckOutcome::TooManyChecks { retry_at };
        }
        *instants = number_limit::with_create(limit, instants, at);
        CreateCheckOutcome::Created
    };
    Ok(batch.iter().map(admit).collect())
}

/// Serialises batches that count the same number. Locks in ascending order, so that batches cannot deadlock. Two
/// numbers may share a lock, which is harmless.
fn lock_numbers(numbers: &LimitedNumbers<'_>) -> BatchStatement<'static> {
    let mut locks: Vec<i64> = numbers.numbers.keys().map(|(number, project, _)| lock_key(number, *project)).collect();
    locks.sort_unstable();
    locks.dedup();
    BatchStatement::new("select count(pg_advisory_xact_lock(number)) from unnest($1::bigint[]) as number").with(locks)
}

fn lock_key(number: &[u8; 32], project: Uuid) -> i64 {
    let eight = |bytes: &[u8]| bytes.iter().take(8).fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    // The last eight bytes of an id are random.
    (eight(number) ^ eight(&project.as_bytes()[8..])).cast_signed()
}

/// Selects the creation times of each number's checks within the window, ascending.
fn select_recent_checks(numbers: &BTreeMap<LimitKey, (&NewCheck, NumberLimit)>) -> BatchStatement<'static> {
    BatchStatement::new(
        "select requested.index, held.created_at
           from unnest($1::bytea[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[]) with ordinality
                  as requested (number_hash, project_id, product, since, most, index)
                cross join lateral
                  (select created_at from checks
                    where number_hash = requested.number_hash and project_id = requested.project_id
                      and created_at > requested.since and product = requested.product
                    order by created_at desc limit requested.most) held
          order by requested.index, held.created_at",
    )
    .with(numbers.keys().map(|(number, ..)| number.to_vec()).collect::<Vec<_>>())
    .with(numbers.keys().map(|(_, project, _)| *project).collect::<Vec<_>>())
    .with(numbers.keys().map(|(.., product)| *product).collect::<Vec<_>>())
    .with(numbers.values().map(|(new, _)| window_start(new)).collect::<Vec<_>>())
    .with(numbers.values().map(|(_, limit)| i64::from(limit.max_checks)).collect::<Vec<_>>())
}

/// Checks created after this count. Without a limit none counts.
fn window_start(new: &NewCheck) -> i64 {
    new.number_limit
        .map_or(i64::MAX, |limit| new.check.created_at.as_millisecond() - number_limit::window_millis(limit))
}

/// When the limit is applied: by the insert itself, or before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitCheck {
    Now,
    Done,
}

/// Inserts all checks, with their deadlines and counters; or nothing, if a number is over its limit. Returns whether it
/// did. With [`LimitCheck::Now`] the numbers must be distinct.
///
/// `PostgreSQL` runs data-modifying `with` parts after the main statement, in this plan from the last to the first.
fn insert_checks<'a>(
    new: &[&'a NewCheck],
    limit_check: LimitCheck,
    slot: i16,
) -> Result<BatchStatement<'a>, BatchError> {
    let most = |new: &NewCheck| match new.number_limit {
        Some(limit) if limit_check == LimitCheck::Now => i64::from(limit.max_checks),
        _ => i64::MAX,
    };
    let statement = BatchStatement::new(concat!(
        "with new as
              (select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                                    $8::text[], $9::bytea[], $10::text[], $11::text[], $12::bytea[], $13::bytea[],
                                    $14::bytea[], $15::bigint[], $16::bigint[])
                         as new (id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                                 number_tail, reference_id, callback_url, code_hash, redirect_url, since, most)),
              over_limit as
              (select from new
                where most <= (select count(*) from
                                 (select from checks held
                                   where held.number_hash = new.number_hash and held.project_id = new.project_id
                                     and held.created_at > new.since and held.product = new.product
                                   limit new.most) counted)
                limit 1),
              days as (",
        upsert_counters_sql!(
            "usage_days",
            "day",
            "select *, $31::smallint from unnest($24::uuid[], $25::text[], $26::text[], $27::text[], $28::smallint[],
                                                 $29::text[], $30::bigint[])
              where not exists (select from over_limit)"
        ),
        "), hours as (",
        upsert_counters_sql!(
            "usage_counters",
            "hour",
            "select *, $31::smallint from unnest($17::uuid[], $18::text[], $19::text[], $20::text[], $21::smallint[],
                                                 $22::text[], $23::bigint[])
              where not exists (select from over_limit)"
        ),
        "),
              inserted_deadlines as
              (insert into deadlines (due_at, check_id)
               select expires_at, id from new where not exists (select from over_limit)),
              inserted_checks as
              (insert into checks (id, project_id, created_at, expires_at, product, mode, network_id, receiver,
                                   number_hash, number_tail, reference_id, callback_url, code_hash, redirect_url, status)
               select id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                      number_tail, reference_id, callback_url, code_hash, redirect_url, 'ACCEPTED'
                 from new where not exists (select from over_limit))
         select not exists (select from over_limit)"
    ))
    .with(column_values(new, |new| new.check.id.0))
    .with(column_values(new, |new| new.check.project.0))
    .with(column_values(new, |new| new.check.created_at.as_millisecond()))
    .with(column_values(new, |new| new.check.expires_at.as_millisecond()))
    .with(column_values(new, |new| new.check.product.as_str()))
    .with(column_values(new, |new| new.check.mode.as_str()))
    .with(column_values(new, |new| new.check.network.as_ref().map(NetworkId::as_str)))
    .with(column_values(new, |new| awaited_sms(new).map(|(receiver, _)| receiver.as_str())))
    .with(column_values(new, |new| new.check.claimed.as_ref().map(|claimed| &claimed.hash.0[..])))
    .with(column_values(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string())))
    .with(column_values(new, |new| new.check.reference.as_ref().map(Reference::as_str)))
    .with(column_values(new, |new| new.check.callback_url.as_ref().map(|url| &url.0[..])))
    .with(column_values(new, |new| awaited_sms(new).map(|(_, code)| &code.0[..])))
    .with(column_values(new, |new| new.check.redirect_url.as_ref().map(|url| &url.0[..])))
    .with(column_values(new, window_start))
    .with(column_values(new, most));
    let counts: Vec<_> = new.iter().map(|new| check_row_mapping::new_check_usage(new)).collect();
    Ok(bind_counters(statement, &counts)?.with(slot))
}

fn awaited_sms(new: &NewCheck) -> Option<(&Msisdn, &CodeHash)> {
    match &new.expectation {
        Expectation::Sms { receiver, code } => Some((receiver, code)),
        Expectation::Device { .. } => None,
    }
}

fn silent_input(new: &NewCheck) -> Option<&Sealed> {
    match &new.expectation {
        Expectation::Device { input } => Some(input),
        Expectation::Sms { .. } => None,
    }
}

/// Inserts the redirect sessions of the checks that were inserted before. `None`: no check of the batch has one.
fn insert_redirect_sessions<'a>(new: &[&'a NewCheck]) -> Option<BatchStatement<'a>> {
    let (checks, inputs): (Vec<Uuid>, Vec<&[u8]>) =
        new.iter().filter_map(|new| Some((new.check.id.0, &silent_input(new)?.0[..]))).unzip();
    let insert = "insert into redirect_sessions (check_id, input, wrong_codes)
                  select new.*, 0 from unnest($1::uuid[], $2::bytea[]) as new (check_id, input)
                   where exists (select from checks where id = check_id)";
    (!checks.is_empty()).then(|| BatchStatement::new(insert).with(checks).with(inputs))
}
