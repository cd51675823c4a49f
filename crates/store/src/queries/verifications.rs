//! Stores verifications: finds them, and advances them from one step to the next.

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckConclusion, CheckId, CheckStatus, Reference, Sealed, ShardBucket},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    reverse_sms::NumberLimit,
};
use ringtrue_engine::ports::{
    activity::UsageDelta,
    hashes::TokenHash,
    store::StoreError,
    verifications::{
        Advance, AdvanceOptions, AdvanceOutcome, AdvanceTo, EndedStep, ListedProgress, NewRedirectSession,
        NumberLimitQuery, OpenedSession, PageOpening, PageVersion, VerificationRecord, VerificationStore,
    },
};

use super::{
    SqlStore,
    bucket::{bucket_column, bucket_condition, buckets_condition, digest_bucket, table_bucket_condition},
    idempotency::store_response,
    pending::{mark_verification_pending, pending_usage_changes},
    placeholders, usage,
};
use crate::{
    check_row_mapping::{
        check_columns, progress_from_row, progress_to_json, verification_columns, verification_from_row,
    },
    driver::{Database, Sql, TransactionEnd, Tx, work},
    operation::{CheckRow, ConcludeCheck, InsertCheck, OpenCheck, number_limit},
    row::{Row, Value, values},
};

/// Maximum number of verifications in one statement that reads the states shown on their hosted pages.
const MAX_PAGE_VERSIONS_PER_STATEMENT: usize = 200;

#[async_trait]
impl<D: Database> VerificationStore for SqlStore<D> {
    async fn find_verification(&self, id: CheckId) -> Result<Option<VerificationRecord>, StoreError> {
        let mut values = values![id].to_vec();
        let select = format!(
            concat!(
                "select ",
                check_columns!(),
                ", ",
                verification_columns!(),
                " from checks join verifications on check_id = id {} where id = $1 {}"
            ),
            D::same_bucket_condition("verifications", "checks"),
            table_bucket_condition::<D>("checks.", id.bucket(), &mut values),
        );
        let row = self.query_at_bucket(id.bucket(), Sql::cached(select), values).await?.pop();
        row.map(verification_from_row).transpose()
    }

    async fn verification_progress(&self, ids: Vec<CheckId>) -> Result<Vec<ListedProgress>, StoreError> {
        if ids.is_empty() {
            return Ok(vec![]);
        }
        let select = format!(
            "select held.check_id, held.progress, step.status
               from verifications held left join checks step on step.id = held.step_id {}
              where held.check_id in ({}) {}",
            D::same_bucket_condition("step", "held"),
            placeholders(1, ids.len()),
            buckets_condition::<D>("held.", &ids),
        );
        let values: Vec<Value> = ids.into_iter().map(Value::from).collect();
        self.query(select, &values).await?.into_iter().map(progress_from_row).collect()
    }

    async fn page_versions(&self, ids: Vec<CheckId>) -> Result<Vec<(CheckId, PageVersion)>, StoreError> {
        let reads = self.by_server(ids, |id| *id).into_iter().map(|(bucket, ids)| async move {
            let mut versions = Vec::with_capacity(ids.len());
            for ids in ids.chunks(MAX_PAGE_VERSIONS_PER_STATEMENT) {
                versions.extend(self.page_versions_at_bucket(bucket, ids).await?);
            }
            Ok::<_, StoreError>(versions)
        });
        let (mut versions, mut failure) = (Vec::new(), None);
        for read in join_all(reads).await {
            match read {
                Ok(read) => versions.extend(read),
                // The verifications of the other servers are returned all the same.
                Err(error) => {
                    tracing::debug!(%error, "page versions of a server are missing");
                    failure = Some(error);
                }
            }
        }
        failure.filter(|_| versions.is_empty()).map_or(Ok(versions), Err)
    }

    async fn advance(&self, advance: Advance) -> Result<AdvanceOutcome, StoreError> {
        let bucket = advance.verification.bucket();
        let is_misplaced = match &advance.to {
            AdvanceTo::Step(new) => new.check.id.bucket() != bucket,
            AdvanceTo::SimSwap { check, .. } => check.bucket() != bucket,
            AdvanceTo::End { .. } => false,
        };
        if is_misplaced {
            return Err(StoreError::Refused("a verification and its steps must have one bucket".to_owned()));
        }
        self.database
            .transact_at_bucket(advance.verification.bucket(), work!(|tx| advance_verification::<D>(tx, advance).await))
            .await
    }

    async fn open_redirect_session(&self, session: NewRedirectSession) -> Result<Option<OpenedSession>, StoreError> {
        let bucket = session.step.bucket();
        self.database.transact_at_bucket(bucket, work!(|tx| open_redirect_session::<D>(tx, &session).await)).await
    }

    async fn reached_number_limits(&self, query: NumberLimitQuery) -> Result<Vec<(Product, Timestamp)>, StoreError> {
        let mut reached = Vec::new();
        for &product in &query.products {
            let times = self.counted_creation_times(&query, product).await?;
            let until = if query.limit.max_checks == 0 {
                query.at.checked_add(SignedDuration::from_secs(query.limit.window_seconds.into())).ok()
            } else {
                number_limit::blocked_until(query.limit, &times)
            };
            reached.extend(until.filter(|until| query.at < *until).map(|until| (product, until)));
        }
        Ok(reached)
    }

    async fn record_opening(&self, id: CheckId, opening: PageOpening) -> Result<bool, StoreError> {
        let mut values = values![opening.at, opening.platform.into_str(), id].to_vec();
        let update = format!(
            "update verifications set opened_at = $1, opened_on = $2 where check_id = $3 and opened_at is null {}
             returning check_id",
            bucket_condition::<D>(id.bucket(), &mut values)
        );
        Ok(!self.execute_at_bucket(id.bucket(), Sql::cached(update), values).await?.is_empty())
    }

    async fn redeem_completion_code(&self, id: CheckId, code: TokenHash, at: Timestamp) -> Result<bool, StoreError> {
        let mut values = values![at, code, id].to_vec();
        let update = format!(
            "update verifications set code_redeemed_at = $1, code_hash = $2
              where check_id = $3 and code_redeemed_at is null {}
             returning check_id",
            bucket_condition::<D>(id.bucket(), &mut values)
        );
        Ok(!self.execute_at_bucket(id.bucket(), Sql::cached(update), values).await?.is_empty())
    }
}

impl<D: Database> SqlStore<D> {
    /// Returns the page versions of verifications on the server that has the rows of `bucket`.
    async fn page_versions_at_bucket(
        &self,
        bucket: ShardBucket,
        ids: &[CheckId],
    ) -> Result<Vec<(CheckId, PageVersion)>, StoreError> {
        // Citus leaves out the shards of other servers only if the buckets of each table are known.
        let buckets_condition = |table: &str| buckets_condition::<D>(&format!("{table}."), ids);
        let select = format!(
            "select held.check_id, held.step_id, checks.status, step.status,
                    redirect_sessions.code_hash is not null
               from verifications held
               join checks on checks.id = held.check_id {} {}
               left join checks step on step.id = held.step_id {} {}
               left join redirect_sessions on redirect_sessions.check_id = held.step_id {} {}
              where held.check_id in ({}) {}",
            D::same_bucket_condition("checks", "held"),
            buckets_condition("checks"),
            D::same_bucket_condition("step", "held"),
            buckets_condition("step"),
            D::same_bucket_condition("redirect_sessions", "held"),
            buckets_condition("redirect_sessions"),
            placeholders(1, ids.len()),
            buckets_condition("held"),
        );
        let values: Vec<Value> = ids.iter().copied().map(Value::from).collect();
        self.query_at_bucket(bucket, select.into(), values).await?.into_iter().map(page_version_from_row).collect()
    }

    /// Returns the creation times of the checks that count towards the limit for a phone number, oldest first.
    async fn counted_creation_times(&self, query: &NumberLimitQuery, product: Product) -> Result<Vec<i64>, StoreError> {
        let NumberLimitQuery { project, number, limit, at, .. } = *query;
        let since = at.as_millisecond() - number_limit::window_millis(limit);
        if D::DELETE_NUMBER_LIMITS_SQL.is_none() {
            let values = values![number, project, since, product.into_str(), i64::from(limit.max_checks)];
            return counted_times(self.query(COUNTED_CREATION_TIMES_SQL, values).await?);
        }
        let (bucket, mut values) = (digest_bucket(&number.0), values![number, project, product.into_str()].to_vec());
        let select = format!(
            "select recent from number_limits where number_hash = $1 and project_id = $2 and product = $3 {}",
            bucket_condition::<D>(bucket, &mut values)
        );
        let row = self.query_at_bucket(bucket, Sql::cached(select), values).await?.pop();
        let recent = row.map(|row| row.reader("number_limits").bytes("recent")).transpose()?.unwrap_or_default();
        let times = recent.as_chunks::<8>().0.iter().map(|time| i64::from_be_bytes(*time));
        Ok(times.filter(|time| *time > since).collect())
    }
}

/// Selects the newest creation times of a number's checks from `checks`: `SQLite` has no table `number_limits`.
const COUNTED_CREATION_TIMES_SQL: &str = "select created_at from checks
     where number_hash = $1 and project_id = $2 and created_at > $3 and product = $4
     order by created_at desc limit $5";

/// Returns the creation times, oldest first.
fn counted_times(newest_first: Vec<Row>) -> Result<Vec<i64>, StoreError> {
    newest_first.into_iter().rev().map(|row| row.reader("checks").int("created_at")).collect()
}

fn page_version_from_row(row: Row) -> Result<(CheckId, PageVersion), StoreError> {
    let mut row = row.reader("verifications");
    let id = CheckId(row.uuid("check_id")?);
    let version = PageVersion {
        step: CheckId(row.uuid("step_id")?),
        status: row.parsed("status")?,
        step_status: row.parsed_or_null("step_status")?,
        has_verdict: row.boolean("has_verdict")?,
    };
    Ok((id, version))
}

/// Advances a verification to its next step or its end. Writes tables in the same order as the batches do. The first
/// statement locks the row of the verification, so that concurrent calls run one after the other, and only the first
/// finds the expected step.
async fn advance_verification<D: Database>(
    tx: &mut dyn Tx,
    advance: Advance,
) -> Result<TransactionEnd<AdvanceOutcome>, StoreError> {
    let Advance { verification, from, deadline, ended, progress, to, at, options } = advance;
    let AdvanceOptions { unless_verdict, input, ignores_number_limit, idempotent_response } = options;
    let next_step = match &to {
        AdvanceTo::Step(new) => new.check.id,
        AdvanceTo::SimSwap { check, .. } => *check,
        AdvanceTo::End { .. } => verification,
    };
    // The sealed (encrypted) input is no longer needed when the verification ends.
    let input_sql = if matches!(to, AdvanceTo::End { .. }) { "$3" } else { "coalesce($3, input)" };
    let input = input.filter(|_| !matches!(to, AdvanceTo::End { .. }));
    let mut values = values![next_step, progress_to_json(&progress)?, input.as_ref(), verification, from].to_vec();
    let update = format!(
        "update verifications set step_id = $1, progress = $2, input = {input_sql} where check_id = $4 and step_id = $5 {}
         returning check_id",
        bucket_condition::<D>(verification.bucket(), &mut values)
    );
    if tx.query(Sql::cached(update), &values).await?.is_empty() {
        return Ok(TransactionEnd::Rollback(AdvanceOutcome::Lost));
    }
    if let EndedStep::Concluded(conclusion) = &ended {
        copy_code_hash::<D>(tx, verification, conclusion).await?;
    }
    let new = match &to {
        AdvanceTo::Step(new) => Some(InsertCheck::accepted((**new).clone())),
        AdvanceTo::SimSwap { .. } | AdvanceTo::End { .. } => None,
    };
    if let Some(new) = &new
        && count_against_limit::<D>(tx, new, ignores_number_limit).await?
    {
        return Ok(TransactionEnd::Rollback(AdvanceOutcome::TooManyChecks));
    }
    let mut counts = Vec::new();
    let step_was_pending = match ended {
        EndedStep::Concluded(conclusion) => {
            let conclude = ConcludeCheck { conclusion, callback: None };
            match conclude_check::<D>(tx, conclude, unless_verdict, &mut counts).await? {
                Some(was_pending) => was_pending,
                None => return Ok(TransactionEnd::Rollback(AdvanceOutcome::Lost)),
            }
        }
        EndedStep::Created(concluded) => {
            insert_check::<D>(tx, InsertCheck::concluded(*concluded, None).row(), &mut counts).await?;
            false
        }
        EndedStep::Unchanged => false,
    };
    let mut next_deadline = None;
    let was_pending = match to {
        AdvanceTo::Step(_) => {
            if let Some(new) = &new {
                insert_check::<D>(tx, new.row(), &mut counts).await?;
                next_deadline = Some(new.check.expires_at);
            }
            mark_pending::<D>(tx, verification, at, &mut counts).await?
        }
        AdvanceTo::SimSwap { deadline, .. } => {
            let mut values = values![deadline, verification].to_vec();
            let bucket_condition = bucket_condition::<D>(verification.bucket(), &mut values);
            let update = format!("update checks set expires_at = $1 where id = $2 {bucket_condition}");
            tx.query(Sql::cached(update), &values).await?;
            next_deadline = Some(deadline);
            mark_pending::<D>(tx, verification, at, &mut counts).await?
        }
        AdvanceTo::End { conclusion, callback } => {
            match conclude_check::<D>(tx, ConcludeCheck { conclusion, callback }, false, &mut counts).await? {
                Some(was_pending) => was_pending,
                None => return Ok(TransactionEnd::Rollback(AdvanceOutcome::Lost)),
            }
        }
    };
    move_deadline::<D>(tx, verification, deadline, next_deadline).await?;
    store_response::<D>(tx, idempotent_response.as_ref()).await?;
    usage::apply_changes::<D>(tx, &counts).await?;
    Ok(TransactionEnd::Commit(AdvanceOutcome::Advanced { step_was_pending, was_pending }))
}

/// Copies the hash of the code that was redeemed for a step's verdict to the verification. Called before the step is
/// concluded, which deletes the redirect session with the hash.
async fn copy_code_hash<D: Database>(
    tx: &mut dyn Tx,
    verification: CheckId,
    step: &CheckConclusion,
) -> Result<(), StoreError> {
    if (step.product, step.status) != (Product::SecureSna, CheckStatus::Completed) {
        return Ok(());
    }
    let mut values = values![step.check].to_vec();
    let session_bucket_condition = bucket_condition::<D>(verification.bucket(), &mut values);
    let select = format!("select code_hash from redirect_sessions where check_id = $1 {session_bucket_condition}");
    let Some(row) = tx.query(Sql::cached(select), &values).await?.pop() else { return Ok(()) };
    let code = row.reader("redirect_sessions").digest_or_null("code_hash")?;
    let mut values = values![code, verification].to_vec();
    let bucket_condition = bucket_condition::<D>(verification.bucket(), &mut values);
    let update = format!("update verifications set code_hash = $1 where check_id = $2 {bucket_condition}");
    tx.query(Sql::cached(update), &values).await.map(drop)
}

/// Concludes an open check, and writes the rows that belong to it. Returns whether the check was pending. `None`: the
/// check is already concluded, or `unless_verdict` is set and its redirect session has a verdict.
async fn conclude_check<D: Database>(
    tx: &mut dyn Tx,
    conclude: ConcludeCheck,
    unless_verdict: bool,
    counts: &mut Vec<UsageDelta>,
) -> Result<Option<bool>, StoreError> {
    let conclusion = &conclude.conclusion;
    let id = conclusion.check;
    let mut values = values![
        conclusion.at,
        conclusion.status.into_str(),
        conclusion.matched,
        conclusion.error_code.map(|code| code.into_str()),
        conclusion.provenance.connector.as_deref(),
        conclusion.method().map(|method| method.into_str()),
        conclusion.no_sim_change(),
        conclusion.provenance.way.map(|way| way.into_str()),
        conclusion.provenance.wallet_failure.map(|failure| failure.into_str()),
        id,
    ]
    .to_vec();
    let check_bucket_condition = bucket_condition::<D>(id.bucket(), &mut values);
    let update = format!(
        "update checks
            set concluded_at = $1, status = $2, matched = $3, error_code = $4, connector = coalesce($5, connector),
                method = $6, no_sim_change = $7, way = $8, wallet_failure = $9
          where id = $10 and status in ('ACCEPTED', 'PENDING') {check_bucket_condition}
         returning id, expires_at, pending_at, network_id"
    );
    let Some(row) = tx.query(Sql::cached(update), &values).await?.pop() else { return Ok(None) };
    let before = OpenCheck::from_row(row)?;
    if let Some(callback) = &conclude.callback {
        let mut values = values![
            id,
            conclusion.project,
            conclusion.at,
            callback.due_at,
            conclusion.product.into_str(),
            &callback.url,
            &callback.body,
        ]
        .to_vec();
        let (column, bucket) = bucket_column::<D>(id.bucket(), &mut values);
        let insert = format!(
            "insert into callbacks
                    (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body{column})
             values ($1, $2, $3, $4, 0, 'waiting', $5, $6, $7{bucket})"
        );
        tx.query(Sql::cached(insert), &values).await?;
    }
    if conclusion.product.facts().is_silent {
        // If a verdict is being stored concurrently, the delete waits for that transaction, and then keeps the session
        // with the verdict.
        let condition = if unless_verdict { "and code_hash is null" } else { "" };
        let mut values = values![id].to_vec();
        let bucket_condition = bucket_condition::<D>(id.bucket(), &mut values);
        let delete = format!("delete from redirect_sessions where check_id = $1 {condition} {bucket_condition}");
        tx.query(Sql::cached(delete), &values).await?;
        if unless_verdict {
            let select = format!("select check_id from redirect_sessions where check_id = $1 {bucket_condition}");
            if !tx.query(Sql::cached(select), &values).await?.is_empty() {
                return Ok(None);
            }
        }
    }
    counts.extend(conclude.usage_changes(&before));
    Ok(Some(before.was_pending))
}

/// Inserts a check and its redirect session, if it needs one.
async fn insert_check<D: Database>(
    tx: &mut dyn Tx,
    new: CheckRow<'_>,
    counts: &mut Vec<UsageDelta>,
) -> Result<(), StoreError> {
    let check = new.check;
    let (receiver, code) = new.expected_sms().unzip();
    let swap = new.sim_swap();
    let mut values = values![
        check.id,
        check.project,
        check.created_at,
        check.expires_at,
        new.concluded_at(),
        check.product.into_str(),
        check.mode.into_str(),
        check.status().into_str(),
        new.matched(),
        new.error_code(),
        check.network.as_ref().map(NetworkId::as_str),
        receiver.map(Msisdn::as_str),
        check.claimed.map(|claimed| claimed.hash),
        check.claimed.map(|claimed| claimed.tail.to_string()),
        check.reference.as_ref().map(Reference::as_str),
        check.callback_url.as_ref(),
        code.copied(),
        check.redirect_url.as_ref(),
        swap.map(|swap| i64::from(swap.covered_minutes)),
        swap.and_then(|swap| swap.changed_within_minutes).map(i64::from),
        check.verification,
    ]
    .to_vec();
    let (column, bucket) = bucket_column::<D>(check.id.bucket(), &mut values);
    let insert = format!(
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, receiver, number_hash, number_tail, reference_id, callback_url,
                             code_hash, redirect_url, swap_covered, swap_within, verification_id{column})
         values ({}{bucket})",
        placeholders(1, 21)
    );
    tx.query(Sql::cached(insert), &values).await?;
    if let Some(input) = new.silent_input() {
        insert_redirect_session::<D>(tx, check.id, input, "").await?;
    }
    counts.push(new.usage());
    Ok(())
}

async fn open_redirect_session<D: Database>(
    tx: &mut dyn Tx,
    session: &NewRedirectSession,
) -> Result<TransactionEnd<Option<OpenedSession>>, StoreError> {
    let NewRedirectSession { verification, step, input, at } = session;
    // Locks the check, as its conclusion does before it deletes the session. No session is therefore inserted for a
    // concluded check.
    let mut values = values![*step].to_vec();
    let lock = format!(
        "update checks set status = status where id = $1 and status in ('ACCEPTED', 'PENDING') {} returning id",
        bucket_condition::<D>(step.bucket(), &mut values)
    );
    if tx.query(Sql::cached(lock), &values).await?.is_empty() {
        return Ok(TransactionEnd::Rollback(None));
    }
    let pending = mark_verification_pending::<D>(tx, *verification, *at).await?;
    insert_redirect_session::<D>(tx, *step, input, "on conflict do nothing").await?;
    let counts: Vec<_> = pending.iter().flat_map(pending_usage_changes).collect();
    usage::apply_changes::<D>(tx, &counts).await?;
    Ok(TransactionEnd::Commit(Some(OpenedSession { pending })))
}

async fn insert_redirect_session<D: Database>(
    tx: &mut dyn Tx,
    check: CheckId,
    input: &Sealed,
    on_conflict: &str,
) -> Result<(), StoreError> {
    let mut values = values![check, input].to_vec();
    let (column, bucket) = bucket_column::<D>(check.bucket(), &mut values);
    let insert = format!(
        "insert into redirect_sessions (check_id, input, wrong_codes{column}) values ($1, $2, 0{bucket}) {on_conflict}"
    );
    tx.query(Sql::cached(insert), &values).await.map(drop)
}

/// Marks a verification as pending. Returns whether it was already pending.
async fn mark_pending<D: Database>(
    tx: &mut dyn Tx,
    verification: CheckId,
    at: Timestamp,
    counts: &mut Vec<UsageDelta>,
) -> Result<bool, StoreError> {
    let marked = mark_verification_pending::<D>(tx, verification, at).await?;
    counts.extend(marked.iter().flat_map(pending_usage_changes));
    Ok(marked.is_none())
}

/// Replaces the deadline of a verification with that of its next step. `after` is `None` at the end of the
/// verification.
async fn move_deadline<D: Database>(
    tx: &mut dyn Tx,
    verification: CheckId,
    before: Timestamp,
    after: Option<Timestamp>,
) -> Result<(), StoreError> {
    let mut values = values![before, verification].to_vec();
    let bucket_condition = bucket_condition::<D>(verification.bucket(), &mut values);
    let delete = format!("delete from deadlines where due_at = $1 and check_id = $2 {bucket_condition}");
    tx.query(Sql::cached(delete), &values).await?;
    if let Some(after) = after {
        let mut values = values![after, verification].to_vec();
        let (column, bucket) = bucket_column::<D>(verification.bucket(), &mut values);
        let insert = format!("insert into deadlines (due_at, check_id{column}) values ($1, $2{bucket})");
        tx.query(Sql::cached(insert), &values).await?;
    }
    Ok(())
}

/// Applies the limit of checks for a phone number to a new check, and counts the check. Returns `true` if the limit is
/// reached; the caller must then roll back. A check that ignores the limit is only counted.
async fn count_against_limit<D: Database>(
    tx: &mut dyn Tx,
    new: &InsertCheck,
    ignores_limit: bool,
) -> Result<bool, StoreError> {
    let (Some(claimed), Some(limit)) = (new.check.claimed, new.number_limit) else { return Ok(false) };
    let (at, project, product) = (new.check.created_at, new.check.project, new.check.product.into_str());
    let since = at.as_millisecond() - number_limit::window_millis(limit);
    let is_blocked =
        |times: &[i64]| !ignores_limit && number_limit::blocked_until(limit, times).is_some_and(|until| at < until);
    if limit.max_checks == 0 {
        return Ok(!ignores_limit);
    }
    if D::DELETE_NUMBER_LIMITS_SQL.is_none() {
        // The limit counts rows of `checks`, so the inserted row counts without a further write.
        if ignores_limit {
            return Ok(false);
        }
        let values = values![claimed.hash, project, since, product, i64::from(limit.max_checks)];
        return Ok(is_blocked(&counted_times(tx.run(COUNTED_CREATION_TIMES_SQL, values).await?)?));
    }
    let bucket = digest_bucket(&claimed.hash.0);
    let expires_at = since + 2 * number_limit::window_millis(limit);
    let mut values = values![claimed.hash, project, product, max_checks(limit), at, expires_at].to_vec();
    let (column, bucket_value) = bucket_column::<D>(bucket, &mut values);
    let insert = format!(
        "insert into number_limits as held
                (number_hash, project_id, product, max_checks, last_at, expires_at, recent{column})
         values ($1, $2, $3, $4, $5, $6, ''{bucket_value})
         on conflict (number_hash, project_id, product{column}) do update set expires_at = excluded.expires_at
         returning recent"
    );
    let locked = tx.query(Sql::cached(insert), &values).await?.pop();
    let recent = locked.map(|row| row.reader("number_limits").bytes("recent")).transpose()?.unwrap_or_default();
    let times: Vec<i64> = recent.as_chunks::<8>().0.iter().map(|time| i64::from_be_bytes(*time)).collect();
    let counted = &times[times.partition_point(|time| *time <= since)..];
    if is_blocked(counted) {
        return Ok(true);
    }
    let times = number_limit::with_create(limit, counted, at);
    let recent: Vec<u8> = times.iter().flat_map(|time| time.to_be_bytes()).collect();
    let mut values = values![recent.as_slice(), at, claimed.hash, project, product].to_vec();
    let update = format!(
        "update number_limits set recent = $1, last_at = greatest(last_at, $2)
          where number_hash = $3 and project_id = $4 and product = $5 {}",
        bucket_condition::<D>(bucket, &mut values)
    );
    tx.query(Sql::cached(update), &values).await?;
    Ok(false)
}

fn max_checks(limit: NumberLimit) -> i64 {
    i64::from(limit.max_checks.min(u32::from(u16::MAX)))
}
