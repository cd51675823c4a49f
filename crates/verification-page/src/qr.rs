//! Renders QR codes as SVG. The SVG has no inline styles, because content security policies forbid them: the page's
//! style sheet must colour the classes `light` and `dark`.

use std::fmt::{self, Write as _};

use askama::filters::{Escaper, Html, HtmlSafe};
use qrcode::{Color, EcLevel, QrCode};

/// Width of the light margin that the QR standard requires around the code.
const QUIET_ZONE_MODULES: usize = 4;

/// A QR code that renders as an `<svg>` element.
#[derive(Clone, Debug)]
pub struct QrSvg {
    /// Accessible name of the `<svg>` element.
    label: String,
    /// Number of modules on each side, including the quiet zone.
    modules: usize,
    /// SVG path data of the dark modules.
    dark_path: String,
}

impl QrSvg {
    /// Encodes the text. Returns `None` if it is too long.
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

/// Safe because the label is escaped, and everything else consists of numbers and path commands.
impl HtmlSafe for QrSvg {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws the SVG path as pixels and decodes the QR code in them.
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
            let qr = QrSvg::encode(text, "QR code").unwrap();
            assert_eq!(decode(&qr), text);
            let drawn = qr.to_string();
            assert!(!drawn.contains("style") && !drawn.contains("script"), "{drawn}");
        }
        assert!(QrSvg::encode(&"x".repeat(5_000), "").is_none());
    }
}
