//! See `ringtrue_fuzz::SEARCH`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::SEARCH.run)(data));
