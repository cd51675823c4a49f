//! The question itself: CAMARA Number Verification.

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use ringtrue_domain::{lifecycle::CheckId, phone::Msisdn};
use ringtrue_engine::ports::{Question, Reply};
use serde::Deserialize;
use serde_json::json;

use super::{
    Camara, api_headers,
    faults::{Fault, Nonsense, Stage},
    token::Tokens,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Verified {
    device_phone_number_verified: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shared {
    device_phone_number: String,
}

impl Camara {
    /// One question for one token.
    pub(super) async fn ask(&self, question: Question<'_>, check: CheckId, tokens: Tokens) -> Result<Reply, Fault> {
        let headers = api_headers(check, tokens.bearer)?;
        match question {
            Question::IsNumber(number) => self.verify(number, headers).await,
            Question::WhichNumber => self.device_phone_number(headers).await,
        }
    }

    /// Never asked twice: whether the first one was heard cannot be known.
    async fn verify(&self, number: &Msisdn, mut headers: HeaderMap) -> Result<Reply, Fault> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let body = if self.config.sends_hashed_number {
            json!({ "hashedPhoneNumber": hex(digest(&SHA256, number.as_str().as_bytes()).as_ref()) })
        } else {
            json!({ "phoneNumber": number.as_str() })
        };
        let url = self.api_url(&self.config.number_verification_path, "verify")?;
        let answer = self.asking.post(Stage::Api, &url, headers, body.to_string().into_bytes()).await?;
        let verified: Verified = read(&answer.body)?;
        Ok(Reply::Match(verified.device_phone_number_verified))
    }

    /// Never asked twice either: the token is good for one call.
    async fn device_phone_number(&self, headers: HeaderMap) -> Result<Reply, Fault> {
        let url = self.api_url(&self.config.number_verification_path, "device-phone-number")?;
        let answer = self.asking.get_once(Stage::Api, &url, headers).await?;
        let shared: Shared = read(&answer.body)?;
        let number = Msisdn::parse(&shared.device_phone_number, self.config.mode);
        number.map(Reply::Number).map_err(|_| Fault::nonsense(Stage::Api, Nonsense::Number))
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|_| Fault::nonsense(Stage::Api, Nonsense::Body))
}

fn hex(octets: &[u8]) -> String {
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
