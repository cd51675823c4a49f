//! Forwards simulated devices to the sandbox operator, whose loopback socket they cannot reach.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode};
use ringtrue_operators::client::{Client, ClientError, ClientResponse};
use ringtrue_sandbox::camara::Operator;
use tokio::{sync::Semaphore, time::sleep};
use url::Url;

/// Path of the operator's authorization endpoint under the base URL.
pub const AUTHORIZE_PATH: &str = "/v1/sandbox/operator/authorize";

/// Longer than the hosted page waits, and shorter than the timeout of requests.
const SILENCE_DURATION: Duration = Duration::from_secs(20);
const MAX_WAITING_BROWSERS: usize = 256;

/// The sandbox operator's authorization endpoint, on a loopback socket.
#[derive(Debug)]
struct AuthorizeEndpoint {
    endpoint: Url,
    client: Arc<Client>,
    /// One permit for each browser that waits for an operator that never answers.
    waiting_browsers: Semaphore,
    /// The operator stops when the last reference is dropped.
    _operator: Arc<Operator>,
}

/// Response of the sandbox operator to a device.
#[derive(Debug)]
pub enum SimulatedAuthorization {
    Response(ClientResponse),
    /// This number's operator never answers.
    Silence,
}

/// Forwards devices to the sandbox operator's authorization endpoint. Cheap to clone; inactive without an operator.
#[derive(Clone, Debug, Default)]
pub struct AuthorizationForwarder(Option<Arc<AuthorizeEndpoint>>);

impl AuthorizationForwarder {
    /// `endpoint` is the operator's, which is kept alive.
    pub fn new(endpoint: Url, client: Arc<Client>, operator: Arc<Operator>) -> Self {
        let waiting_browsers = Semaphore::new(MAX_WAITING_BROWSERS);
        AuthorizationForwarder(Some(Arc::new(AuthorizeEndpoint {
            endpoint,
            client,
            waiting_browsers,
            _operator: operator,
        })))
    }

    /// Returns the operator's response to a device with this query, or `None` without an operator.
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

    /// Lets a browser wait, as operators do that never answer. Returns when the browser has waited long enough, or at
    /// once if many others wait.
    pub async fn keep_waiting(&self) {
        let Some(authorize_endpoint) = &self.0 else { return };
        if let Ok(_permit) = authorize_endpoint.waiting_browsers.try_acquire() {
            sleep(SILENCE_DURATION).await;
        }
    }
}
