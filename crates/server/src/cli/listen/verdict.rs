//! Whether a callback can be trusted, and if not, why: in words that lead to the cause.

use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::{
    callback::signature::{Authorization, Covered, Part, Rejection, Request, SOURCE_HEADER, Verified, digest, verify},
    keys::PublicKey,
};

use super::endpoint::Endpoint;

/// How far the `date` of a callback may be from our clock. Receivers are advised to be no more patient than this.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// For programs.
    pub part: &'static str,
    /// For people.
    pub why: String,
    /// What the signature had to cover to be good, where seeing it helps.
    pub expected_text: Option<String>,
}

/// What a request is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standard<'a> {
    pub keys: &'a [PublicKey],
    pub keys_from: &'a Endpoint,
    pub now: Timestamp,
    /// Where we listen.
    pub port: u16,
}

pub(super) fn judge(request: &Request<'_>, standard: &Standard<'_>) -> Result<Verified, Flaw> {
    match verify(request, standard.keys) {
        Ok(verified) => in_time(verified, standard.now),
        Err(rejection) => Err(explain(request, &rejection, standard)),
    }
}

fn in_time(verified: Verified, now: Timestamp) -> Result<Verified, Flaw> {
    let age = now.duration_since(verified.date);
    if age.abs() <= TOLERANCE {
        return Ok(verified);
    }
    let (seconds, direction) = (age.abs().as_secs(), if age.is_positive() { "past" } else { "future" });
    let why = format!(
        "the signature fits, but its `date` is {} min {} s in the {direction}. More than {} minutes are not to be \
         trusted: it is a request that someone sent again, or one of the two clocks is wrong",
        seconds / 60,
        seconds % 60,
        TOLERANCE.as_mins(),
    );
    Err(Flaw { part: "date", why, expected_text: None })
}

fn explain(request: &Request<'_>, rejection: &Rejection, standard: &Standard<'_>) -> Flaw {
    let (part, hint) = match rejection {
        Rejection::HeaderMissing(_) => ("header", "a proxy removed it, or this is no callback of Ringtrue".to_owned()),
        Rejection::HeaderTwice(_) => ("header", "which of the two was signed cannot be known".to_owned()),
        Rejection::Authorization(_) => ("authorization", found(request, "authorization")),
        Rejection::Algorithm => ("algorithm", authorized(request, |given| format!("found `{}`", given.algorithm))),
        Rejection::Components => ("components", authorized(request, |given| format!("it covers `{}`", given.headers))),
        Rejection::UnknownKey(_) => ("key", known_keys(standard)),
        Rejection::UnusableKey(_) => ("key", format!("the key set is {}", standard.keys_from)),
        Rejection::DigestMalformed => ("digest", found(request, "digest")),
        Rejection::BodyDiffers => ("body", body_differs(request)),
        Rejection::DateMalformed => {
            ("date", format!("{}; expected such as `Sat, 14 Nov 2026 09:30:00 GMT`", found(request, "date")))
        }
        Rejection::Signature { altered } => altered_part(request, *altered, standard),
    };
    let expected_text = match rejection {
        Rejection::Signature { .. } => covered(request).map(|covered| covered.signing_string()),
        _ => None,
    };
    Flaw { part, why: format!("{rejection}: {hint}"), expected_text }
}

fn found(request: &Request<'_>, name: &str) -> String {
    header(request, name).map_or_else(|| "there is none".to_owned(), |value| format!("found `{value}`"))
}

fn authorized(request: &Request<'_>, say: impl Fn(&Authorization<'_>) -> String) -> String {
    let given = header(request, "authorization").and_then(|value| Authorization::parse(value).ok());
    given.map_or_else(|| found(request, "authorization"), |given| say(&given))
}

fn known_keys(standard: &Standard<'_>) -> String {
    let from = standard.keys_from;
    if standard.keys.is_empty() {
        return format!("no keys could be had from {from}; is the server up?");
    }
    let ids: Vec<&str> = standard.keys.iter().map(|key| key.kid.as_str()).collect();
    format!("{from} has {}; was this sent by another server?", ids.join(", "))
}

fn body_differs(request: &Request<'_>) -> String {
    let claimed = header(request, "digest").unwrap_or_default();
    format!(
        "the header says `{claimed}`, the {} bytes that arrived have `{}`. Take the digest of the bytes as they came, \
         before anything parses them or writes them anew",
        request.body.len(),
        digest(request.body),
    )
}

/// Looks for the value that was signed, so that both can be shown side by side.
fn altered_part(request: &Request<'_>, altered: Option<Part>, standard: &Standard<'_>) -> (&'static str, String) {
    let host = header(request, "host").unwrap_or_default();
    if let Some(signed) = signed_host(request, host, standard) {
        let rule = "The host is signed as the callback URL has it: with its port, unless that is the default";
        return ("host", format!("`{signed}` was signed, and `{host}` arrived. {rule}"));
    }
    if let Some(signed) = signed_target(request, standard) {
        let arrived = request.target;
        return (
            "target",
            format!("`{signed}` was signed, and `{arrived}` arrived. Path and query are signed byte for byte"),
        );
    }
    match altered {
        Some(Part::Method) => ("method", format!("`{}` arrived", request.method)),
        Some(Part::Target) => ("target", format!("`{}` arrived", request.target)),
        Some(Part::Host) => ("host", format!("`{host}` arrived")),
        Some(Part::Source) => ("product", found(request, SOURCE_HEADER)),
        None => (
            "signature",
            "no usual change explains it. Path, query, host, date, product or digest differ from what was signed, or \
             another key than `keyId` says was used"
                .to_owned(),
        ),
    }
}

fn signed_host(request: &Request<'_>, seen: &str, standard: &Standard<'_>) -> Option<String> {
    let port = standard.port;
    let name = seen.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(seen, |(name, _)| name);
    let mut candidates = vec![name.to_owned(), format!("{name}:{port}"), seen.to_ascii_lowercase()];
    candidates.extend(["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}")));
    candidates.extend(header(request, "x-forwarded-host").map(str::to_owned));
    candidates.into_iter().find(|host| {
        let mut headers = request.headers.to_vec();
        for (_, value) in headers.iter_mut().filter(|(name, _)| name.eq_ignore_ascii_case("host")) {
            value.clone_from(host);
        }
        host != seen && verify(&Request { headers: &headers, ..*request }, standard.keys).is_ok()
    })
}

fn signed_target(request: &Request<'_>, standard: &Standard<'_>) -> Option<String> {
    let seen = request.target;
    let (path, query) = seen.split_once('?').map_or((seen, ""), |(path, _)| (path, &seen[path.len()..]));
    let mut candidates = vec![path.to_owned(), format!("{path}?"), format!("{path}/{query}"), format!("{path}/")];
    candidates.extend(path.strip_suffix('/').filter(|path| !path.is_empty()).map(|path| format!("{path}{query}")));
    candidates
        .extend(["x-original-uri", "x-forwarded-uri"].iter().filter_map(|name| header(request, name)).map(Into::into));
    candidates.extend(header(request, "x-forwarded-prefix").map(|prefix| format!("{prefix}{seen}")));
    let fits = |target: &String| verify(&Request { target, ..*request }, standard.keys).is_ok();
    candidates.into_iter().find(|target| target != seen && fits(target))
}

fn covered<'a>(request: &Request<'a>) -> Option<Covered<'a>> {
    Some(Covered {
        method: request.method,
        target: request.target,
        host: header(request, "host")?,
        date: header(request, "date")?,
        source: header(request, SOURCE_HEADER)?,
        digest: header(request, "digest")?,
    })
}

pub(super) fn header<'a>(request: &Request<'a>, wanted: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter();
    headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
}
