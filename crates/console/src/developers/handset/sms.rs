//! Sends the SMS of a Reverse SMS check from the simulated phone, optionally with simulated delivery faults.
//!
//! The page fills in the SMS from the check, and also shows it as `sms:` links and as a QR code.

use std::ops::RangeInclusive;

use axum::{extract::State, response::Response};
use ringtrue_domain::{
    phone::Msisdn,
    product::Product,
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
};
use ringtrue_engine::checks::reverse_sms::CreatedReverseSms;
use ringtrue_sandbox::handsets::{SimulatedSender, SmsFaults};
use ringtrue_verification_page::QrSvg;
use ringtrue_web::{app::App, parameters::PathParameters};
use serde::{Deserialize, Serialize};

use crate::{
    developers::handset::{
        CheckForm, PhoneScreen, authorize, parse_check_id, problem_sentence, redirect_to_check, render_handset,
    },
    page::error::{ConsoleError, to_sentence},
    session::forms::{FormFields, SessionForm},
};

/// An SMS that is not sent yet.
#[derive(Default, Serialize, Deserialize)]
pub struct SmsDraft {
    pub check: String,
    pub sim: String,
    pub receiver: String,
    pub body: String,
    /// Platform names and their `sms:` links.
    #[serde(skip)]
    pub links: Vec<(&'static str, String)>,
    #[serde(skip)]
    pub qr: Option<QrSvg>,
    /// Seconds until the check expires. Set only for a new check.
    pub ttl_seconds: Option<u16>,
    #[serde(skip)]
    pub faults: FaultFields,
    #[serde(skip)]
    pub error: Option<String>,
}

/// Values of the form fields for simulated delivery faults, not parsed yet.
#[derive(Default)]
pub struct FaultFields {
    pub late_seconds: String,
    pub extra_copies: String,
    pub spoofed_from: String,
    pub parts: String,
    pub link_drops: String,
    pub garbled: bool,
    pub out_of_order: bool,
}

impl SmsDraft {
    pub fn new(created: &CreatedReverseSms, sim: &str) -> Self {
        let instructions = &created.instructions;
        SmsDraft {
            check: created.check.id.to_string(),
            sim: sim.to_owned(),
            receiver: instructions.receiver.as_str().to_owned(),
            body: instructions.sms_body.clone(),
            ttl_seconds: Some(instructions.ttl),
            ..SmsDraft::default()
        }
    }

    /// Restores the submitted values after an error, so that the form shows them again.
    fn from_rejected_form(fields: &FormFields, error: &str) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        let mut draft = SmsDraft {
            check: text("check"),
            sim: text("sim"),
            receiver: text("receiver"),
            body: text("body"),
            faults: FaultFields::read(fields),
            error: Some(to_sentence(error)),
            ..SmsDraft::default()
        };
        draft.set_links();
        draft
    }

    /// Sets the links and the QR code from the receiver and body. Sets none if the receiver is not a valid number.
    pub fn set_links(&mut self) {
        let Ok(receiver) = Msisdn::parse(&self.receiver, Mode::Sandbox) else { return };
        let link = |platform| sms_link(&receiver, &self.body, platform);
        self.qr = QrSvg::encode(&link(Platform::Android), "QR code");
        self.links = vec![
            ("Android", link(Platform::Android)),
            ("iOS", link(Platform::Ios)),
            ("Either", link(Platform::Unknown)),
        ];
    }
}

impl FaultFields {
    fn read(fields: &FormFields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        FaultFields {
            late_seconds: text("late_seconds"),
            extra_copies: text("extra_copies"),
            spoofed_from: text("spoofed_from"),
            parts: text("parts"),
            link_drops: text("link_drops"),
            garbled: fields.contains("garbled"),
            out_of_order: fields.contains("out_of_order"),
        }
    }

    pub fn is_any_set(&self) -> bool {
        let texts = [&self.late_seconds, &self.extra_copies, &self.spoofed_from, &self.parts, &self.link_drops];
        self.garbled || self.out_of_order || texts.iter().any(|text| !text.is_empty())
    }

    fn parse(&self) -> Result<SmsFaults, String> {
        let number = |label: &str, text: &str, range: RangeInclusive<i64>| match text.parse() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(format!("{label} must be a number from {} to {}", range.start(), range.end())),
        };
        let spoofed_from = Some(&*self.spoofed_from).filter(|sender| !sender.is_empty()).map(SimulatedSender::parse);
        Ok(SmsFaults {
            late_seconds: number("delay", &self.late_seconds, SmsFaults::ALLOWED_LATE_SECONDS)?,
            extra_copies: number("duplicates", &self.extra_copies, SmsFaults::ALLOWED_EXTRA_COPIES)?,
            spoofed_from: spoofed_from.transpose().map_err(|error| format!("invalid sender: {error}"))?,
            garbled: self.garbled,
            parts: number("parts", &self.parts, SmsFaults::ALLOWED_PARTS)?,
            out_of_order: self.out_of_order,
            link_drops: number("connection losses", &self.link_drops, SmsFaults::ALLOWED_LINK_DROPS)?,
        })
    }
}

/// `POST …/handset/sms`
pub async fn send(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form).await?;
    let check = parse_check_id(&fields)?;
    let error = match parse_sms(&fields) {
        Ok((from, to, faults)) => {
            let body = fields.get("body").unwrap_or_default();
            match app.handsets.send_sms(&access.project, from, &to, body, faults).await {
                Ok(()) => return Ok(redirect_to_check(&app, &access, Product::ReverseSms, check)),
                Err(error) => problem_sentence(error),
            }
        }
        Err(error) => error,
    };
    let check_form = CheckForm::with_number(fields.get("sim").unwrap_or_default().to_owned());
    let draft = SmsDraft::from_rejected_form(&fields, &error);
    render_handset(&app, &access, check_form, PhoneScreen::Sms(Box::new(draft))).await
}

fn parse_sms(fields: &FormFields) -> Result<(SimulatedSender, Msisdn, SmsFaults), String> {
    let number = |label: &str, name| {
        let parsed = Msisdn::parse(fields.get(name).unwrap_or_default(), Mode::Sandbox);
        parsed.map_err(|error| format!("{label}: {error}"))
    };
    Ok((
        (&number("invalid SIM number", "sim")?).into(),
        number("invalid receiver", "receiver")?,
        FaultFields::read(fields).parse()?,
    ))
}
