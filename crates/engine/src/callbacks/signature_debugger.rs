//! Signature debugger: explains why the signature of a pasted callback request does not verify. Compares the request
//! with the one that was sent, according to the attempt log.

use ringtrue_callback_signature::{
    ATTEMPT_HEADER, CallbackPublicKey, PRODUCT_HEADER,
    diagnosis::{
        Diagnosis, DiagnosisContext, OwnedComponents, PastedRequest, PastedRequestError, SentCallback, diagnose_pasted,
        host_and_target,
    },
};
use ringtrue_domain::{
    key_schedule::KeyState,
    lifecycle::CheckId,
    tenancy::{Project, ProjectId},
};
use serde::Deserialize;

use super::{Attempt, Callbacks, LoggedCallback};
use crate::{checks::ReadError, courier::SentRequest, ports::store::StoreError};

/// A callback request that a developer has pasted, and the URL at which it was received, if given.
#[derive(Clone, Copy, derive_more::Debug)]
// Masked: the request may contain secrets.
#[debug("PastedCallback({} bytes)", self.request.len())]
pub struct PastedCallback<'a> {
    pub request: &'a str,
    pub url: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub struct SignatureDebugReport {
    pub diagnosis: Diagnosis,
    /// The check that the pasted body names. `None`: the body names none, or the project has no callback for it.
    pub check: Option<CheckId>,
    /// Number of the attempt that the pasted request was compared with, from 1. `None`: no sent request is known.
    pub attempt: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum SignatureDebugError {
    #[error(transparent)]
    Request(#[from] PastedRequestError),
    #[error("invalid callback URL: expected one such as https://example.com/callbacks")]
    Url,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Deserialize)]
struct CheckIdBody {
    check_id: String,
}

impl Callbacks {
    /// Explains why the signature of a callback of the project does not verify.
    pub async fn debug_callback_signature(
        &self,
        project: &Project,
        paste: PastedCallback<'_>,
    ) -> Result<SignatureDebugReport, SignatureDebugError> {
        let given_url = paste.url.map(|url| host_and_target(url).ok_or(SignatureDebugError::Url)).transpose()?;
        let pasted = PastedRequest::parse(paste.request, given_url.as_ref().map(|(_, target)| target.as_str()))?;
        let check = serde_json::from_slice(&extract_json_object(pasted.body()))
            .ok()
            .and_then(|body: CheckIdBody| body.check_id.parse().ok());
        let callback = match check {
            Some(check) => self.find_logged_callback(project.id, check).await?,
            None => None,
        };
        let found = callback.as_ref().and_then(|callback| find_sent_attempt(callback, &pasted));
        let sent_callback = found.and_then(|(_, sent)| to_sent_callback(sent));

        let now = self.context.now();
        let ring = self.context.keys();
        let keys = |matches_state: fn(KeyState) -> bool| -> Vec<CallbackPublicKey> {
            let matching = ring.callback_keys().filter(|(_, schedule, _)| matches_state(schedule.state(now)));
            matching.map(|(_, _, public)| public.clone()).collect()
        };
        let known_url = callback.as_ref().and_then(|callback| callback.url.as_deref()).and_then(host_and_target);
        let (hosts, targets): (Vec<_>, Vec<_>) = given_url.into_iter().chain(known_url).unzip();
        let context = DiagnosisContext {
            keys: &keys(|state| state != KeyState::Gone),
            retired: &keys(|state| state == KeyState::Gone),
            mode: project.mode,
            now,
            hosts: &hosts,
            targets: &targets,
            sent: sent_callback.as_ref(),
        };
        let attempt = sent_callback.as_ref().and(found).map(|(number, _)| number);
        let diagnosis = diagnose_pasted(&pasted, &context);
        Ok(SignatureDebugReport { diagnosis, check: check.filter(|_| callback.is_some()), attempt })
    }

    /// Reads the callback of a check. `None`: the check has no callback, or belongs to another project.
    async fn find_logged_callback(
        &self,
        project: ProjectId,
        check: CheckId,
    ) -> Result<Option<LoggedCallback>, StoreError> {
        match self.read_logged_callback(project, check).await {
            Ok(callback) => Ok(callback),
            Err(ReadError::Store(error)) => Err(error),
            Err(ReadError::OtherProject | ReadError::NotFound) => Ok(None),
        }
    }
}

/// Returns the bytes from the first `{` to the last `}`, so that the JSON can be parsed even if other text was pasted
/// before or after it.
fn extract_json_object(body: &[u8]) -> Vec<u8> {
    let begin = body.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let end = body.iter().rposition(|byte| *byte == b'}').map_or(body.len(), |at| at + 1);
    body.get(begin..end).unwrap_or_default().to_vec()
}

/// Finds the attempt that sent the pasted request: the one with the same `date` header, else with the same attempt
/// number, else the last one.
fn find_sent_attempt<'a>(callback: &'a LoggedCallback, pasted: &PastedRequest) -> Option<(u32, &'a SentRequest)> {
    let sent = |attempt: &'a Attempt| Some((attempt.number, &attempt.exchange.as_ref()?.sent));
    let all: Vec<_> = callback.attempts.iter().filter_map(sent).collect();
    let with = |name: &str| {
        let value = pasted.header(name)?;
        let has_same_value = |(_, sent): &&(u32, &SentRequest)| header(sent, name) == Some(&value);
        all.iter().rev().find(has_same_value).copied()
    };
    with("date").or_else(|| with(ATTEMPT_HEADER)).or_else(|| all.last().copied())
}

fn header<'a>(sent: &'a SentRequest, wanted_name: &str) -> Option<&'a str> {
    sent.headers.iter().find(|(name, _)| name == wanted_name).map(|(_, value)| value.as_str())
}

fn to_sent_callback(sent: &SentRequest) -> Option<SentCallback> {
    let value = |name| header(sent, name).map(str::to_owned);
    let (_, target) = host_and_target(&sent.url)?;
    let components = OwnedComponents {
        method: "POST".to_owned(),
        target,
        host: value("host")?,
        date: value("date")?,
        product: value(PRODUCT_HEADER)?,
        digest: value("digest")?,
    };
    Some(SentCallback { components, body: sent.body.clone() })
}
