//! The pure core of Conductor: events of controllers ([`event`]), gestures ([`gesture`]), mappings
//! from gestures to actions ([`mapping`], [`action`]), and the configuration file ([`config`]). It
//! also contains learn sessions ([`learn`]), lights and motor faders ([`feedback`]), modes that
//! follow the frontmost window ([`focus`]), the approval pad ([`approval_pad`]), and templates of
//! known controllers ([`templates`]). For the pipeline it contains plans and approvals ([`plan`],
//! [`pending`]), policy ([`policy`], [`breaker`]), journals of scripts ([`script`]), audit records
//! ([`audit`]) and errors ([`error`]). For several rigs with one server it contains the formats of
//! their messages ([`cluster`]).
//!
//! Not here: I/O, clocks, threads, randomness. Time and ids are parameters, so a simulation, a test
//! and the daemon run the same code.

#![forbid(unsafe_code)]

pub mod action;
pub mod approval_pad;
pub mod audit;
pub mod breaker;
pub mod cluster;
pub mod command;
pub mod config;
pub mod digest;
pub mod engine;
pub mod error;
pub mod event;
pub mod feedback;
pub mod focus;
pub mod gesture;
pub mod learn;
pub mod mapping;
pub mod named_enum;
pub mod pending;
pub mod plan;
pub mod policy;
pub mod principal;
pub mod script;
pub mod templates;
pub mod text;
pub mod timer;
pub mod timestamp;
pub mod tool_search;
