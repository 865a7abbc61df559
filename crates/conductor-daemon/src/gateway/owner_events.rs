//! Handles the owner's events in the gateway: calls fired by mappings, values for a patch or a Live
//! Set, the held approval pad, and changes for the audit log.

use super::{Gateway, approval_pad};
use crate::owner::events::OwnerEvents;
use crate::owner::wake::Waker;
use conductor_core::audit::record::EventName;
use conductor_core::engine::MappingCall;
use conductor_core::event::Taint;
use conductor_core::mapping::Target;
use conductor_core::policy::PadSettings;
use conductor_core::principal::Principal;
use conductor_gateway::config_in_force::ConfigInForce;
use conductor_gateway::live::errors::refused;
use conductor_gateway::mapping_call;
use conductor_gateway::pipeline::approval::ApproverPresent;
use conductor_gateway::pipeline::{self, Call};
use conductor_hosts::live::knobs as live_knobs;
use conductor_hosts::patch::knobs as patch_knobs;
use conductor_hosts::worker::{Latest, NotTaken, Worker};
use serde_json::json;
use std::io;
use std::sync::Arc;
use uuid::Uuid;

pub struct GatewayEvents {
    gateway: Arc<Gateway>,
    owner: Waker,
    patch_knobs: Worker<Latest<patch_knobs::Knob>>,
    live_knobs: Worker<Latest<live_knobs::Knob>>,
}

impl GatewayEvents {
    pub fn start(gateway: &Arc<Gateway>, owner: &Waker) -> io::Result<Self> {
        let (log, waker) = (gateway.log.clone(), owner.clone());
        let patch_knobs = patch_knobs::start(&gateway.patches, move |why| {
            log.debug(format_args!("patch: {why}"));
            waker.worker_failed();
        })?;
        let (log, waker, clock) = (gateway.log.clone(), owner.clone(), Arc::clone(&gateway.studio.clock));
        let live_knobs = live_knobs::start(
            &gateway.live,
            gateway.runtime.clone(),
            move || clock.now(),
            move |knob, refusal| {
                log.debug(format_args!("live: {}: {}", knob.path, refused(refusal).message));
                waker.worker_failed();
            },
        )?;
        Ok(GatewayEvents { gateway: Arc::clone(gateway), owner: owner.clone(), patch_knobs, live_knobs })
    }
}

impl OwnerEvents for GatewayEvents {
    fn call_fired(&self, call: MappingCall) {
        let studio = Arc::clone(&self.gateway.studio);
        let Some((tool, arguments)) = mapping_call::of(&call.action, &call.values) else {
            return self.owner.call_done(call.ticket, false);
        };
        let tool = studio.catalog().named(&tool).map_or(tool, |it| it.name.to_string());
        let principal = Principal::Mapping { mode: call.mapping.mode.to_string(), id: call.mapping.id.to_string() };
        let mut asked = Call::new(principal, tool, arguments);
        asked.tainted = call.taint != Taint::Clean;
        let (owner, ticket) = (self.owner.clone(), call.ticket);
        self.gateway.runtime.spawn(async move {
            let reply = pipeline::run(&studio, asked).await;
            owner.call_done(ticket, reply.is_ok());
        });
    }

    fn parameter_turned(&self, target: &Target, value: f64, ranged: bool, taint: Taint) -> Result<(), String> {
        let taken = if let Target::PatchAttribute { patch, object, attribute } = target {
            let (patch, object, attribute) = (patch.clone(), object.clone(), attribute.clone());
            let knob = patch_knobs::Knob { patch, object, attribute, by_hand: taint == Taint::Clean };
            self.patch_knobs.push((knob, value))
        } else if let Target::LiveParameter { path } = target {
            self.live_knobs.push((live_knobs::Knob { path: path.clone(), ranged }, value))
        } else {
            return Err("this target is neither a Live parameter nor a patch attribute".to_owned());
        };
        taken.map_err(|_: NotTaken| "the worker for this target has ended".to_owned())
    }

    fn config_in_force(&self, serving: &ConfigInForce) {
        self.gateway.put_in_force(serving);
    }

    fn config_rejected(&self, reason: &str) {
        self.gateway.note(EventName::ConfigRejected, json!({ "reason": reason }));
    }

    fn device_lost(&self, device: &str, port: Option<&str>) {
        self.gateway.note(EventName::DeviceLost, json!({ "device": device, "port": port }));
    }

    fn pad_armed(&self) -> ApproverPresent {
        self.gateway.studio.approvals.attend()
    }

    fn pad_held(&self, settings: PadSettings, question: Uuid) {
        let (studio, log) = (Arc::clone(&self.gateway.studio), self.gateway.log.clone());
        self.gateway.runtime.spawn(async move {
            match approval_pad::answer(&studio, &settings, question).await {
                Ok(done) => log.info(format_args!("approval pad: {done}")),
                Err(why) => log.warn(format_args!("the approval pad was held, but no request was answered: {why}")),
            }
        });
    }

    fn state_changed(&self) {
        self.gateway.owner_state.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn http_fault(&self) -> Option<String> {
        self.gateway.http.fault()
    }
}
