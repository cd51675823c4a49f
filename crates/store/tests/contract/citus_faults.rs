//! Tests faults of servers in a Citus cluster. The tests run one after the other, and not together with other tests.

use std::{
    fmt::Debug,
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::{join, join_all};
use ringtrue_domain::{
    lifecycle::{CheckId, ShardBucket},
    product::Product,
    reverse_sms::ReverseSmsCheck,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    checks::{CompanionRow, ConcludeOutcome},
    combined::Store,
    idempotency::{ClaimOutcome, IdempotencyClaim},
    store::{Completeness, StoreError, TenantLookup},
};
use ringtrue_store::{distribute, migrate};
use ringtrue_test_support::poll_until;

use crate::{
    check_sample,
    distribution::forwarded_statements,
    fixture::{Database, Worker},
    sample, verifications,
};

/// Halts or resumes the coordinator, depending on `command`.
#[expect(clippy::disallowed_methods, reason = "the test runner passes the directory")]
fn control_coordinator(command: &str) {
    let coordinator = std::env::var("POSTGRES_DIRECTORY").expect("POSTGRES_DIRECTORY is not set: run `make test`");
    control_server(command, &coordinator);
}

fn control_server(command: &str, directory: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres");
    assert!(Command::new(script).args([command, directory]).status().unwrap().success(), "{command}");
}

async fn create(store: &dyn Store, project: ProjectId) -> Result<ReverseSmsCheck, StoreError> {
    let check = check_sample::check(project, sample::now());
    store.create_check(check_sample::new(check.clone())).await.map(|_| check)
}

/// Whether one server has the check and the limit of its number.
fn is_on_one_server(store: &dyn Store, check: &ReverseSmsCheck) -> bool {
    store.are_colocated(CompanionRow::NumberLimit(check.claimed.unwrap().hash), check.id.bucket())
}

async fn can_be_read(store: &dyn Store, check: &ReverseSmsCheck) -> bool {
    let found = store.find_check(check.project, Product::ReverseSms, check.id).await;
    matches!(found, Ok(TenantLookup::Found(_)))
}

/// Which server has which rows.
struct Servers {
    /// The port of the server of each bucket.
    ports: Vec<i32>,
}

impl Servers {
    async fn of(database: &Database) -> Self {
        let ports = "select array_agg(nodeport order by bucket)
                       from generate_series(0, 4095) as bucket
                            join citus_shards on shardid = get_shard_id_for_distribution_column('checks', bucket::smallint)";
        Servers { ports: database.query_one(ports).await.get(0) }
    }

    fn port_of_check(&self, check: &ReverseSmsCheck) -> i32 {
        self.port(check.id.bucket())
    }

    fn port_of_number(&self, check: &ReverseSmsCheck) -> i32 {
        let [.., high, low] = check.claimed.unwrap().hash.0;
        self.port(ShardBucket::of([high, low]))
    }

    fn port(&self, bucket: ShardBucket) -> i32 {
        self.ports[usize::from(bucket.number().unsigned_abs())]
    }

    /// Returns a check for one server, with the limit of its number on another or the same.
    fn check(&self, project: ProjectId, port: i32, number_port: i32) -> ReverseSmsCheck {
        let mut checks = std::iter::repeat_with(|| check_sample::check(project, sample::now()));
        let is_wanted =
            |check: &ReverseSmsCheck| self.port_of_check(check) == port && self.port_of_number(check) == number_port;
        checks.find(is_wanted).unwrap()
    }

    /// Creates a check on one server, with the limit of its number on another or the same.
    async fn create(
        &self,
        store: &dyn Store,
        project: ProjectId,
        port: i32,
        number_port: i32,
    ) -> Result<ReverseSmsCheck, StoreError> {
        let check = self.check(project, port, number_port);
        store.create_check(check_sample::new(check.clone())).await.map(|_| check)
    }
}

fn assert_unavailable<T: Debug>(result: &Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_of_a_worker_affects_only_its_shards() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let servers = Servers::of(&database).await;
    let (worker, other) = (database.worker(), database.last_worker());
    let [down, up] = [&worker, &other].map(|worker| worker.port().parse::<i32>().unwrap());
    let store = &*database.open().await;
    let [project, others] = [(); 2].map(|()| ProjectId(sample::uuid()));
    let create_on = async |port| join_all((0..20).map(|_| servers.create(store, project, port, port))).await;
    let acknowledged = async |port| create_on(port).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let (lost, mut kept) = (acknowledged(down).await, acknowledged(up).await);
    let verifications = join_all((0..12).map(|_| verifications::stored(store, others))).await;

    control_server("halt", worker.directory().to_str().unwrap());
    let (unavailable, created) = join(create_on(down), create_on(up)).await;
    unavailable.iter().for_each(assert_unavailable);
    kept.extend(created.into_iter().map(Result::unwrap));
    for check in &kept {
        assert!(can_be_read(store, check).await);
    }
    for found in join_all(lost.iter().map(|check| store.find_check(project, Product::ReverseSms, check.id))).await {
        assert_unavailable(&found);
    }
    let followed: Vec<_> = verifications.iter().map(|verification| verification.check.id).collect();
    let versions = store.page_versions(followed.clone()).await.unwrap();
    let reachable = followed.into_iter().filter(|id| servers.port(id.bucket()) == up);
    assert_eq!(sorted(versions.into_iter().map(|(id, _)| id)), sorted(reachable));

    let new = check_sample::new(servers.check(others, up, up));
    store.create_check(new.clone()).await.unwrap();
    let [code, elsewhere] = [new.clone(), check_sample::new(lost[0].clone())].map(|new| check_sample::code(&new));
    let found = store.find_check_by_code(vec![elsewhere, code]).await.unwrap();
    assert_eq!(found.map(|check| check.id), Some(new.check.id));
    assert_unavailable(&store.find_check_by_code(vec![elsewhere]).await);

    let (expired, ended) = kept.split_at(10);
    for check in ended {
        assert_eq!(conclude_twice(store, check).await.unwrap(), 1);
    }
    let mut overdue = store.overdue_checks(sample::later(86_400), 100, Completeness::Reachable).await.unwrap();
    overdue.retain(|check| check.project == project);
    assert_eq!(sorted(overdue.iter().map(|check| check.id)), sorted(expired.iter().map(|check| check.id)));
    for check in overdue {
        let (conclusion, _) = check_sample::conclusion(check.expire().unwrap());
        let callback = Some(check_sample::callback(sample::now()));
        let outcome = store.conclude(conclusion, callback).await.unwrap();
        assert_eq!(outcome, ConcludeOutcome::Concluded { was_pending: false });
    }
    let leased = store.lease_due_callbacks(sample::now(), sample::later(60), 100, &[]).await.unwrap();
    assert_eq!(leased.len(), expired.len());
    for check in &lost[..5] {
        assert_unavailable(&conclude_twice(store, check).await);
    }

    control_server("resume", worker.directory().to_str().unwrap());
    poll_until("all creates succeed again", async || create_on(down).await.iter().all(Result::is_ok)).await;
    for check in lost.iter().chain(&kept) {
        assert!(can_be_read(store, check).await, "an acknowledged check is lost");
    }
}

fn sorted(ids: impl Iterator<Item = CheckId>) -> Vec<CheckId> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
}

/// Concludes a check twice at the same time. Returns how many of the calls were the first.
async fn conclude_twice(store: &dyn Store, check: &ReverseSmsCheck) -> Result<usize, StoreError> {
    let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
    let (one, other) = join(store.conclude(conclusion.clone(), None), store.conclude(conclusion, None)).await;
    let is_first = |outcome: ConcludeOutcome| usize::from(matches!(outcome, ConcludeOutcome::Concluded { .. }));
    Ok(is_first(one?) + is_first(other?))
}

/// Nodes ask the workers directly, so checks are created, found and concluded while the coordinator is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_of_the_coordinator_does_not_affect_checks() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    control_coordinator("halt");
    let mut checks = Vec::new();
    while checks.len() < 20 {
        let check = check_sample::check(project, sample::now());
        // As the engine does, so that one worker has the check and the limit of its number.
        if is_on_one_server(store, &check) {
            store.create_check(check_sample::new(check.clone())).await.unwrap();
            checks.push(check);
        }
    }
    for check in &checks {
        assert!(can_be_read(store, check).await);
        assert_eq!(conclude_twice(store, check).await.unwrap(), 1);
    }
    control_coordinator("resume");
    poll_until("the coordinator is back", async || store.ping().await.is_ok()).await;
    let concluded = "select count(*) from checks where concluded_at is not null";
    assert_eq!(database.query_one(concluded).await.get::<_, i64>(0), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_move_to_a_new_worker_without_errors() {
    let database = Database::citus_without_last_worker().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let first = join_all((0..50).map(|_| create(store, project))).await;

    let is_done = AtomicBool::new(false);
    let load = async {
        let mut created = Vec::new();
        while !is_done.load(Ordering::Relaxed) {
            let check = create(store, project).await.unwrap();
            assert_eq!(conclude_twice(store, &check).await.unwrap(), 1);
            created.push(check);
        }
        created
    };
    let rebalance = async {
        database.join_last_worker().await;
        database.execute("select citus_rebalance_start(shard_transfer_mode => 'force_logical')").await;
        database.execute("select citus_rebalance_wait()").await;
        is_done.store(true, Ordering::Relaxed);
    };
    let (during, ()) = join(load, rebalance).await;
    let servers = "select count(distinct nodeport) from citus_shards where table_name = 'checks'::regclass";
    assert_eq!(database.query_one(servers).await.get::<_, i64>(0), 2);
    for check in first.into_iter().map(Result::unwrap) {
        assert_eq!(conclude_twice(store, &check).await.unwrap(), 1);
        assert!(can_be_read(store, &check).await);
    }
    for check in &during {
        assert!(can_be_read(store, check).await);
    }
    let concluded = "select count(*) from checks where concluded_at is not null";
    assert_eq!(database.query_one(concluded).await.get::<_, i64>(0), 50 + i64::try_from(during.len()).unwrap());
}

/// Accepts connections of other servers to a worker, and rejects those of nodes, which have no password.
struct RejectedNodes {
    worker: PathBuf,
    rules: String,
}

impl RejectedNodes {
    async fn start(database: &Database, worker: &Worker) -> Self {
        worker.on_server("set citus.enable_ddl_propagation = off; alter role ringtrue password 'known'").await;
        let password =
            "insert into pg_dist_authinfo (nodeid, rolename, authinfo) values (0, 'ringtrue', 'password=known')";
        database.execute_everywhere(password).await;
        let directory = worker.directory();
        let file = directory.join("data/pg_hba.conf");
        let rules = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("host {} all 127.0.0.1/32 scram-sha-256\n{rules}", database.name())).unwrap();
        worker.on_server("select pg_reload_conf()").await;
        RejectedNodes { worker: directory, rules }
    }

    async fn end(&self, worker: &Worker) {
        fs::write(self.worker.join("data/pg_hba.conf"), &self.rules).unwrap();
        worker.on_server("select pg_reload_conf()").await;
    }
}

impl Drop for RejectedNodes {
    fn drop(&mut self) {
        // Also if the test has failed.
        fs::write(self.worker.join("data/pg_hba.conf"), &self.rules).unwrap();
    }
}

/// The node cannot connect to a worker, but the coordinator can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_worker_is_used_through_the_coordinator() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let worker = database.worker();
    let rejected = RejectedNodes::start(&database, &worker).await;
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());

    let checks = join_all((0..40).map(|_| create(store, project))).await;
    let checks: Vec<ReverseSmsCheck> = checks.into_iter().map(Result::unwrap).collect();
    for check in &checks {
        assert!(can_be_read(store, check).await);
        let history = store.find_check_history(project, Product::ReverseSms, check.id).await.unwrap();
        assert!(history.is_some());
    }
    for completeness in [Completeness::All, Completeness::Reachable] {
        let overdue = store.overdue_checks(sample::later(86_400), 100, completeness).await.unwrap();
        assert_eq!(overdue.len(), checks.len(), "{completeness:?}");
    }
    let overdue = store.overdue_checks_of_project(project, Product::ReverseSms, sample::later(86_400), 100).await;
    assert_eq!(overdue.unwrap().len(), checks.len());
    for check in &checks {
        let (conclusion, _) = check_sample::conclusion(check_sample::received(check, true));
        let callback = Some(check_sample::callback(sample::now()));
        let outcome = store.conclude(conclusion, callback).await.unwrap();
        assert_eq!(outcome, ConcludeOutcome::Concluded { was_pending: false });
    }
    assert_eq!(store.next_callback_due_at().await.unwrap(), Some(sample::now()));
    let leased = store.lease_due_callbacks(sample::now(), sample::later(60), 100, &[]).await.unwrap();
    assert_eq!(leased.len(), checks.len());
    assert_eq!(worker.node_sessions().await, 0);
    let detours = batch_sessions(&database).await;
    assert!(detours > 0);

    rejected.end(&worker).await;
    poll_until("the node uses the worker again", async || {
        create(store, project).await.unwrap();
        worker.node_sessions().await > 0
    })
    .await;
    poll_until("batches have left the coordinator", async || batch_sessions(&database).await == 0).await;
}

/// A worker that accepts no further connection is still used over the open ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_of_an_unreachable_worker_are_used() {
    let database = Database::empty_citus().await;
    database.count_statements().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let forwarded = async || {
        let count = "select query_execution_multi_shard from citus_stat_counters where name = current_database()";
        database.query_one(count).await.get::<_, i64>(0)
    };
    let read = async || store.overdue_checks(sample::now(), 9, Completeness::All).await.unwrap();
    read().await;
    let worker = database.worker();
    let rejected = RejectedNodes::start(&database, &worker).await;
    let before = forwarded().await;
    // Opens more connections, and fails.
    join_all((0..8).map(|_| read())).await;
    let during = forwarded().await;
    assert_ne!(during, before, "the worker is avoided");
    for _ in 0..10 {
        read().await;
    }
    assert_eq!(forwarded().await, during, "no statement goes through the coordinator");
    rejected.end(&worker).await;
}

/// Returns the number of sessions with the coordinator that run batches. Rows of checks are all on workers.
async fn batch_sessions(database: &Database) -> i64 {
    let count = "select count(*) from pg_stat_activity where application_name = 'ringtrue' and query = 'commit'
                    and datname = current_database()";
    database.query_one(count).await.get(0)
}

/// A worker whose processes do not respond until the value is dropped.
struct FrozenWorker {
    directory: PathBuf,
}

impl FrozenWorker {
    fn new(worker: &Worker) -> Self {
        let directory = worker.directory();
        control_server("freeze", directory.to_str().unwrap());
        FrozenWorker { directory }
    }
}

impl Drop for FrozenWorker {
    fn drop(&mut self) {
        control_server("thaw", self.directory.to_str().unwrap());
    }
}

/// A worker accepts connections and never responds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_worker_delays_only_its_shards() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let checks: Vec<_> =
        join_all((0..40).map(|_| create(store, project))).await.into_iter().map(Result::unwrap).collect();
    let late = sample::later(86_400);
    assert_eq!(store.overdue_checks(late, 100, Completeness::Reachable).await.unwrap().len(), 40);

    let worker = database.worker();
    let frozen = FrozenWorker::new(&worker);
    // Reads that need the worker use up neither the connections nor the time of others.
    let history = join_all(checks.iter().map(|check| store.find_check_history(project, Product::ReverseSms, check.id)));
    let others = async {
        let started = Instant::now();
        let overdue = store.overdue_checks(late, 100, Completeness::Reachable).await.unwrap();
        assert!((1..40).contains(&overdue.len()), "{}", overdue.len());
        store.ping().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    };
    let (history, ()) = join(history, others).await;
    let found = history.iter().filter(|history| matches!(history, Ok(Some(_)))).count();
    assert!((1..40).contains(&found), "{found}");

    poll_until("the worker is avoided", async || {
        let started = Instant::now();
        let overdue = store.overdue_checks(late, 100, Completeness::Reachable).await.unwrap();
        assert!((1..40).contains(&overdue.len()), "{}", overdue.len());
        started.elapsed() < Duration::from_millis(300)
    })
    .await;
    let incomplete = store.overdue_checks(late, 100, Completeness::All).await;
    assert!(matches!(incomplete, Err(StoreError::Unavailable(_))), "{incomplete:?}");
    let incomplete = store.overdue_checks_of_project(project, Product::ReverseSms, late, 100).await;
    assert!(matches!(incomplete, Err(StoreError::Unavailable(_))), "{incomplete:?}");
    let created = join_all((0..40).map(|_| create(store, project))).await;
    let acknowledged: Vec<_> = created.into_iter().filter_map(Result::ok).collect();
    assert!((1..40).contains(&acknowledged.len()), "{}", acknowledged.len());

    drop(frozen);
    poll_until("all creates succeed again", async || {
        join_all((0..12).map(|_| create(store, project))).await.iter().all(Result::is_ok)
    })
    .await;
    for check in checks.iter().chain(&acknowledged) {
        assert!(can_be_read(store, check).await, "an acknowledged check is lost");
    }
    poll_until("the worker is used again", async || {
        // A probe that began while the worker was silent may fail only now, and have it avoided until the next one.
        create(store, project).await.is_ok() && worker.node_sessions().await > 0
    })
    .await;
    let all = store.overdue_checks(late, 1_000, Completeness::Reachable).await.unwrap();
    assert_eq!(all.len(), store.overdue_checks(late, 1_000, Completeness::All).await.unwrap().len());
}

/// A check and the limit of its number are on two servers. If a third one is silent, it does not matter to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_worker_affects_only_two_server_creates_that_need_it() {
    let database = Database::empty_citus().await;
    let coordinator = database.query_one("select inet_server_port()").await.get::<_, i32>(0);
    let has_shards = format!("select citus_set_node_property('127.0.0.1', {coordinator}, 'shouldhaveshards', true)");
    database.execute(&has_shards).await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let servers = Servers::of(&database).await;
    let (worker, other) = (database.worker(), database.last_worker());
    let [silent, other] = [&worker, &other].map(|worker| worker.port().parse::<i32>().unwrap());
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let create_both = async || {
        let create = |number_port| servers.create(store, project, other, number_port);
        join(create(silent), create(coordinator)).await
    };
    for _ in 0..3 {
        let (needing, other) = create_both().await;
        needing.unwrap();
        other.unwrap();
        servers.create(store, project, coordinator, silent).await.unwrap();
    }

    let frozen = FrozenWorker::new(&worker);
    poll_until("creates that need the silent worker are refused at once", async || {
        let started = Instant::now();
        let (needing, _) = create_both().await;
        assert_unavailable(&needing);
        started.elapsed() < Duration::from_secs(1)
    })
    .await;
    for _ in 0..20 {
        let (needing, created) = create_both().await;
        assert_unavailable(&needing);
        created.unwrap();
        servers.create(store, project, coordinator, other).await.unwrap();
    }
    drop(frozen);
    poll_until("all creates succeed again", async || {
        let (needing, other) = create_both().await;
        other.unwrap();
        needing.is_ok()
    })
    .await;
}

/// A worker waits for a standby that is gone. It responds to reads, and commits nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_that_cannot_commit_does_not_take_up_limits() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let servers = Servers::of(&database).await;
    let (worker, other) = (database.worker(), database.last_worker());
    let [stuck, up] = [&worker, &other].map(|worker| worker.port().parse::<i32>().unwrap());
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let create = async |port, number| join_all((0..number).map(|_| servers.create(store, project, port, port))).await;
    create(stuck, 60).await.into_iter().for_each(|check| drop(check.unwrap()));
    let open: Vec<_> = create(up, 10).await.into_iter().map(|check| check.unwrap().id).collect();
    for (port, number, due_at) in [(stuck, 40, sample::now()), (up, 10, sample::later(1))] {
        for check in create(port, number).await {
            check_sample::conclude(store, &check.unwrap(), due_at).await;
        }
    }

    worker.on_server("alter system set synchronous_standby_names = 'gone'").await;
    worker.on_server("select pg_reload_conf()").await;
    let overdue = store.overdue_checks(sample::later(86_400), 20, Completeness::Reachable).await;
    let lease = async || store.lease_due_callbacks(sample::later(2), sample::later(60), 20, &[]).await;
    let first = lease().await;
    let started = Instant::now();
    let second = lease().await;
    let next_due_at = store.next_callback_due_at().await;
    let duration = started.elapsed();
    worker.on_server("alter system reset synchronous_standby_names").await;
    worker.on_server("select pg_reload_conf()").await;

    let overdue: Vec<_> = overdue.unwrap().into_iter().map(|check| check.id).collect();
    assert!(overdue.len() == 20 && open.iter().all(|id| overdue.contains(id)), "{overdue:?}");
    let leased = first.unwrap();
    assert!(leased.len() == 10 && leased.iter().all(|callback| servers.port(callback.check.bucket()) == up));
    assert_eq!(second.unwrap(), []);
    assert_eq!(next_due_at.unwrap(), Some(sample::later(60)), "the end of the leases");
    assert!(duration < Duration::from_secs(2), "{duration:?}");
    poll_until("callbacks of the worker are leased again", async || !lease().await.unwrap().is_empty()).await;
}

/// After a failover, an administrator registers the new address of a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_address_of_a_worker_keeps_direct_access() {
    let database = Database::empty_citus().await;
    database.count_statements().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let port = database.worker().port().to_owned();
    let update =
        format!("select citus_update_node(nodeid, 'localhost', {port}) from pg_dist_node where nodeport = {port}");
    database.execute(&update).await;
    // The placement is read again every five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let before = forwarded_statements(&database).await;
    let mut created = 0;
    while created < 20 {
        let check = check_sample::check(project, sample::now());
        if is_on_one_server(store, &check) {
            store.create_check(check_sample::new(check.clone())).await.unwrap();
            assert!(can_be_read(store, &check).await);
            assert_eq!(conclude_twice(store, &check).await.unwrap(), 1);
            created += 1;
        }
    }
    assert_eq!(forwarded_statements(&database).await, before, "no statement goes through the coordinator");
}

/// A node that has not learned yet that a worker has left the cluster finds the rows at the coordinator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_leaves_the_cluster_without_errors() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let project = ProjectId(sample::uuid());
    let first = join_all((0..50).map(|_| create(store, project))).await;

    let is_done = AtomicBool::new(false);
    let load = async {
        let mut created = Vec::new();
        while !is_done.load(Ordering::Relaxed) {
            let check = create(store, project).await.unwrap();
            assert!(store.find_check_history(project, Product::ReverseSms, check.id).await.unwrap().is_some());
            assert_eq!(conclude_twice(store, &check).await.unwrap(), 1);
            store.overdue_checks(sample::now(), 9, Completeness::All).await.unwrap();
            created.push(check);
        }
        created
    };
    let worker = database.worker();
    let removal = async {
        let port = worker.port();
        database.execute(&format!("select citus_drain_node('127.0.0.1', {port}, 'force_logical')")).await;
        database.execute(&format!("select citus_remove_node('127.0.0.1', {port})")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        is_done.store(true, Ordering::Relaxed);
    };
    let (during, ()) = join(load, removal).await;
    for check in first.into_iter().map(Result::unwrap) {
        assert_eq!(conclude_twice(store, &check).await.unwrap(), 1);
        assert!(can_be_read(store, &check).await);
    }
    for check in &during {
        assert!(can_be_read(store, check).await);
    }
    let concluded = "select count(*) from checks where concluded_at is not null";
    assert_eq!(database.query_one(concluded).await.get::<_, i64>(0), 50 + i64::try_from(during.len()).unwrap());
    poll_until("the node has left the worker", async || worker.node_sessions().await == 0).await;
}

/// If the coordinator dies between the two phases of a commit, it leaves prepared transactions on the workers, which
/// hold locks. Its maintenance process must find and end these transactions: it commits those that the coordinator has
/// recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_phase_commits_left_behind_are_recovered() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    database.on_server("alter system set citus.recover_2pc_interval = '1s'").await;
    database.on_server("select pg_reload_conf()").await;
    database.execute("create table recovered (id int); select create_reference_table('recovered')").await;
    let worker = database.worker();
    let shard =
        database.query_one("select shardid from pg_dist_shard where logicalrelid = 'recovered'::regclass").await;
    let shard = format!("recovered_{}", shard.get::<_, i64>(0));
    // Citus names prepared transactions by the coordinator's group and process, the transaction and the connection.
    for (id, name) in [(1, "citus_0_1_1_1"), (2, "citus_0_1_2_1")] {
        worker.execute(&format!("begin; insert into {shard} values ({id}); prepare transaction '{name}'")).await;
    }
    let group = format!("select groupid from pg_dist_node where nodeport = {}", worker.port());
    let record = format!("insert into pg_dist_transaction (groupid, gid) values (({group}), 'citus_0_1_1_1')");
    database.execute(&record).await;

    let prepared = "select count(*) from pg_prepared_xacts where database = current_database()";
    poll_until("both transactions have ended", async || worker.query_one(prepared).await.get::<_, i64>(0) == 0).await;
    let kept = worker.query_one(&format!("select array_agg(id) from {shard}")).await;
    assert_eq!(kept.get::<_, Vec<i32>>(0), [1], "only the recorded transaction is committed");
    database.on_server("alter system reset citus.recover_2pc_interval").await;
    database.on_server("select pg_reload_conf()").await;
    let store = &*database.open().await;
    let check = create(store, ProjectId(sample::uuid())).await.unwrap();
    assert!(can_be_read(store, &check).await);
}

/// A prepared transaction keeps its rows locked until the server that began it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_key_does_not_affect_other_claims() {
    let database = Database::empty_citus().await;
    migrate(&database.url(), sample::now()).await.unwrap();
    distribute(&database.url(), |_| {}).await.unwrap();
    let store = &*database.open().await;
    let tenant = sample::uuid();
    // All keys have the same bucket, so their claims are in one queue.
    let claim = |number: u8| IdempotencyClaim {
        key_digest: [[number; 30].as_slice(), &[0, 7]].concat().try_into().unwrap(),
        ..sample::claim(tenant, 1, 1)
    };
    assert_eq!(store.claim_idempotency_key(&claim(0)).await.unwrap(), ClaimOutcome::Claimed);
    let locked = database.begin("update idempotency_keys set lease_until = 0 where bucket = 7").await.unwrap();
    let claims: Vec<_> = (0..40).map(claim).collect();
    let mut outcomes = join_all(claims.iter().map(|claim| store.claim_idempotency_key(claim))).await.into_iter();
    assert_unavailable(&outcomes.next().unwrap());
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), ClaimOutcome::Claimed);
    }
    drop(locked);
}
