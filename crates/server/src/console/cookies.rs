//! Cookies: the session, and the visitor cookie to which forms without a session are bound.

use http::{HeaderMap, HeaderValue, header};

use crate::http::App;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// The session token.
    Session,
    /// Binds the CSRF token of forms without a session to the browser.
    Visitor,
}

impl Cookie {
    /// The `__Host-` prefix makes browsers accept the cookie from this host only. It requires TLS.
    fn name(self, is_secure: bool) -> &'static str {
        match (self, is_secure) {
            (Cookie::Session, true) => "__Host-ringtrue-session",
            (Cookie::Session, false) => "ringtrue-session",
            (Cookie::Visitor, true) => "__Host-ringtrue-visitor",
            (Cookie::Visitor, false) => "ringtrue-visitor",
        }
    }

    pub fn read<'h>(self, app: &App, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.name(is_secure(app));
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(given, _)| *given == name).map(|(_, value)| value).filter(|value| !value.is_empty())
    }

    /// Sets the cookie until the browser is closed.
    pub fn set(self, app: &App, value: &str) -> HeaderValue {
        self.header(app, value, "")
    }

    pub fn clear(self, app: &App) -> HeaderValue {
        self.header(app, "", "; Max-Age=0")
    }

    fn header(self, app: &App, value: &str, more: &str) -> HeaderValue {
        let is_secure = is_secure(app);
        let secure = if is_secure { "; Secure" } else { "" };
        let name = self.name(is_secure);
        let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{more}");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
    }
}

/// Whether the public URL of this deployment uses TLS.
fn is_secure(app: &App) -> bool {
    app.engine.base_url().starts_with("https://")
}
