//! What goes through the writer: verbs of any kind, and steps, which are made for it.

use std::{mem, ptr};

use ringtrue_engine::ports::{StoreError, UsageCount};
use rusqlite::{CachedStatement, Connection, Statement, params_from_iter};
use tokio::sync::oneshot;

use super::super::{
    connection::{SqliteTx, at_once, rows_of},
    counters,
    ended_checks::EndedChecks,
    error::store_error,
};
use crate::{
    driver::{Ended, Ending, NewEnded, Tx, Value},
    row::Row,
};

/// A verb that many callers use at once.
///
/// Steps run together, without a savepoint each. One that refuses should do so before it writes: if it has written, its
/// batch is run once more, with savepoints.
pub trait Step: Send + 'static {
    type Answer: Send + 'static;

    /// Whether its caller is told anything that must outlive the machine. If not, the answer comes before the disk has
    /// the step; whatever is on the disk later has it too.
    const IS_A_PROMISE: bool = true;

    /// May be called again if what it wrote was taken back.
    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<Self::Answer>, StoreError>;
}

/// The place of steps in a transaction, one after the other. What one of them has prepared is ready for the next, and what
/// can be written together is, at the end.
pub struct Turn<'c> {
    connection: &'c Connection,
    statements: Vec<(&'static str, CachedStatement<'c>)>,
    ended: EndedChecks,
    counts: Vec<UsageCount>,
}

/// How much there was to be written together.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    ended: usize,
    counts: usize,
}

impl<'c> Turn<'c> {
    pub(super) fn over(connection: &'c Connection) -> Self {
        Turn { connection, statements: Vec::new(), ended: EndedChecks::default(), counts: Vec::new() }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { ended: self.ended.len(), counts: self.counts.len() }
    }

    /// Forgets what is to be written for a step that is not kept.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.ended.truncate(mark.ended);
        self.counts.truncate(mark.counts);
    }

    pub(super) fn write(self) -> Result<(), StoreError> {
        self.ended.write(self.connection)?;
        counters::write(&self.counts, self.connection)
    }

    /// Gives how many rows a statement has changed. For `returning` a table would be made, each time.
    pub fn change(&mut self, sql: &'static str, values: &[Value]) -> Result<usize, StoreError> {
        let changed = self.statement(sql).and_then(|statement| statement.execute(params_from_iter(values)));
        changed.map_err(|error| store_error(&error))
    }

    pub fn rows(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let found = self.statement(sql).and_then(|statement| rows_of(statement, values));
        found.map_err(|error| store_error(&error))
    }

    pub fn first(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values)?.into_iter().next())
    }

    /// Inserts a check with the rest of the batch, if the step is kept.
    pub fn insert(&mut self, new: &NewEnded) {
        self.ended.add(new);
    }

    /// Counts with the rest of the batch, if the step is kept.
    pub fn count(&mut self, counts: impl IntoIterator<Item = UsageCount>) {
        self.counts.extend(counts);
    }

    fn statement(&mut self, sql: &'static str) -> rusqlite::Result<&mut Statement<'c>> {
        // By where the text stands: reading it to the end each time would cost more than some statements.
        let known = self.statements.iter().position(|(known, _)| ptr::eq(*known, sql));
        let place = known.unwrap_or(self.statements.len());
        if known.is_none() {
            self.statements.push((sql, self.connection.prepare_cached(sql)?));
        }
        Ok(&mut self.statements[place].1)
    }
}

/// Something on its way through the writer.
pub trait Job: Send {
    fn is_wanted(&self) -> bool;
    fn is_a_promise(&self) -> bool;
    /// Tells the caller, once it is known what became of the batch.
    fn answer(self: Box<Self>, batch: &Result<(), String>);
}

/// A step on its way.
pub(super) trait Taken: Job {
    fn run(&mut self, turn: &mut Turn<'_>) -> Keep;
    /// It was run, and could not be kept.
    fn fail(&mut self, error: StoreError);
}

/// A verb on its way.
pub(super) trait Run: Job {
    fn run(&mut self, connection: &mut Connection) -> Keep;
}

pub(super) enum Work {
    Step(Box<dyn Taken>),
    Verb(Box<dyn Run>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    All,
    Nothing,
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(super) struct StepJob<S: Step> {
    pub step: S,
    pub done: Option<Result<S::Answer, StoreError>>,
    pub reply: Reply<S::Answer>,
}

impl<S: Step> Job for StepJob<S> {
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn is_a_promise(&self) -> bool {
        S::IS_A_PROMISE
    }

    fn answer(self: Box<Self>, batch: &Result<(), String>) {
        tell(self.reply, batch, self.done);
    }
}

impl<S: Step> Taken for StepJob<S> {
    fn run(&mut self, turn: &mut Turn<'_>) -> Keep {
        self.done = None;
        let (keep, answer) = split(self.step.run(turn));
        self.done = Some(answer);
        keep
    }

    fn fail(&mut self, error: StoreError) {
        self.done = Some(Err(error));
    }
}

pub(super) struct VerbJob<W, T> {
    pub state: State<W, T>,
    pub reply: Reply<T>,
}

pub(super) enum State<W, T> {
    Waiting(W),
    Done(Result<T, StoreError>),
    /// While it runs, and for good if it panics.
    Running,
}

impl<T, W> Job for VerbJob<W, T>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
{
    fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn is_a_promise(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, batch: &Result<(), String>) {
        let done = match self.state {
            State::Done(answer) => Some(answer),
            State::Waiting(_) | State::Running => None,
        };
        tell(self.reply, batch, done);
    }
}

impl<T, W> Run for VerbJob<W, T>
where
    T: Send + 'static,
    W: for<'t> FnOnce(&'t mut (dyn Tx + 't)) -> Ended<'t, T> + Send + 'static,
{
    fn run(&mut self, connection: &mut Connection) -> Keep {
        let State::Waiting(work) = mem::replace(&mut self.state, State::Running) else { return Keep::Nothing };
        let (keep, answer) = split(at_once(work(&mut SqliteTx { connection })));
        self.state = State::Done(answer);
        keep
    }
}

fn split<T>(ending: Result<Ending<T>, StoreError>) -> (Keep, Result<T, StoreError>) {
    match ending {
        Ok(Ending::Commit(answer)) => (Keep::All, Ok(answer)),
        Ok(Ending::Rollback(answer)) => (Keep::Nothing, Ok(answer)),
        Err(error) => (Keep::Nothing, Err(error)),
    }
}

fn tell<T>(reply: Reply<T>, batch: &Result<(), String>, done: Option<Result<T, StoreError>>) {
    let answer = match (batch, done) {
        (Err(reason), _) => Err(StoreError::Unavailable(reason.clone())),
        (Ok(()), Some(answer)) => answer,
        (Ok(()), None) => Err(StoreError::Refused("the verb broke off in a panic".to_owned())),
    };
    // A caller that has gone away does not need its answer.
    drop(reply.send(answer));
}
