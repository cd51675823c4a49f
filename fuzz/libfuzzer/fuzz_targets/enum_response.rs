//! See `ringtrue_fuzz::ENUM_RESPONSE`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::ENUM_RESPONSE.run)(data));
