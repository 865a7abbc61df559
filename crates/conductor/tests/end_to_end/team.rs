//! A server that a team shares: TLS, tokens and webhooks, used by programs that are not part of
//! Conductor.

use super::studio::{Studio, text};
use serde_json::Value;
use std::process::{Command, Output};

const TLS: &str = "schema = 1\n[http]\nallow_remote = true\nhosts = [\"studio.test:3443\"]\n[http.tls]\nself_signed = true\n";

/// The port of the daemon's own listener.
fn port_of(ready: &Value) -> String {
    let url = ready["http"].as_str().expect("a listener");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    url.trim_end_matches("/mcp").rsplit_once(':').unwrap().1.to_owned()
}

/// Runs curl, which trusts only the certificate of this studio.
fn curl(studio: &Studio, arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert"])
        .arg(studio.home().join("state/http-certificate.pem"))
        .args(arguments)
        .output()
        .unwrap()
}

fn token(studio: &Studio) -> String {
    let token = std::fs::read_to_string(studio.home().join("state/http.token")).unwrap();
    format!("Authorization: Bearer {token}")
}

#[test]
fn other_machines_connect_only_over_tls() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), TLS).unwrap();
    let port = port_of(&studio.up(&["--http", "0.0.0.0:0"]));
    let base = format!("https://127.0.0.1:{port}");

    // The same request over both versions of HTTP.
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let url = format!("{base}/tools/conductor_list_modes");
        let answer =
            curl(&studio, &[flag, "-H", &token(&studio), "-d", "{}", "-w", "\n%{http_version} %{http_code}", &url]);
        let shown = text(&answer.stdout);
        assert!(shown.ends_with(&format!("\n{version} 200")), "{shown} {}", text(&answer.stderr));
        assert!(shown.contains("\"result\""), "{shown}");
    }
    // A client that does not know the certificate does not connect.
    let stranger = Command::new("curl").args(["-sS", "--max-time", "20", &format!("{base}/health")]).output().unwrap();
    assert!(!stranger.status.success() && text(&stranger.stderr).contains("certificate"), "{}", text(&stranger.stderr));
    // Plain HTTP is refused with a clear reason, and the token changes nothing.
    let plain = curl(&studio, &["-H", &token(&studio), "-w", " %{http_code}", &format!("http://127.0.0.1:{port}/health")]);
    let shown = text(&plain.stdout);
    assert!(shown.contains("only HTTPS") && shown.ends_with("400"), "{shown}");
    // A listed name is accepted, and an unknown one is not.
    let by_name = |name: &str| {
        let host = format!("Host: {name}");
        let answer = curl(&studio, &["-H", &host, "-w", " %{http_code}", &format!("{base}/health")]);
        text(&answer.stdout)
    };
    assert!(by_name("studio.test:3443").ends_with("200"));
    let unknown = by_name("evil.test:3443");
    assert!(unknown.ends_with("403") && unknown.contains("this Host is not allowed"), "{unknown}");

    // The fingerprint in `status` and `http pair` is the one that OpenSSL computes.
    let certificate = studio.home().join("state/http-certificate.pem");
    let openssl = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
        .arg(&certificate)
        .output()
        .unwrap();
    let expected = text(&openssl.stdout).trim().rsplit_once('=').unwrap().1.to_owned();
    let shown = text(&studio.run(&["http", "pair"]).stdout);
    assert!(shown.contains(&expected), "{shown}");
    assert!(shown.contains("https://studio.test:3443") && shown.contains('\u{2588}'), "{shown}");
    let digest = format!("sha256:{}", expected.replace(':', "").to_lowercase());
    assert_eq!(studio.status()["http"][0]["fingerprint"], digest.as_str());
    assert!(text(&studio.run(&["status"]).stdout).contains(&digest));

    // The certificate stays the same after a restart.
    studio.stop();
    studio.up(&["--http", "0.0.0.0:0"]);
    assert_eq!(studio.status()["http"][0]["fingerprint"], digest.as_str());
}

#[test]
fn plain_http_is_never_served_to_other_machines() {
    let mut studio = Studio::empty();
    std::fs::write(studio.config_file(), "schema = 1\n[http]\nallow_remote = true\n").unwrap();
    let ready = studio.up(&["--http", "0.0.0.0:0"]);
    assert!(ready["http"].is_null(), "{ready}");
    let status = text(&studio.run(&["status"]).stdout);
    assert!(status.contains("[http.tls]"), "{status}");
    let check = studio.run(&["config", "check"]);
    let shown = text(&check.stdout) + &text(&check.stderr);
    assert!(!check.status.success() && shown.contains("add [http.tls]"), "{shown}");
}
