//! The hosted verification page: pure, from a view model to HTML in the user's language. [`DevicePage`] is the page of a
//! single check.
//!
//! Everything is in one response: no framework, no request to another site except for the brand's logo. The page works
//! without JavaScript, by refreshing itself. Translations are Fluent catalogues in `locales/`.

mod colour;
mod device;
mod language;
mod policy;
mod qr;

use askama::Template;
use fluent_bundle::FluentArgs;
use ringtrue_domain::{
    phone::{Msisdn, NumberTail},
    reverse_sms::{Platform, sms_link},
    verification::Method,
};

pub use colour::Colour;
pub use device::{DevicePage, DeviceState};
pub use language::Language;
pub use qr::QrSvg;

use language::Message;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// Refresh interval of open verifications in browsers without JavaScript.
const REFRESH_SECONDS: u8 = 5;
/// Time to read the result before the browser returns to the company. The script uses a similar time.
const RETURN_SECONDS: u8 = 2;

/// View model of the page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub language: Language,
    /// `None` if the link is unknown.
    pub brand: Option<Brand<'a>>,
    pub number_tail: Option<NumberTail>,
    pub is_sandbox: bool,
    /// Path of the page, with its token.
    pub path: &'a str,
    /// Query that all links of the page carry on: empty, or with its `?`.
    pub query: &'a str,
    /// Shown within the console's handset, whose frame must not leave for another site.
    pub is_framed: bool,
    pub state: State<'a>,
}

/// The company that asks for the verification.
#[derive(Clone, Copy, Debug)]
pub struct Brand<'a> {
    pub name: &'a str,
    /// Shown if it is an HTTPS URL.
    pub logo_url: Option<&'a str>,
    pub colour: Option<Colour>,
}

#[derive(Clone, Debug)]
pub enum State<'a> {
    /// The silent check starts when the user presses a button.
    Start,
    /// The silent check starts by itself.
    Silent,
    /// The silent check has started, and the browser goes on to the operator.
    ///
    /// A page and not a redirect, because browsers apply `form-action` to redirects after a form, too.
    Leaving {
        location: &'a str,
    },
    /// The operator has answered; the company's server has to redeem the code.
    Confirming {
        /// Only if the browser is not redirected there.
        return_to: Option<&'a str>,
    },
    SendSms(SmsToSend<'a>),
    SimSwap,
    Done {
        return_to: Option<&'a str>,
    },
    NotMatched {
        return_to: Option<&'a str>,
    },
    Failed {
        return_to: Option<&'a str>,
    },
    Expired {
        return_to: Option<&'a str>,
    },
    /// No verification has this link.
    Unknown,
    /// Too many requests.
    Busy,
    Unavailable,
    /// A form of another site was submitted.
    Refused,
}

/// The SMS that the user must send.
#[derive(Clone, Debug)]
pub struct SmsToSend<'a> {
    pub receiver: &'a Msisdn,
    pub body: &'a str,
    /// Of the device that shows the page.
    pub platform: Platform,
    /// A part of the SMS has arrived, or an SMS from the right number with another text.
    pub has_arrived: bool,
}

/// The page and its policy.
#[derive(Clone, Debug)]
pub struct RenderedPage {
    pub html: String,
    /// Value of the `Content-Security-Policy` header.
    pub content_security_policy: String,
}

impl State<'_> {
    /// Name for server-sent events: the page reloads when it changes.
    pub fn name(&self) -> &'static str {
        match self {
            State::Start | State::Silent | State::Leaving { .. } => "silent",
            State::Confirming { .. } => "confirming",
            State::SendSms(SmsToSend { has_arrived: false, .. }) => "send_sms",
            State::SendSms(SmsToSend { has_arrived: true, .. }) => "sms_received",
            State::SimSwap => "sim_swap",
            State::Done { .. } => "done",
            State::NotMatched { .. } => "not_matched",
            State::Failed { .. } => "failed",
            State::Expired { .. } => "expired",
            State::Unknown => "unknown",
            State::Busy => "busy",
            State::Unavailable => "unavailable",
            State::Refused => "refused",
        }
    }

    /// Whether the verification has ended.
    pub fn is_final(&self) -> bool {
        matches!(self, State::Done { .. } | State::NotMatched { .. } | State::Failed { .. } | State::Expired { .. })
    }

    fn return_to(&self) -> Option<&str> {
        match self {
            State::Confirming { return_to }
            | State::Done { return_to }
            | State::NotMatched { return_to }
            | State::Failed { return_to }
            | State::Expired { return_to } => *return_to,
            _ => None,
        }
    }

    fn is_error(&self) -> bool {
        matches!(self, State::Unknown) || self.may_retry()
    }

    fn may_retry(&self) -> bool {
        matches!(self, State::Busy | State::Unavailable | State::Refused)
    }

    /// Whether the state changes without the user's device.
    fn is_waiting(&self) -> bool {
        matches!(self, State::Confirming { .. } | State::SendSms(_) | State::SimSwap)
    }

    fn title(&self) -> Message {
        match self {
            State::Start => Message::StartTitle,
            State::Silent | State::Leaving { .. } => Message::SilentTitle,
            State::Confirming { .. } => Message::ConfirmingTitle,
            State::SendSms(SmsToSend { has_arrived: false, .. }) => Message::TextTitle,
            State::SendSms(SmsToSend { has_arrived: true, .. }) => Message::ReceivedTitle,
            State::SimSwap => Message::SimTitle,
            State::Done { .. } => Message::DoneTitle,
            State::NotMatched { .. } => Message::MismatchTitle,
            State::Failed { .. } => Message::FailedTitle,
            State::Expired { .. } => Message::ExpiredTitle,
            State::Unknown => Message::UnknownTitle,
            State::Busy => Message::BusyTitle,
            State::Unavailable => Message::UnavailableTitle,
            State::Refused => Message::RefusedTitle,
        }
    }

    /// The method that the user can give up, and the label of its button.
    fn give_up(&self) -> Option<(Method, Message)> {
        match self {
            State::Start | State::Silent | State::Confirming { .. } => Some((Method::SecureSna, Message::OtherWay)),
            State::SendSms(_) => Some((Method::ReverseSms, Message::TextCannot)),
            _ => None,
        }
    }
}

/// Platform of the device that sent this `User-Agent`. iPads pretend to be computers.
pub fn detect_platform(user_agent: &str) -> Platform {
    if ["iPhone", "iPad", "iPod"].iter().any(|device| user_agent.contains(device)) {
        Platform::Ios
    } else if user_agent.contains("Android") {
        Platform::Android
    } else {
        Platform::Unknown
    }
}

impl SmsToSend<'_> {
    fn link(&self) -> String {
        sms_link(self.receiver, self.body, self.platform)
    }

    /// Text of the QR code, in the form that cameras of all platforms read.
    fn qr_text(&self) -> String {
        format!("SMSTO:{}:{}", self.receiver.as_str(), self.body)
    }
}

impl Page<'_> {
    pub fn render(&self) -> RenderedPage {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", self.brand.map_or("", |brand| brand.name));
        arguments.set("tail", self.number_tail.map(|tail| tail.to_string()).unwrap_or_default());
        let text = |message| self.language.format(message, &arguments);

        let logo = self.brand.and_then(|brand| brand.logo_url);
        let logo = logo.and_then(|url| Some((url, policy::image_source(url)?)));
        let brand_style = brand_style(self.brand.and_then(|brand| brand.colour).unwrap_or(Colour::DEFAULT_ACCENT));
        let qr = match &self.state {
            State::SendSms(sms) => QrSvg::encode(&sms.qr_text(), &text(Message::TextScanLabel)),
            _ => None,
        };
        let template = PageTemplate {
            page: self,
            title: text(self.state.title()),
            brand_style: &brand_style,
            logo_url: logo.as_ref().map(|(url, _)| *url),
            forward_url: match self.state {
                State::Silent => Some(self.url("/silent")),
                State::Leaving { location } => Some(location.to_owned()),
                _ => None,
            },
            refresh_without_script: if self.state.is_waiting() {
                Some((REFRESH_SECONDS, self.url("")))
            } else {
                self.forward_to().map(|url| (RETURN_SECONDS, url.to_owned()))
            },
            events_url: (!self.state.is_final() && !self.state.is_error()).then(|| self.url("/events")),
            give_up: self.state.give_up().map(|(method, label)| (method, text(label))),
            qr,
            arguments: &arguments,
        };
        RenderedPage {
            html: template.render().unwrap_or_default(),
            content_security_policy: policy::content_security_policy(
                &[STYLE, &brand_style],
                Some(SCRIPT),
                logo.as_ref().map(|(_, source)| source.as_str()),
            ),
        }
    }

    fn url(&self, action: &str) -> String {
        format!("{}{action}{}", self.path, self.query)
    }

    /// Where the browser goes by itself at the end.
    fn forward_to(&self) -> Option<&str> {
        self.state.return_to().filter(|_| self.state.is_final() && !self.is_framed)
    }
}

fn brand_style(accent: Colour) -> String {
    let (on_accent, light, dark) =
        (accent.contrasting_text(), accent.readable_on(Colour::WHITE), accent.readable_on(Colour::DARK_BACKGROUND));
    format!(
        ":root{{--accent:{accent};--on-accent:{on_accent};--link:{light}}}\
         @media (prefers-color-scheme:dark){{:root{{--link:{dark}}}}}"
    )
}

#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    page: &'a Page<'a>,
    title: String,
    brand_style: &'a str,
    logo_url: Option<&'a str>,
    /// URL to which the browser is forwarded immediately.
    forward_url: Option<String>,
    /// Seconds and URL.
    refresh_without_script: Option<(u8, String)>,
    events_url: Option<String>,
    /// Method and label of the button.
    give_up: Option<(Method, String)>,
    qr: Option<QrSvg>,
    arguments: &'a FluentArgs<'a>,
}

impl PageTemplate<'_> {
    fn text(&self, message: Message) -> String {
        self.page.language.format(message, self.arguments)
    }

    fn url(&self, action: &str) -> String {
        self.page.url(action)
    }
}
