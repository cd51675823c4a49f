//! The message for a Reverse SMS check: composed from its link, and sent, with whatever befalls it on its way.

use std::ops::RangeInclusive;

use axum::{extract::State, response::Response};
use ringtrue_domain::{
    account::Power,
    phone::Msisdn,
    product::Product,
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
};
use ringtrue_engine::reverse_sms::CreatedReverseSms;

use super::{Phone, Typed, check_of, sandbox, shown, to_check, told};
use crate::{
    console::{
        forms::{Fields, SignedForm},
        qr::Qr,
        refusal::{Refusal, sentence},
    },
    handsets::Faults,
    http::{App, path::PathIds},
};

/// A message that waits to be sent.
#[derive(Default)]
pub struct Message {
    pub check: String,
    pub sim: String,
    pub receiver: String,
    pub body: String,
    /// Whose phones take which link.
    pub links: Vec<(&'static str, String)>,
    pub qr: Option<Qr>,
    /// How long there is time, when it is new.
    pub seconds: Option<u16>,
    pub faults: TypedFaults,
    pub error: Option<String>,
}

/// What was typed about faults.
#[derive(Default)]
pub struct TypedFaults {
    pub late_seconds: String,
    pub extra_copies: String,
    pub spoofed_from: String,
    pub parts: String,
    pub link_drops: String,
    pub garbled: bool,
    pub out_of_order: bool,
}

impl Message {
    pub fn new(created: &CreatedReverseSms, sim: &str) -> Self {
        let invitation = &created.invitation;
        Message {
            check: created.check.id.to_string(),
            sim: sim.to_owned(),
            seconds: Some(invitation.ttl),
            ..Message::to(&invitation.receiver, &invitation.sms_body)
        }
    }

    /// As it was when it could not be sent.
    fn again(fields: &Fields, error: &str) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        let composed = match Msisdn::parse(&text("receiver"), Mode::Sandbox) {
            Ok(receiver) => Message::to(&receiver, &text("body")),
            Err(_) => Message { receiver: text("receiver"), body: text("body"), ..Message::default() },
        };
        let faults = TypedFaults::of(fields);
        Message { check: text("check"), sim: text("sim"), faults, error: Some(sentence(error)), ..composed }
    }

    fn to(receiver: &Msisdn, body: &str) -> Self {
        let link = |platform| sms_link(receiver, body, platform);
        let links = vec![
            ("Android", link(Platform::Android)),
            ("iOS", link(Platform::Ios)),
            ("Either", link(Platform::Unknown)),
        ];
        Message {
            receiver: receiver.as_str().to_owned(),
            body: body.to_owned(),
            links,
            qr: Qr::of(&link(Platform::Android)),
            ..Message::default()
        }
    }
}

impl TypedFaults {
    fn of(fields: &Fields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        TypedFaults {
            late_seconds: text("late_seconds"),
            extra_copies: text("extra_copies"),
            spoofed_from: text("spoofed_from"),
            parts: text("parts"),
            link_drops: text("link_drops"),
            garbled: fields.has("garbled"),
            out_of_order: fields.has("out_of_order"),
        }
    }

    /// Whether there is anything to see.
    pub fn any(&self) -> bool {
        let texts = [&self.late_seconds, &self.extra_copies, &self.spoofed_from, &self.parts, &self.link_drops];
        self.garbled || self.out_of_order || texts.iter().any(|text| !text.is_empty())
    }

    fn parse(&self) -> Result<Faults, String> {
        let number = |what: &str, text: &str, range: RangeInclusive<i64>| match text.parse() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(format!("{what}: a number from {} to {}", range.start(), range.end())),
        };
        if !self.spoofed_from.is_empty() {
            Msisdn::parse(&self.spoofed_from, Mode::Sandbox).map_err(|error| format!("the false sender: {error}"))?;
        }
        Ok(Faults {
            late_seconds: number("seconds late", &self.late_seconds, Faults::LATE_SECONDS)?,
            extra_copies: number("copies more", &self.extra_copies, Faults::EXTRA_COPIES)?,
            spoofed_from: Some(self.spoofed_from.clone()).filter(|sender| !sender.is_empty()),
            garbled: self.garbled,
            parts: number("parts", &self.parts, Faults::PARTS)?,
            out_of_order: self.out_of_order,
            link_drops: number("links that drop", &self.link_drops, Faults::LINK_DROPS)?,
        })
    }
}

/// `POST …/handset/sms`: presses Send.
pub async fn send(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let check = check_of(&fields)?;
    let error = match composed(&fields) {
        Ok((from, to, faults)) => {
            let body = fields.get("body").unwrap_or_default();
            match app.handsets.text(&place.project, &from, &to, body, faults).await {
                Ok(()) => return Ok(to_check(&place, Product::ReverseSms, check)),
                Err(error) => told(error),
            }
        }
        Err(error) => error,
    };
    let typed = Typed::number(fields.get("sim").unwrap_or_default().to_owned());
    let message = Message::again(&fields, &error);
    Ok(shown(&app, &who, &place, typed, Phone::Message(Box::new(message))))
}

fn composed(fields: &Fields) -> Result<(Msisdn, Msisdn, Faults), String> {
    let number = |what: &str, name| {
        let parsed = Msisdn::parse(fields.get(name).unwrap_or_default(), Mode::Sandbox);
        parsed.map_err(|error| format!("{what}: {error}"))
    };
    Ok((number("the SIM", "sim")?, number("the receiver", "receiver")?, TypedFaults::of(fields).parse()?))
}
