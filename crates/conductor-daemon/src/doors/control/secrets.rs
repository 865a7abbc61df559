//! Requests on the human door about secrets. No answer contains a value, and only a person can
//! change a secret.

use super::{Caller, Control};
use conductor_core::audit::record::EventName;
use conductor_core::error::{Code, ToolError};
use conductor_core::principal::Principal;
use conductor_gateway::secrets::Secrets;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::sync::Arc;

/// Where the key is, and the names of the secrets.
pub async fn list(control: &Control) -> Result<Value, ToolError> {
    let (status, listed) = work(control, |secrets| Ok((secrets.status(), secrets.list()?))).await?;
    let listed =
        listed.iter().map(|it| json!({ "name": it.name, "version": it.version, "hosts": it.hosts, "fault": it.fault }));
    Ok(json!({
        "key": status.rung.as_str(), "sentence": status.sentence, "open": status.open, "count": status.count,
        "secrets": listed.collect::<Vec<_>>(),
    }))
}

pub async fn set(
    control: &Control,
    caller: Caller,
    name: String,
    value: String,
    hosts: Vec<String>,
    allow_key_file: bool,
) -> Result<Value, ToolError> {
    let (value, by) = (SecretString::from(value), control.person(caller)?);
    let key = name.clone();
    let stored = move |secrets: &Secrets| Ok(secrets.set(&key, value.expose_secret(), hosts, allow_key_file)?);
    let version = work(control, stored).await?;
    let answer = json!({ "name": name, "version": version });
    changed(control, by, EventName::SecretSet, answer.clone()).await;
    // Check the plugins again: a plugin may need this secret.
    control.gateway.plugins.touch();
    Ok(answer)
}

pub async fn remove(control: &Control, caller: Caller, name: String) -> Result<Value, ToolError> {
    let by = control.person(caller)?;
    let key = name.clone();
    work(control, move |secrets| Ok(secrets.remove(&key)?)).await?;
    changed(control, by, EventName::SecretRemoved, json!({ "name": name })).await;
    Ok(json!({ "removed": name }))
}

pub async fn rotate(control: &Control, caller: Caller) -> Result<Value, ToolError> {
    let by = control.person(caller)?;
    let count = work(control, |secrets| Ok(secrets.rotate()?)).await?;
    changed(control, by, EventName::SecretRotated, json!({ "count": count })).await;
    Ok(json!({ "sealed": count }))
}

/// Records the change and notifies the owner.
async fn changed(control: &Control, by: Principal, event: EventName, detail: Value) {
    let _ = control.gateway.studio.audit_event(Some(by), event, detail).await;
    control.handle.key_changed();
}

/// Runs `work` on a thread that may block: the keychain may need seconds to answer.
async fn work<T: Send + 'static>(
    control: &Control,
    work: impl FnOnce(&Secrets) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let secrets = Arc::clone(&control.gateway.grants.secrets);
    let done = tokio::task::spawn_blocking(move || work(&secrets)).await;
    done.unwrap_or_else(|_| Err(ToolError::new(Code::Internal, "the operation on the secrets did not complete")))
}
