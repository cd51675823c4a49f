//! Implements the batched operations, each for one caller. An operation may read before it writes: only the writer
//! thread writes, so nothing changes in between.

use ringtrue_domain::{
    lifecycle::{CheckConclusion, CheckId, Reference},
    phone::Msisdn,
    verification::Locale,
};
use ringtrue_engine::ports::{
    callbacks::{AttemptSettlement, MAX_LOGGED_ATTEMPTS},
    checks::{ConcludeOutcome, CreateCheckOutcome},
    hashes::TokenHash,
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotentResponse},
    sign_in::{EndedSignIn, SignInRecord, SignInSession},
    silent::BeginRedirect,
    store::StoreError,
};

use super::{
    Sqlite,
    batch_transaction::{BatchTransaction, WriteOp},
};
use crate::{
    check_row_mapping::{self, check_columns, redirect_session_columns},
    driver::{Database, TransactionEnd, work},
    operation::{
        CheckRow, ConcludeCheck, FindCheck, InsertCheck, OpenCheck, RedirectOperation, Run, SignInEndColumns,
        SignInOperation, number_limit, open_check_columns, redirect_usage_changes,
    },
    queries::idempotency::{IdempotencyKey, claim_lost_error, idempotency_key_columns, store_response_sql},
    row::{Row, values},
};

impl WriteOp for InsertCheck {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<CreateCheckOutcome>, StoreError> {
        if let Some(refused) = check_number_limit(tx, self)? {
            return Ok(TransactionEnd::Rollback(refused));
        }
        store_response(tx, self.idempotent_response.as_ref())?;
        if self.expectation.is_some() {
            for row in self.rows() {
                insert_open_check(tx, row)?;
                tx.defer_counts([row.usage()]);
            }
        } else {
            tx.defer_insert(self);
            tx.defer_counts([self.row().usage()]);
        }
        if let Some(verification) = &self.verification {
            tx.execute(
                "insert into verifications (check_id, step_id, progress, input, locale) values ($1, $2, $3, $4, $5)",
                values![
                    verification.check.id,
                    self.check.id,
                    check_row_mapping::progress_to_json(&verification.progress)?,
                    &verification.input,
                    verification.locale.as_ref().map(Locale::as_str),
                ],
            )?;
        }
        Ok(TransactionEnd::Commit(CreateCheckOutcome::Created))
    }
}

/// Stores the response of a request with an idempotency key. Fails if another request has taken over the claim on the
/// key.
fn store_response(tx: &mut BatchTransaction<'_>, response: Option<&IdempotentResponse>) -> Result<(), StoreError> {
    let Some(response) = response else { return Ok(()) };
    let stored = tx.execute(
        store_response_sql!(),
        values![response.sealed_response.as_slice(), response.tenant, response.key_digest, response.claim_id],
    )?;
    if stored == 0 { Err(claim_lost_error()) } else { Ok(()) }
}

/// Applies the limit of checks per number, for the check's project and product. `None`: the check is within the limit.
fn check_number_limit(
    tx: &mut BatchTransaction<'_>,
    new: &InsertCheck,
) -> Result<Option<CreateCheckOutcome>, StoreError> {
    let (Some(claimed), Some(limit)) = (new.check.claimed, new.number_limit) else { return Ok(None) };
    let at = new.check.created_at;
    let rows = tx.query(
        "select created_at from checks where number_hash = $1 and project_id = $2 and created_at > $3 and product = $4
          order by created_at desc limit $5",
        values![
            claimed.hash,
            new.check.project,
            at.as_millisecond() - number_limit::window_millis(limit),
            new.check.product.into_str(),
            i64::from(limit.max_checks),
        ],
    )?;
    let mut instants =
        rows.into_iter().map(|row| row.reader("checks").int("created_at")).collect::<Result<Vec<_>, _>>()?;
    instants.reverse();
    let blocked = number_limit::blocked_until(limit, &instants).filter(|until| at < *until);
    Ok(blocked.map(|retry_at| CreateCheckOutcome::TooManyChecks { retry_at }))
}

fn insert_open_check(tx: &mut BatchTransaction<'_>, new: CheckRow<'_>) -> Result<(), StoreError> {
    let check = new.check;
    if let Some(input) = new.silent_input() {
        let insert = "insert into redirect_sessions (check_id, input, wrong_codes) values ($1, $2, 0)";
        tx.execute(insert, values![check.id, input])?;
    }
    let (receiver, code) = new.expected_sms().unzip();
    tx.execute(
        "insert into checks (id, project_id, created_at, expires_at, product, mode, status, network_id, receiver,
                             number_hash, number_tail, reference_id, callback_url, code_hash, redirect_url,
                             verification_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
        values![
            check.id,
            check.project,
            check.created_at,
            check.expires_at,
            check.product.into_str(),
            check.mode.into_str(),
            check.status().into_str(),
            check.network.as_ref(),
            receiver.map(Msisdn::as_str),
            check.claimed.map(|claimed| claimed.hash),
            check.claimed.map(|claimed| claimed.tail.to_string()),
            check.reference.as_ref().map(Reference::as_str),
            check.callback_url.as_ref(),
            code.copied(),
            check.redirect_url.as_ref(),
            check.verification,
        ],
    )?;
    if let Some(due_at) = new.deadline {
        tx.execute("insert into deadlines (due_at, check_id) values ($1, $2)", values![due_at, check.id])?;
    }
    Ok(())
}

impl WriteOp for ConcludeCheck {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<ConcludeOutcome>, StoreError> {
        let conclusion = &self.conclusion;
        let open = concat!("select ", open_check_columns!(), " from checks where id = $1 and concluded_at is null");
        let Some(row) = tx.query_first(open, values![conclusion.check])? else {
            return Ok(TransactionEnd::Rollback(ConcludeOutcome::AlreadyConcluded));
        };
        let before = OpenCheck::from_row(row)?;
        update_concluded(tx, conclusion)?;
        let delete = "delete from deadlines where due_at = $1 and check_id = $2";
        tx.execute(delete, values![before.expires_at, conclusion.check])?;
        if conclusion.product.facts().is_silent {
            tx.execute("delete from redirect_sessions where check_id = $1", values![conclusion.check])?;
        }
        if let Some(callback) = &self.callback {
            tx.execute(
                "insert into callbacks
                        (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body)
                 values ($1, $2, $3, $4, 0, 'waiting', $5, $6, $7)",
                values![
                    conclusion.check,
                    conclusion.project,
                    conclusion.at,
                    callback.due_at,
                    conclusion.product.into_str(),
                    &callback.url,
                    &callback.body,
                ],
            )?;
        }
        tx.defer_counts(self.usage_changes(&before));
        Ok(TransactionEnd::Commit(ConcludeOutcome::Concluded { was_pending: before.was_pending }))
    }
}

/// Stores how a check ended.
///
/// Three indexes depend on the columns of the number. `SQLite` rewrites them whenever an update sets these columns, even
/// to the same values. Only Discovery changes the number, in an update of its own.
fn update_concluded(tx: &mut BatchTransaction<'_>, conclusion: &CheckConclusion) -> Result<(), StoreError> {
    tx.execute(
        "update checks
            set concluded_at = $1, status = $2, matched = $3, error_code = $4, connector = coalesce($5, connector),
                way = $6, wallet_failure = $7
          where id = $8",
        values![
            conclusion.at,
            conclusion.status.into_str(),
            conclusion.matched,
            conclusion.error_code.map(|code| code.into_str()),
            conclusion.provenance.connector.as_deref(),
            conclusion.provenance.way.map(|way| way.into_str()),
            conclusion.provenance.wallet_failure.map(|failure| failure.into_str()),
            conclusion.check,
        ],
    )?;
    if let Some(discovered) = &conclusion.discovered {
        let number = discovered.number;
        tx.execute(
            "update checks
                set number_hash = coalesce($1, number_hash), number_tail = coalesce($2, number_tail),
                    number_sealed = $3
              where id = $4",
            values![
                number.map(|number| number.hash),
                number.map(|number| number.tail.to_string()),
                discovered.sealed.as_ref(),
                conclusion.check,
            ],
        )?;
    }
    Ok(())
}

impl Run<FindCheck> for Sqlite {
    async fn run(&self, find: FindCheck) -> Result<Vec<Option<Row>>, StoreError> {
        match find {
            FindCheck::ById(id) => {
                let select = concat!("select ", check_columns!(), " from checks where id = $1");
                self.read(work!(|tx| Ok(vec![tx.first(select, values![id]).await?]))).await
            }
            FindCheck::ByCodes(codes) => {
                let select = concat!("select ", check_columns!(), " from checks where code_hash = $1");
                let read = self.read(work!(|tx| {
                    let mut rows = Vec::with_capacity(codes.len());
                    for code in codes {
                        rows.push(tx.first(select, values![code]).await?);
                    }
                    Ok(rows)
                }));
                read.await
            }
            FindCheck::WithRedirectSession(id) => {
                let select = concat!(
                    "select ",
                    check_columns!(),
                    ", ",
                    redirect_session_columns!(),
                    " from checks left join redirect_sessions on redirect_sessions.check_id = checks.id
                      where checks.id = $1"
                );
                Ok(vec![self.look_up(select, [id.into()]).await?])
            }
        }
    }
}

impl WriteOp for RedirectOperation {
    /// A consumed `state` and a taken verdict do not wait for the fsync. The client and the device get no response before
    /// the operator's answer is stored, and that commit makes both durable.
    fn waits_for_sync(&self) -> bool {
        !matches!(self, RedirectOperation::ConsumeState { .. } | RedirectOperation::TakeVerdict(_))
    }

    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<Option<Row>>, StoreError> {
        let changed = match self {
            RedirectOperation::Begin(redirect) => return begin_redirect(tx, redirect),
            RedirectOperation::ConsumeState { check, state_hash } => consume_state(tx, *check, *state_hash)?,
            RedirectOperation::TakeVerdict(check) => take_verdict(tx, *check)?,
            RedirectOperation::StoreVerdict { check, verdict } => {
                let update = "update redirect_sessions
                                 set code_hash = $1, verdict = $2, state_hash = null, pending_redirect = null
                               where check_id = $3 and code_hash is null";
                let updated = tx.execute(update, values![verdict.code_hash, &verdict.verdict, *check])?;
                (updated > 0).then(|| Row(Vec::new()))
            }
        };
        Ok(TransactionEnd::Commit(changed))
    }
}

fn begin_redirect(
    tx: &mut BatchTransaction<'_>,
    redirect: &BeginRedirect,
) -> Result<TransactionEnd<Option<Row>>, StoreError> {
    let BeginRedirect { check, network, state_hash, pending_redirect, browser, at } = redirect;
    let browser = browser.as_ref().map(|hash| &hash.0[..]);
    let before = tx.query_first(
        "select id, project_id, product, created_at, status, network_id from checks
          where id = $1 and status in ('ACCEPTED', 'PENDING')",
        values![*check],
    )?;
    let Some(before) = before else { return Ok(TransactionEnd::Rollback(None)) };
    let update = "update redirect_sessions set state_hash = $1, pending_redirect = $2, began_at = $3, browser_hash = $4
                   where check_id = $5 and code_hash is null";
    let updated = tx.execute(update, values![*state_hash, pending_redirect, *at, browser, *check])?;
    if updated == 0 {
        return Ok(TransactionEnd::Rollback(None));
    }
    if let Some(counts) = redirect_usage_changes(before, redirect)? {
        tx.execute(
            "update checks
                set pending_at = coalesce(pending_at, max($1, created_at)), status = 'PENDING', network_id = $2
              where id = $3",
            values![*at, network, *check],
        )?;
        tx.defer_counts(counts);
    }
    Ok(TransactionEnd::Commit(Some(Row(Vec::new()))))
}

/// Begins a statement that selects a check with its redirect session and the pending redirect.
macro_rules! select_session {
    () => {
        concat!(
            "select ",
            check_columns!(),
            ", ",
            redirect_session_columns!(),
            ", redirect_sessions.pending_redirect
               from checks join redirect_sessions on redirect_sessions.check_id = checks.id
              where checks.id = $1 "
        )
    };
}

fn consume_state(tx: &mut BatchTransaction<'_>, check: CheckId, state: TokenHash) -> Result<Option<Row>, StoreError> {
    let select = concat!(select_session!(), "and redirect_sessions.state_hash = $2");
    let found = tx.query_first(select, values![check, state])?;
    if found.is_some() {
        let update = "update redirect_sessions set state_hash = null, pending_redirect = null where check_id = $1";
        tx.execute(update, values![check])?;
    }
    Ok(found)
}

fn take_verdict(tx: &mut BatchTransaction<'_>, check: CheckId) -> Result<Option<Row>, StoreError> {
    let select = concat!(select_session!(), "and redirect_sessions.code_hash is not null");
    let found = tx.query_first(select, values![check])?;
    if found.is_some() {
        let update = "update redirect_sessions set code_hash = null, verdict = null where check_id = $1";
        tx.execute(update, values![check])?;
    }
    Ok(found)
}

impl WriteOp for SignInOperation {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        let written = match self {
            SignInOperation::Create(record) => create_sign_in(tx, record)?,
            SignInOperation::ReplaceCheck { id, from, to, number } => tx.execute(
                "update sign_ins set check_product = $1, check_id = $2, number = $3
                  where id = $4 and proof is null and error is null and check_id is $5",
                values![to.product.into_str(), to.id, number.as_ref(), id.0, *from],
            )?,
            SignInOperation::End(ended) => end_sign_in(tx, ended)?,
            SignInOperation::Redeem { id, at, expires_at } => tx.execute(
                "update sign_ins set redeemed_at = $1, expires_at = $2
                  where id = $3 and redeemed_at is null and code_expires_at > $1",
                values![*at, *expires_at, id.0],
            )?,
            SignInOperation::UseAssertion { assertion, expires_at } => tx.execute(
                "insert into used_assertions (assertion_hash, expires_at) values ($1, $2)
                 on conflict (assertion_hash) do nothing",
                values![*assertion, *expires_at],
            )?,
        };
        Ok(if written > 0 { TransactionEnd::Commit(true) } else { TransactionEnd::Rollback(false) })
    }
}

fn create_sign_in(tx: &mut BatchTransaction<'_>, record: &SignInRecord) -> Result<usize, StoreError> {
    let SignInEndColumns { proof, code_expires_at, error } = SignInEndColumns::new(record.end.as_ref());
    tx.execute(
        "insert into sign_ins (id, project_id, client_id, request, created_at, expires_at, check_product, check_id, number,
                               proof, code_expires_at, error)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        values![
            record.id.0,
            record.project,
            record.client.as_str(),
            &record.request,
            record.created_at,
            record.expires_at,
            record.check.map(|check| check.product.into_str()),
            record.check.map(|check| check.id),
            record.number.as_ref(),
            proof,
            code_expires_at,
            error,
        ],
    )
}

fn end_sign_in(tx: &mut BatchTransaction<'_>, ended: &EndedSignIn) -> Result<usize, StoreError> {
    let SignInEndColumns { proof, code_expires_at, error } = SignInEndColumns::new(Some(&ended.end));
    let update = "update sign_ins set proof = $1, code_expires_at = $2, error = $3
                   where id = $4 and proof is null and error is null";
    let written = tx.execute(update, values![proof, code_expires_at, error, ended.id.0])?;
    if written == 0 {
        return Ok(0);
    }
    if let Some(SignInSession { token, project, number, proof, expires_at }) = &ended.session {
        let insert = "insert into sign_in_sessions (token_hash, project_id, number_hash, proof, expires_at)
                      values ($1, $2, $3, $4, $5)";
        tx.execute(insert, values![*token, *project, *number, proof, *expires_at])?;
    }
    tx.defer_counts(ended.usage.clone());
    Ok(written)
}

impl WriteOp for AttemptSettlement {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        let AttemptSettlement { check, attempt, outcome, log } = self;
        let (state, failed_attempts, due_at) = check_row_mapping::columns_after_attempt(*attempt, *outcome);
        let update = "update callbacks set state = $1, failed_attempts = $2, due_at = $3
                       where check_id = $4 and state = 'waiting' and failed_attempts = $5";
        let settled = tx.execute(update, values![state, failed_attempts, due_at, *check, i64::from(*attempt) - 1])?;
        if settled == 0 {
            return Ok(TransactionEnd::Rollback(false));
        }
        tx.execute(
            "insert into callback_attempts (check_id, attempt, started_at, ended_at, status, failure, exchange)
             values ($1, $2, $3, $4, $5, $6, $7)",
            values![
                *check,
                i64::from(*attempt),
                log.started_at,
                log.ended_at,
                log.status.map(i64::from),
                log.failure.as_deref(),
                log.exchange.as_ref(),
            ],
        )?;
        if *attempt > MAX_LOGGED_ATTEMPTS {
            let delete = "delete from callback_attempts where check_id = $1 and attempt <= $2";
            tx.execute(delete, values![*check, i64::from(attempt - MAX_LOGGED_ATTEMPTS)])?;
        }
        Ok(TransactionEnd::Commit(true))
    }
}

impl WriteOp for IdempotencyClaim {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<ClaimOutcome>, StoreError> {
        tx.execute(
            "insert into idempotency_keys
                    (tenant, key_digest, fingerprint, claim, claimed_at, lease_until, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (tenant, key_digest) do update
                set fingerprint = excluded.fingerprint, claim = excluded.claim, claimed_at = excluded.claimed_at,
                    lease_until = excluded.lease_until, expires_at = excluded.expires_at, response = null
              where idempotency_keys.expires_at <= excluded.claimed_at
                 or (idempotency_keys.response is null and idempotency_keys.lease_until <= excluded.claimed_at
                     and idempotency_keys.fingerprint = excluded.fingerprint)",
            values![
                self.tenant,
                self.key_digest,
                self.fingerprint,
                self.claim_id,
                self.now,
                self.lease_until,
                self.expires_at,
            ],
        )?;
        let select = concat!(
            "select ",
            idempotency_key_columns!(),
            " from idempotency_keys where tenant = $1 and key_digest = $2"
        );
        let missing = || StoreError::Refused("a claimed idempotency key disappeared".to_owned());
        let row = tx.query_first(select, values![self.tenant, self.key_digest])?.ok_or_else(missing)?;
        Ok(TransactionEnd::Commit(IdempotencyKey::from_row(row)?.outcome_for(self)))
    }
}
