//! The in-process backend keeps the contract of the real ones.

#[path = "shared/contract.rs"]
mod contract;

use conductor::hosts::midi::Backend;
use conductor::hosts::midi::loopback::Loopback;
use conductor::hosts::midi::ring::{Bell, lane};
use conductor_core::event::{DeviceSlot, Micros};
use contract::{Cable, keeps_the_contract};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn loopback_keeps_the_contract() {
    let mut backend = Loopback::new(Arc::new(|| Micros(0)), Arc::new(|_| {}));
    let (sender, lane) = lane(DeviceSlot(0), u32::MAX, Bell::silent());
    let input = backend.create_input("pads", sender).unwrap();
    let output = backend.open_output("pads hand").unwrap();
    keeps_the_contract(&mut backend, Cable { output, input, lane, patience: Duration::from_secs(10) });
}
