//! Methods of the human door about secrets. No answer holds a value, and whatever changes one asks
//! first whether a person is asking.

use super::methods::{Answer, read, refuse};
use super::{Caller, Control};
use conductor_core::audit::record::EventName;
use conductor_core::error::{Code, ToolError};
use conductor_core::principal::Principal;
use conductor_gateway::secrets::{Secrets, Status};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretsMethod {
    Set,
    List,
    Remove,
    Status,
    Rotate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    name: String,
    value: String,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    allow_key_file: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

pub async fn answer(
    control: &Control,
    caller: Caller,
    method: SecretsMethod,
    params: Value,
) -> Result<Answer, ToolError> {
    let value = match method {
        SecretsMethod::Status => {
            let Nothing {} = read(params)?;
            shown(&work(control, |secrets| Ok(secrets.status())).await?)
        }
        SecretsMethod::List => {
            let Nothing {} = read(params)?;
            let listed = work(control, |secrets| Ok(secrets.list()?)).await?;
            let listed: Vec<Value> = listed
                .iter()
                .map(|it| json!({ "name": it.name, "version": it.version, "hosts": it.hosts, "fault": it.fault }))
                .collect();
            json!({ "secrets": listed })
        }
        SecretsMethod::Set => {
            let Set { name, value, hosts, allow_key_file } = read(params)?;
            let (value, by) = (SecretString::from(value), person(control, caller)?);
            let named = name.clone();
            let version =
                work(control, move |secrets| Ok(secrets.set(&named, value.expose_secret(), hosts, allow_key_file)?));
            let version = version.await?;
            tell(control, by, EventName::SecretSet, json!({ "name": name, "version": version })).await;
            // A plugin may have waited for it.
            control.gateway.plugins.touch();
            control.handle.key_changed();
            json!({ "name": name, "version": version })
        }
        SecretsMethod::Remove => {
            let Named { name } = read(params)?;
            let by = person(control, caller)?;
            let named = name.clone();
            work(control, move |secrets| Ok(secrets.remove(&named)?)).await?;
            tell(control, by, EventName::SecretRemoved, json!({ "name": name })).await;
            control.handle.key_changed();
            json!({ "removed": name })
        }
        SecretsMethod::Rotate => {
            let Nothing {} = read(params)?;
            let by = person(control, caller)?;
            let count = work(control, |secrets| Ok(secrets.rotate()?)).await?;
            tell(control, by, EventName::SecretRotated, json!({ "count": count })).await;
            control.handle.key_changed();
            json!({ "sealed": count })
        }
    };
    Ok(Answer::Value(value))
}

fn person(control: &Control, caller: Caller) -> Result<Principal, ToolError> {
    let person = control.recognise(caller.peer).map_err(refuse)?;
    Ok(Principal::Person { uid: person.uid })
}

async fn tell(control: &Control, by: Principal, event: EventName, detail: Value) {
    let _ = control.gateway.studio.audit.event(Some(by), event, detail).await;
}

/// The holder of the key may take seconds to answer.
async fn work<T: Send + 'static>(
    control: &Control,
    work: impl FnOnce(&Secrets) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let secrets = Arc::clone(&control.gateway.grants.secrets);
    let done = tokio::task::spawn_blocking(move || work(&secrets)).await;
    done.unwrap_or_else(|_| Err(ToolError::new(Code::Internal, "the secrets could not be reached")))
}

fn shown(status: &Status) -> Value {
    json!({ "key": status.rung.as_str(), "sentence": status.sentence, "open": status.open, "count": status.count })
}
