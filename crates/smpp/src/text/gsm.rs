//! Default alphabet of GSM 03.38 (now 3GPP TS 23.038), with its extension table.
//!
//! SMPP carries one septet per octet. [`unpack`] is for peers that send packed septets.
//!
//! Deliberately absent: national language tables, which a UDH element would select.

/// Septet that precedes a character of the extension table.
pub(super) const ESCAPE: u8 = 0x1B;

/// Characters by septet. The escape septet maps to a space, as specified.
const DEFAULT_ALPHABET: [char; 128] = [
    '@', '£', '$', '¥', 'è', 'é', 'ù', 'ì', 'ò', 'Ç', '\n', 'Ø', 'ø', '\r', 'Å', 'å', //
    'Δ', '_', 'Φ', 'Γ', 'Λ', 'Ω', 'Π', 'Ψ', 'Σ', 'Θ', 'Ξ', ' ', 'Æ', 'æ', 'ß', 'É', //
    ' ', '!', '"', '#', '¤', '%', '&', '\'', '(', ')', '*', '+', ',', '-', '.', '/', //
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ':', ';', '<', '=', '>', '?', //
    '¡', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', //
    'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'Ä', 'Ö', 'Ñ', 'Ü', '§', //
    '¿', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', //
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'ä', 'ö', 'ñ', 'ü', 'à',
];

const EXTENSION_TABLE: [(u8, char); 10] = [
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

/// Decodes one septet per octet. Octets above 127 and a trailing escape become U+FFFD; an escape before a septet that
/// is not in the extension table is ignored.
pub fn decode(octets: &[u8]) -> String {
    let mut text = String::with_capacity(octets.len());
    let mut rest = octets.iter().copied();
    while let Some(octet) = rest.next() {
        text.push(if octet == ESCAPE {
            rest.next().map_or(char::REPLACEMENT_CHARACTER, decode_extension)
        } else {
            decode_septet(octet)
        });
    }
    text
}

fn decode_septet(octet: u8) -> char {
    DEFAULT_ALPHABET.get(usize::from(octet)).copied().unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn decode_extension(octet: u8) -> char {
    EXTENSION_TABLE
        .iter()
        .find(|(septet, _)| *septet == octet)
        .map_or_else(|| decode_septet(octet), |(_, character)| *character)
}

/// Encoding of one character in the default alphabet or its extension table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Septets {
    One(u8),
    Escaped(u8),
}

/// Encodes a character. `None`: the alphabet does not have it.
pub fn encode_char(character: char) -> Option<Septets> {
    let is_septet_of = |octet: u8| DEFAULT_ALPHABET[usize::from(octet)] == character;
    let ascii = u8::try_from(character).ok().filter(|octet| *octet < 128 && is_septet_of(*octet));
    // The space is in the table twice; `ascii` finds the septet of the space, not that of the escape.
    let plain = ascii.or_else(|| (0..128).find(|octet| is_septet_of(*octet)));
    plain.map(Septets::One).or_else(|| {
        EXTENSION_TABLE.iter().find(|(_, extended)| *extended == character).map(|(septet, _)| Septets::Escaped(*septet))
    })
}

/// Encodes a text, one septet per octet. `None`: the alphabet lacks a character.
pub fn encode(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    for character in text.chars() {
        match encode_char(character)? {
            Septets::One(septet) => octets.push(septet),
            Septets::Escaped(septet) => octets.extend([ESCAPE, septet]),
        }
    }
    Some(octets)
}

/// Unpacks septets into one octet each, after `fill_bits` padding bits that follow a UDH.
///
/// Eight septets fill seven octets. If the eighth is unused, its zero bits decode as `@`, as on a handset; callers that
/// know the number of septets truncate the result.
pub fn unpack(packed: &[u8], fill_bits: u8) -> Vec<u8> {
    let skipped = usize::from(fill_bits).min(packed.len() * 8);
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
