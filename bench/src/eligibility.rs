//! Eligibility by phone number, from the lookup cache, and by IP address, in 100,000 ranges; against a bare handler.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use anyhow::ensure;
use axum::{Router, routing::get};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    addresses::{self, FIRST_NETWORK},
    chain::{self, Handler},
    cpu_cost::CpuCost,
    deployment::{Deployment, Sqlite, get_request},
    load::{self, Connection},
    report::{self, Rates},
};

/// Distinct numbers and addresses of the requests.
const DISTINCT: u32 = 2_000;
const MIN_RATIO: f64 = 0.6;
const NUMBERS: &str = "/v1/eligibility/phone-numbers";
const ADDRESSES: &str = "/v1/eligibility/device-ips";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Eligibility: over HTTP, 256 connections");
    let source = NumberSource::start().await?;
    let ranges = addresses::ranges()?;
    let mut list = String::new();
    for (network, range) in &ranges {
        writeln!(list, "{network} {range}")?;
    }
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, list)?;
    let deployment = Deployment::start_on_sqlite(&settings(source.address, &file.path().display().to_string()))?;
    let project = deployment.eligibility_project(FIRST_NETWORK, &["secure_sna", "discovery"]).await?;

    let numbers = (0..DISTINCT).map(|turn| format!("%2B447{turn:09}"));
    let network_ranges = ranges.iter().filter(|(network, _)| network.as_str() == FIRST_NETWORK).cycle();
    let addresses = (0..DISTINCT).zip(network_ranges).map(|(turn, (_, range))| addresses::pick_address(*range, turn));
    let by_number = numbers.map(|number| get_request(&format!("{NUMBERS}/{number}"), &project.token)).collect();
    let by_address = addresses.map(|address| get_request(&format!("{ADDRESSES}/{address}"), &project.token)).collect();

    let number = compare_requests(&deployment, "ringtrue, by number, cached", NUMBERS, by_number).await?;
    let lookups = source.requests.load(Ordering::Relaxed);
    ensure!(lookups == u64::from(DISTINCT), "the number source got {lookups} requests for {DISTINCT} numbers");
    let address = compare_requests(&deployment, "ringtrue, by IP address", ADDRESSES, by_address).await?;
    Ok(number && address)
}

async fn compare_requests(
    deployment: &Deployment<Sqlite>,
    name: &'static str,
    path: &str,
    requests: Vec<String>,
) -> anyhow::Result<bool> {
    let mut connection = Connection::open(deployment.address).await?;
    let mut response = String::new();
    // Fills the lookup cache.
    for request in &requests {
        response = String::from_utf8(connection.fetch_body(request.as_bytes()).await?.to_vec())?;
    }
    ensure!(response.contains("discovery"), "no eligible product: {response}");
    let handler = Handler {
        method: "GET".to_owned(),
        path: format!("{path}/{{identifier}}"),
        body: response,
        ..Handler::default()
    };
    let bare_handler = chain::start(&[handler])?;

    let requests: Arc<[String]> = requests.into();
    let rate = async |address: SocketAddr| {
        let (requests, turn) = (Arc::clone(&requests), AtomicUsize::new(0));
        let write = move |request: &mut Vec<u8>| {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            request.extend_from_slice(requests[turn % requests.len()].as_bytes());
        };
        load::generated_rate(address, load::CONNECTIONS, load::ROUND_DURATION, write).await
    };
    let mut ours = Rates::new(name);
    let mut bare = Rates::new("bare axum handler");
    let mut cost = CpuCost::on_sqlite(deployment);
    // Warm-up.
    for address in [deployment.address, bare_handler.address] {
        rate(address).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(cost.measure(rate(deployment.address)).await?);
        bare.rounds.push(rate(bare_handler.address).await?);
    }
    report::rates(&ours, "requests/s");
    cost.report();
    report::rates(&bare, "requests/s");
    Ok(report::ratio_at_least(&ours, &bare, MIN_RATIO))
}

/// One network with an unused connector, and a number source.
fn settings(source: SocketAddr, range_file: &str) -> String {
    format!(
        r#"
        [networks.{FIRST_NETWORK}]
        name = "Bench"
        country = "GB"

        [connectors.bench]
        kind = "camara"
        networks = ["{FIRST_NETWORK}"]
        issuer = "http://127.0.0.1:9"
        api_root = "http://127.0.0.1:9"
        client_id = "bench"
        client_authentication = "client_secret_basic"
        client_secret_env = "BENCH_CLIENT_SECRET"

        [number_sources.bench]
        kind = "http_hlr"
        driver = "generic_json"
        url = "http://{source}/{{digits}}"
        network_pointer = "/network"

        [ip_routing]
        range_files = ["{range_file}"]
        "#
    )
}

/// HTTP number source that returns the same network for every number. Stops when dropped.
struct NumberSource {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl NumberSource {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, requests) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&requests);
        let handler = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(format!(r#"{{"network":"{FIRST_NETWORK}"}}"#))
        };
        let router = Router::new().route("/{digits}", get(handler));
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Runs until the task is aborted.
            let _ = axum::serve(listener, router).await;
        });
        Ok(NumberSource { address, requests, _task: task })
    }
}
