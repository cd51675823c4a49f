//! Latency of first callback attempts of one workspace while 10,000 receivers of another workspace hang, against
//! without.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context;
use ringtrue_engine::{
    courier,
    ports::clock::{Clock, SystemClock},
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    callbacks::{Fixture, start_engine},
    postgres::Database,
    receiver::CallbackReceiver,
    report::{self, Times},
};

const HANGING_HOSTS: u32 = 10_000;
const PROBES: u32 = 400;
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
const WARM_UP: u32 = 50;
const PROBE_TIMEOUT: Duration = Duration::from_mins(2);
const CLIENTS: u32 = 64;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("First callback attempts on PostgreSQL: with and without 10,000 hanging receivers");
    let database = Database::create("bench_hanging")?;
    let url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await?;
    let engine = start_engine(&store, courier::CourierLimits::default()).await?;
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (courier, stopped) = (engine.courier().clone(), stop.clone());
    tasks.spawn(async move { courier.run(stopped).await });

    let healthy = Fixture::with_engine(engine.clone()).await?;
    let attacker = Arc::new(Fixture::with_engine(engine.clone()).await?);
    let receiver = CallbackReceiver::start().await?;
    probe(&healthy, &receiver, WARM_UP).await?;
    let without = probe(&healthy, &receiver, PROBES).await?;

    // One listener for 127.0.0.0/8; the courier treats each address as a host.
    let hanging = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let port = hanging.local_addr()?.port();
    tasks.spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = hanging.accept().await {
            held.push(stream);
        }
    });
    let started = Instant::now();
    attack(&attacker, port).await?;
    let attack_duration = started.elapsed();
    let with = probe(&healthy, &receiver, PROBES).await?;
    let metrics = engine.courier().metrics();

    report::percentile("p99 without hanging receivers", &without, 0.99);
    report::percentile("p99 with hanging receivers", &with, 0.99);
    report::note(&format!(
        "{HANGING_HOSTS} checks concluded in {:.1} s; {} attempts in flight, {} queued in memory",
        attack_duration.as_secs_f64(),
        metrics.in_flight,
        metrics.waiting
    ));
    stop.cancel();
    tasks.abort_all();
    engine.node.deregister_node().await;
    Ok(report::percentile_ratio_at_most("p99 of first attempts", (&with, &without), 0.99, 3.0))
}

/// Measures from the SMS that concludes a check to the arrival of its callback, one check at a time.
async fn probe(fixture: &Fixture, receiver: &CallbackReceiver, count: u32) -> anyhow::Result<Times> {
    let mut times = Times::default();
    for _ in 0..count {
        let expected = receiver.received() + 1;
        let started = Instant::now();
        fixture.conclude_check(format!("http://{}/callback", receiver.address)).await?;
        receiver.wait_for(expected, PROBE_TIMEOUT).await?;
        times.0.push(started.elapsed());
        sleep(PROBE_INTERVAL).await;
    }
    Ok(times)
}

async fn attack(fixture: &Arc<Fixture>, port: u16) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let fixture = Arc::clone(fixture);
        clients.spawn(async move {
            for host in (client..HANGING_HOSTS).step_by(CLIENTS as usize) {
                let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + host);
                fixture.conclude_check(format!("http://{address}:{port}/hook")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended?.context("concluding a check of the other workspace")?;
    }
    Ok(())
}
