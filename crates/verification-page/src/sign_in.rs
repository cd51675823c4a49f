//! The page of a sign-in: it asks for the phone number before the hosted verification page takes over, and explains why
//! a sign-in cannot go on.
//!
//! The forms on it submit to paths below the page's: `/number` (fields [`NUMBER_FIELD`] and [`COUNTRY_FIELD`]),
//! `/discover` and `/cancel`. They work without JavaScript. The script translates and sorts the countries, and selects
//! the country of a number in international form.

use askama::Template;
use fluent_bundle::FluentArgs;
use url::Url;

use crate::{
    Brand, Colour, Language, RenderedPage, TitleIcon, brand_style,
    country::{CountryOption, country_options},
    language::Message,
    language_links, policy,
};

/// Form field with the phone number, in national or international form.
pub const NUMBER_FIELD: &str = "phone_number";
/// Form field with the ISO 3166 code of the country of a number in national form. Empty if the user chose none.
pub const COUNTRY_FIELD: &str = "country";
/// Query parameter of the link to the number entry ...
pub const ASK_PARAMETER: &str = "ask";
/// ... and its value. The page must then have the state [`SignInState::AskNumber`], even if Discovery has started.
pub const ASK_NUMBER: &str = "number";

const PAGE_STYLE: &str = include_str!("../assets/page.css");
const STYLE: &str = include_str!("../assets/sign_in.css");
const SCRIPT: &str = include_str!("../assets/sign_in.js");
/// A simulated number that the sandbox confirms. It is not broken across lines.
const SIMULATED_NUMBER: &str = "+990\u{a0}123\u{a0}456\u{a0}700";

/// View model of the page.
#[derive(Clone, Debug)]
pub struct SignInPage<'a> {
    pub language: Language,
    /// The project that the user signs in to. `None`: it is not known.
    pub brand: Option<Brand<'a>>,
    pub is_sandbox: bool,
    /// Path of the page, with its token.
    pub path: &'a str,
    /// Query that is appended to all links on the page. Empty, or starts with `?`.
    pub query: &'a str,
    /// Redirect URI of the client. The content security policy lets forms lead there by redirects, such as that of
    /// `/cancel`: Chromium applies `form-action` to them, too. `None`: forms lead to our own pages only.
    pub redirect_uri: Option<&'a str>,
    pub state: SignInState<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum SignInState<'a> {
    /// Asks for the phone number.
    AskNumber {
        /// What the user entered before, or the client's `login_hint`. It may have any form.
        typed: &'a str,
        /// ISO 3166 code of the country to select. `None`: the user has to choose.
        country: Option<&'a str>,
        /// Why the number that the user entered was not accepted.
        problem: Option<NumberProblem>,
        /// Whether the page offers to ask the operator for the number (Discovery).
        can_discover: bool,
        /// Whether the page asks the operator without waiting for the user. Needs JavaScript.
        starts_discovery: bool,
    },
    /// Discovery has started, and the page sends the browser to the operator.
    ///
    /// This is a page and not an HTTP redirect, so that the user can enter the number if the operator does not answer.
    Leaving {
        location: &'a str,
    },
    /// The browser was sent to the operator and has not come back.
    Stalled,
    /// Another browser began the sign-in, so only that browser can continue it.
    OtherBrowser {
        /// Whether the verification has ended, so that this browser has nothing more to do.
        has_ended: bool,
    },
    /// The sign-in has ended without success.
    Ended {
        reason: SignInEnd,
        /// URL that returns the browser to the client with the error. `None`: it is not known.
        return_to: Option<&'a str>,
    },
    /// The client or its redirect URI is not proven. This page has no link to the client.
    BadRequest {
        /// Technical description in English, for the client's developers.
        detail: &'a str,
    },
    /// No sign-in has this link, or it expired long ago.
    Unknown,
    /// The browser has sent too many requests.
    Busy,
    Unavailable,
    /// The form was submitted from another site.
    Refused,
}

/// Why a number was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberProblem {
    Invalid,
    /// No method can verify the number.
    NotSupported,
    /// The number's budget is used up.
    TooManyAttempts,
    /// The number could not be looked up.
    TryAgainLater,
    /// The number is in national form, and no country was chosen.
    MissingCountry,
}

/// Why a sign-in ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInEnd {
    Cancelled,
    Expired,
    /// The number could not be verified.
    NotVerified,
    /// The sign-in has already returned to the client.
    Used,
    Unavailable,
}

impl NumberProblem {
    fn message(self) -> Message {
        match self {
            NumberProblem::Invalid => Message::SignInInvalid,
            NumberProblem::NotSupported => Message::SignInNotSupported,
            NumberProblem::TooManyAttempts => Message::SignInTooManyAttempts,
            NumberProblem::TryAgainLater => Message::SignInTryLater,
            NumberProblem::MissingCountry => Message::SignInMissingCountry,
        }
    }

    /// Whether the user has to correct the number. The country may need a correction instead, or nothing may.
    fn is_about_number(self) -> bool {
        matches!(self, NumberProblem::Invalid | NumberProblem::NotSupported | NumberProblem::TooManyAttempts)
    }
}

impl SignInState<'_> {
    /// Name of the state, for the script.
    fn name(&self) -> &'static str {
        match self {
            SignInState::AskNumber { .. } => "ask_number",
            SignInState::Leaving { .. } => "leaving",
            SignInState::Stalled => "stalled",
            SignInState::OtherBrowser { .. } => "other_browser",
            SignInState::Ended { .. } => "ended",
            SignInState::BadRequest { .. } => "bad_request",
            SignInState::Unknown => "unknown",
            SignInState::Busy => "busy",
            SignInState::Unavailable => "unavailable",
            SignInState::Refused => "refused",
        }
    }

    fn title(&self) -> Message {
        match self {
            SignInState::AskNumber { .. } => Message::SignInTitle,
            SignInState::Leaving { .. } => Message::SilentTitle,
            SignInState::Stalled => Message::StalledTitle,
            SignInState::OtherBrowser { has_ended: true } => Message::SignInEndedTitle,
            SignInState::OtherBrowser { has_ended: false } => Message::OtherBrowserTitle,
            SignInState::Ended { reason, .. } => match reason {
                SignInEnd::Cancelled => Message::SignInCancelledTitle,
                SignInEnd::Expired => Message::SignInExpiredTitle,
                SignInEnd::NotVerified => Message::FailedTitle,
                SignInEnd::Used => Message::UsedTitle,
                SignInEnd::Unavailable => Message::UnavailableTitle,
            },
            SignInState::BadRequest { .. } => Message::SignInRefusedTitle,
            SignInState::Unknown => Message::UnknownTitle,
            SignInState::Busy => Message::BusyTitle,
            SignInState::Unavailable => Message::UnavailableTitle,
            SignInState::Refused => Message::RefusedTitle,
        }
    }

    fn text(&self) -> Message {
        match self {
            SignInState::AskNumber { .. } => Message::SignInText,
            SignInState::Leaving { .. } => Message::SilentText,
            SignInState::Stalled => Message::SignInStalledText,
            SignInState::OtherBrowser { has_ended: true } => Message::SignInEndedText,
            SignInState::OtherBrowser { has_ended: false } => Message::OtherBrowserText,
            SignInState::Ended { reason, .. } => match reason {
                SignInEnd::Cancelled => Message::SignInCancelledText,
                SignInEnd::Expired => Message::SignInExpiredText,
                SignInEnd::NotVerified => Message::FailedText,
                SignInEnd::Used => Message::StartAgainText,
                SignInEnd::Unavailable => Message::SignInFailedText,
            },
            SignInState::BadRequest { .. } => Message::SignInRefusedText,
            SignInState::Unknown => Message::UnknownText,
            SignInState::Busy => Message::BusyText,
            SignInState::Unavailable => Message::UnavailableText,
            SignInState::Refused => Message::RefusedText,
        }
    }

    fn title_icon(&self) -> Option<TitleIcon> {
        match self {
            SignInState::Ended { reason: SignInEnd::NotVerified | SignInEnd::Unavailable, .. }
            | SignInState::BadRequest { .. }
            | SignInState::Unavailable => Some(TitleIcon::Failure),
            SignInState::Ended { .. } | SignInState::OtherBrowser { .. } | SignInState::Unknown | SignInState::Busy => {
                Some(TitleIcon::Stop)
            }
            SignInState::AskNumber { .. }
            | SignInState::Leaving { .. }
            | SignInState::Stalled
            | SignInState::Refused => None,
        }
    }

    fn return_to(&self) -> Option<&str> {
        match self {
            SignInState::Ended { return_to, .. } => *return_to,
            _ => None,
        }
    }

    fn may_cancel(&self) -> bool {
        matches!(self, SignInState::AskNumber { .. } | SignInState::Leaving { .. } | SignInState::Stalled)
    }

    fn may_retry(&self) -> bool {
        matches!(self, SignInState::Busy | SignInState::Unavailable | SignInState::Refused)
    }

    /// Whether the state's own URL shows it again, so that the page can link to itself in other languages. A browser
    /// that is about to leave must not follow a link instead.
    fn has_languages(&self) -> bool {
        !matches!(self, SignInState::Leaving { .. } | SignInState::BadRequest { .. })
    }
}

impl SignInPage<'_> {
    pub fn render(&self) -> RenderedPage {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", self.brand.map_or("", |brand| brand.name));
        arguments.set("example", SIMULATED_NUMBER);
        let text = |message| self.language.format(message, &arguments);

        let logo = self.brand.and_then(|brand| brand.logo_url);
        let logo = logo.and_then(|url| Some((url, policy::image_source(url)?)));
        let brand_style = brand_style(self.brand.and_then(|brand| brand.colour).unwrap_or(Colour::DEFAULT_ACCENT));
        let entry = self.number_entry();
        let operator_url = match self.state {
            SignInState::Leaving { location } => Some(location),
            _ => None,
        };
        let script = (entry.is_some() || operator_url.is_some()).then_some(SCRIPT);
        let template = SignInTemplate {
            page: self,
            title: text(self.state.title()),
            message: text(self.state.text()),
            brand_style: &brand_style,
            logo_url: logo.as_ref().map(|(url, _)| *url),
            support_url: self.brand.and_then(|brand| brand.support_url),
            other_languages: if self.state.has_languages() {
                language_links(self.language, self.path, self.query)
            } else {
                vec![]
            },
            entry,
            operator_url,
            script,
            arguments: &arguments,
        };
        RenderedPage {
            html: template.render().unwrap_or_default(),
            content_security_policy: self.content_security_policy(
                &[PAGE_STYLE, STYLE, &brand_style],
                script,
                logo.as_ref().map(|(_, source)| source.as_str()),
            ),
        }
    }

    /// Builds the content security policy. No page may show this one in a frame: it could trick users into signing in.
    fn content_security_policy(&self, styles: &[&str], script: Option<&str>, image_source: Option<&str>) -> String {
        let styles = styles.iter().map(|style| policy::hash_source(style)).collect::<Vec<_>>().join(" ");
        let script = script.map_or_else(|| "'none'".to_owned(), policy::hash_source);
        let image = image_source.map(|source| format!(" {source}")).unwrap_or_default();
        let form_action = self.redirect_uri.and_then(redirect_source).map(|source| format!(" {source}"));
        let form_action = form_action.unwrap_or_default();
        format!(
            "default-src 'none'; style-src {styles}; script-src {script}; img-src 'self'{image}; \
             form-action 'self'{form_action}; base-uri 'none'; frame-ancestors 'none'"
        )
    }

    fn number_entry(&self) -> Option<NumberEntry<'_>> {
        let SignInState::AskNumber { typed, country, problem, can_discover, starts_discovery } = self.state else {
            return None;
        };
        let countries = country_options();
        let country = country.filter(|country| countries.iter().any(|option| option.code == *country));
        let is_number_wrong = problem.is_some_and(NumberProblem::is_about_number);
        let is_country_wrong = problem == Some(NumberProblem::MissingCountry);
        Some(NumberEntry {
            typed,
            countries,
            country,
            problem,
            is_number_wrong,
            is_country_wrong,
            can_discover,
            starts_discovery,
        })
    }

    fn url(&self, action: &str) -> String {
        format!("{}{action}{}", self.path, self.query)
    }

    /// Returns the URL at which the user can enter the number after Discovery has started.
    fn ask_url(&self) -> String {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        format!("{}{separator}{ASK_PARAMETER}={ASK_NUMBER}", self.url(""))
    }
}

/// Returns the source expression that permits redirects to this URI: its origin, or its scheme if it belongs to an app
/// or if a policy cannot express the host. `None`: the URI is invalid, or browsers must not follow it.
fn redirect_source(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok()?;
    let is_expressible =
        |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    match url.scheme() {
        "http" | "https" if url.host_str().is_some_and(is_expressible) => Some(url.origin().ascii_serialization()),
        "javascript" | "data" | "blob" | "about" => None,
        scheme => Some(format!("{scheme}:")),
    }
}

/// The form that asks for the number.
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a form, not the states of something")]
struct NumberEntry<'a> {
    typed: &'a str,
    countries: Vec<CountryOption>,
    country: Option<&'a str>,
    problem: Option<NumberProblem>,
    is_number_wrong: bool,
    is_country_wrong: bool,
    can_discover: bool,
    starts_discovery: bool,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInTemplate<'a> {
    page: &'a SignInPage<'a>,
    title: String,
    message: String,
    brand_style: &'a str,
    logo_url: Option<&'a str>,
    support_url: Option<&'a str>,
    other_languages: Vec<(Language, String)>,
    entry: Option<NumberEntry<'a>>,
    /// URL at the operator that the page opens after Discovery has started.
    operator_url: Option<&'a str>,
    script: Option<&'static str>,
    arguments: &'a FluentArgs<'a>,
}

impl SignInTemplate<'_> {
    fn text(&self, message: Message) -> String {
        self.page.language.format(message, self.arguments)
    }

    fn url(&self, action: &str) -> String {
        self.page.url(action)
    }

    /// Whether the title of the browser's tab needs the brand's name: the title of the number entry contains it.
    fn names_brand_in_tab(&self) -> bool {
        self.entry.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_permitted_by_origin_or_scheme() {
        for (uri, source) in [
            ("https://app.example/callback?a=b", Some("https://app.example")),
            ("https://app.example:8443/callback", Some("https://app.example:8443")),
            ("https://bücher.example/", Some("https://xn--bcher-kva.example")),
            ("http://127.0.0.1:49152/callback", Some("http://127.0.0.1:49152")),
            ("http://[::1]:49152/callback", Some("http:")),
            ("com.example.app:/callback", Some("com.example.app:")),
            ("https://a;sandbox/", Some("https:")),
            ("https://a,b/", Some("https:")),
            ("https://*/", Some("https:")),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("/callback", None),
            ("", None),
        ] {
            assert_eq!(redirect_source(uri).as_deref(), source, "{uri}");
        }
    }
}
