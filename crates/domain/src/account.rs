//! Console accounts, their roles and permissions.

use std::str::FromStr;

use jiff::Timestamp;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::{id::identifier, parse_error::default_error, tenancy::WorkspaceId};

identifier!(
    /// Identifier of an account.
    AccountId
);

/// A console user. The password hash is stored separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub email: Email,
    /// Whether the account is an administrator of the deployment, who has all permissions in every workspace.
    pub is_admin: bool,
    pub created_at: Timestamp,
}

identifier!(
    /// Identifier of an invitation.
    InvitationId
);

/// An invitation to become a member of a workspace. Only the account with this email address can accept it, by its
/// link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    pub workspace: WorkspaceId,
    pub email: Email,
    pub role: Role,
    /// Account that sent the invitation. `None`: it was created on the command line.
    pub invited_by: Option<AccountId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The email address of an account, in lower case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
// Hides the address, which is personal data.
#[debug("Email(…)")]
pub struct Email(String);

impl Email {
    const MAX_LENGTH: usize = 254;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::display_as_str::display_as_str!(Email);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an email address")]
pub struct InvalidEmail;

impl FromStr for Email {
    type Err = InvalidEmail;

    /// Checks only the form, because the address is used as a login name: the service sends no email to it.
    fn from_str(text: &str) -> Result<Self, InvalidEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidEmail)?;
        let is_forbidden = |symbol: char| symbol.is_whitespace() || symbol.is_control() || symbol == '@';
        let local_is_valid = !local.is_empty() && !local.contains(is_forbidden);
        let domain_is_valid =
            !domain.is_empty() && !domain.contains(is_forbidden) && !domain.starts_with('.') && !domain.ends_with('.');
        if local_is_valid && domain_is_valid && text.len() <= Self::MAX_LENGTH {
            Ok(Email(text.to_lowercase()))
        } else {
            Err(InvalidEmail)
        }
    }
}

/// The role of a member in a workspace.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray, VariantNames,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidRole, parse_err_fn = default_error)]
pub enum Role {
    Viewer,
    Developer,
    Owner,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown role; use `viewer`, `developer` or `owner`")]
pub struct InvalidRole;

/// A permission in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    View,
    /// May change projects and credentials, create checks and resend callbacks.
    Develop,
    /// May manage members and use the Management API.
    ManageAccess,
}

impl Role {
    pub fn may(self, permission: Permission) -> bool {
        match permission {
            Permission::View => true,
            Permission::Develop => self >= Role::Developer,
            Permission::ManageAccess => self == Role::Owner,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    pub workspace: WorkspaceId,
    pub role: Role,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_emails_are_accepted() {
        for (text, email) in
            [("a@b", "a@b"), (" Jane.Doe+x@Example.COM ", "jane.doe+x@example.com"), ("ü@ö.example", "ü@ö.example")]
        {
            assert_eq!(text.parse::<Email>().map(|email| email.0), Ok(email.to_owned()));
        }
        let long = format!("{}@example.com", "x".repeat(250));
        for bad in ["", "a", "@", "a@", "@b", "a b@c", "a@b c", "a@b@c", "a@.b", "a@b.", "a\n@b", &long] {
            assert_eq!(bad.parse::<Email>(), Err(InvalidEmail), "{bad:?}");
        }
        assert_eq!(format!("{:?}", "a@b".parse::<Email>().unwrap()), "Email(…)");
    }

    #[test]
    fn roles_have_their_permissions() {
        for (role, permissions) in [
            (Role::Viewer, [true, false, false]),
            (Role::Developer, [true, true, false]),
            (Role::Owner, [true, true, true]),
        ] {
            assert_eq!(
                [Permission::View, Permission::Develop, Permission::ManageAccess]
                    .map(|permission| role.may(permission)),
                permissions
            );
        }
    }
}
