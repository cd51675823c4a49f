//! New checks, many at a time.
//!
//! Hardly ever is one too many for the guard. So a batch is first stored on the condition that none is, which takes one
//! round trip. Only if that fails it takes two more: what the guard has to know, then the checks that it lets pass. So do
//! batches with answers for idempotency keys.
//!
//! The guard counts the checks themselves. A lock on each number, held until the commit, keeps two batches from counting
//! at the same time: the second sees what the first has stored.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::{
    lifecycle::{Reference, Sealed},
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::NumberGuard,
};
use ringtrue_engine::ports::{Admitted, Awaits, CodeHash, Completion, NewCheck};
use uuid::Uuid;

use super::{
    checks::column,
    counters::with_counters,
    lane::{Batch, BatchError, Call, Running, Verb},
};
use crate::{
    check_rows, guard,
    verbs::{idempotency::claim_was_lost, usage::change_sql},
};

impl Verb for NewCheck {
    type Answer = Admitted;
    const NAME: &'static str = "create";
    /// Each takes a place in the server's table of locks.
    const MAX_BATCH: usize = 512;
    const FIRST_SLOT: i16 = 1;

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, Admitted> {
        Box::pin(async move {
            let mut completions: Vec<_> = batch.iter().filter_map(|new| new.completion.as_ref()).collect();
            completions.sort_unstable_by_key(|completion| (completion.tenant, completion.key_digest));

            let wanted = Wanted::by(batch);
            if completions.is_empty() && wanted.is_each_once {
                let mut new: Vec<&NewCheck> = batch.iter().collect();
                new.sort_unstable_by_key(|new| new.check.id);
                let mut calls = vec![lock(&wanted), store(&new, Guard::Looks, tx.slot())?];
                calls.extend(insert_journeys(&new));
                let (rows, committed) = tx.try_commit(&calls).await?;
                if let Some([row]) = rows.get(1).map(Vec::as_slice)
                    && row.try_get(0)?
                {
                    return Ok((vec![Admitted::Stored; batch.len()], committed));
                }
            }
            let answers = pass_guard(batch, wanted, &completions, &mut tx).await?;
            let (mut stored, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
            for (new, answer) in batch.iter().zip(&answers) {
                if *answer == Admitted::Stored { stored.push(new) } else { refused.push(new) }
            }
            stored.sort_unstable_by_key(|new| new.check.id);
            let mut calls = vec![store(&stored, Guard::HasLooked, tx.slot())?];
            calls.extend(insert_journeys(&stored));
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
pub(super) fn complete<'a>(completions: &[&'a Completion]) -> Call<'a> {
    Call::new(
        "update idempotency_keys held set answer = new.answer
           from unnest($1::uuid[], $2::bytea[], $3::uuid[], $4::bytea[]) as new (tenant, key_digest, claim, answer)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim
            and held.answer is null
         returning 1",
    )
    .with(column(completions, |completion| completion.tenant))
    .with(column(completions, |completion| &completion.key_digest[..]))
    .with(column(completions, |completion| completion.claim))
    .with(column(completions, |completion| &completion.sealed_answer[..]))
}

/// Requests that the guard refuses have done nothing, so there is no answer to keep.
fn take_back<'a>(completions: &[&'a Completion]) -> Call<'a> {
    Call::new(
        "update idempotency_keys held set answer = null
           from unnest($1::uuid[], $2::bytea[], $3::uuid[]) as new (tenant, key_digest, claim)
          where held.tenant = new.tenant and held.key_digest = new.key_digest and held.claim = new.claim",
    )
    .with(column(completions, |completion| completion.tenant))
    .with(column(completions, |completion| &completion.key_digest[..]))
    .with(column(completions, |completion| completion.claim))
}

/// A number, as one project asks about it for one product.
type Guarded = ([u8; 32], Uuid, &'static str);

fn guarded(new: &NewCheck) -> Option<(Guarded, NumberGuard)> {
    let (claimed, guard) = new.check.claimed.zip(new.guard)?;
    Some(((claimed.hash.0, new.check.project.0, new.check.product.as_str()), guard))
}

/// The numbers of a batch, each with the check that has most to ask about it.
struct Wanted<'a> {
    numbers: BTreeMap<Guarded, (&'a NewCheck, NumberGuard)>,
    is_each_once: bool,
}

impl<'a> Wanted<'a> {
    fn by(batch: &'a [NewCheck]) -> Self {
        let (mut numbers, mut is_each_once) = (BTreeMap::<Guarded, (&NewCheck, NumberGuard)>::new(), true);
        for new in batch {
            let Some((key, guard)) = guarded(new) else { continue };
            let widest = numbers.entry(key).or_insert((new, guard));
            is_each_once &= std::ptr::eq(widest.0, new);
            if (guard.creates, guard.within_seconds) > (widest.1.creates, widest.1.within_seconds) {
                *widest = (new, guard);
            }
        }
        Wanted { numbers, is_each_once }
    }
}

/// Counts each check against its number, in the order of the batch, and tells which ones are too many. The completions
/// go along.
async fn pass_guard(
    batch: &[NewCheck],
    wanted: Wanted<'_>,
    completions: &[&Completion],
    tx: &mut Batch<'_>,
) -> Result<Vec<Admitted>, BatchError> {
    let mut calls = vec![lock(&wanted), recent(&wanted.numbers)];
    if !completions.is_empty() {
        calls.push(complete(completions));
    }
    let mut rows = tx.step(&calls).await?;
    // This happens to requests that are slower than their lease: the batch is cut until they are alone.
    if !completions.is_empty() && rows.pop().is_none_or(|completed| completed.len() < completions.len()) {
        return Err(BatchError::Rows(claim_was_lost()));
    }
    let keys: Vec<Guarded> = wanted.numbers.into_keys().collect();
    let mut instants = HashMap::<Guarded, Vec<i64>>::new();
    for row in rows.pop().iter().flatten() {
        let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).ok();
        if let Some(key) = place.and_then(|place| keys.get(place)) {
            instants.entry(*key).or_default().push(row.try_get(1)?);
        }
    }
    let admit = |new: &NewCheck| {
        let Some((key, guard)) = guarded(new) else { return Admitted::Stored };
        let instants = instants.entry(key).or_default();
        let at = new.check.created_at;
        if let Some(until) = guard::closed_until(guard, instants).filter(|until| at < *until) {
            return Admitted::TooOften { until };
        }
        *instants = guard::with(guard, instants, at);
        Admitted::Stored
    };
    Ok(batch.iter().map(admit).collect())
}

/// One batch at a time counts a number. The numbers are locked in their order, so that no two batches wait for each
/// other; that a lock may stand for two of them does no harm.
fn lock(wanted: &Wanted<'_>) -> Call<'static> {
    let mut locks: Vec<i64> = wanted.numbers.keys().map(|(number, project, _)| lock_of(number, *project)).collect();
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
fn recent(wanted: &BTreeMap<Guarded, (&NewCheck, NumberGuard)>) -> Call<'static> {
    Call::new(
        "select wanted.place, held.created_at
           from unnest($1::bytea[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[]) with ordinality
                  as wanted (number_hash, project_id, product, since, most, place)
                cross join lateral
                  (select created_at from checks
                    where number_hash = wanted.number_hash and project_id = wanted.project_id
                      and created_at > wanted.since and product = wanted.product
                    order by created_at desc limit wanted.most) held
          order by wanted.place, held.created_at",
    )
    .with(wanted.keys().map(|(number, ..)| number.to_vec()).collect::<Vec<_>>())
    .with(wanted.keys().map(|(_, project, _)| *project).collect::<Vec<_>>())
    .with(wanted.keys().map(|(.., product)| *product).collect::<Vec<_>>())
    .with(wanted.values().map(|(new, _)| oldest_that_counts(new)).collect::<Vec<_>>())
    .with(wanted.values().map(|(_, guard)| i64::from(guard.creates)).collect::<Vec<_>>())
}

/// Checks created later than this count. For a check without a guard none does.
fn oldest_that_counts(new: &NewCheck) -> i64 {
    new.guard.map_or(i64::MAX, |guard| new.check.created_at.as_millisecond() - guard::window_millis(guard))
}

/// Whether the guard looks again: not at what it has let pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    Looks,
    HasLooked,
}

/// Stores all of them, with their deadlines and counters; or nothing, if the number of one of them was asked about too
/// often. Says whether it did. Their numbers must differ, if the guard looks.
///
/// What stands in `with` is done after the rest, and the last of it first.
fn store<'a>(new: &[&'a NewCheck], guard: Guard, slot: i16) -> Result<Call<'a>, BatchError> {
    let most = |new: &NewCheck| match new.guard {
        Some(limit) if guard == Guard::Looks => i64::from(limit.creates),
        _ => i64::MAX,
    };
    let call = Call::new(concat!(
        "with new as
              (select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                                    $8::text[], $9::bytea[], $10::text[], $11::text[], $12::bytea[], $13::bytea[],
                                    $14::bytea[], $15::bigint[], $16::bigint[])
                         as new (id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                                 number_tail, reference_id, callback_url, code_hash, redirect_url, since, most)),
              crowded as
              (select from new
                where most <= (select count(*) from
                                 (select from checks held
                                   where held.number_hash = new.number_hash and held.project_id = new.project_id
                                     and held.created_at > new.since and held.product = new.product
                                   limit new.most) counted)
                limit 1),
              days as (",
        change_sql!(
            "usage_days",
            "day",
            "select *, $31::smallint from unnest($24::uuid[], $25::text[], $26::text[], $27::text[], $28::smallint[],
                                                 $29::text[], $30::bigint[])
              where not exists (select from crowded)"
        ),
        "), hours as (",
        change_sql!(
            "usage_counters",
            "hour",
            "select *, $31::smallint from unnest($17::uuid[], $18::text[], $19::text[], $20::text[], $21::smallint[],
                                                 $22::text[], $23::bigint[])
              where not exists (select from crowded)"
        ),
        "),
              due as
              (insert into deadlines (due_at, check_id)
               select expires_at, id from new where not exists (select from crowded)),
              stored as
              (insert into checks (id, project_id, created_at, expires_at, product, mode, network_id, receiver,
                                   number_hash, number_tail, reference_id, callback_url, code_hash, redirect_url, status)
               select id, project_id, created_at, expires_at, product, mode, network_id, receiver, number_hash,
                      number_tail, reference_id, callback_url, code_hash, redirect_url, 'ACCEPTED'
                 from new where not exists (select from crowded))
         select not exists (select from crowded)"
    ))
    .with(column(new, |new| new.check.id.0))
    .with(column(new, |new| new.check.project.0))
    .with(column(new, |new| new.check.created_at.as_millisecond()))
    .with(column(new, |new| new.check.expires_at.as_millisecond()))
    .with(column(new, |new| new.check.product.as_str()))
    .with(column(new, |new| new.check.mode.as_str()))
    .with(column(new, |new| new.check.network.as_ref().map(NetworkId::as_str)))
    .with(column(new, |new| sms(new).map(|(receiver, _)| receiver.as_str())))
    .with(column(new, |new| new.check.claimed.as_ref().map(|claimed| &claimed.hash.0[..])))
    .with(column(new, |new| new.check.claimed.map(|claimed| claimed.tail.to_string())))
    .with(column(new, |new| new.check.reference.as_ref().map(Reference::as_str)))
    .with(column(new, |new| new.check.callback_url.as_ref().map(|url| &url.0[..])))
    .with(column(new, |new| sms(new).map(|(_, code)| &code.0[..])))
    .with(column(new, |new| new.check.redirect_url.as_ref().map(|url| &url.0[..])))
    .with(column(new, oldest_that_counts))
    .with(column(new, most));
    let counts: Vec<_> = new.iter().map(|new| check_rows::count_of(new)).collect();
    Ok(with_counters(call, &counts)?.with(slot))
}

/// What is awaited from whom, if it is an SMS.
fn sms(new: &NewCheck) -> Option<(&Msisdn, &CodeHash)> {
    match &new.awaits {
        Awaits::Sms { receiver, code } => Some((receiver, code)),
        Awaits::Device { .. } => None,
    }
}

fn brief(new: &NewCheck) -> Option<&Sealed> {
    match &new.awaits {
        Awaits::Device { brief } => Some(brief),
        Awaits::Sms { .. } => None,
    }
}

/// Of those checks that were stored before this, if any has a journey.
fn insert_journeys<'a>(new: &[&'a NewCheck]) -> Option<Call<'a>> {
    let (checks, briefs): (Vec<Uuid>, Vec<&[u8]>) =
        new.iter().filter_map(|new| Some((new.check.id.0, &brief(new)?.0[..]))).unzip();
    let insert = "insert into journeys (check_id, brief, wrong_codes)
                  select new.*, 0 from unnest($1::uuid[], $2::bytea[]) as new (check_id, brief)
                   where exists (select from checks where id = check_id)";
    (!checks.is_empty()).then(|| Call::new(insert).with(checks).with(briefs))
}
