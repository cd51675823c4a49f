//! First attempts of one workspace while ten thousand receivers of another accept and never answer, against without them.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use anyhow::Context;
use ringtrue_engine::{
    callback,
    ports::{Clock, SystemClock},
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    callbacks::{World, engine},
    postgres::Database,
    receiver::Receiver,
    report::{self, Times},
};

const HANGING_HOSTS: u32 = 10_000;
const PROBES: u32 = 400;
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
const WARM_UP: u32 = 50;
const PROBE_TIMEOUT: Duration = Duration::from_mins(2);
const CALLERS: u32 = 64;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("First attempts while another workspace's receivers accept and never answer (PostgreSQL)");
    let database = Database::create("bench_hanging")?;
    let url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await?;
    let engine = engine(&store, callback::Limits::default()).await?;
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (courier, stopped) = (engine.courier().clone(), stop.clone());
    tasks.spawn(async move { courier.run(stopped).await });

    let healthy = World::on(engine.clone()).await?;
    let attacker = Arc::new(World::on(engine.clone()).await?);
    let receiver = Receiver::start().await?;
    probe(&healthy, &receiver, WARM_UP).await?;
    let without = probe(&healthy, &receiver, PROBES).await?;

    // One socket for all of 127.0.0.0/8: each address is a host of its own to the courier.
    let hanging = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let port = hanging.local_addr()?.port();
    tasks.spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = hanging.accept().await {
            held.push(stream);
        }
    });
    let begun = Instant::now();
    attack(&attacker, port).await?;
    let attacked_in = begun.elapsed();
    let with = probe(&healthy, &receiver, PROBES).await?;
    let figures = engine.courier().figures();

    report::percentile("p99 without them", &without, 0.99);
    report::percentile("p99 with them", &with, 0.99);
    report::note(&format!(
        "{HANGING_HOSTS} checks ended in {:.1} s; {} attempts hang and {} wait in memory",
        attacked_in.as_secs_f64(),
        figures.in_flight,
        figures.waiting
    ));
    stop.cancel();
    tasks.abort_all();
    engine.leave().await;
    Ok(report::at_most_percentile("p99 of healthy first attempts", (&with, &without), 0.99, 3.0))
}

/// From the SMS that ends a check to the arrival of its callback, one after the other.
async fn probe(world: &World, receiver: &Receiver, count: u32) -> anyhow::Result<Times> {
    let mut times = Times::default();
    for _ in 0..count {
        let wanted = receiver.received() + 1;
        let begun = Instant::now();
        world.end_check(format!("http://{}/callback", receiver.address)).await?;
        receiver.wait_for(wanted, PROBE_TIMEOUT).await?;
        times.0.push(begun.elapsed());
        sleep(PROBE_INTERVAL).await;
    }
    Ok(times)
}

async fn attack(world: &Arc<World>, port: u16) -> anyhow::Result<()> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let world = Arc::clone(world);
        callers.spawn(async move {
            for host in (caller..HANGING_HOSTS).step_by(CALLERS as usize) {
                let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + host);
                world.end_check(format!("http://{address}:{port}/hook")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended?.context("a check of the other workspace")?;
    }
    Ok(())
}
