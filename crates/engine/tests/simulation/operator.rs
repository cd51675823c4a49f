//! A test operator with scripted results.

use async_trait::async_trait;
use parking_lot::Mutex;
use ringtrue_domain::{lifecycle::ErrorCode, product::Product, sim_swap::SimHistory};
use ringtrue_engine::ports::{
    silent::{
        AuthorizationRedirect, DeviceQuestion, OperatorAuthorizationRequest, OperatorAuthorizationResponse,
        SilentConnector, SilentResult,
    },
    sim_swap::{SimSwapConnector, SimSwapRequest},
};

pub const NAME: &str = "simulated";
/// URL at the operator to which devices are redirected, up to the value of its `state` parameter.
pub const LOCATION: &str = "https://operator.example/?state=";

#[derive(Debug, Default)]
pub struct Operator {
    next: Mutex<Option<Result<SilentResult, ErrorCode>>>,
    default: Mutex<Option<Result<SilentResult, ErrorCode>>>,
}

impl Operator {
    pub fn set_next_result(&self, result: Result<SilentResult, ErrorCode>) {
        *self.next.lock() = Some(result);
    }

    /// Sets the result of all calls for which [`set_next_result`](Self::set_next_result) was not called.
    pub fn set_default_result(&self, result: Result<SilentResult, ErrorCode>) {
        *self.default.lock() = Some(result);
    }

    fn take_result(&self) -> Result<SilentResult, ErrorCode> {
        let next = self.next.lock().take();
        next.or_else(|| self.default.lock().clone()).expect("a scripted result")
    }
}

#[async_trait]
impl SilentConnector for Operator {
    fn name(&self) -> &str {
        NAME
    }

    fn supports(&self, _: Product) -> bool {
        true
    }

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        self.take_result().map(|_| AuthorizationRedirect {
            location: format!("{LOCATION}{}", request.state),
            connector_data: request.check.0.as_bytes().to_vec(),
        })
    }

    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        assert_eq!(response.connector_data, response.check.0.as_bytes());
        self.take_result()
    }

    async fn verify_device(&self, _: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        Err(ErrorCode::InternalError)
    }
}

#[async_trait]
impl SimSwapConnector for Operator {
    fn name(&self) -> &str {
        NAME
    }

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode> {
        Ok(SimHistory::NoChangeFor(request.period.duration()))
    }
}
