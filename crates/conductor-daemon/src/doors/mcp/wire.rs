//! Parses and writes messages, one JSON object per line.
//!
//! The reader of the SDK ignores lines that it cannot parse. Here every such line is answered with
//! an error, as JSON-RPC requires. Not here: reading and writing of bytes (`connection`), and the
//! meaning of a message (`methods`).

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use conductor_gateway::catalog::mcp_methods::MCP_METHODS;
use rmcp::model::{
    CallToolRequest, ClientNotification, ClientRequest, CustomRequest, ErrorData, JsonRpcMessage, NumberOrString,
    RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerNotification, ServerRequest,
};
use serde_json::{Map, Value, json};

use super::methods::Answer;

/// A larger buffer is freed when it is empty, because many connections are idle.
const KEPT_BUFFER: usize = 64 * 1024;

/// One message of a client.
pub enum Incoming {
    Request(RequestId, Box<ClientRequest>),
    Notification(ClientNotification),
    /// The reply to a request that the daemon sent.
    Reply(RequestId, Result<Value, ErrorData>),
}

/// The error for a line that is not a valid message.
#[derive(Debug, PartialEq)]
pub struct LineError {
    pub code: i32,
    pub message: &'static str,
    pub id: Value,
}

impl LineError {
    fn new(code: i32, message: &'static str) -> Self {
        Self { code, message, id: Value::Null }
    }

    pub fn to_line(&self) -> Vec<u8> {
        let error = json!({ "code": self.code, "message": self.message });
        let mut line = json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

/// Parses one line. `None` is an invalid notification, which gets no answer because it has no id.
pub fn read(line: &[u8]) -> Result<Option<Incoming>, LineError> {
    let value: Value = serde_json::from_slice(line).map_err(|_| LineError::new(-32700, "Parse error"))?;
    let Value::Object(mut members) = value else {
        let message = if value.is_array() { "Batches are not supported" } else { "Invalid Request" };
        return Err(LineError::new(-32600, message));
    };
    let id = members.remove("id");
    let usable = id.as_ref().and_then(usable_id);
    let invalid =
        |code, message| LineError { code, message, id: usable.clone().map_or(Value::Null, |id| id.into_json_value()) };
    if members.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err(invalid(-32600, "Invalid Request: jsonrpc must be \"2.0\""));
    }
    let method = match members.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid(-32600, "Invalid Request: method must be a string")),
        None => {
            let result = match (members.remove("result"), members.remove("error")) {
                (Some(result), _) => Some(Ok(result)),
                (None, Some(error)) => serde_json::from_value(error).ok().map(Err),
                (None, None) => None,
            };
            let reply = usable.clone().zip(result).map(|(id, result)| Incoming::Reply(id, result));
            return reply.map(Some).ok_or_else(|| invalid(-32600, "Invalid Request"));
        }
    };
    if id.is_some() && usable.is_none() {
        return Err(invalid(-32600, "Invalid Request: id must be a string or an integer"));
    }
    let params = members.remove("params");
    if params.as_ref().is_some_and(|params| !params.is_object()) {
        return match usable {
            Some(_) => Err(invalid(-32602, "Invalid params: params must be an object")),
            None => Ok(None),
        };
    }
    Ok(match usable {
        Some(id) => Some(Incoming::Request(id, Box::new(read_request(method, params)))),
        None => serde_json::from_value(whole(&method, params)).ok().map(Incoming::Notification),
    })
}

fn usable_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn whole(method: &str, params: Option<Value>) -> Value {
    let mut members = Map::from_iter([("method".to_owned(), Value::from(method))]);
    if let Some(params) = params {
        members.insert("params".to_owned(), params);
    }
    Value::Object(members)
}

/// Builds a request. Tool calls and unknown methods are built here, because the SDK tries all kinds
/// of requests in turn, which is slow. A known method with invalid parameters becomes a custom
/// request, which is answered with -32602.
fn read_request(method: String, params: Option<Value>) -> ClientRequest {
    let read = match method.as_str() {
        "tools/call" => call(params),
        known if MCP_METHODS.contains(&known) => serde_json::from_value(whole(known, params)).ok(),
        _ => {
            let mut request = CustomRequest::new(method, params);
            let meta = request.params.as_ref().and_then(|params| params.get("_meta")).and_then(Value::as_object);
            if let Some(meta) = meta.cloned() {
                request.extensions.insert(RequestMetaObject::from(meta));
            }
            return ClientRequest::CustomRequest(request);
        }
    };
    read.unwrap_or_else(|| ClientRequest::CustomRequest(CustomRequest::new(method, None)))
}

fn call(params: Option<Value>) -> Option<ClientRequest> {
    let Some(Value::Object(mut members)) = params else { return None };
    let meta = match members.remove("_meta") {
        Some(Value::Object(meta)) => Some(meta),
        None | Some(Value::Null) => None,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => return None,
    };
    let mut request = CallToolRequest::new(serde_json::from_value(Value::Object(members)).ok()?);
    if let Some(meta) = meta {
        request.extensions.insert(RequestMetaObject::from(meta));
    }
    Some(ClientRequest::CallToolRequest(request))
}

/// Encodes a notification, without a line end.
pub fn notification(notification: ServerNotification) -> Bytes {
    without_line_end(|out| write(&JsonRpcMessage::notification(notification), None, out))
}

/// Encodes a request to the client, without a line end.
pub fn request(request: ServerRequest, id: RequestId) -> Bytes {
    without_line_end(|out| write(&JsonRpcMessage::request(request, id), None, out))
}

/// Encodes the answer to a request, without a line end.
pub fn answer(answer: Answer, id: RequestId) -> Bytes {
    without_line_end(|out| write_answer(answer, id, out))
}

/// Appends the answer to a request as one line.
pub fn write_answer(answer: Answer, id: RequestId, out: &mut BytesMut) {
    let message = match answer {
        Ok(result) => JsonRpcMessage::response(result, id.clone()),
        Err(error) => JsonRpcMessage::error(error, Some(id.clone())),
    };
    write(&message, Some(&id), out);
}

fn without_line_end(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    write(&mut out);
    out.truncate(out.len().saturating_sub(1));
    out.freeze()
}

/// Appends a message as one line. An answer that cannot be encoded becomes an internal error.
pub fn write(message: &ServerJsonRpcMessage, id: Option<&RequestId>, out: &mut BytesMut) {
    let before = out.len();
    if serde_json::to_writer(out.writer(), message).is_ok() {
        return out.put_u8(b'\n');
    }
    out.truncate(before);
    if let Some(id) = id {
        let id = id.clone().into_json_value();
        out.extend_from_slice(&LineError { id, ..LineError::new(-32603, "Internal error") }.to_line());
    }
}

/// Splits the bytes of a peer into lines.
pub struct Lines {
    pub buffer: Vec<u8>,
    /// Start of the next line in `buffer`. The bytes before it are removed when no complete line
    /// is left.
    taken: usize,
    /// Start of the next search for a newline in `buffer`.
    scanned: usize,
    longest: usize,
    /// Whether the input has ended.
    pub ended: bool,
}

impl Lines {
    pub fn new(first: Vec<u8>, longest: usize) -> Self {
        Self { buffer: first, taken: 0, scanned: 0, longest, ended: false }
    }

    /// The next complete line without its end. A line that is too long is an error and ends the
    /// input. At the end of input the remaining bytes are a line.
    pub fn next_line(&mut self) -> Option<Result<Range<usize>, LineError>> {
        let rest = self.buffer.get(self.scanned..).unwrap_or_default();
        let end = match memchr::memchr(b'\n', rest) {
            Some(at) => self.scanned + at,
            None if self.ended && self.taken < self.buffer.len() => self.buffer.len(),
            None => {
                self.buffer.drain(..self.taken);
                self.taken = 0;
                self.scanned = self.buffer.len();
                if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER {
                    self.buffer = Vec::new();
                }
                return (self.buffer.len() > self.longest).then(|| Err(self.too_long()));
            }
        };
        let mut line = self.taken..end;
        self.taken = (end + 1).min(self.buffer.len());
        self.scanned = self.taken;
        if self.buffer.get(line.clone()).is_some_and(|it| it.ends_with(b"\r")) {
            line.end -= 1;
        }
        Some(if line.len() > self.longest { Err(self.too_long()) } else { Ok(line) })
    }

    fn too_long(&mut self) -> LineError {
        (self.buffer, self.taken, self.scanned, self.ended) = (Vec::new(), 0, 0, true);
        LineError::new(-32600, "Message too long")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::GetMeta;

    /// The request as the SDK parses it.
    fn by_the_sdk(line: &str) -> ClientRequest {
        serde_json::from_str::<ClientRequest>(line).unwrap()
    }

    #[test]
    fn a_call_is_read_as_the_sdk_reads_it() {
        let shown = |request: ClientRequest| {
            let meta = serde_json::to_value(request.get_meta()).unwrap();
            (serde_json::to_value(request).unwrap(), meta)
        };
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"params":{"arguments":{"b":[1,{"c":null}],"b":2},"name":"a\u0062"},"method":"tools/call","id":"x","jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":-7,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":"p","z":1}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","unknown":{"deep":[1]}},"unknown":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","requestState":"s","inputResponses":{}}}"#,
        ] {
            let Ok(Some(Incoming::Request(_, read))) = read(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(shown(*read), shown(by_the_sdk(line)), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
        ] {
            let Ok(Some(Incoming::Request(_, read))) = read(line.as_bytes()) else { panic!("{line}") };
            assert!(matches!(*read, ClientRequest::CustomRequest(_)), "{line}: not read as a custom request");
        }
    }

    #[test]
    fn lines_are_cut_at_newlines_and_a_long_one_ends_the_input() {
        let mut lines = Lines::new(b"one\r\ntwo\n\nhalf".to_vec(), 8);
        let next = |lines: &mut Lines| {
            let line = lines.next_line()?.map(|range| lines.buffer[range].to_vec());
            Some(line.map(|it| String::from_utf8(it).unwrap()))
        };
        assert_eq!(next(&mut lines), Some(Ok("one".to_owned())));
        assert_eq!(next(&mut lines), Some(Ok("two".to_owned())));
        assert_eq!(next(&mut lines), Some(Ok(String::new())));
        assert_eq!(next(&mut lines), None);
        lines.buffer.extend(b" done");
        lines.ended = true;
        assert!(matches!(next(&mut lines), Some(Err(_))), "a line of nine bytes was accepted");
        assert_eq!(next(&mut lines), None);
        let mut endless = Lines::new(vec![b'x'; 9], 8);
        assert!(matches!(next(&mut endless), Some(Err(_))));
        assert!(endless.ended && endless.buffer.is_empty());
    }
}
