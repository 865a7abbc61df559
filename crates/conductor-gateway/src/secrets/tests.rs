use super::*;
use conductor_hosts::system::RandomIds;
use conductor_hosts::system::files;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
mod open_key_file;

/// A keychain in memory that can become unavailable.
#[derive(Default)]
struct Shelf {
    keys: Mutex<Vec<Key>>,
    gone: AtomicBool,
    fail_forget: AtomicBool,
}

impl KeyHolders for Arc<Shelf> {
    fn probe(&self, _: KeyRung) -> Result<(), String> {
        if self.gone.load(Ordering::SeqCst) { Err("the OS keychain is locked".into()) } else { Ok(()) }
    }

    fn load(&self, rung: KeyRung, _: &Place<'_>) -> Result<Vec<Key>, String> {
        self.probe(rung)?;
        Ok(self.keys.lock().clone())
    }

    fn add(&self, rung: KeyRung, _: &Place<'_>, key: &Key) -> Result<(), String> {
        self.probe(rung)?;
        self.keys.lock().push(key.clone());
        Ok(())
    }

    fn forget(&self, rung: KeyRung, _: &Place<'_>, id: &str) -> Result<(), String> {
        self.probe(rung)?;
        if self.fail_forget.load(Ordering::SeqCst) {
            return Err("not now".into());
        }
        self.keys.lock().retain(|it| it.id() != id);
        Ok(())
    }

    fn take_passphrase(&self, _: SecretString) {}
}

fn with(home: &Path, rung: KeyRung, holders: Box<dyn KeyHolders>) -> Arc<Secrets> {
    Secrets::new(home, rung, holders, Arc::new(RandomIds), Scrubber::new())
}

fn on_shelf(home: &Path, shelf: &Arc<Shelf>) -> Arc<Secrets> {
    with(home, KeyRung::Keychain, Box::new(Arc::clone(shelf)))
}

fn system(home: &Path, rung: KeyRung, passphrase: Option<&str>, credentials: Option<&Path>) -> Arc<Secrets> {
    let secrets = with(home, rung, Box::new(SystemKeys::new(credentials.map(Path::to_owned))));
    if let Some(passphrase) = passphrase {
        secrets.give_passphrase(SecretString::from(passphrase.to_owned()));
    }
    secrets
}

const VALUE: &str = "hunter2-hunter2";

fn got(secrets: &Secrets, name: &str) -> Result<String, String> {
    secrets.get(name).map(|it| it.expose().to_owned()).map_err(|fault| fault.to_string())
}

#[test]
fn a_secret_is_sealed_on_disk_and_comes_back_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    let secrets = on_shelf(home.path(), &shelf);
    assert_eq!(secrets.set("api", VALUE, vec!["api.example".into()], false).unwrap(), 1);
    assert_eq!(secrets.set("api", VALUE, vec!["api.example".into()], false).unwrap(), 2, "the version is not 2");
    secrets.set("db", "another-value", vec![], false).unwrap();
    let file = std::fs::read_to_string(home.path().join("secrets/vault.json")).unwrap();
    assert!(!file.contains(VALUE) && file.contains("\"api\""));
    let vault = home.path().join("secrets/vault.json");
    assert!(!files::is_open_to_others(&vault, &vault.metadata().unwrap()));

    let again = on_shelf(home.path(), &shelf);
    assert_eq!(got(&again, "api").unwrap(), VALUE);
    assert_eq!(again.get("api").unwrap().hosts(), ["api.example"]);
    assert_eq!(again.scrubber().text(VALUE), "[secret:api]", "a value of the open vault was not replaced");
    again.remove("api").unwrap();
    assert!(got(&again, "api").unwrap_err().contains("no secret"));
    for bad in ["", "A", "a b", "../x", "-x", &"a".repeat(65)] {
        assert!(matches!(again.set(bad, VALUE, vec![], false), Err(SecretError::BadName(_))), "{bad}");
    }
}

/// Swapped ciphertexts, another host, another version and another installation are all detected. A
/// vault without associated data would open all of these values.
#[test]
fn sealed_values_cannot_change_places_nor_gain_a_host() {
    let home = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    let secrets = on_shelf(home.path(), &shelf);
    secrets.set("cheap", "cheap-value", vec!["a.example".into()], false).unwrap();
    secrets.set("dear", "dear-value-1", vec!["b.example".into()], false).unwrap();
    let path = home.path().join("secrets/vault.json");
    let before: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let tampered = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut vault = before.clone();
        change(&mut vault);
        std::fs::write(&path, vault.to_string()).unwrap();
        let opened = on_shelf(home.path(), &shelf);
        (got(&opened, "cheap"), got(&opened, "dear"))
    };
    assert_eq!(tampered(&|_| {}), (Ok("cheap-value".into()), Ok("dear-value-1".into())));
    let (cheap, dear) = tampered(&|vault| {
        for part in ["nonce", "ciphertext"] {
            let cheap = vault["secrets"]["cheap"][part].take();
            vault["secrets"]["cheap"][part] = vault["secrets"]["dear"][part].take();
            vault["secrets"]["dear"][part] = cheap;
        }
    });
    assert!(cheap.is_err() && dear.is_err(), "{cheap:?} {dear:?}");
    let (_, dear) = tampered(&|vault| vault["secrets"]["dear"]["hosts"] = serde_json::json!(["evil.example"]));
    assert!(dear.is_err());
    let (_, dear) = tampered(&|vault| vault["secrets"]["dear"]["version"] = serde_json::json!(7));
    assert!(dear.is_err());
    // Negative control: a value that is sealed without associated data can be opened under any name
    // and for any host.
    {
        use aes_gcm::aead::{Aead, KeyInit};
        let cipher = aes_gcm::Aes256Gcm::new(&[7; 32].into());
        let seal =
            |nonce: u8, value: &str| ([nonce; 12], cipher.encrypt(&[nonce; 12].into(), value.as_bytes()).unwrap());
        let mut naive =
            std::collections::BTreeMap::from([("cheap", seal(1, "cheap-value")), ("dear", seal(2, "dear-value-1"))]);
        let cheap = naive.insert("cheap", naive["dear"].clone()).unwrap();
        naive.insert("dear", cheap);
        let (nonce, sealed) = &naive["cheap"];
        assert_eq!(cipher.decrypt(&(*nonce).into(), sealed.as_slice()).unwrap(), b"dear-value-1");
    }
    let (_, dear) = tampered(&|vault| vault["install"] = serde_json::json!("5e0c8b1e-0000-4000-8000-000000000001"));
    assert!(dear.is_err());
}

#[test]
fn a_holder_that_is_gone_locks_and_nothing_takes_its_place() {
    let home = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    on_shelf(home.path(), &shelf).set("api", VALUE, vec![], false).unwrap();
    shelf.gone.store(true, Ordering::SeqCst);
    let secrets = on_shelf(home.path(), &shelf);
    assert!(matches!(secrets.get("api"), Err(SecretError::Locked(_))));
    assert!(
        matches!(secrets.set("x", VALUE, vec![], true), Err(SecretError::Locked(_))),
        "a value was stored, although the keychain is locked"
    );
    let status = secrets.status();
    assert_eq!((status.open, status.sentence.as_str(), status.count), (false, "locked: the OS keychain is locked", 1));
    assert_eq!(secrets.list().unwrap()[0].name, "api", "the wrong name was listed while the vault was locked");
    assert!(!home.path().join("secrets/key").exists());
    // When the keychain is available again, the vault opens by itself.
    shelf.gone.store(false, Ordering::SeqCst);
    assert_eq!(got(&secrets, "api").unwrap(), VALUE);
    assert_eq!(secrets.status().sentence, "key held by the OS keychain");
}

#[test]
fn another_key_opens_nothing() {
    let home = tempfile::tempdir().unwrap();
    on_shelf(home.path(), &Arc::new(Shelf::default())).set("api", VALUE, vec![], false).unwrap();
    let other = on_shelf(home.path(), &Arc::new(Shelf::default()));
    let told = got(&other, "api").unwrap_err();
    assert!(told.contains("were encrypted with a different key"), "{told}");
}

#[test]
fn a_rotation_seals_all_anew_and_survives_a_holder_that_keeps_the_old_key() {
    let home = tempfile::tempdir().unwrap();
    let shelf = Arc::new(Shelf::default());
    let secrets = on_shelf(home.path(), &shelf);
    secrets.set("one", "value-one", vec![], false).unwrap();
    secrets.set("two", "value-two", vec!["h".into()], false).unwrap();
    let ids = || shelf.keys.lock().iter().map(Key::id).collect::<Vec<_>>();
    let old = ids();
    let vault = || std::fs::read_to_string(home.path().join("secrets/vault.json")).unwrap();
    let sealed = vault();
    assert_eq!(secrets.rotate().unwrap(), 2);
    assert!(ids().len() == 1 && ids() != old && !vault().contains(&old[0]), "{:?}", ids());
    assert_ne!(sealed, vault());
    shelf.fail_forget.store(true, Ordering::SeqCst);
    secrets.rotate().unwrap();
    assert_eq!(ids().len(), 2);
    let again = on_shelf(home.path(), &shelf);
    assert_eq!((got(&again, "one").unwrap(), got(&again, "two").unwrap()), ("value-one".into(), "value-two".into()));
    assert_eq!(again.get("two").unwrap().hosts(), ["h"]);
}

#[test]
fn a_key_file_appears_only_when_it_is_asked_for_and_is_called_what_it_is() {
    let home = tempfile::tempdir().unwrap();
    let secrets = system(home.path(), KeyRung::File, None, None);
    let refused = secrets.set("api", VALUE, vec![], false).unwrap_err().to_string();
    assert!(refused.contains("--allow-key-file") && refused.contains(keys::sentence(KeyRung::File)), "{refused}");
    assert!(!home.path().join("secrets/key").exists());
    secrets.set("api", VALUE, vec![], true).unwrap();
    assert_eq!(secrets.status().sentence, keys::sentence(KeyRung::File));
    assert_eq!(got(&system(home.path(), KeyRung::File, None, None), "api").unwrap(), VALUE);
    secrets.rotate().unwrap();
    assert_eq!(got(&system(home.path(), KeyRung::File, None, None), "api").unwrap(), VALUE);
    let key = home.path().join("secrets/key");
    assert!(!files::is_open_to_others(&key, &key.metadata().unwrap()));
}

#[test]
fn a_credential_of_the_service_manager_and_a_passphrase() {
    let home = tempfile::tempdir().unwrap();
    let none = system(home.path(), KeyRung::Credential, None, None);
    assert!(none.status().sentence.contains("CREDENTIALS_DIRECTORY"), "{}", none.status().sentence);
    let folder = tempfile::tempdir().unwrap();
    let empty = system(home.path(), KeyRung::Credential, None, Some(folder.path()));
    assert!(empty.status().sentence.contains("conductor-key"));
    std::fs::write(folder.path().join("conductor-key"), [7; 32]).unwrap();
    let secrets = system(home.path(), KeyRung::Credential, None, Some(folder.path()));
    secrets.set("api", VALUE, vec![], false).unwrap();
    assert_eq!(secrets.status().sentence, "key supplied by the service manager");
    assert!(matches!(secrets.rotate(), Err(SecretError::NoRotation)));

    let home = tempfile::tempdir().unwrap();
    let secrets = system(home.path(), KeyRung::Passphrase, Some("correct horse"), None);
    secrets.set("api", VALUE, vec![], false).unwrap();
    assert_eq!(secrets.status().sentence, "key derived from the passphrase typed at start");
    secrets.rotate().unwrap();
    assert_eq!(got(&system(home.path(), KeyRung::Passphrase, Some("correct horse"), None), "api").unwrap(), VALUE);
    assert!(got(&system(home.path(), KeyRung::Passphrase, Some("wrong horse"), None), "api").is_err());
    assert!(got(&system(home.path(), KeyRung::Passphrase, None, None), "api").unwrap_err().contains("no passphrase"));
    assert!(!home.path().join("secrets/key").exists());
}

#[test]
fn a_damaged_key_of_a_home_is_an_error_unless_it_may_be_replaced() {
    let home = tempfile::tempdir().unwrap();
    let first = home_key(home.path(), "rig.key", &RandomIds).unwrap();
    assert_eq!(home_key(home.path(), "rig.key", &RandomIds).unwrap(), first);
    let path = home.path().join("secrets/rig.key");
    std::fs::write(&path, &first[..31]).unwrap();
    let short = home_key(home.path(), "rig.key", &RandomIds).unwrap_err().to_string();
    assert!(short.contains(&path.display().to_string()) && short.contains("31 bytes"), "{short}");
    assert_eq!(std::fs::read(&path).unwrap(), &first[..31], "the damaged file was changed");

    let mut warning = String::new();
    let new = home_key_or_new(home.path(), "rig.key", &RandomIds, |it| warning = it.to_string()).unwrap();
    assert_eq!(warning, short);
    assert_eq!(home_key(home.path(), "rig.key", &RandomIds).unwrap(), new);
    let silent = |it: &io::Error| panic!("{it}");
    assert_eq!(home_key_or_new(home.path(), "rig.key", &RandomIds, silent).unwrap(), new);
    home_key_or_new(home.path(), "plans.key", &RandomIds, silent).unwrap();

    // A file that cannot be read, for every user: a folder.
    std::fs::create_dir(home.path().join("secrets/decider.key")).unwrap();
    let folder = home_key(home.path(), "decider.key", &RandomIds).unwrap_err().to_string();
    assert!(folder.contains("decider.key") && folder.contains("delete it"), "{folder}");
}
