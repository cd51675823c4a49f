//! Batched inserts of checks that are created concluded.
//!
//! A batch takes one round trip, and one more if it stores responses for idempotency keys: a request whose claim was
//! taken over must not store anything.

use ringtrue_domain::{
    lifecycle::{ErrorCode, Reference},
    network::NetworkId,
};

use super::{
    batch_queue::{BatchError, BatchFuture, BatchStatement, BatchedOperation, PipelinedTransaction},
    checks::column_values,
    counters::update_counters,
    create_check::store_responses,
};
use crate::{driver::NewConcludedCheck, queries::idempotency::claim_lost_error};

impl BatchedOperation for NewConcludedCheck {
    type Output = ();
    const NAME: &'static str = "create concluded";
    const FIRST_COUNTER_SLOT: i16 = 5;

    fn run<'a>(batch: &'a [Self], mut tx: PipelinedTransaction<'a>) -> BatchFuture<'a, ()> {
        Box::pin(async move {
            let mut responses: Vec<_> = batch.iter().filter_map(|new| new.idempotent_response.as_ref()).collect();
            if !responses.is_empty() {
                responses.sort_unstable_by_key(|response| (response.tenant, response.key_digest));
                let stored = tx.run(&[store_responses(&responses)]).await?;
                // A request outlived its lease. Splitting the batch isolates it.
                if stored.iter().map(Vec::len).sum::<usize>() < responses.len() {
                    return Err(BatchError::Rows(claim_lost_error()));
                }
            }
            let mut sorted: Vec<&NewConcludedCheck> = batch.iter().collect();
            sorted.sort_unstable_by_key(|new| new.check.id);
            let counts: Vec<_> = sorted.iter().map(|new| new.usage()).collect();
            let statements = [insert(&sorted), update_counters(&counts, tx.slot())?];
            let (_, committed) = tx.commit(&statements).await?;
            Ok((vec![(); batch.len()], committed))
        })
    }
}

fn insert<'a>(new: &[&'a NewConcludedCheck]) -> BatchStatement<'a> {
    BatchStatement::new(
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, reference_id, swap_covered, swap_within)
         select * from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[],
                              $8::text[], $9::boolean[], $10::text[], $11::text[], $12::text[], $13::bigint[],
                              $14::bigint[])",
    )
    .with(column_values(new, |new| new.check.id.0))
    .with(column_values(new, |new| new.check.project.0))
    .with(column_values(new, |new| new.check.created_at.as_millisecond()))
    .with(column_values(new, |new| new.check.expires_at.as_millisecond()))
    .with(column_values(new, |new| new.conclusion.at().as_millisecond()))
    .with(column_values(new, |new| new.check.product.as_str()))
    .with(column_values(new, |new| new.check.mode.as_str()))
    .with(column_values(new, |new| new.conclusion.status().as_str()))
    .with(column_values(new, |new| new.conclusion.matched()))
    .with(column_values(new, |new| new.conclusion.error_code().map(ErrorCode::as_str)))
    .with(column_values(new, |new| new.check.network.as_ref().map(NetworkId::as_str)))
    .with(column_values(new, |new| new.check.reference.as_ref().map(Reference::as_str)))
    .with(column_values(new, |new| new.sim_swap().map(|swap| i64::from(swap.covered_minutes))))
    .with(column_values(new, |new| new.sim_swap().and_then(|swap| swap.changed_within_minutes).map(i64::from)))
}
