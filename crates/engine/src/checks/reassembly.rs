//! Reassembles concatenated SMS. Their parts may arrive at different nodes, in any order, repeatedly, or not at all.
//!
//! A part is stored before it is acknowledged to the operator, so a crash loses nothing. The parts of an SMS that
//! arrive at different nodes are joined in the database (docs/decisions/0008). The database contains only keyed hashes
//! of addresses and contents, and the encrypted contents.
//!
//! Anyone can send single parts without the rest. Therefore the number of incomplete SMS is limited per sender and per
//! connector, and incomplete SMS expire. A part beyond a limit is rejected, and the operator sends it again later.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{lifecycle::Sealed, reverse_sms::SmsEnvironment};

use crate::{
    context::Context,
    ports::{
        sms::{
            AddPartOutcome, CompleteSms, ConcatenatedSmsKey, PartOutcome, Reassembly, ReceivedSmsPart, SmsPart,
            SmsPartLimits, SmsPartStore,
        },
        store::StoreError,
    },
};

const LIMITS: SmsPartLimits = SmsPartLimits { per_sender: 8, per_connector: 10_000 };

#[derive(derive_more::Debug)]
#[debug("SmsReassembly")]
pub struct SmsReassembly {
    pub(crate) context: Arc<Context>,
    pub(crate) store: Arc<dyn SmsPartStore>,
}

#[async_trait]
impl Reassembly for SmsReassembly {
    async fn add_part(&self, part: SmsPart) -> Result<PartOutcome, StoreError> {
        let SmsPart { environment, connector, from, to, reference, total, sequence, content, lifetime } = part;
        let project = match environment {
            SmsEnvironment::Operator => [0; 16],
            SmsEnvironment::Sandbox(project) => project.0.into_bytes(),
        };
        let [connector_name, from, to] = [connector.as_bytes(), from.as_bytes(), to.as_bytes()];
        let sender = self.context.keyed_hash(&[b"sms sender", &project, connector_name, from])?;
        let key =
            ConcatenatedSmsKey(self.context.keyed_hash(&[b"concatenated sms", &sender, to, &reference, &[total]])?);
        let now = self.context.now();
        let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        let stored = ReceivedSmsPart {
            key,
            sms: self.context.new_uuid(now),
            connector,
            sender,
            total_parts: total,
            sequence,
            content_hash: self.context.keyed_hash(&[b"sms part", &key.0, &[sequence], &content])?,
            content: Sealed(self.context.seal(&seal_context(key, sequence), &content)?),
            now,
            expires_at: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            limits: LIMITS,
        };
        Ok(match self.store.add_sms_part(&stored).await? {
            AddPartOutcome::Stored { first } => PartOutcome::Stored { first },
            AddPartOutcome::Complete { sms, contents } => {
                let unseal = |(sequence, content): (u8, Sealed)| {
                    let unsealed = self.context.unseal(&seal_context(key, sequence), &content.0);
                    unsealed.ok_or_else(|| StoreError::CorruptRow {
                        table: "sms_parts",
                        row: sms.to_string(),
                        problem: format!("content of part {sequence} cannot be unsealed"),
                    })
                };
                let contents = (1..).zip(contents).map(unseal).collect::<Result<_, _>>()?;
                PartOutcome::Complete(CompleteSms { key, sms, contents })
            }
            AddPartOutcome::AlreadyProcessed => PartOutcome::AlreadyProcessed,
            AddPartOutcome::LimitReached => PartOutcome::LimitReached,
        })
    }

    async fn mark_processed(&self, sms: &CompleteSms) -> Result<(), StoreError> {
        self.store.mark_sms_processed(sms.key, sms.sms, self.context.now()).await
    }

    async fn discard_expired(&self, connector: &str) -> Result<u64, StoreError> {
        self.store.delete_expired_sms(connector, self.context.now()).await
    }
}

/// Returns the authenticated context of an encrypted part. It must stay the same in all releases, because parts that
/// are stored with another context cannot be unsealed.
fn seal_context(key: ConcatenatedSmsKey, sequence: u8) -> Vec<u8> {
    [b"sms part:".as_slice(), &key.0, &[sequence]].concat()
}
