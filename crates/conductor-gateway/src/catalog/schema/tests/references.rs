use super::*;

/// The reference is refused before any file is opened: opening a pipe would block until another
/// process writes.
#[test]
fn a_reference_to_a_file_opens_no_file() {
    struct Reads;
    impl jsonschema::Retrieve for Reads {
        fn retrieve(&self, uri: &jsonschema::Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
            Ok(serde_json::from_slice(&std::fs::read(uri.path().as_str())?)?)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let held = json!({ "$ref": format!("file://{}", pipe.display()) });
    assert!(matches!(Validator::compile(&held.into()), Err(SchemaError::RemoteRef { .. })));
    // Negative control: a compiler that resolves references reads the file and validates with
    // it.
    let file = folder.path().join("rule.json");
    std::fs::write(&file, "{\"type\":\"integer\"}").unwrap();
    let schema = json!({ "$ref": format!("file://{}", file.display()) });
    assert!(Validator::compile(&schema.clone().into()).is_err());
    let naive = jsonschema::draft202012::options().with_retriever(Reads).build(&schema).unwrap();
    assert!(naive.is_valid(&json!(3)) && !naive.is_valid(&json!("three")));
}
