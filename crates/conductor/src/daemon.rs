//! The one owner of a home: starts, runs and ends everything that lives in it.

pub mod home;
pub mod socket;
