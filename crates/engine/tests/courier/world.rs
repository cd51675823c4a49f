use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use ringtrue_callback_signature::{CallbackPublicKey, CallbackRequest, VerifiedSignature, verify};
use ringtrue_domain::{
    callback::RetryFor,
    id::uuid_v7,
    lifecycle::CheckId,
    product::Product,
    tenancy::{Mode, ProjectId, WorkspaceId},
    web_url::CallbackUrl,
};
use ringtrue_engine::{
    courier::{
        Courier, CourierDependencies, CourierLimits, KeySource, ProjectLookup,
        sealing::{seal_body, seal_url},
    },
    keys::{KeyRing, MasterKey, create_missing_keys},
    ports::{
        callbacks::LeasedCallback,
        clock::{Clock, ManualClock},
        entropy::{Entropy, SystemEntropy},
        keys::KeyStore,
        transport::{OutboundRequest, OutboundResponse, Transport, TransportError},
    },
    signing_pool::SigningPool,
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::callback_store::FakeCallbackStore;

pub const BODY: &[u8] = br#"{"status":"COMPLETED","match":true}"#;

/// Simulated callback receivers. The host decides the behaviour: `200.example` responds with 200, `hangs.example` waits
/// for a permit, `down.example` is unreachable, and `slow.example` takes seven seconds of the manual clock.
pub struct Receivers {
    clock: Arc<ManualClock>,
    pub received: Mutex<Vec<(Timestamp, OutboundRequest)>>,
    /// Each permit lets one request to `hangs.example` complete.
    pub hang_permits: Semaphore,
    pub request_received: Notify,
}

#[async_trait]
impl Transport for Receivers {
    async fn get(&self, _: &CallbackUrl) -> Result<OutboundResponse, TransportError> {
        Err(TransportError::Connection)
    }

    async fn post(&self, request: OutboundRequest) -> Result<OutboundResponse, TransportError> {
        let host = request.url.authority().to_owned();
        self.received.lock().push((self.clock.now(), request));
        self.request_received.notify_one();
        let status = match host.as_str() {
            "hangs.example" => {
                self.hang_permits.acquire().await.unwrap().forget();
                200
            }
            "down.example" => return Err(TransportError::Connection),
            "slow.example" => {
                self.clock.advance(SignedDuration::from_secs(7));
                500
            }
            name => name.split('.').next().unwrap().parse().unwrap(),
        };
        Ok(OutboundResponse {
            status,
            headers: vec![("server".to_owned(), "them".to_owned())],
            body: vec![b'x'; 9_000],
        })
    }
}

pub struct World {
    pub clock: Arc<ManualClock>,
    pub store: Arc<FakeCallbackStore>,
    pub receivers: Arc<Receivers>,
    pub keys: Arc<KeyRing>,
    pub courier: Courier,
    entropy: Arc<SystemEntropy>,
}

impl World {
    pub async fn new() -> World {
        World::with_limits(CourierLimits::default()).await
    }

    pub async fn with_limits(limits: CourierLimits) -> World {
        World::build(limits, RetryFor::default()).await
    }

    /// Creates a world whose project retries callbacks for this many seconds, longer than the regular schedule does.
    pub async fn retrying_for(seconds: i64) -> World {
        World::build(CourierLimits::default(), RetryFor::try_from(seconds).unwrap()).await
    }

    async fn build(limits: CourierLimits, retry_for: RetryFor) -> World {
        let clock = Arc::new(ManualClock::at("2026-11-14T09:30:00Z".parse().unwrap()));
        let entropy = Arc::new(SystemEntropy::default());
        let keys = Arc::new(key_ring(&clock, &entropy).await);
        let store = Arc::new(FakeCallbackStore::default());
        let receivers = Arc::new(Receivers {
            clock: Arc::clone(&clock),
            received: Mutex::default(),
            hang_permits: Semaphore::new(0),
            request_received: Notify::new(),
        });
        let source: Arc<dyn KeySource> = Arc::new(Arc::clone(&keys));
        let courier = Courier::new(CourierDependencies {
            signing_pool: SigningPool::default(),
            store: Arc::clone(&store) as _,
            transport: Arc::clone(&receivers) as _,
            keys: source,
            projects: Arc::new(OneWorkspacePerProject { retry_for }),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::clone(&entropy) as _,
            activity: Arc::default(),
            limits,
        });
        World { clock, store, receivers, keys, courier, entropy }
    }

    /// Creates a callback to this host, with encrypted URL and body.
    pub fn callback(&self, host: &str) -> LeasedCallback {
        let entropy: &dyn Entropy = &*self.entropy;
        let now = self.clock.now();
        let check = CheckId(uuid_v7(now, entropy.bytes()));
        let url = CallbackUrl::from_stored(&format!("https://{host}/hook?token=secret")).unwrap();
        LeasedCallback {
            check,
            project: ProjectId(Uuid::from_u128(1)),
            product: Product::ReverseSms,
            mode: Mode::Live,
            created_at: now,
            url: seal_url(&self.keys, entropy, now, check, &url).unwrap(),
            body: seal_body(&self.keys, entropy, now, check, BODY).unwrap(),
            failed_attempts: 0,
            earlier_attempts: 0,
        }
    }

    /// Stores a callback and passes it to the courier, as the conclusion of a check does.
    pub fn conclude(&self, host: &str) -> CheckId {
        let callback = self.callback(host);
        let due_at = self.courier.initial_due_at(callback.project, self.clock.now());
        self.store.put(callback.clone(), due_at);
        let check = callback.check;
        self.courier.enqueue_committed(callback, due_at);
        check
    }

    /// Sends due callbacks and waits until the attempts end. Returns the next due time.
    pub async fn send_due(&self) -> Option<Timestamp> {
        let due = self.courier.send_due().await.unwrap();
        self.courier.wait_until_idle().await;
        due.and(self.store.state().waiting.values().map(|(_, due_at)| *due_at).min())
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn received(&self) -> Vec<(Timestamp, OutboundRequest)> {
        self.receivers.received.lock().clone()
    }

    pub async fn wait_for_requests(&self, count: usize) {
        while self.received().len() < count {
            self.receivers.request_received.notified().await;
        }
    }

    pub fn jwks(&self) -> Vec<CallbackPublicKey> {
        self.keys.published_callback_keys(self.clock.now()).into_iter().cloned().collect()
    }

    pub fn verified(&self, request: &OutboundRequest) -> VerifiedSignature {
        let mut headers: Vec<_> =
            request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        headers.push(("host".to_owned(), request.url.authority().to_owned()));
        let target = request.url.target();
        verify(&CallbackRequest { method: "POST", target, headers: &headers, body: &request.body }, &self.jwks())
            .unwrap()
    }
}

struct OneWorkspacePerProject {
    retry_for: RetryFor,
}

impl ProjectLookup for OneWorkspacePerProject {
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId> {
        Some(WorkspaceId(project.0))
    }

    fn retry_for(&self, _: ProjectId) -> RetryFor {
        self.retry_for
    }
}

async fn key_ring(clock: &ManualClock, entropy: &SystemEntropy) -> KeyRing {
    let folder = tempfile::tempdir().unwrap();
    let url: StoreUrl = format!("sqlite:{}", folder.path().join("keys.db").display()).parse().unwrap();
    ringtrue_store::migrate(&url, Timestamp::UNIX_EPOCH).await.unwrap();
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap();
    let master = MasterKey::from_base64(&MasterKey::generate(entropy)).unwrap();
    create_missing_keys(&*store, &master, clock, entropy).await.unwrap();
    KeyRing::from_sealed(&KeyStore::list_keys(&*store).await.unwrap(), &master, &KeyRing::default()).unwrap()
}
