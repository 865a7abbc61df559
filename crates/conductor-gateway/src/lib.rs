//! The gateway: the pipeline that every call takes, the tools behind it, approvals and plans,
//! secrets and the audit log.
//!
//! Not here: how a call arrives (the doors of `conductor`), and what drives devices and programs
//! (`conductor-hosts`).

pub mod audit_log;
pub mod config_in_force;
pub mod histogram;
pub mod owner_handle;
pub mod pending_store;
pub mod pipeline;
pub mod report;
pub mod secrets;
pub mod studio;
pub mod tools;
