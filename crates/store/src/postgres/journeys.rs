//! Devices on their way, many at a time.

use std::collections::{BTreeMap, HashSet};

use ringtrue_domain::lifecycle::CheckId;
use ringtrue_engine::ports::{SetOut, StoreError};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    checks::column,
    counters::change_counters,
    error::store_error,
    lane::{Batch, BatchError, Call, Running, Verb},
    rows_by_id::RowsById,
    transaction::row_of,
};
use crate::{
    check_rows::check_columns,
    driver::{ComeBack, Decide},
    row::Row,
    verbs::journeys::{has_left, journey_columns},
};

/// Somebody wants to see how far a device has come.
#[derive(Debug)]
pub(super) struct FindJourney(pub CheckId);

/// A row that cannot be understood is the problem of those who asked for it.
type Read = Result<Option<Row>, StoreError>;

impl Verb for FindJourney {
    type Answer = Read;
    const NAME: &'static str = "find journey";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Read> {
        Box::pin(async move {
            let select = concat!(
                "select ",
                check_columns!(),
                ", ",
                journey_columns!(),
                " from checks left join journeys on journeys.check_id = checks.id where checks.id = any($1)"
            );
            let ids: Vec<Uuid> = batch.iter().map(|find| find.0.0).collect();
            let (rows, committed) = tx.only(&Call::new(select).with(ids)).await?;
            let journeys = RowsById::of(&rows)?;
            let read = |find: &FindJourney| journeys.get(find.0.0).map(read).transpose();
            Ok((batch.iter().map(read).collect(), committed))
        })
    }
}

fn read(row: &PostgresRow) -> Result<Row, StoreError> {
    row_of(row).map_err(|error| store_error(&error))
}

/// Two round trips: who can set out, then what changes for those who do.
impl Verb for SetOut {
    type Answer = bool;
    const NAME: &'static str = "set out";

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, bool> {
        Box::pin(async move {
            // Of several departures of one device the last is the one whose ticket is good.
            let lasts: BTreeMap<Uuid, &SetOut> = batch.iter().map(|step| (step.check.0, step)).collect();
            let tried: Vec<&SetOut> = lasts.values().copied().collect();
            let rows = tx.step(&[hold_checks(&tried), give_tickets(&tried)]).await?;
            let [held, sent] = rows.as_slice() else { return Err(amiss()) };
            let sent = sent.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<Uuid>, _>>()?;
            let (mut left, mut moved, mut counts) = (HashSet::new(), vec![], vec![]);
            for row in held {
                let id: Uuid = row.try_get(0)?;
                let Some(&step) = lasts.get(&id).filter(|_| sent.contains(&id)) else { continue };
                left.insert(id);
                if let Some(changes) = has_left(row_of(row)?, step).map_err(BatchError::Rows)? {
                    moved.push(step);
                    counts.extend(changes);
                }
            }
            let mut calls = vec![];
            if !moved.is_empty() {
                moved.sort_unstable_by_key(|step| step.check);
                calls.extend([become_pending(&moved), change_counters(&counts, tx.slot())?]);
            }
            let (_, committed) = tx.commit(&calls).await?;
            Ok((batch.iter().map(|step| left.contains(&step.check.0)).collect(), committed))
        })
    }
}

/// The checks first, as their end does: two that lock the same rows in different orders could wait for each other.
///
/// To set a status to what it is locks the row, and gives what is in it when nobody else changes it any more.
fn hold_checks(steps: &[&SetOut]) -> Call<'static> {
    Call::new(
        "update checks set status = status
           from unnest($1::uuid[]) as leaving (id)
          where checks.id = leaving.id and status in ('ACCEPTED', 'PENDING')
         returning checks.id, project_id, product, created_at, status, network_id",
    )
    .with(column(steps, |step| step.check.0))
}

/// A check that has ended has no journey any more.
fn give_tickets(steps: &[&SetOut]) -> Call<'static> {
    Call::new(
        "update journeys set ticket_hash = new.ticket_hash, leg = new.leg
           from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as new (check_id, ticket_hash, leg)
          where journeys.check_id = new.check_id and code_hash is null
         returning journeys.check_id",
    )
    .with(column(steps, |step| step.check.0))
    .with(column(steps, |step| step.ticket.0.to_vec()))
    .with(column(steps, |step| step.leg.0.clone()))
}

fn become_pending(steps: &[&SetOut]) -> Call<'static> {
    Call::new(
        "update checks set pending_at = coalesce(pending_at, greatest(new.at, created_at)), status = 'PENDING', network_id = new.network_id
           from unnest($1::uuid[], $2::bigint[], $3::text[]) as new (id, at, network_id)
          where checks.id = new.id",
    )
    .with(column(steps, |step| step.check.0))
    .with(column(steps, |step| step.at.as_millisecond()))
    .with(column(steps, |step| step.network.as_str().to_owned()))
}

impl Verb for ComeBack {
    type Answer = Read;
    const NAME: &'static str = "come back";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Read> {
        Box::pin(async move {
            // Of several who come with one ticket the first is tried; a check may be named by several tickets.
            let mut firsts = BTreeMap::<(Uuid, [u8; 32]), usize>::new();
            for (position, back) in batch.iter().enumerate() {
                firsts.entry((back.check.0, back.ticket.0)).or_insert(position);
            }
            let (rows, committed) = tx.commit(&[legs(&firsts), void_tickets(&firsts)]).await?;
            let [found, voided] = rows.as_slice() else { return Err(amiss()) };
            let mut answers: Vec<Read> = batch.iter().map(|_| Ok(None)).collect();
            let found = RowsById::of(found)?;
            for row in voided {
                // Who was read and not voided was not the first after all.
                let (id, place) = (row.try_get::<_, Uuid>(0)?, row.try_get::<_, i64>(1)?);
                let answer = usize::try_from(place).ok().and_then(|position| answers.get_mut(position));
                if let (Some(answer), Some(row)) = (answer, found.get(id)) {
                    *answer = read(row).map(Some);
                }
            }
            Ok((answers, committed))
        })
    }
}

/// Checks, their journeys, and the legs of tickets that are good.
fn legs(backs: &BTreeMap<(Uuid, [u8; 32]), usize>) -> Call<'static> {
    with_tickets(
        Call::new(concat!(
            "select ",
            check_columns!(),
            ", ",
            journey_columns!(),
            ", journeys.leg
               from unnest($1::uuid[], $2::bytea[]) as back (check_id, ticket_hash)
                    join journeys on journeys.check_id = back.check_id and journeys.ticket_hash = back.ticket_hash
                    join checks on checks.id = journeys.check_id"
        )),
        backs,
    )
}

fn void_tickets(backs: &BTreeMap<(Uuid, [u8; 32]), usize>) -> Call<'static> {
    let positions: Vec<i64> = backs.values().filter_map(|position| i64::try_from(*position).ok()).collect();
    with_tickets(
        Call::new(
            "update journeys set ticket_hash = null, leg = null
               from unnest($1::uuid[], $2::bytea[], $3::bigint[]) as back (check_id, ticket_hash, position)
              where journeys.check_id = back.check_id and journeys.ticket_hash = back.ticket_hash
             returning journeys.check_id, back.position",
        ),
        backs,
    )
    .with(positions)
}

fn with_tickets(call: Call<'static>, backs: &BTreeMap<(Uuid, [u8; 32]), usize>) -> Call<'static> {
    call.with(backs.keys().map(|(check, _)| *check).collect::<Vec<_>>())
        .with(backs.keys().map(|(_, ticket)| ticket.to_vec()).collect::<Vec<_>>())
}

impl Verb for Decide {
    type Answer = bool;
    const NAME: &'static str = "decide";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, bool> {
        Box::pin(async move {
            // Of several answers to one check the first of the batch is tried.
            let mut firsts = BTreeMap::<Uuid, (usize, &Decide)>::new();
            for (position, decide) in batch.iter().enumerate() {
                firsts.entry(decide.check.0).or_insert((position, decide));
            }
            let tried: Vec<&Decide> = firsts.values().map(|(_, decide)| *decide).collect();
            let keep = Call::new(
                "update journeys set code_hash = new.code_hash, proof = new.proof, ticket_hash = null, leg = null
                   from unnest($1::uuid[], $2::bytea[], $3::bytea[]) as new (check_id, code_hash, proof)
                  where journeys.check_id = new.check_id and journeys.code_hash is null
                 returning journeys.check_id",
            )
            .with(column(&tried, |decide| decide.check.0))
            .with(column(&tried, |decide| decide.decision.code.0.to_vec()))
            .with(column(&tried, |decide| decide.decision.proof.0.clone()));
            let (rows, committed) = tx.only(&keep).await?;
            let mut answers = vec![false; batch.len()];
            for row in &rows {
                if let Some((position, _)) = firsts.get(&row.try_get::<_, Uuid>(0)?) {
                    answers[*position] = true;
                }
            }
            Ok((answers, committed))
        })
    }
}

fn amiss() -> BatchError {
    BatchError::Server(StoreError::Refused("rows amiss".to_owned()))
}
