//! Compares E.164 validation with the Python library `phonenumbers`.
//!
//! The differences are explained in docs/decisions/0010-e164-acceptance.md.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};

const NUMBERS: usize = 100_000;

/// The result of the Python library for a number.
struct ReferenceResult {
    number: String,
    is_possible: bool,
    /// Whether the number lacks its area code, and so cannot be called from abroad.
    is_local_only: bool,
    /// Whether the library returns the number unchanged. `false`: it has repaired the number.
    is_e164: bool,
}

impl ReferenceResult {
    fn parse(line: &str) -> Self {
        let mut parts = line.split(' ');
        let hex = parts.next().unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes = (0..hex.len()).step_by(2).map(byte).collect();
        let mut next_flag = || parts.next().unwrap() == "1";
        ReferenceResult {
            number: String::from_utf8(bytes).unwrap(),
            is_possible: next_flag(),
            is_local_only: next_flag(),
            is_e164: next_flag(),
        }
    }

    /// Returns why we reject a number that the library accepts. `None`: we accept it too.
    fn rejection_reason(&self) -> Option<&'static str> {
        let digits = self.number.len() - 1;
        match self {
            ReferenceResult { is_e164: false, .. } => Some("written in another way"),
            ReferenceResult { is_local_only: true, .. } => Some("within its country only"),
            _ if digits < 7 => Some("shorter than 7 digits"),
            _ if digits > 15 => Some("longer than 15 digits"),
            _ => None,
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn reference_results() -> Vec<ReferenceResult> {
    let python = root().join("target/python/bin/python");
    let output = Command::new(&python)
        .arg(root().join("e2e/phone_numbers/classify.py"))
        .arg(NUMBERS.to_string())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; `make setup` installs it", python.display()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`make setup` installs the dependencies\n{stderr}");
    String::from_utf8(output.stdout).unwrap().lines().map(ReferenceResult::parse).collect()
}

#[test]
fn validation_agrees_with_phonenumbers() {
    let results = reference_results();
    assert_eq!(results.len(), NUMBERS);
    let (mut accepted, mut unexplained) = (0, vec![]);
    let mut differences: BTreeMap<&str, usize> = BTreeMap::new();
    for result in &results {
        let ours = Msisdn::parse(&result.number, Mode::Live);
        match (&ours, result.is_possible, result.rejection_reason()) {
            (Ok(_), true, None) => accepted += 1,
            (Err(_), false, _) => {}
            (Err(_), true, Some(reason)) => *differences.entry(reason).or_default() += 1,
            _ => unexplained.push((&result.number, ours.err())),
        }
    }
    assert!(unexplained.is_empty(), "{} unexplained differences: {unexplained:?}", unexplained.len());
    assert!(accepted > NUMBERS / 5, "only {accepted} accepted: the generated numbers are not representative");
    let reasons: Vec<_> = differences.keys().copied().collect();
    let expected =
        ["longer than 15 digits", "shorter than 7 digits", "within its country only", "written in another way"];
    assert_eq!(reasons, expected, "{differences:?}");
}
