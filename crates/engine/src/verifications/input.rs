//! Input of a verification's steps, such as the phone number. It is stored encrypted until the verification ends.
//!
//! The JSON keys and `PURPOSE` must not change, because stored inputs could then no longer be read.

use std::net::IpAddr;

use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    network::NetworkId,
    phone::Msisdn,
    reverse_sms::{SmsCode, find_code_candidates},
    tenancy::Mode,
};
use serde::{Deserialize, Serialize};

use crate::{
    context::Context,
    ports::{store::StoreError, verifications::VerificationRecord},
};

const PURPOSE: &str = "verification";

#[derive(Clone)]
pub(crate) struct StepInput {
    pub number: Msisdn,
    /// The `device_ip` of the create request. `None`: the client did not send it.
    pub device_ip: Option<IpAddr>,
    /// Network that serves the number for Secure SNA. `None`: Secure SNA is not among the methods.
    pub silent_network: Option<NetworkId>,
    /// `None`: Reverse SMS is not among the methods.
    pub sms: Option<SmsInput>,
}

/// Input of the Reverse SMS step. The code is generated when the verification is created, because its hash determines
/// the verification's bucket (database shard).
#[derive(Clone)]
pub(crate) struct SmsInput {
    pub network: NetworkId,
    pub receiver: Msisdn,
    pub code: SmsCode,
    /// The whole text of the SMS that the end-user sends.
    pub sms_body: String,
}

#[derive(Serialize, Deserialize)]
struct StepInputJson {
    number: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sms: Option<SmsInputJson>,
}

#[derive(Serialize, Deserialize)]
struct SmsInputJson {
    network: String,
    receiver: String,
    code: String,
    body: String,
}

impl StepInput {
    pub(crate) fn seal(&self, context: &Context, verification: CheckId) -> Result<Sealed, StoreError> {
        let json = StepInputJson {
            number: self.number.as_str().to_owned(),
            device_ip: self.device_ip,
            silent_network: self.silent_network.as_ref().map(ToString::to_string),
            sms: self.sms.as_ref().map(|sms| SmsInputJson {
                network: sms.network.to_string(),
                receiver: sms.receiver.as_str().to_owned(),
                code: sms.code.as_str().to_owned(),
                body: sms.sms_body.clone(),
            }),
        };
        let plain = serde_json::to_vec(&json).map_err(|_| corrupt_input_error(verification))?;
        context.seal_for_check(PURPOSE, verification, &plain)
    }

    /// Decrypts the input. Fails if the verification has ended, because its input is then erased.
    pub(crate) fn unseal(context: &Context, record: &VerificationRecord) -> Result<Self, StoreError> {
        let id = record.check.id;
        let plain = record.input.as_ref().and_then(|sealed| context.unseal_for_check(PURPOSE, id, sealed));
        let json = plain.and_then(|plain| serde_json::from_slice::<StepInputJson>(&plain).ok());
        json.and_then(|json| Self::parse(json, record.check.mode)).ok_or_else(|| corrupt_input_error(id))
    }

    fn parse(json: StepInputJson, mode: Mode) -> Option<Self> {
        let parse_sms = |sms: SmsInputJson| {
            Some(SmsInput {
                network: sms.network.parse().ok()?,
                receiver: Msisdn::parse(&sms.receiver, mode).ok()?,
                code: find_code_candidates(&sms.code).first().copied()?,
                sms_body: sms.body,
            })
        };
        Some(StepInput {
            number: Msisdn::parse(&json.number, mode).ok()?,
            device_ip: json.device_ip,
            silent_network: match json.silent_network {
                Some(network) => Some(network.parse().ok()?),
                None => None,
            },
            sms: match json.sms {
                Some(sms) => Some(parse_sms(sms)?),
                None => None,
            },
        })
    }
}

fn corrupt_input_error(verification: CheckId) -> StoreError {
    StoreError::CorruptRow {
        table: "verifications",
        row: verification.to_string(),
        problem: "sealed data cannot be unsealed or parsed".to_owned(),
    }
}
