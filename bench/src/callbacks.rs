//! Callback delivery from PostgreSQL (lease, sign, post, durable result) against the RSA-2048 signing rate of all
//! cores.
//!
//! One node concludes checks with a courier queue of size 0, so that all callbacks wait in the database. A second node
//! then starts and delivers them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, anyhow, ensure};
use jiff::SignedDuration;
use ringtrue_callback_signature::CallbackSigner;
use ringtrue_domain::{
    audit::Actor,
    phone::Msisdn,
    product::Product,
    region::Region,
    reverse_sms::{InboundSms, NumberLimit, SmsEnvironment, SmsSender},
    tenancy::{ConfigurationPatch, Mode, Project},
    web_url::{AddressPolicy, UrlPolicy},
};
use ringtrue_engine::{
    Engine, EngineDependencies, EngineSettings, RetentionSettings,
    accounts::PasswordCosts,
    actor::ManagementActor,
    checks::reverse_sms::CreateReverseSms,
    courier,
    keys::MasterKey,
    ports::{
        clock::{Clock, SystemClock},
        combined::Store,
        entropy::SystemEntropy,
        sms::{Inbox, SmsOutcome},
    },
    rate_limits,
    tenants::{NewProject, TenantLimits},
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_sandbox::operator_access::SandboxAccess;
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    creates::NumberSequence,
    deployment::MASTER_KEY,
    load::per_second,
    postgres::Database,
    receiver::CallbackReceiver,
    report::{self, Rates},
};

const ROUNDS: usize = 5;
/// Callbacks of one receiver that a courier queues in memory.
const CALLBACKS_PER_RECEIVER: u64 = 2_500;
const RECEIVERS: usize = 4;
const CALLBACKS: u64 = CALLBACKS_PER_RECEIVER * RECEIVERS as u64;
const SIGNING_DURATION: Duration = Duration::from_millis(1500);
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);
const CLIENTS: usize = 64;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Callback delivery from PostgreSQL: lease, sign, post, store the result");
    let database = Database::create("bench_callbacks")?;
    let url: StoreUrl = database.url.parse()?;
    ringtrue_store::migrate(&url, SystemClock.now()).await?;
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await?;
    let no_queue = courier::CourierLimits { queue: 0, queue_per_destination: 0, ..courier::CourierLimits::default() };
    let concluding = Arc::new(Fixture::start(&store, no_queue).await?);
    let mut receivers = Vec::new();
    for _ in 0..RECEIVERS {
        receivers.push(CallbackReceiver::start().await?);
    }

    let mut ours = Rates::new("ringtrue callbacks");
    let mut signing = Rates::new("RSA-2048 signatures on all cores");
    for round in 0..=ROUNDS {
        let signatures = tokio::task::spawn_blocking(measure_signing).await??;
        conclude_checks(&concluding, &receivers).await?;
        let delivered = deliver(&store, &receivers).await?;
        // Round 0 is a warm-up.
        if round > 0 {
            signing.rounds.push(signatures);
            ours.rounds.push(delivered);
        }
    }
    let undelivered = database.run("select count(*) from callbacks where state <> 'delivered'")?;
    ensure!(undelivered == "0", "{undelivered} callbacks were not delivered");
    report::rates(&ours, "callbacks/s");
    report::rates(&signing, "signatures/s");
    Ok(report::ratio_at_least(&ours, &signing, 0.5))
}

/// A node with a workspace and a project.
pub struct Fixture {
    engine: Engine,
    project: Project,
    numbers: NumberSequence,
}

impl Fixture {
    async fn start(store: &Arc<dyn Store>, courier: courier::CourierLimits) -> anyhow::Result<Self> {
        Fixture::with_engine(start_engine(store, courier).await?).await
    }

    pub async fn with_engine(engine: Engine) -> anyhow::Result<Self> {
        let workspace = engine.management.create_workspace("Bench".parse()?).await?;
        let client_id = workspace.credential.credential.client_id.clone();
        let manager = ManagementActor {
            workspace: workspace.workspace.id,
            actor: Actor::Credential(client_id),
            request_id: None,
        };
        let new = NewProject {
            name: "Bench".parse()?,
            mode: Mode::Sandbox,
            configuration: ConfigurationPatch::default(),
            products: vec![Product::ReverseSms],
        };
        let project = engine.management.create_project(&manager, manager.workspace, new, None).await?.project;
        Ok(Fixture { engine, project, numbers: NumberSequence::default() })
    }

    /// Creates a check and concludes it by an SMS.
    pub async fn conclude_check(&self, callback_url: String) -> anyhow::Result<()> {
        let number = self.numbers.next();
        let request =
            CreateReverseSms { phone_number: number.clone(), reference: None, callback_url: Some(callback_url) };
        let created = self.engine.checks.create_reverse_sms(&self.project, request, None).await?;
        let sms = InboundSms {
            environment: SmsEnvironment::Sandbox(self.project.id),
            connector: "bench".into(),
            from: SmsSender::Number(Msisdn::parse(&number, Mode::Sandbox)?),
            to: created.instructions.receiver,
            text: created.instructions.sms_body,
            received_at: SystemClock.now(),
        };
        let disposition = self.engine.checks.receive(sms).await?;
        ensure!(disposition == SmsOutcome::Concluded, "check was not concluded: {disposition:?}");
        Ok(())
    }
}

pub async fn start_engine(store: &Arc<dyn Store>, courier: courier::CourierLimits) -> anyhow::Result<Engine> {
    let addresses = AddressPolicy { allowed_addresses: vec!["127.0.0.0/8".parse()?], ..AddressPolicy::default() };
    let transport = Outbound::new(OutboundSettings { addresses: addresses.clone(), ..OutboundSettings::default() })?;
    let parts = EngineDependencies {
        store: Arc::clone(store),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::default()),
        transport: Arc::new(transport),
        master_key: MasterKey::from_base64(MASTER_KEY)?,
        sandbox: Arc::new(SandboxAccess::default()),
    };
    let settings = EngineSettings {
        region: Region::Eu,
        base_url: "http://bench.invalid".to_owned(),
        rate_limits: rate_limits::DefaultRateLimits::default(),
        url_policy: UrlPolicy { allow_http: true, addresses },
        tenant_limits: TenantLimits::default(),
        number_limit: NumberLimit { max_checks: 5, window_seconds: 600 },
        courier,
        retention: RetentionSettings {
            checks: None,
            numbers: SignedDuration::from_hours(24 * 30),
            discovered_numbers: SignedDuration::from_hours(24),
            audit_events: SignedDuration::from_hours(24 * 365),
            request_log: None,
        },
        number_lookup_cache_capacity: 1_000,
        max_members: 500,
        require_second_factor: false,
        password_costs: PasswordCosts::default(),
        camara_enabled: false,
    };
    Ok(Engine::start(parts, settings).await?)
}

async fn conclude_checks(fixture: &Arc<Fixture>, receivers: &[CallbackReceiver]) -> anyhow::Result<()> {
    let urls: Arc<[String]> =
        receivers.iter().map(|receiver| format!("http://{}/callback", receiver.address)).collect();
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (fixture, urls, next) = (Arc::clone(fixture), Arc::clone(&urls), Arc::clone(&next));
        clients.spawn(async move {
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= CALLBACKS {
                    return anyhow::Ok(());
                }
                let url = usize::try_from(turn)? % urls.len();
                fixture.conclude_check(urls[url].clone()).await?;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// Measures from the start of a courier until the last result is stored.
async fn deliver(store: &Arc<dyn Store>, receivers: &[CallbackReceiver]) -> anyhow::Result<f64> {
    let expected: Vec<u64> = receivers.iter().map(|receiver| receiver.received() + CALLBACKS_PER_RECEIVER).collect();
    let engine = start_engine(store, courier::CourierLimits::default()).await?;
    let stop = CancellationToken::new();
    let (courier, stopped) = (engine.courier().clone(), stop.clone());
    let mut tasks = JoinSet::new();
    let started = Instant::now();
    tasks.spawn(async move { courier.run(stopped).await });
    for (receiver, expected) in receivers.iter().zip(expected) {
        receiver.wait_for(expected, DELIVERY_TIMEOUT).await?;
    }
    engine.courier().wait_until_idle().await;
    let rate = per_second(CALLBACKS, started.elapsed());
    stop.cancel();
    tasks.join_next().await.context("the courier has stopped")??;
    engine.node.deregister_node().await;
    Ok(rate)
}

/// Measures the signing rate of all cores in CPU time, so that other load on the machine does not lower the baseline.
fn measure_signing() -> anyhow::Result<f64> {
    let signer =
        CallbackSigner::from_pkcs8(Mode::Live, &CallbackSigner::generate_pkcs8()).context("generating a key")?;
    let stop = AtomicBool::new(false);
    let sign = || {
        // About the length of a callback's signing string.
        let message = [b'x'; 200];
        let (before, mut count) = (thread_cpu_time()?, 0);
        while !stop.load(Ordering::Relaxed) {
            std::hint::black_box(signer.sign(&message));
            count += 1;
        }
        anyhow::Ok(per_second(count, thread_cpu_time()?.saturating_sub(before)))
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(sign)).collect();
        std::thread::sleep(SIGNING_DURATION);
        stop.store(true, Ordering::Relaxed);
        let rates = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("signing thread panicked"))?);
        rates.sum()
    })
}

/// CPU time of this thread, from Linux.
fn thread_cpu_time() -> anyhow::Result<Duration> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = schedstat.split(' ').next().context("unexpected format of schedstat")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}
