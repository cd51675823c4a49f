//! See `ringtrue_fuzz::OPERATOR_TOKEN`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::OPERATOR_TOKEN.run)(data));
