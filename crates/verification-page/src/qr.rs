//! QR codes as SVG without inline styles, which content security policies forbid. Style sheets colour the classes
//! `light` and `dark`.

use std::fmt::{self, Write as _};

use askama::filters::{Escaper, Html, HtmlSafe};
use qrcode::{Color, EcLevel, QrCode};

/// Light margin required around the code.
const QUIET_ZONE_MODULES: usize = 4;

/// A QR code that renders as an `<svg>` element.
#[derive(Clone, Debug)]
pub struct QrSvg {
    /// Accessible name.
    label: String,
    /// Modules on each side, including the quiet zone.
    modules: usize,
    /// SVG path data of the dark modules.
    dark_path: String,
}

impl QrSvg {
    /// Returns `None` if the text is too long.
    pub fn encode(text: &str, label: &str) -> Option<Self> {
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
        Some(QrSvg { label: label.to_owned(), modules: width + 2 * QUIET_ZONE_MODULES, dark_path })
    }
}

impl fmt::Display for QrSvg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QrSvg { label, modules, dark_path } = self;
        write!(f, "<svg class=\"qr\" viewBox=\"0 0 {modules} {modules}\" role=\"img\" aria-label=\"")?;
        Html.write_escaped_str(&mut *f, label)?;
        write!(
            f,
            "\" shape-rendering=\"crispEdges\"><rect class=\"light\" width=\"{modules}\" height=\"{modules}\"/>\
             <path class=\"dark\" d=\"{dark_path}\"/></svg>"
        )
    }
}

/// The label is escaped; the rest is numbers and path commands.
impl HtmlSafe for QrSvg {}
