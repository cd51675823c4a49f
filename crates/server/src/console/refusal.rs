//! What a person is told who does not get what they asked for: a page, where callers of the API get a problem.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::{
    accounts::{AccountError, Denied, InvitationError, LinkError, MemberError},
    ports::StoreError,
};

use super::page::{self, Frame};
use crate::http::{
    catalogue::Code,
    problem::{INSTEAD, Problem},
};

#[derive(Debug)]
pub enum Refusal {
    Told {
        status: StatusCode,
        title: &'static str,
        text: String,
    },
    /// To somewhere else in the console.
    Go(String),
}

#[derive(Debug, Template)]
#[template(path = "console/refusal.html")]
struct RefusalPage<'a> {
    frame: Frame,
    status: u16,
    title: &'a str,
    text: &'a str,
}

impl Refusal {
    pub fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Refusal::Told { status, title, text: text.into() }
    }

    pub fn not_found() -> Self {
        Refusal::new(StatusCode::NOT_FOUND, "Nothing here", "There is no such page.")
    }

    pub fn stale_form() -> Self {
        let text = "The form was not sent from a page of your session. Go back, load the page again, and send it anew.";
        Refusal::new(StatusCode::FORBIDDEN, "This form is out of date", text)
    }

    pub fn too_fast() -> Self {
        let text = "The workspace asks more often than it may. Wait a second, and send the form again.";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "Not so fast", text)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Go(path) => page::see_other(&path),
            Refusal::Told { status, title, text } => {
                let page =
                    RefusalPage { frame: Frame::bare(title), status: status.as_u16(), title, text: &sentence(&text) };
                let mut response = page::html(status, &page);
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
    }
}

/// What callers are told begins in lower case and has no full stop.
pub fn sentence(text: &str) -> String {
    let text = text.strip_suffix(INSTEAD).unwrap_or(text);
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        let entry = problem.code.entry();
        Refusal::new(entry.status, entry.title, problem.detail)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Problem::from(error).into()
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Refusal::new(StatusCode::FORBIDDEN, "You may not do this", denied.to_string())
    }
}

impl From<MemberError> for Refusal {
    fn from(error: MemberError) -> Self {
        let text = error.to_string();
        match error {
            MemberError::LastOwner => Refusal::new(StatusCode::CONFLICT, "Somebody must own the workspace", text),
            MemberError::NotAMember => Refusal::new(StatusCode::NOT_FOUND, "Nobody of that name", text),
            MemberError::NoInvitation => Refusal::new(StatusCode::NOT_FOUND, "No such invitation", text),
            MemberError::AlreadyMember => Refusal::new(StatusCode::CONFLICT, "A member already", text),
            MemberError::NotAllowed => Refusal::new(StatusCode::FORBIDDEN, "Not allowed", text),
            MemberError::LimitReached { .. } => Refusal::new(StatusCode::CONFLICT, "No more members", text),
            MemberError::WorkspaceNotFound => Problem::new(Code::WorkspaceNotFound, text).into(),
            MemberError::Store(cause) => cause.into(),
        }
    }
}

impl From<AccountError> for Refusal {
    fn from(error: AccountError) -> Self {
        let text = error.to_string();
        match error {
            AccountError::NotFound => Refusal::new(StatusCode::NOT_FOUND, "No such account", text),
            AccountError::Disabled => Refusal::new(StatusCode::CONFLICT, "The account is disabled", text),
            AccountError::LastAdministrator => {
                Refusal::new(StatusCode::CONFLICT, "The last administrator stays one", text)
            }
            AccountError::Store(cause) => cause.into(),
        }
    }
}

impl From<InvitationError> for Refusal {
    fn from(error: InvitationError) -> Self {
        let text = error.to_string();
        match error {
            InvitationError::NotValid => {
                let more = "An owner of the workspace can invite you again.";
                Refusal::new(StatusCode::GONE, "This invitation is not valid", format!("{} {more}", sentence(&text)))
            }
            InvitationError::OtherAddress => Refusal::new(StatusCode::FORBIDDEN, "Another address", text),
            InvitationError::AccountExists => Refusal::new(StatusCode::CONFLICT, "Sign in first", text),
            InvitationError::Password(_) => Refusal::new(StatusCode::BAD_REQUEST, "This password will not do", text),
            InvitationError::Busy => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "One moment, please", text),
            InvitationError::Store(cause) => cause.into(),
        }
    }
}

impl From<LinkError> for Refusal {
    fn from(error: LinkError) -> Self {
        let text = error.to_string();
        match error {
            LinkError::NotGood => {
                let more = "A new one comes from whoever invited you, or from `ringtrue console link` on the server.";
                Refusal::new(
                    StatusCode::GONE,
                    "This link is not good any more",
                    format!("{}. {more}", sentence(&text).trim_end_matches('.')),
                )
            }
            LinkError::Password(_) => Refusal::new(StatusCode::BAD_REQUEST, "This password will not do", text),
            LinkError::Busy => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "One moment, please", text),
            LinkError::Store(cause) => cause.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_become_sentences() {
        for (detail, told) in [("there is no such check", "There is no such check."), ("Done.", "Done."), ("", ".")] {
            assert_eq!(sentence(detail), told);
        }
    }
}
