//! CAMARA Number Verification: authorises the device by a redirect, and calls the API with the resulting token.

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    product::Product,
};
use ringtrue_engine::ports::{
    operator_tokens::OperatorTokenVerifier,
    silent::{
        AuthenticatedDevice, AuthorizationRedirect, DeviceQuestion, NumberQuestion, OperatorAuthorizationRequest,
        OperatorAuthorizationResponse, SilentConnector, SilentOperation, SilentResult,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    Camara, api_headers,
    config::RequestObjectMode,
    correlator_header,
    error::{CamaraConnectorError, ErrorCause, InvalidResponse},
};
use crate::{
    breaker::{BreakerState, CallOutcome},
    oauth::{PkceState, Stage, TokenResponse, parse_authorization_response},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum VerifyRequest<'a> {
    PhoneNumber(&'a str),
    HashedPhoneNumber(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VerifyResponse {
    device_phone_number_verified: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DevicePhoneNumberResponse {
    device_phone_number: String,
}

impl Camara {
    fn scope_for(&self, product: Product) -> Option<&str> {
        match product {
            Product::SecureSna => self.config.scopes.verify.as_deref(),
            Product::Discovery => self.config.scopes.device_phone_number.as_deref(),
            // Other products use other APIs of the operator, or none.
            _ => None,
        }
    }

    async fn build_redirect(
        &self,
        request: &OperatorAuthorizationRequest<'_>,
        scope: &str,
    ) -> Result<AuthorizationRedirect, CamaraConnectorError> {
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let pkce = PkceState::new(&*self.entropy);
        let location = self.authorization_url(request, &pkce, &endpoints, scope);
        let location = location.ok_or(CamaraConnectorError::new(Stage::Redirect, ErrorCause::Internal))?;
        Ok(AuthorizationRedirect { location, connector_data: pkce.to_octets() })
    }

    async fn fetch_result(
        &self,
        response: &OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, CamaraConnectorError> {
        let pkce = PkceState::from_octets(response.connector_data)
            .ok_or(CamaraConnectorError::new(Stage::Redirect, ErrorCause::Internal))?;
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        let code = parse_authorization_response(response.query, &endpoints)?;
        let tokens = self.redeem_code(code, &pkce, &endpoints).await?;
        match &tokens.id_token {
            Some(token) => self.verify_id_token(token, &pkce, &endpoints).await?,
            // Without PKCE, only the ID token binds the code to this device, so it is required.
            None if self.config.scopes.openid && !self.config.pkce => {
                return Err(CamaraConnectorError::invalid_response(Stage::IdToken, InvalidResponse::IdToken));
            }
            None => {}
        }
        self.perform_operation(response.operation, response.check, tokens).await
    }

    pub(super) fn record_success(&self) {
        let now = self.client.clock.now();
        self.health.record_success(now);
        self.number_verification_breaker.record_outcome(CallOutcome::Success, None, now);
    }

    /// Calls the Number Verification API with an access token, which is valid for one call, or keeps the token for a
    /// later call.
    async fn perform_operation(
        &self,
        operation: SilentOperation<'_>,
        check: CheckId,
        tokens: TokenResponse,
    ) -> Result<SilentResult, CamaraConnectorError> {
        if operation == SilentOperation::AuthenticateDevice {
            let (connector, data) = (self.config.name.to_string(), tokens.bearer.as_bytes().to_vec());
            return Ok(SilentResult::Device(AuthenticatedDevice { connector, data }));
        }
        let headers = api_headers(correlator_header(check)?, tokens.bearer);
        match operation {
            SilentOperation::VerifyNumber(number) => {
                let question = NumberQuestion::Plain(number.clone());
                self.verify(&question, headers).await.map(SilentResult::Match)
            }
            _ => self.fetch_device_phone_number(headers).await,
        }
    }

    /// Asks the operator whether the device has this number. Not retried: the token is valid for one call, and a lost
    /// response does not show whether it was used.
    pub(super) async fn verify(
        &self,
        question: &NumberQuestion,
        mut headers: HeaderMap,
    ) -> Result<bool, CamaraConnectorError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = match question {
            NumberQuestion::Plain(number) if !self.config.sends_hashed_number => {
                VerifyRequest::PhoneNumber(number.as_str())
            }
            question => VerifyRequest::HashedPhoneNumber(hex::encode(question.hash())),
        };
        let body =
            serde_json::to_vec(&request).map_err(|_| CamaraConnectorError::new(Stage::Api, ErrorCause::Internal))?;
        let response = self.client.send_once(Stage::Api, Method::POST, &self.api_urls.verify, headers, body).await?;
        let verified: VerifyResponse = parse(&response.body)?;
        Ok(verified.device_phone_number_verified)
    }

    /// Asks the operator for the device's number. Not retried: the token is valid for one call.
    async fn fetch_device_phone_number(&self, headers: HeaderMap) -> Result<SilentResult, CamaraConnectorError> {
        let url = &self.api_urls.device_phone_number;
        let response = self.client.send_once(Stage::Api, Method::GET, url, headers, Vec::new()).await?;
        let shared: DevicePhoneNumberResponse = parse(&response.body)?;
        let number = Msisdn::parse(&shared.device_phone_number, self.config.mode);
        number
            .map(SilentResult::Number)
            .map_err(|_| CamaraConnectorError::invalid_response(Stage::Api, InvalidResponse::Number))
    }
}

#[async_trait]
impl SilentConnector for Camara {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn supports(&self, product: Product) -> bool {
        self.scope_for(product).is_some()
    }

    fn is_reachable(&self) -> bool {
        self.number_verification_breaker.state(self.client.clock.now()) == BreakerState::Closed
    }

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode> {
        let product = match request.operation {
            SilentOperation::VerifyNumber(_) | SilentOperation::AuthenticateDevice => Product::SecureSna,
            SilentOperation::DiscoverNumber => Product::Discovery,
        };
        let scope = self.scope_for(product).ok_or(ErrorCode::MnoNotSupported)?;
        self.number_verification_breaker.allow_call(self.client.clock.now())?;
        self.build_redirect(&request, scope)
            .await
            .map_err(|error| self.record_error(&error, &self.number_verification_breaker))
    }

    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode> {
        let is_signed = matches!(self.config.request_object, RequestObjectMode::Signed { .. });
        let record = |error: CamaraConnectorError| {
            self.record_error(&error.without_counting_device_errors(is_signed), &self.number_verification_breaker)
        };
        let result = self.fetch_result(&response).await.map_err(record)?;
        self.record_success();
        Ok(result)
    }

    async fn verify_device(&self, question: DeviceQuestion<'_>) -> Result<bool, ErrorCode> {
        self.number_verification_breaker.allow_call(self.client.clock.now())?;
        let verify = async {
            let bearer = HeaderValue::from_bytes(question.device_data)
                .map_err(|_| CamaraConnectorError::new(Stage::Api, ErrorCause::Internal))?;
            self.verify(question.number, api_headers(correlator_header(question.check)?, sensitive(bearer))).await
        };
        let matched = verify.await.map_err(|error| self.record_error(&error, &self.number_verification_breaker))?;
        self.record_success();
        Ok(matched)
    }

    fn operator_token_verifier(&self) -> Option<&dyn OperatorTokenVerifier> {
        self.config.operator_tokens.is_some().then_some(self)
    }
}

/// Keeps a header's value out of debug output.
fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CamaraConnectorError> {
    serde_json::from_slice(body).map_err(|_| CamaraConnectorError::invalid_response(Stage::Api, InvalidResponse::Body))
}
