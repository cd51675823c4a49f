//! Errors of the console, rendered as HTML pages instead of problem documents.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::{
    accounts::{AccessDenied, AccountError, InvitationError, LinkError, MemberError},
    checks::{CreateError, ReadError},
    ports::store::StoreError,
    silent::RedeemError,
    tenants::ManagementError,
};
use ringtrue_web::{
    development::Development,
    error_catalog::ProblemCode,
    problem::{FALLBACK_HINT, Problem},
};

use crate::page::{self, Layout};

#[derive(Debug)]
pub enum ConsoleError {
    Page(ErrorContent),
    /// Redirects to a path of the console instead of showing an error.
    Redirect(String),
}

/// Content of an error page.
#[derive(Clone, Debug)]
pub struct ErrorContent {
    status: StatusCode,
    title: &'static str,
    text: String,
    /// Shell command that the page suggests to solve the problem.
    command: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "page/error.html")]
struct ErrorPage<'a> {
    layout: Layout,
    status: u16,
    title: &'a str,
    text: &'a str,
    command: Option<&'a str>,
}

impl ErrorContent {
    pub fn render(&self, layout: Layout) -> Response {
        let ErrorContent { status, title, .. } = *self;
        let layout = Layout { title: title.to_owned(), ..layout };
        let text = to_sentence(&self.text);
        let page = ErrorPage { layout, status: status.as_u16(), title, text: &text, command: self.command.as_deref() };
        let mut response = page::render(status, &page);
        let retry_after = match status {
            StatusCode::SERVICE_UNAVAILABLE => Some("2"),
            StatusCode::TOO_MANY_REQUESTS => Some("1"),
            _ => None,
        };
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }
}

impl ConsoleError {
    pub fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        ConsoleError::Page(ErrorContent { status, title, text: text.into(), command: None })
    }

    /// Returns the error for an invalid or expired link, with advice on how to get another one.
    pub fn invalid_link(development: Option<&Development>) -> Self {
        let advice = match development {
            Some(_) => "This command creates a new one.",
            None => "Ask an administrator for a new one, or create it on the server.",
        };
        let command = development
            .map_or_else(|| "ringtrue console link --account EMAIL".to_owned(), Development::sign_in_link_command);
        ConsoleError::Page(ErrorContent {
            status: StatusCode::GONE,
            title: "Invalid link",
            text: format!("{} {advice}", to_sentence(&LinkError::Invalid.to_string())),
            command: Some(command),
        })
    }

    pub fn not_found() -> Self {
        ConsoleError::new(StatusCode::NOT_FOUND, "Page not found", "This page does not exist.")
    }

    pub fn invalid_csrf_token() -> Self {
        let text = "The form does not belong to your current session. Go back, reload the page and submit it again.";
        ConsoleError::new(StatusCode::FORBIDDEN, "Form expired", text)
    }

    pub fn rate_limited(owner: &str) -> Self {
        let text = format!("{owner} has exceeded its rate limit. Wait a second and try again.");
        ConsoleError::new(StatusCode::TOO_MANY_REQUESTS, "Rate limit exceeded", text)
    }
}

impl IntoResponse for ConsoleError {
    fn into_response(self) -> Response {
        match self {
            ConsoleError::Redirect(path) => page::see_other(&path),
            ConsoleError::Page(content) => {
                let mut response = content.render(Layout::anonymous(content.title));
                // Where the user is signed in, the page is rendered again, with the user's menu.
                response.extensions_mut().insert(content);
                response
            }
        }
    }
}

/// Turns an error detail into a sentence. Details start in lower case and have no full stop.
pub fn to_sentence(text: &str) -> String {
    let text = text.strip_suffix(FALLBACK_HINT).unwrap_or(text);
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

/// Keeps the status, title and text with which the API would report the problem.
impl From<Problem> for ConsoleError {
    fn from(problem: Problem) -> Self {
        let entry = problem.code.entry();
        ConsoleError::new(entry.status, entry.title, problem.detail)
    }
}

macro_rules! from_problems {
    ($($error:ty),*) => {
        $(
            impl From<$error> for ConsoleError {
                fn from(error: $error) -> Self {
                    Problem::from(error).into()
                }
            }
        )*
    };
}
from_problems!(CreateError, ManagementError, ReadError, RedeemError, StoreError);

impl From<AccessDenied> for ConsoleError {
    fn from(denied: AccessDenied) -> Self {
        ConsoleError::new(StatusCode::FORBIDDEN, "Permission denied", denied.to_string())
    }
}

impl From<MemberError> for ConsoleError {
    fn from(error: MemberError) -> Self {
        let (status, title) = match error {
            MemberError::LastOwner => (StatusCode::CONFLICT, "Last owner"),
            MemberError::NotAMember => (StatusCode::NOT_FOUND, "Member not found"),
            MemberError::InvitationNotFound => (StatusCode::NOT_FOUND, "Invitation not found"),
            MemberError::AlreadyMember => (StatusCode::CONFLICT, "Already a member"),
            MemberError::NotAllowed => (StatusCode::FORBIDDEN, "Permission denied"),
            MemberError::LimitReached { .. } => (StatusCode::CONFLICT, "Member limit reached"),
            MemberError::WorkspaceNotFound => {
                return Problem::new(ProblemCode::WorkspaceNotFound, error.to_string()).into();
            }
            MemberError::Store(cause) => return cause.into(),
        };
        ConsoleError::new(status, title, error.to_string())
    }
}

impl From<AccountError> for ConsoleError {
    fn from(error: AccountError) -> Self {
        let (status, title) = match error {
            AccountError::NotFound => (StatusCode::NOT_FOUND, "Account not found"),
            AccountError::Disabled => (StatusCode::CONFLICT, "Account disabled"),
            AccountError::LastAdministrator => (StatusCode::CONFLICT, "Last administrator"),
            AccountError::Conflict => (StatusCode::CONFLICT, "Account changed"),
            AccountError::NotAltered | AccountError::Store(StoreError::Altered(_)) => {
                (StatusCode::CONFLICT, "Account altered")
            }
            AccountError::Store(cause) => return cause.into(),
        };
        ConsoleError::new(status, title, error.to_string())
    }
}

impl From<InvitationError> for ConsoleError {
    fn from(error: InvitationError) -> Self {
        let (status, title) = match error {
            InvitationError::NotValid => {
                let text = to_sentence(&error.to_string()) + " An owner of the workspace can invite you again.";
                return ConsoleError::new(StatusCode::GONE, "Invalid invitation", text);
            }
            InvitationError::OtherAddress => (StatusCode::FORBIDDEN, "Wrong account"),
            InvitationError::Password(_) => (StatusCode::BAD_REQUEST, "Invalid password"),
            InvitationError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Server busy"),
            InvitationError::Store(cause) => return cause.into(),
        };
        ConsoleError::new(status, title, error.to_string())
    }
}

impl From<LinkError> for ConsoleError {
    fn from(error: LinkError) -> Self {
        let (status, title) = match error {
            LinkError::Invalid => return ConsoleError::invalid_link(None),
            LinkError::Password(_) => (StatusCode::BAD_REQUEST, "Invalid password"),
            LinkError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "Server busy"),
            LinkError::Store(cause) => return cause.into(),
        };
        ConsoleError::new(status, title, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_become_sentences() {
        for (detail, expected) in [("check not found", "Check not found."), ("Done.", "Done."), ("", ".")] {
            assert_eq!(to_sentence(detail), expected);
        }
    }
}
