//! What a verb needs of a database, and no more.
//!
//! A verb of the control plane is written once, against [`Tx`]: one SQL text whose parameters are numbered in the order
//! of their first appearance, which both databases understand, and one mapping of its rows. What differs between the
//! databases (locking, batching, arrays) is behind [`Database`] and [`DataPlane`].
//!
//! There is one way to run a statement. Whoever wants to know how many rows it touched says `returning`.

use std::{borrow::Cow, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, InvitationId},
    lifecycle::{self, AnyCheck, AnyVerdict, CheckId, Concluded, NumberHash, Sealed},
    network::NetworkId,
    sim_swap::SimSwap,
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    Admitted, ClaimOutcome, ClaimRequest, CodeHash, Completion, Decision, KeyId, LeasedCallback, NewCallback, NewCheck,
    NodeId, Recorded, Revocation, SetOut, Settlement, StoreError, TokenHash, UsageCount,
};
use ringtrue_engine::search_limit::SearchPermit;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{migration::Migration, row::Row};

/// A statement. A borrowed one is prepared once and kept; an owned one was composed for this call alone.
pub(crate) type Sql = Cow<'static, str>;

/// A value that goes into a statement or comes out of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
    Uuid(Uuid),
}

/// The values of a statement, in the order of their numbers.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::driver::Value::from($value)),*] };
}
pub(crate) use values;

/// An open transaction.
pub(crate) trait Tx: Send {
    fn query<'a>(&'a mut self, sql: Sql, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;
}

impl dyn Tx + '_ {
    /// Runs a statement that is always the same.
    pub(crate) async fn run(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.query(Cow::Borrowed(sql), values).await
    }

    /// The first row, if there is one.
    pub(crate) async fn first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.run(sql, values).await?.into_iter().next())
    }
}

/// How a verb wants its transaction to end.
#[derive(Debug)]
pub(crate) enum Ending<T> {
    Commit(T),
    /// There is an answer, and nothing is to be written.
    Rollback(T),
}

pub(crate) type Ended<'t, T> = BoxFuture<'t, Result<Ending<T>, StoreError>>;
pub(crate) type Reading<'t, T> = BoxFuture<'t, Result<T, StoreError>>;

/// A database that runs verbs as transactions.
pub(crate) trait Database: DataPlane {
    /// The migrations that this binary was built for.
    const SCHEMA: &'static [Migration];

    /// Raises the version, gives it, and has it announced with the commit where other nodes listen: one round trip
    /// with the row locked.
    const RAISE_VERSION: &'static str;

    /// The smallest id of the rows that are aggregated.
    const MIN_ID: &'static str;

    /// Reads the latest recorded time and the server's clock, which is null for a database without a server. Both are
    /// in milliseconds since 1970.
    const READ_TIME: &'static str;

    /// Reads what tells this copy of the database from one that it was restored from. `None`: there is no such thing.
    const IDENTITY: Option<&'static str>;

    /// Runs `work` as one transaction, and answers when its end is durable.
    fn transact<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static;

    /// Runs `work` against one consistent reading.
    fn read<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static;

    /// As [`transact`](Database::transact), and never behind what tenants ask for: a node that cannot say that it is
    /// alive is taken for dead.
    fn transact_apart<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static;

    /// As [`read`](Database::read), and never behind what tenants ask for: a revocation must reach every node at once.
    fn read_apart<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static;

    /// As [`read`](Database::read), for lists: on connections that nothing else waits for. Statements are stopped at the
    /// deadline for searches.
    fn read_list<T, W>(&self, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static;

    /// As [`read_list`](Database::read_list), for searches, on connections that lists do not wait for either. The permit
    /// is dropped when the statements have ended, even if the future is dropped before.
    fn search<T, W>(&self, permit: SearchPermit, work: W) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Reading<'t, T> + Send + 'static;

    fn change_hint(&self) -> &Arc<Notify>;

    /// Called after a change of the control plane was committed here.
    fn has_changed(&self);
}

/// The verbs that many callers use at once, each in its database's own way of committing them together.
pub(crate) trait DataPlane: Send + Sync + 'static {
    fn revoke(&self, revocation: Revocation) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn count(&self, counts: Vec<UsageCount>) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn claim(&self, request: ClaimRequest) -> impl Future<Output = Result<ClaimOutcome, StoreError>> + Send;

    fn abandon(&self, abandoned: Abandoned) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn create_check(&self, new: NewCheck) -> impl Future<Output = Result<Admitted, StoreError>> + Send;

    fn create_ended(&self, new: NewEnded) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn find_check(&self, id: CheckId) -> impl Future<Output = Result<Option<AnyCheck>, StoreError>> + Send;

    fn check_by_code(&self, codes: Vec<CodeHash>) -> impl Future<Output = Result<Option<AnyCheck>, StoreError>> + Send;

    fn conclude(&self, conclusion: Conclusion) -> impl Future<Output = Result<Recorded, StoreError>> + Send;

    /// The columns of a check and of its journey, if it has one.
    fn journey(&self, check: CheckId) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    fn set_out(&self, step: SetOut) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The columns of a check, of its journey, and the leg that the ticket is of.
    fn come_back(&self, back: ComeBack) -> impl Future<Output = Result<Option<Row>, StoreError>> + Send;

    fn decide(&self, decide: Decide) -> impl Future<Output = Result<bool, StoreError>> + Send;

    fn lease_due(&self, lease: Lease) -> impl Future<Output = Result<Vec<LeasedCallback>, StoreError>> + Send;

    fn settle(&self, settlement: Settlement) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// A check that has ended as soon as it was made.
#[derive(Clone, Debug)]
pub(crate) struct NewEnded {
    pub check: AnyCheck,
    pub ending: lifecycle::Ending,
    pub completion: Option<Completion>,
}

impl NewEnded {
    pub(crate) fn new(concluded: Concluded<AnyVerdict>, completion: Option<Completion>) -> Self {
        let ending = lifecycle::Ending::from(&concluded);
        NewEnded { check: concluded.into_check(), ending, completion }
    }

    /// What its operator said, if it is about a SIM.
    pub(crate) fn swap(&self) -> Option<SimSwap> {
        match self.check.verdict() {
            Some(AnyVerdict::Sim(swap)) => Some(*swap),
            _ => None,
        }
    }

    pub(crate) fn count(&self) -> UsageCount {
        UsageCount {
            project: self.check.project,
            product: self.check.product,
            at: self.check.created_at,
            status: self.ending.status(),
            matched: self.ending.matched(),
            network: self.check.network.clone(),
            change: 1,
        }
    }
}

/// The end of a check, and the callback that tells of it.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    pub ending: lifecycle::Ending,
    pub callback: Option<NewCallback>,
}

impl Conclusion {
    /// How the counters move when the check leaves the status that it had: pending, if it ever was. A device may have
    /// changed its network meanwhile: the row says which it was.
    pub(crate) fn counts(&self, was_pending: bool, network: Option<NetworkId>) -> [UsageCount; 2] {
        let ending = &self.ending;
        let ended = UsageCount {
            project: ending.project(),
            product: ending.product(),
            at: ending.created_at(),
            status: ending.status(),
            matched: ending.matched(),
            network,
            change: 1,
        };
        let status = if was_pending { lifecycle::Status::Pending } else { lifecycle::Status::Accepted };
        [UsageCount { status, matched: None, change: -1, ..ended.clone() }, ended]
    }
}

/// A device that is back, with its ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComeBack {
    pub check: CheckId,
    pub ticket: TokenHash,
}

/// What an operator said of a check.
#[derive(Clone, Debug)]
pub(crate) struct Decide {
    pub check: CheckId,
    pub decision: Decision,
}

/// Callbacks that somebody wants to send.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub now: Timestamp,
    pub until: Timestamp,
    pub limit: u32,
    /// Projects whose callbacks are left alone.
    pub skip: Vec<Uuid>,
}

/// A claim on an idempotency key that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Abandoned {
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
