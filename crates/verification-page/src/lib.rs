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
    phone::Msisdn,
    reverse_sms::{Platform, sms_link},
    verification::Method,
};
use strum::{Display, EnumString, IntoStaticStr};

pub use colour::Colour;
pub use device::{DevicePage, DeviceState};
pub use language::Language;
pub use qr::QrSvg;

use language::Message;

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// Refresh interval of open verifications in browsers without JavaScript.
const REFRESH_SECONDS: u8 = 5;
/// Time to read that the number is confirmed before the browser returns to the company. The script uses a similar time.
const RETURN_SECONDS: u8 = 2;

/// View model of the page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub language: Language,
    /// `None` if the link is unknown.
    pub brand: Option<Brand<'a>>,
    /// The last digits of the user's number.
    pub number_ending: Option<&'a str>,
    pub is_sandbox: bool,
    /// Path of the page, with its token.
    pub path: &'a str,
    /// Query that all links of the page carry on: empty, or with its `?`.
    pub query: &'a str,
    /// Shown within the console's handset, whose frame must not leave for another site.
    pub is_framed: bool,
    /// A method other than the current one is left.
    pub has_other_method: bool,
    /// Why what the user tried did not work.
    pub notice: Option<Notice>,
    pub state: State<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The browser did not keep the cookie that the silent check needs.
    AllowCookies,
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
    Start {
        /// URL of this page, for the phone of a user who opened it on a computer.
        own_url: Option<&'a str>,
    },
    /// The silent check starts by itself.
    Silent,
    /// The silent check has started, and the browser goes on to the operator.
    ///
    /// A page and not a redirect, so that the user has a way out if the operator does not answer.
    Leaving {
        location: &'a str,
    },
    /// The browser went to the operator, and has not come back.
    Stalled,
    /// Another browser went to the operator just now.
    Elsewhere,
    /// The operator has answered; the code is not redeemed yet.
    Confirming(Confirming<'a>),
    SendSms(SmsToSend<'a>),
    /// Asks whether the user really wants to end the verification.
    Ask(Question),
    SimSwap,
    Done {
        return_to: Option<&'a str>,
    },
    NotMatched {
        /// A phone shows the page.
        is_phone: bool,
        return_to: Option<&'a str>,
    },
    Failed {
        reason: Failure,
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

#[derive(Clone, Copy, Debug)]
pub enum Confirming<'a> {
    /// Another browser began the silent check.
    Elsewhere,
    /// This browser began it, and takes the code to the company.
    Return(&'a str),
    /// This browser began it, and there is no company to return to.
    Finish,
}

/// What the user may be asked before the verification ends.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub subject: QuestionSubject,
    /// The current method.
    pub method: Method,
    /// Name of the state that the page asks about.
    pub asked_in: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum QuestionSubject {
    /// The user cannot send a text message, or no other method than the silent check is left.
    GiveUp,
    /// The number is not the user's.
    WrongNumber,
}

/// Why a verification ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No method led to a result.
    Exhausted,
    GivenUp,
    WrongNumber,
    Cancelled,
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
    /// An earlier SMS came from another number.
    pub came_from_other_number: bool,
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
            State::Start { .. } | State::Silent => "silent",
            State::Leaving { .. } | State::Stalled => "stalled",
            State::Elsewhere => "elsewhere",
            State::Confirming(_) => "confirming",
            State::SendSms(SmsToSend { has_arrived: true, .. }) => "sms_received",
            State::SendSms(SmsToSend { came_from_other_number: true, .. }) => "send_sms_again",
            State::SendSms(_) => "send_sms",
            State::Ask(question) => question.asked_in,
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
            State::Confirming(Confirming::Return(url)) => Some(url),
            State::Done { return_to }
            | State::NotMatched { return_to, .. }
            | State::Failed { return_to, .. }
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
        matches!(self, State::Elsewhere | State::Confirming(_) | State::SendSms(_) | State::SimSwap)
    }

    /// Whether the page follows the state. A page that starts by itself does not: the event of the start could arrive
    /// before the response to it, and cancel the navigation. One that leaves does only if the operator does not answer.
    fn follows(&self) -> bool {
        !self.is_final() && !self.is_error() && !matches!(self, State::Silent)
    }

    fn title(&self) -> Message {
        match self {
            State::Start { .. } => Message::StartTitle,
            State::Silent | State::Leaving { .. } => Message::SilentTitle,
            State::Stalled => Message::StalledTitle,
            State::Elsewhere => Message::ElsewhereTitle,
            State::Confirming(_) => Message::ConfirmingTitle,
            State::SendSms(SmsToSend { has_arrived: true, .. }) => Message::ReceivedTitle,
            State::SendSms(SmsToSend { came_from_other_number: true, .. }) => Message::OtherSenderTitle,
            State::SendSms(_) => Message::TextTitle,
            State::Ask(Question { subject: QuestionSubject::GiveUp, method, .. }) => match method {
                Method::SecureSna => Message::AskStopTitle,
                Method::ReverseSms => Message::AskGiveUpTitle,
            },
            State::Ask(Question { subject: QuestionSubject::WrongNumber, .. }) => Message::AskWrongNumberTitle,
            State::SimSwap => Message::SimTitle,
            State::Done { .. } => Message::DoneTitle,
            State::NotMatched { .. } => Message::MismatchTitle,
            State::Failed { reason, .. } => match reason {
                Failure::Exhausted => Message::FailedTitle,
                Failure::GivenUp => Message::GivenUpTitle,
                Failure::WrongNumber => Message::WrongNumberTitle,
                Failure::Cancelled => Message::CancelledTitle,
            },
            State::Expired { .. } => Message::ExpiredTitle,
            State::Unknown => Message::UnknownTitle,
            State::Busy => Message::BusyTitle,
            State::Unavailable => Message::UnavailableTitle,
            State::Refused => Message::RefusedTitle,
        }
    }

    /// What the page says at its end. `None`: it has not ended.
    fn end_text(&self) -> Option<Message> {
        Some(match self {
            State::Done { .. } => Message::DoneText,
            State::NotMatched { is_phone: true, .. } => Message::MismatchPhoneText,
            State::NotMatched { is_phone: false, .. } => Message::MismatchText,
            State::Failed { reason, .. } => match reason {
                Failure::Exhausted => Message::FailedText,
                Failure::GivenUp => Message::GivenUpText,
                Failure::WrongNumber => Message::WrongNumberText,
                Failure::Cancelled => Message::CancelledText,
            },
            State::Expired { .. } => Message::ExpiredText,
            _ => return None,
        })
    }

    /// Whether the page offers to say that the number is another's.
    fn may_reject_number(&self) -> bool {
        matches!(self, State::Start { .. } | State::Stalled | State::SendSms(_))
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
        arguments.set("tail", self.number_ending.unwrap_or_default());
        let text = |message| self.language.format(message, &arguments);

        let logo = self.brand.and_then(|brand| brand.logo_url);
        let logo = logo.and_then(|url| Some((url, policy::image_source(url)?)));
        let brand_style = brand_style(self.brand.and_then(|brand| brand.colour).unwrap_or(Colour::DEFAULT_ACCENT));
        let qr = match &self.state {
            State::SendSms(sms) => QrSvg::encode(&sms.qr_text(), &text(Message::TextScanLabel)),
            State::Start { own_url: Some(url) } => QrSvg::encode(url, &text(Message::StartScanLabel)),
            _ => None,
        };
        let template = PageTemplate {
            page: self,
            title: text(self.state.title()),
            brand_style: &brand_style,
            logo_url: logo.as_ref().map(|(url, _)| *url),
            forward_url: matches!(self.state, State::Silent).then(|| self.url("/silent")),
            operator_url: match self.state {
                State::Leaving { location } => Some(location),
                _ => None,
            },
            refresh_without_script: match self.state {
                State::Leaving { location } => Some((0, location.to_owned())),
                _ if self.state.is_waiting() => Some((REFRESH_SECONDS, self.url(""))),
                _ => self.forward_to().map(|url| (RETURN_SECONDS, url.to_owned())),
            },
            events_url: self.state.follows().then(|| self.url("/events")),
            end_text: self.state.end_text().map(text),
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

    /// The method that the user can give up for the next one.
    fn given_up_method(&self) -> Option<Method> {
        let method = match self.state {
            State::Start { .. } | State::Silent | State::Leaving { .. } | State::Stalled => Method::SecureSna,
            State::Ask(Question { subject: QuestionSubject::GiveUp, method, .. }) => method,
            _ => return None,
        };
        self.has_other_method.then_some(method)
    }

    /// Whether the page offers to end the verification, because nothing can follow the silent check. It asks before.
    fn may_stop(&self) -> bool {
        let is_silent = matches!(self.state, State::Start { .. } | State::Leaving { .. } | State::Stalled);
        is_silent && !self.has_other_method
    }

    fn says_allow_cookies(&self) -> bool {
        self.notice == Some(Notice::AllowCookies)
            && matches!(self.state, State::Start { .. } | State::Stalled | State::Elsewhere)
    }

    fn stalled_text(&self) -> Message {
        if self.has_other_method { Message::StalledText } else { Message::StalledOnlyText }
    }

    /// URL of the page with a question.
    fn question_url(&self, subject: QuestionSubject) -> String {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        format!("{}{separator}ask={}", self.url(""), subject.into_str())
    }

    /// Where the browser goes by itself at the end. Users have to read what went wrong, so only success leads on.
    fn forward_to(&self) -> Option<&str> {
        self.state.return_to().filter(|_| matches!(self.state, State::Done { .. }) && !self.is_framed)
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
    /// URL of ours to which the browser is forwarded immediately.
    forward_url: Option<String>,
    /// URL at the operator to which the browser goes.
    operator_url: Option<&'a str>,
    /// Seconds and URL.
    refresh_without_script: Option<(u8, String)>,
    events_url: Option<String>,
    /// What the page says at its end.
    end_text: Option<String>,
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
