//! What became of a body on its way, judged by the digest that it had.

use serde_json::Value;

use super::digest;

/// How a body differs from the one that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyChange {
    /// Nothing is left: something has read it before.
    Empty,
    /// Blanks or newlines at its end, or before its beginning.
    BlanksAround,
    /// A byte order mark before it.
    ByteOrderMark,
    /// The same JSON with other blanks.
    Blanks,
    /// The same JSON in other letters or another order: parsed, and written anew.
    WrittenAnew,
    /// The sizes of chunks are still in it.
    Chunks,
    /// Its end is missing.
    Cut,
    /// It says something else.
    Changed,
}

impl BodyChange {
    pub fn as_str(self) -> &'static str {
        match self {
            BodyChange::Empty => "body_empty",
            BodyChange::BlanksAround => "body_blanks_around",
            BodyChange::ByteOrderMark => "body_byte_order_mark",
            BodyChange::Blanks => "body_blanks",
            BodyChange::WrittenAnew => "body_written_anew",
            BodyChange::Chunks => "body_chunks",
            BodyChange::Cut => "body_cut",
            BodyChange::Changed => "body_changed",
        }
    }

    pub(super) fn story(self) -> &'static str {
        match self {
            BodyChange::Empty => "The body is empty: something has read it before the signature was checked.",
            BodyChange::BlanksAround => "There are blanks or a newline before or after it that were not sent.",
            BodyChange::ByteOrderMark => "There is a byte order mark before it that was not sent.",
            BodyChange::Blanks => "It is the same JSON with other blanks: it was parsed, and written anew.",
            BodyChange::WrittenAnew => {
                "It is the same JSON in other letters or another order: it was parsed, and written anew."
            }
            BodyChange::Chunks => "The sizes of its chunks are still in it: they are no part of the body.",
            BodyChange::Cut => "Its end is missing.",
            BodyChange::Changed => "It says something else than what was signed.",
        }
    }
}

/// `sent` is the body that was sent, if that is known.
pub(super) fn change(arrived: &[u8], claimed: &str, sent: Option<&str>) -> BodyChange {
    let is_sent = |body: &[u8]| digest(body) == claimed;
    if arrived.is_empty() {
        return BodyChange::Empty;
    }
    let text = String::from_utf8_lossy(arrived);
    let bare = text.trim_start_matches('\u{feff}');
    let minified = without_blanks(bare);
    if bare != text && is_sent(bare.as_bytes()) {
        BodyChange::ByteOrderMark
    } else if is_sent(bare.trim().as_bytes()) {
        BodyChange::BlanksAround
    } else if is_sent(minified.as_bytes()) {
        BodyChange::Blanks
    } else if is_sent(minified.replace("\\/", "/").as_bytes()) || sent.is_some_and(|sent| says_the_same(sent, bare)) {
        BodyChange::WrittenAnew
    } else if unchunked(&text).is_some_and(|body| is_sent(body.as_bytes())) {
        BodyChange::Chunks
    } else if sent.is_some_and(|sent| sent.len() > bare.len() && sent.starts_with(bare.trim_end())) {
        BodyChange::Cut
    } else {
        BodyChange::Changed
    }
}

fn says_the_same(one: &str, other: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    parsed(one).is_some_and(|one| Some(one) == parsed(other))
}

/// JSON without the blanks that stand between its values.
fn without_blanks(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let is_kept = |letter: &char| {
        let was_text = is_text;
        if is_text {
            is_text = *letter != '"' || is_escaped;
            is_escaped = *letter == '\\' && !is_escaped;
        } else {
            is_text = *letter == '"';
        }
        was_text || !letter.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}

/// The body without the sizes of its chunks.
fn unchunked(text: &str) -> Option<String> {
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
