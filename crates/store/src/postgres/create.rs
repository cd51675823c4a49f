//! New checks, many at a time.
//!
//! A batch takes two round trips: answers for idempotency keys and what the guard has to know, then the checks that the
//! guard lets pass.
//!
//! The guard counts the checks themselves. A lock on each number, held until the commit, keeps two batches from counting
//! at the same time: the second sees what the first has stored.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::{lifecycle::Sealed, phone::Msisdn};
use ringtrue_engine::ports::{Admitted, Awaits, CodeHash, Completion, NewCheck};
use uuid::Uuid;

use super::{
    checks::column,
    counters::change_counters,
    lane::{Batch, BatchError, Call, Running, Verb},
};
use crate::{check_rows, guard, verbs::idempotency::claim_was_lost};

impl Verb for NewCheck {
    type Answer = Admitted;
    const NAME: &'static str = "create";
    /// Each takes a place in the server's table of locks.
    const MAX_BATCH: usize = 512;

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
            let mut calls = vec![insert_checks(&stored), insert_deadlines(&stored), change_counters(&counts)?];
            let journeys: Vec<_> = stored.iter().filter_map(|new| Some((new.check.id.0, brief(new)?))).collect();
            if !journeys.is_empty() {
                calls.push(insert_journeys(&journeys));
            }
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
pub(super) fn complete(completions: &[&Completion]) -> Call {
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

fn guarded(new: &NewCheck) -> Option<Guarded> {
    new.check.claimed.map(|claimed| (claimed.hash.0, new.check.project.0))
}

/// Counts each check against its number, in the order of the batch, and tells which ones are too many. The completions
/// go along.
async fn pass_guard(
    batch: &[NewCheck],
    completions: &[&Completion],
    tx: &mut Batch<'_>,
) -> Result<Vec<Admitted>, BatchError> {
    let mut wanted = BTreeMap::<Guarded, &NewCheck>::new();
    for new in batch {
        if let Some(key) = guarded(new) {
            let widest = wanted.entry(key).or_insert(new);
            if (new.guard.creates, new.guard.within_seconds) > (widest.guard.creates, widest.guard.within_seconds) {
                *widest = new;
            }
        }
    }
    let mut calls = vec![lock(&wanted), recent(&wanted)];
    if !completions.is_empty() {
        calls.push(complete(completions));
    }
    let mut rows = tx.step(&calls).await?;
    // This happens to requests that are slower than their lease: the batch is cut until they are alone.
    if !completions.is_empty() && rows.pop().is_none_or(|completed| completed.len() < completions.len()) {
        return Err(BatchError::Rows(claim_was_lost()));
    }
    let keys: Vec<Guarded> = wanted.into_keys().collect();
    let mut instants = HashMap::<Guarded, Vec<i64>>::new();
    for row in rows.pop().iter().flatten() {
        let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
        if let Some(key) = place.and_then(|place| keys.get(place)) {
            instants.entry(*key).or_default().push(row.try_get(1)?);
        }
    }
    let admit = |new: &NewCheck| {
        let Some(key) = guarded(new) else { return Admitted::Stored };
        let instants = instants.entry(key).or_default();
        let at = new.check.created_at;
        if let Some(until) = guard::closed_until(new.guard, instants).filter(|until| at < *until) {
            return Admitted::TooOften { until };
        }
        *instants = guard::with(new.guard, instants, at);
        Admitted::Stored
    };
    Ok(batch.iter().map(admit).collect())
}

/// One batch at a time counts a number. The numbers are locked in their order, so that no two batches wait for each
/// other; that a lock may stand for two of them does no harm.
fn lock(wanted: &BTreeMap<Guarded, &NewCheck>) -> Call {
    let mut locks: Vec<i64> = wanted.keys().map(|(number, project)| lock_of(number, *project)).collect();
    locks.sort_unstable();
    locks.dedup();
    Call::new("select count(pg_advisory_xact_lock(number)) from unnest($1::bigint[]) as number").with(locks)
}

fn lock_of(number: &[u8; 32], project: Uuid) -> i64 {
    let eight = |bytes: &[u8]| bytes.iter().take(8).fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    // The end of an id is the random part of it.
    (eight(number) ^ eight(&project.as_bytes()[8..])).cast_signed()
}

/// When these numbers were last asked about, as far as that counts, in ascending order.
fn recent(wanted: &BTreeMap<Guarded, &NewCheck>) -> Call {
    Call::new(
        "select wanted.place, held.created_at
           from unnest($1::bytea[], $2::uuid[], $3::bigint[], $4::bigint[]) with ordinality
                  as wanted (number_hash, project_id, since, most, place)
                cross join lateral
                  (select created_at from checks
                    where number_hash = wanted.number_hash and project_id = wanted.project_id
                      and created_at > wanted.since and product <> 'discovery'
                    order by created_at desc limit wanted.most) held
          order by wanted.place, held.created_at",
    )
    .with(wanted.keys().map(|(number, _)| number.to_vec()).collect::<Vec<_>>())
    .with(wanted.keys().map(|(_, project)| *project).collect::<Vec<_>>())
    .with(column_of(wanted, |new| new.check.created_at.as_millisecond() - guard::window_millis(new.guard)))
    .with(column_of(wanted, |new| i64::from(new.guard.creates)))
}

fn column_of<T>(wanted: &BTreeMap<Guarded, &NewCheck>, of: impl Fn(&NewCheck) -> T) -> Vec<T> {
    wanted.values().map(|&new| of(new)).collect()
}

fn insert_checks(new: &[&NewCheck]) -> Call {
    Call::new(
        "insert into checks (id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                             number_tail, reference_id, callback_url, code_hash, redirect_url, status)
         select new.*, 'ACCEPTED'
           from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                       $8::text[], $9::bytea[], $10::text[], $11::text[], $12::bytea[], $13::bytea[], $14::bytea[])
                as new",
    )
    .with(column(new, |new| new.check.id.0))
    .with(column(new, |new| new.check.project.0))
    .with(column(new, |new| new.check.created_at.as_millisecond()))
    .with(column(new, |new| new.check.expires_at.as_millisecond()))
    .with(column(new, |new| new.check.product.as_str()))
    .with(column(new, |new| new.check.mode.as_str()))
    .with(column(new, |new| new.check.network.as_ref().map(|network| network.as_str().to_owned())))
    .with(column(new, |new| sms(new).map(|(receiver, _)| receiver.as_str().to_owned())))
    .with(column(new, |new| new.check.claimed.map(|claimed| claimed.hash.0.to_vec())))
    .with(column(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string())))
    .with(column(new, |new| new.check.reference.as_ref().map(|reference| reference.as_str().to_owned())))
    .with(column(new, |new| new.check.callback_url.as_ref().map(|url| url.0.clone())))
    .with(column(new, |new| sms(new).map(|(_, code)| code.0.to_vec())))
    .with(column(new, |new| new.check.redirect_url.as_ref().map(|url| url.0.clone())))
}

fn insert_deadlines(new: &[&NewCheck]) -> Call {
    Call::new("insert into deadlines (due_at, check_id) select * from unnest($1::bigint[], $2::uuid[])")
        .with(column(new, |new| new.check.expires_at.as_millisecond()))
        .with(column(new, |new| new.check.id.0))
}

/// What is awaited from whom, if it is an SMS.
fn sms(new: &NewCheck) -> Option<(&Msisdn, CodeHash)> {
    match &new.awaits {
        Awaits::Sms { receiver, code } => Some((receiver, *code)),
        Awaits::Device { .. } => None,
    }
}

fn brief(new: &NewCheck) -> Option<&Sealed> {
    match &new.awaits {
        Awaits::Device { brief } => Some(brief),
        Awaits::Sms { .. } => None,
    }
}

fn insert_journeys(journeys: &[(Uuid, &Sealed)]) -> Call {
    Call::new(
        "insert into journeys (check_id, brief, wrong_codes)
         select new.*, 0 from unnest($1::uuid[], $2::bytea[]) as new",
    )
    .with(journeys.iter().map(|(id, _)| *id).collect::<Vec<_>>())
    .with(journeys.iter().map(|(_, brief)| brief.0.clone()).collect::<Vec<_>>())
}
