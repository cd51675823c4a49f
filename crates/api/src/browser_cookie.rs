//! Cookies with browser keys. A browser key is a secret that lets the browser that began a sign-in, or the silent checks
//! of a verification, and no other browser, finish them.
//!
//! Each verification has its own cookie, so that tabs with different verifications do not overwrite each other's key. A
//! cookie expires after the maximum duration of a silent check.
//!
//! The cookie also says whether the check began in a pop-up window, because the URL to which the operator redirects the
//! browser cannot carry this information.

use http::{HeaderMap, HeaderValue, header};
use ringtrue_domain::{
    lifecycle::CheckId,
    sign_in::{SessionLifetime, SignInId},
    silent::CHECK_TTL_SECONDS,
    tenancy::ProjectId,
};
use ringtrue_engine::{sign_in::SIGN_IN_TTL, silent::BrowserKey};
use ringtrue_verification_page::DisplayMode;
use ringtrue_web::app::App;
use uuid::Uuid;

/// The `__Host-` prefix makes browsers accept the cookie from this host only. It requires TLS.
const SECURE_PREFIX: &str = "__Host-ringtrue-device-";
const PLAIN_PREFIX: &str = "ringtrue-device-";
/// Prefixes of cookies with the session of a browser that stays signed in to a project.
const SECURE_SESSION_PREFIX: &str = "__Host-ringtrue-session-";
const PLAIN_SESSION_PREFIX: &str = "ringtrue-session-";
/// Maximum number of these cookies that a browser keeps. More could exceed the size limit of request headers.
const MAX_COOKIES: usize = 16;
/// Suffix of the cookie's value if the check began in a pop-up window. It starts with a dot, which browser keys do not
/// contain.
const POPUP_VALUE_SUFFIX: &str = ".popup";

/// Reads the browser keys of all verifications from the cookies of a request.
pub fn read_keys(app: &App, headers: &HeaderMap) -> Vec<BrowserKey> {
    cookies(app, headers).filter_map(|(_, value)| BrowserKey::parse(key_of(value))).take(MAX_COOKIES).collect()
}

/// Returns whether the browser began the silent check of a verification in a pop-up window.
pub fn began_in_popup(app: &App, headers: &HeaderMap, verification: CheckId) -> bool {
    let own_name = name(app, verification.0);
    cookies(app, headers).any(|(name, value)| name == own_name && value.ends_with(POPUP_VALUE_SUFFIX))
}

/// Returns the `Set-Cookie` headers that give a browser its key for a verification. They also remove cookies of other
/// verifications if there are too many.
pub fn set_key(
    app: &App,
    headers: &HeaderMap,
    verification: CheckId,
    key: &BrowserKey,
    display: DisplayMode,
) -> Vec<HeaderValue> {
    let suffix = if display == DisplayMode::Popup { POPUP_VALUE_SUFFIX } else { "" };
    set_cookie(app, headers, verification.0, &format!("{}{suffix}", key.as_str()), CHECK_TTL_SECONDS)
}

/// Returns the `Set-Cookie` headers that give a browser its key for a sign-in.
pub fn set_sign_in_key(app: &App, headers: &HeaderMap, sign_in: SignInId, key: &BrowserKey) -> Vec<HeaderValue> {
    let max_age = u16::try_from(SIGN_IN_TTL.as_secs()).unwrap_or(u16::MAX);
    set_cookie(app, headers, sign_in.0, key.as_str(), max_age)
}

fn set_cookie(app: &App, headers: &HeaderMap, id: Uuid, value: &str, max_age: u16) -> Vec<HeaderValue> {
    let own_name = name(app, id);
    let others: Vec<_> = cookies(app, headers).map(|(name, _)| name).filter(|name| *name != own_name).collect();
    let removed = if others.len() >= MAX_COOKIES { others } else { Vec::new() };
    let removed = removed.into_iter().map(|name| render(app, name, "", 0));
    let set = render(app, &own_name, value, max_age.into());
    removed.chain([set]).flatten().collect()
}

/// Returns the token of a browser's session at a project.
pub fn read_session(app: &App, headers: &HeaderMap, project: ProjectId) -> Option<String> {
    let own_name = session_name(app, project);
    all_cookies(headers).find(|(name, _)| *name == own_name).map(|(_, value)| value.to_owned())
}

/// Returns the `Set-Cookie` header that keeps a browser signed in to a project.
pub fn set_session(app: &App, project: ProjectId, token: &str, lifetime: SessionLifetime) -> Option<HeaderValue> {
    render(app, &session_name(app, project), token, lifetime.seconds())
}

fn session_name(app: &App, project: ProjectId) -> String {
    let prefix = if is_secure(app) { SECURE_SESSION_PREFIX } else { PLAIN_SESSION_PREFIX };
    format!("{prefix}{}", project.0.simple())
}

fn key_of(value: &str) -> &str {
    value.strip_suffix(POPUP_VALUE_SUFFIX).unwrap_or(value)
}

fn cookies<'h>(app: &App, headers: &'h HeaderMap) -> impl Iterator<Item = (&'h str, &'h str)> {
    let prefix = prefix(app);
    all_cookies(headers).filter(move |(name, _)| name.starts_with(prefix))
}

fn all_cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

fn name(app: &App, id: Uuid) -> String {
    // The last 12 digits of an id are random, so they suffice to tell cookies apart.
    let id = id.simple().to_string();
    format!("{}{}", prefix(app), &id[20..])
}

fn prefix(app: &App) -> &'static str {
    if is_secure(app) { SECURE_PREFIX } else { PLAIN_PREFIX }
}

/// Renders a `Set-Cookie` header. `max_age` is in seconds. Returns `None` if the name or value is not valid in a
/// header.
fn render(app: &App, name: &str, value: &str, max_age: u32) -> Option<HeaderValue> {
    let secure = if is_secure(app) { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}; Max-Age={max_age}");
    HeaderValue::try_from(text).ok()
}

/// Whether the public URL of this deployment uses TLS.
fn is_secure(app: &App) -> bool {
    app.engine.base_url().starts_with("https://")
}
