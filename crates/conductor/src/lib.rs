pub mod audit_log;
