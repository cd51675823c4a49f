//! MACs of rows that grant rights: accounts, memberships, invitations, sessions, links and credentials.
//!
//! The engine has the key, and the store has the rows. The store therefore uses the engine's [`RowSigner`] to compute
//! the MAC of each row that it writes. It verifies the MAC before it reads rights from a row or changes it. A row that
//! was written or altered outside Ringtrue has no valid MAC and grants nothing.

use std::fmt;

use jiff::Timestamp;
use ringtrue_domain::tenancy::Credential;
use uuid::Uuid;

use super::store::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowMac(pub [u8; 32]);

/// Computes and verifies MACs of rows with the hash key.
pub trait RowSigner: fmt::Debug + Send + Sync {
    fn sign(&self, fields: &RowFields) -> Result<RowMac, StoreError>;

    /// Whether the row has the right MAC. `false`: the row was written or altered outside Ringtrue.
    fn is_valid(&self, fields: &RowFields, mac: Option<RowMac>) -> Result<bool, StoreError> {
        let expected = self.sign(fields)?;
        Ok(mac.is_some_and(|mac| aws_lc_rs::constant_time::verify_slices_are_equal(&expected.0, &mac.0).is_ok()))
    }
}

/// The fields of a row that its MAC covers, in a fixed order.
#[derive(Clone, derive_more::Debug)]
#[debug("RowFields(…)")]
pub struct RowFields(Vec<Vec<u8>>);

impl RowFields {
    /// Begins the fields of a row. The table's name is the first one, so that a MAC is not valid for a row of another
    /// table.
    pub fn of_table(table: &'static str) -> Self {
        RowFields(vec![b"row".to_vec(), table.as_bytes().to_vec()])
    }

    #[must_use]
    pub fn with_bytes(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.push(bytes.as_ref().to_vec());
        self
    }

    #[must_use]
    pub fn with_uuid(self, id: Uuid) -> Self {
        self.with_bytes(id.as_bytes())
    }

    #[must_use]
    pub fn with_flag(self, flag: bool) -> Self {
        self.with_bytes([u8::from(flag)])
    }

    #[must_use]
    pub fn with_instant(self, at: Timestamp) -> Self {
        self.with_bytes(at.as_millisecond().to_be_bytes())
    }

    /// Adds a field that may be absent. An absent field is encoded differently from an empty one.
    #[must_use]
    pub fn with_optional(self, bytes: Option<impl AsRef<[u8]>>) -> Self {
        let encoded = bytes.map_or_else(Vec::new, |bytes| [&[1], bytes.as_ref()].concat());
        self.with_bytes(encoded)
    }

    pub fn parts(&self) -> Vec<&[u8]> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

/// Returns all fields of a credential that decide what it permits, and until when.
pub fn credential_fields(credential: &Credential) -> RowFields {
    let Credential { client_id, owner, secret_digest, scopes, created_at, expires_at, retires_at, deleted_at, .. } =
        credential;
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.into_str()).collect();
    let millis = |at: &Option<Timestamp>| at.map(|at| at.as_millisecond().to_be_bytes());
    RowFields::of_table("credentials")
        .with_bytes(client_id.as_str())
        .with_uuid(owner.workspace().0)
        .with_optional(owner.project().map(|project| *project.0.as_bytes()))
        .with_bytes(secret_digest.0)
        .with_bytes(scopes.join(" "))
        .with_instant(*created_at)
        .with_optional(millis(expires_at))
        .with_optional(millis(retires_at))
        .with_optional(millis(deleted_at))
}
