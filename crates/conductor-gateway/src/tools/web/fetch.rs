//! `web.fetch`: one request. It is not ReadOnly, because a URL can send data out.

use super::TOOLSET;
use crate::pipeline::call::Output;
use crate::tools::catalog::{Definition, Target};
use crate::tools::daemon::parse_arguments;
use crate::tools::schema_builder::{boolean, integer, nullable, object, text};
use crate::tools::truncate::{fit, room};
use conductor_core::error::{Code, Subject, ToolError};
use conductor_core::policy::{ByArgs, Tier};
use conductor_hosts::web::{MOST_BYTES, Wanted, Web, host_and_port, is_named};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

#[derive(Deserialize)]
struct Arguments {
    url: String,
    #[serde(default)]
    method: Verb,
    #[serde(default)]
    headers: Map<String, Value>,
    body: Option<String>,
    max_bytes: Option<usize>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Head,
    Post,
}

/// Headers about identity and transport, which only Conductor sets.
const RESERVED: [HeaderName; 6] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE, header::TE];

pub fn definition(web: &Arc<Web>) -> Definition {
    let (deciding, web) = (Arc::clone(web), Arc::clone(web));
    let mut definition = Definition::new("web.fetch", Tier::HardwareIo, TOOLSET, move |studio, clearance, arguments| {
        let web = Arc::clone(&web);
        async move {
            let arguments: Arguments = parse_arguments(arguments)?;
            let mut wanted = wanted(&arguments)?;
            // The scrubber needs complete secrets, so read more than is returned.
            let most = wanted.max_bytes;
            wanted.max_bytes += studio.scrubber.longest();
            let fetched = web.fetch(wanted, &web.reach()).await.map_err(ToolError::from)?;
            let named: Map<String, Value> = fetched
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned())))
                .collect();
            let kind = fetched.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
            let body = studio.scrubber.piece(&fetched.body, 0..most.min(fetched.body.len()));
            let whole = String::from_utf8_lossy(&body);
            let taken = Value::Object(named.clone()).to_string().len();
            let (content, cut) = fit(&whole, room(&studio, clearance.tool().max_result_bytes).saturating_sub(taken));
            Ok(Output::new(json!({
                "url": fetched.url.as_str(), "status": fetched.status, "headers": named, "content_type": kind, "content": content,
                "truncated": fetched.truncated || fetched.body.len() > most || cut,
            })))
        }
    })
    .text(
        "Fetch from the web",
        "Sends one request to an https URL: GET, HEAD or POST. Hosts that a person configured need no approval; other hosts and every POST \
         do. Addresses of the local network are refused. A redirect to a host that is not configured is not followed: the result has its \
         status and its `location` header. At most 1 MiB and 10 s.",
    )
    .input(object(json!({
        "url": { "type": "string", "format": "uri", "maxLength": 8192 },
        "method?": { "enum": ["GET", "HEAD", "POST"], "default": "GET" },
        "headers?": { "type": "object", "additionalProperties": { "type": "string", "maxLength": 8192 }, "maxProperties": 64 },
        "body?": { "type": "string", "maxLength": 1_048_576 },
        "max_bytes?": { "type": "integer", "minimum": 1, "maximum": MOST_BYTES },
    })))
    .output(object(json!({
        "url": text(), "status": integer(), "headers": { "type": "object", "additionalProperties": { "type": "string" } },
        "content_type": nullable(text()), "content": text(), "truncated": boolean(),
    })))
    .summary(|arguments| {
        let word = |key: &str| arguments.get(key).and_then(Value::as_str);
        format!("{} {}", word("method").unwrap_or("GET"), word("url").unwrap_or_default())
    })
    .target(|_, call| target(&call.arguments));
    definition.destructive = Some(false);
    definition.timeout_ms = 602_000;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let arguments: Option<Arguments> = serde_json::from_value(arguments.clone()).ok();
        let plain = arguments.filter(|it| it.method != Verb::Post).and_then(|it| reqwest::Url::parse(&it.url).ok());
        let named = plain.is_some_and(|url| is_named(&url, &deciding.rules().allow_hosts));
        if named { ByArgs::Allow } else { ByArgs::Ask }
    }));
    definition
}

/// The host that is contacted, independent of how the URL is written, and the method.
fn target(arguments: &Value) -> Target {
    let Some(arguments) = serde_json::from_value::<Arguments>(arguments.clone()).ok() else { return Target::default() };
    let method = match arguments.method {
        Verb::Get => "GET",
        Verb::Head => "HEAD",
        Verb::Post => "POST",
    };
    let url = match wanted(&arguments) {
        Ok(wanted) => wanted.url,
        Err(fault) => return Target::refused(fault),
    };
    let place = host_and_port(&url);
    let (host, port) = place.rsplit_once(':').unwrap_or((&place, "0"));
    let form = json!({
        "scheme": url.scheme(), "host": host, "port": port.parse::<u16>().unwrap_or(0), "method": method, "url": url.as_str(),
    });
    Target {
        shown: vec![("host", format!("{}://{place}", url.scheme())), ("method", method.to_owned())],
        forms: vec![form],
        key: Some(place.clone()),
        ..Target::default()
    }
}

fn wanted(arguments: &Arguments) -> Result<Wanted, ToolError> {
    let bad =
        |place: &str, why: String| ToolError::new(Code::BadInput, why).subject(Subject::Argument(place.to_owned()));
    let url =
        reqwest::Url::parse(&arguments.url).map_err(|fault| bad("/url", format!("{}: {fault}", arguments.url)))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &arguments.headers {
        let place = format!("/headers/{name}");
        let key: HeaderName = name.parse().map_err(|_| bad(&place, format!("{name:?} is not a valid header name")))?;
        let value = value.as_str().unwrap_or_default();
        let value =
            HeaderValue::from_str(value).map_err(|_| bad(&place, format!("{name}: not a valid header value")))?;
        if RESERVED.contains(&key) || key.as_str().starts_with("proxy-") {
            return Err(bad(&place, format!("only Conductor sets {name}")));
        }
        headers.insert(key, value);
    }
    headers
        .entry(header::USER_AGENT)
        .or_insert(HeaderValue::from_static(concat!("conductor/", env!("CARGO_PKG_VERSION"))));
    let method = match arguments.method {
        Verb::Get => Method::GET,
        Verb::Head => Method::HEAD,
        Verb::Post => Method::POST,
    };
    if arguments.body.is_some() && arguments.method != Verb::Post {
        return Err(bad("/body", "only a POST has a body".to_owned()));
    }
    let body = arguments.body.as_ref().map(|it| it.as_bytes().to_vec());
    let max_bytes = arguments.max_bytes.unwrap_or(MOST_BYTES);
    Ok(Wanted { method, headers, body, max_bytes, ..Wanted::get(url) })
}
