pub mod audit_log;
pub mod pending_store;
