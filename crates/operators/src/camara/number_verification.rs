//! The question itself: CAMARA Number Verification.

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use ringtrue_domain::{lifecycle::CheckId, phone::Msisdn};
use ringtrue_engine::ports::{Question, Reply};
use serde::{Deserialize, Serialize};

use super::{
    Camara, api_headers, correlator,
    faults::{Fault, Nonsense, Stage, Symptom},
    token::Tokens,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Claimed<'a> {
    PhoneNumber(&'a str),
    HashedPhoneNumber(String),
}

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
        let headers = api_headers(correlator(check)?, tokens.bearer);
        match question {
            Question::IsNumber(number) => self.verify(number, headers).await,
            Question::WhichNumber => self.device_phone_number(headers).await,
        }
    }

    /// Never asked twice: whether the first one was heard cannot be known.
    async fn verify(&self, number: &Msisdn, mut headers: HeaderMap) -> Result<Reply, Fault> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let claimed = if self.config.sends_hashed_number {
            Claimed::HashedPhoneNumber(hex(digest(&SHA256, number.as_str().as_bytes()).as_ref()))
        } else {
            Claimed::PhoneNumber(number.as_str())
        };
        let body = serde_json::to_vec(&claimed).map_err(|_| Fault::new(Stage::Api, Symptom::Ours))?;
        let answer = self.asking.post(Stage::Api, &self.interfaces.verify, headers, body).await?;
        let verified: Verified = read(&answer.body)?;
        Ok(Reply::Match(verified.device_phone_number_verified))
    }

    /// Never asked twice either: the token is good for one call.
    async fn device_phone_number(&self, headers: HeaderMap) -> Result<Reply, Fault> {
        let answer = self.asking.get_once(Stage::Api, &self.interfaces.device_phone_number, headers).await?;
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
