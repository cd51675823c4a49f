//! See `ringtrue_fuzz::LONG_MESSAGE`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::LONG_MESSAGE.run)(data));
