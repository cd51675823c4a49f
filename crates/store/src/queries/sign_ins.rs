//! Stores sign-ins (OpenID Connect), pushed authorization requests, sessions of browsers and used assertions.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, NumberHash, Sealed},
    sign_in::SignInId,
    tenancy::{ClientId, ProjectId},
};
use ringtrue_engine::ports::{
    hashes::TokenHash,
    sign_in::{
        CodeRedemption, EndedSignIn, PushedAuthorization, SignInCheck, SignInEnd, SignInRecord, SignInSession,
        SignInStore,
    },
    store::StoreError,
};

use super::{SqlStore, usage};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, values},
};

const FIND: &str = "select id, project_id, client_id, request, created_at, expires_at, check_product, check_id, number,
                           proof, code_expires_at, redeemed_at, revoked_at, error
                      from sign_ins where id = $1";

fn record_from_row(row: Row) -> Result<SignInRecord, StoreError> {
    let mut row = row.reader("sign_ins");
    let (id, project) = (SignInId(row.uuid("id")?), ProjectId(row.uuid("project_id")?));
    let (client, request) = (row.parsed("client_id")?, Sealed(row.bytes("request")?));
    let (created_at, expires_at) = (row.instant("created_at")?, row.instant("expires_at")?);
    let product = row.parsed_or_null("check_product")?;
    let check = row.uuid_or_null("check_id")?;
    let number = row.bytes_or_null("number")?.map(Sealed);
    let (proof, code_expires_at) = (row.bytes_or_null("proof")?, row.instant_or_null("code_expires_at")?);
    let (redeemed_at, revoked_at) = (row.instant_or_null("redeemed_at")?, row.instant_or_null("revoked_at")?);
    let error = row.text_or_null("error")?;
    let end = match (proof.zip(code_expires_at), error) {
        (Some((proof, code_expires_at)), _) => {
            Some(SignInEnd::Proven { proof: Sealed(proof), code_expires_at, redeemed_at, revoked_at })
        }
        (None, Some(error)) => Some(SignInEnd::Failed { error }),
        (None, None) => None,
    };
    Ok(SignInRecord {
        id,
        project,
        client,
        request,
        created_at,
        expires_at,
        check: product.zip(check).map(|(product, id)| SignInCheck { product, id: CheckId(id) }),
        number,
        end,
    })
}

async fn insert_session(tx: &mut dyn Tx, session: &SignInSession) -> Result<(), StoreError> {
    let SignInSession { token, project, number, proof, expires_at } = session;
    let insert = "insert into sign_in_sessions (token_hash, project_id, number_hash, proof, expires_at)
                  values ($1, $2, $3, $4, $5)";
    tx.run(insert, values![*token, *project, *number, proof, *expires_at]).await.map(drop)
}

/// The columns `proof`, `code_expires_at` and `error` of a sign-in that ends. Its code is not redeemed yet.
fn end_columns(end: Option<SignInEnd>) -> (Option<Sealed>, Option<Timestamp>, Option<String>) {
    match end {
        Some(SignInEnd::Proven { proof, code_expires_at, .. }) => (Some(proof), Some(code_expires_at), None),
        Some(SignInEnd::Failed { error }) => (None, None, Some(error)),
        None => (None, None, None),
    }
}

#[async_trait]
impl<D: Database> SignInStore for SqlStore<D> {
    async fn create_sign_in(&self, record: SignInRecord) -> Result<(), StoreError> {
        let SignInRecord { id, project, client, request, created_at, expires_at, end, .. } = record;
        let (proof, code_expires_at, error) = end_columns(end);
        let insert = "insert into sign_ins
                        (id, project_id, client_id, request, created_at, expires_at, proof, code_expires_at, error)
                      values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        #[rustfmt::skip]
        let values = values![
            id.0, project, client.as_str(), &request, created_at, expires_at, proof.as_ref(), code_expires_at, error,
        ];
        self.write(insert, values).await.map(drop)
    }

    async fn find_sign_in(&self, id: SignInId) -> Result<Option<SignInRecord>, StoreError> {
        self.read_first(FIND, values![id.0]).await?.map(record_from_row).transpose()
    }

    async fn replace_sign_in_check(
        &self,
        id: SignInId,
        from: Option<CheckId>,
        to: SignInCheck,
        number: Option<Sealed>,
    ) -> Result<bool, StoreError> {
        let update = "update sign_ins set check_product = $1, check_id = $2, number = $3
                       where id = $4 and proof is null and error is null
                         and (check_id = $5 or ($5 is null and check_id is null))
                      returning 1";
        let values = values![to.product.into_str(), to.id, number.as_ref(), id.0, from];
        Ok(!self.write(update, values).await?.is_empty())
    }

    async fn end_sign_in(&self, ended: EndedSignIn) -> Result<bool, StoreError> {
        let EndedSignIn { id, end, session, usage } = ended;
        let (proof, code_expires_at, error) = end_columns(Some(end));
        self.transact(work!(|tx| {
            let update = "update sign_ins set proof = $1, code_expires_at = $2, error = $3
                           where id = $4 and proof is null and error is null
                          returning 1";
            let values = values![proof.as_ref(), code_expires_at, error.as_deref(), id.0];
            if !tx.exists(update, values).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            if let Some(session) = &session {
                insert_session(tx, session).await?;
            }
            usage::apply_changes::<D>(tx, usage.as_slice()).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn redeem_sign_in_code(
        &self,
        id: SignInId,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<CodeRedemption, StoreError> {
        self.transact(work!(|tx| {
            // Of two concurrent calls, the second waits for the commit of the first and then changes nothing here.
            let redeem = "update sign_ins set redeemed_at = $1, expires_at = $2
                           where id = $3 and redeemed_at is null and code_expires_at > $1
                          returning 1";
            if tx.exists(redeem, values![at, expires_at, id.0]).await? {
                return Ok(TransactionEnd::Commit(CodeRedemption::Redeemed));
            }
            let revoke = "update sign_ins set revoked_at = coalesce(revoked_at, $1)
                           where id = $2 and redeemed_at is not null
                          returning 1";
            Ok(if tx.exists(revoke, values![at, id.0]).await? {
                TransactionEnd::Commit(CodeRedemption::AlreadyRedeemed)
            } else {
                TransactionEnd::Rollback(CodeRedemption::Invalid)
            })
        }))
        .await
    }

    async fn push_authorization(&self, pushed: PushedAuthorization) -> Result<(), StoreError> {
        let PushedAuthorization { reference, client, parameters, expires_at } = pushed;
        let insert = "insert into pushed_authorizations (reference_hash, client_id, parameters, expires_at)
                      values ($1, $2, $3, $4)";
        self.write(insert, values![reference, client.as_str(), &parameters, expires_at]).await.map(drop)
    }

    async fn take_pushed_authorization(
        &self,
        reference: TokenHash,
        client: &ClientId,
        now: Timestamp,
    ) -> Result<Option<Sealed>, StoreError> {
        let delete = "delete from pushed_authorizations
                       where reference_hash = $1 and client_id = $2 and expires_at > $3
                      returning parameters";
        let taken = self.write(delete, values![reference, client.as_str(), now]).await?.into_iter().next();
        taken.map(|row| row.reader("pushed_authorizations").bytes("parameters").map(Sealed)).transpose()
    }

    async fn find_sign_in_session(
        &self,
        token: TokenHash,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<Option<SignInSession>, StoreError> {
        let select = "select number_hash, proof, expires_at from sign_in_sessions
                       where token_hash = $1 and project_id = $2 and expires_at > $3";
        let row = self.read_first(select, values![token, project, now]).await?;
        let session = |row: Row| {
            let mut row = row.reader("sign_in_sessions");
            let number = NumberHash(row.digest("number_hash")?);
            let (proof, expires_at) = (Sealed(row.bytes("proof")?), row.instant("expires_at")?);
            Ok(SignInSession { token, project, number, proof, expires_at })
        };
        row.map(session).transpose()
    }

    async fn record_assertion(&self, assertion: TokenHash, expires_at: Timestamp) -> Result<bool, StoreError> {
        let insert = "insert into used_assertions (assertion_hash, expires_at) values ($1, $2)
                      on conflict (assertion_hash) do nothing
                      returning 1";
        Ok(!self.write(insert, values![assertion, expires_at]).await?.is_empty())
    }
}
