//! Renders the hosted verification page: a pure function from a view model to HTML in the user's language.
//! [`DevicePage`] is the page for a single check, and [`SignInPage`] the page before a sign-in.
//!
//! Everything is in one response: no framework, and no request to another site except for the brand's logo. Without
//! JavaScript, the page works by refreshing itself. Translations are Fluent catalogues in `locales/`.

mod colour;
mod country;
mod device;
mod language;
mod policy;
mod preview;
mod qr;
mod sign_in;

use askama::Template;
use fluent_bundle::FluentArgs;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{Platform, sms_link},
    tenancy::Name,
    verification::{self, BrandName, BrandUrl, LogoUrl, Method},
};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use url::form_urlencoded;

pub use colour::Colour;
pub use device::{DevicePage, DeviceState};
pub use language::Language;
pub use preview::{Preview, SampleState};
pub use qr::QrSvg;
pub use sign_in::{
    ASK_NUMBER, ASK_PARAMETER, COUNTRY_FIELD, NUMBER_FIELD, NumberProblem, SignInEnd, SignInPage, SignInState,
};

use language::Message;

/// Query parameter with the [`DisplayMode`] of the page.
pub const DISPLAY_PARAMETER: &str = "display";
/// Query parameter with the language of the page.
pub const LANGUAGE_PARAMETER: &str = "lang";

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// Refresh interval in browsers without JavaScript, while the page waits for an event such as the arrival of the SMS.
const REFRESH_SECONDS: u8 = 5;
/// Delay before the browser returns to the company, so that the user can read that the number is confirmed. The script
/// uses a similar delay.
const RETURN_SECONDS: u8 = 2;
/// The page shows the time left when it is at most this long.
const COUNTDOWN_SECONDS: u32 = 120;

/// View model of the page.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    pub language: Language,
    /// Company that asks for the verification. `None`: the link is invalid, or the verification could not be read.
    pub brand: Option<Brand<'a>>,
    /// The last digits of the number to verify. `None`: the page shows no number.
    pub number_ending: Option<&'a str>,
    pub is_sandbox: bool,
    /// Time until the verification expires. `None`: it could not be read.
    pub seconds_left: Option<u32>,
    /// Path of the page, with its token.
    pub path: &'a str,
    /// Query that is appended to all links on the page. Empty, or starts with `?`.
    pub query: &'a str,
    pub display: DisplayMode,
    /// Origins of sites that may show the page in a frame.
    pub frame_origins: &'a [&'a str],
    /// Result that the page reports to the company's page that opened it. `None`: there is no result yet, or it is for
    /// another browser.
    pub end_message: Option<EndMessage<'a>>,
    /// Whether the verification has a redirect URL, at which the browser returns to the company.
    pub has_redirect_url: bool,
    /// Whether the verification can still use a method other than the current one.
    pub has_other_method: bool,
    /// The phone's wallet, as another way of the silent check. `None`: the device has none, or the operator accepts
    /// none.
    pub wallet: Option<WalletTiming>,
    /// Explains why the user's last action failed.
    pub notice: Option<Notice>,
    pub state: State<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The browser did not keep the cookie that a silent check needs.
    AllowCookies,
}

/// When the page asks the phone's wallet. Only its script can find out whether the browser can do so. If it cannot, or
/// without JavaScript, the page works as if there was no wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalletTiming {
    /// The page offers the wallet, because the device is not on mobile data, or its redirect has led to nothing.
    Offered {
        /// Whether the silent check starts without an action of the user if there is no wallet.
        starts: bool,
        /// Time until the silent check expires.
        seconds_left: u32,
    },
    /// The redirect comes first. The page offers the wallet if that fails.
    Fallback,
}

/// Where the browser shows the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum DisplayMode {
    #[default]
    Tab,
    /// A window that a page of the company opened.
    Popup,
    /// A frame in a page of the company. Silent checks need the whole tab: the operator's pages may refuse frames, and
    /// browsers keep no cookies in frames of other sites.
    Frame,
    /// The frame of the console's simulated handset, in which the page must not navigate to other sites.
    Handset,
}

/// What the page tells the company's page that opened it. The message proves nothing: the company's backend has to
/// redeem the code.
#[derive(Clone, Copy, Debug)]
pub struct EndMessage<'a> {
    /// The result as query parameters, the same as in the URL at which the browser returns to the company.
    pub result: &'a str,
    /// Origin of the URL at which the browser returns to the company. `None`: there is no such URL.
    pub return_origin: Option<&'a str>,
}

/// The company that asks for the verification.
#[derive(Clone, Copy, Debug)]
pub struct Brand<'a> {
    pub name: &'a str,
    /// Logo of the brand: a path at this deployment, an HTTPS URL, or in previews a `data` URL with the image. The page
    /// does not show others.
    pub logo_url: Option<&'a str>,
    /// Page on which the company helps its users.
    pub support_url: Option<&'a str>,
    pub colour: Option<Colour>,
}

impl<'a> Brand<'a> {
    /// Creates the brand from a project's settings. `None`: neither the settings nor the project have a name.
    pub fn from_settings(settings: &'a verification::Brand, project_name: Option<&'a Name>) -> Option<Self> {
        let verification::Brand { name, logo_url, support_url, colour } = settings;
        Some(Brand {
            name: name.as_ref().map(BrandName::as_str).or_else(|| project_name.map(Name::as_str))?,
            logo_url: logo_url.as_ref().map(LogoUrl::as_str),
            support_url: support_url.as_ref().map(BrandUrl::as_str),
            colour: colour.as_ref().and_then(|colour| Colour::parse(colour.as_str())),
        })
    }
}

/// How the verification has ended, as a picture beside the title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TitleIcon {
    Success,
    Failure,
    /// The end is neither a success nor an error, such as an end that the user chose.
    Stop,
}

#[derive(Clone, Debug)]
pub enum State<'a> {
    /// The silent check starts when the user presses a button.
    Start {
        /// URL of this page, shown for a user who opened it on a computer and has to open it on the phone.
        own_url: Option<&'a str>,
    },
    /// The silent check starts without an action of the user.
    Silent,
    /// The silent check has started, and the page sends the browser to the operator.
    ///
    /// This is a page and not an HTTP redirect, so that the user can choose another way if the operator does not
    /// answer.
    Leaving {
        location: &'a str,
    },
    /// The browser was sent to the operator and has not come back.
    Stalled,
    /// Another browser was sent to the operator a moment ago, so this one waits for it.
    Elsewhere,
    /// The operator has answered, but the code is not redeemed yet.
    Confirming(Confirming<'a>),
    SendSms(SmsToSend<'a>),
    /// Asks the user to confirm that the verification should end.
    Ask(Question),
    SimSwap,
    Done {
        return_to: Option<&'a str>,
    },
    NotMatched {
        /// Whether this page is shown on the phone whose number the silent check compared. Selects the text.
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
    /// The client has sent too many requests.
    Busy,
    Unavailable,
    /// The form was submitted from another site.
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub enum Confirming<'a> {
    /// Another browser began the silent check, so only that browser can finish it.
    Elsewhere,
    /// This browser began the silent check. It returns to the company at this URL, which contains the code.
    Return(&'a str),
    /// This browser began the silent check. There is no URL to return to, so a button on the page redeems the code.
    Finish,
}

/// Question that the page asks before it ends the verification.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub subject: QuestionSubject,
    /// Method in use when the question is asked.
    pub method: Method,
    /// Name of the state that the page showed before the question. It stays the state's name in server-sent events.
    pub asked_in: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum QuestionSubject {
    /// The user wants to stop, because they cannot send a text message or because only the silent check is left.
    GiveUp,
    /// The user says that the number belongs to somebody else.
    WrongNumber,
}

/// Why a verification ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All methods were tried without a result.
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
    /// Platform of the device that shows the page. It determines the format of the SMS link.
    pub platform: Platform,
    /// Whether a part of the SMS has arrived, or an SMS from the right number with another text.
    pub has_arrived: bool,
    /// Whether an earlier SMS came from another number.
    pub came_from_other_number: bool,
}

/// The page and its content security policy.
#[derive(Clone, Debug)]
pub struct RenderedPage {
    pub html: String,
    /// Value of the `Content-Security-Policy` header.
    pub content_security_policy: String,
}

impl State<'_> {
    /// Name of the state in server-sent events. The page reloads when it receives another name.
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

    /// Whether the state can change without an action in this browser. Browsers without JavaScript then refresh the
    /// page.
    fn is_waiting(&self) -> bool {
        matches!(self, State::Elsewhere | State::Confirming(_) | State::SendSms(_) | State::SimSwap)
    }

    /// Whether the page subscribes to state changes. A page that starts the silent check by itself does not: the event
    /// about the start could arrive before the response to the start, and the reload would cancel the navigation. A
    /// page that sends the browser to the operator subscribes only if the operator does not answer.
    fn subscribes_to_changes(&self) -> bool {
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
                Method::SecureSna => Message::AskWhetherToStopTitle,
                Method::ReverseSms => Message::AskWhetherToGiveUpTitle,
            },
            State::Ask(Question { subject: QuestionSubject::WrongNumber, .. }) => Message::AskIfWrongNumberTitle,
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

    /// Returns the text that the page shows when the verification has ended. `None`: it has not ended.
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

    fn title_icon(&self) -> Option<TitleIcon> {
        Some(match self {
            State::Done { .. } => TitleIcon::Success,
            State::NotMatched { .. } | State::Failed { reason: Failure::Exhausted, .. } => TitleIcon::Failure,
            State::Failed { .. } | State::Expired { .. } => TitleIcon::Stop,
            _ if self.is_error() => TitleIcon::Failure,
            _ => return None,
        })
    }

    /// Whether the browser is about to leave the page by itself.
    fn is_leaving(&self) -> bool {
        matches!(self, State::Silent | State::Leaving { .. })
    }

    /// Whether the page offers the link "not my number".
    fn may_reject_number(&self) -> bool {
        matches!(self, State::Start { .. } | State::Stalled | State::SendSms(_))
    }
}

/// Detects the platform from the `User-Agent` header. iPads that identify themselves as computers are `Unknown`.
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

    /// Whether the user has sent an SMS already. The page then says what was wrong with it.
    fn is_repeated(&self) -> bool {
        self.has_arrived || self.came_from_other_number
    }

    /// Returns the text of the QR code, in the `SMSTO:` format that cameras of all platforms read.
    fn qr_text(&self) -> String {
        format!("SMSTO:{}:{}", self.receiver.as_str(), self.body)
    }
}

impl Page<'_> {
    pub fn render(&self) -> RenderedPage {
        self.render_with(|_| {})
    }

    /// Renders the page after a change of the template's values.
    fn render_with(&self, change: impl FnOnce(&mut PageTemplate<'_>)) -> RenderedPage {
        let mut arguments = FluentArgs::new();
        arguments.set("brand", self.brand.map_or("", |brand| brand.name));
        arguments.set("tail", self.number_ending.unwrap_or_default());
        let text = |message| self.language.format(message, &arguments);

        let logo = self.brand.and_then(|brand| brand.logo_url);
        let logo = logo.and_then(|url| Some((url, policy::image_source(url)?)));
        let brand_style = brand_style(self.brand.and_then(|brand| brand.colour).unwrap_or(Colour::DEFAULT_ACCENT));
        let qr = match &self.state {
            // A phone needs no code for another phone.
            State::SendSms(sms) if sms.platform == Platform::Unknown => {
                QrSvg::encode(&sms.qr_text(), &text(Message::TextScanLabel))
            }
            State::Start { own_url: Some(url) } => QrSvg::encode(url, &text(Message::StartScanLabel)),
            _ => None,
        };
        let mut template = PageTemplate {
            page: self,
            title: text(self.state.title()),
            brand_style: &brand_style,
            logo_url: logo.as_ref().map(|(url, _)| *url),
            forward_url: (matches!(self.state, State::Silent) && self.wallet.is_none()).then(|| self.url("/silent")),
            message_origins: self.message_origins(),
            operator_url: match self.state {
                State::Leaving { location } => Some(location),
                _ => None,
            },
            refresh_without_script: match self.state {
                State::Leaving { location } => Some((0, location.to_owned())),
                _ if self.starts_unless_wallet() => Some((0, self.url("/silent"))),
                _ if self.state.is_waiting() => Some((REFRESH_SECONDS, self.url(""))),
                _ => self.forward_to().map(|url| (RETURN_SECONDS, url.to_owned())),
            },
            events_url: self.state.subscribes_to_changes().then(|| self.url("/events")),
            support_url: self.brand.and_then(|brand| brand.support_url),
            other_languages: self.other_languages(),
            state_url: self.url("/state"),
            time_left: self.time_left(),
            end_text: self.state.end_text().map(text),
            forward_to: self.forward_to(),
            sms_link: match &self.state {
                State::SendSms(sms) => sms.link(),
                _ => String::new(),
            },
            qr,
            script: Some(SCRIPT),
            wallet: self.wallet.map(|wallet| WalletView {
                request_url: self.fetch_url("/wallet-request"),
                answer_url: self.fetch_url("/wallet"),
                seconds_left: match wallet {
                    WalletTiming::Offered { seconds_left, .. } => Some(seconds_left),
                    WalletTiming::Fallback => None,
                },
                start_url: self.starts_unless_wallet().then(|| self.url("/silent")),
                is_simulated: self.display == DisplayMode::Handset,
            }),
            arguments: &arguments,
        };
        change(&mut template);
        RenderedPage {
            html: template.render().unwrap_or_default(),
            content_security_policy: policy::content_security_policy(
                &[STYLE, &brand_style],
                template.script,
                logo.as_ref().map(|(_, source)| source.as_str()),
                self.frame_origins,
            ),
        }
    }

    fn offers_wallet(&self) -> bool {
        matches!(self.wallet, Some(WalletTiming::Offered { .. }))
    }

    /// Whether the silent check starts without an action of the user, unless the page asks the phone's wallet.
    fn starts_unless_wallet(&self) -> bool {
        match self.wallet {
            Some(WalletTiming::Offered { starts, .. }) => starts,
            Some(WalletTiming::Fallback) => matches!(self.state, State::Silent),
            None => false,
        }
    }

    fn url(&self, action: &str) -> String {
        format!("{}{action}{}", self.path, self.query)
    }

    /// Returns a URL that the script fetches. Its requests do not show that the page is in the handset's frame.
    fn fetch_url(&self, action: &str) -> String {
        let url = self.url(action);
        if self.display != DisplayMode::Handset {
            return url;
        }
        let separator = if self.query.is_empty() { '?' } else { '&' };
        format!("{url}{separator}{DISPLAY_PARAMETER}={}", self.display.into_str())
    }

    /// Returns the method that the user can give up to continue with the next method. `None`: the page does not offer
    /// this.
    fn method_to_give_up(&self) -> Option<Method> {
        let method = match self.state {
            State::Start { .. } | State::Silent | State::Leaving { .. } | State::Stalled => Method::SecureSna,
            State::Ask(Question { subject: QuestionSubject::GiveUp, method, .. }) => method,
            _ => return None,
        };
        self.has_other_method.then_some(method)
    }

    /// Whether the page offers to end the verification, because no other method can follow the silent check. The page
    /// asks for confirmation first.
    fn offers_to_end(&self) -> bool {
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

    /// Returns the time left in seconds, and as minutes and seconds. `None`: the page does not show it.
    fn time_left(&self) -> Option<(u32, String)> {
        let seconds = self.seconds_left.filter(|_| self.state.subscribes_to_changes())?;
        Some((seconds, format!("{}:{:02}", seconds / 60, seconds % 60)))
    }

    /// Returns the other languages, with the URLs of the page in them. Empty if the browser is about to leave the page.
    fn other_languages(&self) -> Vec<(Language, String)> {
        if self.state.is_leaving() {
            return vec![];
        }
        language_links(self.language, self.path, self.query)
    }

    /// Returns the URL at which the page asks a confirmation question.
    fn question_url(&self, subject: QuestionSubject) -> String {
        let separator = if self.query.is_empty() { '?' } else { '&' };
        format!("{}{separator}ask={}", self.url(""), subject.into_str())
    }

    /// Returns the company's URL to which the browser goes by itself at the end. Only success has one: after a failure,
    /// users need time to read what went wrong. Frames have none: the company's page may refuse to be framed, and
    /// browsers let a frame navigate its tab only after a tap.
    fn forward_to(&self) -> Option<&str> {
        let forwards = match self.display {
            DisplayMode::Tab => matches!(self.state, State::Done { .. }),
            // Also forwards a browser that has just returned from the operator. In a tab, such a browser goes to the
            // company without seeing this page.
            DisplayMode::Popup => self.is_success(),
            DisplayMode::Frame | DisplayMode::Handset => false,
        };
        self.state.return_to().filter(|_| forwards)
    }

    fn is_success(&self) -> bool {
        matches!(self.state, State::Done { .. } | State::Confirming(Confirming::Return(_)))
    }

    /// Returns the name of the event that the page reports to the company's page when the verification has ended.
    fn end_event(&self) -> &'static str {
        if self.is_success() { "verified" } else { "failed" }
    }

    /// Returns the origins that may receive the page's messages, separated by spaces. `None`: the page sends no
    /// messages.
    fn message_origins(&self) -> Option<String> {
        if !matches!(self.display, DisplayMode::Popup | DisplayMode::Frame) {
            return None;
        }
        let return_origin = self.end_message.and_then(|message| message.return_origin);
        let return_origin = return_origin.filter(|origin| !self.frame_origins.contains(origin));
        let origins: Vec<_> = self.frame_origins.iter().copied().chain(return_origin).collect();
        (!origins.is_empty()).then(|| origins.join(" "))
    }

    /// Returns the HTML attributes of links to the company. They keep the company's page from opening inside the frame.
    fn return_link_attributes(&self) -> &'static str {
        match self.display {
            DisplayMode::Tab | DisplayMode::Popup => "",
            DisplayMode::Frame => " target=\"_top\"",
            DisplayMode::Handset => " target=\"_blank\" rel=\"noopener\"",
        }
    }

    /// Returns the HTML attributes of forms that start the silent check in a frame. With a redirect URL, the whole tab
    /// goes to the operator and returns to the company. Without one, a new tab does so and shows the result, and the
    /// page in the frame updates itself.
    fn silent_form_attributes(&self) -> &'static str {
        match (self.display, self.has_redirect_url) {
            (DisplayMode::Frame, true) => " target=\"_top\"",
            (DisplayMode::Frame, false) => " target=\"_blank\"",
            (DisplayMode::Tab | DisplayMode::Popup | DisplayMode::Handset, _) => "",
        }
    }
}

/// Returns the languages other than the page's, with the URLs of the page in them.
fn language_links(current: Language, path: &str, query: &str) -> Vec<(Language, String)> {
    let others = Language::VARIANTS.iter().filter(|language| **language != current);
    others.map(|language| (*language, url_in(*language, path, query))).collect()
}

/// Returns the URL of a page in another language.
fn url_in(language: Language, path: &str, query: &str) -> String {
    let query = query.trim_start_matches('?').as_bytes();
    let kept = form_urlencoded::parse(query).filter(|(name, _)| name != LANGUAGE_PARAMETER);
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair(LANGUAGE_PARAMETER, language.tag())
        .extend_pairs(kept)
        .finish();
    format!("{path}?{query}")
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
    /// Our own URL that the page opens immediately, to start the silent check.
    forward_url: Option<String>,
    /// Origins that may receive the page's messages, separated by spaces.
    message_origins: Option<String>,
    /// URL at the operator that the page opens after the silent check has started.
    operator_url: Option<&'a str>,
    /// Delay in seconds and URL of the `refresh` element for browsers without JavaScript.
    refresh_without_script: Option<(u8, String)>,
    events_url: Option<String>,
    support_url: Option<&'a str>,
    other_languages: Vec<(Language, String)>,
    /// URL at which the script polls the state, if a proxy holds the events back.
    state_url: String,
    /// Time left in seconds, and as minutes and seconds.
    time_left: Option<(u32, String)>,
    /// Text that the page shows when the verification has ended.
    end_text: Option<String>,
    /// The company's URL to which the browser goes by itself.
    forward_to: Option<&'a str>,
    /// Opens the messaging app. Empty if the page asks for no SMS.
    sms_link: String,
    qr: Option<QrSvg>,
    script: Option<&'static str>,
    wallet: Option<WalletView>,
    arguments: &'a FluentArgs<'a>,
}

/// What the script needs to ask the phone's wallet.
struct WalletView {
    /// URL that returns a request to the wallet.
    request_url: String,
    /// URL that receives the wallet's answer.
    answer_url: String,
    /// Time until the silent check expires. `None`: the page does not offer the wallet.
    seconds_left: Option<u32>,
    /// URL that starts the silent check if the page does not wait for a tap. `None`: it waits.
    start_url: Option<String>,
    /// Whether the page around the frame plays the wallet.
    is_simulated: bool,
}

impl PageTemplate<'_> {
    fn text(&self, message: Message) -> String {
        self.page.language.format(message, self.arguments)
    }

    fn url(&self, action: &str) -> String {
        self.page.url(action)
    }
}
