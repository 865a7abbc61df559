//! `control.sock`, also named the human door: JSON-RPC 2.0, one message per line, for the command
//! line.
//!
//! A request is a decision, a read that a decision needs, an operation on a secret, a stream, or
//! `call`, which runs any listed tool through the pipeline. Not here: MCP, which has no request
//! that decides anything, and the rule for who counts as a person ([`person`]).

pub mod call;
pub mod client;
pub mod decisions;
pub mod methods;
pub mod person;
mod play;
mod plugins;
mod secrets;
mod streams;

use crate::doors::client_processes::ClientProcesses;
use crate::gateway::Gateway;
use crate::home::Home;
use conductor_core::error::{Code, RefusedBy, ToolError};
use conductor_core::event::Micros;
use conductor_core::principal::Principal;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_hosts::connection_limits::{HumanConnection, HumanConnections, Spare};
use conductor_hosts::system::listener::{Listener, Peer, ReadHalf, WriteHalf};
use conductor_hosts::system::open_files::after_failed_accept;
use conductor_hosts::system::processes;
use methods::{Answer, Request};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest line that either side accepts, in bytes.
pub const MAX_LINE: usize = 4 * 1024 * 1024;

/// The parts of the daemon that requests on `control.sock` use.
pub struct Control {
    pub handle: OwnerHandle,
    pub home: Home,
    pub stop: CancellationToken,
    /// Processes of AI clients. The MCP and HTTP doors register them.
    pub clients: Arc<ClientProcesses>,
    pub gateway: Arc<Gateway>,
}

/// The peer of a request, and its connection.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub peer: Peer,
    pub connection: u64,
}

/// Connection numbers of this door start above those of all other doors, so that connections of two
/// doors never have the same number.
const FIRST_CONNECTION: u64 = 1 << 63;

impl Control {
    pub fn now(&self) -> Micros {
        self.gateway.studio.clock.now()
    }

    /// Checks whether the peer counts as a person. Every request that decides something calls this.
    pub fn recognise(&self, peer: Peer) -> Result<person::Person, person::NotAPerson> {
        let approval = &self.gateway.studio.policy().policy.approval;
        let clients = if approval.refuse_descendants { self.clients.clients(approval.ttl_ms) } else { Vec::new() };
        person::recognise(peer, &clients, processes::find)
    }

    /// The calling person as a principal; an error if the peer does not count as a person.
    pub fn person(&self, caller: Caller) -> Result<Principal, ToolError> {
        let refused = |why: person::NotAPerson| ToolError::new(Code::Denied, why.to_string()).by(RefusedBy::Policy);
        let person = self.recognise(caller.peer).map_err(refused)?;
        Ok(Principal::Person { uid: person.uid })
    }

    /// The principal of a call: `person:` after the same check as for a decision, otherwise `cli:`.
    pub fn principal(&self, caller: Caller) -> Principal {
        self.person(caller).unwrap_or(Principal::Cli { uid: caller.peer.uid })
    }
}

/// Accepts connections until the daemon stops, then waits for the running requests.
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
            // Close the spare descriptor, because the process has no free one left. Then accept
            // again.
            Err(_) if spare.free_one() => continue,
            Err(error) => {
                after_failed_accept(&error).await;
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
            // A peer that disconnects before it has read its answer is not an error of the daemon.
            let _ = converse(&control, input, &mut output, caller, &place).await;
            control.handle.tool_gone(caller.connection);
            // Close the peer's HTTP port before its connection: the peer may bind the port as soon
            // as the connection is closed.
            control.gateway.http.release(caller.connection).await;
            drop(output);
        });
    }
    // Remove the socket file first, so that no client connects to a daemon that will not answer.
    drop(socket);
    connections.close();
    connections.wait().await;
}

async fn converse(
    control: &Control,
    input: ReadHalf,
    output: &mut WriteHalf,
    caller: Caller,
    place: &HumanConnection,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut bounded = (&mut input).take(MAX_LINE as u64 + 1);
        // A connection that owns a listener is idle on purpose and must not be closed for being
        // idle.
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
            let refusal = fault(Value::Null, -32600, format!("a line must have at most {MAX_LINE} bytes"));
            return write_line(control, output, refusal).await;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let (id, name, params) = match parse(&line) {
            Ok(request) => request,
            Err(refusal) => {
                write_line(control, output, refusal).await?;
                continue;
            }
        };
        let answer = match Request::read(&name, params) {
            Err(error) => Err(error),
            // Playing lasts as long as the script, and stops when the peer disconnects.
            Ok(request @ Request::Play { .. }) => tokio::select! {
                answer = methods::answer(control, caller, request) => answer,
                () = hung_up(&mut input) => return Ok(()),
                () = control.stop.cancelled() => return Ok(()),
            },
            Ok(request) => methods::answer(control, caller, request).await,
        };
        match answer {
            Ok(Answer::Value(result)) => write_line(control, output, result_line(&id, &result)).await?,
            Ok(Answer::Stream(mut stream)) => {
                write_line(control, output, result_line(&id, &json!({ "streaming": true }))).await?;
                loop {
                    let item = tokio::select! {
                        // Send the queued items before the end of the stream.
                        biased;
                        item = stream.next() => item,
                        // Any byte from the peer, or a closed connection, ends the stream.
                        _ = input.read_u8() => return Ok(()),
                        () = control.stop.cancelled() => return Ok(()),
                    };
                    let Some(item) = item else { return Ok(()) };
                    let note = json!({ "jsonrpc": "2.0", "method": name, "params": item });
                    write_line(control, output, note).await?;
                }
            }
            Err(error) => write_line(control, output, error_line(&id, &error)).await?,
        }
    }
}

/// Returns when the peer has closed its end. Bytes sent before that stay in the buffer.
async fn hung_up(input: &mut (impl AsyncBufRead + Unpin)) {
    match input.fill_buf().await {
        Ok(said) if !said.is_empty() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

/// Id, name and parameters of a request, or the JSON-RPC error to return.
fn parse(line: &[u8]) -> Result<(Value, String, Value), Value> {
    let request: Value = serde_json::from_slice(line)
        .map_err(|error| fault(Value::Null, -32700, format!("this line is not JSON: {error}")))?;
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let is_id = id.is_string() || id.is_number();
    let name = request.get("method").and_then(Value::as_str);
    let (true, Some(name)) = (is_id, name) else {
        let id = if is_id { id } else { Value::Null };
        return Err(fault(id, -32600, "a request must have an id (text or number) and a method".to_owned()));
    };
    if !Request::is_name(name) {
        let names: Vec<&str> = Request::NAMES.concat();
        return Err(fault(id, -32601, format!("no method '{name}'; there are: {}", names.join(", "))));
    }
    let params = match request.get("params") {
        None | Some(Value::Null) => json!({}),
        Some(params) => params.clone(),
    };
    Ok((id, name.to_owned(), params))
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

/// Writes one answer. Every answer of this door is written here, so secrets are removed here.
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
        assert_eq!(refused(r#"{"method":"call"}"#), (-32600, Value::Null));
        assert_eq!(refused(r#"{"id":{},"method":"call"}"#), (-32600, Value::Null));
        assert_eq!(refused(r#"{"id":3}"#), (-32600, json!(3)));
        assert_eq!(refused(r#"{"id":"a","method":"cell"}"#), (-32601, json!("a")));
    }

    #[test]
    fn absent_params_are_an_empty_object() {
        let (id, method, params) = parse(br#"{"jsonrpc":"2.0","id":1,"method":"call"}"#).unwrap();
        assert_eq!((id, method.as_str(), params), (json!(1), "call", json!({})));
    }
}
