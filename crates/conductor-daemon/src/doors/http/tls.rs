//! TLS of the HTTP door: reads the configured certificate, or creates a self-signed one.
//!
//! Not here: accepting connections (`doors::http`).

use conductor_core::config;
use conductor_core::digest::Digest;
use conductor_hosts::atomic_file;
use conductor_hosts::system::files;
use conductor_hosts::system::{Ids, host_name};
use parking_lot::Mutex;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The certificate of a listener.
#[derive(Clone)]
pub struct Tls {
    pub acceptor: TlsAcceptor,
    /// SHA-256 of the certificate, as browsers show it.
    pub fingerprint: Digest,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("[http.tls] {key}: {path}: {why}")]
    File { key: &'static str, path: PathBuf, why: String },
    #[error("[http.tls]: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("[http.tls] self_signed: {0}")]
    Create(#[from] rcgen::Error),
    #[error("[http.tls] self_signed: {0}")]
    Store(io::Error),
}

/// The certificate that `[http.tls]` selects, for all listeners. `addresses` are those to which
/// listeners are bound. `None` without TLS.
pub fn load(home: &Path, http: &config::Http, addresses: &[IpAddr], ids: &dyn Ids) -> Result<Option<Tls>, TlsError> {
    let (chain, key) = match (&http.tls.certificate, &http.tls.key) {
        (Some(certificate), Some(key)) => (read_chain(&home.join(certificate))?, read_key(&home.join(key))?),
        (Some(_) | None, Some(_) | None) if http.tls.self_signed => self_signed(home, &names(http, addresses), ids)?,
        (Some(_) | None, Some(_) | None) => return Ok(None),
    };
    let fingerprint = Digest::of(chain.first().map(|it| it.as_ref()).unwrap_or_default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut settings = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Tls { acceptor: TlsAcceptor::from(Arc::new(settings)), fingerprint }))
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fault = |why: String| TlsError::File { key: "certificate", path: path.to_owned(), why };
    let text = atomic_file::read(path).map_err(|error| fault(error.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(fault("the file contains no certificate in PEM form".to_owned())),
        Err(error) => Err(fault(error.to_string())),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let fault = |why: String| TlsError::File { key: "key", path: path.to_owned(), why };
    if files::is_open_to_everyone(path) {
        return Err(fault("every user of this machine can read the key; run `chmod o= FILE`".to_owned()));
    }
    let text = atomic_file::read(path).map_err(|error| fault(error.to_string()))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| fault(error.to_string()))
}

/// The names that a self-signed certificate is for.
fn names(http: &config::Http, addresses: &[IpAddr]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    names.extend(addresses.iter().filter(|it| !it.is_unspecified()).map(IpAddr::to_string));
    names.extend(http.hosts.iter().map(|it| without_port(it).to_owned()));
    names.extend(host_name::names());
    names.retain(|it| ServerName::try_from(it.as_str()).is_ok());
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|it| seen.insert(it.clone()));
    names
}

/// The name in a value of the Host header.
pub fn without_port(host: &str) -> &str {
    if let Some(end) = host.strip_prefix('[').and_then(|rest| rest.find(']')) {
        return host.get(1..=end).unwrap_or(host);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// The stored self-signed certificate. If there is none, or it is not for all names that are used
/// now, a new one is created and its fingerprint changes.
fn self_signed(home: &Path, names: &[String], ids: &dyn Ids) -> Result<ChainAndKey, TlsError> {
    // Two listeners may start at once. They must not replace each other's files.
    static CREATING: Mutex<()> = Mutex::new(());
    let _creating = CREATING.lock();
    let (certificate, key) = (home.join("state/http-certificate.pem"), home.join("secrets/http-tls.key"));
    if let (Ok(chain), Ok(key)) = (read_chain(&certificate), read_key(&key))
        && chain.first().is_some_and(|it| is_for(it, names))
    {
        return Ok((chain, key));
    }
    let pair = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "Conductor");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let made = params.self_signed(&pair)?;
    conductor_gateway::secrets::make_private(&home.join("secrets")).map_err(TlsError::Store)?;
    std::fs::create_dir_all(home.join("state")).map_err(TlsError::Store)?;
    let store = |path: &Path, text: &str, mode| {
        atomic_file::replace(path, text.as_bytes(), mode, &ids.v4().to_string()).map_err(TlsError::Store)
    };
    store(&key, &pair.serialize_pem(), 0o600)?;
    store(&certificate, &made.pem(), 0o644)?;
    Ok((read_chain(&certificate)?, read_key(&key)?))
}

fn is_for(certificate: &CertificateDer<'_>, names: &[String]) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return false };
    names
        .iter()
        .all(|name| ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use conductor_hosts::system::RandomIds;

    #[test]
    fn a_host_loses_its_port() {
        for (host, name) in [
            ("studio.local:3000", "studio.local"),
            ("studio", "studio"),
            ("[::1]:80", "::1"),
            ("10.0.0.1:1", "10.0.0.1"),
        ] {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn a_self_signed_certificate_is_kept_until_a_name_is_added() {
        let home = tempfile::tempdir().unwrap();
        let names = |more: &str| vec!["localhost".to_owned(), more.to_owned()];
        let print = |names: &[String]| Digest::of(self_signed(home.path(), names, &RandomIds).unwrap().0[0].as_ref());
        let first = print(&names("127.0.0.1"));
        assert_eq!(print(&names("127.0.0.1")), first);
        assert_ne!(print(&names("stage.local")), first);
    }
}
