//! Tokens of an OAuth 2.1 authorization server (`[http.oauth]`).
//!
//! Conductor is a resource server: it publishes its metadata (RFC 9728) and checks JWTs with the
//! keys of the issuer. The keys are found through the issuer's metadata (RFC 8414, or OpenID
//! Connect Discovery) and cached. `jsonwebtoken` reads tokens and keys, and `ring` checks the
//! signatures. Not here: obtaining tokens, which is the task of the client and the issuer.

use super::{Refused, Token};
use crate::gateway::webhooks;
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use conductor_core::config::{HttpOauth, JwtAlgorithm};
use conductor_core::event::Micros;
use conductor_core::principal::{Principal, oauth_subject};
use conductor_core::timestamp::Timestamp;
use conductor_hosts::system::Clock;
use futures_util::StreamExt as _;
use http::StatusCode;
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, Validation, decode, decode_header};
use parking_lot::Mutex;
use reqwest::Url;
use ring::signature::{RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The well-known path of the metadata (RFC 9728).
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Maximum length of a token in bytes.
const MOST_TOKEN: usize = 16 * 1024;
/// Maximum size of an answer of the issuer in bytes.
const MOST_ANSWER: usize = 256 * 1024;
const MOST_KEYS: usize = 64;
/// Time limit for each answer of the issuer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The age at which the keys are read again.
const FRESH_US: u64 = 3_600_000_000;
/// The age up to which keys are used while the issuer cannot be reached.
const KEPT_US: u64 = 24 * 3_600_000_000;
/// Shortest time between two attempts to read the keys. Otherwise, each token with an invented key
/// id would cause a request to the issuer.
const PAUSE_US: u64 = 30_000_000;
/// Accepted difference between the clocks of the issuer and of this machine.
const LEEWAY_S: u64 = 60;

pub struct Oauth {
    settings: HttpOauth,
    client: reqwest::Client,
    keys: Mutex<Keys>,
    /// Locked while keys are read, so that concurrent requests read them once.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Keys {
    keys: Arc<Vec<Key>>,
    read_at: Option<Micros>,
    tried_at: Option<Micros>,
    fault: Option<String>,
}

struct Key {
    id: Option<String>,
    /// The algorithm that the issuer names for the key.
    algorithm: Option<Algorithm>,
    /// The algorithms that can be used with this type of key.
    fits: &'static [Algorithm],
    key: DecodingKey,
}

/// The claims of an access token that are used. Claims with a wrong type are an error.
#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    sub: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    /// The scopes of RFC 9068: names with spaces between them.
    scope: Option<String>,
    /// The scopes of servers that send a list instead of `scope`.
    scp: Option<Audience>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Audience::One(it) => std::slice::from_ref(it).iter(),
            Audience::Many(all) => all.iter(),
        }
        .map(String::as_str)
    }
}

#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

impl Oauth {
    pub fn new(settings: HttpOauth) -> Result<Arc<Self>, String> {
        // `jsonwebtoken` has one cryptography provider per process. A second installation fails;
        // ignore this, because only this module installs a provider, always the same one.
        let _ = PROVIDER.install_default();
        let client = webhooks::client()?;
        Ok(Arc::new(Oauth { settings, client, keys: Mutex::default(), reading: Default::default() }))
    }

    /// Whether this text has the form of a JWT. Tokens of Conductor contain no dots.
    pub fn is_for(token: &str) -> bool {
        token.bytes().filter(|it| *it == b'.').count() == 2
    }

    /// Converts a JWT to a token of this listener, if the JWT is valid now.
    pub async fn admit(&self, clock: &dyn Clock, token: &str) -> Result<Arc<Token>, Refused> {
        let claims = self.verify(clock, token).await?;
        let invalid = |why: String| self.invalid_token(&why);
        let now_s = clock.wall_ms() / 1000;
        if claims.iss.as_deref() != Some(self.settings.issuer.as_str()) {
            return Err(invalid("the token is from another issuer".to_owned()));
        }
        if !claims.aud.iter().flat_map(Audience::iter).any(|it| it == self.settings.audience) {
            return Err(invalid(format!("the token is for another audience, not for {}", self.settings.audience)));
        }
        let Some(expires) = claims.exp else { return Err(invalid("the token has no expiry time".to_owned())) };
        if !(expires.is_finite() && expires + LEEWAY_S as f64 > now_s as f64) {
            return Err(invalid("the token has expired".to_owned()));
        }
        if claims.nbf.is_some_and(|it| it > (now_s + LEEWAY_S) as f64) {
            return Err(invalid("the token is not valid yet".to_owned()));
        }
        let Some(subject) = claims.sub.as_deref().filter(|it| !it.is_empty()) else {
            return Err(invalid("the token has no subject".to_owned()));
        };
        let given: BTreeSet<&str> = claims
            .scope
            .iter()
            .flat_map(|it| it.split(' '))
            .chain(claims.scp.iter().flat_map(Audience::iter).flat_map(|it| it.split(' ')))
            .collect();
        let rows: Vec<_> = self.settings.scopes.iter().filter(|it| given.contains(it.name.as_str())).collect();
        if rows.is_empty() {
            return Err(self.missing_scope(&self.all_scopes()));
        }
        let tools: BTreeSet<&String> = rows.iter().flat_map(|it| &it.tools).collect();
        let mut scopes = BTreeSet::new();
        if !tools.is_empty() {
            scopes.insert("call".to_owned());
        }
        if rows.iter().any(|it| it.observe) {
            scopes.insert("observe".to_owned());
        }
        let subject = oauth_subject(subject);
        let names: Vec<&str> = rows.iter().map(|it| it.name.as_str()).collect();
        let ends_ms = (expires.clamp(0.0, MOST_SECONDS) as u64 + LEEWAY_S) * 1000;
        Ok(Arc::new(Token {
            session: format!("oauth:{subject} {}", names.join(" ")),
            name: subject.clone(),
            principal: Principal::Oauth { subject },
            hash: [0; 32],
            scopes,
            tools: tools.into_iter().cloned().collect(),
            views: Vec::new(),
            expires: Some(Timestamp::from_millis(ends_ms)),
        }))
    }

    fn all_scopes(&self) -> String {
        self.settings.scopes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Checks form, algorithm, key and signature.
    async fn verify(&self, clock: &dyn Clock, token: &str) -> Result<Claims, Refused> {
        let invalid = |why: &str| self.invalid_token(why);
        if token.len() > MOST_TOKEN {
            return Err(invalid("the token is too long"));
        }
        // The parser refuses unknown algorithms, including `none`.
        let header = decode_header(token).map_err(|error| {
            let is_unknown = matches!(error.kind(), ErrorKind::Json(_) | ErrorKind::InvalidAlgorithmName);
            invalid(if is_unknown { NOT_ALLOWED } else { "the token cannot be read" })
        })?;
        if !self.settings.algorithms.iter().any(|it| algorithm(*it) == header.alg) {
            return Err(invalid(NOT_ALLOWED));
        }
        // RFC 9068 names the type `at+jwt`. Other types, such as logout tokens, are not accepted.
        let kind = header.typ.as_deref().unwrap_or("jwt").to_ascii_lowercase();
        if !["jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str()) {
            return Err(invalid("the token is not an access token"));
        }
        if header.crit.is_some() {
            return Err(invalid("the token has critical extensions, which are not supported"));
        }
        let candidate = |it: &&Key| {
            let same_id = match (&header.kid, &it.id) {
                (Some(wanted), Some(id)) => wanted == id,
                (None, Some(_) | None) => true,
                (Some(_), None) => false,
            };
            same_id && it.fits.contains(&header.alg) && it.algorithm.is_none_or(|named| named == header.alg)
        };
        let mut keys = self.keys(clock, false).await?;
        if !keys.iter().any(|it| candidate(&it)) {
            // Read the keys again, because the issuer may have a new key.
            keys = self.keys(clock, true).await?;
        }
        let mut validation = Validation::new(header.alg);
        // Do not let the library check these claims: `admit` checks them with our clock, and gives
        // a reason for each.
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        validation.required_spec_claims.clear();
        let mut is_known = false;
        for key in keys.iter().filter(candidate) {
            is_known = true;
            match decode::<Claims>(token, &key.key, &validation) {
                Ok(valid) => return Ok(valid.claims),
                Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
                Err(_) => return Err(invalid("the claims of the token cannot be read")),
            }
        }
        Err(invalid(if is_known {
            "the signature of the token is not valid"
        } else {
            "the issuer has no such key: the key id of the token is unknown"
        }))
    }

    /// The keys of the issuer. With `again`, they are read again, unless the last attempt was less
    /// than `PAUSE_US` ago.
    async fn keys(&self, clock: &dyn Clock, again: bool) -> Result<Arc<Vec<Key>>, Refused> {
        let older = |at: Option<Micros>, than_us: u64| at.is_none_or(|it| clock.now().since(it) >= than_us);
        let wanted = || {
            let keys = self.keys.lock();
            (again || older(keys.read_at, FRESH_US)) && older(keys.tried_at, PAUSE_US)
        };
        if wanted() {
            let _reading = self.reading.lock().await;
            // Another request may have read the keys while this one waited.
            if wanted() {
                self.keys.lock().tried_at = Some(clock.now());
                let read = self.read_keys().await;
                let mut keys = self.keys.lock();
                match read {
                    Ok(read) => {
                        (keys.keys, keys.read_at, keys.fault) = (Arc::new(read), Some(clock.now()), None);
                    }
                    Err(why) => keys.fault = Some(why),
                }
            }
        }
        let keys = self.keys.lock();
        if keys.read_at.is_some() && !older(keys.read_at, KEPT_US) {
            return Ok(Arc::clone(&keys.keys));
        }
        let why = keys.fault.as_deref().unwrap_or("no answer");
        Err(Refused {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason: format!("the keys of the authorization server cannot be read: {why}"),
            challenge: None,
        })
    }

    async fn read_keys(&self) -> Result<Vec<Key>, String> {
        let issuer = Url::parse(&self.settings.issuer).map_err(|error| error.to_string())?;
        let metadata = self.discover(&issuer).await?;
        if metadata.issuer != self.settings.issuer {
            return Err("the metadata is from another issuer".to_owned());
        }
        let keys = Url::parse(&metadata.jwks_uri).map_err(|error| format!("jwks_uri: {error}"))?;
        if keys.scheme() != "https" && !(issuer.scheme() == "http" && is_loopback(&keys)) {
            return Err("jwks_uri must use https".to_owned());
        }
        let set: Value = self.get(keys).await?;
        let rows = set["keys"].as_array().ok_or("the key set has no keys")?;
        // Keys of unknown kinds are skipped.
        Ok(rows.iter().take(MOST_KEYS).filter_map(|it| key(it.clone())).collect())
    }

    /// The metadata of the issuer, at the first of the well-known addresses that has it.
    async fn discover(&self, issuer: &Url) -> Result<IssuerMetadata, String> {
        let path = issuer.path().trim_end_matches('/');
        let mut fault = String::new();
        for place in [
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("{path}/.well-known/openid-configuration"),
        ] {
            let mut url = issuer.clone();
            url.set_path(&place);
            match self.get(url).await {
                Ok(metadata) => return Ok(metadata),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    /// Reads JSON from the issuer, bounded in size and time. Redirects are not followed.
    async fn get<T: DeserializeOwned>(&self, url: Url) -> Result<T, String> {
        let place = url.path().to_owned();
        let fault = |error: reqwest::Error| format!("{place}: {}", error.without_url());
        let read = async {
            let answer = self.client.get(url).header("accept", "application/json").send().await.map_err(fault)?;
            if answer.status() != StatusCode::OK {
                return Err(format!("{place}: status {}", answer.status().as_u16()));
            }
            let (mut body, mut parts) = (Vec::new(), answer.bytes_stream());
            while let Some(part) = parts.next().await {
                body.extend_from_slice(&part.map_err(fault)?);
                if body.len() > MOST_ANSWER {
                    return Err(format!("{place}: the answer is too long"));
                }
            }
            serde_json::from_slice(&body).map_err(|error| format!("{place}: {error}"))
        };
        timeout(PATIENCE, read).await.unwrap_or_else(|_| Err(format!("{place}: no answer in time")))
    }

    /// The `WWW-Authenticate` header of a refusal.
    pub fn challenge(&self, more: &str) -> String {
        format!("Bearer resource_metadata=\"{}\"{more}", self.metadata_url())
    }

    fn invalid_token(&self, why: &str) -> Refused {
        // No reason needs escaping: the only variable part is the audience, a URL without quotation
        // marks and backslashes.
        let more = format!(", error=\"invalid_token\", error_description=\"{why}\"");
        Refused { status: StatusCode::UNAUTHORIZED, reason: why.to_owned(), challenge: Some(self.challenge(&more)) }
    }

    /// The refusal of a valid token that lacks a scope for the request.
    pub fn missing_scope(&self, scopes: &str) -> Refused {
        let more = format!(", error=\"insufficient_scope\", scope=\"{scopes}\"");
        Refused {
            status: StatusCode::FORBIDDEN,
            reason: format!("the token has none of the scopes that allow this: {scopes}"),
            challenge: Some(self.challenge(&more)),
        }
    }

    /// The refusal of a valid token that has no scope for observers.
    pub fn may_not_observe(&self) -> Refused {
        let rows = self.settings.scopes.iter().filter(|it| it.observe);
        self.missing_scope(&rows.map(|it| it.name.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// The address of the metadata: the well-known path, followed by the path of the resource.
    fn metadata_url(&self) -> String {
        match Url::parse(&self.settings.audience) {
            Ok(mut url) => {
                let path = format!("{METADATA}{}", url.path().trim_end_matches('/'));
                url.set_path(&path);
                url.into()
            }
            Err(_) => METADATA.to_owned(),
        }
    }

    fn metadata(&self) -> Response {
        let scopes: Vec<&str> = self.settings.scopes.iter().map(|it| it.name.as_str()).collect();
        axum::Json(json!({
            "resource": self.settings.audience,
            "authorization_servers": [self.settings.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Conductor",
        }))
        .into_response()
    }

    /// The routes of the metadata, for the resource itself and for the path of MCP.
    pub fn routes(self: &Arc<Self>) -> Router {
        let at = |path: &str, routes: Router| {
            let oauth = Arc::clone(self);
            routes.route(path, get(async move || oauth.metadata()))
        };
        at("/.well-known/oauth-protected-resource/mcp", at(METADATA, Router::new()))
    }
}

const NOT_ALLOWED: &str = "the signature algorithm of the token is not allowed";

/// The largest number of seconds since 1970 that a token can name: the year 9999.
const MOST_SECONDS: f64 = 253_402_300_799.0;

fn is_loopback(url: &Url) -> bool {
    url.scheme() == "http" && ["localhost", "127.0.0.1", "[::1]"].contains(&url.host_str().unwrap_or_default())
}

fn algorithm(named: JwtAlgorithm) -> Algorithm {
    match named {
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::Es384 => Algorithm::ES384,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
        JwtAlgorithm::Ps256 => Algorithm::PS256,
        JwtAlgorithm::Ps384 => Algorithm::PS384,
        JwtAlgorithm::Ps512 => Algorithm::PS512,
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Rs384 => Algorithm::RS384,
        JwtAlgorithm::Rs512 => Algorithm::RS512,
    }
}

/// A public key for signatures. `None` for symmetric keys, other kinds, and keys for encryption.
fn key(row: Value) -> Option<Key> {
    const RSA: &[Algorithm] =
        &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];
    let jwk: Jwk = serde_json::from_value(row).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
        return None;
    }
    let is_curve = |wanted: &EllipticCurve| {
        matches!(&jwk.algorithm, AlgorithmParameters::EllipticCurve(it) if it.curve == *wanted)
            || matches!(&jwk.algorithm, AlgorithmParameters::OctetKeyPair(it) if it.curve == *wanted)
    };
    let fits: &[Algorithm] = if matches!(jwk.algorithm, AlgorithmParameters::RSA(_)) {
        RSA
    } else if is_curve(&EllipticCurve::P256) {
        &[Algorithm::ES256]
    } else if is_curve(&EllipticCurve::P384) {
        &[Algorithm::ES384]
    } else if is_curve(&EllipticCurve::Ed25519) {
        &[Algorithm::EdDSA]
    } else {
        return None;
    };
    let algorithm = match jwk.common.key_algorithm {
        Some(named) => Some(named.to_string().parse().ok()?),
        None => None,
    };
    Some(Key { id: jwk.common.key_id.clone(), algorithm, fits, key: DecodingKey::from_jwk(&jwk).ok()? })
}

/// Signatures are checked by `ring`, which TLS uses too. Conductor signs no tokens.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingVerifier {
    algorithm: Algorithm,
    key: PublicKey,
}

enum PublicKey {
    Rsa { parameters: &'static RsaParameters, n: Vec<u8>, e: Vec<u8> },
    Point(UnparsedPublicKey<Vec<u8>>),
}

impl RingVerifier {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, jsonwebtoken::errors::Error> {
        use ring::signature as known;
        let wrong = || jsonwebtoken::errors::Error::from(ErrorKind::InvalidAlgorithm);
        if key.family() != algorithm.family() {
            return Err(wrong());
        }
        let rsa: [(Algorithm, &'static RsaParameters); 6] = [
            (Algorithm::RS256, &known::RSA_PKCS1_2048_8192_SHA256),
            (Algorithm::RS384, &known::RSA_PKCS1_2048_8192_SHA384),
            (Algorithm::RS512, &known::RSA_PKCS1_2048_8192_SHA512),
            (Algorithm::PS256, &known::RSA_PSS_2048_8192_SHA256),
            (Algorithm::PS384, &known::RSA_PSS_2048_8192_SHA384),
            (Algorithm::PS512, &known::RSA_PSS_2048_8192_SHA512),
        ];
        let points: [(Algorithm, &'static dyn VerificationAlgorithm); 3] = [
            (Algorithm::ES256, &known::ECDSA_P256_SHA256_FIXED),
            (Algorithm::ES384, &known::ECDSA_P384_SHA384_FIXED),
            (Algorithm::EdDSA, &known::ED25519),
        ];
        let is = |it: Algorithm| it == algorithm;
        let key = match (rsa.iter().find(|it| is(it.0)), points.iter().find(|it| is(it.0)), key.kind()) {
            (Some((_, parameters)), _, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                PublicKey::Rsa { parameters, n: n.clone(), e: e.clone() }
            }
            (None, Some((_, kind)), DecodingKeyKind::SecretOrDer(point)) => {
                PublicKey::Point(UnparsedPublicKey::new(*kind, point.clone()))
            }
            (_, _, _) => return Err(wrong()),
        };
        Ok(RingVerifier { algorithm, key })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match &self.key {
            PublicKey::Rsa { parameters, n, e } => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            PublicKey::Point(key) => key.verify(message, signature),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::State;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use conductor_core::config::OauthScope;
    use conductor_testkit::time::ManualTime;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
    use std::sync::atomic::{AtomicUsize, Ordering};

    const AUDIENCE: &str = "https://studio.test/mcp";

    struct Signer(EcdsaKeyPair);

    impl Signer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            Signer(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap())
        }

        fn jwk(&self, id: &str) -> Value {
            let point = self.0.public_key().as_ref();
            let part = |from: usize| URL_SAFE_NO_PAD.encode(&point[from..from + 32]);
            json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": part(1), "y": part(33) })
        }

        fn sign(&self, header: &Value, claims: &Value) -> String {
            let part = |it: &Value| URL_SAFE_NO_PAD.encode(it.to_string());
            let message = format!("{}.{}", part(header), part(claims));
            let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
        }
    }

    #[derive(Default)]
    struct Issuer {
        keys: Mutex<Value>,
        metadata: Mutex<Value>,
        reads: AtomicUsize,
    }

    /// An issuer on loopback. The second value is its address.
    async fn issuer() -> (Arc<Issuer>, String) {
        let issuer = Arc::new(Issuer::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        *issuer.metadata.lock() = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") });
        let routes = Router::new()
            .route(
                "/.well-known/openid-configuration",
                get(async |State(it): State<Arc<Issuer>>| axum::Json(it.metadata.lock().clone())),
            )
            .route(
                "/keys",
                get(async |State(it): State<Arc<Issuer>>| {
                    it.reads.fetch_add(1, Ordering::SeqCst);
                    axum::Json(it.keys.lock().clone())
                }),
            )
            .with_state(Arc::clone(&issuer));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (issuer, url)
    }

    struct Stage {
        issuer: Arc<Issuer>,
        url: String,
        clock: Arc<ManualTime>,
        signer: Signer,
        oauth: Arc<Oauth>,
    }

    impl Stage {
        async fn new() -> Self {
            let (issuer, url) = issuer().await;
            let signer = Signer::new();
            *issuer.keys.lock() =
                json!({ "keys": [signer.jwk("one"), { "kty": "oct", "k": "AAAA", "kid": "symmetric" }] });
            let scope = |name: &str, tools: &[&str], observe| OauthScope {
                name: name.to_owned(),
                tools: tools.iter().map(|it| (*it).to_owned()).collect(),
                observe,
            };
            let settings = HttpOauth {
                issuer: url.clone(),
                audience: AUDIENCE.to_owned(),
                algorithms: vec![JwtAlgorithm::Es256],
                scopes: vec![scope("modes", &["conductor_list_modes"], false), scope("watch", &[], true)],
            };
            let oauth = Oauth::new(settings).unwrap();
            Stage { issuer, url, clock: ManualTime::new(), signer, oauth }
        }

        fn claims(&self) -> Value {
            let now = self.clock.wall_ms() / 1000;
            json!({ "iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": now + 600, "scope": "modes other" })
        }

        fn token(&self, change: impl FnOnce(&mut Value)) -> String {
            let mut claims = self.claims();
            change(&mut claims);
            self.signer.sign(&json!({ "alg": "ES256", "kid": "one", "typ": "at+jwt" }), &claims)
        }

        async fn refused(&self, token: &str) -> (u16, String) {
            let refused = self.oauth.admit(&*self.clock, token).await.expect_err("a refusal");
            (refused.status.as_u16(), refused.reason)
        }
    }

    #[tokio::test]
    async fn a_token_of_the_issuer_has_the_tools_of_its_scopes() {
        let stage = Stage::new().await;
        let token = stage.oauth.admit(&*stage.clock, &stage.token(|_| {})).await.ok().unwrap();
        assert_eq!(token.principal.to_string(), "oauth:ada");
        assert_eq!(token.tools, ["conductor_list_modes"]);
        assert!(token.scopes.contains("call") && !token.scopes.contains("observe"));
        let both = stage.token(|it| it["scope"] = json!("watch modes"));
        let both = stage.oauth.admit(&*stage.clock, &both).await.ok().unwrap();
        assert!(both.scopes.contains("call") && both.scopes.contains("observe"));
        assert_ne!(both.session, token.session, "tokens with different scopes share a session");
        let list = stage.token(|it| it["aud"] = json!(["https://other.test", AUDIENCE]));
        assert!(stage.oauth.admit(&*stage.clock, &list).await.is_ok());
        assert_eq!(stage.issuer.reads.load(Ordering::SeqCst), 1, "the keys were not cached");
    }

    #[tokio::test]
    async fn every_other_token_is_refused_with_its_reason() {
        let stage = Stage::new().await;
        let now = stage.clock.wall_ms() / 1000;
        let cases: Vec<(&str, String, u16)> = vec![
            ("another audience", stage.token(|it| it["aud"] = json!("https://other.test/mcp")), 401),
            ("another audience", stage.token(|it| it["aud"] = json!([])), 401),
            ("another audience", stage.token(|it| drop(it.as_object_mut().unwrap().remove("aud"))), 401),
            ("has expired", stage.token(|it| it["exp"] = json!(now.saturating_sub(61))), 401),
            ("no expiry time", stage.token(|it| drop(it.as_object_mut().unwrap().remove("exp"))), 401),
            ("cannot be read", stage.token(|it| it["exp"] = json!("tomorrow")), 401),
            ("cannot be read", stage.token(|it| it["nbf"] = json!("yesterday")), 401),
            ("not valid yet", stage.token(|it| it["nbf"] = json!(now + 120)), 401),
            ("another issuer", stage.token(|it| it["iss"] = json!("https://evil.test")), 401),
            ("no subject", stage.token(|it| it["sub"] = json!("")), 401),
            ("none of the scopes", stage.token(|it| it["scope"] = json!("other")), 403),
            ("none of the scopes", stage.token(|it| drop(it.as_object_mut().unwrap().remove("scope"))), 403),
        ];
        for (reason, token, status) in cases {
            let (got, why) = stage.refused(&token).await;
            assert!(got == status && why.contains(reason), "{reason}: {got} {why}");
        }
        let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
        let claims = stage.claims();
        let sign = |header: &Value| stage.signer.sign(header, &claims);
        let foreign = Signer::new().sign(&header("ES256", "one"), &claims);
        assert!(stage.refused(&foreign).await.1.contains("signature of the token is not valid"));
        for alg in ["none", "None", "HS256", "HS512", "RS256", "EdDSA", "ES512"] {
            let (status, why) = stage.refused(&sign(&header(alg, "one"))).await;
            assert!(status == 401 && why.contains("algorithm of the token is not allowed"), "{alg}: {why}");
        }
        let unsigned = sign(&header("none", "one"));
        let (unsigned, _) = unsigned.rsplit_once('.').unwrap();
        assert!(stage.refused(&format!("{unsigned}.")).await.1.contains("not allowed"));
        assert!(stage.refused(&sign(&header("ES256", "two"))).await.1.contains("key id of the token is unknown"));
        assert!(stage.refused(&sign(&header("ES256", "symmetric"))).await.1.contains("key id of the token is unknown"));
        let typed = sign(&json!({ "alg": "ES256", "kid": "one", "typ": "logout+jwt" }));
        assert!(stage.refused(&typed).await.1.contains("not an access token"));
        assert!(stage.refused("a.b.c").await.0 == 401);
        assert!(stage.refused(&format!("{}.b.c", "a".repeat(MOST_TOKEN))).await.1.contains("too long"));
    }

    #[tokio::test]
    async fn a_new_key_is_found_and_invented_key_ids_cause_no_requests() {
        let mut stage = Stage::new().await;
        assert!(stage.oauth.admit(&*stage.clock, &stage.token(|_| {})).await.is_ok());
        let invented = stage.signer.sign(&json!({ "alg": "ES256", "kid": "x" }), &stage.claims());
        for _ in 0..20 {
            assert_eq!(stage.refused(&invented).await.0, 401);
        }
        assert_eq!(stage.issuer.reads.load(Ordering::SeqCst), 1);
        // The issuer replaces its key.
        let old = stage.token(|_| {});
        stage.signer = Signer::new();
        *stage.issuer.keys.lock() = json!({ "keys": [stage.signer.jwk("two")] });
        let new = stage.signer.sign(&json!({ "alg": "ES256", "kid": "two" }), &stage.claims());
        stage.clock.advance(Duration::from_micros(PAUSE_US));
        assert!(stage.oauth.admit(&*stage.clock, &new).await.is_ok());
        assert_eq!(stage.refused(&old).await.0, 401, "a token of the replaced key was accepted");
        assert_eq!(stage.issuer.reads.load(Ordering::SeqCst), 2);
        // While the issuer fails, its keys are used for a day, but not longer.
        *stage.issuer.metadata.lock() = json!({ "issuer": "https://evil.test", "jwks_uri": "https://evil.test/keys" });
        stage.clock.advance(Duration::from_micros(FRESH_US));
        let claims = stage.claims();
        let later = stage.signer.sign(&json!({ "alg": "ES256", "kid": "two" }), &claims);
        assert!(stage.oauth.admit(&*stage.clock, &later).await.is_ok());
        stage.clock.advance(Duration::from_micros(KEPT_US));
        let claims = stage.claims();
        let later = stage.signer.sign(&json!({ "alg": "ES256", "kid": "two" }), &claims);
        let (status, why) = stage.refused(&later).await;
        assert!(status == 503 && why.contains("another issuer"), "{status} {why}");
    }

    #[tokio::test]
    async fn the_metadata_names_resource_and_issuer() {
        let stage = Stage::new().await;
        assert_eq!(
            stage.oauth.challenge(""),
            "Bearer resource_metadata=\"https://studio.test/.well-known/oauth-protected-resource/mcp\""
        );
        let body = axum::body::to_bytes(stage.oauth.metadata().into_body(), 4096).await.unwrap();
        let metadata: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(metadata["resource"], AUDIENCE);
        assert_eq!(metadata["authorization_servers"], json!([stage.url]));
        assert_eq!(metadata["scopes_supported"], json!(["modes", "watch"]));
    }
}
