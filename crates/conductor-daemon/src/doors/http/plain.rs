//! The plain HTTP routes: tool calls without MCP, and read-only routes for observers. No route
//! decides an approval.
//!
//! A call passes through the same pipeline as at every door. Observers receive ids, names, results
//! and times, but no outputs. They receive arguments only if the audit log contains them (`detail`
//! of `[audit]`).

use super::{Token, Tokens, mark_known, read_body, refuse};
use crate::doors::mcp::Shared;
use crate::doors::mcp::render;
use crate::doors::session::{Session, View, Who};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use conductor_core::error::{Code, ToolError};
use conductor_gateway::audit_log::lines::{Filter, newest};
use conductor_gateway::catalog::Tool;
use conductor_gateway::pipeline;
use conductor_gateway::pipeline::call::Outcome;
use conductor_gateway::studio::events::Listener;
use conductor_gateway::studio::meters;
use futures_util::{Stream, StreamExt as _};
use http::{StatusCode, header};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

/// Maximum number of open event streams of all clients together.
const STREAMS: usize = 16;
/// Maximum number of records in one answer.
const MOST_RECORDS: usize = 1000;
const STILL_HERE: Duration = Duration::from_secs(15);

struct Door {
    shared: Arc<Shared>,
    tokens: Arc<Tokens>,
    streams: Arc<Semaphore>,
}

pub fn routes(shared: &Arc<Shared>, tokens: &Arc<Tokens>) -> Router {
    let door = Arc::new(Door {
        shared: Arc::clone(shared),
        tokens: Arc::clone(tokens),
        streams: Arc::new(Semaphore::new(STREAMS)),
    });
    Router::new()
        .route("/tools", get(async |State(door): SharedDoor, request| door.tools(request).await))
        .route(
            "/tools/{name}",
            post(async |State(door): SharedDoor, Path(name), request| door.call(name, request).await),
        )
        .route("/openapi.json", get(async |State(door): SharedDoor, request| door.openapi(request).await))
        .route("/audit", get(async |State(door): SharedDoor, request| door.audit(request).await))
        .route("/events", get(async |State(door): SharedDoor, request| door.events(request).await))
        .route("/metrics", get(async |State(door): SharedDoor, request| door.metrics(request).await))
        .with_state(door)
}

type SharedDoor = State<Arc<Door>>;

impl Door {
    /// Checks the token; returns it and the request.
    async fn admit(&self, request: Request, scope: &str) -> Result<(Arc<Token>, Request), Response> {
        match self.tokens.admit(&self.shared.studio, request.headers(), scope).await {
            Ok(token) => {
                mark_known(&request);
                Ok((token, request))
            }
            Err(refused) => Err(refused.answer(request.into_body()).await),
        }
    }

    fn listed(&self, token: &Token) -> Vec<Arc<Tool>> {
        let studio = &self.shared.studio;
        let (policy, view) = (studio.policy(), View::configured(studio).within(studio, token));
        let catalog = studio.catalog();
        let seen = catalog.list(&view.toolset).filter(|it| !policy.policy.denies_everyone(&it.name, it.tier));
        seen.cloned().collect()
    }

    async fn tools(&self, request: Request) -> Response {
        let token = match self.admit(request, "call").await {
            Ok((token, _)) => token,
            Err(refused) => return refused,
        };
        let tools: Vec<Value> = self.listed(&token).iter().map(|it| shown(it)).collect();
        plain(&json!({ "tools": tools }))
    }

    async fn call(&self, name: String, request: Request) -> Response {
        let (token, request) = match self.admit(request, "call").await {
            Ok(admitted) => admitted,
            Err(refused) => return refused,
        };
        let studio = &self.shared.studio;
        let limit = studio.settings().mcp.max_message_bytes;
        let body = match read_body(request.into_body(), limit).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let arguments = if body.trim_ascii().is_empty() { Ok(json!({})) } else { serde_json::from_slice(&body) };
        let Ok(arguments) = arguments else {
            let error =
                ToolError::new(Code::BadInput, "the body is not JSON").hint("Send the arguments as one JSON object.");
            return failed(&error);
        };
        let session = Session::new(studio, Who::Token(token.principal.clone()));
        session.set_view(View::configured(studio).within(studio, &token));
        // The session exists as long as this request: when the client disconnects, its call is
        // cancelled.
        let call = session.call(session.principal(""), name, arguments, session.gone.child_token());
        match pipeline::run(studio, call).await.into_outcome() {
            Outcome::Done(Ok(output)) if output.is_error => plain(&json!({ "result": render::direct_success(output) })),
            Outcome::Done(Ok(output)) => {
                let (value, _, content) = output.into_parts();
                plain(&if content.is_empty() {
                    json!({ "result": value })
                } else {
                    json!({ "result": value, "content_blocks": content.len() })
                })
            }
            Outcome::Done(Err(error)) => failed(&error),
            Outcome::Cancelled => refuse(StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST), "cancelled"),
            Outcome::Ask { .. } => failed(&ToolError::new(Code::ApprovalRequired, "a person must answer")),
        }
    }

    async fn openapi(&self, request: Request) -> Response {
        match self.admit(request, "call").await {
            Ok((token, _)) => plain(&openapi(&self.listed(&token))),
            Err(refused) => refused,
        }
    }

    async fn audit(&self, request: Request) -> Response {
        let (_, request) = match self.admit(request, "observe").await {
            Ok(admitted) => admitted,
            Err(refused) => return refused,
        };
        let (filter, limit) = match audit_query(request.uri().query().unwrap_or_default()) {
            Ok(query) => query,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &self.shared.studio.scrubber.text(&why)),
        };
        let home = self.shared.studio.home.clone();
        let read = tokio::task::spawn_blocking(move || newest(&home, &filter, limit)).await;
        match read {
            // Return the newest records first.
            Ok(Ok(records)) => plain(&json!({ "records": records.into_iter().rev().collect::<Vec<_>>() })),
            Ok(Err(_)) | Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "the audit log cannot be read"),
        }
    }

    async fn metrics(&self, request: Request) -> Response {
        if let Err(refused) = self.admit(request, "observe").await {
            return refused;
        }
        let text = meters::exposition(&self.shared.studio);
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
    }

    async fn events(&self, request: Request) -> Response {
        let token = match self.admit(request, "observe").await {
            Ok((token, _)) => token,
            Err(refused) => return refused,
        };
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many event streams are open; close one first");
        };
        let studio = &self.shared.studio;
        let stream = stream(studio.events.observe(), permit).take_until(token.end(studio));
        let mut response = Sse::new(stream).keep_alive(KeepAlive::new().interval(STILL_HERE)).into_response();
        response.headers_mut().insert("x-accel-buffering", http::HeaderValue::from_static("no"));
        response
    }
}

fn plain(value: &Value) -> Response {
    let mut response = axum::Json(value).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    response
}

fn failed(error: &ToolError) -> Response {
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = axum::Json(error.to_wire()).into_response();
    *response.status_mut() = status;
    response
}

fn shown(tool: &Tool) -> Value {
    json!({
        "name": tool.name, "title": tool.title, "description": tool.description, "tier": tool.tier,
        "inputSchema": tool.published_schema.value(), "outputSchema": tool.output_schema.value(), "annotations": tool.annotations.to_wire(),
    })
}

/// The filter and the limit of a query. Unknown keys are refused, because an ignored filter would
/// return too many records.
fn audit_query(query: &str) -> Result<(Filter, usize), String> {
    let (mut filter, mut limit) = (Filter::default(), 100);
    for (key, value) in form(query) {
        let bad = || format!("{key}: {value:?} is not valid");
        match key.as_str() {
            "tool" => filter.tool = Some(value),
            "principal" => filter.principal = Some(value),
            "result" => filter.result = Some(value.parse().map_err(|_| bad())?),
            "since" => filter.since = Some(value.parse().map_err(|_| bad())?),
            "until" => filter.until = Some(value.parse().map_err(|_| bad())?),
            "after" => filter.after = Some(value.parse().map_err(|_| bad())?),
            "limit" => {
                limit = value.parse().ok().filter(|it| (1..=MOST_RECORDS).contains(it)).ok_or_else(bad)?;
            }
            _ => return Err(format!("{key} is unknown; use tool, result, principal, since, until, limit or after")),
        }
    }
    Ok((filter, limit))
}

fn form(query: &str) -> Vec<(String, String)> {
    // The URL parser also parses queries. The host is a placeholder.
    let read = reqwest::Url::parse(&format!("http://local/?{query}"));
    read.map(|it| it.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
        .unwrap_or_default()
}

/// The studio's events as one stream. A slow reader misses the oldest events and receives their
/// number.
fn stream(events: Listener, permit: OwnedSemaphorePermit) -> impl Stream<Item = Result<Event, Infallible>> {
    futures_util::stream::unfold((events, permit), |(mut events, permit)| async move {
        let (name, data) = loop {
            match events.recv().await {
                Ok(event) => {
                    if let Some(observed) = event.observed() {
                        break observed;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(missed)) => break ("lagged", json!({ "missed": missed })),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        };
        Some((Ok(Event::default().event(name).data(data.to_string())), (events, permit)))
    })
}

/// The OpenAPI document of these tools, built from their schemas.
fn openapi(tools: &[Arc<Tool>]) -> Value {
    let error = json!({ "description": "The error object", "content": { "application/json": { "schema": {
        "type": "object", "required": ["code", "message", "hint"],
        "properties": { "code": { "type": "string" }, "message": { "type": "string" }, "hint": { "type": "string" } },
    } } } });
    let paths: serde_json::Map<String, Value> = tools
        .iter()
        .map(|tool| {
            let success = json!({
                "type": "object", "required": ["result"], "properties": { "result": without_error_branch(tool) },
            });
            let operation = json!({
                "operationId": tool.safe_name(), "summary": tool.title, "description": tool.description, "tags": [tool.toolset],
                "requestBody": { "required": false, "content": { "application/json": { "schema": tool.published_schema.value() } } },
                "responses": {
                    "200": { "description": "The result", "content": { "application/json": { "schema": success } } },
                    "202": error, "default": error,
                },
            });
            (format!("/tools/{}", tool.name), json!({ "post": operation }))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Conductor", "version": env!("CARGO_PKG_VERSION") },
        "security": [{ "bearer": [] }],
        "components": { "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } } },
        "paths": paths,
    })
}

/// The schema of a successful result; errors have their own HTTP status.
fn without_error_branch(tool: &Tool) -> Value {
    let schema = &tool.definition().output_schema;
    if schema.is_null() { json!({ "type": "object" }) } else { schema.value() }
}
