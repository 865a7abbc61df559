//! `conductor call --remote URL`: calls a tool of a daemon on another machine, over HTTPS. Plain
//! HTTP is allowed only to this machine.
//!
//! The token is read from the environment, because arguments of a program are visible to every
//! process. Each error code has its own exit code, so that scripts can react to it.

use super::Failure;
use conductor_core::digest::Digest;
use conductor_core::error::Code;
use conductor_hosts::system::variables;
use conductor_hosts::web::system_tls;
use reqwest::{StatusCode, Url};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Name of the variable that contains the token.
const TOKEN: &str = "CONDUCTOR_TOKEN";
/// Time limit for connecting. A call may take longer, for example while it waits for a person.
const CONNECT: Duration = Duration::from_secs(10);
/// Exit code if the server refuses the token.
const REFUSED_TOKEN: u8 = 3;
/// Exit code for the first error code. The next error codes have the next exit codes.
const FIRST: u8 = 20;

/// Calls a tool and returns its result.
pub fn call(url: &str, pin: Option<Digest>, tool: &str, arguments: &Value) -> Result<Value, Failure> {
    let token = variables(&[TOKEN]).pop().and_then(|(_, it)| it.into_string().ok()).filter(|it| !it.is_empty());
    let token = token.ok_or_else(|| Failure::Text(format!("set {TOKEN} to a token of the daemon at {url}")))?;
    let base: Url = url.parse().map_err(|error| Failure::Text(format!("{url}: {error}")))?;
    let is_here = base.host_str().is_some_and(|it| ["localhost", "127.0.0.1", "[::1]"].contains(&it));
    if base.scheme() != "https" && !(base.scheme() == "http" && is_here) {
        return Err(Failure::Text(format!("{url}: use https://, so that the token is not sent unencrypted")));
    }
    let address = base.join(&format!("/tools/{tool}")).map_err(|error| Failure::Text(format!("{tool}: {error}")))?;
    let tls = match pin {
        Some(pin) => pinned(pin),
        None => system_tls(),
    };
    let tls = tls.map_err(|error| Failure::Text(format!("TLS cannot be used on this machine: {error}")))?;
    let exchange = async {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .build()?;
        let answer = client.post(address).bearer_auth(token).body(arguments.to_string()).send().await?;
        Ok::<_, reqwest::Error>((answer.status(), answer.bytes().await?))
    };
    let (status, body) = super::block_on(exchange)?.map_err(|error| {
        let cure = match pin {
            None => "; for a self-signed certificate, add --fingerprint from `conductor http pair`",
            Some(_) => "",
        };
        Failure::Text(format!("{url} cannot be reached: {}{cure}", innermost(&error)))
    })?;
    let mut body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = body["code"].as_str().and_then(|it| Code::ALL.iter().position(|code| code.as_str() == it));
    match (status, code) {
        (StatusCode::OK, None) if body.get("result").is_some() => Ok(body["result"].take()),
        (_, Some(at)) => {
            let code = u8::try_from(at).unwrap_or(u8::MAX).saturating_add(FIRST);
            Err(Failure::Remote { error: Box::new(body), code })
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, None) => {
            let why = body["error"].as_str().unwrap_or("the token is not accepted");
            let error = serde_json::json!({ "code": null, "message": why, "hint": null });
            Err(Failure::Remote { error: Box::new(error), code: REFUSED_TOKEN })
        }
        (status, None) => {
            Err(Failure::Text(format!("{url} does not answer like Conductor (status {})", status.as_u16())))
        }
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Trusts only the certificate with this digest.
fn pinned(pin: Digest) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Pinned { pin, provider: Arc::clone(&provider) });
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[derive(Debug)]
struct Pinned {
    pin: Digest,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Digest::of(certificate);
        if found == self.pin {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!("the certificate has the fingerprint {found}, not {}", self.pin)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
