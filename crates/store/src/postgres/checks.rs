//! Checks, many at a time: found, and ended.

use std::collections::{BTreeMap, HashMap};

use ringtrue_domain::lifecycle::{AnyCheck, CheckId, ClaimedNumber, ErrorCode};
use ringtrue_engine::ports::{CodeHash, NewCallback, Recorded, StoreError};
use tokio_postgres::Row as PostgresRow;
use uuid::Uuid;

use super::{
    error::store_error,
    lane::{Batch, Call, Running, Verb},
    rows_by_id::RowsById,
    transaction::row_of,
};
use crate::{
    check_rows::{self, check_columns},
    driver::Conclusion,
    verbs::usage::{CounterKey, change_sql},
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
            let checks = RowsById::of(&rows)?;
            Ok((batch.iter().map(|find| checks.get(find.0.0).map(read).transpose()).collect(), committed))
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

fn select(ids: Vec<Uuid>) -> Call<'static> {
    Call::new(concat!("select ", check_columns!(), " from checks where id = any($1)")).with(ids)
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
                    answers[*position] = Recorded::Now { was_pending: row.try_get(1)? };
                }
            }
            Ok((answers, committed))
        })
    }
}

/// One value of each verb.
pub(super) fn column<'a, V, T>(verbs: &[&'a V], of: impl Fn(&'a V) -> T) -> Vec<T> {
    verbs.iter().map(|verb| of(verb)).collect()
}

/// Ends those that are open, and tells which: with their callbacks, without their deadlines and journeys, counted as what
/// they have become. No column of an index is changed, or the row could not stay where it is.
///
/// The counters move from the status that a check had: pending, if it ever was. A device may have changed its network
/// meanwhile: the row says which it was. Checks that end alike are counted together.
///
/// What stands in `with` is done after the rest, and the last of it first.
fn end<'a>(conclusions: &[&'a Conclusion], slot: i16) -> Call<'a> {
    let (kinds, kind_of) = kinds(conclusions);
    Call::new(concat!(
        "with ended as
              (update checks
                  set concluded_at = new.concluded_at, status = new.status, matched = new.matched,
                      error_code = new.error_code, number_hash = coalesce(new.number_hash, checks.number_hash),
                      number_tail = coalesce(new.number_tail, checks.number_tail), number_sealed = new.number_sealed,
                      connector = coalesce(new.connector, checks.connector)
                 from unnest($1::uuid[], $2::bigint[], $3::text[], $4::boolean[], $5::text[], $6::bytea[], $7::text[],
                             $8::bytea[], $9::text[], $10::bigint[], $11::bytea[], $12::bytea[], $13::integer[])
                      as new (id, concluded_at, status, matched, error_code, number_hash, number_tail, number_sealed,
                              connector, callback_due_at, callback_url, callback_body, kind)
                where checks.id = new.id and checks.status in ('ACCEPTED', 'PENDING')
               returning checks.id, project_id, product, expires_at, pending_at, network_id, new.concluded_at,
                         callback_due_at, new.callback_url, callback_body, kind),
              counted as
              (select kind, pending_at is not null as was_pending, coalesce(network_id, '') as network_id, count(*) as checks
                 from ended group by 1, 2, 3),
              changes as
              (select kind, case when was_pending then 'PENDING' else 'ACCEPTED' end as status, -1 as matched, network_id,
                      -checks as change
                 from counted
               union all
               select kind, ($17::text[])[kind], ($18::smallint[])[kind], network_id, checks from counted),
              days as (",
        change_sql!(
            "usage_days",
            "day",
            "select ($14::uuid[])[kind], left(($15::text[])[kind], 10), ($16::text[])[kind], status, matched, network_id,
                    sum(change), $19::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "), hours as (",
        change_sql!(
            "usage_counters",
            "hour",
            "select ($14::uuid[])[kind], ($15::text[])[kind], ($16::text[])[kind], status, matched, network_id,
                    sum(change), $19::smallint
               from changes group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6"
        ),
        "),
              arrived as
              (delete from journeys
                where check_id = any (array(select id from ended where product in ('secure_sna', 'discovery')))),
              met as
              (delete from deadlines using ended where deadlines.due_at = ended.expires_at and check_id = ended.id),
              told as
              (insert into callbacks (check_id, project_id, created_at, due_at, product, url, body, failed_attempts, state)
               select id, project_id, concluded_at, callback_due_at, product, callback_url, callback_body, 0, 'waiting'
                 from ended where callback_due_at is not null)
         select id, pending_at is not null from ended"
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
    .with(column(conclusions, |conclusion| conclusion.ending.connector()))
    .with(column(conclusions, |conclusion| callback(conclusion, |callback| callback.due_at.as_millisecond())))
    .with(column(conclusions, |conclusion| callback(conclusion, |callback| &callback.url.0[..])))
    .with(column(conclusions, |conclusion| callback(conclusion, |callback| &callback.body.0[..])))
    .with(kind_of)
    .with(kinds.iter().map(|kind| kind.project.0).collect::<Vec<_>>())
    .with(kinds.iter().map(|kind| kind.hour.clone()).collect::<Vec<_>>())
    .with(kinds.iter().map(|kind| kind.product).collect::<Vec<_>>())
    .with(kinds.iter().map(|kind| kind.status).collect::<Vec<_>>())
    .with(kinds.iter().map(|kind| kind.matched).collect::<Vec<_>>())
    .with(slot)
}

/// The counters that ended checks move to, but for their networks; and for each check which one that is, from 1 on.
fn kinds(conclusions: &[&Conclusion]) -> (Vec<CounterKey>, Vec<i32>) {
    let key_of = |conclusion: &&Conclusion| {
        let [_, ended] = conclusion.counts(false, None);
        CounterKey::from(&ended)
    };
    let keys: Vec<CounterKey> = conclusions.iter().map(key_of).collect();
    let mut kinds = keys.clone();
    kinds.sort_unstable();
    kinds.dedup();
    let place_of = |key: &CounterKey| kinds.binary_search(key).map_or(0, |place| place + 1);
    let places = keys.iter().map(|key| i32::try_from(place_of(key)).unwrap_or_default()).collect();
    (kinds, places)
}

fn callback<'a, T>(conclusion: &'a Conclusion, of: impl Fn(&'a NewCallback) -> T) -> Option<T> {
    conclusion.callback.as_ref().map(of)
}

/// A number that the check has found out.
fn found(conclusion: &Conclusion) -> Option<ClaimedNumber> {
    conclusion.ending.discovered().and_then(|discovered| discovered.number)
}
