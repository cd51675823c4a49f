//! Maps rows of checks, verifications and callbacks to domain types and back.

use ringtrue_domain::{
    lifecycle::{
        AnyCheck, Check, CheckId, CheckOutcome, CheckStatus, DiscoveredNumber, Lifecycle, NumberHash, OpenState,
        Sealed, StoredNumber,
    },
    product::Product,
    reverse_sms::SenderMatch,
    silent::OperatorVerdict,
    sim_swap::{SimSwapPeriod, SimSwapVerdict},
    tenancy::{Mode, ProjectId},
    verification::{Method, Progress, Step, StepState, VerificationVerdict},
};
use ringtrue_engine::ports::{
    callbacks::{AttemptOutcome, AttemptRecord, CallbackRecord, CallbackState, LeasedCallback},
    hashes::{BrowserHash, TokenHash},
    silent::{BegunRedirect, RedirectSession, RedirectSessionRecord, SealedVerdict},
    store::StoreError,
    verifications::{ListedProgress, PageOpening, VerificationRecord},
};
use serde::{Deserialize, Serialize};

use crate::{
    row::{Row, RowReader},
    row_mapping::to_json,
};

macro_rules! check_columns {
    () => {
        "id, project_id, created_at, expires_at, pending_at, concluded_at, product, mode, status, matched, error_code, \
         network_id, number_hash, number_tail, number_sealed, reference_id, callback_url, redirect_url, \
         swap_covered, swap_within, verification_id, method, no_sim_change"
    };
}
pub(crate) use check_columns;

pub(crate) fn check_from_row(row: Row) -> Result<AnyCheck, StoreError> {
    check_and_rest_from_row(row).map(|(check, _)| check)
}

/// Reads a check. Also returns the reader, whose next column is the first one after those of the check.
fn check_and_rest_from_row(row: Row) -> Result<(AnyCheck, RowReader), StoreError> {
    let mut row = row.reader("checks");
    let (id, project) = (CheckId(row.uuid("id")?), ProjectId(row.uuid("project_id")?));
    let (created_at, expires_at) = (row.instant("created_at")?, row.instant("expires_at")?);
    let (pending_at, concluded_at) = (row.instant_or_null("pending_at")?, row.instant_or_null("concluded_at")?);
    let (product, mode, status) = (row.parsed("product")?, row.parsed("mode")?, row.parsed("status")?);
    let (matched, error_code) = (row.boolean_or_null("matched")?, row.parsed_or_null("error_code")?);
    let (network, claimed) = (row.parsed_or_null("network_id")?, claimed_number(&mut row)?);
    let sealed = row.bytes_or_null("number_sealed")?.map(Sealed);
    let reference = row.parsed_or_null("reference_id")?;
    let callback_url = row.bytes_or_null("callback_url")?.map(Sealed);
    let redirect_url = row.bytes_or_null("redirect_url")?.map(Sealed);
    let (covered, within) = (minutes(&mut row, "swap_covered")?, minutes(&mut row, "swap_within")?);
    let verification = row.uuid_or_null("verification_id")?.map(CheckId);
    let (method, no_sim_change) = (row.parsed_or_null("method")?, row.boolean_or_null("no_sim_change")?);
    let state = match (status, pending_at, concluded_at, error_code) {
        (CheckStatus::Accepted, None, None, None) => Lifecycle::Open(OpenState::Accepted),
        (CheckStatus::Pending, Some(since), None, None) => Lifecycle::Open(OpenState::Pending { since }),
        (CheckStatus::Completed, _, Some(at), None) => {
            let verdict = match (product, matched) {
                (Product::SimSwap, Some(no_sim_change)) => {
                    let covered = covered.ok_or_else(|| row.corrupt("swap_covered", "missing"))?;
                    SimSwapVerdict { no_sim_change, covered_minutes: covered, changed_within_minutes: within }.into()
                }
                (Product::ReverseSms, Some(matched)) => SenderMatch(matched).into(),
                (Product::SecureSna, Some(matched)) => OperatorVerdict::Match(matched).into(),
                (Product::Verification, Some(matched)) => {
                    let method = method.ok_or_else(|| row.corrupt("method", "missing"))?;
                    VerificationVerdict { matched, method, no_sim_change }.into()
                }
                (Product::Discovery, None) => {
                    OperatorVerdict::Number(DiscoveredNumber { number: claimed, sealed }).into()
                }
                _ => return Err(row.corrupt("matched", "not a verdict of the product")),
            };
            Lifecycle::Concluded { outcome: CheckOutcome::Completed(verdict), at }
        }
        (CheckStatus::Expired, _, Some(at), None) => Lifecycle::Concluded { outcome: CheckOutcome::Expired, at },
        (CheckStatus::Error, _, Some(at), Some(code)) => {
            Lifecycle::Concluded { outcome: CheckOutcome::Error(code), at }
        }
        _ => return Err(row.corrupt("status", "contradicts other columns")),
    };
    let check = Check {
        id,
        project,
        product,
        mode,
        verification,
        network,
        claimed: claimed.filter(|_| product.facts().takes_number),
        reference,
        callback_url,
        redirect_url,
        created_at,
        expires_at,
        state,
    };
    Ok((check, row))
}

/// Columns of a redirect session, for statements that select them after the columns of its check.
macro_rules! redirect_session_columns {
    () => {
        "redirect_sessions.input, redirect_sessions.state_hash, redirect_sessions.began_at, redirect_sessions.browser_hash, \
         redirect_sessions.code_hash, redirect_sessions.verdict, redirect_sessions.wrong_codes"
    };
}
pub(crate) use redirect_session_columns;

/// Reads a check and, if the check has one, its redirect session. Also returns the reader. If there is a session, the
/// reader continues with the column after those of the session.
pub(crate) fn redirect_session_from_row(row: Row) -> Result<(RedirectSessionRecord, RowReader), StoreError> {
    let (check, mut row) = check_and_rest_from_row(row)?;
    let Some(input) = row.bytes_or_null("input")?.map(Sealed) else {
        return Ok((RedirectSessionRecord { check, session: None }, row));
    };
    let state_hash = row.digest_or_null("state_hash")?.map(TokenHash);
    let (began_at, browser) = (row.instant_or_null("began_at")?, browser_hash(&mut row)?);
    let last_redirect = began_at.map(|at| BegunRedirect { at, browser });
    let verdict = match (row.digest_or_null("code_hash")?, row.bytes_or_null("verdict")?) {
        (Some(code), Some(verdict)) => Some(SealedVerdict { code_hash: TokenHash(code), verdict: Sealed(verdict) }),
        (None, None) => None,
        _ => return Err(row.corrupt("verdict", "requires a code hash")),
    };
    let wrong_codes = row.count("wrong_codes")?;
    let session = RedirectSession { input, state_hash, last_redirect, verdict, wrong_codes };
    Ok((RedirectSessionRecord { check, session: Some(session) }, row))
}

fn browser_hash(row: &mut RowReader) -> Result<Option<BrowserHash>, StoreError> {
    let bytes = row.bytes_or_null("browser_hash")?.map(<[u8; BrowserHash::BYTES]>::try_from);
    let hash = bytes.transpose().map_err(|_| row.corrupt("browser_hash", "not a hash"))?;
    Ok(hash.map(BrowserHash))
}

/// Chooses among the checks whose codes an SMS contains: returns the first open check, or the first check if none is
/// open. An SMS may contain an old code besides the current one.
pub(crate) fn prefer_open_check(
    checks: impl Iterator<Item = Result<AnyCheck, StoreError>>,
) -> Result<Option<AnyCheck>, StoreError> {
    let mut first = None;
    for check in checks {
        let check = check?;
        if matches!(check.state, Lifecycle::Open(_)) {
            return Ok(Some(check));
        }
        first.get_or_insert(check);
    }
    Ok(first)
}

fn minutes(row: &mut RowReader, column: &'static str) -> Result<Option<u32>, StoreError> {
    let minutes = row.int_or_null(column)?.map(u32::try_from).transpose();
    minutes.map_err(|_| row.corrupt(column, "not minutes"))
}

fn claimed_number(row: &mut RowReader) -> Result<Option<StoredNumber>, StoreError> {
    match (row.digest_or_null("number_hash")?, row.parsed_or_null("number_tail")?) {
        (None, _) => Ok(None),
        (Some(hash), Some(tail)) => Ok(Some(StoredNumber { hash: NumberHash(hash), tail })),
        (Some(_), None) => Err(row.corrupt("number_tail", "missing for a number hash")),
    }
}

macro_rules! leased_columns {
    () => {
        "check_id, project_id, product, created_at, url, body, failed_attempts, earlier_attempts"
    };
}
pub(crate) use leased_columns;

pub(crate) fn leased_callback_from_row(row: Row, mode: impl Fn(CheckId) -> Mode) -> Result<LeasedCallback, StoreError> {
    let mut row = row.reader("callbacks");
    let check = CheckId(row.uuid("check_id")?);
    Ok(LeasedCallback {
        check,
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        created_at: row.instant("created_at")?,
        url: Sealed(row.bytes("url")?),
        body: Sealed(row.bytes("body")?),
        failed_attempts: row.count("failed_attempts")?,
        earlier_attempts: row.count("earlier_attempts")?,
        mode: mode(check),
    })
}

macro_rules! callback_columns {
    () => {
        "check_id, project_id, product, url, body, state, due_at"
    };
}
pub(crate) use callback_columns;

/// Reads a callback without its attempts. Also returns the id of its project.
pub(crate) fn callback_from_row(row: Row) -> Result<(ProjectId, CallbackRecord), StoreError> {
    let mut row = row.reader("callbacks");
    let (check, project) = (CheckId(row.uuid("check_id")?), ProjectId(row.uuid("project_id")?));
    let product = row.parsed("product")?;
    let (url, body) = (Sealed(row.bytes("url")?), row.bytes_or_null("body")?.map(Sealed));
    let state = callback_state(&mut row)?;
    Ok((project, CallbackRecord { check, product, url, body, state, attempts: Vec::new() }))
}

/// Reads the state of a callback from the columns `state` and `due_at`.
pub(crate) fn callback_state(row: &mut RowReader) -> Result<CallbackState, StoreError> {
    let state = row.text("state")?;
    match (state.as_str(), row.instant_or_null("due_at")?) {
        (STATE_WAITING, Some(due_at)) => Ok(CallbackState::Waiting { due_at }),
        (STATE_DELIVERED, None) => Ok(CallbackState::Delivered),
        (STATE_GIVEN_UP, None) => Ok(CallbackState::GivenUp),
        _ => Err(row.corrupt("state", "not a state")),
    }
}

pub(crate) const STATE_WAITING: &str = "waiting";
pub(crate) const STATE_DELIVERED: &str = "delivered";
pub(crate) const STATE_GIVEN_UP: &str = "given_up";

/// Returns the values of the columns `state`, `failed_attempts` and `due_at` after an attempt.
pub(crate) fn columns_after_attempt(attempt: u32, outcome: AttemptOutcome) -> (&'static str, i64, Option<i64>) {
    let attempt = i64::from(attempt);
    match outcome {
        AttemptOutcome::Delivered => (STATE_DELIVERED, attempt - 1, None),
        AttemptOutcome::RetryAt(at) => (STATE_WAITING, attempt, Some(at.as_millisecond())),
        AttemptOutcome::GivenUp => (STATE_GIVEN_UP, attempt, None),
    }
}

macro_rules! attempt_columns {
    () => {
        "check_id, attempt, started_at, ended_at, status, failure, exchange"
    };
}
pub(crate) use attempt_columns;

/// Reads a delivery attempt of a callback, and returns it with its number.
pub(crate) fn attempt_from_row(row: Row) -> Result<(u32, AttemptRecord), StoreError> {
    let mut row = row.reader("callback_attempts");
    row.uuid("check_id")?;
    let number = row.count("attempt")?;
    let log = AttemptRecord {
        started_at: row.instant("started_at")?,
        ended_at: row.instant("ended_at")?,
        status: {
            let status = row.int_or_null("status")?.map(u16::try_from).transpose();
            status.map_err(|_| row.corrupt("status", "not a status"))?
        },
        failure: row.text_or_null("failure")?,
        exchange: row.bytes_or_null("exchange")?.map(Sealed),
    };
    Ok((number, log))
}

/// Columns of a verification, for statements that select them after the columns of its check.
macro_rules! verification_columns {
    () => {
        "verifications.step_id, verifications.progress, verifications.input, verifications.code_redeemed_at, \
         verifications.code_hash, verifications.locale, verifications.opened_at, verifications.opened_on"
    };
}
pub(crate) use verification_columns;

/// Reads a verification, whose columns follow those of its check.
pub(crate) fn verification_from_row(row: Row) -> Result<VerificationRecord, StoreError> {
    let (check, mut row) = check_and_rest_from_row(row)?;
    Ok(VerificationRecord {
        check,
        step: CheckId(row.uuid("step_id")?),
        progress: parse_progress_column(&mut row)?,
        input: row.bytes_or_null("input")?.map(Sealed),
        code_redeemed_at: row.instant_or_null("code_redeemed_at")?,
        code_hash: row.digest_or_null("code_hash")?.map(TokenHash),
        locale: row.parsed_or_null("locale")?,
        opening: match (row.instant_or_null("opened_at")?, row.parsed_or_null("opened_on")?) {
            (Some(at), Some(platform)) => Some(PageOpening { at, platform }),
            _ => None,
        },
    })
}

/// Reads the id and the progress of a verification, and the status of its current step.
pub(crate) fn progress_from_row(row: Row) -> Result<ListedProgress, StoreError> {
    let mut row = row.reader("verifications");
    Ok(ListedProgress {
        verification: CheckId(row.uuid("check_id")?),
        progress: parse_progress_column(&mut row)?,
        step_status: row.parsed_or_null("step_status")?,
    })
}

fn parse_progress_column(row: &mut RowReader) -> Result<Progress, StoreError> {
    let json: ProgressJson = row.json("progress")?;
    json.into_progress().map_err(|problem| row.corrupt("progress", problem))
}

/// The JSON in `verifications.progress`. It is part of the schema, and may change only in compatible ways.
#[derive(Serialize, Deserialize)]
struct ProgressJson {
    methods: Vec<String>,
    steps: Vec<StepJson>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    fall_back_on_mismatch: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sim_swap_period: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct StepJson {
    product: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<uuid::Uuid>,
    /// Status of the step's check. `ACCEPTED`: the step is still open.
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
}

pub(crate) fn progress_to_json(progress: &Progress) -> Result<String, StoreError> {
    let Progress { methods, steps, fall_back_on_mismatch, sim_swap_period } = progress;
    let step_to_json = |step: &Step| StepJson {
        product: step.product.to_string(),
        check: step.check.map(|check| check.0),
        status: step.state.ended_status().unwrap_or(CheckStatus::Accepted).into_str().to_owned(),
        matched: match step.state {
            StepState::Completed { matched } => Some(matched),
            _ => None,
        },
        error_code: step.state.error_code().map(|code| code.to_string()),
    };
    to_json(&ProgressJson {
        methods: methods.iter().map(ToString::to_string).collect(),
        steps: steps.iter().map(step_to_json).collect(),
        fall_back_on_mismatch: *fall_back_on_mismatch,
        sim_swap_period: sim_swap_period.map(SimSwapPeriod::minutes),
    })
}

impl ProgressJson {
    fn into_progress(self) -> Result<Progress, &'static str> {
        let methods = self.methods.iter().map(|name| name.parse::<Method>().map_err(|_| "not a method"));
        let period = self.sim_swap_period.map(|minutes| SimSwapPeriod::try_from(i64::from(minutes)));
        Ok(Progress {
            methods: methods.collect::<Result<_, _>>()?,
            steps: self.steps.into_iter().map(StepJson::into_step).collect::<Result<_, _>>()?,
            fall_back_on_mismatch: self.fall_back_on_mismatch,
            sim_swap_period: period.transpose().map_err(|_| "not a period")?,
        })
    }
}

impl StepJson {
    fn into_step(self) -> Result<Step, &'static str> {
        let status: CheckStatus = self.status.parse().map_err(|_| "not a status")?;
        let error_code = self.error_code.map(|code| code.parse()).transpose().map_err(|_| "not an error code")?;
        let state = match (status, self.matched, error_code) {
            (CheckStatus::Accepted, None, None) => StepState::Open,
            (CheckStatus::Completed, Some(matched), None) => StepState::Completed { matched },
            (CheckStatus::Expired, None, None) => StepState::Expired,
            (CheckStatus::Error, None, Some(code)) => StepState::Error(code),
            _ => return Err("the status of a step contradicts its other members"),
        };
        let product = self.product.parse().map_err(|_| "not a product")?;
        Ok(Step { product, check: self.check.map(CheckId), state })
    }
}
