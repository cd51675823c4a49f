//! Sealed data of sign-ins: the authorization request, the proof, and pushed parameters.
//!
//! The JSON keys and purposes must not change, because stored data could then no longer be read.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::Sealed,
    phone::Msisdn,
    sign_in::{AuthorizationRequest, Parameters, Prompt, RedirectUri, RequestedScopes, SignInId, SignInProof},
    tenancy::Mode,
    verification::Locale,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    ports::{sign_in::SignInRecord, store::StoreError},
};

/// What a sign-in keeps of its authorization request.
pub(super) struct KeptRequest {
    pub redirect_uri: RedirectUri,
    pub scopes: RequestedScopes,
    pub state: Option<String>,
    pub nonce: Option<String>,
    /// Base64url-encoded SHA-256 digest of the code verifier (PKCE). `None`: the client does not use PKCE.
    pub code_challenge: Option<String>,
    /// The user must not see a page.
    pub is_silent: bool,
    /// Subject of the ID token in the hint: another user must not sign in. `None`: any user may.
    pub expected_subject: Option<String>,
    /// Number in the hint, as the client wrote it. `None`: there is no hint.
    pub hinted_number: Option<String>,
    pub locales: Vec<Locale>,
}

#[derive(Serialize, Deserialize)]
struct RequestJson {
    redirect_uri: String,
    scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code_challenge: Option<String>,
    #[serde(default)]
    is_silent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected_subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hinted_number: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    locales: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ProofJson {
    number: String,
    context: String,
    /// Milliseconds since 1970.
    at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sim_change: Option<bool>,
}

impl KeptRequest {
    pub(super) fn new(request: &AuthorizationRequest, expected_subject: Option<String>) -> Self {
        KeptRequest {
            redirect_uri: request.redirect_uri.clone(),
            scopes: request.scopes.clone(),
            state: request.state.clone(),
            nonce: request.nonce.clone(),
            code_challenge: request.code_challenge.as_ref().map(|challenge| challenge.as_str().to_owned()),
            is_silent: request.prompt == Prompt::Never,
            expected_subject,
            hinted_number: request.hinted_number().map(str::to_owned),
            locales: request.locales.clone(),
        }
    }

    pub(super) fn seal(&self, context: &Context, id: SignInId) -> Result<Sealed, StoreError> {
        let json = RequestJson {
            redirect_uri: self.redirect_uri.as_str().to_owned(),
            scope: self.scopes.names(),
            state: self.state.clone(),
            nonce: self.nonce.clone(),
            code_challenge: self.code_challenge.clone(),
            is_silent: self.is_silent,
            expected_subject: self.expected_subject.clone(),
            hinted_number: self.hinted_number.clone(),
            locales: self.locales.iter().map(ToString::to_string).collect(),
        };
        seal(context, "sign-in-request", &id.to_string(), &json)
    }

    pub(super) fn unseal(context: &Context, record: &SignInRecord) -> Result<Self, StoreError> {
        let json: Option<RequestJson> = unseal(context, "sign-in-request", &record.id.to_string(), &record.request);
        json.and_then(Self::parse).ok_or_else(|| corrupt(record.id))
    }

    fn parse(json: RequestJson) -> Option<Self> {
        Some(KeptRequest {
            redirect_uri: RedirectUri::from_stored(&json.redirect_uri).ok()?,
            scopes: RequestedScopes::parse(&json.scope, true).ok()?,
            state: json.state,
            nonce: json.nonce,
            code_challenge: json.code_challenge,
            is_silent: json.is_silent,
            expected_subject: json.expected_subject,
            hinted_number: json.hinted_number,
            locales: json.locales.iter().filter_map(|tag| tag.parse().ok()).collect(),
        })
    }
}

/// Encrypts a proof. `owner` is the sign-in or the session that it belongs to. A proof of a sandbox project is useless
/// after the project has gone live.
pub(super) fn seal_proof(
    context: &Context,
    owner: &str,
    mode: Mode,
    proof: &SignInProof,
) -> Result<Sealed, StoreError> {
    let json = ProofJson {
        number: proof.number.as_str().to_owned(),
        context: proof.context.into_str().to_owned(),
        at: proof.at.as_millisecond(),
        sim_change: proof.sim_change,
    };
    seal(context, &proof_purpose(mode), owner, &json)
}

fn proof_purpose(mode: Mode) -> String {
    format!("sign-in-proof-{}", mode.into_str())
}

/// Decrypts a proof. `None`: it was sealed for another owner or mode, or is damaged.
pub(super) fn unseal_proof(context: &Context, owner: &str, mode: Mode, sealed: &Sealed) -> Option<SignInProof> {
    let json: ProofJson = unseal(context, &proof_purpose(mode), owner, sealed)?;
    Some(SignInProof {
        number: Msisdn::parse(&json.number, mode).ok()?,
        context: json.context.parse().ok()?,
        at: Timestamp::from_millisecond(json.at).ok()?,
        sim_change: json.sim_change,
    })
}

/// Encrypts the time at which the operator has recognised a device whose number is not known.
pub(super) fn seal_device(context: &Context, id: SignInId, at: Timestamp) -> Result<Sealed, StoreError> {
    seal(context, "sign-in-device", &id.to_string(), &at.as_millisecond())
}

pub(super) fn unseal_device(context: &Context, id: SignInId, sealed: &Sealed) -> Result<Timestamp, StoreError> {
    let at: Option<i64> = unseal(context, "sign-in-device", &id.to_string(), sealed);
    at.and_then(|at| Timestamp::from_millisecond(at).ok()).ok_or_else(|| corrupt(id))
}

/// Encrypts the number that a sign-in is to prove.
pub(super) fn seal_number(context: &Context, id: SignInId, number: &Msisdn) -> Result<Sealed, StoreError> {
    seal(context, "sign-in-number", &id.to_string(), &number.as_str())
}

pub(super) fn unseal_number(context: &Context, record: &SignInRecord, mode: Mode) -> Result<Msisdn, StoreError> {
    let sealed = record.number.as_ref();
    let text: Option<String> =
        sealed.and_then(|sealed| unseal(context, "sign-in-number", &record.id.to_string(), sealed));
    text.and_then(|text| Msisdn::parse(&text, mode).ok()).ok_or_else(|| corrupt(record.id))
}

pub(super) fn seal_parameters(
    context: &Context,
    reference: &str,
    parameters: &Parameters,
) -> Result<Sealed, StoreError> {
    seal(context, "pushed-authorization", reference, &parameters.pairs())
}

pub(super) fn unseal_parameters(context: &Context, reference: &str, sealed: &Sealed) -> Option<Parameters> {
    let pairs: Vec<(String, String)> = unseal(context, "pushed-authorization", reference, sealed)?;
    Some(Parameters::new(pairs))
}

fn seal<T: Serialize>(context: &Context, purpose: &str, owner: &str, value: &T) -> Result<Sealed, StoreError> {
    let plain = serde_json::to_vec(value).map_err(|error| StoreError::Refused(error.to_string()))?;
    context.seal(format!("{purpose}:{owner}").as_bytes(), &plain).map(Sealed)
}

fn unseal<T: DeserializeOwned>(context: &Context, purpose: &str, owner: &str, sealed: &Sealed) -> Option<T> {
    let plain = context.unseal(format!("{purpose}:{owner}").as_bytes(), &sealed.0)?;
    serde_json::from_slice(&plain).ok()
}

pub(super) fn corrupt(id: SignInId) -> StoreError {
    StoreError::CorruptRow {
        table: "sign_ins",
        row: id.to_string(),
        problem: "sealed data cannot be unsealed or parsed".to_owned(),
    }
}
