//! CAMARA Number Verification.

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use ringtrue_domain::{lifecycle::CheckId, phone::Msisdn};
use ringtrue_engine::ports::{SilentOperation, SilentResult};
use serde::{Deserialize, Serialize};

use super::{
    Camara, api_headers, correlator_header,
    error::{CamaraError, ErrorCause, InvalidResponse, Stage},
    token::TokenResponse,
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
    /// Each token is valid for one call.
    pub(super) async fn query_number(
        &self,
        operation: SilentOperation<'_>,
        check: CheckId,
        tokens: TokenResponse,
    ) -> Result<SilentResult, CamaraError> {
        let headers = api_headers(correlator_header(check)?, tokens.bearer);
        match operation {
            SilentOperation::VerifyNumber(number) => self.verify(number, headers).await,
            SilentOperation::DiscoverNumber => self.device_phone_number(headers).await,
        }
    }

    /// Not retried: a lost response does not show whether the token was used.
    async fn verify(&self, number: &Msisdn, mut headers: HeaderMap) -> Result<SilentResult, CamaraError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = if self.config.sends_hashed_number {
            VerifyRequest::HashedPhoneNumber(encode_hex(digest(&SHA256, number.as_str().as_bytes()).as_ref()))
        } else {
            VerifyRequest::PhoneNumber(number.as_str())
        };
        let body = serde_json::to_vec(&request).map_err(|_| CamaraError::new(Stage::Api, ErrorCause::Internal))?;
        let response = self.client.post(Stage::Api, &self.api_urls.verify, headers, body).await?;
        let verified: VerifyResponse = parse(&response.body)?;
        Ok(SilentResult::Match(verified.device_phone_number_verified))
    }

    /// Not retried: the token is valid for one call.
    async fn device_phone_number(&self, headers: HeaderMap) -> Result<SilentResult, CamaraError> {
        let response = self.client.get_once(Stage::Api, &self.api_urls.device_phone_number, headers).await?;
        let shared: DevicePhoneNumberResponse = parse(&response.body)?;
        let number = Msisdn::parse(&shared.device_phone_number, self.config.mode);
        number.map(SilentResult::Number).map_err(|_| CamaraError::invalid_response(Stage::Api, InvalidResponse::Number))
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CamaraError> {
    serde_json::from_slice(body).map_err(|_| CamaraError::invalid_response(Stage::Api, InvalidResponse::Body))
}

fn encode_hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
