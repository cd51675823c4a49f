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

use super::SqlStore;
use crate::{
    driver::Database,
    operation::SignInOperation,
    row::{Row, values},
};

const FIND_SQL: &str =
    "select id, project_id, client_id, request, created_at, expires_at, check_product, check_id, number,
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

#[async_trait]
impl<D: Database> SignInStore for SqlStore<D> {
    async fn create_sign_in(&self, record: SignInRecord) -> Result<(), StoreError> {
        self.database.run(SignInOperation::Create(record)).await.map(drop)
    }

    async fn find_sign_in(&self, id: SignInId) -> Result<Option<SignInRecord>, StoreError> {
        self.query_first(FIND_SQL, values![id.0]).await?.map(record_from_row).transpose()
    }

    async fn find_sign_in_of_code(&self, id: SignInId) -> Result<Option<SignInRecord>, StoreError> {
        self.database.look_up(FIND_SQL, [id.0.into()]).await?.map(record_from_row).transpose()
    }

    async fn replace_sign_in_check(
        &self,
        id: SignInId,
        from: Option<CheckId>,
        to: SignInCheck,
        number: Option<Sealed>,
    ) -> Result<bool, StoreError> {
        self.database.run(SignInOperation::ReplaceCheck { id, from, to, number }).await
    }

    async fn end_sign_in(&self, ended: EndedSignIn) -> Result<bool, StoreError> {
        self.database.run(SignInOperation::End(ended)).await
    }

    async fn redeem_sign_in_code(
        &self,
        id: SignInId,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<CodeRedemption, StoreError> {
        if self.database.run(SignInOperation::Redeem { id, at, expires_at }).await? {
            return Ok(CodeRedemption::Redeemed);
        }
        // The operation has written nothing, so the revocation is the only transaction.
        let revoke = "update sign_ins set revoked_at = coalesce(revoked_at, $1)
                       where id = $2 and redeemed_at is not null
                      returning 1";
        let is_redeemed = !self.execute(revoke, values![at, id.0]).await?.is_empty();
        Ok(if is_redeemed { CodeRedemption::AlreadyRedeemed } else { CodeRedemption::Invalid })
    }

    async fn push_authorization(&self, pushed: PushedAuthorization) -> Result<(), StoreError> {
        let PushedAuthorization { reference, client, parameters, expires_at } = pushed;
        let insert = "insert into pushed_authorizations (reference_hash, client_id, parameters, expires_at)
                      values ($1, $2, $3, $4)";
        self.execute(insert, values![reference, client.as_str(), &parameters, expires_at]).await.map(drop)
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
        let taken = self.execute(delete, values![reference, client.as_str(), now]).await?.into_iter().next();
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
        let row = self.query_first(select, values![token, project, now]).await?;
        let session = |row: Row| {
            let mut row = row.reader("sign_in_sessions");
            let number = NumberHash(row.digest("number_hash")?);
            let (proof, expires_at) = (Sealed(row.bytes("proof")?), row.instant("expires_at")?);
            Ok(SignInSession { token, project, number, proof, expires_at })
        };
        row.map(session).transpose()
    }

    async fn record_assertion(&self, assertion: TokenHash, expires_at: Timestamp) -> Result<bool, StoreError> {
        self.database.run(SignInOperation::UseAssertion { assertion, expires_at }).await
    }
}
