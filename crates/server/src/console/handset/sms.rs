//! The SMS of a Reverse SMS check: composed from the check's link and sent, optionally with delivery faults.
//!
//! Its link is also shown as a QR code: SVG without inline styles, which the content security policy forbids.

use std::{
    fmt::{self, Write as _},
    ops::RangeInclusive,
};

use askama::filters::HtmlSafe;
use axum::{extract::State, response::Response};
use qrcode::{Color, EcLevel, QrCode};
use ringtrue_domain::{
    phone::Msisdn,
    product::Product,
    reverse_sms::{Platform, sms_link},
    tenancy::Mode,
};
use ringtrue_engine::reverse_sms::CreatedReverseSms;

use super::{CheckForm, PhoneScreen, authorize, parse_check_id, problem_sentence, redirect_to_check, render_handset};
use crate::{
    console::{
        error::{ConsoleError, to_sentence},
        forms::{FormFields, SessionForm},
    },
    handsets::SmsFaults,
    http::{app::App, parameters::PathParameters},
};

/// Light margin required around the code.
const QUIET_ZONE_MODULES: usize = 4;

/// An SMS that is not sent yet.
#[derive(Default)]
pub struct SmsDraft {
    pub check: String,
    pub sim: String,
    pub receiver: String,
    pub body: String,
    /// Platform names and their `sms:` links.
    pub links: Vec<(&'static str, String)>,
    pub qr: Option<QrSvg>,
    /// Remaining time of a new check.
    pub ttl_seconds: Option<u16>,
    pub faults: FaultFields,
    pub error: Option<String>,
}

/// The fault fields of the form, unparsed.
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

pub struct QrSvg {
    /// Modules on each side, including the quiet zone.
    modules: usize,
    /// SVG path data of the dark modules.
    dark_path: String,
}

impl QrSvg {
    /// Returns `None` if the text is too long.
    pub fn encode(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let (width, colors) = (code.width(), code.to_colors());
        let mut dark_path = String::new();
        for (y, row) in colors.chunks(width).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|one, next| one == next) {
                if run[0] == Color::Dark {
                    let length = run.len();
                    // Writing to a String cannot fail.
                    let _ = write!(
                        dark_path,
                        "M{} {}h{length}v1h-{length}z",
                        x + QUIET_ZONE_MODULES,
                        y + QUIET_ZONE_MODULES
                    );
                }
                x += run.len();
            }
        }
        Some(QrSvg { modules: width + 2 * QUIET_ZONE_MODULES, dark_path })
    }
}

impl fmt::Display for QrSvg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QrSvg { modules, dark_path } = self;
        write!(
            f,
            "<svg class=\"qr\" viewBox=\"0 0 {modules} {modules}\" role=\"img\" aria-label=\"QR code\" \
             shape-rendering=\"crispEdges\"><rect class=\"light\" width=\"{modules}\" height=\"{modules}\"/>\
             <path class=\"dark\" d=\"{dark_path}\"/></svg>"
        )
    }
}

/// Contains only numbers and path commands, not the text.
impl HtmlSafe for QrSvg {}

impl SmsDraft {
    pub fn new(created: &CreatedReverseSms, sim: &str) -> Self {
        let instructions = &created.instructions;
        SmsDraft {
            check: created.check.id.to_string(),
            sim: sim.to_owned(),
            ttl_seconds: Some(instructions.ttl),
            ..SmsDraft::compose(&instructions.receiver, &instructions.sms_body)
        }
    }

    /// Restores the submitted values after an error.
    fn from_rejected_form(fields: &FormFields, error: &str) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        let draft = match Msisdn::parse(&text("receiver"), Mode::Sandbox) {
            Ok(receiver) => SmsDraft::compose(&receiver, &text("body")),
            Err(_) => SmsDraft { receiver: text("receiver"), body: text("body"), ..SmsDraft::default() },
        };
        let faults = FaultFields::read(fields);
        SmsDraft { check: text("check"), sim: text("sim"), faults, error: Some(to_sentence(error)), ..draft }
    }

    fn compose(receiver: &Msisdn, body: &str) -> Self {
        let link = |platform| sms_link(receiver, body, platform);
        let links = vec![
            ("Android", link(Platform::Android)),
            ("iOS", link(Platform::Ios)),
            ("Either", link(Platform::Unknown)),
        ];
        SmsDraft {
            receiver: receiver.as_str().to_owned(),
            body: body.to_owned(),
            links,
            qr: QrSvg::encode(&link(Platform::Android)),
            ..SmsDraft::default()
        }
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
        if !self.spoofed_from.is_empty() {
            Msisdn::parse(&self.spoofed_from, Mode::Sandbox).map_err(|error| format!("invalid sender: {error}"))?;
        }
        Ok(SmsFaults {
            late_seconds: number("delay", &self.late_seconds, SmsFaults::LATE_SECONDS)?,
            extra_copies: number("duplicates", &self.extra_copies, SmsFaults::EXTRA_COPIES)?,
            spoofed_from: Some(self.spoofed_from.clone()).filter(|sender| !sender.is_empty()),
            garbled: self.garbled,
            parts: number("parts", &self.parts, SmsFaults::PARTS)?,
            out_of_order: self.out_of_order,
            link_drops: number("connection losses", &self.link_drops, SmsFaults::LINK_DROPS)?,
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
            match app.handsets.send_sms(&access.project, &from, &to, body, faults).await {
                Ok(()) => return Ok(redirect_to_check(&access, Product::ReverseSms, check)),
                Err(error) => problem_sentence(error),
            }
        }
        Err(error) => error,
    };
    let check_form = CheckForm::with_number(fields.get("sim").unwrap_or_default().to_owned());
    let draft = SmsDraft::from_rejected_form(&fields, &error);
    render_handset(&app, &access, check_form, PhoneScreen::Sms(Box::new(draft))).await
}

fn parse_sms(fields: &FormFields) -> Result<(Msisdn, Msisdn, SmsFaults), String> {
    let number = |label: &str, name| {
        let parsed = Msisdn::parse(fields.get(name).unwrap_or_default(), Mode::Sandbox);
        parsed.map_err(|error| format!("{label}: {error}"))
    };
    Ok((
        number("invalid SIM number", "sim")?,
        number("invalid receiver", "receiver")?,
        FaultFields::read(fields).parse()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rasterises and decodes the code.
    fn decode(qr: &QrSvg) -> String {
        const PIXELS: usize = 4;
        let mut modules = vec![vec![false; qr.modules]; qr.modules];
        for run in qr.dark_path.split('M').skip(1) {
            let (x, rest) = run.split_once(' ').unwrap();
            let (y, rest) = rest.split_once('h').unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            let length: usize = rest.split('v').next().unwrap().parse().unwrap();
            modules[y][x..x + length].fill(true);
        }
        let side = qr.modules * PIXELS;
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(side, side, |x, y| {
            if modules[y / PIXELS][x / PIXELS] { 0 } else { 255 }
        });
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1);
        grids[0].decode().unwrap().1
    }

    #[test]
    fn encoded_text_decodes_unchanged() {
        for text in [
            "sms:+99000000001?body=VERIFY%207K3QX9M20D",
            "sms:+447700900001&body=ABCDEFGHIJKLMNOPQRST%207K3QX9M20D",
            "https://example.com/\"><script>é",
        ] {
            let qr = QrSvg::encode(text).unwrap();
            assert_eq!(decode(&qr), text);
            let drawn = qr.to_string();
            assert!(!drawn.contains("style") && !drawn.contains("script"), "{drawn}");
        }
        assert!(QrSvg::encode(&"x".repeat(5_000)).is_none());
    }
}
