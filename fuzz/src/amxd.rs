//! `.amxd` files; see `patch`.

pub fn check(data: &[u8]) {
    crate::patch::check(data, conductor_patch::Format::Amxd);
}
