//! The changes that proxies, frameworks and copying make to a request. Classifies and describes them, and proposes
//! candidates for the values that were signed.

use percent_encoding::percent_decode_str;
use ringtrue_domain::web_url::CallbackUrl;
use serde_json::Value;
use strum::IntoStaticStr;

use super::digest_header;
use crate::CallbackRequest;

/// How the received host differs from the signed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(prefix = "host_", serialize_all = "snake_case", const_into_str)]
pub enum HostChange {
    PortDropped,
    PortAdded,
    PortReplaced,
    Case,
    Replaced,
}

/// How the received path and query differ from the signed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum TargetChange {
    QueryDropped,
    QueryAdded,
    QueryChanged,
    #[strum(serialize = "path_slash")]
    TrailingSlash,
    #[strum(serialize = "path_prefix_removed")]
    PrefixRemoved,
    #[strum(serialize = "path_prefix_added")]
    PrefixAdded,
    #[strum(serialize = "path_encoding")]
    Encoding,
    /// The receiver has put an absolute URL into the signing string instead of path and query.
    #[strum(serialize = "path_whole_url")]
    AbsoluteUrl,
    #[strum(serialize = "path_rewritten")]
    Rewritten,
}

impl HostChange {
    pub(super) fn description(self) -> &'static str {
        match self {
            HostChange::PortDropped => "The port is missing.",
            HostChange::PortAdded => "A port was added.",
            HostChange::PortReplaced => "The port is different.",
            HostChange::Case => "The letter case is different.",
            HostChange::Replaced => "A proxy replaced it: configure the proxy to forward the original host.",
        }
    }

    pub(super) fn classify(signed: &str, received: &str) -> Self {
        let (signed_name, arrived_name) = (without_port(signed), without_port(received));
        if signed.eq_ignore_ascii_case(received) {
            HostChange::Case
        } else if !signed_name.eq_ignore_ascii_case(arrived_name) {
            HostChange::Replaced
        } else if received == arrived_name {
            HostChange::PortDropped
        } else if signed == signed_name {
            HostChange::PortAdded
        } else {
            HostChange::PortReplaced
        }
    }
}

impl TargetChange {
    pub(super) fn description(self) -> &'static str {
        match self {
            TargetChange::QueryDropped => "The query is missing: it is signed too.",
            TargetChange::QueryAdded => "A query was added.",
            TargetChange::QueryChanged => "The query was changed or reordered.",
            TargetChange::TrailingSlash => "A trailing slash was added or removed.",
            TargetChange::PrefixRemoved => "The start of the path is missing: a proxy or router strips it.",
            TargetChange::PrefixAdded => "A prefix was added to the path.",
            TargetChange::Encoding => "The path or query was decoded or re-encoded.",
            TargetChange::AbsoluteUrl => "It is an absolute URL: only path and query are signed.",
            TargetChange::Rewritten => "A proxy or router rewrote it.",
        }
    }

    pub(super) fn classify(signed: &str, received: &str) -> Self {
        if received.contains("://") {
            return TargetChange::AbsoluteUrl;
        }
        let [(signed_path, signed_query), (path, query)] = [signed, received]
            .map(|target| target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query))));
        let is_same = |one, other| percent_decode_str(one).eq(percent_decode_str(other));
        if signed_path == path {
            return match (signed_query, query) {
                (Some(_), None) => TargetChange::QueryDropped,
                (None, _) => TargetChange::QueryAdded,
                (Some(one), Some(other)) if is_same(one, other) => TargetChange::Encoding,
                (Some(_), Some(_)) => TargetChange::QueryChanged,
            };
        }
        if signed_path.trim_end_matches('/') == path.trim_end_matches('/') {
            TargetChange::TrailingSlash
        } else if is_same(signed_path, path) {
            TargetChange::Encoding
        } else if signed_path.ends_with(path) {
            TargetChange::PrefixRemoved
        } else if path.ends_with(signed_path) {
            TargetChange::PrefixAdded
        } else {
            TargetChange::Rewritten
        }
    }
}

/// Damage to the `Authorization` header, caused by copying, escaping or forwarding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum HeaderDamage {
    /// Each `+` became a space, as in form decoding.
    PlusBecameSpace,
    /// The signature has `-` and `_` instead of `+` and `/`.
    UrlSafeAlphabet,
    PercentEncoded,
    PaddingLost,
    HtmlEscaped,
    /// There are backslashes before quotation marks, as in JSON.
    BackslashEscaped,
    SpacesAfterCommas,
}

impl HeaderDamage {
    pub(super) fn description(self) -> &'static str {
        match self {
            HeaderDamage::PlusBecameSpace => "each `+` of the signature became a space, as in form decoding",
            HeaderDamage::UrlSafeAlphabet => "the signature has `-` and `_` instead of `+` and `/`",
            HeaderDamage::PercentEncoded => "`+`, `/` and `=` of the signature are percent-encoded",
            HeaderDamage::PaddingLost => "the trailing `=` of the signature is missing",
            HeaderDamage::HtmlEscaped => "quotation marks became `&quot;`",
            HeaderDamage::BackslashEscaped => "quotation marks are escaped with backslashes",
            HeaderDamage::SpacesAfterCommas => {
                "there are spaces after the commas; parameters are separated by commas without spaces"
            }
        }
    }
}

/// How the received body differs from the sent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(prefix = "body_", serialize_all = "snake_case", const_into_str)]
pub enum BodyChange {
    /// The body is empty, typically because a framework has already read it.
    Empty,
    /// Whitespace was added before or after the body.
    #[strum(serialize = "blanks_around")]
    SurroundingWhitespace,
    /// A byte order mark was added before the body.
    ByteOrderMark,
    /// The same JSON with different whitespace.
    #[strum(serialize = "blanks")]
    Whitespace,
    /// The same JSON with different escapes or another order of members.
    #[strum(serialize = "written_anew")]
    Reserialized,
    /// The body still contains the chunk sizes of the chunked encoding.
    #[strum(serialize = "chunks")]
    ChunkSizesKept,
    #[strum(serialize = "cut")]
    Truncated,
    /// The content is different.
    Changed,
}

impl BodyChange {
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

/// Returns hosts that may have been signed, most likely first.
pub(super) fn candidate_hosts(request: &CallbackRequest<'_>, received: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(request.values("x-forwarded-host").map(str::to_owned));
    found.extend(request.values("x-original-host").map(str::to_owned));
    let ports: Vec<_> = request.values("x-forwarded-port").collect();
    let names = [&[received.to_owned()][..], &found].concat();
    for name in &names {
        found.push(without_port(name).to_owned());
        found.extend(ports.iter().map(|port| format!("{}:{port}", without_port(name))));
    }
    found.push(received.to_ascii_lowercase());
    found.retain(|host| host != received && !host.is_empty());
    found
}

/// Returns request targets that may have been signed, most likely first.
pub(super) fn candidate_targets(request: &CallbackRequest<'_>, received: &str, known: &[String]) -> Vec<String> {
    let mut found = known.to_vec();
    found.extend(
        ["x-original-uri", "x-forwarded-uri", "x-original-url"]
            .iter()
            .flat_map(|name| request.values(name))
            .map(str::to_owned),
    );
    found.extend(request.values("x-forwarded-prefix").map(|prefix| format!("{prefix}{received}")));
    found.extend(host_and_target(received).map(|(_, target)| target));
    let (path, query) = received.split_once('?').map_or((received, ""), |(path, _)| (path, &received[path.len()..]));
    found.extend([path.to_owned(), format!("{path}?"), format!("{path}/{query}"), format!("{path}/")]);
    found.extend(path.strip_suffix('/').filter(|path| !path.is_empty()).map(|path| format!("{path}{query}")));
    found.retain(|target| target != received);
    found
}

/// Returns the host and the request target of a URL, in the form in which they are signed. `None`: the URL is invalid.
pub fn host_and_target(url: &str) -> Option<(String, String)> {
    let url = CallbackUrl::from_stored(url).ok()?;
    Some((url.authority().to_owned(), url.target().to_owned()))
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name)
}

/// Returns candidates for the original header, each with the damage that it undoes.
pub(super) fn candidate_repairs(value: &str) -> Vec<(HeaderDamage, String)> {
    let in_signature = |change: &dyn Fn(&str) -> String| {
        let (before, rest) = value.split_once("signature=\"")?;
        let (signature, after) = rest.split_once('"')?;
        Some(format!("{before}signature=\"{}\"{after}", change(signature)))
    };
    let padded = |text: &str| format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
    let of_signature = [
        (HeaderDamage::PlusBecameSpace, in_signature(&|text| text.replace(' ', "+"))),
        (HeaderDamage::PaddingLost, in_signature(&padded)),
        (HeaderDamage::UrlSafeAlphabet, in_signature(&|text| padded(&text.replace('-', "+").replace('_', "/")))),
        (HeaderDamage::PercentEncoded, in_signature(&|text| percent_decode_str(text).decode_utf8_lossy().into_owned())),
    ];
    let of_header = [
        (HeaderDamage::HtmlEscaped, value.replace("&quot;", "\"").replace("&#34;", "\"").replace("&#x2F;", "/")),
        (HeaderDamage::BackslashEscaped, value.replace('\\', "")),
        (HeaderDamage::SpacesAfterCommas, value.replace(", ", ",")),
    ];
    let of_signature = of_signature.into_iter().filter_map(|(damage, repaired)| Some((damage, repaired?)));
    of_signature.chain(of_header).filter(|(_, repaired)| repaired != value).collect()
}

/// Classifies how the body was changed. Compares the received body with the digest of the original body (`claimed`),
/// and with the original body (`sent`) if it is known.
pub(super) fn classify_body_change(received: &[u8], claimed: &str, sent: Option<&str>) -> BodyChange {
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
