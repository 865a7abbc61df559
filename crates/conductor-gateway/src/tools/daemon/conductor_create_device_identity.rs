//! `conductor_create_device_identity`: plans a device row, so that mappings can name a controller.

use super::prelude::*;
use conductor_core::config::schema;
use conductor_core::plan::Change;

pub fn definition() -> Definition {
    Definition::new("conductor_create_device_identity", Tier::ConfigChange, TOOLSET, |studio, clearance, arguments| async move {
        let mut change = arguments.clone();
        change["change_type"] = Value::from("CreateDeviceIdentity");
        let change = Change::read(&change, "").map_err(plans::bad_change)?;
        Ok(Output::new(plans::make(&studio, &clearance, &arguments, &[change], None).await?))
    })
    .text(
        "Create device identity",
        "Plans an alias for a controller. Matcher types: ExactName, NameContains, NameRegex, PlatformId, UsbTopology, ControllerGuid \
         {pattern}; UsbIdentifier {vendor_id, product_id}; CoreMidiUniqueId {value}. Use names from conductor_list_devices. Nothing changes \
         until a person applies the plan.",
    )
    .input(schema::with_defs(object(json!({
        "alias": { "$ref": "#/$defs/alias" },
        "matchers": { "type": "array", "items": { "$ref": "#/$defs/Matcher" }, "minItems": 1, "maxItems": 16 },
        "description?": { "type": "string", "maxLength": 1024 },
    }))))
    .output(config_plan())
    .summary(|arguments| format!("plan the device {}", arguments["alias"]))
}
