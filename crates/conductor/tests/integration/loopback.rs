//! The in-process backend fulfils the same contract as the real ones.

use conductor_core::event::{DeviceSlot, Micros, Trail};
use conductor_hosts::midi::loopback::Loopback;
use conductor_hosts::midi::ring::{Bell, event_ring};
use conductor_hosts::midi::{Backend, Output, SendError};
use conductor_testkit::backend_contract::{Cable, keeps_the_contract};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn loopback_keeps_the_contract() {
    let mut backend = Loopback::new(Arc::new(|| Micros(0)), Arc::new(|_| {}));
    let (sender, lane) = event_ring(DeviceSlot(0), u32::MAX, Bell::silent());
    let input = backend.create_input("pads", sender).unwrap();
    let output = backend.open_output("pads hand").unwrap();
    keeps_the_contract(&mut backend, Cable { output, input, lane, patience: Duration::from_secs(10) });
}

/// A backend that violates one rule, to check that the contract test detects it.
struct Broken {
    inner: Box<dyn Output>,
    sent: u32,
    fault: Fault,
}

enum Fault {
    LosesOne,
    SwapsData,
    TakesAnything,
}

impl Output for Broken {
    fn send(&mut self, message: &[u8], trail: Trail) -> Result<(), SendError> {
        self.sent += 1;
        match (&self.fault, message) {
            (Fault::LosesOne, _) if self.sent == 50 => Ok(()),
            (Fault::SwapsData, [status @ 0xB0..=0xBF, a, b]) => self.inner.send(&[*status, *b, *a], trail),
            (Fault::TakesAnything, _) => self.inner.send(message, trail).or(Ok(())),
            (Fault::LosesOne | Fault::SwapsData, _) => self.inner.send(message, trail),
        }
    }

    fn is_open(&self) -> bool {
        self.inner.is_open()
    }
}

fn broken(fault: Fault) {
    let mut backend = Loopback::new(Arc::new(|| Micros(0)), Arc::new(|_| {}));
    let (sender, lane) = event_ring(DeviceSlot(0), u32::MAX, Bell::silent());
    let input = backend.create_input("pads", sender).unwrap();
    let inner = backend.open_output("pads hand").unwrap();
    let output = Box::new(Broken { inner, sent: 0, fault });
    keeps_the_contract(&mut backend, Cable { output, input, lane, patience: Duration::from_millis(100) });
}

#[test]
#[should_panic(expected = "first difference")]
fn a_lost_message_breaks_the_contract() {
    broken(Fault::LosesOne);
}

#[test]
#[should_panic(expected = "first difference")]
fn swapped_bytes_break_the_contract() {
    broken(Fault::SwapsData);
}

#[test]
#[should_panic(expected = "bytes: Ok")]
fn an_output_that_takes_anything_breaks_the_contract() {
    broken(Fault::TakesAnything);
}
