//! Serves the Unix socket: local clients connect to it directly or through the stdio proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use conductor_core::audit::record::EventName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connection::{self, READ_CHUNK, Setup};
use super::stdio::BYE;
use super::wire::LineError;
use super::{McpDoor, Shared};
use crate::doors::session::Who;
use crate::release_memory::trim_soon;
use conductor_hosts::system::handoff::{Input, Target, receive_first};
use conductor_hosts::system::listener::{Listener, Peer, Stream, Watched, send_now};
use conductor_hosts::system::open_files::after_failed_accept;

/// Number of descriptors of a connection: the socket, and a copy of it to detect a hang-up.
const PLAIN_DESCRIPTORS: usize = 2;
/// Number of additional descriptors for a proxy's client: input, output, and a copy to detect a
/// hang-up.
const HANDED_DESCRIPTORS: usize = 3;

/// The counters of the socket for `status`.
#[derive(Debug, Default)]
pub struct Tally {
    pub connected: AtomicUsize,
    /// Number of connections of other users, which are closed without a reply.
    pub strangers: AtomicU64,
}

struct Connected(Arc<Tally>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connected.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts connections until the daemon stops.
pub async fn serve(listener: Listener, shared: Arc<Shared>, tally: Arc<Tally>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.stop.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(Some(accepted)) => accepted,
            Ok(None) => {
                tally.strangers.fetch_add(1, Ordering::Relaxed);
                let recorded = shared.studio.audit_event(None, EventName::AuthFailed, json!({ "door": "socket" }));
                tokio::spawn(recorded);
                continue;
            }
            Err(error) => {
                after_failed_accept(&error).await;
                continue;
            }
        };
        let before = tally.connected.fetch_add(1, Ordering::AcqRel);
        let connected = Connected(Arc::clone(&tally));
        let share = shared.descriptors.take(PLAIN_DESCRIPTORS);
        let is_full = before >= shared.studio.settings().mcp.max_connections;
        let Some(share) = share.filter(|_| !is_full) else {
            turn_away(&stream);
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve_stream(&shared, Who::Uid(peer.uid), stream).await;
            drop((connected, share));
            trim_soon(&tokio::runtime::Handle::current());
        });
    }
}

/// Refuses a connection. The write never blocks, because one line fits into the buffer of a new
/// socket.
fn turn_away(stream: &Stream) {
    let line = LineError { code: -32603, message: "Too many connections", id: Value::Null }.to_line();
    send_now(stream, &line);
}

/// Serves one connected socket to its end.
pub async fn serve_stream(shared: &Arc<Shared>, who: Who, mut stream: Stream) {
    let first = tokio::select! {
        first = receive_first(&mut stream, READ_CHUNK) => first,
        () = shared.stop.cancelled() => return,
    };
    let Ok((first, ends)) = first else { return };
    let door = McpDoor::new(shared, who);
    if let Some(pid) = Peer::of(&stream).and_then(|it| it.pid) {
        door.session.register_peer(&shared.clients, pid);
    }
    // The descriptors are closed if the first line is not a hello, if they exceed the limit, or if
    // they cannot be polled. The connection is then served as if none had arrived.
    if let Some(ends) = ends
        && let Some(hello) = proxy_hello(&first)
        && let Some(_share) = shared.descriptors.take(HANDED_DESCRIPTORS)
        && let Ok((input, output, watched)) = ends.drive()
    {
        // The future is boxed, so that the future of a plain connection stays small.
        return Box::pin(serve_handed(door, stream, &hello, input, output, watched)).await;
    }
    let mut setup = Setup::new(shared.studio.settings().mcp.max_message_bytes);
    setup.first = first;
    if let Ok(watched) = Watched::of(&stream) {
        setup.is_gone = Some(Box::new(move || watched.hung_up()));
    }
    let (read, write) = stream.into_split();
    connection::serve(door, read, write, setup).await;
}

/// The hello of a proxy, the only line that may arrive with descriptors.
fn proxy_hello(line: &[u8]) -> Option<Value> {
    let line = line.strip_suffix(b"\n")?;
    let hello: Value = serde_json::from_slice(line).ok()?;
    (hello.get("method") == Some(&Value::from("conductor.hello"))).then_some(hello)
}

/// Serves the client of a proxy directly. Through its socket, the proxy receives only the answer to
/// its hello and one last line.
async fn serve_handed(
    door: Arc<McpDoor>,
    mut proxy: Stream,
    hello: &Value,
    input: Input,
    output: Target,
    watched: Watched,
) {
    door.session.first_message();
    let id = hello.get("id").cloned().unwrap_or_default();
    let (answer, refused) = match door.hello(hello.get("params"), true) {
        Ok(result) => (json!({ "jsonrpc": "2.0", "id": id, "result": result }), false),
        Err(error) => (json!({ "jsonrpc": "2.0", "id": id, "error": error }), true),
    };
    if proxy.write_all(format!("{answer}\n").as_bytes()).await.is_err() || refused {
        return;
    }
    let Ok(proxy_watched) = Watched::of(&proxy) else { return };
    let proxy_watched = Arc::new(proxy_watched);
    let mut setup = Setup::new(door.shared.studio.settings().mcp.max_message_bytes);
    setup.is_gone = Some({
        let proxy = Arc::clone(&proxy_watched);
        Box::new(move || proxy.hung_up() || watched.hung_up())
    });
    let lifeline = setup.lifeline.clone();
    let stop = door.shared.stop.clone();
    let served = connection::serve(door, input, output, setup);
    tokio::pin!(served);
    let mut says = [0; 64];
    loop {
        tokio::select! {
            () = &mut served => break,
            // The proxy sends no data; we only wait for it to close.
            heard = proxy.read(&mut says), if !lifeline.ending.is_cancelled() => match heard {
                Ok(1..) => {}
                // A proxy that received a signal closes one direction: running requests are still
                // answered. A proxy that exited closes both.
                Ok(0) if !proxy_watched.hung_up() => lifeline.ending.cancel(),
                Ok(_) | Err(_) => {
                    lifeline.failed.cancel();
                    lifeline.ending.cancel();
                }
            },
        }
    }
    if !lifeline.failed.is_cancelled() && !stop.is_cancelled() {
        let _ = proxy.write_all(BYE).await;
    }
}
