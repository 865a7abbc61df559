//! `web.fetch` of a running daemon over TLS, from a third-party server whose certificate authority
//! is unknown until a person configures it.

use super::observe::{address_of, ask, token_row};
use super::studio::{Studio, text};
use conductor_testkit::http_client::{self, TOKEN};
use conductor_testkit::line_client::modern;
use conductor_testkit::real::Missing;
use conductor_testkit::require;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SERVER: &str = r#"
import http.server, ssl, sys
folder, log = sys.argv[1], open(sys.argv[1] + "/asked", "w")
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, dict(self.headers), file=log, flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "8")
        self.end_headers()
        self.wfile.write(b"over tls")
    def log_message(self, *_): pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/leaf.pem", folder + "/leaf.key")
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A server with a certificate for `localhost`, signed by its own authority.
struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Result<Self, Missing> {
        let missing = |part: &'static str, why: String| Missing { part, package: part, why };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("names"), "subjectAltName=DNS:localhost\n").unwrap();
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let steps: [&[&str]; 3] = [
            &["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2"],
            &["req", "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=localhost"],
            &[
                "x509",
                "-req",
                "-in",
                "leaf.csr",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-out",
                "leaf.pem",
                "-days",
                "2",
                "-extfile",
                "names",
            ],
        ];
        for step in steps {
            let mut openssl = Command::new("openssl");
            openssl.args(step).current_dir(folder.path());
            if step[0] == "req" {
                openssl.args(key);
            }
            let made = openssl.output().map_err(|fault| missing("openssl", fault.to_string()))?;
            assert!(made.status.success(), "{}", text(&made.stderr));
        }
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .arg(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|fault| missing("python3", fault.to_string()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Ok(Server { child, port, folder })
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The received requests with all headers, one per line.
    fn heads(&self) -> String {
        std::fs::read_to_string(self.file("asked")).unwrap()
    }

    /// Number of requested pages.
    fn asked(&self) -> usize {
        self.heads().lines().count()
    }
}

fn fetch(server: &Server, trust: Option<&Path>, host: &str) -> Result<Value, Value> {
    let mut studio = Studio::empty();
    if let Some(trust) = trust {
        studio.set("SSL_CERT_FILE", trust.to_str().unwrap());
        // The environment may also name a folder of certificate authorities, so set it to an empty
        // one.
        let empty = trust.with_extension("none");
        std::fs::create_dir_all(&empty).unwrap();
        studio.set("SSL_CERT_DIR", empty.to_str().unwrap());
    }
    let own = format!("{host}:{}", server.port);
    std::fs::write(studio.config_file(), format!("schema = 1\n[tools.web]\nallow_hosts = [\"{own}\"]\n")).unwrap();
    studio.up(&[]);
    let call = json!({ "tool": "web.fetch", "arguments": { "url": format!("https://{own}/page") } });
    match studio.control().ask("call", call) {
        Ok(value) => Ok(value),
        Err(conductor_daemon::doors::control::client::ClientError::Refused(refused)) => Err(refused.data),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_nobody_trusts_is_refused_and_one_of_a_trusted_authority_is_not() {
    let server = require!(Server::start());
    let authority = server.file("ca.pem");
    let refused = fetch(&server, None, "localhost").unwrap_err();
    assert_eq!(refused["code"], "DENIED", "{refused}");
    assert!(
        refused["message"].as_str().unwrap().starts_with("the certificate of localhost is not trusted: "),
        "{refused}"
    );
    assert!(refused["hint"].as_str().unwrap().contains("SSL_CERT_FILE"), "{refused}");
    // The certificate is refused with another authority, and for another host name.
    let stranger = require!(Server::start());
    assert_eq!(fetch(&server, Some(&stranger.file("ca.pem")), "localhost").unwrap_err()["code"], "DENIED");
    let misnamed = fetch(&server, Some(&authority), "127.0.0.1").unwrap_err();
    assert_eq!(misnamed["code"], "DENIED", "{misnamed}");
    assert_eq!(server.asked(), 0, "a request was sent before the certificate was verified");

    let page = fetch(&server, Some(&authority), "localhost").unwrap();
    assert_eq!((&page["status"], &page["content"]), (&json!(200), &json!("over tls")));
    assert_eq!(server.asked(), 1);

    // Negative control: a client that does not verify the certificate gets the page from the same
    // server.
    let naive =
        Command::new("curl").args(["-sk", &format!("https://localhost:{}/naive", server.port)]).output().unwrap();
    assert_eq!(text(&naive.stdout), "over tls");
    assert_eq!(server.asked(), 2);
}

/// A minimal system has no package ca-certificates. Only fetching over TLS needs it.
#[test]
fn a_machine_without_certificate_authorities_starts_and_names_what_is_missing() {
    let server = require!(Server::start());
    let nothing = server.file("no-such-file");
    let refused = fetch(&server, Some(&nothing), "localhost").unwrap_err();
    assert_eq!(refused["code"], "DENIED", "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("no certificate authorities") && message.contains("ca-certificates"), "{refused}");
    assert_eq!(server.asked(), 0);
}

/// The token of our HTTP door must not be sent to other servers.
#[test]
fn the_token_of_a_caller_is_not_passed_on() {
    let server = require!(Server::start());
    let own = format!("localhost:{}", server.port);
    let mut studio = Studio::empty();
    studio.set("SSL_CERT_FILE", server.file("ca.pem").to_str().unwrap());
    let config = format!("schema = 1\n{}[tools.web]\nallow_hosts = [\"{own}\"]\n", token_row());
    std::fs::write(studio.config_file(), config).unwrap();
    let address = address_of(&studio.up(&[]));
    let body = json!({ "url": format!("https://{own}/page") }).to_string();
    let answer = ask(address, "POST", "/tools/web.fetch", &body);
    assert_eq!((answer.status, &answer.json()["result"]["content"]), (200, &json!("over tls")), "{answer:?}");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(json!({ "name": "web_fetch", "arguments": { "url": format!("https://{own}/mcp") } })) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(http_client::post_modern(address, &call));
    assert!(answer.body.contains("over tls"), "{answer:?}");
    assert_eq!(server.asked(), 2);
    let heads = server.heads();
    assert!(!heads.contains(TOKEN) && !heads.to_lowercase().contains("authorization"), "{heads}");
    // Negative control: a client that does send the header is visible at the server.
    let bearer = format!("Authorization: Bearer {TOKEN}");
    Command::new("curl").args(["-sk", "-H", &bearer, &format!("https://{own}/naive")]).output().unwrap();
    assert!(server.heads().contains(TOKEN));
}
