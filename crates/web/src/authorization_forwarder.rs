//! Forwards requests of simulated devices to the sandbox operator, which listens on a loopback socket that devices
//! cannot reach.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode};
use ringtrue_operators::client::{Client, ClientError, ClientResponse};
use ringtrue_sandbox::camara::Operator;
use tokio::{sync::Semaphore, time::sleep};
use url::Url;

/// Public path, under the base URL, of the sandbox operator's authorization endpoint.
pub const AUTHORIZE_PATH: &str = "/v1/sandbox/operator/authorize";

/// How long a browser waits when the sandbox operator simulates an outage. Longer than the hosted page waits for an
/// operator, and shorter than the default request timeout.
const SILENCE_DURATION: Duration = Duration::from_secs(20);
/// Maximum number of browsers that wait in simulated outages at the same time. Further browsers do not wait.
const MAX_BROWSERS_IN_OUTAGE: usize = 256;

/// The sandbox operator's authorization endpoint, on a loopback socket.
#[derive(Debug)]
struct AuthorizeEndpoint {
    endpoint: Url,
    client: Arc<Client>,
    /// One permit for each browser that waits because the simulated operator does not answer.
    waiting_browsers: Semaphore,
    /// Never read. Keeps the sandbox operator running, which stops when its last reference is dropped.
    _operator: Arc<Operator>,
}

/// Response of the sandbox operator to a simulated device.
#[derive(Debug)]
pub enum SimulatedAuthorization {
    Response(ClientResponse),
    /// The operator simulates an outage for this number: it never answers.
    Silence,
}

/// Forwards devices to the sandbox operator's authorization endpoint. The default value has no operator and forwards
/// nothing. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AuthorizationForwarder(Option<Arc<AuthorizeEndpoint>>);

impl AuthorizationForwarder {
    /// Creates a forwarder to the authorization endpoint of `operator`, and keeps the operator running.
    pub fn new(endpoint: Url, client: Arc<Client>, operator: Arc<Operator>) -> Self {
        let waiting_browsers = Semaphore::new(MAX_BROWSERS_IN_OUTAGE);
        AuthorizationForwarder(Some(Arc::new(AuthorizeEndpoint {
            endpoint,
            client,
            waiting_browsers,
            _operator: operator,
        })))
    }

    /// Forwards the query of a device's request and returns the operator's response. Returns `None` if this server has
    /// no sandbox operator.
    pub async fn forward(&self, query: &str) -> Option<Result<SimulatedAuthorization, ClientError>> {
        let authorize_endpoint = self.0.as_ref()?;
        let mut url = authorize_endpoint.endpoint.clone();
        url.set_query(Some(query));
        let response = authorize_endpoint.client.request(Method::GET, &url, HeaderMap::new(), "").await;
        Some(response.map(|response| match StatusCode::from_u16(response.status) {
            Ok(StatusCode::GATEWAY_TIMEOUT) => SimulatedAuthorization::Silence,
            _ => SimulatedAuthorization::Response(response),
        }))
    }

    /// Keeps a browser waiting, to simulate an operator that never answers. Returns after `SILENCE_DURATION`, or at
    /// once if too many browsers wait.
    pub async fn simulate_silence(&self) {
        let Some(authorize_endpoint) = &self.0 else { return };
        if let Ok(_permit) = authorize_endpoint.waiting_browsers.try_acquire() {
            sleep(SILENCE_DURATION).await;
        }
    }
}
