//! See `ringtrue_fuzz::PHONE`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::PHONE.run)(data));
