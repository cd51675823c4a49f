//! Creates, reads by id and complete Reverse SMS flows of two deployments: on Citus against one PostgreSQL, with many
//! stored checks against an empty database, and on three nodes against one.

use std::{
    fs::File,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::{
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{Deployment, Project, get_request, json_request, json_text, listen_address},
    load::{self, Connection, Workload},
    postgres::{Database, worker_directories},
    process::Process,
    report::{self, Rates},
    silent::string_property,
};

const ROUND_DURATION: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;
/// Connections that share a fixed load.
const PACED_CONNECTIONS: usize = 64;
/// Checks that are read.
const READ_CHECKS: usize = 500;
/// Checks of the last twelve months in the large database.
const STORED_CHECKS: u64 = 20_000_000;
/// Checks that are inserted at a time, so that a checkpoint can end in between.
const STEP: u64 = 1_000_000;

pub async fn compare_citus() -> anyhow::Result<bool> {
    report::heading("Citus, a coordinator and two workers on this machine, against one PostgreSQL");
    let plain = Candidate::start(Deployment::start("bench_one_server", "")?).await?;
    let citus = Candidate::start(Deployment::start_on_citus("bench_citus", &worker_directories()?, "")?).await?;
    let [creates, reads, flows] = compare(("Citus", &citus), ("one PostgreSQL", &plain)).await?;
    let is_met = creates.report("creates/s", Some(0.7));
    let is_met = reads.report("reads/s", Some(0.5)) && is_met;
    let is_met = flows.report("Reverse SMS flows/s", Some(0.5)) && is_met;
    Ok(is_met)
}

pub async fn compare_growth() -> anyhow::Result<bool> {
    report::heading("PostgreSQL with 20 million checks of twelve months, against an empty one");
    let empty = Candidate::start(Deployment::start("bench_empty", "")?).await?;
    let full = Candidate::start(Deployment::start("bench_full", "")?).await?;
    insert_checks(&full)?;
    let [creates, reads, flows] = compare(("20 million checks", &full), ("empty", &empty)).await?;
    let is_met = creates.report("creates/s", Some(0.85));
    let is_met = reads.report("reads/s", Some(0.85)) && is_met;
    flows.report("Reverse SMS flows/s", None);
    Ok(is_met)
}

/// All nodes and the database share the machine, so that three nodes cannot be faster here: the figures show what the
/// coordination of nodes costs.
pub async fn compare_nodes() -> anyhow::Result<bool> {
    report::heading("Three nodes on one PostgreSQL, against one node");
    let one = Candidate::start(Deployment::start("bench_one_node", "")?).await?;
    let mut three = Candidate::start(Deployment::start("bench_three_nodes", "")?).await?;
    three.add_nodes(2)?;
    let [creates, reads, flows] = compare(("three nodes", &three), ("one node", &one)).await?;
    creates.report("creates/s", None);
    reads.report("reads/s", None);
    flows.report("Reverse SMS flows/s", None);
    Ok(true)
}

/// A deployment under load.
pub struct Candidate<D> {
    addresses: Vec<SocketAddr>,
    // Stopped before the database is dropped.
    nodes: Vec<Process>,
    deployment: Deployment<D>,
    project: Project,
    numbers: NumberSequence,
    reads: Arc<[String]>,
}

impl<D> Candidate<D> {
    pub async fn start(deployment: Deployment<D>) -> anyhow::Result<Self> {
        let project = deployment.sandbox_project().await?;
        let (numbers, mut reads) = (NumberSequence::default(), Vec::new());
        let mut connection = Connection::open(deployment.address).await?;
        for _ in 0..READ_CHECKS {
            let create = create_request(&project.token, &numbers);
            let created: Value = serde_json::from_slice(connection.fetch_body(create.as_bytes()).await?)?;
            reads.push(get_request(&format!("{CHECKS_PATH}/{}", json_text(&created, "/check_id")?), &project.token));
        }
        let addresses = vec![deployment.address];
        Ok(Candidate { addresses, nodes: Vec::new(), deployment, project, numbers, reads: reads.into() })
    }

    fn add_nodes(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let node = self.deployment.start_node(SocketAddr::from(([127, 0, 0, 1], 0)), File::create("/dev/null")?)?;
            self.addresses.push(listen_address(&node)?);
            self.nodes.push(node);
        }
        Ok(())
    }

    pub fn process_id(&self) -> u32 {
        self.deployment.process_id()
    }

    /// Runs an operation (`create`, `read` or `flow`) at a fixed rate, and returns how often it ran.
    pub async fn run_at(&self, operation: &str, rate: f64, duration: Duration) -> anyhow::Result<f64> {
        let interval = Duration::from_secs_f64(1.0 / rate) * u32::try_from(PACED_CONNECTIONS)?;
        let completed = match operation {
            "create" => self.run_paced(interval, duration, self.creates()).await?,
            "read" => self.run_paced(interval, duration, self.reads()).await?,
            _ => self.run_paced(interval, duration, self.flows()).await?,
        };
        Ok(completed * duration.as_secs_f64())
    }

    async fn run_paced<W: Workload>(
        &self,
        interval: Duration,
        duration: Duration,
        workload: impl Fn() -> W,
    ) -> anyhow::Result<f64> {
        let paced = || Paced { workload: workload(), ticks: paced_ticks(interval) };
        load::workload_rate(self.addresses[0], PACED_CONNECTIONS, duration, paced).await
    }

    fn creates(&self) -> impl Fn() -> SingleRequest<CreateWriter> {
        let writer = CreateWriter { token: self.project.token.clone(), numbers: self.numbers.clone() };
        move || SingleRequest { write: writer.clone(), request: Vec::new() }
    }

    fn reads(&self) -> impl Fn() -> SingleRequest<ReadWriter> {
        let writer = ReadWriter { requests: Arc::clone(&self.reads), turn: Arc::default() };
        move || SingleRequest { write: writer.clone(), request: Vec::new() }
    }

    /// Checks that are created and concluded by their SMS.
    fn flows(&self) -> impl Fn() -> ReverseSmsFlow {
        let (token, numbers) = (self.project.token.clone(), self.numbers.clone());
        move || ReverseSmsFlow { token: token.clone(), numbers: numbers.clone() }
    }

    async fn create_rate(&self) -> anyhow::Result<f64> {
        self.rate(self.creates()).await
    }

    async fn read_rate(&self) -> anyhow::Result<f64> {
        self.rate(self.reads()).await
    }

    async fn flow_rate(&self) -> anyhow::Result<f64> {
        self.rate(self.flows()).await
    }

    /// The connections are divided among the nodes.
    async fn rate<W: Workload>(&self, workload: impl Fn() -> W) -> anyhow::Result<f64> {
        let connections = load::CONNECTIONS / self.addresses.len();
        let rates =
            self.addresses.iter().map(|node| load::workload_rate(*node, connections, ROUND_DURATION, &workload));
        Ok(try_join_all(rates).await?.iter().sum())
    }
}

fn create_request(token: &str, numbers: &NumberSequence) -> String {
    json_request("POST", CHECKS_PATH, token, &format!(r#"{{"phone_number":"{}"}}"#, numbers.next()))
}

/// Appends the next request to a buffer.
trait WriteRequest: Clone + Send + 'static {
    fn write(&self, request: &mut Vec<u8>);
}

#[derive(Clone)]
struct CreateWriter {
    token: String,
    numbers: NumberSequence,
}

impl WriteRequest for CreateWriter {
    fn write(&self, request: &mut Vec<u8>) {
        request.extend_from_slice(create_request(&self.token, &self.numbers).as_bytes());
    }
}

#[derive(Clone)]
struct ReadWriter {
    requests: Arc<[String]>,
    turn: Arc<AtomicUsize>,
}

impl WriteRequest for ReadWriter {
    fn write(&self, request: &mut Vec<u8>) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        request.extend_from_slice(self.requests[turn % self.requests.len()].as_bytes());
    }
}

/// A workload that runs once in each interval.
struct Paced<W> {
    workload: W,
    ticks: Interval,
}

/// The connections share the interval evenly.
fn paced_ticks(interval: Duration) -> Interval {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let started = STARTED.fetch_add(1, Ordering::Relaxed) % PACED_CONNECTIONS;
    let part = interval * u32::try_from(started).unwrap_or_default() / u32::try_from(PACED_CONNECTIONS).unwrap_or(1);
    let mut ticks = interval_at(Instant::now() + part, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl<W: Workload> Workload for Paced<W> {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.ticks.tick().await;
        self.workload.run(connection).await
    }
}

struct SingleRequest<W> {
    write: W,
    request: Vec<u8>,
}

impl<W: WriteRequest> Workload for SingleRequest<W> {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.request.clear();
        self.write.write(&mut self.request);
        connection.fetch_body(&self.request).await.map(drop)
    }
}

struct ReverseSmsFlow {
    token: String,
    numbers: NumberSequence,
}

impl Workload for ReverseSmsFlow {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        let number = self.numbers.next();
        let create = json_request("POST", CHECKS_PATH, &self.token, &format!(r#"{{"phone_number":"{number}"}}"#));
        let created = str::from_utf8(connection.fetch_body(create.as_bytes()).await?)?;
        let receiver = string_property(created, "receiver_phone_number")?;
        let text = string_property(created, "expected_sms_body")?;
        let sms = format!(r#"{{"from":"{number}","to":"{receiver}","body":"{text}"}}"#);
        let send = json_request("POST", "/v1/sandbox/inbound-sms", &self.token, &sms);
        connection.fetch_body(send.as_bytes()).await.map(drop)
    }
}

/// Rates of a candidate and of its baseline.
struct Comparison {
    candidate: Rates,
    baseline: Rates,
}

impl Comparison {
    fn new(candidate: &'static str, baseline: &'static str) -> Self {
        Comparison { candidate: Rates::new(candidate), baseline: Rates::new(baseline) }
    }

    /// Returns whether the ratio reaches the floor.
    fn report(&self, unit: &str, floor: Option<f64>) -> bool {
        report::rates(&self.candidate, unit);
        report::rates(&self.baseline, unit);
        if let Some(floor) = floor {
            return report::ratio_at_least(&self.candidate, &self.baseline, floor);
        }
        report::ratio(&self.candidate, &self.baseline);
        true
    }
}

/// Compares creates, reads and flows.
async fn compare<A, B>(
    (name, candidate): (&'static str, &Candidate<A>),
    (baseline_name, baseline): (&'static str, &Candidate<B>),
) -> anyhow::Result<[Comparison; 3]> {
    let [mut creates, mut reads, mut flows] = [(); 3].map(|()| Comparison::new(name, baseline_name));
    // Warm-up.
    candidate.create_rate().await?;
    baseline.create_rate().await?;
    for _ in 0..ROUNDS {
        creates.candidate.rounds.push(candidate.create_rate().await?);
        creates.baseline.rounds.push(baseline.create_rate().await?);
        reads.candidate.rounds.push(candidate.read_rate().await?);
        reads.baseline.rounds.push(baseline.read_rate().await?);
        flows.candidate.rounds.push(candidate.flow_rate().await?);
        flows.baseline.rounds.push(baseline.flow_rate().await?);
    }
    Ok([creates, reads, flows])
}

/// Inserts concluded checks, evenly over the last twelve months.
fn insert_checks(candidate: &Candidate<Database>) -> anyhow::Result<()> {
    let (database, project) = (&candidate.deployment.database, &candidate.project.id);
    let year = 365 * 24 * 3_600_000_u64;
    database.run(&format!(
        "select create_check_partitions((extract(epoch from now()) * 1000)::bigint - {year},
                                        (extract(epoch from now()) * 1000)::bigint)"
    ))?;
    for step in 0..STORED_CHECKS / STEP {
        let first = step * STEP;
        database.run(&format!(
            "set synchronous_commit = off;
             insert into checks (id, bucket, project_id, created_at, expires_at, concluded_at, product, mode, status,
                                 matched, network_id, receiver, number_hash, number_tail, code_hash)
             select (lpad(to_hex(at), 12, '0') || '7' || lpad(to_hex(n & 4095), 3, '0') || '8'
                     || lpad(to_hex(n), 15, '0'))::uuid,
                    (n & 4095)::smallint, '{project}', at, at + 300000, at + 20000, 'reverse_sms', 'sandbox',
                    'COMPLETED', true, '99001', '+99000000001', sha256(int8send(n)), '12', sha256(int8send(-n))
               from (select n, (extract(epoch from now()) * 1000)::bigint
                               - ({STORED_CHECKS} - n) * ({year} / {STORED_CHECKS}) as at
                       from generate_series({first}::bigint, {first} + {STEP} - 1) as n) as numbered"
        ))?;
        report::note(&format!("{} of {STORED_CHECKS} checks inserted", first + STEP));
    }
    // `vacuum` cannot run in a transaction.
    database.run("vacuum analyze checks")?;
    database.run("checkpoint")?;
    Ok(())
}
