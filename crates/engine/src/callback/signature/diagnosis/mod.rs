//! Why a signature does not fit: what was signed beside what arrived, and what lies between the two.
//!
//! A receiver builds the text that was signed from the request that it got. When something on the way, or a framework,
//! has changed that request, its text is another one. What is known to be changed is put back here, one thing at a time,
//! until the signature fits; where the log tells what was really sent, that is compared.
//!
//! Everything here is pure: keys, clock and log are given.

mod authorization_text;
mod body;
mod clues;
mod flaw;
mod paste;
#[cfg(test)]
mod tests;

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::tenancy::Mode;

pub use self::{
    authorization_text::TextDamage,
    body::BodyChange,
    clues::{HostChange, TargetChange, place_of},
    flaw::Flaw,
    paste::{NotARequest, Pasted},
};
use super::{
    Authorization, COMPONENTS, Covered, InvalidAuthorization, Rejection, Request, SOURCE_HEADER, Verified, digest,
    verify::{self, fits},
};
use crate::keys::PublicKey;

/// How far the `date` of a callback may be from the receiver's clock. Receivers are advised to be no more patient.
pub const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);

const SOURCES: [&str; 3] = ["reverse_sms", "secure_sna", "discovery"];

/// What a request is held against.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The keys that are published.
    pub keys: &'a [PublicKey],
    /// Keys that were, once.
    pub retired: &'a [PublicKey],
    /// The mode of the checks that the receiver serves. A live one refuses the sandbox key.
    pub mode: Mode,
    pub now: Timestamp,
    /// Hosts and targets that may have been signed, beside those that the request itself suggests.
    pub hosts: &'a [String],
    pub targets: &'a [String],
    /// What was really sent, if that is known.
    pub sent: Option<&'a Original>,
}

/// A callback as it left us.
#[derive(Clone, PartialEq, Eq)]
pub struct Original {
    pub parts: Parts,
    pub body: String,
}

/// What is signed, each part by itself. The method is always `POST`.
#[derive(Clone, PartialEq, Eq)]
pub struct Parts {
    pub method: String,
    pub target: String,
    pub host: String,
    pub date: String,
    pub source: String,
    pub digest: String,
}

/// What is found out about a request.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    pub verdict: Result<Verified, Flaw>,
    /// Line by line, and the digest of the body at the end.
    pub lines: Vec<Line>,
}

/// A line of what is signed: as it was signed, where that is known, and as it follows from what arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct Line {
    pub name: &'static str,
    pub signed: Option<String>,
    pub arrived: Option<String>,
}

impl Line {
    pub fn differs(&self) -> bool {
        self.arrived.is_none() || (self.signed.is_some() && self.signed != self.arrived)
    }
}

impl Diagnosis {
    /// The first line that differs, counted from 0.
    pub fn first_difference(&self) -> Option<usize> {
        self.lines.iter().position(Line::differs)
    }
}

impl Parts {
    fn covered(&self) -> Covered<'_> {
        let Parts { method, target, host, date, source, digest } = self;
        Covered { method, target, host, date, source, digest }
    }

    fn of(covered: &Covered<'_>) -> Self {
        Parts {
            method: covered.method.to_owned(),
            target: covered.target.to_owned(),
            host: covered.host.to_owned(),
            date: covered.date.to_owned(),
            source: covered.source.to_owned(),
            digest: covered.digest.to_owned(),
        }
    }
}

/// Finds out why a receiver does not trust a request, or that it should.
pub fn diagnose(request: &Request<'_>, evidence: &Evidence<'_>) -> Diagnosis {
    match verify::verify(request, evidence.keys) {
        Ok(verified) => {
            let signed = request.covered().ok().map(|covered| Parts::of(&covered));
            Diagnosis { verdict: accepted(verified, evidence), lines: lines(request, signed.as_ref()) }
        }
        Err(rejection) => {
            let (flaw, signed) = explain(request, rejection, evidence);
            let signed = signed.or_else(|| evidence.sent.map(|sent| sent.parts.clone()));
            Diagnosis { verdict: Err(flaw), lines: lines(request, signed.as_ref()) }
        }
    }
}

/// The same for a request that somebody has pasted.
pub fn diagnose_pasted(pasted: &Pasted, evidence: &Evidence<'_>) -> Diagnosis {
    if let Some(folded) = pasted.folded() {
        // A receiver that joins the lines as HTTP says would have been right, one that joins them otherwise not.
        for glue in [" ", ""] {
            let headers = pasted.headers(glue);
            let request = pasted.request(&headers);
            if verify::verify(&request, evidence.keys).is_ok() {
                let signed = request.covered().ok().map(|covered| Parts::of(&covered));
                let verdict = Err(Flaw::HeaderFolded(folded.to_owned()));
                return Diagnosis { verdict, lines: lines(&request, signed.as_ref()) };
            }
        }
    }
    let headers = pasted.headers(" ");
    diagnose(&pasted.request(&headers), evidence)
}

/// What a receiver checks besides the signature itself.
fn accepted(verified: Verified, evidence: &Evidence<'_>) -> Result<Verified, Flaw> {
    if (verified.mode, evidence.mode) == (Mode::Sandbox, Mode::Live) {
        return Err(Flaw::SandboxKey(verified.kid));
    }
    let age = evidence.now.duration_since(verified.date);
    if age.abs() <= TOLERANCE { Ok(verified) } else { Err(Flaw::DateSkew(age)) }
}

/// The flaw, and what was signed, where that is certain.
fn explain(request: &Request<'_>, rejection: Rejection, evidence: &Evidence<'_>) -> (Flaw, Option<Parts>) {
    let found = |name| request.values(name).next().unwrap_or_default().to_owned();
    let flaw = match rejection {
        Rejection::HeaderMissing(name) => Flaw::HeaderMissing(name),
        Rejection::HeaderTwice(name) => Flaw::HeaderTwice(name),
        Rejection::Authorization(why) => return explain_authorization(request, why, evidence),
        Rejection::Algorithm => Flaw::Algorithm(authorization(request, |given| given.algorithm)),
        Rejection::Components => {
            let given = authorization(request, |given| given.headers);
            let sorted = |text: &str| {
                let mut names: Vec<_> = text.split(' ').map(str::to_ascii_lowercase).collect();
                names.sort_unstable();
                names
            };
            let is_reordered = sorted(&given) == sorted(COMPONENTS);
            if is_reordered { Flaw::ComponentsReordered(given) } else { Flaw::Components(given) }
        }
        Rejection::UnknownKey(kid) => return explain_key(request, kid, evidence),
        Rejection::UnusableKey(kid) => Flaw::UnusableKey(kid),
        Rejection::DigestMalformed => Flaw::DigestMalformed(found("digest")),
        Rejection::BodyDiffers => return explain_body(request, evidence),
        Rejection::DateMalformed => Flaw::DateMalformed(found("date")),
        Rejection::Signature => return explain_signature(request, evidence),
    };
    (flaw, None)
}

fn authorization(request: &Request<'_>, part: impl for<'a> Fn(&'a Authorization<'a>) -> &'a str) -> String {
    let given = request.values("authorization").next().and_then(|value| Authorization::parse(value).ok());
    given.map(|given| part(&given).to_owned()).unwrap_or_default()
}

/// Undoes what copying and escaping do to a header, and sees whether the signature fits then.
fn explain_authorization(
    request: &Request<'_>,
    why: InvalidAuthorization,
    evidence: &Evidence<'_>,
) -> (Flaw, Option<Parts>) {
    let value = request.values("authorization").next().unwrap_or_default();
    for (damage, repaired) in authorization_text::repairs(value) {
        let headers = request.with_header("authorization", &repaired);
        if verify::verify(&Request { headers: &headers, ..*request }, evidence.keys).is_ok() {
            let signed = request.covered().ok().map(|covered| Parts::of(&covered));
            return (Flaw::AuthorizationText(damage), signed);
        }
    }
    (Flaw::Authorization(why, value.to_owned()), None)
}

/// The key that the request names is not published. Another one of ours may have been used.
fn explain_key(request: &Request<'_>, kid: String, evidence: &Evidence<'_>) -> (Flaw, Option<Parts>) {
    let is_retired = evidence.retired.iter().any(|key| key.kid == kid);
    match other_key(request, &kid, evidence) {
        Some((used, signed)) => (Flaw::OtherKey { named: kid, used }, Some(signed)),
        None if is_retired => (Flaw::RetiredKey(kid), None),
        None => (Flaw::UnknownKey(kid), None),
    }
}

/// A key of ours by which the signature fits, though the request names another.
fn other_key(request: &Request<'_>, named: &str, evidence: &Evidence<'_>) -> Option<(String, Parts)> {
    let covered = request.covered().ok()?;
    let signature = signature_of(request)?;
    let others = evidence.keys.iter().chain(evidence.retired).filter(|key| key.kid != named);
    let used = others.into_iter().find(|key| fits(key, &covered, &signature))?;
    Some((used.kid.clone(), Parts::of(&covered)))
}

/// The digest in the header is not that of the body: one of the two was changed.
fn explain_body(request: &Request<'_>, evidence: &Evidence<'_>) -> (Flaw, Option<Parts>) {
    let Ok(covered) = request.covered() else { return (Flaw::Unexplained, None) };
    let actual = digest(request.body);
    let is_signed = |covered: &Covered<'_>| signed_by_named_key(request, covered, evidence);
    if !is_signed(&covered) && is_signed(&Covered { digest: &actual, ..covered }) {
        let signed = Parts::of(&Covered { digest: &actual, ..covered });
        return (Flaw::DigestReplaced { signed: actual, arrived: covered.digest.to_owned() }, Some(signed));
    }
    let sent = evidence.sent.map(|sent| sent.body.as_str());
    let change = body::change(request.body, covered.digest, sent);
    let signed = is_signed(&covered).then(|| Parts::of(&covered));
    let length = request.body.len();
    (Flaw::Body { change, claimed: covered.digest.to_owned(), actual, length }, signed)
}

/// Everything has its form, and the signature does not fit.
fn explain_signature(request: &Request<'_>, evidence: &Evidence<'_>) -> (Flaw, Option<Parts>) {
    let Ok(arrived) = request.covered() else { return (Flaw::Unexplained, None) };
    let is_signed = |covered: &Covered<'_>| signed_by_named_key(request, covered, evidence);
    let sent = evidence.sent.map(|sent| &sent.parts);
    let certain = sent.filter(|sent| is_signed(&sent.covered())).cloned();
    if let Some(signed) = certain.or_else(|| search(request, &arrived, evidence, is_signed)) {
        return (difference(&signed, &arrived).unwrap_or(Flaw::Unexplained), Some(signed));
    }
    let named = authorization(request, |given| given.key_id);
    if let Some((used, signed)) = other_key(request, &named, evidence) {
        return (Flaw::OtherKey { named, used }, Some(signed));
    }
    let key = evidence.keys.iter().find(|key| key.kid == named);
    let (length, expected) = (signature_of(request).map_or(0, |octets| octets.len()), key.and_then(verify::length));
    if let Some(expected) = expected.filter(|expected| *expected != length) {
        return (Flaw::SignatureLength { length, expected }, None);
    }
    // What was sent is known, and yet does not fit: either it differs, or the signature itself does.
    let flaw = match sent {
        Some(sent) => difference(sent, &arrived).unwrap_or(Flaw::SignatureDamaged),
        None => Flaw::Unexplained,
    };
    (flaw, None)
}

/// Puts back, one by one, what frameworks and proxies are known to change.
fn search(
    request: &Request<'_>,
    arrived: &Covered<'_>,
    evidence: &Evidence<'_>,
    is_signed: impl Fn(&Covered<'_>) -> bool,
) -> Option<Parts> {
    let hosts = clues::hosts(request, arrived.host, evidence.hosts);
    let targets = clues::targets(request, arrived.target, evidence.targets);
    let sources = SOURCES.map(|source| Covered { source, ..*arrived });
    let single = [Covered { method: "POST", ..*arrived }]
        .into_iter()
        .chain(hosts.iter().map(|host| Covered { host, ..*arrived }))
        .chain(targets.iter().map(|target| Covered { target, ..*arrived }))
        .chain(sources);
    let of_host = |host| targets.iter().map(move |target| Covered { target, host, ..*arrived });
    let both = hosts.iter().flat_map(|host| of_host(host.as_str()));
    single.chain(both).find(|covered| is_signed(covered)).map(|covered| Parts::of(&covered))
}

/// What the first line that differs tells.
fn difference(signed: &Parts, arrived: &Covered<'_>) -> Option<Flaw> {
    let pair = |signed: &str, arrived: &str| (signed.to_owned(), arrived.to_owned());
    if !signed.method.eq_ignore_ascii_case(arrived.method) {
        return Some(Flaw::Method(arrived.method.to_owned()));
    }
    if signed.target != arrived.target {
        let (change, (signed, arrived)) =
            (TargetChange::between(&signed.target, arrived.target), pair(&signed.target, arrived.target));
        return Some(Flaw::Target { change, signed, arrived });
    }
    if signed.host != arrived.host {
        let (change, (signed, arrived)) =
            (HostChange::between(&signed.host, arrived.host), pair(&signed.host, arrived.host));
        return Some(Flaw::Host { change, signed, arrived });
    }
    if signed.date != arrived.date {
        let (signed, arrived) = pair(&signed.date, arrived.date);
        return Some(Flaw::DateReplaced { signed, arrived });
    }
    if signed.source != arrived.source {
        let (signed, arrived) = pair(&signed.source, arrived.source);
        return Some(Flaw::Source { signed, arrived });
    }
    let (claimed, actual) = pair(&signed.digest, arrived.digest);
    (claimed != actual).then_some(Flaw::DigestReplaced { signed: claimed, arrived: actual })
}

fn signature_of(request: &Request<'_>) -> Option<Vec<u8>> {
    let value = request.values("authorization").next()?;
    Authorization::parse(value).ok().map(|given| given.signature)
}

fn signed_by_named_key(request: &Request<'_>, covered: &Covered<'_>, evidence: &Evidence<'_>) -> bool {
    let named = authorization(request, |given| given.key_id);
    let key = evidence.keys.iter().find(|key| key.kid == named);
    key.zip(signature_of(request)).is_some_and(|(key, signature)| fits(key, covered, &signature))
}

fn lines(request: &Request<'_>, signed: Option<&Parts>) -> Vec<Line> {
    let target = |method: &str, target: &str| format!("{} {target}", method.to_ascii_lowercase());
    let line = |name, signed: Option<&String>, arrived: Option<&str>| Line {
        name,
        signed: signed.cloned(),
        arrived: arrived.map(str::to_owned),
    };
    let header = |name| request.values(name).next();
    vec![
        Line {
            name: "(request-target)",
            signed: signed.map(|signed| target(&signed.method, &signed.target)),
            arrived: Some(target(request.method, request.target)),
        },
        line("host", signed.map(|signed| &signed.host), header("host")),
        line("date", signed.map(|signed| &signed.date), header("date")),
        line(SOURCE_HEADER, signed.map(|signed| &signed.source), header(SOURCE_HEADER)),
        line("digest", signed.map(|signed| &signed.digest), header("digest")),
        Line {
            name: "digest of the body",
            signed: signed.map(|signed| signed.digest.clone()),
            arrived: Some(digest(request.body)),
        },
    ]
}

/// Masked: a URL may carry a token, a body personal data.
impl fmt::Debug for Original {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Original({} bytes)", self.body.len())
    }
}

/// Masked: a target may carry a token.
impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parts({}, {})", self.host, self.date)
    }
}

/// Masked: a target may carry a token.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({}, {})", self.name, if self.differs() { "differs" } else { "the same" })
    }
}

impl fmt::Debug for Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Evidence({} keys)", self.keys.len() + self.retired.len())
    }
}
