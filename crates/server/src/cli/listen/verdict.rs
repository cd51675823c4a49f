//! Whether a callback can be trusted, and if not, why: in words that lead to the cause.

use jiff::Timestamp;
use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::{
    callback::signature::{
        Request, Verified,
        diagnosis::{self, Diagnosis, Evidence, Line, diagnose},
    },
    keys::PublicKey,
};

use super::endpoint::Endpoint;

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
    /// The mode of the checks that callbacks are expected for.
    pub mode: Mode,
    /// Where we listen.
    pub port: u16,
}

pub(super) fn judge(request: &Request<'_>, standard: &Standard<'_>) -> Result<Verified, Flaw> {
    let Standard { keys, now, mode, port, .. } = *standard;
    let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
    let evidence = Evidence { keys, retired: &[], mode, now, hosts: &hosts, targets: &[], sent: None };
    let Diagnosis { verdict, lines } = diagnose(request, &evidence);
    verdict.map_err(|flaw| {
        use diagnosis::Flaw::{Host, Method, SandboxKey, Source, Target, Unexplained, UnknownKey, UnusableKey};
        let why = match &flaw {
            UnknownKey(_) => format!("{flaw}: {}", known_keys(standard)),
            SandboxKey(_) => format!("{flaw}. For a sandbox project, use `--accept-sandbox`"),
            UnusableKey(_) => format!("{flaw}: the key set is {}", standard.keys_from),
            other => other.to_string(),
        };
        let helps = matches!(flaw, Host { .. } | Method(_) | Source { .. } | Target { .. } | Unexplained);
        Flaw { part: flaw.part(), why, expected_text: helps.then(|| signing_string(&lines)).flatten() }
    })
}

/// The text that a receiver builds of what arrived. The last line is of the body, and no part of it.
fn signing_string(lines: &[Line]) -> Option<String> {
    let (_, covered) = lines.split_last()?;
    let line = |line: &Line| Some(format!("{}: {}", line.name, line.arrived.as_ref()?));
    Some(covered.iter().map(line).collect::<Option<Vec<_>>>()?.join("\n"))
}

fn known_keys(standard: &Standard<'_>) -> String {
    let from = standard.keys_from;
    if standard.keys.is_empty() {
        return format!("no keys could be had from {from}; is the server up?");
    }
    let ids: Vec<&str> = standard.keys.iter().map(|key| key.kid.as_str()).collect();
    format!("{from} has {}; was this sent by another server?", ids.join(", "))
}

pub(super) fn header<'a>(request: &Request<'a>, wanted: &str) -> Option<&'a str> {
    let mut headers = request.headers.iter();
    headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
}
