//! Which numbers are taken for E.164, held against a library that is not ours: `phonenumbers` of `PyPI`.
//!
//! Where the two differ, docs/decisions/0010-e164-acceptance.md says why.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};

const NUMBERS: usize = 100_000;

/// What the library says of a number.
struct Judged {
    number: String,
    is_possible: bool,
    /// Without an area code: nobody abroad can call it.
    is_local_only: bool,
    /// Else the library has put it right.
    is_e164: bool,
}

impl Judged {
    fn read(line: &str) -> Self {
        let mut parts = line.split(' ');
        let hex = parts.next().unwrap();
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes = (0..hex.len()).step_by(2).map(byte).collect();
        let mut is_so = || parts.next().unwrap() == "1";
        Judged {
            number: String::from_utf8(bytes).unwrap(),
            is_possible: is_so(),
            is_local_only: is_so(),
            is_e164: is_so(),
        }
    }

    /// Why it is possible for the library, and not taken by us.
    fn reason(&self) -> Option<&'static str> {
        let digits = self.number.len() - 1;
        match self {
            Judged { is_e164: false, .. } => Some("written in another way"),
            Judged { is_local_only: true, .. } => Some("within its country only"),
            _ if digits < 7 => Some("shorter than 7 digits"),
            _ if digits > 15 => Some("longer than 15 digits"),
            _ => None,
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn judged() -> Vec<Judged> {
    let python = root().join("target/python/bin/python");
    let output = Command::new(&python)
        .arg(root().join("e2e/phone_numbers/judge.py"))
        .arg(NUMBERS.to_string())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; `make setup` installs it", python.display()));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`make setup` installs what this needs\n{complaint}");
    String::from_utf8(output.stdout).unwrap().lines().map(Judged::read).collect()
}

#[test]
fn numbers_are_taken_as_another_library_takes_them() {
    let judged = judged();
    assert_eq!(judged.len(), NUMBERS);
    let (mut taken, mut unexplained) = (0, vec![]);
    let mut differences: BTreeMap<&str, usize> = BTreeMap::new();
    for judged in &judged {
        let ours = Msisdn::parse(&judged.number, Mode::Live);
        match (&ours, judged.is_possible, judged.reason()) {
            (Ok(_), true, None) => taken += 1,
            (Err(_), false, _) => {}
            (Err(_), true, Some(reason)) => *differences.entry(reason).or_default() += 1,
            _ => unexplained.push((&judged.number, ours.err())),
        }
    }
    assert!(unexplained.is_empty(), "{} differ for no known reason: {unexplained:?}", unexplained.len());
    assert!(taken > NUMBERS / 5, "{taken} taken: the numbers are too strange to tell anything");
    let reasons: Vec<_> = differences.keys().copied().collect();
    let expected =
        ["longer than 15 digits", "shorter than 7 digits", "within its country only", "written in another way"];
    assert_eq!(reasons, expected, "{differences:?}");
}
