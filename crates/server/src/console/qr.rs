//! QR codes, drawn as SVG by attributes and classes alone: the pages' policy lets no style in.

use std::fmt::{self, Write as _};

use askama::filters::HtmlSafe;
use qrcode::{Color, EcLevel, QrCode};

/// Cameras want so many light squares around it.
const MARGIN: usize = 4;

/// A QR code that is ready to be drawn.
pub struct Qr {
    /// On each side, with the margin.
    squares: usize,
    /// The dark ones, as the data of a path: digits, letters, blanks and signs.
    dark: String,
}

impl Qr {
    /// `None`: the text is too long for any.
    pub fn of(text: &str) -> Option<Self> {
        let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
        let (width, colors) = (code.width(), code.to_colors());
        let mut dark = String::new();
        for (y, row) in colors.chunks(width).enumerate() {
            let mut x = 0;
            for run in row.chunk_by(|one, next| one == next) {
                if run[0] == Color::Dark {
                    let length = run.len();
                    // Writing into a text never fails.
                    let _ = write!(dark, "M{} {}h{length}v1h-{length}z", x + MARGIN, y + MARGIN);
                }
                x += run.len();
            }
        }
        Some(Qr { squares: width + 2 * MARGIN, dark })
    }
}

impl fmt::Display for Qr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Qr { squares, dark } = self;
        write!(
            f,
            "<svg class=\"qr\" viewBox=\"0 0 {squares} {squares}\" role=\"img\" aria-label=\"QR code\" \
             shape-rendering=\"crispEdges\"><rect class=\"light\" width=\"{squares}\" height=\"{squares}\"/>\
             <path class=\"dark\" d=\"{dark}\"/></svg>"
        )
    }
}

/// Nothing of the text is in it but as squares.
impl HtmlSafe for Qr {}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a camera reads off the drawing.
    fn read(qr: &Qr) -> String {
        const PIXELS: usize = 4;
        let mut squares = vec![vec![false; qr.squares]; qr.squares];
        for run in qr.dark.split('M').skip(1) {
            let (x, rest) = run.split_once(' ').unwrap();
            let (y, rest) = rest.split_once('h').unwrap();
            let (x, y): (usize, usize) = (x.parse().unwrap(), y.parse().unwrap());
            let length: usize = rest.split('v').next().unwrap().parse().unwrap();
            squares[y][x..x + length].fill(true);
        }
        let side = qr.squares * PIXELS;
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(side, side, |x, y| {
            if squares[y / PIXELS][x / PIXELS] { 0 } else { 255 }
        });
        let grids = image.detect_grids();
        assert_eq!(grids.len(), 1);
        grids[0].decode().unwrap().1
    }

    #[test]
    fn a_camera_reads_what_was_written() {
        for text in [
            "sms:+99000000001?body=VERIFY%207K3QX9M20D",
            "sms:+447700900001&body=ABCDEFGHIJKLMNOPQRST%207K3QX9M20D",
            "https://example.com/\"><script>é",
        ] {
            let qr = Qr::of(text).unwrap();
            assert_eq!(read(&qr), text);
            let drawn = qr.to_string();
            assert!(!drawn.contains("style") && !drawn.contains("script"), "{drawn}");
        }
        assert!(Qr::of(&"x".repeat(5_000)).is_none());
    }
}
