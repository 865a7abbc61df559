//! `conductor_create_device_identity`: plans a device row, so that mappings can name a controller.

use super::prelude::*;
use super::read_change;

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "`read_change` reads the arguments and reports the places of faults")]
struct Args {
    /// Name of the device in mappings
    #[schemars(with = "Value", extend("$ref" = "#/$defs/alias"))]
    alias: String,
    /// How to recognise the controller; one match is enough
    #[schemars(length(min = 1, max = 16))]
    matchers: Vec<Matcher>,
    /// One line about the device
    #[schemars(length(max = 1024))]
    description: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(with = "Value", extend("$ref" = "#/$defs/Matcher"))]
#[expect(dead_code, reason = "see above")]
struct Matcher(Value);

pub fn definition() -> Definition {
    tool("conductor_create_device_identity", Tier::ConfigChange, TOOLSET, &(), run)
        .text(
            "Create device identity",
            "Plans an alias for a controller. Matchers with {pattern}: ExactName, NameContains, NameRegex, PlatformId, UsbTopology, \
             ControllerGuid. Others: UsbIdentifier {vendor_id, product_id}, CoreMidiUniqueId {value}. Use names from conductor_list_devices. \
             Nothing changes until a person applies the plan.",
        )
        .summary(|arguments| format!("plan the device {}", arguments["alias"]))
}

async fn run((): (), cx: Context, _args: Args) -> Result<ConfigPlan, ToolError> {
    let change = read_change("CreateDeviceIdentity", &cx.arguments).map_err(plans::bad_change)?;
    plans::make(&cx, &[change], None).await
}
