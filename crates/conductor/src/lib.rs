//! The shell of Conductor: everything that touches devices, files, sockets and clocks.

pub mod hosts;
