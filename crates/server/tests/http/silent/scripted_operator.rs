//! A scripted operator in place of a connector, within the process.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::operator_access::OperatorAccess as _,
    ports::{
        operator_tokens::{
            CredentialRequest, CredentialResponse, DigitalCredential, OperatorToken, OperatorTokenVerifier,
        },
        silent::{
            AuthenticatedDevice, AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest,
            OperatorAuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
        },
    },
};
use ringtrue_sandbox::operator_access::DEFAULT_SIM;
use ringtrue_test_support::WAIT_LIMIT;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};

use crate::world::World;

pub const NAME: &str = "scripted";
/// Default authorization endpoint.
pub const AUTHORIZE: &str = "https://operator.example/authorize";
/// Authorization code that the operator accepts.
pub const GOOD_CODE: &str = "good-code-of-an-operator";

/// Operator that responds according to the device's SIM, unless a test scripts an error.
#[derive(Debug)]
pub struct ScriptedOperator {
    authorize: String,
    request_errors: Mutex<VecDeque<ErrorCode>>,
    response_errors: Mutex<VecDeque<ErrorCode>>,
    /// Devices that returned from the operator, in order.
    returned_devices: watch::Sender<Vec<ReturnedDevice>>,
    /// Each response to a returning device waits for a permit, so tests can stop the operator by removing all permits.
    responses: Semaphore,
    /// The sandbox's connector, which verifies answers of wallets. `None`: the operator accepts none.
    wallet: Option<Arc<dyn SilentConnector>>,
    /// Whether the circuit breaker for tokens is closed.
    is_available: AtomicBool,
    /// How many tokens the operator was asked about.
    asked_tokens: watch::Sender<usize>,
    token_errors: Mutex<VecDeque<ErrorCode>>,
    /// Like `responses`, for tokens of wallets.
    token_responses: Semaphore,
}

/// Data of a device that returned from the operator, as passed to the connector.
#[derive(Clone, Debug)]
pub struct ReturnedDevice {
    pub peer: SocketAddr,
    pub device: IpAddr,
    pub initial_ip: IpAddr,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ScriptedOperator {
    pub fn of(world: &World) -> Arc<Self> {
        ScriptedOperator::at(world, AUTHORIZE)
    }

    /// Installs an operator with this authorization endpoint.
    pub fn at(world: &World, authorize: &str) -> Arc<Self> {
        ScriptedOperator::install(world, authorize, None)
    }

    /// Installs an operator that accepts tokens of the sandbox's wallet.
    pub fn with_wallet(world: &World) -> Arc<Self> {
        let sandbox = world.node.sandbox_access.silent_connector("sandbox").unwrap();
        ScriptedOperator::install(world, AUTHORIZE, Some(sandbox))
    }

    fn install(world: &World, authorize: &str, wallet: Option<Arc<dyn SilentConnector>>) -> Arc<Self> {
        let operator = Arc::new(ScriptedOperator {
            authorize: authorize.to_owned(),
            request_errors: Mutex::default(),
            response_errors: Mutex::default(),
            returned_devices: watch::Sender::default(),
            responses: Semaphore::new(Semaphore::MAX_PERMITS),
            wallet,
            is_available: AtomicBool::new(true),
            asked_tokens: watch::Sender::default(),
            token_errors: Mutex::default(),
            token_responses: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        world.node.sandbox_access.set_silent_connector(Arc::clone(&operator) as _);
        operator
    }

    /// Rejects the next authorization request with this error.
    pub fn refuse(&self, code: ErrorCode) {
        self.request_errors.lock().push_back(code);
    }

    /// Makes the next device that returns from the operator fail with this error.
    pub fn fail(&self, code: ErrorCode) {
        self.response_errors.lock().push_back(code);
    }

    pub fn returned_devices(&self) -> Vec<ReturnedDevice> {
        self.returned_devices.borrow().clone()
    }

    /// Waits until this many devices have returned.
    pub async fn wait_for_devices(&self, count: usize) {
        let mut returned_devices = self.returned_devices.subscribe();
        let returned =
            timeout(WAIT_LIMIT, returned_devices.wait_for(|returned_devices| returned_devices.len() >= count))
                .await
                .is_ok();
        assert!(returned, "the operator is not queried");
    }

    /// Lets questions about tokens wait for [`answer_tokens`](Self::answer_tokens).
    pub fn hold_tokens(&self) {
        self.token_responses.forget_permits(Semaphore::MAX_PERMITS);
        self.asked_tokens.send_replace(0);
    }

    /// Waits until the operator was asked about a token.
    pub async fn wait_for_token(&self) {
        let mut asked = self.asked_tokens.subscribe();
        let is_asked = timeout(WAIT_LIMIT, asked.wait_for(|asked| *asked > 0)).await.is_ok();
        assert!(is_asked, "the operator is not asked about a token");
    }

    /// Answers questions about tokens. The next answer is an error if there is one.
    pub fn answer_tokens(&self, error: Option<ErrorCode>) {
        self.token_errors.lock().extend(error);
        self.token_responses.add_permits(Semaphore::MAX_PERMITS);
    }

    /// Opens the circuit breaker for tokens.
    pub fn break_circuit(&self) {
        self.is_available.store(false, Ordering::Relaxed);
    }

    pub fn stop_responding(&self) {
        self.responses.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Responds to pending and later requests.
    pub fn resume_responding(&self) {
        self.responses.add_permits(Semaphore::MAX_PERMITS);
    }
}

#[async_trait]
impl SilentConnector for ScriptedOperator {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, product: Product) -> bool {
        matches!(product, Product::SecureSna | Product::Discovery)
    }

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        if let Some(code) = self.request_errors.lock().pop_front() {
            return Err(code);
        }
        let sim = request.simulated_sim.map_or(DEFAULT_SIM, Msisdn::as_str);
        let location = format!("{}?state={}", self.authorize, request.state);
        Ok(AuthorizationRedirect { location, connector_data: sim.as_bytes().to_vec() })
    }

    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        let device = ReturnedDevice {
            peer: response.peer,
            device: response.device_ip,
            initial_ip: response.initial_ip,
            query: response.query.to_vec(),
            headers: response.headers.to_vec(),
        };
        self.returned_devices.send_modify(|returned_devices| returned_devices.push(device));
        self.responses.acquire().await.expect("open").forget();
        if let Some(code) = self.response_errors.lock().pop_front() {
            return Err(code);
        }
        let get = |wanted_name: &str| {
            response.query.iter().find(|(name, _)| name == wanted_name).map(|(_, value)| value.as_str())
        };
        let is_enriched = response.headers.iter().any(|(name, _)| name == "x-msisdn");
        if get("code") != Some(GOOD_CODE) && !is_enriched {
            return Err(ErrorCode::MnoUserNotFound);
        }
        let sim = Msisdn::parse(std::str::from_utf8(response.connector_data).unwrap(), Mode::Sandbox).unwrap();
        Ok(match response.operation {
            SilentOperation::VerifyNumber(claimed) => SilentResult::Match(*claimed == sim),
            SilentOperation::DiscoverNumber => SilentResult::Number(sim),
            SilentOperation::AuthenticateDevice => SilentResult::Device(AuthenticatedDevice {
                connector: NAME.to_owned(),
                data: sim.as_str().as_bytes().to_vec(),
            }),
        })
    }

    async fn verify_device(&self, question: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        if let Some(code) = self.response_errors.lock().pop_front() {
            return Err(code);
        }
        let sim = Msisdn::parse(std::str::from_utf8(question.device_data).unwrap(), Mode::Sandbox).unwrap();
        Ok(question.number.matches(&sim))
    }

    fn operator_token_verifier(&self) -> Option<&dyn OperatorTokenVerifier> {
        self.wallet.as_ref().map(|_| self as _)
    }
}

impl ScriptedOperator {
    fn wallet(&self) -> &dyn OperatorTokenVerifier {
        self.wallet.as_ref().and_then(|wallet| wallet.operator_token_verifier()).expect("an operator with a wallet")
    }
}

#[async_trait]
impl OperatorTokenVerifier for ScriptedOperator {
    fn is_available(&self) -> bool {
        self.is_available.load(Ordering::Relaxed)
    }

    fn credential_request(&self, request: CredentialRequest<'_>) -> Result<DigitalCredential, ErrorCode> {
        self.wallet().credential_request(request)
    }

    fn stated_nonce(&self, credential: &DigitalCredential) -> Option<String> {
        self.wallet().stated_nonce(credential)
    }

    fn verify_credential(&self, response: &CredentialResponse<'_>) -> Result<OperatorToken, &'static str> {
        self.wallet().verify_credential(response)
    }

    fn network_of_carrier(&self, carrier: &str) -> Option<NetworkId> {
        self.wallet().network_of_carrier(carrier)
    }

    async fn verify_number_with_token(
        &self,
        check: CheckId,
        number: &Msisdn,
        temporary_token: &str,
    ) -> Result<bool, ErrorCode> {
        self.asked_tokens.send_modify(|asked| *asked += 1);
        self.token_responses.acquire().await.expect("open").forget();
        if let Some(code) = self.token_errors.lock().pop_front() {
            return Err(code);
        }
        self.wallet().verify_number_with_token(check, number, temporary_token).await
    }
}
