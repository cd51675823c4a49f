//! Devices on their way, one at a time.

use ringtrue_engine::ports::{SetOut, StoreError};

use super::writer::{Step, Turn};
use crate::{
    check_rows::check_columns,
    driver::{ComeBack, Decide, Ending, values},
    row::Row,
    verbs::journeys::{has_left, journey_columns},
};

pub(super) const JOURNEY: &str = concat!(
    "select ",
    check_columns!(),
    ", ",
    journey_columns!(),
    " from checks left join journeys on journeys.check_id = checks.id where checks.id = $1"
);

/// There is one writer: what is so when it looks is so when it writes.
impl Step for SetOut {
    type Answer = bool;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<bool>, StoreError> {
        let before = turn.first(
            "select id, project_id, product, created_at, status, network_id from checks
              where id = $1 and status in ('ACCEPTED', 'PENDING')",
            values![self.check],
        )?;
        let Some(before) = before else { return Ok(Ending::Rollback(false)) };
        let counts = has_left(before, self)?;
        let sent = turn.change(
            "update journeys set ticket_hash = $1, leg = $2 where check_id = $3 and code_hash is null",
            values![self.ticket, &self.leg, self.check],
        )?;
        if sent == 0 {
            return Ok(Ending::Rollback(false));
        }
        if let Some(counts) = counts {
            turn.change(
                "update checks set pending_at = coalesce(pending_at, max($1, created_at)), status = 'PENDING', network_id = $2
                  where id = $3",
                values![self.at, &self.network, self.check],
            )?;
            turn.count(counts);
        }
        Ok(Ending::Commit(true))
    }
}

/// Nobody is told anything yet: what is told in the end is on the disk, and this with it.
impl Step for ComeBack {
    type Answer = Option<Row>;
    const IS_A_PROMISE: bool = false;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<Option<Row>>, StoreError> {
        let found = turn.first(
            concat!(
                "select ",
                check_columns!(),
                ", ",
                journey_columns!(),
                ", journeys.leg from checks join journeys on journeys.check_id = checks.id
                  where checks.id = $1 and journeys.ticket_hash = $2"
            ),
            values![self.check, self.ticket],
        )?;
        if found.is_some() {
            turn.change("update journeys set ticket_hash = null, leg = null where check_id = $1", values![self.check])?;
        }
        Ok(Ending::Commit(found))
    }
}

impl Step for Decide {
    type Answer = bool;

    fn run(&self, turn: &mut Turn<'_>) -> Result<Ending<bool>, StoreError> {
        let decided = turn.change(
            "update journeys set code_hash = $1, proof = $2, ticket_hash = null, leg = null
              where check_id = $3 and code_hash is null",
            values![self.decision.code, &self.decision.proof, self.check],
        )?;
        Ok(Ending::Commit(decided > 0))
    }
}
