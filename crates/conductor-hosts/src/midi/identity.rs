//! Assigns ports to configured devices, and decides when to retry. This code does no I/O: ports and
//! time are arguments.
//!
//! A port gets the alias (the name of a configured device) whose matcher is most specific. If
//! matchers are equally specific, the alias that is first in the file wins. Two controllers of the
//! same model are distinguished by their USB socket: ports in topology order get aliases in file
//! order. A port keeps its alias while it exists, and gets it again when it is plugged into the
//! same socket. Each alias has at most one input and one output. A port without an alias is
//! `raw:<port>`.
//!
//! Not here: opening ports. Gamepads are assigned by the same rule.

use super::{PortInfo, Way};
use conductor_core::config::{Device, Matcher, Protocol};
use conductor_core::event::Micros;
use regex::Regex;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// How specific a matcher is. The most specific matcher that matches decides.
pub fn specificity(matcher: &Matcher) -> u8 {
    match matcher {
        Matcher::NameRegex(_) => 10,
        Matcher::NameContains(_) => 20,
        Matcher::PlatformId(_) => 30,
        Matcher::ExactName(_) => 40,
        Matcher::UsbTopology(_) => 50,
        Matcher::UsbIdentifier { .. } => 60,
        Matcher::ControllerGuid(_) => 65,
        Matcher::CoreMidiUniqueId(_) => 70,
    }
}

/// The device that a port belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    Alias(String),
    /// Contains `raw:<port>`. The port has no configured device, and is opened only when Conductor
    /// listens to all ports.
    Raw(String),
}

impl Identity {
    pub fn device_id(&self) -> &str {
        match self {
            Identity::Alias(name) | Identity::Raw(name) => name,
        }
    }

    pub fn is_configured(&self) -> bool {
        match self {
            Identity::Alias(_) => true,
            Identity::Raw(_) => false,
        }
    }
}

/// Identifies a port that was unplugged and plugged in again. The id of the platform may have
/// changed in between.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    way: Way,
    backend: &'static str,
    name: String,
    topology: Option<String>,
    /// The index among ports with the same name and topology.
    ordinal: usize,
}

/// The configured devices, and the ports that they had before.
pub struct Roster {
    rows: Vec<Row>,
    /// The last alias of each place. An entry stays when its port disappears.
    before: BTreeMap<Place, String>,
}

struct Row {
    alias: String,
    input: bool,
    output: bool,
    tests: Vec<(u8, Test)>,
}

type Test = Box<dyn Fn(&PortInfo) -> bool + Send>;

impl Roster {
    /// Creates a roster of the devices with this protocol. A disabled device keeps its alias,
    /// because its port would otherwise be opened as a raw port. For a loopback device, the name of
    /// the device is the most specific matcher.
    pub fn new(devices: &[Device], protocol: Protocol) -> Self {
        let rows = devices.iter().filter(|device| device.protocol == protocol).map(Row::new).collect();
        Roster { rows, before: BTreeMap::new() }
    }

    /// Replaces the devices and keeps the last alias of each place.
    pub fn reload(&mut self, devices: &[Device], protocol: Protocol) {
        self.rows = Roster::new(devices, protocol).rows;
    }

    /// Returns the identity of each port, in the order of `ports`.
    pub fn assign(&mut self, ports: &[PortInfo]) -> Vec<Identity> {
        let places = places(ports);
        let mut alias_of: Vec<Option<usize>> = vec![None; ports.len()];
        for way in [Way::Input, Way::Output] {
            let mut offers: Vec<Offer> = Vec::new();
            for (port, info) in ports.iter().enumerate().filter(|(_, info)| info.way == way) {
                for (row, it) in self.rows.iter().enumerate().filter(|(_, row)| row.has(way)) {
                    if let Some(fit) = it.fit(info) {
                        let known = places.get(port).is_some_and(|place| self.before.get(place) == Some(&it.alias));
                        offers.push(Offer { fit, known, port, row });
                    }
                }
            }
            // Sort by specificity. Then prefer the last alias of a place. Then sort by the order of
            // the places and of the aliases.
            offers.sort_by(|a, b| {
                let strength = |it: &Offer| Reverse((it.fit, it.known));
                strength(a)
                    .cmp(&strength(b))
                    .then_with(|| compare_places(ports.get(a.port), ports.get(b.port)))
                    .then_with(|| (a.port, a.row).cmp(&(b.port, b.row)))
            });
            let mut taken = vec![false; self.rows.len()];
            for offer in offers {
                let (Some(slot), Some(taken)) = (alias_of.get_mut(offer.port), taken.get_mut(offer.row)) else {
                    continue;
                };
                if slot.is_none() && !*taken {
                    *slot = Some(offer.row);
                    *taken = true;
                }
            }
        }
        let mut raw_seen: BTreeMap<(Way, &str), usize> = BTreeMap::new();
        let mut out = Vec::with_capacity(ports.len());
        for ((info, place), row) in ports.iter().zip(places).zip(alias_of) {
            out.push(match row.and_then(|row| self.rows.get(row)) {
                Some(row) => {
                    self.before.insert(place, row.alias.clone());
                    Identity::Alias(row.alias.clone())
                }
                None => {
                    let seen = raw_seen.entry((info.way, &info.name)).or_insert(0);
                    *seen += 1;
                    Identity::Raw(if *seen == 1 {
                        format!("raw:{}", info.name)
                    } else {
                        format!("raw:{}#{seen}", info.name)
                    })
                }
            });
        }
        out
    }
}

struct Offer {
    fit: u8,
    known: bool,
    port: usize,
    row: usize,
}

impl Row {
    fn new(device: &Device) -> Self {
        let tests = device.matchers.iter().filter_map(|it| Some((specificity(it), test(it)?)));
        let own_name = device.loopback.then(|| Matcher::ExactName(device.alias.clone()));
        let own_name = own_name.and_then(|it| Some((u8::MAX, test(&it)?)));
        Row {
            alias: device.alias.clone(),
            input: device.direction.has_input(),
            output: device.direction.has_output(),
            tests: tests.chain(own_name).collect(),
        }
    }

    fn has(&self, way: Way) -> bool {
        match way {
            Way::Input => self.input,
            Way::Output => self.output,
        }
    }

    fn fit(&self, port: &PortInfo) -> Option<u8> {
        self.tests.iter().filter(|(_, test)| test(port)).map(|(fit, _)| *fit).max()
    }
}

/// Returns `None` for a regular expression that does not compile; the configuration check refuses
/// it.
fn test(matcher: &Matcher) -> Option<Test> {
    fn any_name(port: &PortInfo, test: impl FnMut(&String) -> bool) -> bool {
        std::iter::once(&port.name).chain(&port.other_names).any(test)
    }
    Some(match matcher.clone() {
        Matcher::ExactName(name) => Box::new(move |port| any_name(port, |it| *it == name)),
        Matcher::NameContains(part) => {
            let part = part.to_lowercase();
            Box::new(move |port| any_name(port, |it| it.to_lowercase().contains(&part)))
        }
        Matcher::NameRegex(pattern) => {
            let regex = Regex::new(&pattern).ok()?;
            Box::new(move |port| any_name(port, |it| regex.is_match(it)))
        }
        Matcher::PlatformId(id) => Box::new(move |port| port.id == id),
        Matcher::UsbTopology(path) => Box::new(move |port| port.topology.as_ref() == Some(&path)),
        Matcher::ControllerGuid(guid) => {
            Box::new(move |port| port.guid.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(&guid)))
        }
        Matcher::UsbIdentifier { vendor_id, product_id } => {
            Box::new(move |port| port.usb.is_some_and(|usb| usb.vendor == vendor_id && usb.product == product_id))
        }
        Matcher::CoreMidiUniqueId(id) => Box::new(move |port| port.unique_id == Some(id)),
    })
}

fn places(ports: &[PortInfo]) -> Vec<Place> {
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.sort_by(|a, b| compare_places(ports.get(*a), ports.get(*b)));
    let mut seen: BTreeMap<(Way, &str, &str, Option<&str>), usize> = BTreeMap::new();
    let mut ordinals = vec![0; ports.len()];
    for index in order {
        let (Some(info), Some(ordinal)) = (ports.get(index), ordinals.get_mut(index)) else { continue };
        let count = seen.entry((info.way, info.backend, &info.name, info.topology.as_deref())).or_insert(0);
        *ordinal = *count;
        *count += 1;
    }
    let place = |(info, ordinal): (&PortInfo, usize)| Place {
        way: info.way,
        backend: info.backend,
        name: info.name.clone(),
        topology: info.topology.clone(),
        ordinal,
    };
    ports.iter().zip(ordinals).map(place).collect()
}

/// Compares by topology, then by id. Ports without a topology are last. Digits compare as numbers:
/// `1-2` is before `1-10`.
fn compare_places(a: Option<&PortInfo>, b: Option<&PortInfo>) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return Ordering::Equal };
    match (&a.topology, &b.topology) {
        (Some(a), Some(b)) => natural(a, b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
    .then_with(|| natural(&a.id, &b.id))
}

fn natural(a: &str, b: &str) -> Ordering {
    let chunks = |text: &str| -> Vec<Chunk> {
        let mut out: Vec<Chunk> = Vec::new();
        for c in text.chars() {
            match (c.to_digit(10), out.last_mut()) {
                (Some(digit), Some(Chunk::Number(value))) => {
                    *value = value.saturating_mul(10).saturating_add(digit.into())
                }
                (Some(digit), _) => out.push(Chunk::Number(digit.into())),
                (None, _) => out.push(Chunk::Char(c)),
            }
        }
        out
    };
    chunks(a).cmp(&chunks(b)).then_with(|| a.cmp(b))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Chunk {
    Number(u64),
    Char(char),
}

/// When to retry an absent port: after 1, 2, 4, 8, 16 and 30 seconds, then every 30 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    failures: u32,
    next: Option<Micros>,
}

impl Backoff {
    /// The longest wait.
    pub const LONGEST_MS: u32 = 30_000;

    pub const fn wait_ms(failures: u32) -> u32 {
        match failures {
            0 => 0,
            1..=5 => 1000 << (failures - 1),
            _ => Self::LONGEST_MS,
        }
    }

    pub fn failed(&mut self, now: Micros) {
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now.plus_ms(Self::wait_ms(self.failures)));
    }

    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Makes the next attempt due now, and resets the wait. Called after a change, such as a new
    /// port.
    pub fn hurry(&mut self) {
        self.succeeded();
    }

    /// The time of the next attempt; `None` if the last attempt did not fail.
    pub fn next(&self) -> Option<Micros> {
        self.next
    }

    pub fn is_due(&self, now: Micros) -> bool {
        self.next.is_none_or(|next| next <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::midi::UsbId;
    use conductor_core::config::Direction;
    use proptest::prelude::*;

    fn device(alias: &str, matchers: Vec<Matcher>) -> Device {
        Device {
            alias: alias.into(),
            description: None,
            matchers,
            protocol: Protocol::Midi,
            direction: Direction::Bidirectional,
            channels: Vec::new(),
            enabled: true,
            virtual_port: None,
            loopback: false,
            listen: None,
            allow_network: false,
            allow_sensitive_actions: false,
            ask_output: false,
            echo_guard: false,
            trusted: false,
            template: None,
        }
    }

    fn contains(part: &str) -> Matcher {
        Matcher::NameContains(part.into())
    }

    fn port(id: &str, name: &str) -> PortInfo {
        PortInfo::new("test", Way::Input, id, name)
    }

    fn at(id: &str, name: &str, topology: &str) -> PortInfo {
        PortInfo { topology: Some(topology.into()), ..port(id, name) }
    }

    fn ids(roster: &mut Roster, ports: &[PortInfo]) -> Vec<String> {
        roster.assign(ports).iter().map(|it| it.device_id().to_owned()).collect()
    }

    #[test]
    fn the_best_matcher_wins_and_ties_go_to_the_first_listed() {
        let usb = UsbId { vendor: 0x17CC, product: 0x1700 };
        let full = PortInfo {
            usb: Some(usb),
            topology: Some("1-2".into()),
            unique_id: Some(5),
            guid: Some("03AB".into()),
            ..port("p", "Pads")
        };
        let ladder = [
            Matcher::NameRegex("^P.ds$".into()),
            contains("pad"),
            Matcher::PlatformId("p".into()),
            Matcher::ExactName("Pads".into()),
            Matcher::UsbTopology("1-2".into()),
            Matcher::UsbIdentifier { vendor_id: 0x17CC, product_id: 0x1700 },
            Matcher::ControllerGuid("03ab".into()),
            Matcher::CoreMidiUniqueId(5),
        ];
        for pair in ladder.windows(2) {
            let devices = [device("weak", vec![pair[0].clone()]), device("strong", vec![pair[1].clone()])];
            assert_eq!(
                ids(&mut Roster::new(&devices, Protocol::Midi), std::slice::from_ref(&full)),
                ["strong"],
                "{pair:?}"
            );
        }
        let tie = [device("first", vec![contains("Pad")]), device("second", vec![contains("Pads")])];
        assert_eq!(ids(&mut Roster::new(&tie, Protocol::Midi), &[full]), ["first"]);
    }

    #[test]
    fn two_equal_controllers_go_by_where_they_are_plugged_in() {
        let devices = [device("left", vec![contains("nano")]), device("right", vec![contains("nano")])];
        let mut roster = Roster::new(&devices, Protocol::Midi);
        let (a, b) = (at("20:0", "nanoKONTROL2", "1-2"), at("16:0", "nanoKONTROL2", "1-10"));
        assert_eq!(ids(&mut roster, &[b.clone(), a.clone()]), ["right", "left"]);
        assert_eq!(ids(&mut roster, std::slice::from_ref(&b)), ["right"], "the port that stayed lost its alias");
        let moved = at("24:0", "nanoKONTROL2", "2-1");
        assert_eq!(ids(&mut roster, &[b.clone(), moved]), ["right", "left"]);
        let back = at("28:0", "nanoKONTROL2", "1-2");
        assert_eq!(ids(&mut roster, &[back, b]), ["left", "right"], "a port with a new id did not get its alias again");
    }

    #[test]
    fn equal_ports_without_a_topology_are_told_apart_by_their_order() {
        let devices = [device("left", vec![contains("X")])];
        let mut roster = Roster::new(&devices, Protocol::Midi);
        let ports = [port("128:0", "X"), port("28:0", "X"), port("130:0", "X")];
        assert_eq!(ids(&mut roster, &ports), ["raw:X", "left", "raw:X#2"]);
        assert!(!roster.assign(&ports)[0].is_configured());
    }

    #[test]
    fn ways_and_protocols_are_kept_apart_and_a_disabled_device_keeps_its_alias() {
        let mut out_only = device("synth", vec![contains("X")]);
        out_only.direction = Direction::Output;
        let mut muted = device("muted", vec![contains("Y")]);
        muted.enabled = false;
        let mut pad = device("pad", vec![Matcher::ExactName("X".into())]);
        pad.protocol = Protocol::Gamepad;
        let devices = [muted, pad, out_only];
        let output = PortInfo { way: Way::Output, ..port("x", "X") };
        let mut roster = Roster::new(&devices, Protocol::Midi);
        assert_eq!(ids(&mut roster, &[port("x", "X"), output, port("y", "Y")]), ["raw:X", "synth", "muted"]);
    }

    #[test]
    fn a_loopback_device_is_its_own_name_and_other_names_count() {
        let mut demo = device("demo", vec![]);
        demo.loopback = true;
        let devices = [device("thief", vec![contains("demo")]), demo, device("nano", vec![contains("nano")])];
        let aliased = PortInfo { other_names: vec!["nanoKONTROL2".into()], ..port("system:midi_capture_1", "capture") };
        let mut roster = Roster::new(&devices, Protocol::Midi);
        assert_eq!(ids(&mut roster, &[port("demo", "demo"), aliased]), ["demo", "nano"]);
    }

    #[test]
    fn waits_double_up_to_half_a_minute() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_due(Micros(0)));
        let mut now = Micros(0);
        let mut waits = Vec::new();
        for _ in 0..9 {
            backoff.failed(now);
            let next = backoff.next().unwrap();
            assert!(!backoff.is_due(Micros(next.0 - 1)) && backoff.is_due(next));
            waits.push(next.since(now) / 1_000_000);
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30]);
        backoff.succeeded();
        backoff.failed(now);
        assert_eq!(backoff.next().unwrap().since(now), 1_000_000);
    }

    #[test]
    fn a_port_that_returns_after_an_hour_is_tried_within_half_a_minute() {
        let hour = 3_600_000_000;
        for returns in [hour, hour + 29_999_999, hour + 12_345_678] {
            let (mut backoff, mut now) = (Backoff::default(), Micros(0));
            while now.0 < returns {
                backoff.failed(now);
                now = backoff.next().unwrap();
            }
            assert!(now.0 - returns <= 30_000_000);
        }
    }

    proptest! {
        #[test]
        fn every_alias_has_at_most_one_port_per_way_and_staying_ports_keep_theirs(
            steps in prop::collection::vec(prop::collection::btree_set((0usize..4, 0usize..3, any::<bool>()), 0..8), 1..8)
        ) {
            let devices = [
                device("a", vec![contains("one")]),
                device("b", vec![contains("one"), Matcher::ExactName("two".into())]),
                device("c", vec![Matcher::UsbTopology("1-1".into())]),
            ];
            let mut roster = Roster::new(&devices, Protocol::Midi);
            let mut last: BTreeMap<String, String> = BTreeMap::new();
            for step in steps {
                let ports: Vec<PortInfo> = step
                    .iter()
                    .map(|(socket, name, out)| {
                        let name = ["one", "two", "none"][*name];
                        let way = if *out { Way::Output } else { Way::Input };
                        PortInfo { way, ..at(&format!("{socket}/{name}"), name, &format!("1-{socket}")) }
                    })
                    .collect();
                let got = roster.assign(&ports);
                let mut seen = std::collections::BTreeSet::new();
                let mut now = BTreeMap::new();
                for (info, identity) in ports.iter().zip(&got) {
                    prop_assert!(seen.insert((info.way, identity.device_id().to_owned())), "{:?}", got);
                    now.insert(format!("{:?}{}", info.way, info.id), identity.device_id().to_owned());
                }
                // The result does not depend on the order of the ports.
                let mut backwards: Vec<PortInfo> = ports.clone();
                backwards.reverse();
                let mut again = roster.assign(&backwards);
                again.reverse();
                let configured = |all: &[Identity]| all.iter().filter(|it| it.is_configured()).cloned().collect::<Vec<_>>();
                prop_assert_eq!(configured(&again), configured(&got));
                if now.keys().eq(last.keys()) {
                    prop_assert_eq!(&now, &last);
                }
                last = now;
            }
        }
    }
}
