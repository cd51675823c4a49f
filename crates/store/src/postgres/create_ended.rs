//! Checks that have ended as soon as they were made, many at a time.
//!
//! Nothing has to be known beforehand, so a batch takes one round trip, and one more if answers for idempotency keys go
//! along: of a claim that was taken over nothing may be stored.

use ringtrue_domain::{
    lifecycle::{ErrorCode, Reference},
    network::NetworkId,
};

use super::{
    checks::column,
    counters::change_counters,
    create::complete,
    lane::{Batch, BatchError, Call, Running, Verb},
};
use crate::{driver::NewEnded, verbs::idempotency::claim_was_lost};

impl Verb for NewEnded {
    type Answer = ();
    const NAME: &'static str = "create ended";
    const FIRST_SLOT: i16 = 5;

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, ()> {
        Box::pin(async move {
            let mut completions: Vec<_> = batch.iter().filter_map(|new| new.completion.as_ref()).collect();
            if !completions.is_empty() {
                completions.sort_unstable_by_key(|completion| (completion.tenant, completion.key_digest));
                let completed = tx.step(&[complete(&completions)]).await?;
                // This happens to requests that are slower than their lease: the batch is cut until they are alone.
                if completed.iter().map(Vec::len).sum::<usize>() < completions.len() {
                    return Err(BatchError::Rows(claim_was_lost()));
                }
            }
            let mut sorted: Vec<&NewEnded> = batch.iter().collect();
            sorted.sort_unstable_by_key(|new| new.check.id);
            let counts: Vec<_> = sorted.iter().map(|new| new.count()).collect();
            let calls = [insert(&sorted), change_counters(&counts, tx.slot())?];
            let (_, committed) = tx.commit(&calls).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}

fn insert<'a>(new: &[&'a NewEnded]) -> Call<'a> {
    Call::new(
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, reference_id, swap_covered, swap_within)
         select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                              $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::bigint[],
                              $14::bigint[])",
    )
    .with(column(new, |new| new.check.id.0))
    .with(column(new, |new| new.check.project.0))
    .with(column(new, |new| new.check.created_at.as_millisecond()))
    .with(column(new, |new| new.check.expires_at.as_millisecond()))
    .with(column(new, |new| new.ending.at().as_millisecond()))
    .with(column(new, |new| new.check.product.as_str()))
    .with(column(new, |new| new.check.mode.as_str()))
    .with(column(new, |new| new.ending.status().as_str()))
    .with(column(new, |new| new.ending.matched()))
    .with(column(new, |new| new.ending.error_code().map(ErrorCode::as_str)))
    .with(column(new, |new| new.check.network.as_ref().map(NetworkId::as_str)))
    .with(column(new, |new| new.check.reference.as_ref().map(Reference::as_str)))
    .with(column(new, |new| new.swap().map(|swap| i64::from(swap.covered))))
    .with(column(new, |new| new.swap().and_then(|swap| swap.change_within).map(i64::from)))
}
