//! The default alphabet of GSM 03.38 (now 3GPP TS 23.038), with its extension table.
//!
//! SMPP carries one septet per octet. [`unpack`] is for the peers that pass seven-bit packed octets through.
//!
//! Deliberately absent: the national language tables, which a header would have to announce.

/// Announces a character of the extension table.
pub(super) const ESCAPE: u8 = 0x1B;

/// Position is septet. The escape's own place shows a blank, as the specification asks.
const ALPHABET: [char; 128] = [
    '@', '£', '$', '¥', 'è', 'é', 'ù', 'ì', 'ò', 'Ç', '\n', 'Ø', 'ø', '\r', 'Å', 'å', //
    'Δ', '_', 'Φ', 'Γ', 'Λ', 'Ω', 'Π', 'Ψ', 'Σ', 'Θ', 'Ξ', ' ', 'Æ', 'æ', 'ß', 'É', //
    ' ', '!', '"', '#', '¤', '%', '&', '\'', '(', ')', '*', '+', ',', '-', '.', '/', //
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ':', ';', '<', '=', '>', '?', //
    '¡', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', //
    'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'Ä', 'Ö', 'Ñ', 'Ü', '§', //
    '¿', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', //
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'ä', 'ö', 'ñ', 'ü', 'à',
];

const EXTENSION: [(u8, char); 10] = [
    (0x0A, '\u{0C}'),
    (0x14, '^'),
    (0x28, '{'),
    (0x29, '}'),
    (0x2F, '\\'),
    (0x3C, '['),
    (0x3D, '~'),
    (0x3E, ']'),
    (0x40, '|'),
    (0x65, '€'),
];

/// Reads one septet per octet. An octet that is none, and an escape with nothing after it, become U+FFFD; an escape
/// before a character that the extension table lacks is passed over.
pub fn decode(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    let mut rest = octets.iter().copied();
    while let Some(octet) = rest.next() {
        text.push(if octet == ESCAPE {
            rest.next().map_or(char::REPLACEMENT_CHARACTER, extended)
        } else {
            plain(octet)
        });
    }
    text
}

fn plain(octet: u8) -> char {
    ALPHABET.get(usize::from(octet)).copied().unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn extended(octet: u8) -> char {
    EXTENSION.iter().find(|(septet, _)| *septet == octet).map_or_else(|| plain(octet), |(_, character)| *character)
}

/// The septets of one character: itself, or an escape and itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Septets {
    One(u8),
    Escaped(u8),
}

/// How a character is written, when the alphabet has it.
pub fn septets(character: char) -> Option<Septets> {
    let in_place = |octet: u8| ALPHABET[usize::from(octet)] == character;
    let ascii = u8::try_from(character).ok().filter(|octet| *octet < 128 && in_place(*octet));
    // The blank stands twice in the table, the second time in place of the escape; its own place is found above.
    let plain = ascii.or_else(|| (0..128).find(|octet| in_place(*octet)));
    plain.map(Septets::One).or_else(|| {
        EXTENSION.iter().find(|(_, extended)| *extended == character).map(|(septet, _)| Septets::Escaped(*septet))
    })
}

/// Writes one septet per octet, when the alphabet has every character.
pub fn encode(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    for character in text.chars() {
        match septets(character)? {
            Septets::One(septet) => octets.push(septet),
            Septets::Escaped(septet) => octets.extend([ESCAPE, septet]),
        }
    }
    Some(octets)
}

/// Spreads packed septets over octets of their own. `skipped_bits` are those that fill up a header to a septet.
///
/// Eight septets fill seven octets; when the last one of them is missing, zeros take its place and read as `@`, as
/// they do on a handset. Who knows the count of septets cuts them off.
pub fn unpack(packed: &[u8], skipped_bits: u8) -> Vec<u8> {
    let skipped = usize::from(skipped_bits).min(packed.len() * 8);
    let septets = (packed.len() * 8 - skipped) / 7;
    (0..septets)
        .map(|septet| {
            let bit = skipped + septet * 7;
            let low = u16::from(packed[bit / 8]);
            let high = packed.get(bit / 8 + 1).copied().map_or(0, u16::from);
            let [_, septet] = (((high << 8 | low) >> (bit % 8)) & 0x7F).to_be_bytes();
            septet
        })
        .collect()
}
