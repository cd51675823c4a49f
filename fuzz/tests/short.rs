//! Short run of every target with its seeds and their mutations, which are deterministic.

use std::{
    panic::catch_unwind,
    time::{Duration, Instant},
};

use ringtrue_fuzz::{
    CONCATENATED_MESSAGE, ENUM_RESPONSE, OPERATOR_TOKEN, PDU, PHONE, SEARCH, SIGNATURE, SMS_TEXT, TARGETS, Target,
    WEBHOOK,
};

const SEED: u64 = 0x5EED_0001;
/// Far above the normal duration, even on a busy machine.
const INPUT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_LENGTH: usize = 4_096;

#[test]
fn search() {
    run_target(&SEARCH);
}

#[test]
fn sms_text() {
    run_target(&SMS_TEXT);
}

#[test]
fn phone() {
    run_target(&PHONE);
}

#[test]
fn pdu() {
    run_target(&PDU);
}

#[test]
fn concatenated_message() {
    run_target(&CONCATENATED_MESSAGE);
}

#[test]
fn signature() {
    run_target(&SIGNATURE);
}

#[test]
fn webhook() {
    run_target(&WEBHOOK);
}

#[test]
fn enum_response() {
    run_target(&ENUM_RESPONSE);
}

#[test]
fn operator_token() {
    run_target(&OPERATOR_TOKEN);
}

#[test]
fn every_target_has_a_libfuzzer_binary() {
    let manifest = include_str!("../libfuzzer/Cargo.toml");
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/libfuzzer/Cargo.toml");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

fn run_target(target: &Target) {
    let seeds = (target.seeds)();
    for seed in &seeds {
        run_input(target, seed);
    }
    let mut random = Random(SEED);
    for _ in 0..target.short_run_inputs {
        run_input(target, &random.mutation(&seeds));
    }
}

fn run_input(target: &Target, input: &[u8]) {
    let run = target.run;
    let started = Instant::now();
    let passed = catch_unwind(|| run(input)).is_ok();
    let duration = started.elapsed();
    // The panic message shows the violated property.
    assert!(
        passed && duration < INPUT_TIMEOUT,
        "{} with seed {SEED:#x} failed or timed out after {duration:?} on {}",
        target.name,
        hex(input)
    );
}

fn hex(input: &[u8]) -> String {
    input.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % bound.max(1)
    }

    fn octet(&mut self) -> u8 {
        const INTERESTING_OCTETS: &[u8] = b"\0\x01\x7f\x80\xff\x1b 09AZaz\n\"'\\*(),;=<>+-&%:{}[]";
        match self.below(2) {
            0 => INTERESTING_OCTETS[self.below(INTERESTING_OCTETS.len())],
            _ => self.next().to_be_bytes()[0],
        }
    }

    fn slice<'a>(&mut self, of: &'a [u8]) -> &'a [u8] {
        let start = self.below(of.len() + 1);
        &of[start..start + self.below(of.len() - start + 1)]
    }

    fn mutation(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(6) {
            let at = self.below(input.len() + 1);
            let other = &seeds[self.below(seeds.len())];
            match self.below(6) {
                0 => input.insert(at, self.octet()),
                1 => input.truncate(at),
                2 => drop(input.splice(at..at, self.slice(other).to_vec())),
                3 => drop(input.splice(at..at, self.slice(&input.clone()).to_vec())),
                4 => {
                    let end = input.len().min(at + self.below(8));
                    input.drain(at..end);
                }
                _ if at < input.len() => input[at] = self.octet(),
                _ => input.push(self.octet()),
            }
        }
        input.truncate(MAX_LENGTH);
        input
    }
}
