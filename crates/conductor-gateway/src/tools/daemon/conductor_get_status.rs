//! `conductor_get_status`: the state of the daemon and its devices.

use super::prelude::*;

pub fn definition(owner: &OwnerHandle) -> Definition {
    owner_tool("conductor_get_status", Tier::ReadOnly, owner, |owner, studio, _clearance, _arguments| async move { to_output(&plans::with_waiting(&studio, owner.status().await?)) })
    .text(
        "Get status",
        "Returns the state of the daemon, the devices and the configuration: lifecycle, current mode, connected device, counters, missing \
         backends and the reason, whether the newest configuration is in force and which parts wait for a person, the performance lock, start \
         and end of MIDI learn, the number of plans that wait for a person, and whether the audit log and its second copy are written.",
    )
    .output(object(json!({
        "daemon_running": boolean(), "lifecycle_state": text(), "connected": boolean(), "device_connected": boolean(),
        "device": nullable(object(json!({
            "name": text(), "alias": nullable(text()), "port": integer(), "last_event_at": nullable(integer()),
        }))),
        "uptime_secs": integer(), "input_mode": text(),
        "statistics": object(json!({
            "events_processed": integer(), "actions_executed": integer(), "events_dropped": integer(),
            "actions_failed": integer(), "reloads_failed": integer(),
        })),
        "running": boolean(), "current_mode": text(), "mode_index": integer(), "last_event_at_iso": nullable(text()),
        "backends": list(object(json!({ "name": text(), "state": text(), "reason": nullable(text()) }))),
        "config": object(json!({
            "hash": nullable(text()), "loaded_at": text(), "error": nullable(text()), "disabled_mappings": integer(),
            "faults": integer(), "fault_lines": list(text()), "held": list(text()), "held_since": nullable(text()),
            "closed": nullable(text()), "unprotected": list(text()),
        })),
        "performance_lock": boolean(),
        "learning": nullable(object(json!({ "since": text(), "until": text(), "let_through": boolean() }))),
        "pending_plans": integer(), "pid?": integer(),
        "audit": object(json!({
            "writable": boolean(), "reason": nullable(text()), "copy_fault": nullable(text()), "waiting": integer(),
        })),
    })))
}
