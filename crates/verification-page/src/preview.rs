//! Previews of the page: sample states, for designers, translators and the console.
//!
//! A preview does nothing by itself and leads nowhere: it has no script, refresh or redirect, and its links and forms
//! have the preview itself as target. Its policy adds a sandbox, in which browsers submit no forms and open no windows.

use std::sync::LazyLock;

use ringtrue_domain::{phone::Msisdn, reverse_sms::Platform, tenancy::Mode, verification::Method};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::{
    Brand, Confirming, DisplayMode, Failure, Language, Notice, Page, PageTemplate, Question, QuestionSubject,
    RenderedPage, SmsToSend, State,
};

/// Target of all links and forms. A fragment does not leave the page.
const INERT_URL: &str = "#";
const SMS_BODY: &str = "VERIFY 7K3QX9M20D";
static RECEIVER: LazyLock<Msisdn> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the constant is a valid number")]
    Msisdn::parse("+99000000001", Mode::Sandbox).expect("a phone number")
});

/// A state of the page, with sample values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SampleState {
    Start,
    StartCookies,
    Silent,
    Stalled,
    Elsewhere,
    Confirming,
    ConfirmingReturn,
    SendSms,
    SendSmsAgain,
    SmsReceived,
    AskWhetherToGiveUp,
    AskWhetherToStop,
    AskIfWrongNumber,
    SimSwap,
    Done,
    NotMatched,
    NotMatchedPhone,
    Failed,
    GivenUp,
    WrongNumber,
    Cancelled,
    Expired,
    Unknown,
    Busy,
    Unavailable,
    Refused,
}

/// The page in a sample state.
#[derive(Clone, Copy, Debug)]
pub struct Preview<'a> {
    pub state: SampleState,
    pub language: Language,
    pub brand: Option<Brand<'a>>,
    /// Platform of the phone that shows the page. On `Unknown`, which includes computers, the page has QR codes.
    pub platform: Platform,
    pub is_sandbox: bool,
    /// Time until the verification expires. `None`: the page shows no time.
    pub seconds_left: Option<u32>,
}

impl SampleState {
    fn state(self, platform: Platform) -> State<'static> {
        let return_to = Some(INERT_URL);
        let sms = |has_arrived, came_from_other_number| {
            let (receiver, body) = (&*RECEIVER, SMS_BODY);
            State::SendSms(SmsToSend { receiver, body, platform, has_arrived, came_from_other_number })
        };
        let ask = |subject, method| State::Ask(Question { subject, method, asked_in: "send_sms" });
        let failed = |reason| State::Failed { reason, return_to };
        match self {
            SampleState::Start => {
                let has_qr = platform == Platform::Unknown;
                State::Start { own_url: has_qr.then_some("https://verify.example/v/token") }
            }
            SampleState::StartCookies => State::Start { own_url: None },
            SampleState::Silent => State::Silent,
            SampleState::Stalled => State::Stalled,
            SampleState::Elsewhere => State::Elsewhere,
            SampleState::Confirming => State::Confirming(Confirming::Elsewhere),
            SampleState::ConfirmingReturn => State::Confirming(Confirming::Return(INERT_URL)),
            SampleState::SendSms => sms(false, false),
            SampleState::SendSmsAgain => sms(false, true),
            SampleState::SmsReceived => sms(true, false),
            SampleState::AskWhetherToGiveUp => ask(QuestionSubject::GiveUp, Method::ReverseSms),
            SampleState::AskWhetherToStop => ask(QuestionSubject::GiveUp, Method::SecureSna),
            SampleState::AskIfWrongNumber => ask(QuestionSubject::WrongNumber, Method::ReverseSms),
            SampleState::SimSwap => State::SimSwap,
            SampleState::Done => State::Done { return_to },
            SampleState::NotMatched => State::NotMatched { is_phone: false, return_to },
            SampleState::NotMatchedPhone => State::NotMatched { is_phone: true, return_to },
            SampleState::Failed => failed(Failure::Exhausted),
            SampleState::GivenUp => failed(Failure::GivenUp),
            SampleState::WrongNumber => failed(Failure::WrongNumber),
            SampleState::Cancelled => failed(Failure::Cancelled),
            SampleState::Expired => State::Expired { return_to: None },
            SampleState::Unknown => State::Unknown,
            SampleState::Busy => State::Busy,
            SampleState::Unavailable => State::Unavailable,
            SampleState::Refused => State::Refused,
        }
    }
}

impl Preview<'_> {
    pub fn render(&self) -> RenderedPage {
        let page = Page {
            language: self.language,
            brand: self.brand,
            number_ending: Some("6742"),
            is_sandbox: self.is_sandbox,
            seconds_left: self.seconds_left,
            path: INERT_URL,
            query: "",
            display: DisplayMode::Tab,
            frame_origins: &[],
            end_message: None,
            has_redirect_url: true,
            has_other_method: self.state != SampleState::AskWhetherToStop,
            wallet: None,
            notice: (self.state == SampleState::StartCookies).then_some(Notice::AllowCookies),
            state: self.state.state(self.platform),
        };
        let RenderedPage { html, content_security_policy } = page.render_with(make_inert);
        RenderedPage {
            html: remove_tab_stops(&html),
            content_security_policy: format!("{content_security_policy}; sandbox"),
        }
    }
}

/// Removes what the page does by itself, and its links to other apps and sites.
fn make_inert(template: &mut PageTemplate<'_>) {
    template.script = None;
    template.forward_url = None;
    template.forward_to = None;
    template.refresh_without_script = None;
    template.events_url = None;
    INERT_URL.clone_into(&mut template.sms_link);
    template.support_url = template.support_url.map(|_| INERT_URL);
}

/// Takes links and buttons, which do nothing, out of the order in which the Tab key moves the focus. The list of
/// languages stays in it, so that users can scroll the preview by keyboard. Only elements of the template match, because
/// values in it are escaped.
fn remove_tab_stops(html: &str) -> String {
    ["a", "button"].iter().fold(html.to_owned(), |html, name| {
        let with_attributes = html.replace(&format!("<{name} "), &format!("<{name} tabindex=\"-1\" "));
        with_attributes.replace(&format!("<{name}>"), &format!("<{name} tabindex=\"-1\">"))
    })
}
