//! Batched creation of checks, with the per-number limit.
//!
//! The limit is rarely reached. A batch is therefore first inserted on the condition that no number is over its limit,
//! which takes one round trip. If that fails, two more follow: one reads the recent checks of each number, the other
//! inserts the checks within the limit. Batches with responses for idempotency keys always take the second way: a
//! request whose claim was taken over must not store anything.
//!
//! The limit counts the checks themselves. An advisory lock on each number, held until the commit, serialises batches
//! that count the same number.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use jiff::Timestamp;
use ringtrue_domain::{lifecycle::Reference, network::NetworkId, reverse_sms::NumberLimit};
use ringtrue_engine::ports::{CreateCheckOutcome, IdempotentResponse};
use uuid::Uuid;

use super::{
    BatchQueues,
    batch_queue::{BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, update_counters},
};
use crate::{
    operation::{InsertCheck, number_limit},
    queries::idempotency::claim_lost_error,
};

impl BatchedOperation for InsertCheck {
    const NAME: &'static str = "create";
    /// Each check takes an entry of the server's lock table.
    const MAX_BATCH_SIZE: usize = 512;
    const CONNECTIONS: usize = 2;
    const FIRST_COUNTER_SLOT: i16 = 1;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.create
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<CreateCheckOutcome>, BatchError> {
        let numbers = LimitedNumbers::of_batch(batch);
        let responses = sorted_responses(batch.iter().copied());
        if responses.is_empty() && numbers.are_distinct {
            let limits = (!numbers.limits.is_empty()).then_some(&numbers);
            let statements = insert_statements(batch.to_vec(), limits, tx.slot())?;
            let rows = tx.commit(&statements).await?;
            if limits.is_none() || rows.last().is_some_and(|inserted| !inserted.is_empty()) {
                return Ok(vec![CreateCheckOutcome::Created; batch.len()]);
            }
        }
        let outcomes = apply_limits(batch, &numbers, &responses, tx).await?;
        let (mut admitted, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (&new, outcome) in batch.iter().zip(&outcomes) {
            if *outcome == CreateCheckOutcome::Created { admitted.push(new) } else { refused.push(new) }
        }
        let mut statements = Vec::new();
        let refused_responses = sorted_responses(refused);
        if !refused_responses.is_empty() {
            statements.push(clear_responses(&refused_responses));
        }
        if !admitted.is_empty() {
            statements.extend(insert_statements(admitted, None, tx.slot())?);
        }
        tx.commit(&statements).await?;
        Ok(outcomes)
    }
}

fn sorted_responses<'a>(new: impl IntoIterator<Item = &'a InsertCheck>) -> Vec<&'a IdempotentResponse> {
    let mut responses: Vec<_> = new.into_iter().filter_map(|new| new.idempotent_response.as_ref()).collect();
    responses.sort_unstable_by_key(|response| (response.tenant, response.key_digest));
    responses
}

/// Stores the responses of requests with idempotency keys. Returns a row for each claim that is still held.
fn store_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update idempotency_keys held set response = new.response
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[]) as new (tenant, key_digest, claim, response)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.response is null
         returning 1",
    )
    .column(responses, |response| response.tenant)
    .column(responses, |response| &response.key_digest[..])
    .column(responses, |response| response.claim_id)
    .column(responses, |response| &response.sealed_response[..])
}

/// Clears the responses of requests over the limit: they stored nothing.
fn clear_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update idempotency_keys held set response = null
           from unnest($1::uuid[], $2::bytea[], $3::uuid[]) as new (tenant, key_digest, claim)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim",
    )
    .column(responses, |response| response.tenant)
    .column(responses, |response| &response.key_digest[..])
    .column(responses, |response| response.claim_id)
}

/// Number hash, project and product: what the limit counts by.
type LimitKey = ([u8; 32], Uuid, &'static str);

fn limit_of(new: &InsertCheck) -> Option<(LimitKey, NumberLimit)> {
    let (claimed, limit) = new.check.claimed.zip(new.number_limit)?;
    Some(((claimed.hash.0, new.check.project.0, new.check.product.as_str()), limit))
}

/// The numbers of a batch, each with its widest limit and the start of the window.
struct LimitedNumbers {
    limits: BTreeMap<LimitKey, (NumberLimit, i64)>,
    are_distinct: bool,
}

impl LimitedNumbers {
    fn of_batch(batch: &[&InsertCheck]) -> Self {
        let (mut limits, mut are_distinct) = (BTreeMap::<LimitKey, (NumberLimit, i64)>::new(), true);
        for new in batch {
            let Some((key, limit)) = limit_of(new) else { continue };
            let window_start = new.check.created_at.as_millisecond() - number_limit::window_millis(limit);
            let width = |limit: NumberLimit| (limit.max_checks, limit.window_seconds);
            match limits.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert((limit, window_start))),
                Entry::Occupied(mut entry) => {
                    are_distinct = false;
                    if width(limit) > width(entry.get().0) {
                        entry.insert((limit, window_start));
                    }
                }
            }
        }
        LimitedNumbers { limits, are_distinct }
    }

    /// Serialises batches that count the same number. Locks in ascending order, so that batches cannot deadlock. Two
    /// numbers may share a lock, which is harmless.
    fn lock(&self) -> BatchStatement<'static> {
        let mut locks: Vec<i64> = self.limits.keys().map(|(number, project, _)| lock_key(number, *project)).collect();
        locks.sort_unstable();
        locks.dedup();
        BatchStatement::new("select count(pg_advisory_xact_lock(number)) from unnest($1::bigint[]) as number")
            .with(locks)
    }

    /// Selects the creation times of each number's checks within the window, ascending.
    fn select_recent_checks(&self) -> BatchStatement<'static> {
        self.bind(BatchStatement::new(
            "select requested.index, held.created_at
               from unnest($1::bytea[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[]) with ordinality
                      as requested (number_hash, project_id, product, since, most, index)
                    cross join lateral
                      (select created_at from checks
                        where number_hash = requested.number_hash and project_id = requested.project_id
                          and created_at > requested.since and product = requested.product
                        order by created_at desc limit requested.most) held
              order by requested.index, held.created_at",
        ))
    }

    /// Adds the arrays of numbers, projects, products, window starts and limits.
    fn bind<'a>(&self, statement: BatchStatement<'a>) -> BatchStatement<'a> {
        statement
            .column(self.limits.keys(), |(number, ..)| number.to_vec())
            .column(self.limits.keys(), |(_, project, _)| *project)
            .column(self.limits.keys(), |(.., product)| *product)
            .column(self.limits.values(), |(_, window_start)| *window_start)
            .column(self.limits.values(), |(limit, _)| i64::from(limit.max_checks))
    }
}

fn lock_key(number: &[u8; 32], project: Uuid) -> i64 {
    let eight = |bytes: &[u8]| bytes.iter().take(8).fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    // The last eight bytes of an id are random.
    (eight(number) ^ eight(&project.as_bytes()[8..])).cast_signed()
}

/// Applies the limits in the order of the batch, and stores the responses.
async fn apply_limits(
    batch: &[&InsertCheck],
    numbers: &LimitedNumbers,
    responses: &[&IdempotentResponse],
    tx: &mut PipelinedTransaction<'_>,
) -> Result<Vec<CreateCheckOutcome>, BatchError> {
    let rows = tx.run(&[numbers.lock(), store_responses(responses), numbers.select_recent_checks()]).await?;
    let [_, stored, recent] = rows.as_slice() else { return Err(BatchError::wrong_results()) };
    // A request outlived its lease. Splitting the batch isolates it.
    if stored.len() < responses.len() {
        return Err(BatchError::Rows(claim_lost_error()));
    }
    let keys: Vec<&LimitKey> = numbers.limits.keys().collect();
    let mut instants = HashMap::<LimitKey, Vec<i64>>::new();
    for row in recent {
        let index = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
        if let Some(key) = index.and_then(|index| keys.get(index)) {
            instants.entry(**key).or_default().push(row.try_get(1)?);
        }
    }
    let admit = |new: &&InsertCheck| {
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

/// Inserts checks with their deadlines, redirect sessions and counters. With `limits`, inserts nothing if a number is
/// over its limit, and the last statement returns a row otherwise.
///
/// Either all checks are inserted or none, so the later statements look for the first one.
fn insert_statements<'a>(
    mut new: Vec<&'a InsertCheck>,
    limits: Option<&LimitedNumbers>,
    slot: i16,
) -> Result<Vec<BatchStatement<'a>>, BatchError> {
    new.sort_unstable_by_key(|new| new.check.id);
    let Some(first) = new.first().map(|new| new.check.id.0) else { return Ok(Vec::new()) };
    let mut statements = Vec::new();
    statements.extend(limits.map(LimitedNumbers::lock));
    statements.push(insert_checks(&new, limits));
    let open: Vec<_> = new.iter().filter(|new| new.expectation.is_some()).collect();
    if !open.is_empty() {
        let insert = "insert into deadlines (due_at, check_id)
                      select * from unnest($1::bigint[], $2::uuid[]) where exists (select from checks where id = $3)";
        statements.push(
            BatchStatement::new(insert)
                .column(&open, |new| new.check.expires_at.as_millisecond())
                .column(&open, |new| new.check.id.0)
                .with(first),
        );
    }
    let silent: Vec<_> = new.iter().filter_map(|new| Some((new.check.id.0, new.silent_input()?))).collect();
    if !silent.is_empty() {
        let insert = "insert into redirect_sessions (check_id, input, wrong_codes)
                      select new.*, 0 from unnest($1::uuid[], $2::bytea[]) as new
                       where exists (select from checks where id = $3)";
        statements.push(
            BatchStatement::new(insert)
                .column(&silent, |(check, _)| *check)
                .column(&silent, |(_, input)| &input.0[..])
                .with(first),
        );
    }
    let counts: Vec<_> = new.iter().map(|new| new.usage()).collect();
    statements.extend(update_counters(&counts, slot, limits.map(|_| first))?);
    if limits.is_some() {
        statements.push(BatchStatement::new("select 1 from checks where id = $1").with(first));
    }
    Ok(statements)
}

macro_rules! insert_checks_sql {
    () => {
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, receiver, number_hash, number_tail, reference_id, callback_url,
                             code_hash, redirect_url, swap_covered, swap_within)
         select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                              $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::bytea[],
                              $14::text[], $15::text[], $16::bytea[], $17::bytea[], $18::bytea[], $19::bigint[],
                              $20::bigint[])"
    };
}

/// With `limits`, the numbers must be distinct.
fn insert_checks<'a>(new: &[&'a InsertCheck], limits: Option<&LimitedNumbers>) -> BatchStatement<'a> {
    let sql = match limits {
        None => insert_checks_sql!(),
        Some(_) => concat!(
            insert_checks_sql!(),
            " where not exists
                (select from unnest($21::bytea[], $22::uuid[], $23::text[], $24::bigint[], $25::bigint[])
                          as requested (number_hash, project_id, product, since, most)
                  where most <= (select count(*) from
                                   (select from checks held
                                     where held.number_hash = requested.number_hash
                                       and held.project_id = requested.project_id
                                       and held.created_at > requested.since and held.product = requested.product
                                     limit requested.most) counted))"
        ),
    };
    let statement = BatchStatement::new(sql)
        .column(new, |new| new.check.id.0)
        .column(new, |new| new.check.project.0)
        .column(new, |new| new.check.created_at.as_millisecond())
        .column(new, |new| new.check.expires_at.as_millisecond())
        .column(new, |new| new.concluded_at().map(Timestamp::as_millisecond))
        .column(new, |new| new.check.product.as_str())
        .column(new, |new| new.check.mode.as_str())
        .column(new, |new| new.check.status().as_str())
        .column(new, |new| new.matched())
        .column(new, |new| new.error_code())
        .column(new, |new| new.check.network.as_ref().map(NetworkId::as_str))
        .column(new, |new| new.expected_sms().map(|(receiver, _)| receiver.as_str()))
        .column(new, |new| new.check.claimed.as_ref().map(|claimed| &claimed.hash.0[..]))
        .column(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string()))
        .column(new, |new| new.check.reference.as_ref().map(Reference::as_str))
        .column(new, |new| new.check.callback_url.as_ref().map(|url| &url.0[..]))
        .column(new, |new| new.expected_sms().map(|(_, code)| &code.0[..]))
        .column(new, |new| new.check.redirect_url.as_ref().map(|url| &url.0[..]))
        .column(new, |new| new.sim_swap().map(|swap| i64::from(swap.covered_minutes)))
        .column(new, |new| new.sim_swap().and_then(|swap| swap.changed_within_minutes).map(i64::from));
    match limits {
        None => statement,
        Some(limits) => limits.bind(statement),
    }
}
