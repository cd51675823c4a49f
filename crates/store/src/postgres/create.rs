//! New checks, many at a time.
//!
//! A batch takes two round trips: answers for idempotency keys and the guard, then the checks that the guard let pass. A
//! number that occurs several times in a batch takes another one for each time.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use ringtrue_domain::reverse_sms::NumberGuard;
use ringtrue_engine::ports::{Admitted, Completion, NewReverseSms, StoreError};
use uuid::Uuid;

use super::{
    checks::column,
    counters::change_counters,
    lane::{Batch, BatchError, Call, Running, Verb},
};
use crate::{check_rows, guard, verbs::idempotency::claim_was_lost};

impl Verb for NewReverseSms {
    type Answer = Admitted;
    const NAME: &'static str = "create";

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, Admitted> {
        Box::pin(async move {
            let mut completions: Vec<_> = batch.iter().filter_map(|new| new.completion.as_ref()).collect();
            completions.sort_unstable_by_key(|completion| (completion.tenant, completion.key_digest));

            let answers = pass_guard(batch, &completions, &mut tx).await?;
            let (mut stored, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
            for (new, answer) in batch.iter().zip(&answers) {
                if *answer == Admitted::Stored { stored.push(new) } else { refused.push(new) }
            }
            stored.sort_unstable_by_key(|new| new.check.id);
            let counts: Vec<_> = stored.iter().map(|new| check_rows::count_of(new)).collect();
            let [hours, days] = change_counters(&counts)?;
            let mut calls = vec![insert_checks(&stored), insert_codes(&stored), hours, days];
            let taken_back: Vec<_> = refused.iter().filter_map(|new| new.completion.as_ref()).collect();
            if !taken_back.is_empty() {
                calls.insert(0, take_back(&taken_back));
            }
            let (_, committed) = tx.commit(&calls).await?;
            Ok((answers, committed))
        })
    }
}

/// Writes the answers of keyed requests. Whose claim was taken over is missing from what this returns.
fn complete(completions: &[&Completion]) -> Call {
    Call::new(
        "update idempotency_keys held set answer = new.answer
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[]) as new (tenant, key_digest, claim, answer)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.answer is null
         returning 1",
    )
    .with(column(completions, |completion| completion.tenant))
    .with(column(completions, |completion| completion.key_digest.to_vec()))
    .with(column(completions, |completion| completion.claim))
    .with(column(completions, |completion| completion.sealed_answer.clone()))
}

/// Requests that the guard refuses have done nothing, so there is no answer to keep.
fn take_back(completions: &[&Completion]) -> Call {
    Call::new(
        "update idempotency_keys held set answer = null
           from unnest($1::uuid[], $2::bytea[], $3::uuid[]) as new (tenant, key_digest, claim)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim",
    )
    .with(column(completions, |completion| completion.tenant))
    .with(column(completions, |completion| completion.key_digest.to_vec()))
    .with(column(completions, |completion| completion.claim))
}

/// A number, as one project asks about it.
type Guarded = ([u8; 32], Uuid);

fn guarded(new: &NewReverseSms) -> Option<Guarded> {
    new.check.claimed.map(|claimed| (claimed.hash.0, new.check.project.0))
}

/// Counts each check against its number, in the order of the batch, and tells which ones are too many. The completions
/// go with the first of its statements.
async fn pass_guard(
    batch: &[NewReverseSms],
    completions: &[&Completion],
    tx: &mut Batch<'_>,
) -> Result<Vec<Admitted>, BatchError> {
    let mut answers = vec![Admitted::Stored; batch.len()];
    let mut queues = BTreeMap::<Guarded, Vec<usize>>::new();
    for (position, new) in batch.iter().enumerate().rev() {
        if let Some(key) = guarded(new) {
            queues.entry(key).or_default().push(position);
        }
    }
    let mut closed = HashMap::<Guarded, Timestamp>::new();
    let mut has_completed = completions.is_empty();
    while !has_completed || !queues.is_empty() {
        let next: Vec<(Guarded, usize)> =
            queues.iter_mut().filter_map(|(key, queue)| queue.pop().map(|position| (*key, position))).collect();
        queues.retain(|_, queue| !queue.is_empty());
        let is_closed = |key: &Guarded, position: usize| {
            closed.get(key).copied().filter(|until| batch[position].check.created_at < *until)
        };
        let mut asked = Vec::with_capacity(next.len());
        for (key, position) in next {
            match is_closed(&key, position) {
                Some(until) => answers[position] = Admitted::TooOften { until },
                None => asked.push((key, position)),
            }
        }
        if asked.is_empty() && has_completed {
            continue;
        }
        let mut calls = count_asked(batch, &asked);
        if !has_completed {
            calls.push(complete(completions));
        }
        let mut rows = tx.step(&calls).await?;
        if !has_completed {
            has_completed = true;
            // This happens to requests that are slower than their lease: the batch is cut until they are alone.
            if rows.pop().is_none_or(|completed| completed.len() < completions.len()) {
                return Err(BatchError::Rows(claim_was_lost()));
            }
        }
        let mut passed = HashSet::<Guarded>::new();
        for row in rows.iter().flatten() {
            passed.insert((digest(row.try_get(0)?)?, row.try_get(1)?));
        }
        asked.retain(|(key, _)| !passed.contains(key));
        for (key, until) in closed_until(batch, &asked, tx).await? {
            closed.insert(key, until);
        }
        for (key, position) in asked {
            let until = closed.get(&key).copied().unwrap_or(batch[position].check.created_at);
            answers[position] = Admitted::TooOften { until };
        }
    }
    Ok(answers)
}

/// Numbers with one kind of guard.
#[derive(Default)]
struct Asked {
    numbers: Vec<Vec<u8>>,
    projects: Vec<Uuid>,
    instants: Vec<i64>,
}

/// One statement for each kind of guard, which is one. It gives those that pass, and locks the others until the end.
fn count_asked(batch: &[NewReverseSms], asked: &[(Guarded, usize)]) -> Vec<Call> {
    let mut kinds = BTreeMap::<(u32, u32), Asked>::new();
    for ((number, project), position) in asked {
        let NewReverseSms { guard, check, .. } = &batch[*position];
        let kind = kinds.entry((guard.creates, guard.within_seconds)).or_default();
        kind.numbers.push(number.to_vec());
        kind.projects.push(*project);
        kind.instants.push(check.created_at.as_millisecond());
    }
    let call = |((creates, within_seconds), asked): ((u32, u32), Asked)| {
        Call::new(
            "insert into number_guard as held (number_hash, project_id, instants, expires_at)
             select new.number_hash, new.project_id, array[new.at], new.at + $5::bigint
               from unnest($1::bytea[], $2::uuid[], $3::bigint[]) as new (number_hash, project_id, at)
             on conflict (number_hash, project_id) do update
                set instants = held.instants[cardinality(held.instants) - $4::integer + 2 :]
                               || greatest(excluded.instants[1], held.instants[cardinality(held.instants)]),
                    expires_at = greatest(held.expires_at, excluded.expires_at)
              where cardinality(held.instants) < $4::integer
                 or held.instants[cardinality(held.instants) - $4::integer + 1] + $5::bigint <= excluded.instants[1]
             returning held.number_hash, held.project_id",
        )
        .with(asked.numbers)
        .with(asked.projects)
        .with(asked.instants)
        .with(i32::try_from(creates).unwrap_or(i32::MAX / 2))
        .with(guard::window_millis(NumberGuard { creates, within_seconds }))
    };
    kinds.into_iter().map(call).collect()
}

/// From when on numbers may be asked about again that may not now.
async fn closed_until(
    batch: &[NewReverseSms],
    refused: &[(Guarded, usize)],
    tx: &mut Batch<'_>,
) -> Result<Vec<(Guarded, Timestamp)>, BatchError> {
    if refused.is_empty() {
        return Ok(Vec::new());
    }
    let guards: HashMap<Guarded, NumberGuard> =
        refused.iter().map(|(key, position)| (*key, batch[*position].guard)).collect();
    let select = Call::new(
        "select held.number_hash, held.project_id, held.instants
           from unnest($1::bytea[], $2::uuid[]) as wanted (number_hash, project_id)
                join number_guard held
                  on held.number_hash = wanted.number_hash and held.project_id = wanted.project_id",
    )
    .with(refused.iter().map(|((number, _), _)| number.to_vec()).collect::<Vec<_>>())
    .with(refused.iter().map(|((_, project), _)| *project).collect::<Vec<_>>());
    let mut untils = Vec::new();
    for row in tx.step(&[select]).await?.iter().flatten() {
        let key = (digest(row.try_get(0)?)?, row.try_get(1)?);
        let instants: Vec<i64> = row.try_get(2)?;
        let until = guards.get(&key).and_then(|guard| guard::closed_until(*guard, &instants));
        untils.extend(until.map(|until| (key, until)));
    }
    Ok(untils)
}

fn digest(bytes: &[u8]) -> Result<[u8; 32], BatchError> {
    let wrong = |_| StoreError::Refused("a hash that is not 32 bytes".to_owned());
    bytes.try_into().map_err(wrong).map_err(BatchError::Rows)
}

fn insert_checks(new: &[&NewReverseSms]) -> Call {
    Call::new(
        "insert into checks (id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                             number_tail, reference_id, callback_url, status)
         select new.*, 'ACCEPTED'
           from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                       $8::text[], $9::bytea[], $10::text[], $11::text[], $12::bytea[]) as new",
    )
    .with(column(new, |new| new.check.id.0))
    .with(column(new, |new| new.check.project.0))
    .with(column(new, |new| new.check.created_at.as_millisecond()))
    .with(column(new, |new| new.check.expires_at.as_millisecond()))
    .with(column(new, |new| new.check.product.as_str()))
    .with(column(new, |new| new.check.mode.as_str()))
    .with(column(new, |new| new.check.network.as_ref().map(|network| network.as_str().to_owned())))
    .with(column(new, |new| new.receiver.as_str().to_owned()))
    .with(column(new, |new| new.check.claimed.map(|claimed| claimed.hash.0.to_vec())))
    .with(column(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string())))
    .with(column(new, |new| new.check.reference.as_ref().map(|reference| reference.as_str().to_owned())))
    .with(column(new, |new| new.check.callback_url.as_ref().map(|url| url.0.clone())))
}

fn insert_codes(new: &[&NewReverseSms]) -> Call {
    Call::new(
        "insert into reverse_sms_codes (code_hash, check_id, expires_at)
         select * from unnest($1::bytea[], $2::uuid[], $3::bigint[])",
    )
    .with(column(new, |new| new.code.0.to_vec()))
    .with(column(new, |new| new.check.id.0))
    .with(column(new, |new| new.check.expires_at.as_millisecond()))
}
