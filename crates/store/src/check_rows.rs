//! Checks and their callbacks, from rows and into rows.

use ringtrue_domain::{
    lifecycle::{
        AnyCheck, Check, CheckId, ClaimedNumber, DiscoveredNumber, Lifecycle, NumberHash, Open, Outcome, Sealed, Status,
    },
    product::Product,
    reverse_sms::SenderMatch,
    silent::Proof,
    sim_swap::SimSwap,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    AttemptLog, CallbackRecord, CallbackState, LeasedCallback, NewCheck, StoreError, Then, UsageCount,
};

use crate::row::{Columns, Row};

macro_rules! check_columns {
    () => {
        "id, project_id, created_at, expires_at, pending_at, concluded_at, product, mode, status, matched, error_code, \
         network_id, number_hash, number_tail, number_sealed, reference_id, callback_url, redirect_url, \
         swap_covered, swap_within"
    };
}
pub(crate) use check_columns;

pub(crate) fn check(row: Row) -> Result<AnyCheck, StoreError> {
    check_and_rest(row).map(|(check, _)| check)
}

/// A check, and the columns that come after its own.
pub(crate) fn check_and_rest(row: Row) -> Result<(AnyCheck, Columns), StoreError> {
    let mut row = row.of("checks");
    let (id, project) = (CheckId(row.uuid("id")?), ProjectId(row.uuid("project_id")?));
    let (created_at, expires_at) = (row.instant("created_at")?, row.instant("expires_at")?);
    let (pending_at, concluded_at) = (row.instant_or_null("pending_at")?, row.instant_or_null("concluded_at")?);
    let (product, mode, status) = (row.parsed("product")?, row.parsed("mode")?, row.parsed("status")?);
    let (matched, error_code) = (row.boolean_or_null("matched")?, row.parsed_or_null("error_code")?);
    let (network, claimed) = (row.parsed_or_null("network_id")?, claimed(&mut row)?);
    let sealed = row.bytes_or_null("number_sealed")?.map(Sealed);
    let reference = row.parsed_or_null("reference_id")?;
    let callback_url = row.bytes_or_null("callback_url")?.map(Sealed);
    let redirect_url = row.bytes_or_null("redirect_url")?.map(Sealed);
    let (covered, within) = (minutes(&mut row, "swap_covered")?, minutes(&mut row, "swap_within")?);
    let state = match (status, pending_at, concluded_at, error_code) {
        (Status::Accepted, None, None, None) => Lifecycle::Open(Open::Accepted),
        (Status::Pending, Some(since), None, None) => Lifecycle::Open(Open::Pending { since }),
        (Status::Completed, _, Some(at), None) => {
            let verdict = match (product, matched) {
                (Product::SimSwap, Some(no_sim_change)) => {
                    let covered = covered.ok_or_else(|| row.inconsistent("swap_covered", "missing"))?;
                    SimSwap { no_sim_change, covered, change_within: within }.into()
                }
                (Product::ReverseSms, Some(matched)) => SenderMatch(matched).into(),
                (Product::SecureSna, Some(matched)) => Proof::Match(matched).into(),
                (Product::Discovery, None) => Proof::Number(DiscoveredNumber { number: claimed, sealed }).into(),
                _ => return Err(row.inconsistent("matched", "not a verdict of its product")),
            };
            Lifecycle::Concluded { outcome: Outcome::Completed(verdict), at }
        }
        (Status::Expired, _, Some(at), None) => Lifecycle::Concluded { outcome: Outcome::Expired, at },
        (Status::Error, _, Some(at), Some(code)) => Lifecycle::Concluded { outcome: Outcome::Error(code), at },
        _ => return Err(row.inconsistent("status", "disagrees with other columns")),
    };
    let check = Check {
        id,
        project,
        product,
        mode,
        network,
        claimed: claimed.filter(|_| product != Product::Discovery),
        reference,
        callback_url,
        redirect_url,
        created_at,
        expires_at,
        state,
    };
    Ok((check, row))
}

/// Of the checks that a text may be meant for, the first that still waits; an ended one only if none does. People send
/// an old code along with the new one.
pub(crate) fn open_or_first(
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

fn minutes(row: &mut Columns, column: &'static str) -> Result<Option<u32>, StoreError> {
    let minutes = row.int_or_null(column)?.map(u32::try_from).transpose();
    minutes.map_err(|_| row.inconsistent(column, "not minutes"))
}

fn claimed(row: &mut Columns) -> Result<Option<ClaimedNumber>, StoreError> {
    let hash = row.bytes_or_null("number_hash")?;
    match (hash, row.parsed_or_null("number_tail")?) {
        (None, _) => Ok(None),
        (Some(hash), Some(tail)) => {
            let hash = hash.try_into().map_err(|_| row.inconsistent("number_hash", "not 32 bytes"))?;
            Ok(Some(ClaimedNumber { hash: NumberHash(hash), tail }))
        }
        (Some(_), None) => Err(row.inconsistent("number_tail", "a hash has a tail")),
    }
}

macro_rules! leased_columns {
    () => {
        // A missing check counts as a sandbox one: nothing may pass for a live callback by accident.
        "check_id, project_id, product, url, body, failed_attempts, earlier_attempts, \
         coalesce((select mode from checks where checks.id = callbacks.check_id), 'sandbox')"
    };
}
pub(crate) use leased_columns;

pub(crate) fn leased(row: Row) -> Result<LeasedCallback, StoreError> {
    let mut row = row.of("callbacks");
    Ok(LeasedCallback {
        check: CheckId(row.uuid("check_id")?),
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        url: Sealed(row.bytes("url")?),
        body: Sealed(row.bytes("body")?),
        failed_attempts: count(&mut row, "failed_attempts")?,
        earlier_attempts: count(&mut row, "earlier_attempts")?,
        mode: row.parsed("mode")?,
    })
}

fn count(row: &mut Columns, column: &str) -> Result<u32, StoreError> {
    let attempts = row.int(column)?;
    u32::try_from(attempts).map_err(|_| row.inconsistent(column, "not a count"))
}

macro_rules! callback_columns {
    () => {
        "check_id, project_id, product, url, body, state, due_at"
    };
}
pub(crate) use callback_columns;

/// A callback without its attempts, and whose it is.
pub(crate) fn callback(row: Row) -> Result<(ProjectId, CallbackRecord), StoreError> {
    let mut row = row.of("callbacks");
    let (check, project) = (CheckId(row.uuid("check_id")?), ProjectId(row.uuid("project_id")?));
    let product = row.parsed("product")?;
    let (url, body) = (Sealed(row.bytes("url")?), row.bytes_or_null("body")?.map(Sealed));
    let state = row.text("state")?;
    let state = match (state.as_str(), row.instant_or_null("due_at")?) {
        (WAITING, Some(due_at)) => CallbackState::Waiting { due_at },
        (DELIVERED, None) => CallbackState::Delivered,
        (GIVEN_UP, None) => CallbackState::GivenUp,
        _ => return Err(row.inconsistent("state", "not a state")),
    };
    Ok((project, CallbackRecord { check, product, url, body, state, attempts: Vec::new() }))
}

pub(crate) const WAITING: &str = "waiting";
pub(crate) const DELIVERED: &str = "delivered";
pub(crate) const GIVEN_UP: &str = "given_up";

/// State, failed attempts and `due_at` of a callback after an attempt.
pub(crate) fn after_attempt(attempt: u32, then: Then) -> (&'static str, i64, Option<i64>) {
    let attempt = i64::from(attempt);
    match then {
        Then::Delivered => (DELIVERED, attempt - 1, None),
        Then::RetryAt(at) => (WAITING, attempt, Some(at.as_millisecond())),
        Then::GivenUp => (GIVEN_UP, attempt, None),
    }
}

macro_rules! attempt_columns {
    () => {
        "check_id, attempt, started_at, ended_at, status, failure, exchange"
    };
}
pub(crate) use attempt_columns;

/// An attempt and its number.
pub(crate) fn attempt(row: Row) -> Result<(u32, AttemptLog), StoreError> {
    let mut row = row.of("callback_attempts");
    row.uuid("check_id")?;
    let number = count(&mut row, "attempt")?;
    let log = AttemptLog {
        started_at: row.instant("started_at")?,
        ended_at: row.instant("ended_at")?,
        status: {
            let status = row.int_or_null("status")?.map(u16::try_from).transpose();
            status.map_err(|_| row.inconsistent("status", "not a status"))?
        },
        failure: row.text_or_null("failure")?,
        exchange: row.bytes_or_null("exchange")?.map(Sealed),
    };
    Ok((number, log))
}

/// Whether checks of a product have a journey beside them.
pub(crate) fn has_device(product: Product) -> bool {
    matches!(product, Product::SecureSna | Product::Discovery)
}

/// The count of a new check.
pub(crate) fn count_of(new: &NewCheck) -> UsageCount {
    UsageCount {
        project: new.check.project,
        product: new.check.product,
        at: new.check.created_at,
        status: Status::Accepted,
        matched: None,
        network: new.check.network.clone(),
        change: 1,
    }
}
