//! Checks, many at a time: found, and ended.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::lifecycle::{AnyCheck, CheckId, ClaimedNumber, ErrorCode};
use ringtrue_engine::ports::{CodeHash, Recorded, StoreError};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    error::store_error,
    lane::{Batch, BatchError, Call, Running, Verb},
    transaction::row_of,
};
use crate::{
    check_rows::{self, check_columns},
    driver::Conclusion,
    rows,
    verbs::usage::change_sql,
};

/// Somebody wants to see a check.
#[derive(Debug)]
pub(super) struct Find(pub CheckId);

/// Checks as they were read. A row that cannot be understood is the problem of those who asked for it.
type Read = Result<Option<AnyCheck>, StoreError>;

impl Verb for Find {
    type Answer = Read;
    const NAME: &'static str = "find";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Read> {
        Box::pin(async move {
            let (rows, committed) = tx.only(&select(batch.iter().map(|find| find.0.0).collect())).await?;
            let checks = by_id(&rows)?;
            Ok((batch.iter().map(|find| checks.get(&find.0.0).map(|row| read(row)).transpose()).collect(), committed))
        })
    }
}

/// An SMS came with something that may be one of these codes.
#[derive(Debug)]
pub(super) struct FindByCode(pub Vec<CodeHash>);

impl Verb for FindByCode {
    type Answer = Read;
    const NAME: &'static str = "find by code";

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Read> {
        Box::pin(async move {
            let hashes: Vec<Vec<u8>> = batch.iter().flat_map(|find| &find.0).map(|code| code.0.to_vec()).collect();
            let select = concat!(
                "select ",
                check_columns!(),
                ", code_hash from unnest($1::bytea[]) as wanted (hash) join checks on code_hash = wanted.hash"
            );
            let (rows, committed) = tx.only(&Call::new(select).with(hashes)).await?;
            let mut checks = HashMap::<&[u8], &PostgresRow>::new();
            for row in &rows {
                checks.insert(row.try_get("code_hash")?, row);
            }
            let found = |find: &FindByCode| {
                let known = find.0.iter().filter_map(|code| checks.get(&code.0[..]));
                check_rows::open_or_first(known.map(|row| read(row)))
            };
            Ok((batch.iter().map(found).collect(), committed))
        })
    }
}

fn select(ids: Vec<Uuid>) -> Call {
    Call::new(concat!("select ", check_columns!(), " from checks where id = any($1)")).with(ids)
}

fn by_id(rows: &[PostgresRow]) -> Result<HashMap<Uuid, &PostgresRow>, BatchError> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row))).collect()
}

fn read(row: &PostgresRow) -> Result<AnyCheck, StoreError> {
    check_rows::check(row_of(row).map_err(|error| store_error(&error))?)
}

impl Verb for Conclusion {
    type Answer = Recorded;
    const NAME: &'static str = "conclude";
    const FIRST_SLOT: i16 = 3;

    fn run<'a>(batch: &'a [Self], tx: Batch<'a>) -> Running<'a, Recorded> {
        Box::pin(async move {
            // Of several ends of one check the first of the batch is tried, in the order of the checks.
            let mut firsts = BTreeMap::<Uuid, (usize, &Conclusion)>::new();
            for (position, conclusion) in batch.iter().enumerate() {
                firsts.entry(conclusion.ending.check().0).or_insert((position, conclusion));
            }
            let tried: Vec<&Conclusion> = firsts.values().map(|(_, conclusion)| *conclusion).collect();
            let end = end(&tried, tx.slot());
            let (ended, committed) = tx.only(&end).await?;
            let mut answers = vec![Recorded::AlreadyConcluded; batch.len()];
            for row in &ended {
                if let Some((position, _)) = firsts.get(&row.try_get::<_, Uuid>(0)?) {
                    answers[*position] = Recorded::Now;
                }
            }
            Ok((answers, committed))
        })
    }
}

/// One value of each verb.
pub(super) fn column<V, T>(verbs: &[&V], of: impl Fn(&V) -> T) -> Vec<T> {
    verbs.iter().map(|verb| of(verb)).collect()
}

/// Ends those that are open, and tells which: with their callbacks, without their deadlines and journeys, counted as what
/// they have become. No column of an index is changed, or the row could not stay where it is.
///
/// The counters move from the status that a check had: pending, if it ever was. A device may have changed its network
/// meanwhile: the row says which it was.
///
/// What stands in `with` is done after the rest, and the last of it first.
fn end(conclusions: &[&Conclusion], slot: i16) -> Call {
    let callbacks: Vec<_> = conclusions
        .iter()
        .filter_map(|conclusion| conclusion.callback.as_ref().map(|callback| (&conclusion.ending, callback)))
        .collect();
    Call::new(concat!(
        "with ended as
              (update checks
                  set concluded_at = new.concluded_at, status = new.status, matched = new.matched,
                      error_code = new.error_code, number_hash = coalesce(new.number_hash, checks.number_hash),
                      number_tail = coalesce(new.number_tail, checks.number_tail), number_sealed = new.number_sealed,
                      connector = coalesce(new.connector, checks.connector)
                 from unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::bytea[], $7::text[],
                             $8::bytea[], $9::text[], $10::text[])
                      as new (id, concluded_at, status, matched, error_code, number_hash, number_tail, number_sealed,
                              connector, hour)
                where checks.id = new.id and checks.status in ('ACCEPTED', 'PENDING')
               returning checks.id, project_id, product, expires_at, pending_at, checks.status, checks.matched,
                         coalesce(network_id, '') as network_id, new.hour),
              changes as
              (select project_id, hour, product, case when pending_at is null then 'ACCEPTED' else 'PENDING' end as status,
                      -1 as matched, network_id, -1 as change
                 from ended
               union all
               select project_id, hour, product, status, coalesce(matched::integer, -1), network_id, 1 from ended),
              arrived as
              (delete from journeys using ended
                where check_id = ended.id and product in ('secure_sna', 'discovery')),
              days as (",
        change_sql!(
            "usage_days",
            "day",
            "select project_id, left(hour, 10), product, status, matched, network_id, sum(change), $11::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "), hours as (",
        change_sql!(
            "usage_counters",
            "hour",
            "select project_id, hour, product, status, matched, network_id, sum(change), $11::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "),
              met as
              (delete from deadlines using ended where deadlines.due_at = ended.expires_at and check_id = ended.id),
              told as
              (insert into callbacks (check_id, project_id, created_at, due_at, product, url, body, failed_attempts, state)
               select new.*, 0, 'waiting'
                 from unnest($12::uuid[], $13::uuid[], $14::bigint[], $15::bigint[], $16::text[], $17::bytea[],
                             $18::bytea[]) as new (check_id)
                where check_id in (select id from ended))
         select id from ended"
    ))
    .with(column(conclusions, |conclusion| conclusion.ending.check().0))
    .with(column(conclusions, |conclusion| conclusion.ending.at().as_millisecond()))
    .with(column(conclusions, |conclusion| conclusion.ending.status().as_str()))
    .with(column(conclusions, |conclusion| conclusion.ending.matched()))
    .with(column(conclusions, |conclusion| conclusion.ending.error_code().map(ErrorCode::as_str)))
    .with(column(conclusions, |conclusion| found(conclusion).map(|number| number.hash.0.to_vec())))
    .with(column(conclusions, |conclusion| found(conclusion).map(|number| number.tail.to_string())))
    .with(column(conclusions, |conclusion| {
        conclusion.ending.discovered().and_then(|discovered| discovered.sealed.as_ref()).map(|sealed| sealed.0.clone())
    }))
    .with(column(conclusions, |conclusion| conclusion.ending.connector().map(str::to_owned)))
    .with(column(conclusions, |conclusion| rows::hour_of(conclusion.ending.created_at())))
    .with(slot)
    .with(callbacks.iter().map(|(ending, _)| ending.check().0).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(ending, _)| ending.project().0).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(ending, _)| ending.at().as_millisecond()).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(_, callback)| callback.due_at.as_millisecond()).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(ending, _)| ending.product().as_str()).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(_, callback)| callback.url.0.clone()).collect::<Vec<_>>())
    .with(callbacks.iter().map(|(_, callback)| callback.body.0.clone()).collect::<Vec<_>>())
}

/// A number that the check has found out.
fn found(conclusion: &Conclusion) -> Option<ClaimedNumber> {
    conclusion.ending.discovered().and_then(|discovered| discovered.number)
}
