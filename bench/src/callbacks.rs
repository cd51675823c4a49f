//! Delivering callbacks from PostgreSQL: leased, signed, posted and durably settled, against what the cores can sign with
//! RSA-2048 if they do nothing else.
//!
//! One node, whose courier has no room, ends checks, so that all their callbacks wait in the database; another, which has
//! just started, delivers them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use jiff::SignedDuration;
use ringtrue_domain::{
    audit::Actor,
    phone::Msisdn,
    product::Product,
    region::Region,
    reverse_sms::{InboundSms, NumberGuard, Origin, Sender},
    tenancy::{Mode, Project},
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    Engine, Parts, Settings, callback,
    keys::{CallbackSigner, MasterKey},
    management::{ConfigurationPatch, Manager, NewProject, TenantLimits},
    ports::{Clock, Disposition, Inbox, Store, SystemClock, SystemEntropy},
    rate_limit,
    reverse_sms::CreateReverseSms,
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    creates::Numbers,
    deployment::MASTER_KEY,
    load::per_second,
    postgres::Database,
    receiver::Receiver,
    report::{self, Rates},
};

const ROUNDS: usize = 5;
/// What one courier keeps in memory of one receiver.
const PER_RECEIVER: u64 = 2_500;
const RECEIVERS: usize = 4;
const CALLBACKS: u64 = PER_RECEIVER * RECEIVERS as u64;
const SIGNING: Duration = Duration::from_millis(1500);
const PATIENCE: Duration = Duration::from_mins(1);
const CALLERS: usize = 64;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Callbacks from PostgreSQL: leased, signed, posted and durably settled");
    let database = Database::create("bench_callbacks")?;
    let url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await?;
    let no_room = callback::Limits { queued: 0, queued_per_destination: 0, ..callback::Limits::default() };
    let ending = Arc::new(World::start(&store, no_room).await?);
    let mut receivers = Vec::new();
    for _ in 0..RECEIVERS {
        receivers.push(Receiver::start().await?);
    }

    let mut ours = Rates::new("callbacks");
    let mut signing = Rates::new("RSA-2048 signatures on all cores");
    for round in 0..=ROUNDS {
        let signatures = tokio::task::spawn_blocking(sign_for_a_while).await??;
        end_checks(&ending, &receivers).await?;
        let delivered = deliver(&store, &receivers).await?;
        // Nobody is measured cold.
        if round > 0 {
            signing.rounds.push(signatures);
            ours.rounds.push(delivered);
        }
    }
    let left = database.run("select count(*) from callbacks where state <> 'delivered'")?;
    ensure!(left == "0", "{left} callbacks were not delivered");
    report::rates(&ours, "callbacks/s");
    report::rates(&signing, "signatures/s");
    Ok(report::ratio(&ours, &signing, 0.5))
}

/// A node, and a project of its own in a workspace of its own.
pub struct World {
    engine: Engine,
    project: Project,
    numbers: Numbers,
}

impl World {
    async fn start(store: &Arc<dyn Store>, courier: callback::Limits) -> anyhow::Result<Self> {
        World::on(engine(store, courier).await?).await
    }

    pub async fn on(engine: Engine) -> anyhow::Result<Self> {
        let workspace = engine.create_workspace("Bench".parse()?).await?;
        let client_id = workspace.credential.credential.client_id.clone();
        let manager =
            Manager { workspace: workspace.workspace.id, actor: Actor::Credential(client_id), request_id: None };
        let new = NewProject {
            name: "Bench".parse()?,
            mode: Mode::Sandbox,
            configuration: ConfigurationPatch::default(),
            products: vec![Product::ReverseSms],
        };
        let project = engine.create_project(&manager, manager.workspace, new, None).await?.project;
        Ok(World { engine, project, numbers: Numbers::default() })
    }

    /// A check from its beginning to its end.
    pub async fn end_check(&self, callback_url: String) -> anyhow::Result<()> {
        let number = self.numbers.next();
        let request =
            CreateReverseSms { phone_number: number.clone(), reference: None, callback_url: Some(callback_url) };
        let created = self.engine.create_reverse_sms(&self.project, request, None).await?;
        let sms = InboundSms {
            origin: Origin::Sandbox(self.project.id),
            connector: "bench".into(),
            from: Sender::Number(Msisdn::parse(&number, Mode::Sandbox)?),
            to: created.invitation.receiver,
            text: created.invitation.sms_body,
            received_at: SystemClock.now(),
        };
        let disposition = self.engine.receive(sms).await?;
        ensure!(disposition == Disposition::Concluded, "a check did not end: {disposition:?}");
        Ok(())
    }
}

pub async fn engine(store: &Arc<dyn Store>, courier: callback::Limits) -> anyhow::Result<Engine> {
    let addresses = AddressPolicy { allow: vec!["127.0.0.0/8".parse()?], ..AddressPolicy::default() };
    let transport = Outbound::new(OutboundSettings { addresses: addresses.clone(), ..OutboundSettings::default() })?;
    let parts = Parts {
        store: Arc::clone(store),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(transport),
        master: MasterKey::from_base64(MASTER_KEY)?,
    };
    let settings = Settings {
        region: Region::Eu,
        base_url: "http://bench.invalid".to_owned(),
        limits: rate_limit::Limits::default(),
        urls: UrlPolicy { allow_http: true, addresses },
        tenant_limits: TenantLimits::default(),
        number_guard: NumberGuard { creates: 5, within_seconds: 600 },
        courier,
        retention: SignedDuration::from_hours(24 * 30),
        discovery_retention: SignedDuration::from_hours(24),
        audit_retention: SignedDuration::from_hours(24 * 365),
        cached_lookups: 1_000,
        keep_requests: None,
        max_members: 500,
    };
    Ok(Engine::start(parts, settings).await?)
}

async fn end_checks(world: &Arc<World>, receivers: &[Receiver]) -> anyhow::Result<()> {
    let urls: Arc<[String]> =
        receivers.iter().map(|receiver| format!("http://{}/callback", receiver.address)).collect();
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (world, urls, next) = (Arc::clone(world), Arc::clone(&urls), Arc::clone(&next));
        callers.spawn(async move {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= CALLBACKS {
                    return anyhow::Ok(());
                }
                let url = usize::try_from(turn)? % urls.len();
                world.end_check(urls[url].clone()).await?;
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(())
}

/// From the start of a courier until the last attempt is settled.
async fn deliver(store: &Arc<dyn Store>, receivers: &[Receiver]) -> anyhow::Result<f64> {
    let wanted: Vec<u64> = receivers.iter().map(|receiver| receiver.received() + PER_RECEIVER).collect();
    let engine = engine(store, callback::Limits::default()).await?;
    let stop = CancellationToken::new();
    let (courier, stopped) = (engine.courier().clone(), stop.clone());
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    tasks.spawn(async move { courier.run(stopped).await });
    for (receiver, wanted) in receivers.iter().zip(wanted) {
        receiver.wait_for(wanted, PATIENCE).await?;
    }
    engine.courier().idle().await;
    let rate = per_second(CALLBACKS, begun.elapsed());
    stop.cancel();
    tasks.join_next().await.context("the courier is gone")??;
    engine.leave().await;
    Ok(rate)
}

/// As `deliver` signs, on every core. By the time that the threads were on a core: whatever else the machine does would
/// lower the limit otherwise, and flatter us, who have more threads to claim a share with.
fn sign_for_a_while() -> anyhow::Result<f64> {
    let signer = CallbackSigner::from_pkcs8(&CallbackSigner::generate()).context("a key")?;
    let over = AtomicBool::new(false);
    let sign = || {
        // About as long as what a callback's signature covers.
        let message = [b'x'; 200];
        let (before, mut count) = (time_on_core()?, 0);
        while !over.load(Ordering::Relaxed) {
            std::hint::black_box(signer.sign(&message));
            count += 1;
        }
        anyhow::Ok(per_second(count, time_on_core()?.saturating_sub(before)))
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(sign)).collect();
        std::thread::sleep(SIGNING);
        over.store(true, Ordering::Relaxed);
        let rates = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a signature failed"))?);
        rates.sum()
    })
}

/// How long this thread has run, as Linux counts it.
fn time_on_core() -> anyhow::Result<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = counted.split(' ').next().context("no time in schedstat")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}
