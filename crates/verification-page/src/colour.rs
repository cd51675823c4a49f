//! The accent colour of a brand, and variants of it that stay readable (WCAG 2.2, success criterion 1.4.3).

use std::fmt;

/// Minimum contrast ratio between text and its background.
const MIN_TEXT_CONTRAST: f64 = 4.5;
const MIX_STEPS: u16 = 32;

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour([u8; 3]);

impl Colour {
    pub(crate) const BLACK: Colour = Colour([0; 3]);
    pub(crate) const WHITE: Colour = Colour([u8::MAX; 3]);
    /// Background of the page in dark mode: `--ground` in the style sheet.
    pub(crate) const DARK_BACKGROUND: Colour = Colour([0x15, 0x18, 0x1b]);
    /// Accent colour for brands that have not configured one.
    pub(crate) const DEFAULT_ACCENT: Colour = Colour([0x0f, 0x6b, 0x63]);

    /// Parses `#rrggbb`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text
            .strip_prefix('#')
            .filter(|digits| digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let component = |range| digits.get(range).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        Some(Colour([component(0..2)?, component(2..4)?, component(4..6)?]))
    }

    /// Returns the WCAG contrast ratio between the two colours, from 1 to 21.
    pub(crate) fn contrast(self, other: Colour) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    /// Returns black or white, whichever contrasts more with this background. The contrast is at least 4.58.
    pub(crate) fn contrasting_text(self) -> Colour {
        if self.contrast(Colour::BLACK) >= self.contrast(Colour::WHITE) { Colour::BLACK } else { Colour::WHITE }
    }

    /// Returns the colour nearest to this one that is readable as text on the background.
    pub(crate) fn readable_on(self, background: Colour) -> Colour {
        let target = background.contrasting_text();
        let mut mixes = (0..=MIX_STEPS).map(|step| self.mix(target, step));
        mixes.find(|mix| mix.contrast(background) >= MIN_TEXT_CONTRAST).unwrap_or(target)
    }

    fn mix(self, other: Colour, step: u16) -> Colour {
        let component = |index: usize| {
            let (from, to) = (u16::from(self.0[index]), u16::from(other.0[index]));
            u8::try_from((from * (MIX_STEPS - step) + to * step) / MIX_STEPS).unwrap_or(u8::MAX)
        };
        Colour([component(0), component(1), component(2)])
    }

    /// Returns the relative luminance as WCAG defines it.
    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|component| {
            let value = f64::from(component) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_six_hexadecimal_digits_are_a_colour() {
        assert_eq!(Colour::parse("#0f6b63"), Some(Colour::DEFAULT_ACCENT));
        assert_eq!(Colour::parse("#0F6B63").unwrap().to_string(), "#0f6b63");
        for text in ["", "#", "#fff", "0f6b63", "#0f6b6", "#0f6b633", "#0g6b63", "#+f6b63", "#é6b63", "#fff;}a{"] {
            assert_eq!(Colour::parse(text), None, "{text}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        let grey = Colour::parse("#767676").unwrap();
        assert!((Colour::BLACK.contrast(Colour::WHITE) - 21.0).abs() < 0.001);
        assert!((grey.contrast(Colour::WHITE) - 4.54).abs() < 0.01);
    }

    #[test]
    fn every_accent_is_readable() {
        let levels = [0_u8, 1, 0x33, 0x66, 0x77, 0x80, 0x99, 0xcc, 0xfe, 0xff];
        for red in levels {
            for green in levels {
                for blue in levels {
                    let accent = Colour([red, green, blue]);
                    assert!(accent.contrast(accent.contrasting_text()) >= MIN_TEXT_CONTRAST, "text on {accent}");
                    for background in [Colour::WHITE, Colour::DARK_BACKGROUND] {
                        let link = accent.readable_on(background);
                        assert!(link.contrast(background) >= MIN_TEXT_CONTRAST, "{link} on {background}");
                    }
                }
            }
        }
        let readable = Colour::DEFAULT_ACCENT;
        assert_eq!(readable.readable_on(Colour::WHITE), readable, "a readable colour is not changed");
    }
}
