//! An allowed host answers with a redirect to a host that is not allowed.

use crate::rig::{Rig, settle};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// An allowed host that redirects every request.
fn redirector(to: Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let to = to.lock().unwrap().clone();
            let _ = write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    port
}

#[test]
fn a_redirect_leads_no_further_than_a_person_allowed() {
    let to = Arc::new(Mutex::new(String::new()));
    let port = redirector(Arc::clone(&to));
    let config = format!("[tools.web]\nallow_hosts = [\"127.0.0.1:{port}\"]\nhttp_hosts = [\"127.0.0.1:{port}\"]\n");
    let rig = Rig::start(&config);
    let mut model = rig.model();
    let trap = rig.trap.tcp;
    for target in [
        format!("http://127.0.0.1:{trap}/?data=stolen"),
        format!("http://localhost:{trap}/"),
        format!("http://localhost.:{trap}/"),
        format!("http://127.1:{trap}/"),
        format!("http://0x7f000001:{trap}/"),
        format!("http://[::ffff:127.0.0.1]:{trap}/"),
        format!("//127.0.0.1:{trap}/"),
        format!("http://127.0.0.1:{port}@127.0.0.1:{trap}/"),
        "https://never-named.test/stolen?data=abc".to_owned(),
    ] {
        to.lock().unwrap().clone_from(&target);
        let answer = model.call("web.fetch", json!({ "url": format!("http://127.0.0.1:{port}/go") }));
        assert!(!answer.to_string().contains("cannot be resolved"), "the host of {target} was resolved: {answer}");
        // Request the same target directly, without the redirect.
        let direct = if target.starts_with("//") { format!("http:{target}") } else { target };
        let answer = model.call("web.fetch", json!({ "url": direct }));
        assert!(answer["status"].is_null(), "{direct}: {answer}");
    }
    drop(model);
    settle(&rig);
    rig.assert_unharmed();
}
