//! See `ringtrue_fuzz::WEBHOOK`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::WEBHOOK.run)(data));
