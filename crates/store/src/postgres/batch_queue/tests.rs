//! Tests a batch queue on a real server, with an operation that injects failures.

use std::{collections::BTreeSet, env, error::Error};

use bytes::BytesMut;
use futures_util::future::join_all;
use tokio::{sync::Mutex, task::yield_now};
use tokio_postgres::{
    Client,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::*;
use crate::url::{StoreAddress, StoreUrl};

/// Inserts a number, unless it is stored already. The first statement selects the stored numbers; the insert is
/// sent together with the commit.
#[derive(Clone, Debug)]
enum Put {
    Number(i64),
    Panic,
    /// Inserts the number, and then sends a parameter that the driver cannot encode.
    Unencodable(i64),
    /// Inserts nothing.
    Nothing,
}

impl Operation for Put {
    /// Whether the number was inserted.
    type Output = bool;
}

impl BatchedOperation for Put {
    const NAME: &'static str = "put";
    const MAX_BATCH_SIZE: usize = 50;

    fn queue(_: &BatchQueues) -> &BatchQueue<Self> {
        unreachable!("the tests have their own queue")
    }

    fn bucket(&self) -> Option<ShardBucket> {
        Some(ShardBucket::of([0, 0]))
    }

    async fn run(batch: &[&Self], tx: &mut PipelinedTransaction<'_>) -> Result<Vec<bool>, BatchError> {
        let number = |put: &Put| match put {
            Put::Number(number) | Put::Unencodable(number) => Some(*number),
            Put::Panic => panic!("injected"),
            Put::Nothing => None,
        };
        let numbers: Vec<i64> = batch.iter().copied().filter_map(number).collect();
        let select = BatchStatement::new("select number from numbers where number = any($1)").with(numbers.clone());
        let known = tx.run(&[select]).await?;
        let known: Vec<i64> =
            known.iter().flatten().map(|row| row.try_get(0)).collect::<Result<_, tokio_postgres::Error>>()?;
        let insert =
            BatchStatement::new("insert into numbers select distinct unnest($1::bigint[]) on conflict do nothing");
        let mut calls = vec![insert.with(numbers)];
        if batch.iter().any(|put| matches!(put, Put::Unencodable(_))) {
            calls.push(BatchStatement::new("select $1::bigint").with(FailingParameter));
        }
        tx.commit(&calls).await?;
        Ok(batch.iter().map(|put| matches!(put, Put::Number(number) if !known.contains(number))).collect())
    }
}

#[derive(Debug)]
struct FailingParameter;

impl ToSql for FailingParameter {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Err("injected".into())
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The tests share one table, so they run one after the other.
static TABLE_LOCK: Mutex<()> = Mutex::const_new(());

/// Starts a queue, and opens a separate connection for the test.
#[expect(clippy::disallowed_methods, reason = "the test runner passes the server address")]
async fn start() -> (BatchQueue<Put>, Client) {
    let server =
        env::var("POSTGRES_FOR_TESTS").expect("POSTGRES_FOR_TESTS names no PostgreSQL server: run `make test`");
    let StoreAddress::Postgres(address) = server.parse::<StoreUrl>().unwrap().0 else { panic!("{server}") };
    let server = ServerLink::for_tests(&address);
    let (client, _) = server.connector.connect().await.unwrap();
    client
        .batch_execute(
            "drop table if exists numbers; create table numbers (number bigint primary key check (number >= 0))",
        )
        .await
        .unwrap();
    (BatchQueue::start(&server), client)
}

async fn stored(client: &Client) -> BTreeSet<i64> {
    client.query("select number from numbers", &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_row_fails_only_its_own_operation() {
    let _lock = TABLE_LOCK.lock().await;
    let (queue, client) = start().await;
    let numbers: Vec<i64> = (1..=120).map(|number| if number % 40 == 7 { -number } else { number }).collect();
    let results = join_all(numbers.iter().map(|&number| queue.submit(Put::Number(number)))).await;
    for (number, result) in numbers.iter().zip(results) {
        match result {
            Ok(is_new) => assert!(*number > 0 && is_new, "{number}"),
            Err(StoreError::Refused(reason)) => {
                assert!(*number < 0 && reason.contains("23514"), "{number}: {reason}");
            }
            Err(other) => panic!("{number}: {other}"),
        }
    }
    assert_eq!(stored(&client).await, numbers.into_iter().filter(|number| *number > 0).collect());
    assert!(!queue.submit(Put::Number(1)).await.unwrap(), "the select found the number");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_prepared_again_with_growing_intervals() {
    let _lock = TABLE_LOCK.lock().await;
    let (_queue, client) = start().await;
    let mut session = BatchSession::start(client, 0, false, false).await.unwrap();
    let planned = "select max(prepare_time)::text from pg_prepared_statements where statement = 'select 7'";
    let (mut last, mut planned_at) = (String::new(), Vec::new());
    for use_number in 1..=70 {
        let mut tx = PipelinedTransaction::new(&mut session, TableNaming::Unsharded, Vec::new(), None);
        tx.run_autocommitted(&[BatchStatement::new("select 7")]).await.unwrap();
        let time: String = session.client.query_one(planned, &[]).await.unwrap().get(0);
        if time != last {
            planned_at.push(use_number);
            last = time;
        }
    }
    assert_eq!(planned_at, [1, 4, 16, 64]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_fails_only_its_own_operation() {
    let _lock = TABLE_LOCK.lock().await;
    let (queue, client) = start().await;
    let operations = [Put::Number(1), Put::Panic, Put::Number(2)];
    let results = join_all(operations.into_iter().map(|operation| queue.submit(operation))).await;
    assert!(matches!(&results[..], [Ok(true), Err(StoreError::Refused(_)), Ok(true)]), "{results:?}");
    assert_eq!(stored(&client).await, BTreeSet::from([1, 2]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partially_sent_batch_is_not_committed() {
    let _lock = TABLE_LOCK.lock().await;
    let (queue, client) = start().await;
    let operations = [Put::Number(1), Put::Unencodable(2), Put::Number(3)];
    let results = join_all(operations.into_iter().map(|operation| queue.submit(operation))).await;
    assert!(matches!(&results[..], [Ok(true), Err(StoreError::Refused(_)), Ok(true)]), "{results:?}");
    assert_eq!(stored(&client).await, BTreeSet::from([1, 3]));
    assert!(queue.submit(Put::Number(2)).await.unwrap(), "the transaction was rolled back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_queued_during_a_commit_share_the_next_batch() {
    let _lock = TABLE_LOCK.lock().await;
    let (queue, client) = start().await;
    // A table lock delays the first batch, so that all other operations queue.
    client.batch_execute("begin; lock table numbers in access exclusive mode").await.unwrap();
    let first = queue.submit(Put::Nothing);
    let others = async {
        let waits = "select count(*) from pg_locks where not granted and relation = 'numbers'::regclass";
        while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            yield_now().await;
        }
        let mut others = std::pin::pin!(join_all((1..=40).map(|number| queue.submit(Put::Number(number)))));
        assert!(futures_util::poll!(others.as_mut()).is_pending(), "all queued operations wait");
        client.batch_execute("commit").await.unwrap();
        others.await
    };
    let (first, others) = futures_util::join!(first, others);
    assert!(!first.unwrap());
    assert!(others.into_iter().all(Result::unwrap));
    let transactions = client.query_one("select count(distinct xmin::text) from numbers", &[]).await.unwrap();
    assert_eq!(transactions.get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_is_replaced() {
    let _lock = TABLE_LOCK.lock().await;
    let (queue, client) = start().await;
    assert!(queue.submit(Put::Number(1)).await.unwrap());
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                where pid <> pg_backend_pid() and application_name = 'ringtrue' and query like '%commit%'";
    client.batch_execute(cut).await.unwrap();
    // The first operation after the connection was cut may fail.
    let mut failed = 0;
    while let Err(error) = queue.submit(Put::Number(2)).await {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        failed += 1;
    }
    assert!(failed <= 1, "{failed}");
    assert!(stored(&client).await.contains(&2));
}
