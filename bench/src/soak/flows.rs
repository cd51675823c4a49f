//! The mixed load: flows of all products, reads, lists and tokens.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    balancer::{Balancer, Request, Response},
    ledger::{Check, Conclusion, Ledger},
    random_share,
    receivers::Receivers,
};
use crate::{
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{ProjectCredentials, get_request, json_request, token_request},
    silent::{device_request, string_property},
};

pub const REVERSE_SMS_TTL: Duration = Duration::from_mins(1);
const SILENT_TTL: Duration = Duration::from_mins(2);
const SIM_SWAP_PATH: &str = "/v1/sim-swap-checks";
const VERIFICATIONS_PATH: &str = "/v1/verifications";
pub const VERIFICATION_TTL: Duration = Duration::from_mins(1);
/// Ids kept for reads.
const MAX_RECENT_CHECKS: usize = 10_000;
/// Percentage of Reverse SMS checks and verifications whose user never sends the SMS.
const UNSENT_SMS_PERCENT: u32 = 20;

/// Flows with their shares of a hundred.
const SHARES: [(Flow, usize); 10] = [
    (Flow::ReverseSms, 22),
    (Flow::Verification, 8),
    (Flow::Silent(&SilentProduct::SECURE_SNA), 8),
    (Flow::Silent(&SilentProduct::DISCOVERY), 8),
    (Flow::SimSwap, 10),
    (Flow::EligibilityByNumber, 10),
    (Flow::EligibilityByAddress, 6),
    (Flow::Read, 18),
    (Flow::List, 5),
    (Flow::Token, 5),
];

#[derive(Clone, Copy)]
pub enum Flow {
    /// Create a check and send its SMS.
    ReverseSms,
    /// Create a verification by Reverse SMS and send the SMS of its step.
    Verification,
    /// Create a check, walk the device through its redirects, redeem the code.
    Silent(&'static SilentProduct),
    SimSwap,
    EligibilityByNumber,
    EligibilityByAddress,
    Read,
    List,
    Token,
}

impl Flow {
    /// A flow by the shares.
    pub fn random() -> Self {
        SHARES[random_share(SHARES.map(|(_, share)| share))].0
    }
}

#[derive(Clone, Copy)]
enum Scope {
    ReverseSms,
    SecureSna,
    Discovery,
    SimSwap,
    Eligibility,
    Verification,
}

impl Scope {
    const ALL: [Scope; 6] = [
        Scope::ReverseSms,
        Scope::SecureSna,
        Scope::Discovery,
        Scope::SimSwap,
        Scope::Eligibility,
        Scope::Verification,
    ];

    fn name(self) -> &'static str {
        match self {
            Scope::ReverseSms => "reverse_sms",
            Scope::SecureSna => "secure_sna",
            Scope::Discovery => "discovery",
            Scope::SimSwap => "sim_swap",
            Scope::Eligibility => "eligibility",
            Scope::Verification => "verification",
        }
    }

    fn of_path(path: &str) -> Self {
        match path {
            SIM_SWAP_PATH => Scope::SimSwap,
            CHECKS_PATH => Scope::ReverseSms,
            VERIFICATIONS_PATH => Scope::Verification,
            _ if path == SilentProduct::DISCOVERY.path => Scope::Discovery,
            _ => Scope::SecureSna,
        }
    }
}

/// A product with a device flow.
pub struct SilentProduct {
    scope: Scope,
    path: &'static str,
    has_number: bool,
    create_route: &'static str,
    redirect_route: &'static str,
    redeem_route: &'static str,
}

impl SilentProduct {
    const SECURE_SNA: Self = SilentProduct {
        scope: Scope::SecureSna,
        path: "/v1/number-verification/secure-sna-checks",
        has_number: true,
        create_route: "POST secure-sna-checks",
        redirect_route: "GET secure-sna-checks/{id}/redirect",
        redeem_route: "POST secure-sna-checks/{id}",
    };
    const DISCOVERY: Self = SilentProduct {
        scope: Scope::Discovery,
        path: "/v1/number-verification/discovery-checks",
        has_number: false,
        create_route: "POST discovery-checks",
        redirect_route: "GET discovery-checks/{id}/redirect",
        redeem_route: "POST discovery-checks/{id}",
    };
}

#[derive(Debug, PartialEq, Eq)]
enum TokenRenewal {
    Renewed,
    /// No node responded; the earlier token stays in use.
    Unacknowledged,
}

/// A backend with its end-users. One for all flows.
pub struct Backend {
    pub balancer: Arc<Balancer>,
    pub ledger: Arc<Ledger>,
    receivers: Receivers,
    project: ProjectCredentials,
    numbers: NumberSequence,
    /// In the order of [`Scope::ALL`].
    tokens: Mutex<[String; 6]>,
    recent: Mutex<Vec<(String, &'static str)>>,
}

impl Backend {
    pub async fn start(
        balancer: Arc<Balancer>,
        ledger: Arc<Ledger>,
        receivers: Receivers,
        project: ProjectCredentials,
    ) -> anyhow::Result<Self> {
        let numbers = NumberSequence::default();
        let (tokens, recent) = (Mutex::default(), Mutex::default());
        let backend = Backend { balancer, ledger, receivers, project, numbers, tokens, recent };
        for scope in Scope::ALL {
            let renewal = backend.renew_token(Instant::now(), scope).await?;
            ensure!(renewal == TokenRenewal::Renewed, "no token");
        }
        Ok(backend)
    }

    /// Runs a flow that was scheduled for the given time. A request that is not acknowledged ends it. Without `has_faults`,
    /// callbacks go to the receiver that answers.
    pub async fn run(&self, scheduled: Instant, flow: Flow, has_faults: bool) -> anyhow::Result<()> {
        let receiver = if has_faults { self.receivers.random_url() } else { self.receivers.answering_url() };
        match flow {
            Flow::ReverseSms => self.reverse_sms(scheduled, receiver).await,
            Flow::Verification => self.verification(scheduled, receiver).await,
            Flow::Silent(product) => Box::pin(self.silent(scheduled, product, receiver)).await,
            Flow::SimSwap => self.sim_swap(scheduled).await,
            Flow::EligibilityByNumber => {
                let path = format!("/v1/eligibility/phone-numbers/{}", self.numbers.next());
                self.get(scheduled, "GET eligibility/phone-numbers/{number}", Scope::Eligibility, &path).await.map(drop)
            }
            Flow::EligibilityByAddress => {
                let path = format!("/v1/eligibility/device-ips/203.0.113.{}", fastrand::u8(1..127));
                self.get(scheduled, "GET eligibility/device-ips/{ip}", Scope::Eligibility, &path).await.map(drop)
            }
            Flow::Read => self.read_recent(scheduled).await,
            Flow::List => {
                let path = format!("{CHECKS_PATH}?size=20&page={}", fastrand::u32(1..=3));
                self.get(scheduled, "GET reverse-sms-checks", Scope::ReverseSms, &path).await.map(drop)
            }
            Flow::Token => {
                let scope = Scope::ALL[fastrand::usize(..Scope::ALL.len())];
                self.renew_token(scheduled, scope).await.map(drop)
            }
        }
    }

    /// Reads a check. `None`: no node responded.
    pub async fn read(&self, scheduled: Instant, id: &str, path: &'static str) -> anyhow::Result<Option<String>> {
        let response = self.get(scheduled, "GET checks/{id}", Scope::of_path(path), &format!("{path}/{id}")).await?;
        Ok(response.map(|response| response.body))
    }

    async fn reverse_sms(&self, scheduled: Instant, receiver: &str) -> anyhow::Result<()> {
        let number = self.numbers.next();
        let body = format!(r#"{{"phone_number":"{number}","callback_url":"{receiver}"}}"#);
        let created = Instant::now();
        let response =
            self.post(scheduled, "POST reverse-sms-checks", 201, Scope::ReverseSms, CHECKS_PATH, &body).await?;
        let Some(response) = response else { return Ok(()) };
        let id = string_property(&response.body, "check_id")?;
        self.acknowledge(id, Check::new(CHECKS_PATH, created, REVERSE_SMS_TTL));
        self.send_sms(id, &number, &response.body).await
    }

    async fn verification(&self, scheduled: Instant, receiver: &str) -> anyhow::Result<()> {
        // After an SMS from another number, the verification would wait for a further SMS.
        let number = self.numbers.next_matching();
        let body = format!(r#"{{"phone_number":"{number}","methods":["reverse_sms"],"callback_url":"{receiver}"}}"#);
        let created = Instant::now();
        let response =
            self.post(scheduled, "POST verifications", 201, Scope::Verification, VERIFICATIONS_PATH, &body).await?;
        let Some(response) = response else { return Ok(()) };
        let id = string_property(&response.body, "verification_id")?;
        self.acknowledge(id, Check::new(VERIFICATIONS_PATH, created, VERIFICATION_TTL));
        self.send_sms(id, &number, &response.body).await
    }

    /// Sends the SMS that a check or a verification expects, unless its end-user sends none.
    async fn send_sms(&self, id: &str, number: &str, created: &str) -> anyhow::Result<()> {
        if fastrand::u32(..100) < UNSENT_SMS_PERCENT {
            return Ok(());
        }
        let receiver_number = string_property(created, "receiver_phone_number")?;
        let sms_body = string_property(created, "expected_sms_body")?;
        let sms = format!(r#"{{"from":"{number}","to":"{receiver_number}","body":"{sms_body}"}}"#);
        let sent = Instant::now();
        self.ledger.update(id, |check| check.concluding = Some(sent));
        let path = "/v1/sandbox/inbound-sms";
        let accepted = self.post(sent, "POST sandbox/inbound-sms", 202, Scope::ReverseSms, path, &sms).await?;
        if let Some(accepted) = accepted {
            self.ledger.update(id, |check| check.sms_accepted = Some((accepted.node, Instant::now())));
        }
        Ok(())
    }

    async fn silent(&self, scheduled: Instant, product: &SilentProduct, receiver: &str) -> anyhow::Result<()> {
        let body = if product.has_number {
            format!(r#"{{"phone_number":"{}","callback_url":"{receiver}"}}"#, self.numbers.next())
        } else {
            format!(r#"{{"callback_url":"{receiver}"}}"#)
        };
        let (created, scope) = (Instant::now(), product.scope);
        let response = self.post(scheduled, product.create_route, 201, scope, product.path, &body).await?;
        let Some(response) = response else { return Ok(()) };
        let id = string_property(&response.body, "check_id")?;
        self.acknowledge(id, Check::new(product.path, created, SILENT_TTL));

        let device_url = string_property(&response.body, "url")?;
        let Some(operator_url) = self.open(product.redirect_route, device_url).await? else { return Ok(()) };
        let Some(callback_url) = self.open("GET sandbox/operator/authorize", &operator_url).await? else {
            return Ok(());
        };
        let request = Request {
            route: "GET southbound/camara/{connector}/callback",
            bytes: device_request(&callback_url)?,
            expected_status: 200,
            is_repeatable: false,
        };
        let Some(device_response) = self.balancer.send(Instant::now(), &request).await? else { return Ok(()) };

        let path = format!("{}/{id}", product.path);
        let body = format!(r#"{{"code":"{}"}}"#, string_property(&device_response.body, "code")?);
        let sent = Instant::now();
        self.ledger.update(id, |check| check.concluding = Some(sent));
        let redeemed = self.post(sent, product.redeem_route, 200, scope, &path, &body).await?;
        let Some(redeemed) = redeemed else { return Ok(()) };
        self.acknowledge_conclusion(id, &redeemed.body)
    }

    async fn sim_swap(&self, scheduled: Instant) -> anyhow::Result<()> {
        let body = format!(r#"{{"phone_number":"{}"}}"#, self.numbers.next());
        let created = Instant::now();
        let response = self.post(scheduled, "POST sim-swap-checks", 201, Scope::SimSwap, SIM_SWAP_PATH, &body).await?;
        let Some(response) = response else { return Ok(()) };
        let id = string_property(&response.body, "check_id")?;
        let check = Check { has_callback: false, ..Check::new(SIM_SWAP_PATH, created, Duration::ZERO) };
        self.acknowledge(id, check);
        self.acknowledge_conclusion(id, &response.body)
    }

    async fn read_recent(&self, scheduled: Instant) -> anyhow::Result<()> {
        let choice = {
            let recent = self.recent.lock();
            fastrand::choice(recent.iter()).cloned()
        };
        let Some((id, path)) = choice else { return Ok(()) };
        let read = self.read(scheduled, &id, path).await?;
        let Some(check) = read else { return Ok(()) };
        self.acknowledge_conclusion(&id, &check)
    }

    /// Requests a token, which later requests use.
    async fn renew_token(&self, scheduled: Instant, scope: Scope) -> anyhow::Result<TokenRenewal> {
        let ProjectCredentials { client_id, client_secret, .. } = &self.project;
        let request = Request {
            route: "POST oauth2/token",
            bytes: token_request("/oauth2/token", client_id, client_secret, scope.name()),
            expected_status: 200,
            is_repeatable: true,
        };
        let Some(response) = self.balancer.send(scheduled, &request).await? else {
            return Ok(TokenRenewal::Unacknowledged);
        };
        let token = string_property(&response.body, "access_token")?.to_owned();
        self.tokens.lock()[scope as usize] = token;
        Ok(TokenRenewal::Renewed)
    }

    /// Opens a URL as the device; returns the redirect location.
    async fn open(&self, route: &'static str, url: &str) -> anyhow::Result<Option<String>> {
        // A device that opens the URL again starts again.
        let request = Request { route, bytes: device_request(url)?, expected_status: 302, is_repeatable: true };
        let Some(response) = self.balancer.send(Instant::now(), &request).await? else { return Ok(None) };
        Ok(Some(response.location.context("redirect without a location")?))
    }

    async fn get(
        &self,
        scheduled: Instant,
        route: &'static str,
        scope: Scope,
        path: &str,
    ) -> anyhow::Result<Option<Response>> {
        let bytes = get_request(path, &self.token(scope)).into_bytes();
        self.balancer.send(scheduled, &Request { route, bytes, expected_status: 200, is_repeatable: true }).await
    }

    async fn post(
        &self,
        scheduled: Instant,
        route: &'static str,
        expected_status: u16,
        scope: Scope,
        path: &str,
        body: &str,
    ) -> anyhow::Result<Option<Response>> {
        let bytes = json_request("POST", path, &self.token(scope), body).into_bytes();
        self.balancer.send(scheduled, &Request { route, bytes, expected_status, is_repeatable: false }).await
    }

    fn token(&self, scope: Scope) -> String {
        self.tokens.lock()[scope as usize].clone()
    }

    fn acknowledge(&self, id: &str, check: Check) {
        let path = check.path;
        self.ledger.insert(id, check);
        let mut recent = self.recent.lock();
        if recent.len() < MAX_RECENT_CHECKS {
            recent.push((id.to_owned(), path));
        } else {
            recent[fastrand::usize(..MAX_RECENT_CHECKS)] = (id.to_owned(), path);
        }
    }

    fn acknowledge_conclusion(&self, id: &str, check: &str) -> anyhow::Result<()> {
        if let Some(conclusion) = Conclusion::parse(check.as_bytes())? {
            self.ledger.record_conclusion(id, &conclusion);
        }
        Ok(())
    }
}
