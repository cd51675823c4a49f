//! Stores checks and their redirect sessions.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, CheckConclusion, CheckId, Concluded, ErrorCode, Lifecycle, NumberHash, OpenState, Sealed,
        ShardBucket,
    },
    page::Page,
    phone::Msisdn,
    product::Product,
    reverse_sms::SmsEnvironment,
    tenancy::ProjectId,
    verification::Method,
};
use ringtrue_engine::ports::{
    callbacks::NewCallback,
    checks::{
        CheckHistory, CheckQuery, CheckStore, CompanionRow, ConcludeOutcome, CreateCheckOutcome, Expectation,
        MarkedPending, NewCheck,
    },
    hashes::{CodeHash, TokenHash},
    idempotency::IdempotentResponse,
    search_limit::SearchLimiter,
    silent::{BeginRedirect, ConsumedState, RedirectSessionRecord, RedirectSessionStore, SealedVerdict, TakenVerdict},
    store::{Completeness, StoreError, TenantLookup},
};
use uuid::Uuid;

use super::{
    SqlStore,
    bucket::{bucket_condition, digest_bucket},
    check_list::CheckList,
    first_id_after,
    pending::{mark_verification_pending, marked_pending_from_row, pending_usage_changes},
    usage,
};
use crate::{
    check_row_mapping::{self, check_columns, redirect_session_from_row},
    driver::{Database, Sql, TransactionEnd, Tx, work},
    operation::{ConcludeCheck, FindCheck, InsertCheck, RedirectOperation, number_limit},
    row::{Value, values},
};

#[async_trait]
impl<D: Database> CheckStore for SqlStore<D> {
    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError> {
        // Lists select checks of a time span by the time in their ids.
        if id_millis(new.check.id.0) != Some(new.check.created_at.as_millisecond()) {
            return Err(StoreError::Refused("the id of a check must contain its creation time".to_owned()));
        }
        if let Expectation::Sms { code, .. } = &new.expectation
            && code.bucket() != new.check.id.bucket()
        {
            return Err(StoreError::Refused("the id of a check must contain the bucket of its code".to_owned()));
        }
        if let Some(verification) = &new.verification
            && (new.check.verification != Some(verification.check.id)
                || new.check.id.bucket() != verification.check.id.bucket()
                || id_millis(verification.check.id.0) != Some(verification.check.created_at.as_millisecond()))
        {
            return Err(StoreError::Refused("a verification and its first step must have one bucket".to_owned()));
        }
        if !matches!(new.check.state, Lifecycle::Open(OpenState::Accepted)) {
            return Err(StoreError::Refused("a new check must have the status ACCEPTED".to_owned()));
        }
        if let Some(limit) = new.number_limit.filter(|limit| limit.max_checks == 0) {
            let until = new.check.created_at.as_millisecond().saturating_add(number_limit::window_millis(limit));
            return Ok(CreateCheckOutcome::TooManyChecks {
                retry_at: Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX),
            });
        }
        self.database.run(InsertCheck::accepted(new)).await
    }

    async fn create_concluded_check(
        &self,
        concluded: Concluded<AnyVerdict>,
        response: Option<IdempotentResponse>,
    ) -> Result<(), StoreError> {
        self.database.run(InsertCheck::concluded(concluded, response)).await.map(drop)
    }

    async fn find_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<TenantLookup<AnyCheck>, StoreError> {
        let row = self.database.run(FindCheck::ById(id)).await?.pop().flatten();
        let check = row.map(check_row_mapping::check_from_row).transpose()?;
        Ok(match check.filter(|check| check.product == product) {
            None => TenantLookup::NotFound,
            Some(check) if check.project == project => TenantLookup::Found(check),
            Some(_) => TenantLookup::OtherTenant,
        })
    }

    async fn find_checks_by_number(
        &self,
        project: ProjectId,
        number: NumberHash,
        created_after: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        let select = concat!(
            "select ",
            check_columns!(),
            " from checks where number_hash = $1 and project_id = $2 and id >= $3 order by id desc limit $4"
        );
        let values = values![number, project, first_id_after(created_after), i64::from(limit)].to_vec();
        let rows = self.read_for_list(project, work!(|tx| tx.run(select, &values).await)).await?;
        rows.into_iter().map(check_row_mapping::check_from_row).collect()
    }

    async fn find_check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Option<CheckHistory>, StoreError> {
        let mut values = values![id, project, product.into_str()].to_vec();
        let select = format!(
            "select id, pending_at, connector, way, wallet_failure, redirect_error
               from checks where id = $1 and project_id = $2 and product = $3 {}",
            bucket_condition::<D>(id.bucket(), &mut values)
        );
        let row = self.query_at_bucket(id.bucket(), Sql::cached(select), values).await?.pop();
        row.map(|row| {
            let mut row = row.reader("checks");
            row.uuid("id")?;
            let pending_at = row.instant_or_null("pending_at")?;
            let connector = row.text_or_null("connector")?;
            let (way, wallet_failure) = (row.parsed_or_null("way")?, row.parsed_or_null("wallet_failure")?);
            let redirect_error = row.parsed_or_null("redirect_error")?;
            Ok(CheckHistory { pending_at, connector, way, wallet_failure, redirect_error })
        })
        .transpose()
    }

    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        if codes.is_empty() {
            return Ok(None);
        }
        let mut by_server = BTreeMap::<usize, (Vec<usize>, Vec<CodeHash>)>::new();
        for (position, code) in codes.iter().enumerate() {
            let (positions, codes) = by_server.entry(self.database.server_index(code.bucket())).or_default();
            positions.push(position);
            codes.push(*code);
        }
        let mut rows = vec![None; codes.len()];
        let finds = by_server.into_values().map(|(positions, codes)| async {
            Ok::<_, StoreError>((positions, self.database.run(FindCheck::ByCodes(codes)).await?))
        });
        let mut failure = None;
        for find in join_all(finds).await {
            match find {
                Ok((positions, found)) => {
                    for (position, row) in positions.into_iter().zip(found) {
                        rows[position] = row;
                    }
                }
                Err(error) => failure = Some(error),
            }
        }
        let found =
            check_row_mapping::prefer_open_check(rows.into_iter().flatten().map(check_row_mapping::check_from_row))?;
        match failure {
            // An open check may be on the server that has not responded.
            Some(error) if !matches!(&found, Some(check) if matches!(check.state, Lifecycle::Open(_))) => Err(error),
            _ => Ok(found),
        }
    }

    fn are_colocated(&self, row: CompanionRow, check: ShardBucket) -> bool {
        let (CompanionRow::NumberLimit(NumberHash(key)) | CompanionRow::IdempotencyKey(key)) = row;
        self.database.server_index(digest_bucket(&key)) == self.database.server_index(check)
    }

    async fn conclude(
        &self,
        conclusion: CheckConclusion,
        callback: Option<NewCallback>,
    ) -> Result<ConcludeOutcome, StoreError> {
        self.database.run(ConcludeCheck { conclusion, callback }).await
    }

    async fn mark_pending(
        &self,
        environment: SmsEnvironment,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError> {
        let mut parameters = values![number, receiver.as_str(), environment.mode().into_str(), at].to_vec();
        let select = match environment {
            SmsEnvironment::Operator => SELECT_AWAITING_SMS,
            SmsEnvironment::Sandbox(project) => {
                parameters.extend(values![project].to_vec());
                SELECT_AWAITING_SMS_OF_PROJECT
            }
        };
        let connector = connector.to_owned();
        self.transact(work!(|tx| mark_pending::<D>(tx, select, &parameters, &connector, at).await)).await
    }

    async fn overdue_checks(
        &self,
        now: Timestamp,
        limit: u32,
        completeness: Completeness,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        self.read_overdue_checks("", values![now, i64::from(limit)], completeness).await
    }

    async fn overdue_checks_of_project(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        // A step of a verification has no deadline row of its own. The deadline row of its verification is valid for
        // both.
        let is_step = Method::of_product(product).is_some();
        let or_verification = if is_step { Product::Verification } else { product };
        let values = values![now, i64::from(limit), project, product.into_str(), or_verification.into_str()];
        let of_product = "and project_id = $3 and product in ($4, $5)";
        self.read_overdue_checks(of_product, values, Completeness::All).await
    }

    async fn list_checks(&self, query: CheckQuery, limiter: &SearchLimiter) -> Result<Page<AnyCheck>, StoreError> {
        let workspace = query.workspace;
        let list = Arc::new(CheckList::new(query, D::MIN_ID_SQL));
        let cheap = Arc::clone(&list);
        let page = self.read_for_list(workspace, work!(|tx| cheap.read_within_budget(tx).await)).await?;
        if let Some(page) = page {
            return Ok(page);
        }
        let permit = limiter.try_acquire(workspace)?;
        self.database.search(permit, work!(|tx| list.read(tx).await)).await
    }
}

#[async_trait]
impl<D: Database> RedirectSessionStore for SqlStore<D> {
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError> {
        let row = self.database.run(FindCheck::WithRedirectSession(check)).await?.pop().flatten();
        row.map(|row| redirect_session_from_row(row).map(|(record, _)| record)).transpose()
    }

    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError> {
        Ok(self.database.run(RedirectOperation::Begin(redirect)).await?.is_some())
    }

    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError> {
        let consume = RedirectOperation::ConsumeState { check, state_hash: state };
        let Some(row) = self.database.run(consume).await? else { return Ok(None) };
        let (record, mut rest) = redirect_session_from_row(row)?;
        Ok(Some(ConsumedState { record, pending_redirect: Sealed(rest.bytes("pending_redirect")?) }))
    }

    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError> {
        Ok(self.database.run(RedirectOperation::StoreVerdict { check, verdict }).await?.is_some())
    }

    async fn take_verdict(&self, check: CheckId) -> Result<Option<TakenVerdict>, StoreError> {
        let Some(row) = self.database.run(RedirectOperation::TakeVerdict(check)).await? else { return Ok(None) };
        let (record, rest) = redirect_session_from_row(row)?;
        let verdict = record.session.and_then(|session| session.verdict);
        let verdict = verdict.ok_or_else(|| rest.corrupt("verdict", "missing"))?;
        Ok(Some(TakenVerdict { check: record.check, verdict: verdict.verdict }))
    }

    async fn record_redirect_error(&self, check: CheckId, code: ErrorCode) -> Result<(), StoreError> {
        let mut values = values![code.into_str(), check].to_vec();
        let update = format!(
            "update checks set redirect_error = $1 where id = $2 and status in ('ACCEPTED', 'PENDING') {}",
            bucket_condition::<D>(check.bucket(), &mut values)
        );
        self.execute_at_bucket(check.bucket(), Sql::cached(update), values).await.map(drop)
    }

    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError> {
        let mut values = values![check].to_vec();
        let update = format!(
            "update redirect_sessions set wrong_codes = wrong_codes + 1 where check_id = $1 {} returning wrong_codes",
            bucket_condition::<D>(check.bucket(), &mut values)
        );
        let row = self.execute_at_bucket(check.bucket(), Sql::cached(update), values).await?.pop();
        row.map(|row| row.reader("redirect_sessions").count("wrong_codes")).transpose()
    }
}

impl<D: Database> SqlStore<D> {
    /// Reads checks whose deadline has passed and that fulfil `condition`. The first two values are the current time
    /// and the maximum number of checks.
    async fn read_overdue_checks(
        &self,
        condition: &str,
        values: &[Value],
        completeness: Completeness,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        let sql = format!(
            concat!(
                "select ",
                check_columns!(),
                ", due_at from {{deadlines}} deadlines join {{checks}} checks on id = check_id {} where due_at <= $1 {}
                  order by due_at, check_id limit $2"
            ),
            D::same_bucket_condition("checks", "deadlines"),
            condition
        );
        let limit = values.get(1).and_then(|limit| if let Value::Int(limit) = limit { Some(*limit) } else { None });
        let mut overdue = Vec::new();
        for mut row in self.database.read_shards(sql, values.to_vec(), completeness).await? {
            let due_at =
                row.0.pop().and_then(|due_at| if let Value::Int(due_at) = due_at { Some(due_at) } else { None });
            overdue.push((due_at, check_row_mapping::check_from_row(row)?));
        }
        // Each shard has its own order and limit.
        overdue.sort_by_key(|(due_at, check)| (*due_at, check.id));
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let overdue = self.limit_evenly_by_server(overdue, limit, |(_, check)| check.id);
        Ok(overdue.into_iter().map(|(_, check)| check).collect())
    }
}

/// Returns the timestamp in a version 7 UUID, in milliseconds since 1970.
fn id_millis(id: Uuid) -> Option<i64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    i64::try_from(seconds).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000))
}

const SELECT_AWAITING_SMS: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
      order by id";
const SELECT_AWAITING_SMS_OF_PROJECT: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
        and project_id = $5
      order by id";

/// Marks the selected checks as pending. Updates them one by one in the order of their ids, as the conclusion of checks
/// does. In another order, the two could deadlock.
async fn mark_pending<D: Database>(
    tx: &mut dyn Tx,
    select: &'static str,
    parameters: &[Value],
    connector: &str,
    at: Timestamp,
) -> Result<TransactionEnd<Vec<MarkedPending>>, StoreError> {
    let awaiting = tx.run(select, parameters).await?;
    let (mut pending, mut verifications) = (Vec::new(), Vec::new());
    for row in awaiting {
        let id = row.reader("checks").uuid("id")?;
        let mut values = values![at, connector, id].to_vec();
        let update = format!(
            "update checks set pending_at = case when created_at < $1 then $1 else created_at end, connector = $2,
                               status = 'PENDING'
              where id = $3 and status = 'ACCEPTED' {}
             returning id, project_id, product, created_at, network_id, verification_id",
            bucket_condition::<D>(CheckId(id).bucket(), &mut values)
        );
        let marked = tx.query(Sql::cached(update), &values).await?.pop();
        if let Some(row) = marked {
            let check = marked_pending_from_row(row)?;
            verifications.extend(check.verification);
            pending.push(check);
        }
    }
    // The verifications are updated after their steps, in the same order as when a verification advances. Another order
    // could deadlock.
    for verification in verifications {
        pending.extend(mark_verification_pending::<D>(tx, verification, at).await?);
    }
    if pending.is_empty() {
        return Ok(TransactionEnd::Rollback(pending));
    }
    let counts: Vec<_> = pending.iter().flat_map(pending_usage_changes).collect();
    usage::apply_changes::<D>(tx, &counts).await?;
    Ok(TransactionEnd::Commit(pending))
}
