//! Browsers without a session: CSRF tokens for their forms, and the path at which they continue after sign-in.

use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use ringtrue_web::app::App;

use crate::{page::error::ConsoleError, session::console_session::Cookie};

/// Returns a CSRF token for a form without a session, and a new visitor cookie if the browser has none.
pub fn visitor_csrf_token(app: &App, headers: &HeaderMap) -> Result<(String, Option<HeaderValue>), ConsoleError> {
    if let Some(cookie) = Cookie::Visitor.read(app, headers) {
        return Ok((app.engine.accounts.csrf_token(cookie)?, None));
    }
    let cookie = app.engine.accounts.generate_token();
    Ok((app.engine.accounts.csrf_token(&cookie)?, Some(Cookie::Visitor.set(app, &cookie))))
}

pub fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Returns the invitation token if the path is that of an invitation.
pub fn invitation_token(path: &str) -> Option<String> {
    path.strip_prefix("/console/invitation?").and_then(|query| query_value(Some(query), "token"))
}

/// Returns the first value of a query parameter. Unlike `Query`, it accepts unknown and repeated parameters.
pub fn query_value(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs.find(|(given, _)| given == name).map(|(_, value)| value.into_owned())
}

/// Restricts the redirect after sign-in to paths of the console.
pub fn restrict_to_console_path(next: Option<&str>) -> String {
    let is_console_path = |path: &&str| {
        let rest = path.strip_prefix("/console");
        let stays = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        stays && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !path.contains("//")
    };
    next.filter(is_console_path).unwrap_or("/console").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_the_console() {
        for good in ["/console", "/console?x=1", "/console/workspaces/1?search=a%20b"] {
            assert_eq!(restrict_to_console_path(Some(good)), good);
        }
        for bad in [
            "",
            "//evil.example",
            "/console//evil.example",
            "https://evil.example",
            "/consoles",
            "/docs",
            "/console\\x",
            "/console/\r\n",
        ] {
            assert_eq!(restrict_to_console_path(Some(bad)), "/console", "{bad:?}");
        }
        assert_eq!(restrict_to_console_path(None), "/console");
    }
}
