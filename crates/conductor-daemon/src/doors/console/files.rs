//! The files of the page. They are part of the program; a debug build reads them from the disk, so
//! that a reload shows an edit. Declarations of types are embedded too, but never served.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../console/"]
struct Files;

pub fn page() -> Response {
    asset("index.html")
}

pub fn asset(path: &str) -> Response {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let Some(kind) = kind(ending).filter(|_| path.split('/').all(|it| !it.is_empty() && !it.starts_with('.'))) else {
        return missing();
    };
    let Some(file) = Files::get(path) else { return missing() };
    let mut response = Body::from(file.data.into_owned()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn missing() -> Response {
    crate::doors::http::refuse(StatusCode::NOT_FOUND, "the console has no such file")
}

fn kind(ending: &str) -> Option<&'static str> {
    Some(match ending {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => return None,
    })
}
