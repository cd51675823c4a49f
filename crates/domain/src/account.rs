//! People who sign in to the console, and what they may do there.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::{id::identifier, tenancy::WorkspaceId};

identifier!(
    /// Names an account.
    AccountId
);

/// A person. The password is nowhere: only its hash is kept, and apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub email: Email,
    /// Runs the deployment: may do everything in every workspace.
    pub is_admin: bool,
    pub created_at: Timestamp,
}

identifier!(
    /// Names an invitation.
    InvitationId
);

/// A pending membership: it becomes a membership when somebody accepts it who has its link and is signed in with its
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    pub workspace: WorkspaceId,
    pub email: Email,
    pub role: Role,
    /// `None`: the operator, at the command line.
    pub invited_by: Option<AccountId>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// An address that a person signs in with, in lower case.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Email(String);

impl Email {
    const MAX_LENGTH: usize = 254;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an e-mail address")]
pub struct NotAnEmail;

impl FromStr for Email {
    type Err = NotAnEmail;

    /// Whether anybody reads mail there is not asked: it is a name to sign in with.
    fn from_str(text: &str) -> Result<Self, NotAnEmail> {
        let text = text.trim();
        let (local, domain) = text.rsplit_once('@').ok_or(NotAnEmail)?;
        let is_odd = |symbol: char| symbol.is_whitespace() || symbol.is_control() || symbol == '@';
        let shape_is_right = !local.is_empty() && !domain.is_empty() && !local.contains(is_odd);
        let domain_is_right = !domain.contains(is_odd) && !domain.starts_with('.') && !domain.ends_with('.');
        if shape_is_right && domain_is_right && text.len() <= Self::MAX_LENGTH {
            Ok(Email(text.to_lowercase()))
        } else {
            Err(NotAnEmail)
        }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Masked: it names a person.
impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(…)")
    }
}

/// What a member of a workspace is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Viewer,
    Developer,
    Owner,
}

/// What somebody wants to do in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// See what is there.
    Look,
    /// Change projects and their credentials, run checks, send callbacks again.
    Develop,
    /// Say who else may come in, and open the Management API.
    Own,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Developer, Role::Owner];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Developer => "developer",
            Role::Owner => "owner",
        }
    }

    pub fn may(self, power: Power) -> bool {
        match power {
            Power::Look => true,
            Power::Develop => self >= Role::Developer,
            Power::Own => self == Role::Owner,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a role: `viewer`, `developer` and `owner` are")]
pub struct NotARole;

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(NotARole)
    }
}

/// That somebody belongs to a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    pub workspace: WorkspaceId,
    pub role: Role,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, email) in
            [("a@b", "a@b"), (" Jane.Doe+x@Example.COM ", "jane.doe+x@example.com"), ("ü@ö.example", "ü@ö.example")]
        {
            assert_eq!(text.parse::<Email>().map(|email| email.0), Ok(email.to_owned()));
        }
        let long = format!("{}@example.com", "x".repeat(250));
        for bad in ["", "a", "@", "a@", "@b", "a b@c", "a@b c", "a@b@c", "a@.b", "a@b.", "a\n@b", &long] {
            assert_eq!(bad.parse::<Email>(), Err(NotAnEmail), "{bad:?}");
        }
        assert_eq!(format!("{:?}", "a@b".parse::<Email>().unwrap()), "Email(…)");
    }

    #[test]
    fn roles_and_powers() {
        for (role, powers) in [
            (Role::Viewer, [true, false, false]),
            (Role::Developer, [true, true, false]),
            (Role::Owner, [true, true, true]),
        ] {
            assert_eq!([Power::Look, Power::Develop, Power::Own].map(|power| role.may(power)), powers);
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("admin".parse::<Role>(), Err(NotARole));
    }
}
