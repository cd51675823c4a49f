//! A callback that a receiver could not verify, examined for its project: what it pasted is held against what was sent.

use ringtrue_domain::{
    key_schedule::KeyState,
    lifecycle::CheckId,
    tenancy::{Project, ProjectId},
};
use serde::Deserialize;

use super::{
    Attempt, CallbackLog, Sent,
    signature::{
        ATTEMPT_HEADER, SOURCE_HEADER,
        diagnosis::{Diagnosis, Evidence, NotARequest, Original, Parts, Pasted, diagnose_pasted, place_of},
    },
};
use crate::{Engine, checks::ReadError, keys::PublicKey, ports::StoreError};

/// A request as somebody pasted it, with where it was sent to, if they say so.
#[derive(Clone, Copy)]
pub struct Paste<'a> {
    pub request: &'a str,
    pub url: Option<&'a str>,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Examination {
    pub diagnosis: Diagnosis,
    /// The check of the project that the body names.
    pub check: Option<CheckId>,
    /// Which attempt it was compared with, counted from 1. `None`: nothing that was sent is known.
    pub attempt: Option<u32>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExaminationError {
    #[error(transparent)]
    Request(#[from] NotARequest),
    #[error("the URL is not one that callbacks are sent to, such as https://example.com/callbacks")]
    Url,
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Deserialize)]
struct Body {
    check_id: String,
}

impl Engine {
    /// Finds out why the receiver of a project does not trust a callback.
    pub async fn examine_callback(&self, project: &Project, paste: Paste<'_>) -> Result<Examination, ExaminationError> {
        let place = paste.url.map(|url| place_of(url).ok_or(ExaminationError::Url)).transpose()?;
        let pasted = Pasted::parse(paste.request, place.as_ref().map(|(_, target)| target.as_str()))?;
        let check =
            serde_json::from_slice(&lenient(pasted.body())).ok().and_then(|body: Body| body.check_id.parse().ok());
        let log = match check {
            Some(check) => self.log_of(project.id, check).await?,
            None => None,
        };
        let found = log.as_ref().and_then(|log| sent_attempt(log, &pasted));
        let original = found.and_then(|(_, sent)| original(sent));

        let now = self.clock().now();
        let ring = self.control_plane().keys();
        let keys = |is_wanted: fn(KeyState) -> bool| -> Vec<PublicKey> {
            let wanted = ring.callback_keys().filter(|(_, schedule, _)| is_wanted(schedule.state(now)));
            wanted.map(|(_, _, public)| public.clone()).collect()
        };
        let known_url = log.as_ref().and_then(|log| log.url.as_deref()).and_then(place_of);
        let (hosts, targets): (Vec<_>, Vec<_>) = place.into_iter().chain(known_url).unzip();
        let evidence = Evidence {
            keys: &keys(|state| state != KeyState::Gone),
            retired: &keys(|state| state == KeyState::Gone),
            mode: project.mode,
            now,
            hosts: &hosts,
            targets: &targets,
            sent: original.as_ref(),
        };
        let attempt = original.as_ref().and(found).map(|(number, _)| number);
        let diagnosis = diagnose_pasted(&pasted, &evidence);
        Ok(Examination { diagnosis, check: check.filter(|_| log.is_some()), attempt })
    }

    /// Another project's callback is as unknown as one that never was.
    async fn log_of(&self, project: ProjectId, check: CheckId) -> Result<Option<CallbackLog>, StoreError> {
        match self.callback_log(project, check).await {
            Ok(log) => Ok(log),
            Err(ReadError::Store(error)) => Err(error),
            Err(ReadError::NotYours | ReadError::NotFound) => Ok(None),
        }
    }
}

/// What comes before and after the JSON is part of the damage, and does not hide which check it is about.
fn lenient(body: &[u8]) -> Vec<u8> {
    let begin = body.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let end = body.iter().rposition(|byte| *byte == b'}').map_or(body.len(), |at| at + 1);
    body.get(begin..end).unwrap_or_default().to_vec()
}

/// The attempt that was pasted: that with its date, or its number, or else the last.
fn sent_attempt<'a>(log: &'a CallbackLog, pasted: &Pasted) -> Option<(u32, &'a Sent)> {
    let sent = |attempt: &'a Attempt| Some((attempt.number, &attempt.exchange.as_ref()?.sent));
    let all: Vec<_> = log.attempts.iter().filter_map(sent).collect();
    let with = |name: &str| {
        let wanted = pasted.header(name)?;
        let has_it = |(_, sent): &&(u32, &Sent)| header(sent, name) == Some(&wanted);
        all.iter().rev().find(has_it).copied()
    };
    with("date").or_else(|| with(ATTEMPT_HEADER)).or_else(|| all.last().copied())
}

fn header<'a>(sent: &'a Sent, wanted: &str) -> Option<&'a str> {
    sent.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
}

fn original(sent: &Sent) -> Option<Original> {
    let value = |name| header(sent, name).map(str::to_owned);
    let (_, target) = place_of(&sent.url)?;
    let parts = Parts {
        method: "POST".to_owned(),
        target,
        host: value("host")?,
        date: value("date")?,
        source: value(SOURCE_HEADER)?,
        digest: value("digest")?,
    };
    Some(Original { parts, body: sent.body.clone() })
}

/// Masked: it holds whatever somebody copied.
impl std::fmt::Debug for Paste<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Paste({} bytes)", self.request.len())
    }
}
