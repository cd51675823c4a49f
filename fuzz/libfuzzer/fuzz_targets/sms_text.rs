//! See `ringtrue_fuzz::SMS_TEXT`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::SMS_TEXT.run)(data));
