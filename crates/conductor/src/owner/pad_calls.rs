//! Actions that take the pipeline or drive a host: a call under a pad, and a value for a patch or a
//! Live Set.

use super::dispatch::Calls;
use super::wake::Waker;
use crate::gateway::Gateway;
use conductor_core::engine::MappingCall;
use conductor_core::event::Taint;
use conductor_core::mapping::Target;
use conductor_core::principal::Principal;
use conductor_gateway::pipeline::{self, Call};
use conductor_gateway::studio::Studio;
use conductor_gateway::tools::daemon::mapping_call;
use conductor_hosts::latest_value_worker::LatestValueWorker;
use conductor_hosts::live;
use conductor_hosts::patch::knobs as patch_knobs;
use std::io;
use std::sync::{Arc, OnceLock};

/// Calls under a pad, on their way into the pipeline. The owner exists before the studio does, so
/// the studio is filled in later.
#[derive(Default)]
pub struct PadCalls {
    studio: OnceLock<(Arc<Studio>, tokio::runtime::Handle)>,
    patch_knobs: OnceLock<LatestValueWorker<patch_knobs::Knob>>,
    live_knobs: OnceLock<LatestValueWorker<live::knobs::Knob>>,
}

impl PadCalls {
    pub fn connect(&self, gateway: &Gateway, runtime: tokio::runtime::Handle, owner: &Waker) -> io::Result<()> {
        let _ = self.studio.set((Arc::clone(&gateway.studio), runtime.clone()));
        let (log, waker) = (gateway.log.clone(), owner.clone());
        let knobs = patch_knobs::start(&gateway.patches, move |why| {
            log.debug(format_args!("patch: {why}"));
            waker.worker_failed();
        })?;
        let _ = self.patch_knobs.set(knobs);
        let (log, waker, clock) = (gateway.log.clone(), owner.clone(), Arc::clone(&gateway.studio.clock));
        let knobs = live::knobs::start(
            &gateway.live,
            runtime,
            move || clock.now(),
            move |knob, refusal| {
                log.debug(format_args!(
                    "live: {}: {}",
                    knob.path,
                    conductor_gateway::tools::live::refused(refusal).message
                ));
                waker.worker_failed();
            },
        )?;
        let _ = self.live_knobs.set(knobs);
        Ok(())
    }
}

impl Calls for PadCalls {
    fn start(&self, call: MappingCall, owner: &Waker) {
        let made = mapping_call::of(&call.action, &call.values);
        let (Some((studio, runtime)), Some((tool, arguments))) = (self.studio.get(), made) else {
            return owner.call_done(call.ticket, false);
        };
        let tool = studio.catalog().named(&tool).map_or(tool, |it| it.name.to_string());
        let principal = Principal::Mapping { mode: call.mapping.mode.to_string(), id: call.mapping.id.to_string() };
        let mut asked = Call::new(principal, tool, arguments);
        asked.tainted = call.taint != Taint::Clean;
        let (studio, owner, ticket) = (Arc::clone(studio), owner.clone(), call.ticket);
        runtime.spawn(async move {
            let reply = pipeline::run(&studio, asked).await;
            owner.call_done(ticket, reply.is_ok());
        });
    }

    fn turn(&self, target: &Target, value: f64, ranged: bool, taint: Taint) -> Result<(), String> {
        match target {
            Target::PatchAttribute { patch, object, attribute } => {
                let (patch, object, attribute) = (patch.clone(), object.clone(), attribute.clone());
                let knobs = self.patch_knobs.get().ok_or("no patch is served yet")?;
                let by_hand = taint == Taint::Clean;
                knobs.turn(patch_knobs::Knob { patch, object, attribute, by_hand }, value);
                Ok(())
            }
            Target::LiveParameter { path } => {
                let knobs = self.live_knobs.get().ok_or("no Set is served yet")?;
                knobs.turn(live::knobs::Knob { path: path.clone(), ranged }, value);
                Ok(())
            }
            Target::Cc { .. }
            | Target::Cc14 { .. }
            | Target::Nrpn { .. }
            | Target::Rpn { .. }
            | Target::PitchBend { .. }
            | Target::Aftertouch { .. }
            | Target::OscFloat { .. } => Err("this target has no host".to_owned()),
        }
    }
}
