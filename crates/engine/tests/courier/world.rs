use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    id::time_ordered,
    lifecycle::CheckId,
    product::Product,
    tenancy::{Mode, ProjectId, WorkspaceId},
    web_url::CallbackUrl,
};
use ringtrue_engine::{
    callback::{
        Courier, CourierParts, KeySource, Limits, WorkspaceLookup,
        sealing::{seal_body, seal_url},
        signature::{Request, Verified, verify},
    },
    keys::{KeyRing, MasterKey, PublicKey, ensure_keys},
    ports::{
        Answer, Clock, Entropy, KeyStore, LeasedCallback, ManualClock, Outgoing, SystemEntropy, Transport, Undelivered,
    },
};
use ringtrue_store::{StoreOptions, StoreUrl};
use tokio::sync::{Notify, Semaphore};
use uuid::Uuid;

use crate::shelf::Shelf;

pub const BODY: &[u8] = br#"{"status":"COMPLETED","match":true}"#;

/// Receivers, played by the host in their URL: `200.example` answers 200, `hangs.example` waits to be let go,
/// `down.example` cannot be reached, `slow.example` takes seven seconds of the manual clock.
pub struct Receivers {
    clock: Arc<ManualClock>,
    pub received: Mutex<Vec<(Timestamp, Outgoing)>>,
    /// A permit for each request to `hangs.example` that may end.
    pub let_go: Semaphore,
    pub arrival: Notify,
}

#[async_trait]
impl Transport for Receivers {
    async fn post(&self, request: Outgoing) -> Result<Answer, Undelivered> {
        let host = request.url.authority().to_owned();
        self.received.lock().unwrap().push((self.clock.now(), request));
        self.arrival.notify_one();
        let status = match host.as_str() {
            "hangs.example" => {
                self.let_go.acquire().await.unwrap().forget();
                200
            }
            "down.example" => return Err(Undelivered::Connection),
            "slow.example" => {
                self.clock.advance(SignedDuration::from_secs(7));
                500
            }
            name => name.split('.').next().unwrap().parse().unwrap(),
        };
        Ok(Answer { status, headers: vec![("server".to_owned(), "them".to_owned())], body: vec![b'x'; 9_000] })
    }
}

pub struct World {
    pub clock: Arc<ManualClock>,
    pub shelf: Arc<Shelf>,
    pub receivers: Arc<Receivers>,
    pub keys: Arc<KeyRing>,
    pub courier: Courier,
    entropy: Arc<SystemEntropy>,
}

impl World {
    pub async fn new() -> World {
        World::with_limits(Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> World {
        let clock = Arc::new(ManualClock::at("2026-11-14T09:30:00Z".parse().unwrap()));
        let entropy = Arc::new(SystemEntropy::default());
        let keys = Arc::new(key_ring(&clock, &entropy).await);
        let shelf = Arc::new(Shelf::default());
        let receivers = Arc::new(Receivers {
            clock: Arc::clone(&clock),
            received: Mutex::default(),
            let_go: Semaphore::new(0),
            arrival: Notify::new(),
        });
        let source: Arc<dyn KeySource> = Arc::new(Arc::clone(&keys));
        let courier = Courier::new(CourierParts {
            store: Arc::clone(&shelf) as _,
            transport: Arc::clone(&receivers) as _,
            keys: source,
            workspaces: Arc::new(OneEach),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::clone(&entropy) as _,
            activity: Arc::default(),
            limits,
        });
        World { clock, shelf, receivers, keys, courier, entropy }
    }

    /// A callback to this host, sealed as the engine would seal it.
    pub fn callback(&self, host: &str) -> LeasedCallback {
        let entropy: &dyn Entropy = &*self.entropy;
        let now = self.clock.now();
        let check = CheckId(time_ordered(now, entropy.bytes()));
        let url = CallbackUrl::from_stored(&format!("https://{host}/hook?token=secret")).unwrap();
        LeasedCallback {
            check,
            project: ProjectId(Uuid::from_u128(1)),
            product: Product::ReverseSms,
            mode: Mode::Live,
            url: seal_url(&self.keys, entropy, now, check, &url).unwrap(),
            body: seal_body(&self.keys, entropy, now, check, BODY).unwrap(),
            failed_attempts: 0,
            earlier_attempts: 0,
        }
    }

    /// A check has ended: its row is written, and handed to the courier.
    pub fn conclude(&self, host: &str) -> CheckId {
        let callback = self.callback(host);
        let due_at = self.courier.first_due(callback.project, self.clock.now());
        self.shelf.put(callback.clone(), due_at);
        let check = callback.check;
        self.courier.deliver(callback, due_at);
        check
    }

    /// Sends what is due and waits for its end.
    pub async fn tick(&self) -> Option<Timestamp> {
        let due = self.courier.tick().await.unwrap();
        self.courier.idle().await;
        due.and(self.shelf.contents().waiting.values().map(|(_, due_at)| *due_at).min())
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn received(&self) -> Vec<(Timestamp, Outgoing)> {
        self.receivers.received.lock().unwrap().clone()
    }

    /// Waits until so many requests have arrived.
    pub async fn arrivals(&self, count: usize) {
        while self.received().len() < count {
            self.receivers.arrival.notified().await;
        }
    }

    pub fn jwks(&self) -> Vec<PublicKey> {
        self.keys.published(self.clock.now()).into_iter().cloned().collect()
    }

    pub fn verified(&self, request: &Outgoing) -> Verified {
        let mut headers: Vec<_> =
            request.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        headers.push(("host".to_owned(), request.url.authority().to_owned()));
        let target = request.url.target();
        verify(&Request { method: "POST", target, headers: &headers, body: &request.body }, &self.jwks()).unwrap()
    }
}

/// Every project is alone in its workspace.
struct OneEach;

impl WorkspaceLookup for OneEach {
    fn workspace_of(&self, project: ProjectId) -> Option<WorkspaceId> {
        Some(WorkspaceId(project.0))
    }
}

async fn key_ring(clock: &ManualClock, entropy: &SystemEntropy) -> KeyRing {
    let folder = tempfile::tempdir().unwrap();
    let url: StoreUrl = format!("sqlite:{}", folder.path().join("keys.db").display()).parse().unwrap();
    ringtrue_store::migrate(&url, Timestamp::UNIX_EPOCH).await.unwrap();
    let store = ringtrue_store::open(&url, &StoreOptions::default()).await.unwrap();
    let master = MasterKey::from_base64(&MasterKey::generate(entropy)).unwrap();
    ensure_keys(&*store, &master, clock, entropy).await.unwrap();
    KeyRing::open(&KeyStore::all_keys(&*store).await.unwrap(), &master, &KeyRing::default()).unwrap()
}
