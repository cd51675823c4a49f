//! A lane on a real server, with a verb made for trouble. The contract suite sees lanes only through the ports.

use std::{collections::BTreeSet, env, error::Error};

use bytes::BytesMut;
use futures_util::future::join_all;
use tokio::{sync::Mutex, task::yield_now};
use tokio_postgres::{
    Client,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::*;
use crate::url::{Address, StoreUrl};

/// Puts a number into a table: once by way of a step that asks who is new, then with the commit.
#[derive(Clone, Debug)]
enum Put {
    Number(i64),
    Panic,
    /// A number, with a value that cannot be sent after it.
    Misfit(i64),
    /// Holds its batch up until the test lets go of the table.
    Wait,
}

impl Verb for Put {
    /// Whether the number was new.
    type Answer = bool;
    const NAME: &'static str = "put";
    const MAX_BATCH: usize = 50;

    fn run<'a>(batch: &'a [Self], mut tx: Batch<'a>) -> Running<'a, bool> {
        Box::pin(async move {
            let numbers: Vec<i64> = batch
                .iter()
                .filter_map(|put| match put {
                    Put::Number(number) | Put::Misfit(number) => Some(*number),
                    Put::Panic => panic!("as asked"),
                    Put::Wait => None,
                })
                .collect();
            let select = Call::new("select number from numbers where number = any($1)").with(numbers.clone());
            let known = tx.step(&[select]).await?;
            let known: Vec<i64> =
                known.iter().flatten().map(|row| row.try_get(0)).collect::<Result<_, tokio_postgres::Error>>()?;
            let insert = Call::new("insert into numbers select distinct unnest($1::bigint[]) on conflict do nothing");
            let mut calls = vec![insert.with(numbers)];
            if batch.iter().any(|put| matches!(put, Put::Misfit(_))) {
                calls.push(Call::new("select $1::bigint").with(Unsendable));
            }
            let (_, committed) = tx.commit(&calls).await?;
            let is_new = |put: &Put| matches!(put, Put::Number(number) if !known.contains(number));
            Ok((batch.iter().map(is_new).collect(), committed))
        })
    }
}

#[derive(Debug)]
struct Unsendable;

impl ToSql for Unsendable {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Err("it does not fit".into())
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// One table for all tests of this file, so they take turns.
static TURN: Mutex<()> = Mutex::const_new(());

/// A lane, and a connection to look behind it.
#[expect(clippy::disallowed_methods, reason = "where the test server is comes from whoever started it")]
async fn start() -> (Lane<Put>, Client) {
    let server =
        env::var("POSTGRES_FOR_TESTS").expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
    let Address::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
    let connector = Connector::for_lanes(&address).unwrap();
    let (client, _) = connector.connect().await.unwrap();
    client
        .batch_execute(
            "drop table if exists numbers; create table numbers (number bigint primary key check (number >= 0))",
        )
        .await
        .unwrap();
    (Lane::start(&connector, 1), client)
}

async fn stored(client: &Client) -> BTreeSet<i64> {
    client.query("select number from numbers", &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_row_fails_alone_and_everybody_else_is_stored() {
    let _turn = TURN.lock().await;
    let (lane, client) = start().await;
    let numbers: Vec<i64> = (1..=120).map(|number| if number % 40 == 7 { -number } else { number }).collect();
    let answers = join_all(numbers.iter().map(|&number| lane.submit(Put::Number(number)))).await;
    for (number, answer) in numbers.iter().zip(answers) {
        match answer {
            Ok(is_new) => assert!(*number > 0 && is_new, "{number}"),
            Err(StoreError::Refused(reason)) => assert!(*number < 0 && reason.contains("23514"), "{number}: {reason}"),
            Err(other) => panic!("{number}: {other}"),
        }
    }
    assert_eq!(stored(&client).await, numbers.into_iter().filter(|number| *number > 0).collect());
    assert!(!lane.submit(Put::Number(1)).await.unwrap(), "the step saw what was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_planned_anew_as_tables_grow() {
    let _turn = TURN.lock().await;
    let (_lane, client) = start().await;
    let mut session = Session::over(client, 0);
    let planned = "select max(prepare_time)::text from pg_prepared_statements where statement = 'select 7'";
    let (mut last, mut planned_at) = (String::new(), Vec::new());
    for using in 1..=70 {
        Batch::new(&mut session).only(&Call::new("select 7")).await.unwrap();
        let time: String = session.client.query_one(planned, &[]).await.unwrap().get(0);
        if time != last {
            planned_at.push(using);
            last = time;
        }
    }
    assert_eq!(planned_at, [1, 4, 16, 64]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_fails_alone_and_the_lane_goes_on() {
    let _turn = TURN.lock().await;
    let (lane, client) = start().await;
    let verbs = [Put::Number(1), Put::Panic, Put::Number(2)];
    let answers = join_all(verbs.into_iter().map(|verb| lane.submit(verb))).await;
    assert!(matches!(&answers[..], [Ok(true), Err(StoreError::Refused(_)), Ok(true)]), "{answers:?}");
    assert_eq!(stored(&client).await, BTreeSet::from([1, 2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_whole_is_not_committed_in_part() {
    let _turn = TURN.lock().await;
    let (lane, client) = start().await;
    let verbs = [Put::Number(1), Put::Misfit(2), Put::Number(3)];
    let answers = join_all(verbs.into_iter().map(|verb| lane.submit(verb))).await;
    assert!(matches!(&answers[..], [Ok(true), Err(StoreError::Refused(_)), Ok(true)]), "{answers:?}");
    assert_eq!(stored(&client).await, BTreeSet::from([1, 3]));
    assert!(lane.submit(Put::Number(2)).await.unwrap(), "nothing was left open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_during_a_commit_goes_with_the_next_batch() {
    let _turn = TURN.lock().await;
    let (lane, client) = start().await;
    // The first batch is held up, so that all others have to wait for it and then go together.
    client.batch_execute("begin; lock table numbers in access exclusive mode").await.unwrap();
    let first = lane.submit(Put::Wait);
    let others = async {
        // The lane waits for the lock, which another session of the server can see.
        let waits = "select count(*) from pg_locks where not granted and relation = 'numbers'::regclass";
        while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            yield_now().await;
        }
        let mut others = std::pin::pin!(join_all((1..=40).map(|number| lane.submit(Put::Number(number)))));
        assert!(futures_util::poll!(others.as_mut()).is_pending(), "all of them wait");
        client.batch_execute("commit").await.unwrap();
        others.await
    };
    let (first, others) = futures_util::join!(first, others);
    assert!(!first.unwrap());
    assert!(others.into_iter().all(|answer| answer.unwrap()));
    let transactions = client.query_one("select count(distinct xmin::text) from numbers", &[]).await.unwrap();
    assert_eq!(transactions.get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_replaced() {
    let _turn = TURN.lock().await;
    let (lane, client) = start().await;
    assert!(lane.submit(Put::Number(1)).await.unwrap());
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                where pid <> pg_backend_pid() and application_name = 'ringtrue' and query like '%commit%'";
    client.batch_execute(cut).await.unwrap();
    // The one that meets the broken connection may fail; what was answered counts.
    let mut failed = 0;
    while let Err(error) = lane.submit(Put::Number(2)).await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        failed += 1;
    }
    assert!(failed <= 1, "{failed}");
    assert!(stored(&client).await.contains(&2));
}
