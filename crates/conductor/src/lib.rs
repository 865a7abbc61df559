pub mod audit_log;
pub mod cli;
pub mod pending_store;
