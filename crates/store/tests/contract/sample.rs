//! Sample data.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor, AuditEvent},
    callback::RetryFor,
    camara::CamaraSettings,
    id::uuid_v7,
    key_schedule::KeySchedule,
    network::AllowedNetwork,
    page::PageRequest,
    product::{Product, Scope},
    region::Region,
    sign_in::{ClientAuthentication, IdTokenAlgorithm, RedirectUri, SessionLifetime, SignInSettings},
    silent::AppOrigin,
    sim_swap::SimSwapPeriod,
    tenancy::{
        CallbackSettings, ClientId, Configuration, Credential, CredentialOwner, Mode, Project, ProjectId, RateLimits,
        ReverseSmsSettings, ReverseSmsTtl, Revision, SecretDigest, SilentSettings, Workspace, WorkspaceId,
    },
    verification::{Brand, LogoImage, Method, VerificationSettings, VerificationTtl},
    web_url::{CallbackUrl, RedirectUrl, WebOrigin},
};
use ringtrue_engine::ports::{
    audit::AuditFilter,
    combined::Store,
    entropy::{Entropy, SystemEntropy},
    idempotency::IdempotencyClaim,
    keys::{KeyId, KeyPurpose, SealedKey},
    tenants::CredentialLimits,
    tokens::{Revocation, TokenId},
};
use uuid::Uuid;

/// Returns the fixed time that tests use as the current time.
pub fn now() -> Timestamp {
    "2026-11-15T02:30:00.123Z".parse().unwrap()
}

pub fn later(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

pub fn random<const N: usize>() -> [u8; N] {
    (&SystemEntropy::default() as &dyn Entropy).bytes()
}

/// Returns a unique UUID that sorts after all earlier ones of this process.
pub fn uuid() -> Uuid {
    static COUNT: AtomicI64 = AtomicI64::new(0);
    let at = now() + SignedDuration::from_millis(COUNT.fetch_add(1, Ordering::SeqCst));
    uuid_v7(at, random())
}

pub const ANY: &AuditFilter = &AuditFilter::ANY;

pub fn page(size: u32, number: u32) -> PageRequest {
    PageRequest::new(size, number).unwrap()
}

pub fn first_100() -> PageRequest {
    page(100, 1)
}

pub fn workspace() -> Workspace {
    Workspace {
        id: WorkspaceId(uuid()),
        name: "Acme".parse().unwrap(),
        data_residency: Region::Eu,
        rate_limits: RateLimits { create: Some(7), ..RateLimits::default() },
        created_at: now(),
        updated_at: now(),
    }
}

pub fn project(workspace: WorkspaceId, name: &str) -> Project {
    Project {
        id: ProjectId(uuid()),
        workspace,
        name: name.parse().unwrap(),
        mode: Mode::Sandbox,
        disabled: false,
        configuration: Configuration {
            reverse_sms: ReverseSmsSettings {
                callback_url: Some(CallbackUrl::from_stored("https://acme.example/done?a=%20b").unwrap()),
                ttl: Some(ReverseSmsTtl::try_from(120).unwrap()),
                prefix: Some("ACME".parse().unwrap()),
                auto_reply: true,
            },
            secure_sna: SilentSettings {
                callback_url: None,
                redirect_url: Some(RedirectUrl::from_stored("http://127.0.0.1:9/end").unwrap()),
                app_origins: vec![
                    AppOrigin::from_stored("https://app.example").unwrap(),
                    AppOrigin::from_stored("android:apk-key-hash:t0uHBVLpzRPqDJqYFSZ6IYxOPzWvPrsOKYO0hvFT_wk").unwrap(),
                ],
            },
            discovery: SilentSettings::default(),
            verification: VerificationSettings {
                methods: Some(vec![Method::ReverseSms, Method::SecureSna]),
                fall_back_on_mismatch: true,
                callback_url: Some(CallbackUrl::from_stored("https://acme.example/verified").unwrap()),
                redirect_url: Some(RedirectUrl::from_stored("https://acme.example/back").unwrap()),
                redirect_origins: vec![WebOrigin::from_stored("https://acme.example").unwrap()],
                frame_origins: vec![WebOrigin::from_stored("https://embed.acme.example").unwrap()],
                ttl: Some(VerificationTtl::try_from(900).unwrap()),
                brand: Brand {
                    name: Some("Acme Shop".parse().unwrap()),
                    logo_url: Some("https://acme.example/logo.svg".parse().unwrap()),
                    support_url: Some("https://acme.example/help".parse().unwrap()),
                    colour: Some("#1a73e8".parse().unwrap()),
                },
            },
            sign_in: SignInSettings {
                redirect_uris: vec![RedirectUri::from_stored("https://id.acme.example/callback?a=b").unwrap()],
                sim_swap_period: SimSwapPeriod::try_from(1_440).ok(),
                session: SessionLifetime::try_from(600).ok(),
                token_endpoint_auth_method: Some(ClientAuthentication::PrivateKeyJwt),
                jwks: Some(r#"{"keys":[]}"#.parse().unwrap()),
                jwks_uri: CallbackUrl::from_stored("https://id.acme.example/jwks").ok(),
                id_token_signed_response_alg: Some(IdTokenAlgorithm::Es256),
            },
            camara: CamaraSettings { purposes: vec!["dpv:FraudPreventionAndDetection".parse().unwrap()] },
            callbacks: CallbackSettings {
                url: CallbackUrl::from_stored("https://acme.example/callbacks").ok(),
                retry_for: Some(RetryFor::try_from(86_400).unwrap()),
            },
        },
        products: vec![Product::SimSwap, Product::ReverseSms],
        allowed_networks: vec![
            AllowedNetwork { network: "23410".parse().unwrap(), products: vec![Product::ReverseSms] },
            AllowedNetwork { network: "310004".parse().unwrap(), products: vec![] },
        ],
        created_at: now(),
        updated_at: now(),
        live_since: None,
        revision: Revision::FIRST,
    }
}

/// A PNG image of one pixel.
pub fn logo_image() -> LogoImage {
    let chunks: [(&[u8; 4], &[u8]); 2] = [(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0]), (b"IEND", &[])];
    let mut content = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in chunks {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        content.extend([&length[..], kind, data, &[0; 4]].concat());
    }
    LogoImage::parse(content).unwrap()
}

pub fn credential(owner: CredentialOwner) -> Credential {
    Credential {
        client_id: client_id(),
        owner,
        secret_digest: SecretDigest(random()),
        scopes: match owner {
            CredentialOwner::Workspace(_) => vec![Scope::Management],
            CredentialOwner::Project(..) => vec![Scope::Product(Product::ReverseSms), Scope::Product(Product::SimSwap)],
        },
        label: Some("Web shop".parse().unwrap()),
        created_at: now(),
        created_by: Actor::Account(AccountId(uuid())),
        expires_at: Some(later(3600)),
        retires_at: None,
        deleted_at: None,
        last_used_at: None,
    }
}

/// Limits that are higher than tests need.
pub const LIMITS: CredentialLimits = CredentialLimits { max_live: 100, max_dead: 100 };

pub fn client_id() -> ClientId {
    format!("cl_{}", uuid().simple()).parse().unwrap()
}

pub fn event(workspace: impl Into<Option<WorkspaceId>>, action: Action) -> AuditEvent {
    AuditEvent {
        id: uuid(),
        workspace: workspace.into(),
        at: now(),
        actor: Actor::Credential(client_id()),
        action,
        target: "target".to_owned(),
        changes: vec!["name".to_owned(), "configuration.reverse_sms.ttl".to_owned()],
        request_id: Some("req-1".to_owned()),
    }
}

pub fn key(purpose: KeyPurpose) -> SealedKey {
    SealedKey {
        id: KeyId(uuid()),
        purpose,
        schedule: KeySchedule::new_unannounced(now()),
        sealed: random::<48>().to_vec(),
    }
}

pub fn revocation() -> Revocation {
    Revocation { token: TokenId(uuid()), expires_at: later(3600) }
}

pub fn claim(tenant: Uuid, key: u8, fingerprint: u8) -> IdempotencyClaim {
    IdempotencyClaim {
        tenant,
        key_digest: [key; 32],
        fingerprint: [fingerprint; 32],
        claim_id: uuid(),
        now: now(),
        lease_until: later(30),
        expires_at: later(86_400),
    }
}

/// Stores a workspace with a credential.
pub async fn stored_workspace(store: &dyn Store) -> Workspace {
    let workspace = workspace();
    let owner = CredentialOwner::Workspace(workspace.id);
    let events = [event(workspace.id, Action::WorkspaceCreated)];
    store.create_workspace(&workspace, Some(&credential(owner)), &events).await.unwrap();
    workspace
}

/// Stores a project with a credential.
pub async fn stored_project(store: &dyn Store, workspace: WorkspaceId, name: &str) -> (Project, Credential) {
    let project = project(workspace, name);
    let credential = credential(CredentialOwner::Project(workspace, project.id));
    let events = [event(workspace, Action::ProjectCreated)];
    let written = store.create_project(&project, &credential, &events, None, 1_000).await.unwrap();
    assert_eq!(written, ringtrue_engine::ports::tenants::CreateProjectOutcome::Created);
    (project, credential)
}
