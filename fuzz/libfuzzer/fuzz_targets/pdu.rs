//! See `ringtrue_fuzz::PDU`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (ringtrue_fuzz::PDU.run)(data));
