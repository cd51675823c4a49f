//! The page that a browser shows at the end of a single check's redirects: the result, in the user's language.
//!
//! It is small and has no scripts. It loads nothing but the icon and the brand's logo.

use askama::Template;
use fluent_bundle::FluentArgs;

use crate::{Brand, Colour, Language, RenderedPage, brand_style, language::Message, policy};

const STYLE: &str = include_str!("../assets/device.css");

#[derive(Clone, Copy, Debug)]
pub struct DevicePage<'a> {
    pub language: Language,
    /// `None` if the check is unknown or could not be read.
    pub brand: Option<Brand<'a>>,
    pub state: DeviceState<'a>,
    /// Shown below the text, so that the user can report it to support.
    pub error_code: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState<'a> {
    /// The user has to enter this code in the app or on the site that started the check.
    Code(&'a str),
    NotMobile,
    Failed,
    Expired,
    /// The check is already concluded, or its code was already issued.
    Used,
    /// Another browser began the silent check on a hosted page. Only that browser may finish it.
    OtherBrowser,
    /// No check has this link.
    Unknown,
    /// The client has sent too many requests.
    Busy,
    Unavailable,
}

impl DeviceState<'_> {
    fn messages(self) -> (Message, Message) {
        match self {
            DeviceState::Code(_) => (Message::ConfirmingTitle, Message::EnterCodeText),
            DeviceState::NotMobile => (Message::NotMobileTitle, Message::NotMobileText),
            DeviceState::Failed => (Message::FailedTitle, Message::DeviceFailedText),
            DeviceState::Expired => (Message::ExpiredTitle, Message::StartAgainText),
            DeviceState::Used => (Message::UsedTitle, Message::StartAgainText),
            DeviceState::OtherBrowser => (Message::OtherBrowserTitle, Message::OtherBrowserText),
            DeviceState::Unknown => (Message::UnknownTitle, Message::UnknownText),
            DeviceState::Busy => (Message::BusyTitle, Message::BusyText),
            DeviceState::Unavailable => (Message::UnavailableTitle, Message::UnavailableText),
        }
    }
}

impl DevicePage<'_> {
    pub fn render(&self) -> RenderedPage {
        let (title, text) = self.state.messages();
        let arguments = FluentArgs::new();
        let logo = self.brand.and_then(|brand| brand.logo_url);
        let logo = logo.and_then(|url| Some((url, policy::image_source(url)?)));
        let brand_style = brand_style(self.brand.and_then(|brand| brand.colour).unwrap_or(Colour::DEFAULT_ACCENT));
        let template = DeviceTemplate {
            page: self,
            title: self.language.format(title, &arguments),
            text: self.language.format(text, &arguments),
            code: match self.state {
                DeviceState::Code(code) => Some(code),
                _ => None,
            },
            hint: match self.state {
                DeviceState::OtherBrowser => Some(self.language.format(Message::OtherBrowserCookies, &arguments)),
                _ => None,
            },
            brand_style: &brand_style,
            logo_url: logo.as_ref().map(|(url, _)| *url),
        };
        RenderedPage {
            html: template.render().unwrap_or_default(),
            content_security_policy: policy::content_security_policy(
                &[STYLE, &brand_style],
                None,
                logo.as_ref().map(|(_, source)| source.as_str()),
                &[],
            ),
        }
    }
}

#[derive(Template)]
#[template(path = "device.html")]
struct DeviceTemplate<'a> {
    page: &'a DevicePage<'a>,
    title: String,
    text: String,
    hint: Option<String>,
    code: Option<&'a str>,
    brand_style: &'a str,
    logo_url: Option<&'a str>,
}
