//! Every target for a moment: its seeds, and mutations of them, the same ones each time.

use std::{
    panic::catch_unwind,
    time::{Duration, Instant},
};

use ringtrue_fuzz::{ENUM_ANSWER, LONG_MESSAGE, PDU, PHONE, SEARCH, SIGNATURE, SMS_TEXT, TARGETS, Target, WEBHOOK};

const SEED: u64 = 0x5EED_0001;
/// Far more than any input of these sizes takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_LENGTH: usize = 4_096;

#[test]
fn search() {
    survives(&SEARCH);
}

#[test]
fn sms_text() {
    survives(&SMS_TEXT);
}

#[test]
fn phone() {
    survives(&PHONE);
}

#[test]
fn pdu() {
    survives(&PDU);
}

#[test]
fn long_message() {
    survives(&LONG_MESSAGE);
}

#[test]
fn signature() {
    survives(&SIGNATURE);
}

#[test]
fn webhook() {
    survives(&WEBHOOK);
}

#[test]
fn enum_answer() {
    survives(&ENUM_ANSWER);
}

/// A target that is run here and nowhere else, or the other way round, is not fuzzed.
#[test]
fn every_target_has_its_libfuzzer_binary() {
    let manifest = include_str!("../libfuzzer/Cargo.toml");
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/libfuzzer/Cargo.toml");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}

fn survives(target: &Target) {
    let seeds = (target.seeds)();
    for seed in &seeds {
        holds(target, seed);
    }
    let mut random = Random(SEED);
    for _ in 0..target.short_run {
        holds(target, &random.mutation(&seeds));
    }
}

fn holds(target: &Target, input: &[u8]) {
    let run = target.run;
    let started = Instant::now();
    let survived = catch_unwind(|| run(input)).is_ok();
    let took = started.elapsed();
    // What did not hold was told by the panic itself.
    assert!(
        survived && took < PATIENCE,
        "{} with seed {SEED:#x} took {took:?} and broke on {}",
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
        const AWKWARD: &[u8] = b"\0\x01\x7f\x80\xff\x1b 09AZaz\n\"'\\*(),;=<>+-&%:{}[]";
        match self.below(2) {
            0 => AWKWARD[self.below(AWKWARD.len())],
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
