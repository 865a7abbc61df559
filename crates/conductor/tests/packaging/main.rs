//! Checks the files in `packaging/` and the metadata in the manifest, without a release build.
//! `packaging/check` checks the built artefacts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

use serde_json::Value;
#[cfg(unix)]
use sha2::Digest as _;
use std::path::Path;
#[cfg(unix)]
use std::process::Command;

const MANIFEST: &str = include_str!("../../Cargo.toml");

fn metadata() -> toml::Table {
    let manifest: toml::Table = toml::from_str(MANIFEST).unwrap();
    manifest["package"]["metadata"].as_table().unwrap().clone()
}

/// `cargo binstall` replaces the variables of the URL, and must find the archive that
/// `packaging/dist` writes.
#[test]
fn binstall_finds_the_program_in_the_archive() {
    let version = env!("CARGO_PKG_VERSION");
    let metadata = metadata();
    let binstall = &metadata["binstall"];
    let dist = include_str!("../../../../packaging/dist");
    assert!(dist.contains("\"$out/$1.tar.gz\""), "packaging/dist writes another file name");
    assert!(dist.contains("$stage/bin/conductor"));
    for arch in ["x86_64", "aarch64"] {
        let fill = |key: &str| {
            let filled = binstall[key].as_str().unwrap().replace("{ version }", version);
            filled.replace("{ target-arch }", arch).replace("{ bin }", "conductor")
        };
        let archive = format!("conductor-{version}-{arch}-linux");
        let wanted = format!("{{ repo }}/releases/download/v{version}/{archive}.tar.gz");
        assert_eq!(fill("pkg-url"), wanted);
        assert_eq!(fill("bin-dir"), format!("{archive}/bin/conductor"));
        assert!(dist.contains(&format!("archive \"conductor-$version-{arch}-linux\"")), "no archive for {arch}");
    }
    assert_eq!(binstall["pkg-fmt"].as_str(), Some("tgz"));
}

/// The entry for the registry names the account that publishes, and the digest of the bundle.
#[test]
#[cfg(unix)]
fn the_entry_for_the_registry_needs_an_account() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/registry");
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("bundle.mcpb");
    std::fs::write(&bundle, "a bundle").unwrap();
    let entry = |owner: &str| Command::new(&script).args([owner, "1.2.3"]).arg(&bundle).output().unwrap();
    let written = entry("ada-l");
    assert!(written.status.success(), "{written:?}");
    let written: Value = serde_json::from_slice(&written.stdout).unwrap();
    assert_eq!(written["name"], "io.github.ada-l/conductor");
    let package = &written["packages"][0];
    let address = "https://github.com/ada-l/conductor/releases/download/v1.2.3/conductor-1.2.3-x86_64-linux.mcpb";
    assert_eq!(package["identifier"], address);
    let digest: String = sha2::Sha256::digest("a bundle").iter().map(|it| format!("{it:02x}")).collect();
    assert_eq!(package["fileSha256"], digest.as_str());
    for wrong in ["", "OWNER/x", "-ada", "ada\"", "a b"] {
        let refused = entry(wrong);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{wrong}: {refused:?}");
    }
}

#[test]
fn every_file_of_the_debian_package_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let metadata = metadata();
    let assets = metadata["deb"]["assets"].as_array().unwrap();
    let sources = assets.iter().map(|it| it[0].as_str().unwrap()).filter(|it| !it.contains("/target/"));
    let mut count = 0;
    for source in sources {
        let path = root.join(source.trim_end_matches('*').trim_end_matches("/**/"));
        assert!(path.exists(), "{source}");
        count += 1;
    }
    assert!(count >= 5, "{assets:?}");
    assert!(root.join("../../packaging/deb/postinst").is_file());
}

/// The bundle starts `conductor mcp start`, and its arguments refer to declared settings only.
#[test]
fn the_bundle_starts_a_known_command() {
    let manifest: Value = serde_json::from_str(include_str!("../../../../packaging/mcpb/manifest.json")).unwrap();
    assert_eq!(manifest["manifest_version"], "0.3");
    let arguments = manifest["server"]["mcp_config"]["args"].as_array().unwrap();
    let options = manifest["user_config"].as_object().unwrap();
    for argument in arguments.iter().filter_map(Value::as_str) {
        if let Some(name) = argument.strip_prefix("${user_config.") {
            assert!(options.contains_key(name.trim_end_matches('}')), "{argument}");
        }
    }
    assert!(arguments.iter().any(|it| it == "mcp") && arguments.iter().any(|it| it == "start"));
    let views = options["view"]["description"].as_str().unwrap();
    for view in ["core", "live", "patch", "stage", "seed", "all"] {
        assert!(views.contains(view), "{views}");
    }
}
