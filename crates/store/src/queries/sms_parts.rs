//! Stores the parts of concatenated SMS until they are complete.
//!
//! Each SMS has a row, which the first statement of [`add`] locks until the commit. If two nodes add the last two parts
//! concurrently, the second node therefore sees all parts.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::lifecycle::Sealed;
use ringtrue_engine::ports::{
    sms::{AddPartOutcome, ConcatenatedSmsKey, ReceivedSmsPart, SmsPartStore},
    store::StoreError,
};
use uuid::Uuid;

use super::SqlStore;
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, values},
};

/// Inserts the row of an SMS, or locks the existing row.
const LOCK_SMS_SQL: &str =
    "insert into concatenated_sms (sms_key, sms_id, connector, sender_hash, total_parts, expires_at)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (sms_key) do update set sms_key = excluded.sms_key
     returning sms_id, expires_at, processed_at";

/// Replaces an older SMS in its row by a newer SMS with the same key.
const REPLACE_SMS_SQL: &str =
    "update concatenated_sms set sms_id = $1, expires_at = $2, processed_at = null where sms_key = $3";

/// Counts a sender's SMS that are neither processed nor expired. The `limit` keeps the count cheap.
const COUNT_PENDING_OF_SENDER_SQL: &str = "select count(*) from
    (select 1 from concatenated_sms where sender_hash = $1 and processed_at is null and expires_at > $2 limit $3) as sms";
const COUNT_PENDING_OF_CONNECTOR_SQL: &str = "select count(*) from
    (select 1 from concatenated_sms where connector = $1 and expires_at > $2 and processed_at is null limit $3) as sms";

async fn add(tx: &mut dyn Tx, part: &ReceivedSmsPart) -> Result<TransactionEnd<AddPartOutcome>, StoreError> {
    let ReceivedSmsPart {
        key,
        sms,
        connector,
        sender,
        total_parts,
        sequence,
        content_hash,
        content,
        now,
        expires_at,
        limits,
    } = part;
    let key = key.0;
    let values = values![key, *sms, &**connector, *sender, i64::from(*total_parts), *expires_at];
    let locked = tx.first(LOCK_SMS_SQL, values).await?.ok_or_else(missing_row_error)?;
    let mut locked = locked.reader("concatenated_sms");
    let (mut current, expiry) = (locked.uuid("sms_id")?, locked.instant("expires_at")?);
    let is_processed = locked.int_or_null("processed_at")?.is_some();
    let mut is_new = current == *sms;
    if !is_new {
        let select = "select content_hash from sms_parts where sms_key = $1 and sequence = $2";
        let stored = tx.first(select, values![key, i64::from(*sequence)]).await?;
        let stored = stored.map(|row| row.reader("sms_parts").digest("content_hash")).transpose()?;
        if expiry <= *now || stored.is_some_and(|stored| stored != *content_hash) {
            tx.run("delete from sms_parts where sms_key = $1", values![key]).await?;
            tx.run(REPLACE_SMS_SQL, values![*sms, *expires_at, key]).await?;
            (current, is_new) = (*sms, true);
        } else if is_processed {
            return Ok(TransactionEnd::Rollback(AddPartOutcome::AlreadyProcessed));
        }
    }
    if is_new {
        // The row of the new SMS is already inserted, so the count includes it.
        let beyond = |limit: u32| i64::from(limit) + 1;
        let (per_sender, per_connector) = (beyond(limits.per_sender), beyond(limits.per_connector));
        if tx.number(COUNT_PENDING_OF_SENDER_SQL, values![*sender, *now, per_sender]).await? >= per_sender
            || tx.number(COUNT_PENDING_OF_CONNECTOR_SQL, values![&**connector, *now, per_connector]).await?
                >= per_connector
        {
            return Ok(TransactionEnd::Rollback(AddPartOutcome::LimitReached));
        }
    }
    let insert = "insert into sms_parts (sms_key, sequence, content_hash, content) values ($1, $2, $3, $4)
                  on conflict (sms_key, sequence) do nothing";
    tx.run(insert, values![key, i64::from(*sequence), *content_hash, content]).await?;
    let rows = tx.run("select content from sms_parts where sms_key = $1 order by sequence", values![key]).await?;
    if rows.len() < usize::from(*total_parts) {
        return Ok(TransactionEnd::Commit(AddPartOutcome::Stored { first: is_new }));
    }
    let content = |row: Row| row.reader("sms_parts").bytes("content").map(Sealed);
    let contents = rows.into_iter().map(content).collect::<Result<_, _>>()?;
    Ok(TransactionEnd::Commit(AddPartOutcome::Complete { sms: current, contents }))
}

fn missing_row_error() -> StoreError {
    StoreError::CorruptRow {
        table: "concatenated_sms",
        row: "?".to_owned(),
        problem: "the inserted row is missing".to_owned(),
    }
}

#[async_trait]
impl<D: Database> SmsPartStore for SqlStore<D> {
    async fn add_sms_part(&self, part: &ReceivedSmsPart) -> Result<AddPartOutcome, StoreError> {
        let part = part.clone();
        self.transact(work!(|tx| add(tx, &part).await)).await
    }

    async fn mark_sms_processed(&self, key: ConcatenatedSmsKey, sms: Uuid, now: Timestamp) -> Result<(), StoreError> {
        self.transact(work!(|tx| {
            let mark = "update concatenated_sms set processed_at = $1
                         where sms_key = $2 and sms_id = $3 returning 1";
            if tx.first(mark, values![now, key.0, sms]).await?.is_some() {
                tx.run("update sms_parts set content = null where sms_key = $1", values![key.0]).await?;
            }
            Ok(TransactionEnd::Commit(()))
        }))
        .await
    }

    async fn delete_expired_sms(&self, connector: &str, now: Timestamp) -> Result<u64, StoreError> {
        let connector = connector.to_owned();
        let select = format!(
            "select sms_key, processed_at, total_parts,
                    (select count(*) from sms_parts where sms_parts.sms_key = concatenated_sms.sms_key)
               from concatenated_sms where connector = $1 and expires_at <= $2
              order by expires_at, sms_key limit 1000 {}",
            self.database.skip_locked_sql()
        );
        self.transact(work!(|tx| {
            let mut incomplete = 0;
            for row in tx.query(select.into(), values![connector, now]).await? {
                let mut row = row.reader("concatenated_sms");
                let key = row.digest("sms_key")?;
                let is_processed = row.int_or_null("processed_at")?.is_some();
                let (total, stored) = (row.int("total_parts")?, row.int("stored")?);
                incomplete += u64::from(!is_processed && stored < total);
                tx.run("delete from concatenated_sms where sms_key = $1", values![key]).await?;
            }
            Ok(TransactionEnd::Commit(incomplete))
        }))
        .await
    }
}
