//! See `ringtrue_fuzz::CONCATENATED_MESSAGE`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::CONCATENATED_MESSAGE.run)(data));
