//! Signature debugger: explains why the signature of a received callback is invalid.
//!
//! A receiver rebuilds the signing string from the request, which proxies and frameworks may have changed. The debugger
//! undoes known changes until the signature is valid. If the attempt log contains the request that was sent, the
//! debugger compares with it.
//!
//! This module is pure: keys, time and attempt log are inputs.

mod changes;
mod failure_cause;
mod pasted_request;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{product::Product, tenancy::Mode};

pub use self::{
    changes::{BodyChange, HeaderDamage, HostChange, TargetChange, host_and_target},
    failure_cause::FailureCause,
    pasted_request::{PastedRequest, PastedRequestError},
};
use super::{
    Authorization, COMPONENTS, CallbackRequest, CoveredComponents, InvalidAuthorization, PRODUCT_HEADER,
    SignatureError, VerifiedSignature, digest_header,
    verify::{self, is_valid_signature},
};
use crate::CallbackPublicKey;

/// Recommended maximum difference between a callback's `date` and the receiver's clock.
pub const MAX_DATE_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// What the caller knows in addition to the received request.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("DiagnosisContext({} keys)", keys.len() + retired.len())]
pub struct DiagnosisContext<'a> {
    /// Keys that are currently published.
    pub keys: &'a [CallbackPublicKey],
    /// Keys that were published earlier, but are no longer.
    pub retired: &'a [CallbackPublicKey],
    /// Mode of the checks that the receiver expects. A live receiver must reject sandbox keys.
    pub mode: Mode,
    pub now: Timestamp,
    /// `hosts` and `targets` are candidates for the signed host and request target, in addition to those derived from
    /// the request.
    pub hosts: &'a [String],
    pub targets: &'a [String],
    /// The callback that was sent. `None`: unknown.
    pub sent: Option<&'a SentCallback>,
}

/// A callback as it was sent. Debug output hides the URL, which may contain a token, and the body, which may contain
/// personal data.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SentCallback({} bytes)", body.len())]
pub struct SentCallback {
    pub components: OwnedComponents,
    pub body: String,
}

/// Owned form of [`CoveredComponents`]. Debug output hides the target, which may contain a token.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("OwnedComponents({host}, {date})")]
pub struct OwnedComponents {
    pub method: String,
    pub target: String,
    pub host: String,
    pub date: String,
    pub product: String,
    pub digest: String,
}

#[derive(Clone, Debug)]
pub struct Diagnosis {
    pub verdict: Result<VerifiedSignature, FailureCause>,
    /// The lines of the signing string, and a last line with the digest of the body.
    pub lines: Vec<ComparedLine>,
}

/// A line of the signing string: as it was signed, if known, and as rebuilt from the received request. Debug output
/// hides the values.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("ComparedLine({name}, {})", if self.differs() { "differs" } else { "equal" })]
pub struct ComparedLine {
    pub name: &'static str,
    pub signed: Option<String>,
    pub received: Option<String>,
}

impl ComparedLine {
    pub fn differs(&self) -> bool {
        self.received.is_none() || (self.signed.is_some() && self.signed != self.received)
    }
}

impl Diagnosis {
    /// Returns the index of the first line that differs.
    pub fn first_difference(&self) -> Option<usize> {
        self.lines.iter().position(ComparedLine::differs)
    }
}

impl OwnedComponents {
    fn covered(&self) -> CoveredComponents<'_> {
        let OwnedComponents { method, target, host, date, product, digest } = self;
        CoveredComponents { method, target, host, date, product, digest }
    }

    fn of(covered: &CoveredComponents<'_>) -> Self {
        OwnedComponents {
            method: covered.method.to_owned(),
            target: covered.target.to_owned(),
            host: covered.host.to_owned(),
            date: covered.date.to_owned(),
            product: covered.product.to_owned(),
            digest: covered.digest.to_owned(),
        }
    }
}

/// Verifies a request, and explains the failure if it is invalid.
pub fn diagnose(request: &CallbackRequest<'_>, context: &DiagnosisContext<'_>) -> Diagnosis {
    match verify::verify(request, context.keys) {
        Ok(verified) => {
            let signed = request.covered().ok().map(|covered| OwnedComponents::of(&covered));
            Diagnosis {
                verdict: check_mode_and_date(verified, context),
                lines: compare_lines(request, signed.as_ref()),
            }
        }
        Err(error) => {
            let (cause, signed) = explain_error(request, error, context);
            let signed = signed.or_else(|| context.sent.map(|sent| sent.components.clone()));
            Diagnosis { verdict: Err(cause), lines: compare_lines(request, signed.as_ref()) }
        }
    }
}

/// Like [`diagnose`], for a pasted request, whose headers may be folded over several lines.
pub fn diagnose_pasted(pasted: &PastedRequest, context: &DiagnosisContext<'_>) -> Diagnosis {
    if let Some(folded) = pasted.folded_header() {
        // RFC 9110 joins folded lines with a space, but some tools break lines inside a value.
        for separator in [" ", ""] {
            let headers = pasted.headers(separator);
            let request = pasted.request(&headers);
            if verify::verify(&request, context.keys).is_ok() {
                let signed = request.covered().ok().map(|covered| OwnedComponents::of(&covered));
                let verdict = Err(FailureCause::HeaderFolded(folded.to_owned()));
                return Diagnosis { verdict, lines: compare_lines(&request, signed.as_ref()) };
            }
        }
    }
    let headers = pasted.headers(" ");
    diagnose(&pasted.request(&headers), context)
}

fn check_mode_and_date(
    verified: VerifiedSignature,
    context: &DiagnosisContext<'_>,
) -> Result<VerifiedSignature, FailureCause> {
    if (verified.mode, context.mode) == (Mode::Sandbox, Mode::Live) {
        return Err(FailureCause::SandboxKey(verified.kid));
    }
    let age = context.now.duration_since(verified.date);
    if age.abs() <= MAX_DATE_SKEW { Ok(verified) } else { Err(FailureCause::DateSkew(age)) }
}

/// Returns the cause of an error. Also returns the components that were signed, if they are known for certain.
fn explain_error(
    request: &CallbackRequest<'_>,
    error: SignatureError,
    context: &DiagnosisContext<'_>,
) -> (FailureCause, Option<OwnedComponents>) {
    let found = |name| request.values(name).next().unwrap_or_default().to_owned();
    let cause = match error {
        SignatureError::MissingHeader(name) => FailureCause::MissingHeader(name),
        SignatureError::DuplicateHeader(name) => FailureCause::DuplicateHeader(name),
        SignatureError::InvalidAuthorization(error) => return explain_authorization(request, error, context),
        SignatureError::UnsupportedAlgorithm => {
            FailureCause::UnsupportedAlgorithm(authorization_parameter(request, |given| given.algorithm))
        }
        SignatureError::UnexpectedComponents => {
            let given = authorization_parameter(request, |given| given.headers);
            let sorted = |text: &str| {
                let mut names: Vec<_> = text.split(' ').map(str::to_ascii_lowercase).collect();
                names.sort_unstable();
                names
            };
            let is_reordered = sorted(&given) == sorted(COMPONENTS);
            if is_reordered {
                FailureCause::ComponentsReordered(given)
            } else {
                FailureCause::UnexpectedComponents(given)
            }
        }
        SignatureError::UnknownKey(kid) => return explain_key(request, kid, context),
        SignatureError::UnusableKey(kid) => FailureCause::UnusableKey(kid),
        SignatureError::DigestMalformed => FailureCause::DigestMalformed(found("digest")),
        SignatureError::BodyDiffers => return explain_body(request, context),
        SignatureError::DateMalformed => FailureCause::DateMalformed(found("date")),
        SignatureError::InvalidSignature => return explain_signature(request, context),
    };
    (cause, None)
}

fn authorization_parameter(
    request: &CallbackRequest<'_>,
    part: impl for<'a> Fn(&'a Authorization<'a>) -> &'a str,
) -> String {
    let given = request.values("authorization").next().and_then(|value| Authorization::parse(value).ok());
    given.map(|given| part(&given).to_owned()).unwrap_or_default()
}

/// Explains an invalid `Authorization` header: undoes known damage until the signature is valid.
fn explain_authorization(
    request: &CallbackRequest<'_>,
    error: InvalidAuthorization,
    context: &DiagnosisContext<'_>,
) -> (FailureCause, Option<OwnedComponents>) {
    let value = request.values("authorization").next().unwrap_or_default();
    for (damage, repaired) in changes::candidate_repairs(value) {
        let headers = request.headers_with("authorization", &repaired);
        if verify::verify(&CallbackRequest { headers: &headers, ..*request }, context.keys).is_ok() {
            let signed = request.covered().ok().map(|covered| OwnedComponents::of(&covered));
            return (FailureCause::AuthorizationDamaged(damage), signed);
        }
    }
    (FailureCause::InvalidAuthorization(error, value.to_owned()), None)
}

/// Explains a `keyId` that is not published. The signature may have been made with another key.
fn explain_key(
    request: &CallbackRequest<'_>,
    kid: String,
    context: &DiagnosisContext<'_>,
) -> (FailureCause, Option<OwnedComponents>) {
    let is_retired = context.retired.iter().any(|key| key.kid == kid);
    match find_actual_key(request, &kid, context) {
        Some((used, signed)) => (FailureCause::WrongKeyId { named: kid, used }, Some(signed)),
        None if is_retired => (FailureCause::RetiredKey(kid), None),
        None => (FailureCause::UnknownKey(kid), None),
    }
}

/// Finds a key other than `named` with which the signature is valid.
fn find_actual_key(
    request: &CallbackRequest<'_>,
    named: &str,
    context: &DiagnosisContext<'_>,
) -> Option<(String, OwnedComponents)> {
    let covered = request.covered().ok()?;
    let signature = parse_signature(request)?;
    let others = context.keys.iter().chain(context.retired).filter(|key| key.kid != named);
    let used = others.into_iter().find(|key| is_valid_signature(key, &covered, &signature))?;
    Some((used.kid.clone(), OwnedComponents::of(&covered)))
}

/// Explains a `digest` header that does not match the body: one of the two was changed.
fn explain_body(
    request: &CallbackRequest<'_>,
    context: &DiagnosisContext<'_>,
) -> (FailureCause, Option<OwnedComponents>) {
    let Ok(covered) = request.covered() else { return (FailureCause::Unexplained, None) };
    let actual = digest_header(request.body);
    let is_signed = |covered: &CoveredComponents<'_>| is_signed_by_named_key(request, covered, context);
    if !is_signed(&covered) && is_signed(&CoveredComponents { digest: &actual, ..covered }) {
        let signed = OwnedComponents::of(&CoveredComponents { digest: &actual, ..covered });
        return (FailureCause::DigestReplaced { signed: actual, received: covered.digest.to_owned() }, Some(signed));
    }
    let sent = context.sent.map(|sent| sent.body.as_str());
    let change = changes::classify_body_change(request.body, covered.digest, sent);
    let signed = is_signed(&covered).then(|| OwnedComponents::of(&covered));
    let length = request.body.len();
    (FailureCause::BodyChanged { change, claimed: covered.digest.to_owned(), actual, length }, signed)
}

/// Explains an invalid signature in a request whose parts are all well-formed.
fn explain_signature(
    request: &CallbackRequest<'_>,
    context: &DiagnosisContext<'_>,
) -> (FailureCause, Option<OwnedComponents>) {
    let Ok(received) = request.covered() else { return (FailureCause::Unexplained, None) };
    let is_signed = |covered: &CoveredComponents<'_>| is_signed_by_named_key(request, covered, context);
    let sent = context.sent.map(|sent| &sent.components);
    let certain = sent.filter(|sent| is_signed(&sent.covered())).cloned();
    if let Some(signed) = certain.or_else(|| search_signed_components(request, &received, context, is_signed)) {
        return (first_changed_component(&signed, &received).unwrap_or(FailureCause::Unexplained), Some(signed));
    }
    let named = authorization_parameter(request, |given| given.key_id);
    if let Some((used, signed)) = find_actual_key(request, &named, context) {
        return (FailureCause::WrongKeyId { named, used }, Some(signed));
    }
    let key = context.keys.iter().find(|key| key.kid == named);
    let (length, expected) =
        (parse_signature(request).map_or(0, |octets| octets.len()), key.and_then(verify::signature_length));
    if let Some(expected) = expected.filter(|expected| *expected != length) {
        return (FailureCause::SignatureLength { length, expected }, None);
    }
    // The signature does not match the components that were sent either. If all of them arrived unchanged, the
    // signature itself was changed.
    let cause = match sent {
        Some(sent) => first_changed_component(sent, &received).unwrap_or(FailureCause::SignatureDamaged),
        None => FailureCause::Unexplained,
    };
    (cause, None)
}

/// Searches for the components that were signed: undoes changes that frameworks and proxies are known to make, one or
/// two at a time.
fn search_signed_components(
    request: &CallbackRequest<'_>,
    received: &CoveredComponents<'_>,
    context: &DiagnosisContext<'_>,
    is_signed: impl Fn(&CoveredComponents<'_>) -> bool,
) -> Option<OwnedComponents> {
    let hosts = changes::candidate_hosts(request, received.host, context.hosts);
    let targets = changes::candidate_targets(request, received.target, context.targets);
    let products =
        Product::WITH_CALLBACKS.iter().map(|product| CoveredComponents { product: product.into_str(), ..*received });
    let single = [CoveredComponents { method: "POST", ..*received }]
        .into_iter()
        .chain(hosts.iter().map(|host| CoveredComponents { host, ..*received }))
        .chain(targets.iter().map(|target| CoveredComponents { target, ..*received }))
        .chain(products);
    let of_host = |host| targets.iter().map(move |target| CoveredComponents { target, host, ..*received });
    let both = hosts.iter().flat_map(|host| of_host(host.as_str()));
    single.chain(both).find(|covered| is_signed(covered)).map(|covered| OwnedComponents::of(&covered))
}

/// Returns the cause that the first changed component indicates. `None`: no component was changed.
fn first_changed_component(signed: &OwnedComponents, received: &CoveredComponents<'_>) -> Option<FailureCause> {
    let (signed, received) = (signed.clone(), OwnedComponents::of(received));
    Some(if !signed.method.eq_ignore_ascii_case(&received.method) {
        FailureCause::MethodChanged(received.method)
    } else if signed.target != received.target {
        let change = TargetChange::classify(&signed.target, &received.target);
        FailureCause::TargetChanged { change, signed: signed.target, received: received.target }
    } else if signed.host != received.host {
        let change = HostChange::classify(&signed.host, &received.host);
        FailureCause::HostChanged { change, signed: signed.host, received: received.host }
    } else if signed.date != received.date {
        FailureCause::DateReplaced { signed: signed.date, received: received.date }
    } else if signed.product != received.product {
        FailureCause::ProductChanged { signed: signed.product, received: received.product }
    } else if signed.digest != received.digest {
        FailureCause::DigestReplaced { signed: signed.digest, received: received.digest }
    } else {
        return None;
    })
}

fn parse_signature(request: &CallbackRequest<'_>) -> Option<Vec<u8>> {
    let value = request.values("authorization").next()?;
    Authorization::parse(value).ok().map(|given| given.signature)
}

fn is_signed_by_named_key(
    request: &CallbackRequest<'_>,
    covered: &CoveredComponents<'_>,
    context: &DiagnosisContext<'_>,
) -> bool {
    let named = authorization_parameter(request, |given| given.key_id);
    let key = context.keys.iter().find(|key| key.kid == named);
    key.zip(parse_signature(request)).is_some_and(|(key, signature)| is_valid_signature(key, covered, &signature))
}

fn compare_lines(request: &CallbackRequest<'_>, signed: Option<&OwnedComponents>) -> Vec<ComparedLine> {
    let target = |method: &str, target: &str| format!("{} {target}", method.to_ascii_lowercase());
    let line = |name, signed: Option<&String>, received: Option<&str>| ComparedLine {
        name,
        signed: signed.cloned(),
        received: received.map(str::to_owned),
    };
    let header = |name| request.values(name).next();
    vec![
        ComparedLine {
            name: "(request-target)",
            signed: signed.map(|signed| target(&signed.method, &signed.target)),
            received: Some(target(request.method, request.target)),
        },
        line("host", signed.map(|signed| &signed.host), header("host")),
        line("date", signed.map(|signed| &signed.date), header("date")),
        line(PRODUCT_HEADER, signed.map(|signed| &signed.product), header(PRODUCT_HEADER)),
        line("digest", signed.map(|signed| &signed.digest), header("digest")),
        ComparedLine {
            name: "digest of the body",
            signed: signed.map(|signed| signed.digest.clone()),
            received: Some(digest_header(request.body)),
        },
    ]
}
