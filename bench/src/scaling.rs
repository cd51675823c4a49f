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

use crate::{
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{Deployment, Project, get_request, json_request, json_text, listen_address},
    load::{self, Connection, Workload},
    postgres::{Cluster, Database},
    process::Process,
    report::{self, Rates},
    silent::string_property,
};

const ROUND_DURATION: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;
/// Checks that are read.
const READ_CHECKS: usize = 500;
/// Checks of the last twelve months in the large database.
const STORED_CHECKS: u64 = 20_000_000;
/// Checks that are inserted at a time, so that a checkpoint can end in between.
const STEP: u64 = 1_000_000;

pub async fn compare_citus() -> anyhow::Result<bool> {
    report::heading("Citus, a coordinator and two workers on this machine, against one PostgreSQL");
    let plain = Candidate::start(Deployment::start("bench_one_server", "")?).await?;
    let citus = Candidate::start(Deployment::start_on_citus(Cluster::from_environment()?, "")?).await?;
    let [creates, reads, flows] = compare(("Citus", &citus), ("one PostgreSQL", &plain)).await?;
    let is_met = creates.report("creates/s", Some(0.5));
    reads.report("reads/s", None);
    flows.report("Reverse SMS flows/s", None);
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
struct Candidate<D> {
    addresses: Vec<SocketAddr>,
    // Stopped before the database is dropped.
    nodes: Vec<Process>,
    deployment: Deployment<D>,
    project: Project,
    numbers: NumberSequence,
    reads: Arc<[String]>,
}

impl<D> Candidate<D> {
    async fn start(deployment: Deployment<D>) -> anyhow::Result<Self> {
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

    async fn create_rate(&self) -> anyhow::Result<f64> {
        let (token, numbers) = (self.project.token.clone(), self.numbers.clone());
        let write = move |request: &mut Vec<u8>| request.extend_from_slice(create_request(&token, &numbers).as_bytes());
        self.rate(|| SingleRequest { write: write.clone(), request: Vec::new() }).await
    }

    async fn read_rate(&self) -> anyhow::Result<f64> {
        let (requests, turn) = (Arc::clone(&self.reads), Arc::new(AtomicUsize::new(0)));
        let write = move |request: &mut Vec<u8>| {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            request.extend_from_slice(requests[turn % requests.len()].as_bytes());
        };
        self.rate(|| SingleRequest { write: write.clone(), request: Vec::new() }).await
    }

    /// Rate of checks that are created and concluded by their SMS.
    async fn flow_rate(&self) -> anyhow::Result<f64> {
        self.rate(|| ReverseSmsFlow { token: self.project.token.clone(), numbers: self.numbers.clone() }).await
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

struct SingleRequest<W> {
    write: W,
    request: Vec<u8>,
}

impl<W: Fn(&mut Vec<u8>) + Send + 'static> Workload for SingleRequest<W> {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.request.clear();
        (self.write)(&mut self.request);
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
