//! Verification of callback signatures, with an explanation of failures.

use jiff::Timestamp;
use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::{
    callback::signature::{
        CallbackRequest, VerifiedSignature,
        diagnosis::{self, ComparedLine, Diagnosis, DiagnosisContext, diagnose},
    },
    keys::CallbackPublicKey,
};

use super::secure_url::SecureUrl;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerificationError {
    /// Machine-readable name of the part that failed.
    pub part: &'static str,
    /// Explanation.
    pub reason: String,
    /// Signing string of the request as it arrived, where it helps to find the difference.
    pub expected_text: Option<String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct VerificationContext<'a> {
    pub keys: &'a [CallbackPublicKey],
    pub keys_url: &'a SecureUrl,
    pub now: Timestamp,
    /// `Sandbox` accepts callbacks of live and sandbox checks.
    pub mode: Mode,
    /// Port of the listener.
    pub port: u16,
}

pub(super) fn verify_callback(
    request: &CallbackRequest<'_>,
    context: &VerificationContext<'_>,
) -> Result<VerifiedSignature, VerificationError> {
    let VerificationContext { keys, now, mode, port, .. } = *context;
    let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    let evidence = DiagnosisContext { keys, retired: &[], mode, now, hosts: &hosts, targets: &[], sent: None };
    let Diagnosis { verdict, lines } = diagnose(request, &evidence);
    verdict.map_err(|flaw| {
        use diagnosis::FailureCause::{
            HostChanged, MethodChanged, SandboxKey, SourceChanged, TargetChanged, Unexplained, UnknownKey, UnusableKey,
        };
        let reason = match &flaw {
            UnknownKey(_) => format!("{flaw}: {}", describe_known_keys(context)),
            SandboxKey(_) => format!("{flaw}. For a sandbox project, use `--accept-sandbox`"),
            UnusableKey(_) => format!("{flaw}: the key set is {}", context.keys_url),
            other => other.to_string(),
        };
        let shows_signing_string = matches!(
            flaw,
            HostChanged { .. } | MethodChanged(_) | SourceChanged { .. } | TargetChanged { .. } | Unexplained
        );
        VerificationError {
            part: flaw.part(),
            reason,
            expected_text: shows_signing_string.then(|| signing_string(&lines)).flatten(),
        }
    })
}

/// The last line describes the body digest, which is not part of the signing string.
fn signing_string(lines: &[ComparedLine]) -> Option<String> {
    let (_, covered) = lines.split_last()?;
    let line = |line: &ComparedLine| Some(format!("{}: {}", line.name, line.received.as_ref()?));
    Some(covered.iter().map(line).collect::<Option<Vec<_>>>()?.join("\n"))
}

fn describe_known_keys(context: &VerificationContext<'_>) -> String {
    let url = context.keys_url;
    if context.keys.is_empty() {
        return format!("no keys available from {url}; is the server running?");
    }
    let ids: Vec<&str> = context.keys.iter().map(|key| key.kid.as_str()).collect();
    format!("{url} has {}; did another server send this?", ids.join(", "))
}

pub(super) fn find_header<'a>(request: &CallbackRequest<'a>, wanted_name: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter();
    headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted_name)).map(|(_, value)| value.as_str())
}
