//! `[http]`: the address, and the accepted tokens and hosts.

use super::*;

#[test]
pub(super) fn http_is_served_where_and_to_whom_the_file_says() {
    let hash = conductor_core::digest::Digest::of(b"open sesame");
    let tokens = format!("[[http.tokens]]\nname = \"ci\"\nhash = \"{hash}\"\nscopes = [\"call\"]\n");
    let head = "[http]\nbind = \"127.0.0.1:0\"\nhosts = [\"studio.example\"]\norigins = [\"https://studio.example\"]\n";
    let studio = Studio::start(&format!("{head}{tokens}"));
    let at = studio.serve();
    // With a method that is not served, a good token gives 405, a bad token 401, and a refused Host
    // 403.
    assert_eq!(studio.knock(at, "open sesame", &[]), 405);
    assert_eq!(studio.knock(at, &studio.default_token(), &[]), 405);
    assert_eq!(studio.knock(at, "open barley", &[]), 401);
    assert_eq!(
        studio.knock(at, "open sesame", &[("Host", "studio.example"), ("Origin", "https://studio.example")]),
        405
    );
    assert_eq!(studio.knock(at, "open sesame", &[("Host", "other.example")]), 403);

    studio.reload(head);
    let gone = || {
        let served = studio.gateway().http.served();
        served.first().is_some_and(|at| studio.knock(*at, "open sesame", &[]) == 401)
    };
    wait_for(PATIENCE, || gone().then_some(())).expect("the removed token is still accepted");
    assert_eq!(studio.gateway().http.served(), [at], "the automatically selected port has changed");
    assert_eq!(studio.knock(at, "open sesame", &[("Host", "studio.example")]), 401);

    // Opening the same address again shares the daemon's own listener, and closing it does not stop
    // the listener.
    assert_eq!(studio.block_on(studio.gateway().http.open(at)).unwrap(), at);
    studio.block_on(studio.gateway().http.close());
    assert_eq!(studio.knock(at, &studio.default_token(), &[]), 405);
    let everywhere = || studio.block_on(studio.gateway().http.open("0.0.0.0:0".parse().unwrap()));
    assert!(everywhere().is_err_and(|it| it.to_string().contains("allow_remote")));
    let observer = tokens.replace("\"call\"", "\"observe\"");
    studio.reload(&format!("{head}allow_remote = true\n{observer}[http.tls]\nself_signed = true\n"));
    wait_for(PATIENCE, || everywhere().ok()).expect("no listener for other machines was opened");
    // The daemon's own listener is opened again with the certificate.
    let encrypted = || {
        let listeners = studio.gateway().http.now();
        listeners.iter().all(|it| it.url.starts_with("https://") && it.fingerprint.is_some()).then_some(())
    };
    wait_for(PATIENCE, encrypted).expect("a listener does not use TLS");
    studio.block_on(studio.gateway().http.close());
    studio.reload(&format!("{head}{observer}"));
    let scoped = || {
        let served = studio.gateway().http.served();
        served.first().is_some_and(|at| studio.knock(*at, &studio.default_token(), &[]) == 405)
    };
    wait_for(PATIENCE, || scoped().then_some(())).expect("no listener without TLS was opened again");
    let at = studio.gateway().http.served()[0];
    assert_eq!(studio.knock(at, "open sesame", &[]), 401, "an observer token was accepted for tool calls");
}

#[test]
pub(super) fn the_certificate_of_the_file_is_used() {
    let studio = Studio::start("[http]\nbind = \"127.0.0.1:0\"\n");
    let names = ["localhost".to_owned()];
    let pair = rcgen::generate_simple_self_signed(names).unwrap();
    let folder = studio.home.path().join("tls");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("c.pem"), pair.cert.pem()).unwrap();
    std::fs::write(folder.join("k.pem"), pair.signing_key.serialize_pem()).unwrap();
    let file = "[http]\nbind = \"127.0.0.1:0\"\n[http.tls]\ncertificate = \"tls/c.pem\"\nkey = \"tls/k.pem\"\n";
    studio.reload(file);
    // Every user can read the key file that `write` created, so the listener does not open.
    assert_eq!(studio.block_on(studio.gateway().http.open_own(None)), None);
    assert!(studio.missing("http").unwrap().contains("every user of this machine can read the key"));
    std::fs::set_permissions(folder.join("k.pem"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(studio.block_on(studio.gateway().http.open_own(None)).is_some(), "{:?}", studio.missing("http"));
    let expected = conductor_core::digest::Digest::of(pair.cert.der());
    assert_eq!(studio.gateway().http.now()[0].fingerprint, Some(expected));
    studio.reload("[http]\nbind = \"127.0.0.1:0\"\n[http.tls]\nself_signed = true\n");
    let replaced = || studio.gateway().http.now().first().and_then(|it| it.fingerprint).filter(|it| *it != expected);
    wait_for(PATIENCE, replaced).expect("the created certificate is not used");
}

#[test]
pub(super) fn a_port_in_use_is_told_and_not_fatal() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let studio = Studio::start(&format!("[http]\nbind = \"{address}\"\n"));
    assert_eq!(studio.missing("http"), None, "the listener is reported as missing before a client has requested it");
    assert_eq!(studio.block_on(studio.gateway().http.open_own(None)), None);
    assert!(studio.missing("http").unwrap().contains("used by another program"));
    assert_eq!(studio.code(&mut studio.client(), test_tools::ECHO), "ok");

    studio.reload("[http]\nbind = \"127.0.0.1:0\"\n");
    wait_for(PATIENCE, || studio.missing("http").is_none().then_some(())).expect("the listener did not open");
    let at = studio.gateway().http.served()[0];
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern(json!({})) });
    assert_eq!(studio.block_on(post_modern(at, &ping)).status, 401, "a token of another home was accepted");
}
