//! The socket file: its permissions, which files it may replace, and how many connections it
//! accepts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use conductor_core::config::Mcp;
use conductor_core::policy::Policy;
use conductor_daemon::doors::mcp::Shared;
use conductor_daemon::doors::mcp::listener::{Tally, serve};
use conductor_gateway::studio::Settings;
use conductor_hosts::system::listener::{BindError, Listener};
use conductor_testkit::line_client::LineClient;
use conductor_testkit::studio::TestStudio;
use serde_json::json;
use tokio::net::UnixStream;

fn mode(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|it| it.permissions().mode() & 0o777)
}

#[tokio::test]
async fn the_home_is_private_before_the_socket_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("made");
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o755)).expect("set");
    let _listener = Listener::bind(&home.join("mcp.sock")).expect("bound");
    assert_eq!((mode(&home), mode(&home.join("mcp.sock"))), (Some(0o700), Some(0o600)));
}

#[tokio::test]
async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("mcp.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    assert!(path.exists(), "the socket file of a killed daemon is missing");
    let live = Listener::bind(&path).expect("stale, replaced");
    assert!(matches!(Listener::bind(&path), Err(BindError::InUse { .. })));
    assert!(UnixStream::connect(&path).await.is_ok(), "the running daemon does not answer");
    drop(live);
    std::fs::write(home.path().join("plain"), "precious").expect("written");
    assert!(matches!(Listener::bind(&home.path().join("plain")), Err(BindError::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(home.path().join("plain")).ok().as_deref(), Some("precious"));
    let long = home.path().join("x".repeat(120));
    let fault = Listener::bind(&long.join("mcp.sock")).map(|_| ()).map_err(|it| it.to_string());
    assert!(fault.as_ref().is_err_and(|it| it.contains("CONDUCTOR_HOME") && it.contains("103")), "{fault:?}");
    assert!(!long.exists());
}

#[tokio::test]
async fn one_too_many_is_told_and_closed() {
    let mcp = Mcp { max_connections: 2, ..Mcp::default() };
    let studio = TestStudio::with(Policy::default(), Settings { mcp, ..Settings::default() });
    let shared = Shared::new(&studio.studio);
    let tally = Arc::new(Tally::default());
    let listener = Listener::bind(&studio.home.path().join("mcp.sock")).expect("bound");
    tokio::spawn(serve(listener, Arc::clone(&shared), Arc::clone(&tally)));
    let path = studio.home.path().join("mcp.sock");
    let connect =
        || async { LineClient::over(UnixStream::connect(&path).await.expect("the socket refused the connection")) };
    let (mut one, mut two) = (connect().await, connect().await);
    for client in [&mut one, &mut two] {
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    }
    let mut three = connect().await;
    assert_eq!(
        three.next().await,
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "Too many connections" } })
    );
    assert_eq!(three.next_line().await, None);
    drop(one);
    while tally.connected.load(std::sync::atomic::Ordering::Acquire) > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(connect().await.request("ping", json!({})).await["result"], json!({}));
}
