//! See `ringtrue_fuzz::SIGNATURE`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::SIGNATURE.run)(data));
