//! What the owner reports to the gateway, named by event. The owner knows this trait and not the
//! gateway behind it.
//!
//! The owner calls these on its own thread, so no method waits for a disk, a program or a person.

use conductor_core::engine::MappingCall;
use conductor_core::event::Taint;
use conductor_core::mapping::Target;
use conductor_core::policy::PadSettings;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::pipeline::approval::ApproverPresent;
use uuid::Uuid;

pub trait OwnerEvents: Send + Sync {
    /// A mapping fired an action that takes the pipeline. However the call ends, it is answered
    /// with [`Waker::call_done`](super::wake::Waker::call_done).
    fn call_fired(&self, call: MappingCall);

    /// A knob has a new value for a Live parameter or a patch attribute. A value that fails later
    /// is reported with [`Waker::worker_failed`](super::wake::Waker::worker_failed).
    fn parameter_turned(&self, target: &Target, value: f64, ranged: bool, taint: Taint) -> Result<(), String>;

    fn config_in_force(&self, serving: &ConfigInForce);

    fn config_rejected(&self, reason: &str);

    /// A device of the file was connected and is gone.
    fn device_lost(&self, device: &str, port: Option<&str>);

    /// The approval pad can be held, until the value is dropped.
    fn pad_armed(&self) -> ApproverPresent;

    /// The approval pad was held long enough to answer this question.
    fn pad_held(&self, settings: PadSettings, question: Uuid);

    /// Why MCP over HTTP is not served although the file asks for it.
    fn http_fault(&self) -> Option<String>;
}
