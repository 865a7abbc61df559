#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| conductor_fuzz::maxpat::check(data));
