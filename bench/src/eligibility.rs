//! Eligibility by number, answered from the cache of a source, and by address, among 100,000 ranges; against a handler
//! that does nothing.

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
    cost::Cost,
    deployment::{Deployment, Sqlite, get_request},
    load::{self, Connection},
    report::{self, Rates},
};

/// So many numbers, and so many addresses, are asked about in turn.
const DIFFERENT: u32 = 2_000;
const GOAL: f64 = 0.7;
const NUMBERS: &str = "/v1/eligibility/phone-numbers";
const ADDRESSES: &str = "/v1/eligibility/device-ips";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Eligibility: over HTTP, 256 connections");
    let source = Source::start().await?;
    let ranges = addresses::ranges()?;
    let mut list = String::new();
    for (network, range) in &ranges {
        writeln!(list, "{network} {range}")?;
    }
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, list)?;
    let deployment = Deployment::start_on_sqlite(&settings(source.address, &file.path().display().to_string()))?;
    let project = deployment.curious_project(FIRST_NETWORK, &["secure_sna", "discovery"]).await?;

    let numbers = (0..DIFFERENT).map(|turn| format!("%2B447{turn:09}"));
    let of_network = ranges.iter().filter(|(network, _)| network.as_str() == FIRST_NETWORK).cycle();
    let addresses = (0..DIFFERENT).zip(of_network).map(|(turn, (_, range))| addresses::address_in(*range, turn));
    let by_number = numbers.map(|number| get_request(&format!("{NUMBERS}/{number}"), &project.token)).collect();
    let by_address = addresses.map(|address| get_request(&format!("{ADDRESSES}/{address}"), &project.token)).collect();

    let number = compared(&deployment, "by number, cached", NUMBERS, by_number).await?;
    let asked = source.asked.load(Ordering::Relaxed);
    ensure!(asked == u64::from(DIFFERENT), "the source was asked {asked} times for {DIFFERENT} numbers");
    let address = compared(&deployment, "by address", ADDRESSES, by_address).await?;
    Ok(number && address)
}

async fn compared(
    deployment: &Deployment<Sqlite>,
    name: &'static str,
    path: &str,
    requests: Vec<String>,
) -> anyhow::Result<bool> {
    let mut connection = Connection::open(deployment.address).await?;
    let mut told = String::new();
    // Each once, so that what can be remembered is.
    for request in &requests {
        told = String::from_utf8(connection.exchange(request.as_bytes()).await?.to_vec())?;
    }
    ensure!(told.contains("discovery"), "nothing can be used: {told}");
    let handler =
        Handler { method: "GET".to_owned(), path: format!("{path}/{{of}}"), body: told, ..Handler::default() };
    let bare_handler = chain::start(&[handler])?;

    let requests: Arc<[String]> = requests.into();
    let rate = async |address: SocketAddr| {
        let (requests, turn) = (Arc::clone(&requests), AtomicUsize::new(0));
        let write = move |request: &mut Vec<u8>| {
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            request.extend_from_slice(requests[turn % requests.len()].as_bytes());
        };
        load::rate_of(address, load::CONNECTIONS, load::ROUND, write).await
    };
    let mut ours = Rates::new(name);
    let mut bare = Rates::new("bare axum handler");
    let mut cost = Cost::on_sqlite(deployment);
    // Nobody is measured cold.
    for address in [deployment.address, bare_handler.address] {
        rate(address).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(cost.count(rate(deployment.address)).await?);
        bare.rounds.push(rate(bare_handler.address).await?);
    }
    report::rates(&ours, "requests/s");
    cost.report();
    report::rates(&bare, "requests/s");
    Ok(report::ratio(&ours, &bare, GOAL))
}

/// A network with an operator that is never asked here, and a source that says whose numbers are.
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

/// Knows the same network for every number. Stops when it goes out of scope.
struct Source {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl Source {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, asked) = (listener.local_addr()?, Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&asked);
        let answer = move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(format!(r#"{{"network":"{FIRST_NETWORK}"}}"#))
        };
        let router = Router::new().route("/{digits}", get(answer));
        let mut task = JoinSet::new();
        task.spawn(async move {
            // It never ends by itself.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Source { address, asked, _task: task })
    }
}
