//! `web.fetch`: sends one request. The tool is not ReadOnly, because a URL can send data to another
//! machine.

use super::TOOLSET;
use crate::prelude::*;
use crate::truncate::{fit, room};
use conductor_core::policy::ByArgs;
use conductor_hosts::web::{MOST_BYTES, Wanted, Web, host_and_port, is_named};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// An https URL
    #[schemars(length(max = 8192), extend("format" = "uri"))]
    url: String,
    /// The method
    #[serde(default)]
    method: Verb,
    /// Headers of the request
    #[serde(default)]
    #[schemars(extend("additionalProperties" = { "type": "string", "maxLength": 8192 }, "maxProperties" = 64))]
    headers: Map<String, Value>,
    /// Body of a POST
    #[schemars(length(max = 1_048_576))]
    body: Option<String>,
    /// Maximum length of the returned body
    #[schemars(range(min = 1, max = MOST_BYTES))]
    max_bytes: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    /// The URL after redirects
    url: String,
    /// HTTP status
    status: u16,
    /// Headers of the response
    #[schemars(extend("additionalProperties" = { "type": "string" }))]
    headers: Map<String, Value>,
    /// Header `content-type`
    content_type: Option<String>,
    /// Body of the response
    content: String,
    /// Whether the end of the content is missing
    truncated: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Head,
    Post,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Head => "HEAD",
            Verb::Post => "POST",
        }
    }
}

/// Headers about identity and transport, which only Conductor sets.
const RESERVED: [HeaderName; 6] =
    [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE, header::TE];

pub fn definition(web: &Arc<Web>) -> Definition {
    let deciding = Arc::clone(web);
    let mut definition = tool("web.fetch", Tier::HardwareIo, TOOLSET, web, run)
    .text(
        "Fetch from the web",
        "Sends one request to an https URL: GET, HEAD or POST. Hosts that a person configured need no approval; other hosts and every POST \
         do. Addresses of the local network are refused. A redirect to a host that is not configured is not followed: the result has its \
         status and its `location` header. At most 1 MiB and 10 s.",
    )
    .summary(with_args(|args: &Args| format!("{} {}", args.method.name(), args.url)))
    .target(|_, call| parse(&call.arguments).map_or_else(Target::refused, |args| target(&args)));
    definition.destructive = Some(false);
    definition.timeout_ms = 602_000;
    definition.decide = Some(Arc::new(move |_, arguments| {
        let args: Option<Args> = parse(arguments).ok();
        let plain = args.filter(|it| it.method != Verb::Post).and_then(|it| reqwest::Url::parse(&it.url).ok());
        let named = plain.is_some_and(|url| is_named(&url, &deciding.rules().allow_hosts));
        if named { ByArgs::Allow } else { ByArgs::Ask }
    }));
    definition
}

async fn run(web: Arc<Web>, cx: Context, args: Args) -> Result<Answer, ToolError> {
    let mut wanted = wanted(&args)?;
    // The scrubber can only replace complete secrets, so read more bytes than are returned.
    let most = wanted.max_bytes;
    wanted.max_bytes += cx.studio.scrubber.longest();
    let fetched = web.fetch(wanted, &web.reach()).await?;
    let named: Map<String, Value> = fetched
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned())))
        .collect();
    let kind = fetched.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let body = cx.studio.scrubber.piece(&fetched.body, 0..most.min(fetched.body.len()));
    let whole = String::from_utf8_lossy(&body);
    let taken = Value::Object(named.clone()).to_string().len();
    let (content, cut) = fit(&whole, room(&cx.studio, cx.clearance.tool().max_result_bytes).saturating_sub(taken));
    Ok(Answer {
        url: fetched.url.to_string(),
        status: fetched.status,
        headers: named,
        content_type: kind.map(str::to_owned),
        content: content.to_owned(),
        truncated: fetched.truncated || fetched.body.len() > most || cut,
    })
}

/// The host that is contacted, independent of how the URL is written, and the method.
fn target(args: &Args) -> Target {
    let method = args.method.name();
    let url = match wanted(args) {
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

fn wanted(args: &Args) -> Result<Wanted, ToolError> {
    let bad =
        |place: &str, why: String| ToolError::new(Code::BadInput, why).subject(Subject::Argument(place.to_owned()));
    let url = reqwest::Url::parse(&args.url).map_err(|fault| bad("/url", format!("{}: {fault}", args.url)))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &args.headers {
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
    let method = match args.method {
        Verb::Get => Method::GET,
        Verb::Head => Method::HEAD,
        Verb::Post => Method::POST,
    };
    if args.body.is_some() && args.method != Verb::Post {
        return Err(bad("/body", "only a POST has a body".to_owned()));
    }
    let body = args.body.as_ref().map(|it| it.as_bytes().to_vec());
    let max_bytes = args.max_bytes.unwrap_or(MOST_BYTES);
    Ok(Wanted { method, headers, body, max_bytes, ..Wanted::get(url) })
}
