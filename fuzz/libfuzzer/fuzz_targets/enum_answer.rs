//! See `ringtrue_fuzz::ENUM_ANSWER`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::ENUM_ANSWER.run)(data));
