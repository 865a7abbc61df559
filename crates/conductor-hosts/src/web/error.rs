//! The reasons why a request was not made or not answered.

use conductor_core::error::{Code, Effect, RefusedBy, Subject, ToolError};
use std::net::IpAddr;

/// Maximum number of redirects that a request follows.
pub const REDIRECTS: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error("{url}: {why}")]
    BadUrl { url: String, why: &'static str },
    #[error("{host} is not one of the granted hosts")]
    NotGranted { host: String },
    #[error("{host} has the address {address}, which is not on the public internet")]
    Private { host: String, address: IpAddr },
    #[error("{host} may be reached over https only")]
    NeedsTls { host: String },
    #[error("more than {REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the redirect to {to} is refused: {why}")]
    BadRedirect { to: String, why: &'static str },
    #[error("{host} cannot be resolved: {why}")]
    NoAddress { host: String, why: String },
    #[error("{host} did not answer: {why}")]
    NoAnswer { host: String, why: String },
    #[error("{host} did not answer completely: {why}")]
    Lost { host: String, why: String },
    #[error("the certificate of {host} is not trusted: {why}")]
    Untrusted { host: String, why: String },
    #[error("{host} did not answer within {ms} ms")]
    Late { host: String, ms: u64 },
}

impl From<WebError> for ToolError {
    fn from(error: WebError) -> Self {
        let text = error.to_string();
        let denied = |host: String, hint: &str| {
            let error = ToolError::new(Code::Denied, text.clone()).by(RefusedBy::Policy);
            error.hint(hint).subject(Subject::Other(host))
        };
        match error {
            WebError::BadUrl { .. } => ToolError::new(Code::BadInput, text).hint("Use a complete https:// address."),
            WebError::NotGranted { host } => denied(host, "A person can grant hosts in config.toml."),
            WebError::Private { host, .. } => {
                denied(host, "A person can add this exact host:port to [tools.web] allow_hosts.")
            }
            WebError::NeedsTls { host } => {
                denied(host, "Use https, or ask the person to add the host to [tools.web] http_hosts.")
            }
            WebError::TooManyRedirects | WebError::BadRedirect { .. } => ToolError::new(Code::SdkRejected, text)
                .hint("If you need the target of the redirect, fetch its address directly."),
            WebError::NoAddress { host, .. } | WebError::NoAnswer { host, .. } => {
                ToolError::new(Code::HostOffline, text).subject(Subject::Other(host))
            }
            // The request was sent, so the server may have processed it.
            WebError::Lost { host, .. } => ToolError::new(Code::HostOffline, text)
                .hint("The server may have processed the request. Check that before you repeat the call.")
                .subject(Subject::Other(host))
                .effect(Effect::Unknown),
            WebError::Untrusted { host, .. } => denied(
                host,
                "Do not repeat the call. A person can add the authority that signed the certificate to the system's certificates, \
                 or start the daemon with SSL_CERT_FILE set to a file that contains the authority.",
            ),
            WebError::Late { host, .. } => ToolError::new(Code::Timeout, text).subject(Subject::Other(host)),
        }
    }
}
