//! The events that the owner reports to the gateway. The owner depends only on this trait, not on
//! the gateway.
//!
//! The owner calls these methods on its own thread, so they must not wait for a disk, a program or
//! a person.

use conductor_core::engine::MappingCall;
use conductor_core::event::Taint;
use conductor_core::mapping::Target;
use conductor_core::policy::PadSettings;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::pipeline::approval::ApproverPresent;
use uuid::Uuid;

pub trait OwnerEvents: Send + Sync {
    /// A mapping fired an action that needs the pipeline. The receiver always reports the end of
    /// the call with [`Waker::call_done`](super::wake::Waker::call_done).
    fn call_fired(&self, call: MappingCall);

    /// A knob has a new value for a Live parameter or a patch attribute. If setting the value fails
    /// later, the receiver calls [`Waker::worker_failed`](super::wake::Waker::worker_failed).
    fn parameter_turned(&self, target: &Target, value: f64, ranged: bool, taint: Taint) -> Result<(), String>;

    fn config_in_force(&self, serving: &ConfigInForce);

    fn config_rejected(&self, reason: &str);

    /// A configured device was disconnected.
    fn device_lost(&self, device: &str, port: Option<&str>);

    /// The approval pad is ready to be held, until the returned value is dropped.
    fn pad_armed(&self) -> ApproverPresent;

    /// The approval pad was held long enough to approve this request.
    fn pad_held(&self, settings: PadSettings, question: Uuid);

    /// The mode, a device, the learn session, the performance lock or the configuration changed.
    fn state_changed(&self);

    /// The reason why MCP over HTTP is not served although the file enables it.
    fn http_fault(&self) -> Option<String>;
}
