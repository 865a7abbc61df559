//! Decides when a changing value fires a rule. Contains windows with edges, encoders and sticks.

use crate::event::{DeviceSlot, Micros, Trail};
use crate::mapping::{Edge, Encoder, EncoderMode, Gate, Turn, Window};

/// The default hysteresis of a gamepad trigger, in units of 0-127.
pub const PULL_HYSTERESIS: f64 = 8.0;

/// The memory of one rule for one control. Each kind of trigger uses only some of the fields.
#[derive(Clone, Debug)]
pub struct Memory {
    pub device: DeviceSlot,
    pub channel: u8,
    pub armed: bool,
    pub last: Option<u16>,
    pub last_fired: Option<Micros>,
    pub ticks: Ticks,
    /// Detents counted towards the next firing.
    pub detents: i32,
    /// The joined trail of the events that caused the counted detents.
    pub trail: Trail,
    /// The side on which a stick is beyond its threshold.
    pub over: Option<Turn>,
}

impl Memory {
    pub fn new(device: DeviceSlot, channel: u8) -> Self {
        Memory {
            device,
            channel,
            armed: true,
            last: None,
            last_fired: None,
            ticks: Ticks::default(),
            detents: 0,
            trail: Trail::default(),
            over: None,
        }
    }
}

/// The memories of all rules: one list per rule, all in one arena, so that the first event of a
/// control does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Memories {
    /// The memories, each with the index of the next memory of the same rule.
    arena: Vec<(Memory, u32)>,
    /// The first memory of each rule.
    first: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Memories {
    /// Discards all memories. `rules` is the number of rules with a memory.
    pub fn reset(&mut self, rules: usize) {
        self.arena.clear();
        self.first.clear();
        self.first.resize(rules, NONE);
    }

    /// The memory of a rule for one control, created on first use.
    pub fn of(&mut self, rule: u32, device: DeviceSlot, channel: u8) -> Option<&mut Memory> {
        let first = self.first.get_mut(rule as usize)?;
        let mut at = *first;
        while let Some((memory, next)) = self.arena.get(at as usize) {
            if memory.device == device && memory.channel == channel {
                break;
            }
            at = *next;
        }
        if at == NONE {
            at = self.arena.len() as u32;
            self.arena.push((Memory::new(device, channel), std::mem::replace(first, at)));
        }
        self.arena.get_mut(at as usize).map(|it| &mut it.0)
    }

    /// Discards the memories of a device.
    pub fn forget(&mut self, device: DeviceSlot) {
        let old = std::mem::take(&mut self.arena);
        let heads = std::mem::take(&mut self.first);
        self.arena.reserve(old.capacity());
        self.first.resize(heads.len(), NONE);
        for (rule, head) in heads.into_iter().enumerate() {
            let mut at = head;
            while let Some((memory, next)) = old.get(at as usize) {
                if memory.device != device {
                    let index = self.arena.len() as u32;
                    self.arena.push((memory.clone(), std::mem::replace(&mut self.first[rule], index)));
                }
                at = *next;
            }
        }
    }

    /// Allocates space for this many further memories.
    pub fn reserve(&mut self, more: usize) {
        self.arena.reserve(more);
    }

    /// The number of memories that can be created without an allocation.
    pub fn room(&self) -> usize {
        self.arena.capacity() - self.arena.len()
    }
}

/// Decides whether `value` fires the rule. `seen` is the previous value of the control, if it is
/// known.
pub fn step(
    gate: &Gate,
    window: Window,
    hysteresis: f64,
    memory: &mut Memory,
    seen: Option<u16>,
    value: u16,
    now: Micros,
) -> bool {
    let inside = window.contains(value);
    let before = memory.last.or(seen);
    if memory.last.is_none() {
        // A rule that was not active starts from the control's current value. A switch to the
        // rule's mode is therefore not treated as an entry into the window.
        memory.armed = !before.is_some_and(|it| window.contains(it));
    }
    memory.last = Some(value);
    let beyond =
        f64::from(value) < f64::from(window.min) - hysteresis || f64::from(value) > f64::from(window.max) + hysteresis;
    let edge = gate.edge.unwrap_or(if gate.window.is_some() { Edge::Rising } else { Edge::Change });
    let fires = match edge {
        Edge::Level => inside,
        Edge::Change => inside && before != Some(value),
        Edge::Rising => {
            let entered = inside && memory.armed;
            if inside {
                memory.armed = false;
            } else if beyond {
                memory.armed = true;
            }
            entered
        }
        // For this edge, `armed` means that the value was not inside the window since the last
        // firing.
        Edge::Falling => {
            let left = beyond && !memory.armed;
            if inside {
                memory.armed = false;
            } else if beyond {
                memory.armed = true;
            }
            left
        }
    };
    fires && unthrottled(gate.throttle_ms, memory, now)
}

/// Whether the throttle allows a firing now: at most one per `throttle_ms`.
fn unthrottled(throttle_ms: Option<u32>, memory: &mut Memory, now: Micros) -> bool {
    if let (Some(ms), Some(last)) = (throttle_ms, memory.last_fired)
        && now < last.plus_ms(ms)
    {
        return false;
    }
    memory.last_fired = Some(now);
    true
}

/// The time and the direction of the last tick of an encoder, for acceleration, and the last
/// position of an absolute encoder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ticks {
    position: Option<u8>,
    last: Option<(Micros, bool)>,
}

/// Signed detents of one encoder message. An NRPN increment is controller 96, a decrement is
/// controller 97.
pub fn detents(mode: EncoderMode, ticks: &mut Ticks, controller: u8, value: u8) -> i32 {
    let v = i32::from(value);
    match mode {
        EncoderMode::TwosComplement => match v {
            0 => 0,
            1..=63 => v,
            _ => v - 128,
        },
        EncoderMode::Offset64 => v - 64,
        EncoderMode::SignBit => {
            let size = v & 0x3F;
            if v & 0x40 != 0 { -size } else { size }
        }
        EncoderMode::IncDec => {
            if v >= 64 {
                1
            } else {
                -1
            }
        }
        EncoderMode::NrpnIncDec { .. } => match controller {
            96 => 1,
            97 => -1,
            _ => 0,
        },
        EncoderMode::Absolute => {
            let moved = match ticks.position {
                None => 0,
                // An endless knob can be turned further when its value is at the end of the range.
                // The knob then repeats the same value.
                Some(127) if value == 127 => 1,
                Some(0) if value == 0 => -1,
                Some(before) => v - i32::from(before),
            };
            ticks.position = Some(value);
            moved
        }
    }
}

/// Multiplies the detents of fast turns. The factor is up to 8 for ticks in one direction without a
/// pause, and 1 if the pause is 50 ms or longer.
pub fn accelerate(encoder: &Encoder, ticks: &mut Ticks, detents: i32, now: Micros) -> i32 {
    if detents == 0 {
        return 0;
    }
    let clockwise = detents > 0;
    let factor = match ticks.last {
        Some((last, same)) if same == clockwise => {
            let gap_ms = now.since(last) as f64 / 1000.0;
            1.0 + 7.0 * encoder.acceleration * (1.0 - gap_ms / 50.0).max(0.0)
        }
        Some(_) | None => 1.0,
    };
    ticks.last = Some((now, clockwise));
    (f64::from(detents) * factor).round() as i32
}

pub fn turned(detents: i32) -> Turn {
    if detents >= 0 { Turn::Clockwise } else { Turn::CounterClockwise }
}

/// Applies the radial dead zone of a stick. The result is zero inside the dead zone, and the
/// remaining range is scaled to 0..=1.
pub fn radial(deadzone: f64, x: f64, y: f64) -> (f64, f64) {
    let size = (x * x + y * y).sqrt();
    if size <= deadzone || size == 0.0 || deadzone >= 1.0 {
        return (0.0, 0.0);
    }
    let scale = ((size - deadzone) / (1.0 - deadzone)).min(1.0) / size;
    ((x * scale).clamp(-1.0, 1.0), (y * scale).clamp(-1.0, 1.0))
}

/// Applies the dead zone of a gamepad trigger.
pub fn pull(deadzone: f64, value: f64) -> f64 {
    if value <= deadzone || deadzone >= 1.0 { 0.0 } else { ((value - deadzone) / (1.0 - deadzone)).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mode: EncoderMode) -> Vec<i32> {
        (0..=127).map(|value| detents(mode, &mut Ticks::default(), 16, value)).collect()
    }

    #[test]
    fn every_value_of_every_relative_mode() {
        let twos = all(EncoderMode::TwosComplement);
        assert_eq!((twos[0], twos[1], twos[63], twos[64], twos[127]), (0, 1, 63, -64, -1));
        let offset = all(EncoderMode::Offset64);
        assert_eq!((offset[0], offset[63], offset[64], offset[65], offset[127]), (-64, -1, 0, 1, 63));
        let sign = all(EncoderMode::SignBit);
        assert_eq!((sign[0], sign[1], sign[63], sign[64], sign[65], sign[127]), (0, 1, 63, 0, -1, -63));
        let inc = all(EncoderMode::IncDec);
        assert!(inc[..64].iter().all(|it| *it == -1) && inc[64..].iter().all(|it| *it == 1));
        let nrpn = EncoderMode::NrpnIncDec { parameter: 7 };
        assert_eq!(detents(nrpn, &mut Ticks::default(), 96, 0), 1);
        assert_eq!(detents(nrpn, &mut Ticks::default(), 97, 0), -1);
    }

    #[test]
    fn each_control_of_a_rule_has_a_memory_until_its_device_is_forgotten() {
        let mut memories = Memories::default();
        memories.reset(2);
        let (a, b) = (DeviceSlot(0), DeviceSlot(1));
        for (rule, device, channel, detents) in [(0, a, 0, 1), (0, a, 1, 2), (0, b, 0, 3), (1, b, 0, 4)] {
            memories.of(rule, device, channel).unwrap().detents = detents;
        }
        let seen = |it: &mut Memories| {
            [(0, a, 0), (0, a, 1), (0, b, 0), (1, b, 0)]
                .map(|(rule, device, channel)| it.of(rule, device, channel).unwrap().detents)
        };
        assert_eq!(seen(&mut memories), [1, 2, 3, 4]);
        memories.forget(a);
        assert_eq!(seen(&mut memories), [0, 0, 3, 4]);
        assert!(memories.of(2, a, 0).is_none());
    }

    #[test]
    fn an_absolute_encoder_counts_on_at_its_rails() {
        let mut ticks = Ticks::default();
        let moves: Vec<i32> = [5, 8, 127, 127, 127, 126, 0, 0, 1]
            .iter()
            .map(|v| detents(EncoderMode::Absolute, &mut ticks, 1, *v))
            .collect();
        assert_eq!(moves, [0, 3, 119, 1, 1, -1, -126, -1, 1]);
    }

    #[test]
    fn acceleration_grows_with_speed_and_forgets_on_turning_back() {
        let encoder = Encoder { mode: EncoderMode::TwosComplement, acceleration: 1.0 };
        let mut ticks = Ticks::default();
        let mut at = |ms: u64, detents: i32| accelerate(&encoder, &mut ticks, detents, Micros::from_ms(ms));
        assert_eq!(at(1000, 1), 1, "the first tick was accelerated");
        assert_eq!(at(1000, 1), 8, "a tick without a pause was not multiplied by 8");
        assert_eq!(at(1025, 1), 5, "1 + 7/2 was not rounded half away from zero");
        assert_eq!(at(1075, 1), 1, "a tick after a pause of 50 ms was accelerated");
        assert_eq!(at(1076, -1), -1, "the acceleration continued after a change of direction");
        assert_eq!(at(1076, -1), -8);
    }

    #[test]
    fn hysteresis_keeps_a_trembling_value_quiet() {
        let window = Window { min: 64, max: 127 };
        let gate = Gate { window: Some(window), hysteresis: Some(8.0), ..Gate::default() };
        let mut memory = Memory::new(DeviceSlot(0), 0);
        let fired: Vec<bool> = [64, 63, 64, 57, 64, 55, 64]
            .iter()
            .map(|value| step(&gate, window, 8.0, &mut memory, None, *value, Micros(0)))
            .collect();
        assert_eq!(fired, [true, false, false, false, false, false, true]);
    }

    #[test]
    fn a_stick_at_rest_is_still_and_full_tilt_is_full() {
        assert_eq!(radial(0.1, 0.05, 0.05), (0.0, 0.0));
        assert_eq!(radial(0.1, 1.0, 0.0), (1.0, 0.0));
        let (x, _) = radial(0.1, 0.55, 0.0);
        assert!((x - 0.5).abs() < 1e-9);
    }
}
