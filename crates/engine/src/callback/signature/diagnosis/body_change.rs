//! Classification of body changes, by the digest of the original body.

use serde_json::Value;

use super::digest_header;

/// Difference between the sent and the received body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyChange {
    /// The body was consumed before.
    Empty,
    /// Whitespace before or after it.
    SurroundingWhitespace,
    /// A byte order mark before it.
    ByteOrderMark,
    /// The same JSON with different whitespace.
    Whitespace,
    /// The same JSON with different escapes or order.
    Reserialized,
    /// It still contains the sizes of the chunked encoding.
    ChunkSizesKept,
    Truncated,
    /// Different content.
    Changed,
}

impl BodyChange {
    pub fn as_str(self) -> &'static str {
        match self {
            BodyChange::Empty => "body_empty",
            BodyChange::SurroundingWhitespace => "body_blanks_around",
            BodyChange::ByteOrderMark => "body_byte_order_mark",
            BodyChange::Whitespace => "body_blanks",
            BodyChange::Reserialized => "body_written_anew",
            BodyChange::ChunkSizesKept => "body_chunks",
            BodyChange::Truncated => "body_cut",
            BodyChange::Changed => "body_changed",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            BodyChange::Empty => "It is empty: it was consumed before the signature was verified.",
            BodyChange::SurroundingWhitespace => "Whitespace was added before or after it.",
            BodyChange::ByteOrderMark => "A byte order mark was added before it.",
            BodyChange::Whitespace => "It is the same JSON with different whitespace: it was parsed and re-serialized.",
            BodyChange::Reserialized => {
                "It is the same JSON with different escapes or order: it was parsed and re-serialized."
            }
            BodyChange::ChunkSizesKept => "It still contains chunk sizes, which are not part of the body.",
            BodyChange::Truncated => "Its end is missing.",
            BodyChange::Changed => "Its content differs from what was signed.",
        }
    }
}

/// `sent` is the original body, if known.
pub(super) fn classify(received: &[u8], claimed: &str, sent: Option<&str>) -> BodyChange {
    let is_sent = |body: &[u8]| digest_header(body) == claimed;
    if received.is_empty() {
        return BodyChange::Empty;
    }
    let text = String::from_utf8_lossy(received);
    let bare = text.trim_start_matches('\u{feff}');
    let minified = minify_json(bare);
    if bare != text && is_sent(bare.as_bytes()) {
        BodyChange::ByteOrderMark
    } else if is_sent(bare.trim().as_bytes()) {
        BodyChange::SurroundingWhitespace
    } else if is_sent(minified.as_bytes()) {
        BodyChange::Whitespace
    } else if is_sent(minified.replace("\\/", "/").as_bytes()) || sent.is_some_and(|sent| is_same_json(sent, bare)) {
        BodyChange::Reserialized
    } else if strip_chunk_sizes(&text).is_some_and(|body| is_sent(body.as_bytes())) {
        BodyChange::ChunkSizesKept
    } else if sent.is_some_and(|sent| sent.len() > bare.len() && sent.starts_with(bare.trim_end())) {
        BodyChange::Truncated
    } else {
        BodyChange::Changed
    }
}

fn is_same_json(one: &str, other: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    parsed(one).is_some_and(|one| Some(one) == parsed(other))
}

fn minify_json(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let is_kept = |character: &char| {
        let was_text = is_text;
        if is_text {
            is_text = *character != '"' || is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
        } else {
            is_text = *character == '"';
        }
        was_text || !character.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}

fn strip_chunk_sizes(text: &str) -> Option<String> {
    let mut body = String::new();
    let mut rest = text;
    loop {
        let (size, after) = rest.split_once('\n')?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size..)?.trim_start_matches(['\r', '\n']);
    }
}
