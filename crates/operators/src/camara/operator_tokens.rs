//! Number Verification by an operator token from the phone's wallet (GSMA TS.43), which works over any connection.
//!
//! The wallet's answer is verified first. The connector then exchanges its temporary token for an access token, by a JWT
//! bearer assertion or by CIBA, and asks the operator about the number. Nothing is retried: temporary tokens are single
//! use.

use std::time::Duration;

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
};
use ringtrue_engine::ports::{
    operator_tokens::{CredentialRequest, CredentialResponse, DigitalCredential, OperatorToken, OperatorTokenVerifier},
    silent::NumberQuestion,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::{
    Camara, api_headers,
    config::{OperatorTokenConfig, OperatorTokenFlow},
    correlator_header,
    error::{CamaraConnectorError, ErrorCause},
};
use crate::{
    breaker::BreakerState,
    number_lookup::KnownNetworks,
    oauth::{Stage, TokenResponse},
    operator_token::{CredentialVerifier, build_request},
};

/// Maximum time that the operator gets to decide by CIBA. The SIM is already authenticated, so nobody has to approve.
const CIBA_TIMEOUT: Duration = Duration::from_secs(10);

impl Camara {
    fn operator_token_config(&self) -> Result<&OperatorTokenConfig, ErrorCode> {
        self.config.operator_tokens.as_ref().ok_or(ErrorCode::MnoNotSupported)
    }

    async fn verify_with_operator_token(
        &self,
        check: CheckId,
        number: &Msisdn,
        temporary_token: &str,
    ) -> Result<bool, CamaraConnectorError> {
        // Boxed to keep the future small: it contains the flows of both token requests.
        let tokens = Box::pin(self.exchange_operator_token(temporary_token)).await?;
        let headers = api_headers(correlator_header(check)?, tokens.bearer);
        self.verify(&NumberQuestion::Plain(number.clone()), headers).await
    }

    async fn exchange_operator_token(&self, temporary_token: &str) -> Result<TokenResponse, CamaraConnectorError> {
        let internal_error = || CamaraConnectorError::new(Stage::Token, ErrorCause::Internal);
        let config = self.config.operator_tokens.as_ref().ok_or_else(internal_error)?;
        let scope = self.config.scopes.verify.as_deref().ok_or_else(internal_error)?;
        let scope = self.user_scope(&[scope]);
        let subscriber = Zeroizing::new(format!("operatortoken:{temporary_token}"));
        let endpoints = self.authorization_server.endpoints(&self.client).await?;
        match &config.flow {
            OperatorTokenFlow::Ciba => {
                let deadline = Instant::now() + CIBA_TIMEOUT;
                self.request_token_by_ciba(&scope, &subscriber, deadline, &endpoints).await
            }
            OperatorTokenFlow::JwtBearer { key, audience } => {
                self.request_token_by_assertion(&scope, &subscriber, key, *audience, &endpoints).await
            }
        }
    }
}

#[async_trait]
impl OperatorTokenVerifier for Camara {
    fn is_available(&self) -> bool {
        !matches!(self.breaker_state(), BreakerState::Open { .. })
    }

    fn credential_request(&self, request: CredentialRequest<'_>) -> Result<DigitalCredential, ErrorCode> {
        let OperatorTokenConfig { issuer, signer, consent, .. } = self.operator_token_config()?;
        build_request(issuer, signer, consent, &request).ok_or(ErrorCode::InternalError)
    }

    fn stated_nonce(&self, credential: &DigitalCredential) -> Option<String> {
        CredentialVerifier::stated_nonce(credential)
    }

    fn verify_credential(&self, response: &CredentialResponse<'_>) -> Result<OperatorToken, &'static str> {
        let config = self.operator_token_config().map_err(|_| "the connector takes no operator tokens")?;
        config.verifier.verify(response).inspect_err(|reason| {
            tracing::debug!(connector = %self.config.name, reason, "invalid digital credential");
        })
    }

    fn network_of_carrier(&self, carrier: &str) -> Option<NetworkId> {
        let known: KnownNetworks = self.config.networks.iter().cloned().collect();
        known.network_id_from_plmn(carrier).filter(|network| known.contains(network))
    }

    async fn verify_number_with_token(
        &self,
        check: CheckId,
        number: &Msisdn,
        temporary_token: &str,
    ) -> Result<bool, ErrorCode> {
        let breaker = &self.number_verification_breaker;
        breaker.allow_call(self.client.clock.now())?;
        let matched = self.verify_with_operator_token(check, number, temporary_token).await;
        // A forged credential can contain any token, but not change our signed or authenticated requests.
        let matched =
            matched.map_err(|error| match self.record_error(&error.without_counting_device_errors(true), breaker) {
                // The operator does not recognise the token. The device's address plays no part.
                ErrorCode::NotMobileIp => ErrorCode::MnoUserNotFound,
                code => code,
            })?;
        self.record_success();
        Ok(matched)
    }
}
