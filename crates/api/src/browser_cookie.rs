//! Cookies with browser keys. A browser key is a secret that lets the browser that began the silent checks of a
//! verification, and no other browser, finish them.
//!
//! Each verification has its own cookie, so that tabs with different verifications do not overwrite each other's key. A
//! cookie expires after the maximum duration of a silent check.
//!
//! The cookie also says whether the check began in a pop-up window, because the URL to which the operator redirects the
//! browser cannot carry this information.

use http::{HeaderMap, HeaderValue, header};
use ringtrue_domain::{lifecycle::CheckId, silent::CHECK_TTL_SECONDS};
use ringtrue_engine::silent::BrowserKey;
use ringtrue_verification_page::DisplayMode;
use ringtrue_web::app::App;

/// The `__Host-` prefix makes browsers accept the cookie from this host only. It requires TLS.
const SECURE_PREFIX: &str = "__Host-ringtrue-device-";
const PLAIN_PREFIX: &str = "ringtrue-device-";
/// Maximum number of these cookies that a browser keeps. More could exceed the size limit of request headers.
const MAX_COOKIES: usize = 16;
/// Suffix of the cookie's value if the check began in a pop-up window. It starts with a dot, which browser keys do not
/// contain.
const POPUP_SUFFIX: &str = ".popup";

/// Reads the browser keys of all verifications from the cookies of a request.
pub fn read_keys(app: &App, headers: &HeaderMap) -> Vec<BrowserKey> {
    cookies(app, headers).filter_map(|(_, value)| BrowserKey::parse(key_of(value))).take(MAX_COOKIES).collect()
}

/// Returns whether the browser began the silent check of a verification in a pop-up window.
pub fn began_in_popup(app: &App, headers: &HeaderMap, verification: CheckId) -> bool {
    let own_name = name(app, verification);
    cookies(app, headers).any(|(name, value)| name == own_name && value.ends_with(POPUP_SUFFIX))
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
    let own_name = name(app, verification);
    let others: Vec<_> = cookies(app, headers).map(|(name, _)| name).filter(|name| *name != own_name).collect();
    let removed = if others.len() >= MAX_COOKIES { others } else { Vec::new() };
    let removed = removed.into_iter().map(|name| render(app, name, "", 0));
    let suffix = if display == DisplayMode::Popup { POPUP_SUFFIX } else { "" };
    let set = render(app, &own_name, &format!("{}{suffix}", key.as_str()), CHECK_TTL_SECONDS);
    removed.chain([set]).flatten().collect()
}

fn key_of(value: &str) -> &str {
    value.strip_suffix(POPUP_SUFFIX).unwrap_or(value)
}

fn cookies<'h>(app: &App, headers: &'h HeaderMap) -> impl Iterator<Item = (&'h str, &'h str)> {
    let prefix = prefix(app);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| name.starts_with(prefix))
}

fn name(app: &App, verification: CheckId) -> String {
    // The last 12 digits of an id are random, so they suffice to tell verifications apart.
    let id = verification.0.simple().to_string();
    format!("{}{}", prefix(app), &id[20..])
}

fn prefix(app: &App) -> &'static str {
    if is_secure(app) { SECURE_PREFIX } else { PLAIN_PREFIX }
}

/// Renders a `Set-Cookie` header. `max_age` is in seconds. Returns `None` if the name or value is not valid in a
/// header.
fn render(app: &App, name: &str, value: &str, max_age: u16) -> Option<HeaderValue> {
    let secure = if is_secure(app) { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}; Max-Age={max_age}");
    HeaderValue::try_from(text).ok()
}

/// Whether the public URL of this deployment uses TLS.
fn is_secure(app: &App) -> bool {
    app.engine.base_url().starts_with("https://")
}
