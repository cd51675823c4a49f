//! Creates checks in batches, and enforces the limit of checks per phone number.
//!
//! The table `number_limits` holds the recent creation times for each phone number. Batches with the same number update
//! the same row, so each waits for the other's commit.
//!
//! The limit is rarely reached. A batch is therefore counted and inserted in one round trip, which fails if a number is
//! over its limit. Only then two more round trips follow: the first locks the numbers and reads their times, the second
//! inserts the checks that are within the limit. Two kinds of batches skip the first attempt: those with several checks
//! of the same number, and those that store responses for idempotency keys. In the second kind, a request must store
//! nothing if another request has taken over its claim on the key.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, Reference, Sealed, ShardBucket},
    network::NetworkId,
    reverse_sms::NumberLimit,
    verification::Locale,
};
use ringtrue_engine::ports::{
    checks::{CreateCheckOutcome, NewVerification},
    idempotency::IdempotentResponse,
};
use uuid::Uuid;

use super::{
    BatchQueues,
    batch_queue::{BatchError, BatchQueue, BatchStatement, BatchedOperation, PipelinedTransaction, update_counters},
};
use crate::{
    check_row_mapping::progress_to_json,
    operation::{CheckRow, InsertCheck, number_limit},
    queries::{bucket::digest_bucket, idempotency::claim_lost_error},
};

impl BatchedOperation for InsertCheck {
    const NAME: &'static str = "create";
    const MAX_BATCH_SIZE: usize = 512;
    const CONNECTIONS: usize = 2;
    const FIRST_COUNTER_SLOT: i16 = 1;

    fn queue(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.create
    }

    fn queue_for_two_servers(queues: &BatchQueues) -> &BatchQueue<Self> {
        &queues.create_on_two_servers
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(self.check.id.bucket())
    }

    fn other_buckets(&self) -> Vec<ShardBucket> {
        let number = limit_of(self).map(|((number, ..), _)| digest_bucket(&number));
        let response = self.idempotent_response.as_ref().map(|response| digest_bucket(&response.key_digest));
        number.into_iter().chain(response).collect()
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<CreateCheckOutcome>, BatchError> {
        let numbers = LimitedNumbers::of_batch(batch);
        let responses = sorted_responses(batch.iter().copied());
        if responses.is_empty() && numbers.are_distinct {
            let mut statements = numbers.count_statements(tx);
            statements.extend(insert_statements(batch, tx)?);
            match tx.commit(&statements).await {
                Ok(_) => return Ok(vec![CreateCheckOutcome::Created; batch.len()]),
                Err(BatchError::NumberLimitReached) => tx.rollback().await?,
                Err(error) => return Err(error),
            }
        }
        let (outcomes, counted) = apply_limits(batch, &numbers, &responses, tx).await?;
        let (mut admitted, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for (&new, outcome) in batch.iter().zip(&outcomes) {
            if *outcome == CreateCheckOutcome::Created { admitted.push(new) } else { refused.push(new) }
        }
        let mut statements = Vec::new();
        statements.extend(tx.statements_by_shard(&counted, |((number, ..), _)| digest_bucket(number), store_times));
        statements.extend(tx.statements_by_shard(
            sorted_responses(refused),
            |response| response_bucket(response),
            clear_responses,
        ));
        if !admitted.is_empty() {
            statements.extend(insert_statements(&admitted, tx)?);
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

fn response_bucket(response: &IdempotentResponse) -> ShardBucket {
    digest_bucket(&response.key_digest)
}

/// Stores the responses of requests with idempotency keys. The statement returns a row for each request that still
/// holds its claim on the key.
fn store_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update {idempotency_keys} held set response = new.response
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[], $5::smallint[])
                as new (tenant, key_digest, claim, response, bucket)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.bucket = new.bucket and held.bucket = any($5) and held.response is null
         returning 1",
    )
    .column(responses, |response| response.tenant)
    .column(responses, |response| &response.key_digest[..])
    .column(responses, |response| response.claim_id)
    .column(responses, |response| &response.sealed_response[..])
    .column(responses, |response| response_bucket(response).number())
}

/// Clears the responses that were stored for requests beyond the limit of checks for a phone number, because these
/// requests have created nothing.
fn clear_responses<'a>(responses: &[&'a IdempotentResponse]) -> BatchStatement<'a> {
    BatchStatement::new(
        "update {idempotency_keys} held set response = null
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::smallint[]) as new (tenant, key_digest, claim, bucket)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.bucket = new.bucket and held.bucket = any($4)",
    )
    .column(responses, |response| response.tenant)
    .column(responses, |response| &response.key_digest[..])
    .column(responses, |response| response.claim_id)
    .column(responses, |response| response_bucket(response).number())
}

/// What a limit of checks applies to: the hash of a phone number, the project and the product.
type LimitKey = ([u8; 32], Uuid, &'static str);

fn limit_of(new: &InsertCheck) -> Option<(LimitKey, NumberLimit)> {
    let (claimed, limit) = new.check.claimed.zip(new.number_limit)?;
    Some(((claimed.hash.0, new.check.project.0, new.check.product.into_str()), limit))
}

/// A limit that applies to a batch: its key, the limit, and the creation time of the first check.
type LimitEntry<'l> = (&'l LimitKey, &'l (NumberLimit, i64));

/// The phone numbers of a batch for which checks are limited. Each has the limit and the creation time of the first
/// check with this number.
struct LimitedNumbers {
    limits: BTreeMap<LimitKey, (NumberLimit, i64)>,
    are_distinct: bool,
}

impl LimitedNumbers {
    fn of_batch(batch: &[&InsertCheck]) -> Self {
        let (mut limits, mut are_distinct) = (BTreeMap::<LimitKey, (NumberLimit, i64)>::new(), true);
        for new in batch {
            let Some((key, limit)) = limit_of(new) else { continue };
            match limits.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert((limit, new.check.created_at.as_millisecond()))),
                Entry::Occupied(_) => are_distinct = false,
            }
        }
        LimitedNumbers { limits, are_distinct }
    }

    /// Returns statements that count one check for each number. They write the rows in the order of their keys, so that
    /// batches cannot deadlock. If a number is over its limit, they set `max_checks` to null, which violates its
    /// `not null` constraint and is reported as [`BatchError::NumberLimitReached`].
    fn count_statements(&self, tx: &PipelinedTransaction<'_>) -> Vec<BatchStatement<'static>> {
        self.statements_by_shard(
            tx,
            "insert into {number_limits} as held
                    (number_hash, project_id, product, max_checks, last_at, expires_at, bucket, recent)
             select new.*, int8send(last_at)
               from unnest($1::bytea[], $2::uuid[], $3::text[], $4::integer[], $5::bigint[], $6::bigint[], $7::smallint[])
                    as new (number_hash, project_id, product, max_checks, last_at, expires_at, bucket)
             on conflict (number_hash, project_id, product, bucket) do update
                set max_checks = case when length(held.recent) >= 8 * excluded.max_checks
                                       and substring(held.recent, length(held.recent) + 1 - 8 * excluded.max_checks, 8)
                                           > int8send(2 * excluded.last_at - excluded.expires_at)
                                      then null else excluded.max_checks end,
                    last_at = greatest(held.last_at, excluded.last_at), expires_at = excluded.expires_at,
                    recent = substring(held.recent || int8send(greatest(held.last_at, excluded.last_at)),
                                       greatest(1, length(held.recent) + 9 - 8 * excluded.max_checks))",
        )
    }

    /// Returns statements that lock the row of each number, in the order of the keys, and return the creation times.
    fn lock_statements(&self, tx: &PipelinedTransaction<'_>) -> Vec<BatchStatement<'static>> {
        self.statements_by_shard(
            tx,
            "insert into {number_limits} as held
                    (number_hash, project_id, product, max_checks, last_at, expires_at, bucket, recent)
             select new.*, ''
               from unnest($1::bytea[], $2::uuid[], $3::text[], $4::integer[], $5::bigint[], $6::bigint[], $7::smallint[])
                    as new (number_hash, project_id, product, max_checks, last_at, expires_at, bucket)
             on conflict (number_hash, project_id, product, bucket) do update set expires_at = excluded.expires_at
             returning number_hash, project_id, product, recent",
        )
    }

    /// Returns statements whose parameters are arrays of number hashes, projects, products, limits, creation times, ends
    /// of windows and buckets.
    fn statements_by_shard(&self, tx: &PipelinedTransaction<'_>, sql: &'static str) -> Vec<BatchStatement<'static>> {
        let max_checks = |limit: NumberLimit| i32::try_from(limit.max_checks).unwrap_or(i32::MAX / 8);
        let statement = |limits: &[LimitEntry<'_>]| {
            BatchStatement::new(sql)
                .column(limits, |((number, ..), _)| number.to_vec())
                .column(limits, |((_, project, _), _)| *project)
                .column(limits, |((.., product), _)| *product)
                .column(limits, |(_, (limit, _))| max_checks(*limit))
                .column(limits, |(_, (_, at))| *at)
                .column(limits, |(_, (limit, at))| at + number_limit::window_millis(*limit))
                .column(limits, |((number, ..), _)| digest_bucket(number).number())
        };
        tx.statements_by_shard(&self.limits, |((number, ..), _)| digest_bucket(number), statement)
    }
}

/// Creation times of recent checks for each phone number, project and product, in ascending order.
type Times = BTreeMap<LimitKey, Vec<i64>>;

/// Locks the numbers, stores the responses to idempotent requests, and applies the limits in the order of the batch.
/// Returns the outcomes, and the creation times that have changed.
async fn apply_limits(
    batch: &[&InsertCheck],
    numbers: &LimitedNumbers,
    responses: &[&IdempotentResponse],
    tx: &mut PipelinedTransaction<'_>,
) -> Result<(Vec<CreateCheckOutcome>, Times), BatchError> {
    let mut statements = numbers.lock_statements(tx);
    let locks = statements.len();
    statements.extend(tx.statements_by_shard(
        responses.iter().copied(),
        |response| response_bucket(response),
        store_responses,
    ));
    let rows = tx.run(&statements).await?;
    let (locked, stored) = rows.split_at(locks);
    // Fewer rows than responses: a request has lost its claim, because it took longer than its lease. The error splits
    // the batch, to isolate this request.
    if stored.iter().map(Vec::len).sum::<usize>() < responses.len() {
        return Err(BatchError::Rows(claim_lost_error()));
    }
    let mut known = HashMap::<(Vec<u8>, Uuid, String), Vec<i64>>::new();
    for row in locked.iter().flatten() {
        let recent: Vec<u8> = row.try_get(3)?;
        let times = recent.as_chunks::<8>().0.iter().map(|time| i64::from_be_bytes(*time)).collect();
        known.insert((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?), times);
    }
    let mut changed = Times::new();
    let admit = |new: &&InsertCheck| {
        let Some((key, limit)) = limit_of(new) else { return CreateCheckOutcome::Created };
        let at = new.check.created_at;
        let times = known.entry((key.0.to_vec(), key.1, key.2.to_owned())).or_default();
        let since = at.as_millisecond() - number_limit::window_millis(limit);
        let counted = &times[times.partition_point(|time| *time <= since)..];
        if let Some(retry_at) = number_limit::blocked_until(limit, counted).filter(|retry_at| at < *retry_at) {
            return CreateCheckOutcome::TooManyChecks { retry_at };
        }
        *times = number_limit::with_create(limit, counted, at);
        changed.insert(key, times.clone());
        CreateCheckOutcome::Created
    };
    let outcomes = batch.iter().map(admit).collect();
    Ok((outcomes, changed))
}

/// Stores the creation times of numbers, whose rows [`LimitedNumbers::lock_statements`] have locked.
fn store_times(times: &[(&LimitKey, &Vec<i64>)]) -> BatchStatement<'static> {
    let to_bytes = |times: &Vec<i64>| times.iter().flat_map(|time| time.to_be_bytes()).collect::<Vec<u8>>();
    BatchStatement::new(
        "update {number_limits} held set recent = new.recent, last_at = greatest(held.last_at, new.last_at)
           from unnest($1::bytea[], $2::uuid[], $3::text[], $4::bytea[], $5::bigint[], $6::smallint[])
                as new (number_hash, project_id, product, recent, last_at, bucket)
          where held.number_hash = new.number_hash and held.project_id = new.project_id
            and held.product = new.product and held.bucket = new.bucket and held.bucket = any($6)",
    )
    .column(times, |((number, ..), _)| number.to_vec())
    .column(times, |((_, project, _), _)| *project)
    .column(times, |((.., product), _)| *product)
    .column(times, |(_, times)| to_bytes(times))
    .column(times, |(_, times)| times.last().copied())
    .column(times, |((number, ..), _)| digest_bucket(number).number())
}

/// Returns the statements that insert checks with their verifications, deadlines, redirect sessions and counters.
fn insert_statements<'a>(
    new: &[&'a InsertCheck],
    tx: &PipelinedTransaction<'_>,
) -> Result<Vec<BatchStatement<'a>>, BatchError> {
    let mut rows: Vec<CheckRow<'_>> = new.iter().flat_map(|new| new.rows()).collect();
    rows.sort_unstable_by_key(|row| row.check.id);
    let mut statements = tx.statements_by_shard(rows.iter().copied(), |row| row.check.id.bucket(), insert_checks);
    let deadlines = rows.iter().filter_map(|row| Some((row.deadline?, row.check.id)));
    statements.extend(tx.statements_by_shard(deadlines, |(_, check)| check.bucket(), insert_deadlines));
    let silent = rows.iter().filter_map(|row| Some((row.check.id, row.silent_input()?)));
    statements.extend(tx.statements_by_shard(silent, |(check, _)| check.bucket(), insert_redirect_sessions));
    statements.extend(insert_verifications(new, tx)?);
    let counts: Vec<_> = rows.iter().map(CheckRow::usage).collect();
    statements.extend(update_counters(&counts, tx.counters())?);
    Ok(statements)
}

fn insert_deadlines(deadlines: &[(Timestamp, CheckId)]) -> BatchStatement<'static> {
    let insert = "insert into {deadlines} (due_at, check_id, bucket)
                  select * from unnest($1::bigint[], $2::uuid[], $3::smallint[])";
    BatchStatement::new(insert)
        .column(deadlines, |(due_at, _)| due_at.as_millisecond())
        .column(deadlines, |(_, check)| check.0)
        .column(deadlines, |(_, check)| check.bucket().number())
}

fn insert_redirect_sessions<'a>(silent: &[(CheckId, &'a Sealed)]) -> BatchStatement<'a> {
    let insert = "insert into {redirect_sessions} (check_id, input, bucket, wrong_codes)
                  select new.*, 0 from unnest($1::uuid[], $2::bytea[], $3::smallint[]) as new";
    BatchStatement::new(insert)
        .column(silent, |(check, _)| check.0)
        .column(silent, |(_, input)| &input.0[..])
        .column(silent, |(check, _)| check.bucket().number())
}

/// Inserts the verifications that begin with these checks.
fn insert_verifications<'a>(
    new: &[&'a InsertCheck],
    tx: &PipelinedTransaction<'_>,
) -> Result<Vec<BatchStatement<'a>>, BatchError> {
    let mut begun = Vec::new();
    for new in new {
        if let Some(verification) = &new.verification {
            let progress = progress_to_json(&verification.progress).map_err(BatchError::Rows)?;
            begun.push((&**verification, new.check.id, progress));
        }
    }
    begun.sort_unstable_by_key(|(verification, ..)| verification.check.id);
    let statement = |begun: &[(&'a NewVerification, CheckId, String)]| {
        let insert = "insert into {verifications} (check_id, bucket, step_id, progress, input, locale)
                      select * from unnest($1::uuid[], $2::smallint[], $3::uuid[], $4::text[], $5::bytea[], $6::text[])";
        BatchStatement::new(insert)
            .column(begun, |(verification, ..)| verification.check.id.0)
            .column(begun, |(verification, ..)| verification.check.id.bucket().number())
            .column(begun, |(_, step, _)| step.0)
            .column(begun, |(.., progress)| progress.clone())
            .column(begun, |(verification, ..)| &verification.input.0[..])
            .column(begun, |(verification, ..)| verification.locale.as_ref().map(Locale::as_str))
    };
    Ok(tx.statements_by_shard(begun, |(_, step, _)| step.bucket(), statement))
}

fn insert_checks<'a>(new: &[CheckRow<'a>]) -> BatchStatement<'a> {
    BatchStatement::new(
        "insert into {checks} (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, receiver, number_hash, number_tail, reference_id, callback_url,
                             code_hash, redirect_url, swap_covered, swap_within, bucket, verification_id)
         select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                              $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::bytea[],
                              $14::text[], $15::text[], $16::bytea[], $17::bytea[], $18::bytea[], $19::bigint[],
                              $20::bigint[], $21::smallint[], $22::uuid[])",
    )
    .column(new, |new| new.check.id.0)
    .column(new, |new| new.check.project.0)
    .column(new, |new| new.check.created_at.as_millisecond())
    .column(new, |new| new.check.expires_at.as_millisecond())
    .column(new, |new| new.concluded_at().map(Timestamp::as_millisecond))
    .column(new, |new| new.check.product.into_str())
    .column(new, |new| new.check.mode.into_str())
    .column(new, |new| new.check.status().into_str())
    .column(new, CheckRow::matched)
    .column(new, CheckRow::error_code)
    .column(new, |new| new.check.network.as_ref().map(NetworkId::as_str))
    .column(new, |new| new.expected_sms().map(|(receiver, _)| receiver.as_str()))
    .column(new, |new| new.check.claimed.as_ref().map(|claimed| &claimed.hash.0[..]))
    .column(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string()))
    .column(new, |new| new.check.reference.as_ref().map(Reference::as_str))
    .column(new, |new| new.check.callback_url.as_ref().map(|url| &url.0[..]))
    .column(new, |new| new.expected_sms().map(|(_, code)| &code.0[..]))
    .column(new, |new| new.check.redirect_url.as_ref().map(|url| &url.0[..]))
    .column(new, |new| new.sim_swap().map(|swap| i64::from(swap.covered_minutes)))
    .column(new, |new| new.sim_swap().and_then(|swap| swap.changed_within_minutes).map(i64::from))
    .column(new, |new| new.check.id.bucket().number())
    .column(new, |new| new.check.verification.map(|verification| verification.0))
}
