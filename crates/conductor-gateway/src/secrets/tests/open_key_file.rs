use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let secrets = system(home.path(), KeyRung::File, None, None);
    secrets.set("api", VALUE, vec![], true).unwrap();
    std::fs::set_permissions(home.path().join("secrets/key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = got(&system(home.path(), KeyRung::File, None, None), "api").unwrap_err();
    assert!(told.contains("chmod 600"), "{told}");
}
