//! The interface between the queries and a database.
//!
//! Most queries are written once, against [`Tx`]: one SQL text, with parameters numbered in the order of their first
//! use, that both databases understand, and one row mapping. Locking, batching and arrays differ between the databases,
//! and are behind [`Database`] and [`DataPlane`].
//!
//! Statements return only rows. A query that needs the number of changed rows uses `returning`.

use std::{borrow::Cow, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, InvitationId},
    lifecycle::{self, AnyCheck, AnyVerdict, CheckId, Concluded, NumberHash, Sealed},
    network::NetworkId,
    sim_swap::SimSwapVerdict,
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    AttemptSettlement, BeginRedirect, ClaimOutcome, CodeHash, ConcludeOutcome, CreateCheckOutcome, IdempotencyClaim,
    IdempotentResponse, KeyId, LeasedCallback, NewCallback, NewCheck, NodeId, Revocation, SealedVerdict, StoreError,
    TokenHash, UsageDelta,
};
use ringtrue_engine::search_limit::SearchPermit;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{migration::Migration, row::Row};

/// A statement. Borrowed ones are cached as prepared statements; owned ones were composed for one call.
pub(crate) type Sql = Cow<'static, str>;

/// A parameter of a statement, or a column of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Uuid(Uuid),
}

/// The parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::driver::Value::from($value)),*] };
}
pub(crate) use values;

/// An open transaction.
pub(crate) trait Tx: Send {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;
}

impl dyn Tx + '_ {
    /// Runs a constant statement.
    pub(crate) async fn run(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.query(Cow::Borrowed(sql), values).await
    }

    /// Runs a constant statement and returns its first row.
    pub(crate) async fn first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.run(sql, values).await?.into_iter().next())
    }
}

/// The end of a transaction that did not fail, with its result.
#[derive(Debug)]
pub(crate) enum TransactionEnd<T> {
    Commit(T),
    /// Discards the writes, and still returns a result.
    Rollback(T),
}

pub(crate) type TransactionFuture<'t, T> = BoxFuture<'t, Result<TransactionEnd<T>, StoreError>>;
pub(crate) type ReadFuture<'t, T> = BoxFuture<'t, Result<T, StoreError>>;

/// Runs transactions.
pub(crate) trait Database: DataPlane {
    const MIGRATIONS: &'static [Migration];

    /// Increments the control-plane version, locks its row, returns it, and notifies listening nodes with the commit.
    const INCREMENT_VERSION_SQL: &'static str;

    /// The aggregate for the smallest `id`.
    const MIN_ID_SQL: &'static str;

    /// Reads the latest recorded time and the server's clock, in milliseconds since 1970. The clock is null for a
    /// database without a server.
    const READ_TIME_SQL: &'static str;

    /// Reads a text that differs between copies of a database. `None`: the database has none.
    const READ_IDENTITY_SQL: Option<&'static str>;

    /// Runs `work` as one transaction, and returns when it is durable.
    fn transact<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static;

    /// Runs `work` against one snapshot.
    fn read<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static;

    /// As [`transact`](Database::transact), on capacity reserved for the node: tenants must not delay heartbeats, or
    /// the node counts as dead.
    fn transact_reserved<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> TransactionFuture<'t, T> + Send + 'static;

    /// As [`read`](Database::read), on capacity reserved for the node: tenants must not delay revocations.
    fn read_reserved<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static;

    /// As [`read`](Database::read), on connections for lists. Statements end at the search timeout.
    fn read_list<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static;

    /// As [`read_list`](Database::read_list), on connections for searches. Holds the permit until the statements have
    /// ended, even if the future is dropped earlier.
    fn search<T, W>(&self, permit: SearchPermit, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> ReadFuture<'t, T> + Send + 'static;

    fn change_notification(&self) -> &Arc<Notify>;

    /// Notifies this node's listeners of a control-plane change that it has committed.
    fn notify_change(&self);
}

/// Frequent operations, which each database batches in its own way.
pub(crate) trait DataPlane: Send + Sync + 'static {
    fn revoke_token(&self, revocation: Revocation) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn count_usage(&self, counts: Vec<UsageDelta>) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn claim_idempotency_key(
        &self,
        request: IdempotencyClaim,
    ) -> impl Future<Output = Result<ClaimOutcome, StoreError>> + Send;

    fn release_claim(&self, release: ReleaseClaim) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn create_check(&self, new: NewCheck) -> impl Future<Output = Result<CreateCheckOutcome, StoreError>> + Send;

    fn create_concluded_check(&self, new: NewConcludedCheck) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn find_check(&self, id: CheckId) -> impl Future<Output = Result<Option<AnyCheck>, StoreError>> + Send;

    fn find_check_by_code(
        &self,
        codes: Vec<CodeHash>,
    ) -> impl Future<Output = Result<Option<AnyCheck>, StoreError>> + Send;

    fn conclude(&self, conclusion: ConcludeCheck) -> impl Future<Output = Result<ConcludeOutcome, StoreError>> + Send;

    /// Returns the columns of a check and, if present, of its redirect session.
    fn find_redirect_session(&self, check: CheckId) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    fn begin_redirect(&self, redirect: BeginRedirect) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Returns the columns of a check, of its redirect session, and the pending redirect of the state.
    fn consume_state(&self, consume: ConsumeState) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    fn store_verdict(&self, record: StoreVerdict) -> impl Future<Output = Result<bool, StoreError>> + Send;

    fn lease_due_callbacks(
        &self,
        lease: LeaseCallbacks,
    ) -> impl Future<Output = Result<Vec<LeasedCallback>, StoreError>> + Send;

    fn settle(&self, settlement: AttemptSettlement) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// A check that is created concluded.
#[derive(Clone, Debug)]
pub(crate) struct NewConcludedCheck {
    pub check: AnyCheck,
    pub conclusion: lifecycle::CheckConclusion,
    pub idempotent_response: Option<IdempotentResponse>,
}

impl NewConcludedCheck {
    pub(crate) fn new(concluded: Concluded<AnyVerdict>, idempotent_response: Option<IdempotentResponse>) -> Self {
        let conclusion = lifecycle::CheckConclusion::from(&concluded);
        NewConcludedCheck { check: concluded.into_check(), conclusion, idempotent_response }
    }

    pub(crate) fn sim_swap(&self) -> Option<SimSwapVerdict> {
        match self.check.verdict() {
            Some(AnyVerdict::Sim(swap)) => Some(*swap),
            _ => None,
        }
    }

    pub(crate) fn usage(&self) -> UsageDelta {
        UsageDelta {
            project: self.check.project,
            product: self.check.product,
            at: self.check.created_at,
            status: self.conclusion.status(),
            matched: self.conclusion.matched(),
            network: self.check.network.clone(),
            delta: 1,
        }
    }
}

/// The conclusion of a check, and its callback.
#[derive(Clone, Debug)]
pub(crate) struct ConcludeCheck {
    pub conclusion: lifecycle::CheckConclusion,
    pub callback: Option<NewCallback>,
}

impl ConcludeCheck {
    /// The counter changes: from the previous status (pending, if the check ever was) to the final one. `network` comes
    /// from the row, because a device may have changed its network.
    pub(crate) fn usage_changes(&self, was_pending: bool, network: Option<NetworkId>) -> [UsageDelta; 2] {
        let conclusion = &self.conclusion;
        let concluded = UsageDelta {
            project: conclusion.project(),
            product: conclusion.product(),
            at: conclusion.created_at(),
            status: conclusion.status(),
            matched: conclusion.matched(),
            network,
            delta: 1,
        };
        let status = if was_pending { lifecycle::CheckStatus::Pending } else { lifecycle::CheckStatus::Accepted };
        [UsageDelta { status, matched: None, delta: -1, ..concluded.clone() }, concluded]
    }
}

/// The return of a device with a `state` parameter, which is valid once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumeState {
    pub check: CheckId,
    pub state_hash: TokenHash,
}

#[derive(Clone, Debug)]
pub(crate) struct StoreVerdict {
    pub check: CheckId,
    pub verdict: SealedVerdict,
}

/// A lease of due callbacks.
#[derive(Clone, Debug)]
pub(crate) struct LeaseCallbacks {
    pub now: Timestamp,
    pub until: Timestamp,
    pub limit: u32,
    /// Projects whose callbacks are not leased.
    pub skip: Vec<Uuid>,
}

/// Releases a claim on an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReleaseClaim {
    pub tenant: Uuid,
    pub key_digest: [u8; 32],
    pub claim: Uuid,
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

impl From<[u8; 32]> for Value {
    fn from(value: [u8; 32]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

impl From<Uuid> for Value {
    fn from(value: Uuid) -> Self {
        Value::Uuid(value)
    }
}

impl From<AccountId> for Value {
    fn from(value: AccountId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<InvitationId> for Value {
    fn from(value: InvitationId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<WorkspaceId> for Value {
    fn from(value: WorkspaceId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<ProjectId> for Value {
    fn from(value: ProjectId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<CheckId> for Value {
    fn from(value: CheckId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<NumberHash> for Value {
    fn from(value: NumberHash) -> Self {
        value.0.into()
    }
}

impl From<CodeHash> for Value {
    fn from(value: CodeHash) -> Self {
        value.0.into()
    }
}

impl From<&Sealed> for Value {
    fn from(value: &Sealed) -> Self {
        value.0.as_slice().into()
    }
}

impl From<TokenHash> for Value {
    fn from(value: TokenHash) -> Self {
        value.0.into()
    }
}

impl From<KeyId> for Value {
    fn from(value: KeyId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<NodeId> for Value {
    fn from(value: NodeId) -> Self {
        Value::Uuid(value.0)
    }
}

impl From<&NetworkId> for Value {
    fn from(value: &NetworkId) -> Self {
        Value::Text(value.as_str().to_owned())
    }
}

/// Whole milliseconds since 1970.
impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        Value::Int(value.as_millisecond())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
