//! `control.sock`: the human door. JSON-RPC 2.0, one message per line, for the command line and the
//! console.
//!
//! Not here: MCP and the direct dialect, which have doors of their own and can decide nothing. Who
//! counts as a person is [`person`]'s.

pub mod client;
mod decisions;
pub mod methods;
pub mod person;
mod play;
mod plugins;
mod secrets;

use crate::doors::client_processes::ClientProcesses;
use crate::gateway::Gateway;
use crate::home::Home;
use conductor_core::error::ToolError;
use conductor_core::event::Micros;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_hosts::connection_limits::{HumanConnection, HumanConnections, Spare};
use conductor_hosts::system::listener::{Listener, Peer};
use conductor_hosts::system::open_files::after_failed_accept;
use conductor_hosts::system::processes;
use methods::{Answer, Method};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest line either side accepts.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// What the methods of this door may need. Built once by the daemon.
pub struct Control {
    pub handle: OwnerHandle,
    pub home: Home,
    pub stop: CancellationToken,
    /// Processes of AI clients; the doors of AI clients fill it.
    pub clients: Arc<ClientProcesses>,
    pub gateway: Arc<Gateway>,
}

/// Who asks, and on which connection.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub peer: Peer,
    pub connection: u64,
}

/// Numbers of this door's connections lie above those of every other door, so that two doors never
/// share one in the ledger.
const FIRST_CONNECTION: u64 = 1 << 63;

impl Control {
    /// By the daemon's clock.
    pub fn now(&self) -> Micros {
        self.gateway.studio.clock.now()
    }

    /// The hook every deciding method goes through.
    pub fn recognise(&self, peer: Peer) -> Result<person::Person, person::NotAPerson> {
        let approval = &self.gateway.studio.policy().policy.approval;
        let clients = if approval.refuse_descendants { self.clients.clients(approval.ttl_ms) } else { Vec::new() };
        person::recognise(peer, &clients, processes::find)
    }

    /// While the performance lock is on, only a recognised person changes what is on stage.
    pub async fn may_change_the_stage(&self, peer: Peer, what: &str) -> Result<(), ToolError> {
        if self.recognise(peer).is_ok() || !self.handle.status().await?.performance_lock {
            return Ok(());
        }
        Err(conductor_gateway::tools::daemon::locked(what))
    }
}

/// Accepts until the daemon stops; then waits for the answers that are under way.
pub async fn serve(control: Arc<Control>, socket: Listener) {
    let connections = TaskTracker::new();
    let mut connection = FIRST_CONNECTION;
    let open = HumanConnections::new();
    let mut spare = Spare::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = control.stop.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(Some(accepted)) => accepted,
            Ok(None) => continue,
            // Whatever else holds all descriptors, this door has some of its own.
            Err(_) if spare.free_one() => continue,
            Err(fault) => {
                after_failed_accept(&fault).await;
                spare.refill();
                continue;
            }
        };
        spare.refill();
        let control = control.clone();
        connection += 1;
        let caller = Caller { peer, connection };
        let place = open.add(connection);
        connections.spawn(async move {
            let (input, mut output) = stream.into_split();
            // A peer that hangs up in the middle of its answer is its own affair.
            let _ = converse(&control, input, &mut output, caller, &place).await;
            control.handle.tool_gone(caller.connection);
            // Before the peer sees the end: it may bind the port again then.
            control.gateway.http.release(None, caller.connection).await;
            drop(output);
        });
    }
    // The file goes first, so that nobody connects to a daemon that will not answer.
    drop(socket);
    connections.close();
    connections.wait().await;
}

async fn converse(
    control: &Control,
    input: OwnedReadHalf,
    output: &mut OwnedWriteHalf,
    caller: Caller,
    place: &HumanConnection,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut input).take(MAX_LINE as u64 + 1);
        // One that holds a listener waits for its own end, and is not in the way.
        place.set_idle(!control.gateway.http.holds(caller.connection));
        let read = tokio::select! {
            read = bounded.read_until(b'\n', &mut line) => read?,
            () = place.end.cancelled() => return Ok(()),
            () = control.stop.cancelled() => return Ok(()),
        };
        place.set_idle(false);
        if read == 0 {
            return Ok(());
        }
        if line.len() > MAX_LINE {
            let refusal = fault(Value::Null, -32600, format!("a line has at most {MAX_LINE} bytes"));
            return write_line(control, output, refusal).await;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (id, method, params) = match parse(&line) {
            Ok(request) => request,
            Err(refusal) => {
                write_line(control, output, refusal).await?;
                continue;
            }
        };
        let answer = methods::answer(control, caller, method, params);
        // Playing takes its time, and ends with the player.
        let answer = if method == Method::Play {
            tokio::select! {
                answer = answer => answer,
                () = hung_up(&mut input) => return Ok(()),
                () = control.stop.cancelled() => return Ok(()),
            }
        } else {
            answer.await
        };
        match answer {
            Ok(Answer::Value(result)) => write_line(control, output, result_line(&id, &result)).await?,
            Ok(Answer::Stream(mut stream)) => {
                write_line(control, output, result_line(&id, &json!({ "streaming": true }))).await?;
                loop {
                    let item = tokio::select! {
                        // What is there already is told before the end is.
                        biased;
                        item = stream.next() => item,
                        // Anything said now, or a closed connection, ends the stream.
                        _ = input.read_u8() => return Ok(()),
                        () = control.stop.cancelled() => return Ok(()),
                    };
                    let Some(item) = item else { return Ok(()) };
                    let note = json!({ "jsonrpc": "2.0", "method": method.name(), "params": item });
                    write_line(control, output, note).await?;
                }
            }
            Err(error) => write_line(control, output, error_line(&id, &error)).await?,
        }
    }
}

/// Done when the peer has closed its end; what it says before that stays to be read.
async fn hung_up(input: &mut (impl AsyncBufRead + Unpin)) {
    match input.fill_buf().await {
        Ok(said) if !said.is_empty() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

/// A request, or the answer to what is not one.
fn parse(line: &[u8]) -> Result<(Value, Method, Value), Value> {
    let request: Value = serde_json::from_slice(line)
        .map_err(|error| fault(Value::Null, -32700, format!("this line is not JSON: {error}")))?;
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let is_id = id.is_string() || id.is_number();
    let name = request.get("method").and_then(Value::as_str);
    let (true, Some(name)) = (is_id, name) else {
        let id = if is_id { id } else { Value::Null };
        return Err(fault(id, -32600, "a request has an id (text or number) and a method".to_owned()));
    };
    let Some(method) = Method::from_name(name) else {
        let known: Vec<&str> = Method::ALL.iter().map(|it| it.name()).collect();
        return Err(fault(id, -32601, format!("no method '{name}'; there are: {}", known.join(", "))));
    };
    let params = match request.get("params") {
        None | Some(Value::Null) => json!({}),
        Some(params) => params.clone(),
    };
    Ok((id, method, params))
}

fn fault(id: Value, number: i32, message: String) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": number, "message": message } })
}

fn result_line(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn error_line(id: &Value, error: &ToolError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": {
        "code": error.direct_number(), "message": error.message, "data": error.to_wire(),
    } })
}

/// The one way out of this door, and so where secrets are kept in.
async fn write_line(control: &Control, output: &mut (impl AsyncWriteExt + Unpin), mut value: Value) -> io::Result<()> {
    control.gateway.studio.scrubber.value(&mut value);
    let mut bytes = serde_json::to_vec(&value)?;
    bytes.push(b'\n');
    output.write_all(&bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (i64, Value) {
        let refusal = parse(line.as_bytes()).unwrap_err();
        (refusal["error"]["code"].as_i64().unwrap(), refusal["id"].clone())
    }

    #[test]
    fn what_is_not_a_request_gets_the_number_of_its_fault() {
        assert_eq!(refused("{"), (-32700, Value::Null));
        assert_eq!(refused("[]"), (-32600, Value::Null));
        assert_eq!(refused(r#"{"method":"status"}"#), (-32600, Value::Null));
        assert_eq!(refused(r#"{"id":{},"method":"status"}"#), (-32600, Value::Null));
        assert_eq!(refused(r#"{"id":3}"#), (-32600, json!(3)));
        assert_eq!(refused(r#"{"id":"a","method":"statuz"}"#), (-32601, json!("a")));
    }

    #[test]
    fn absent_params_are_an_empty_object() {
        let (id, method, params) = parse(br#"{"jsonrpc":"2.0","id":1,"method":"status"}"#).unwrap();
        assert_eq!((id, method, params), (json!(1), Method::Status, json!({})));
    }
}
