//! Systems whose volume is set with a program.

use super::{Unavailable, Volume};

pub fn set(_: Volume) -> Option<Result<(), Unavailable>> {
    None
}
