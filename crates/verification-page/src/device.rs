//! The page of a single check whose link was opened in a browser: what happened, in the user's language.
//!
//! It is small, without scripts and without requests of its own except for the icon and the brand's logo.

use askama::Template;
use fluent_bundle::FluentArgs;

use crate::{Brand, Colour, Language, RenderedPage, brand_style, language::Message, policy};

const STYLE: &str = include_str!("../assets/device.css");

#[derive(Clone, Copy, Debug)]
pub struct DevicePage<'a> {
    pub language: Language,
    /// `None` if the check is unknown.
    pub brand: Option<Brand<'a>>,
    pub state: DeviceState<'a>,
    /// For support, below the text.
    pub error_code: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState<'a> {
    /// The user has to enter this code.
    Code(&'a str),
    NotMobile,
    Failed,
    Expired,
    /// The check is concluded, or its code was issued.
    Used,
    /// The hosted page of another browser began the redirects.
    OtherBrowser,
    /// No check has this link.
    Unknown,
    /// Too many requests.
    Busy,
    Unavailable,
}

impl DeviceState<'_> {
    fn messages(self) -> (Message, Message) {
        match self {
            DeviceState::Code(_) => (Message::ConfirmingTitle, Message::DeviceCodeText),
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
