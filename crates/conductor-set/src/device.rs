//! Devices and parameters. Of a rack, only the macros and the on/off switch are read. Not here:
//! devices inside racks, which have no path.

use crate::clip::{ClipInfo, PAGE};
use crate::document::Document;
use crate::error::{Listing, LiveError};
use crate::facts;
use crate::path::{ChainPart, PathId};
use crate::track::{Chain, mixer_of, stored_number, stored_text};
use crate::wire;
use crate::xml::{El, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a parameter's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Linear gain; 1 is 0 dB.
    Gain,
    /// -1 (left) to 1 (right).
    Pan,
    /// 0 or 1.
    Bool,
    /// The scale that the document uses for this parameter.
    Document,
    /// The scale of a running Live. Its faders range from 0 to 1, and 0.85 is 0 dB.
    Live,
}

/// The source of a parameter's range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RangeSource {
    /// The document contains the range to which a controller would be mapped; its ends are sorted.
    /// A switch ranges from 0 to 1.
    Mapping,
    /// The document does not contain the range.
    Unknown,
    /// A running Live reported the range.
    Host,
}

/// A parameter with its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Param {
    /// Path of the parameter.
    pub id: PathId,
    /// Path of the parameter's XML element below the device, with dots between the element names.
    pub name: String,
    /// Lowest value.
    #[serde(serialize_with = "wire::number")]
    pub min: f64,
    /// Highest value.
    #[serde(serialize_with = "wire::number")]
    pub max: f64,
    /// Whether the parameter has discrete steps.
    pub is_quantized: bool,
    /// Default value; none for a document, which does not store it.
    #[serde(serialize_with = "wire::optional")]
    pub default_value: Option<f64>,
    /// The stored value.
    #[serde(serialize_with = "wire::number")]
    pub value: f64,
    /// The unit of the values.
    pub unit: Unit,
    /// The value as text for a person.
    pub display: String,
    /// The source of the range.
    pub range_source: RangeSource,
    /// Whether an envelope automates the parameter; none when a running Live does not report it.
    pub automated: Option<bool>,
}

/// A device with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Path of the device.
    pub id: PathId,
    /// Name of the device in Live.
    pub name: String,
    /// Name of the XML element.
    pub class_name: String,
    /// Whether the device is on; none when the document does not contain this switch.
    pub is_on: Option<bool>,
    /// Parameters of the device.
    pub params: Vec<Param>,
}

/// The devices and the mixer of a track, up to 400 parameters in total.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    /// The requested track.
    pub track_id: PathId,
    /// Devices in chain order.
    pub devices: Vec<Device>,
    /// Volume, panning and sends.
    pub mixer: Vec<Param>,
    /// Present when parameters were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Fields that the document does not store.
    pub unknown: Vec<&'static str>,
}

impl Devices {
    /// The devices and the mixer, limited to [`PAGE`] parameters in total. The parameters of the
    /// mixer are included first.
    pub fn capped(
        track_id: PathId,
        mut devices: Vec<Device>,
        mut mixer: Vec<Param>,
        unknown: Vec<&'static str>,
    ) -> Self {
        let (mut left, mut cut) = (PAGE, false);
        for params in std::iter::once(&mut mixer).chain(devices.iter_mut().map(|it| &mut it.params)) {
            cut |= params.len() > left;
            params.truncate(left);
            left -= params.len();
        }
        Devices { track_id, devices, mixer, truncated: cut.then_some(true), unknown }
    }
}

/// A device with the ids of its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRow {
    /// Path of the device.
    pub id: PathId,
    /// Name of the device in Live.
    pub name: String,
    /// Name of the XML element.
    pub class_name: String,
    /// Ids of the device's parameters.
    pub param_ids: Vec<PathId>,
}

/// One track for the resource `ableton://track/{i}`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackDetail {
    /// The requested track.
    pub track_id: PathId,
    /// Slots, followed by arrangement clips.
    pub clips: Vec<ClipInfo>,
    /// Parameters of all devices.
    pub params: Vec<Param>,
    /// Devices in chain order.
    pub devices: Vec<DeviceRow>,
    /// Volume, panning and sends.
    pub mixer: Vec<Param>,
    /// Present when entries were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// Total numbers of clips and parameters; present when entries were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// Names of fields of this reply that the host does not report.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<&'static str>,
}

impl TrackDetail {
    /// A track with its clips and devices, limited to [`PAGE`] clips and [`PAGE`] parameters.
    pub fn capped(
        track_id: PathId,
        mut clips: Vec<ClipInfo>,
        devices: Vec<Device>,
        mixer: Vec<Param>,
        unknown: Vec<&'static str>,
    ) -> Self {
        let totals = Totals { clips: clips.len(), params: devices.iter().map(|it| it.params.len()).sum() };
        let truncated = totals.clips > PAGE || totals.params > PAGE;
        clips.truncate(PAGE);
        let (mut rows, mut params) = (Vec::new(), Vec::new());
        for device in devices {
            let shown = device.params.into_iter().take(PAGE - params.len());
            let from = params.len();
            params.extend(shown);
            let param_ids = params.iter().skip(from).map(|it: &Param| it.id).collect();
            rows.push(DeviceRow { id: device.id, name: device.name, class_name: device.class_name, param_ids });
        }
        let (truncated, totals) = (truncated.then_some(true), truncated.then_some(totals));
        TrackDetail { track_id, clips, params, devices: rows, mixer, truncated, totals, unknown }
    }
}

/// Number of entries before the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Totals {
    /// Number of slots and arrangement clips.
    pub clips: usize,
    /// Number of device parameters.
    pub params: usize,
}

/// The events of a parameter's envelope; none without an envelope.
pub(crate) fn envelope<'a>(track: El<'a>, param: El<'a>) -> Option<Vec<El<'a>>> {
    if let Some(inline) = param.at("ArrangerAutomation/Events") {
        return Some(inline.children().collect());
    }
    let target = param.child("AutomationTarget")?.attr_raw("Id")?;
    let list = track.at("AutomationEnvelopes/Envelopes")?;
    let found =
        list.children().find(|e| e.at("EnvelopeTarget/PointeeId").and_then(|p| p.attr_raw("Value")) == Some(target))?;
    Some(found.at("Automation/Events").map(|e| e.children().collect()).unwrap_or_default())
}

pub(crate) fn is_parameter(el: El<'_>) -> bool {
    el.child("Manual").is_some() && el.child("AutomationTarget").is_some()
}

fn is_rack(device: El<'_>) -> bool {
    device.name().ends_with("GroupDevice")
}

/// The parameters of a device in document order, with their dotted names.
pub(crate) fn parameters(device: El<'_>) -> Vec<(String, El<'_>)> {
    fn walk<'a>(el: El<'a>, name: &str, out: &mut Vec<(String, El<'a>)>) {
        for child in el.children() {
            let name = if name.is_empty() { child.name().to_owned() } else { format!("{name}.{}", child.name()) };
            if is_parameter(child) {
                out.push((name, child));
            } else if child.children().next().is_some() {
                walk(child, &name, out);
            }
        }
    }
    if is_rack(device) {
        let shown = device
            .children()
            .filter(|c| is_parameter(*c) && (c.name() == "On" || c.name().starts_with("MacroControls.")));
        return shown.map(|c| (c.name().to_owned(), c)).collect();
    }
    let mut out = Vec::new();
    walk(device, "", &mut out);
    out
}

/// The name of the type of a device in Live, or of the plug-in. A name that a person gave to the
/// device is ignored.
pub(crate) fn class_name(device: El<'_>) -> String {
    let plugin = || {
        let desc = device.child("PluginDesc")?.children().next()?;
        let name = desc.value("PlugName").or_else(|| desc.value("Name"))?;
        Some(name.into_owned()).filter(|n| !n.is_empty())
    };
    facts::device_name(device.name()).map(str::to_owned).or_else(plugin).unwrap_or_else(|| device.name().to_owned())
}

pub(crate) fn device_name(device: El<'_>) -> String {
    let own = device.value("UserName").filter(|n| !n.is_empty());
    own.map_or_else(|| class_name(device), |n| n.into_owned())
}

// Live shows this gain and all lower gains as minus infinity.
const SILENCE: f64 = 0.000_316_227_757_1;

/// The value of a parameter as text for a person.
pub fn display(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Gain if value <= SILENCE => "-inf dB".into(),
        Unit::Gain => format!("{:.1} dB", 20.0 * value.log10()),
        Unit::Pan if value == 0.0 => "C".into(),
        Unit::Pan => format!("{:.0}{}", value.abs() * 50.0, if value < 0.0 { "L" } else { "R" }),
        Unit::Bool => if value == 0.0 { "off" } else { "on" }.into(),
        Unit::Document | Unit::Live => number(value),
    }
}

/// Name of a send, with the letter that Live uses: `Send A`.
pub fn send_name(n: u32) -> String {
    let letter = char::from_u32(u32::from(b'A').saturating_add(n)).filter(char::is_ascii_uppercase);
    letter.map_or_else(|| format!("Send {}", n.saturating_add(1)), |c| format!("Send {c}"))
}

/// A parameter element with the facts needed to show or write its value.
#[derive(Debug, Clone)]
pub(crate) struct FoundParam<'a> {
    pub chain: Chain<'a>,
    pub el: El<'a>,
    pub id: PathId,
    pub name: String,
    pub unit: Unit,
}

impl FoundParam<'_> {
    pub fn is_switch(&self) -> bool {
        matches!(stored_text(self.el).as_deref(), Some("true" | "false"))
            || self.el.child("MidiCCOnOffThresholds").is_some()
    }

    pub fn info(&self) -> Param {
        let value = stored_number(self.el).unwrap_or(0.0);
        let range = self.el.child("MidiControllerRange");
        let ends = range.and_then(|r| Some((r.number("Min")?, r.number("Max")?)));
        let unit = if self.is_switch() { Unit::Bool } else { self.unit };
        let (min, max, is_quantized, range_source) = match ends {
            _ if unit == Unit::Bool => (0.0, 1.0, true, RangeSource::Mapping),
            // In some Sets the minimum is above the maximum.
            Some((a, b)) => (a.min(b), a.max(b), false, RangeSource::Mapping),
            None => (value, value, true, RangeSource::Unknown),
        };
        Param {
            id: self.id,
            name: self.name.clone(),
            min,
            max,
            is_quantized,
            default_value: None,
            value,
            unit,
            display: display(unit, value),
            range_source,
            automated: Some(envelope(self.chain.el, self.el).is_some_and(|e| e.len() > 1)),
        }
    }
}

impl<'a> Chain<'a> {
    pub fn mixer(&self) -> Vec<Param> {
        self.mixer_params().iter().map(FoundParam::info).collect()
    }

    pub fn all_devices(&self) -> Vec<Device> {
        let of = |(n, el): (u32, El<'a>)| Device {
            id: self.owner.part(ChainPart::Device(n)),
            name: device_name(el),
            class_name: el.name().to_owned(),
            is_on: el.child("On").and_then(stored_number).map(|v| v != 0.0),
            params: self.device_params(n, el).iter().map(FoundParam::info).collect(),
        };
        (0..).zip(self.devices()).map(of).collect()
    }

    pub fn mixer_params(&self) -> Vec<FoundParam<'a>> {
        let chain = *self;
        let found = |part, name: String, el, unit| FoundParam { chain, el, id: chain.owner.part(part), name, unit };
        let mixer = mixer_of(self.el);
        let volume =
            mixer.and_then(|m| m.child("Volume")).map(|el| found(ChainPart::Volume, "Volume".into(), el, Unit::Gain));
        let pan =
            mixer.and_then(|m| m.child("Pan")).map(|el| found(ChainPart::Panning, "Panning".into(), el, Unit::Pan));
        let sends = (0..).zip(self.sends()).map(|(n, el)| found(ChainPart::Send(n), send_name(n), el, Unit::Gain));
        volume.into_iter().chain(pan).chain(sends).collect()
    }

    pub fn device_params(&self, n: u32, device: El<'a>) -> Vec<FoundParam<'a>> {
        let chain = *self;
        (0..)
            .zip(parameters(device))
            .map(|(m, (name, el))| FoundParam {
                chain,
                el,
                id: chain.owner.part(ChainPart::Param(n, m)),
                name,
                unit: Unit::Document,
            })
            .collect()
    }
}

impl Document {
    pub(crate) fn need_param(&self, path: PathId) -> Result<FoundParam<'_>, LiveError> {
        let wrong = LiveError::wrong_kind(
            path,
            "a parameter (…/device:N/param:M, …/mixer/volume, …/mixer/panning or …/mixer/send:N)",
            Listing::Devices,
        );
        let Some((owner, part)) = path.chain_part() else {
            return Err(wrong);
        };
        if matches!(part, ChainPart::Device(_) | ChainPart::Mixer) {
            return Err(wrong);
        }
        let gone = || LiveError::gone(path, Listing::Devices);
        let chain = self.chain(owner).ok_or_else(gone)?;
        if let ChainPart::Param(n, m) = part {
            let device = *chain.devices().get(n as usize).ok_or_else(gone)?;
            return chain.device_params(n, device).into_iter().nth(m as usize).ok_or_else(gone);
        }
        chain.mixer_params().into_iter().find(|p| p.id == path).ok_or_else(gone)
    }

    /// One parameter.
    ///
    /// # Errors
    /// The path has the wrong kind, or the parameter does not exist.
    pub fn param(&self, path: PathId) -> Result<Param, LiveError> {
        Ok(self.need_param(path)?.info())
    }

    /// The devices and mixer of an ordinary, return or main track.
    ///
    /// # Errors
    /// The path has the wrong kind, or the track does not exist.
    pub fn devices(&self, path: PathId) -> Result<Devices, LiveError> {
        let chain = self.need_chain(path)?;
        Ok(Devices::capped(path, chain.all_devices(), chain.mixer(), vec!["defaultValue"]))
    }

    /// All properties of an ordinary track, with limited lists.
    ///
    /// # Errors
    /// The path has the wrong kind, or the track does not exist.
    pub fn track_detail(&self, path: PathId) -> Result<TrackDetail, LiveError> {
        let track = self.need_track(path)?;
        let chain = track.chain();
        Ok(TrackDetail::capped(path, self.clip_infos(track), chain.all_devices(), chain.mixer(), Vec::new()))
    }

    /// The devices of this Set that can be cloned to add a device: class name and element, in the
    /// order of the tracks.
    pub(crate) fn donors(&self) -> Vec<(String, El<'_>)> {
        let ordinary = self.tracks().map(|t| t.chain());
        let chains = ordinary.chain(self.returns()).chain(self.main());
        chains.flat_map(|c| c.devices()).map(|d| (class_name(d), d)).collect()
    }
}
