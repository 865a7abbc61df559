//! Continuous bindings: a source (a knob, fader or stick) sets the value of a target. The binding's
//! `Glue` describes the stages in between, which run in this order: input range, dead zone,
//! inversion, curve, steps, takeover, hysteresis, throttle, output range. The throttle delays the
//! last value of a movement, but does not drop it.

use super::curves;
use crate::event::{Body, Micros, Trail};
use crate::mapping::table::CompiledTarget;
use crate::mapping::{Glue, Shape, Takeover, Target};
use crate::timer::TimerKey;

/// With pickup, the knob takes control of the target when the difference between their values is at
/// most this large.
const NEAR: f64 = 2.0 / 128.0;

/// A value that is read from the target within this time after we changed the target may be older
/// than our change.
const OWN_TURN_US: u64 = 1_000_000;

/// A value that was read from a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The value in the units of the target.
    pub value: f64,
    /// The value as a share of the whole range, 0..=1.
    pub share: f64,
}

impl Reading {
    /// The value before the `out` stage. `None` if `out` is a single value, because a single value
    /// cannot be inverted.
    pub fn before_out(self, glue: &Glue) -> Option<f64> {
        match glue.output {
            None => Some(self.share),
            Some((low, high)) if low == high => None,
            Some((low, high)) => Some(((self.value - low) / (high - low)).clamp(0.0, 1.0)),
        }
    }
}

/// The state of one continuous binding. A new configuration starts with a new state.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Position of a relative source, 0..=1.
    pub position: f64,
    /// Ticks of a relative source.
    pub ticks: super::thresholds::Ticks,
    /// The source's value after the first stages of the glue.
    source: Option<f64>,
    /// The value that the target is assumed to have.
    pub target: Option<f64>,
    /// The last value read from the target, until `settle` applies it.
    pub read: Option<f64>,
    engaged: bool,
    sent: Option<f64>,
    sent_at: Option<Micros>,
    /// A value that the throttle delays.
    pub pending: Option<f64>,
    /// The timer that sends `pending`.
    pub flush: Option<TimerKey>,
    /// The trail of the event that last changed the value.
    pub trail: Trail,
}

impl State {
    /// Starts takeover again. After a mode switch, a reload or a reconnect the knob may be at any
    /// position.
    pub fn rearm(&mut self) {
        self.engaged = false;
        self.source = None;
    }

    /// Stores a value that another program or a person has set on the target.
    pub fn target_moved(&mut self, value: f64) {
        if self.target.is_none_or(|it| (it - value).abs() > 1.0 / 128.0) {
            self.engaged = false;
        }
        self.target = Some(value);
        self.position = value;
    }

    /// Applies the value that was read from the target, unless it may be the result of our own
    /// change. Called before a new value of the source is processed.
    pub fn settle(&mut self, now: Micros) {
        let own = self.pending.is_some() || self.sent_at.is_some_and(|it| now.since(it) < OWN_TURN_US);
        if !own && let Some(value) = self.read.take() {
            self.target_moved(value);
        }
    }

    /// Passes a normalised value through the glue. Returns the value to send now. If the throttle
    /// delays the value, stores it and returns the time at which to send it.
    pub fn pass(&mut self, glue: &Glue, relative: bool, value: f64, throttle_ms: u32, now: Micros) -> Passed {
        let staged = stages(glue, value);
        let takeover = if relative { Takeover::Off } else { glue.takeover };
        let Some(value) = self.take_over(takeover, staged) else { return Passed::Nothing };
        self.target = Some(value);
        let last = self.pending.or(self.sent);
        if last.is_some_and(|it| (it - value).abs() < glue.hysteresis || it == value) {
            return Passed::Nothing;
        }
        match self.sent_at.map(|it| it.plus_ms(throttle_ms)).filter(|due| now < *due) {
            Some(due) => {
                self.pending = Some(value);
                Passed::Later(due)
            }
            None => {
                self.sent(value, now);
                Passed::Now(value)
            }
        }
    }

    /// Records that a value was sent.
    pub fn sent(&mut self, value: f64, now: Micros) {
        self.sent = Some(value);
        self.sent_at = Some(now);
        self.pending = None;
    }

    fn take_over(&mut self, takeover: Takeover, source: f64) -> Option<f64> {
        let before = self.source.replace(source);
        // The target's value is unknown, so send the knob's value.
        let Some(target) = self.target else { return Some(source) };
        match takeover {
            Takeover::Off => Some(source),
            Takeover::Pickup => {
                let crossed = before.is_some_and(|it| (it - target) * (source - target) <= 0.0);
                self.engaged |= crossed || (source - target).abs() <= NEAR;
                self.engaged.then_some(source)
            }
            Takeover::Scale => {
                let before = before?;
                let moved = source - before;
                let value = if moved > 0.0 {
                    if before >= 1.0 { target } else { target + moved * (1.0 - target) / (1.0 - before) }
                } else if before <= 0.0 {
                    target
                } else {
                    target + moved * target / before
                };
                Some(value.clamp(0.0, 1.0))
            }
            Takeover::CatchUp => {
                let moved = (source - before?).abs() * 2.0;
                Some(if (source - target).abs() <= moved {
                    source
                } else {
                    target + moved * (source - target).signum()
                })
            }
        }
    }
}

/// The result of passing a value through the glue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passed {
    /// The value is not sent.
    Nothing,
    /// Send this value now.
    Now(f64),
    /// The value is stored and sent at this time.
    Later(Micros),
}

/// Scales a raw value of the source to 0..=1 and clamps it. The input range is the `in` of the
/// glue, or else the full range of the source.
pub fn normalise(glue: &Glue, raw: f64, full: (f64, f64), centre: Option<f64>) -> f64 {
    let (low, high) = glue.input.unwrap_or(full);
    if glue.input.is_none()
        && let Some(centre) = centre
    {
        // The centre of a bipolar source becomes exactly 0.5, although the two sides have different
        // numbers of steps.
        let half = if raw < centre {
            (raw - low) / (centre - low) * 0.5
        } else {
            0.5 + (raw - centre) / (high - centre) * 0.5
        };
        return half.clamp(0.0, 1.0);
    }
    if high == low {
        return 0.0;
    }
    ((raw - low) / (high - low)).clamp(0.0, 1.0)
}

fn stages(glue: &Glue, value: f64) -> f64 {
    let mut x = value.clamp(0.0, 1.0);
    let d = glue.deadzone.clamp(0.0, 0.9);
    if glue.center {
        let out = x - 0.5;
        let half = d / 2.0;
        x = if out.abs() <= half { 0.5 } else { 0.5 + (out - half * out.signum()) / (1.0 - d) };
    } else if d > 0.0 {
        x = if x <= d { 0.0 } else { (x - d) / (1.0 - d) };
    }
    if glue.invert {
        x = 1.0 - x;
    }
    x = match &glue.shape {
        Shape::Straight => x,
        Shape::Curve(curve) => curves::curve(*curve, x),
        Shape::Lut(points) => curves::lut(points, x),
    };
    if let Some(steps) = glue.steps {
        let last = f64::from(steps.max(2) - 1);
        x = (x * last).round() / last;
    }
    x.clamp(0.0, 1.0)
}

/// The minimum time between two sent values: the value in the glue, or else the default of the
/// slowest target.
pub fn throttle_of(glue: &Glue, targets: &[CompiledTarget]) -> u32 {
    glue.throttle_ms.unwrap_or_else(|| {
        let slow =
            targets.iter().any(|it| matches!(*it.spec, Target::LiveParameter { .. } | Target::PatchAttribute { .. }));
        if slow { 20 } else { 5 }
    })
}

/// The last parameter selected on a port and channel: whether it is registered (RPN), and its
/// number.
pub type Selected = Option<(bool, u16)>;

/// A value rendered for one target.
#[allow(missing_docs, reason = "the names of the fields explain themselves")]
pub enum Sent {
    /// MIDI messages, in order. The longest sequence selects a parameter, sets both halves of its
    /// value, and deselects it.
    Midi([Option<Body>; 6]),
    /// The value of an OSC message.
    Osc(f32),
    /// A value for a Live parameter or a patch attribute.
    Parameter { value: f64, ranged: bool },
}

/// Renders a value 0..=1 for a target.
pub fn render(glue: &Glue, target: &Target, value: f64, selected: &mut Selected) -> Sent {
    let scale = |high: f64| {
        let (low, high) = glue.output.unwrap_or((0.0, high));
        low + (high - low) * value
    };
    let whole = |high: u16| scale(f64::from(high)).round().clamp(0.0, f64::from(high)) as u16;
    let cc = |channel: u8, controller: u8, value: u16| Body::Cc { channel, controller, value: (value & 0x7F) as u8 };
    let one = |message: Body| Sent::Midi([Some(message), None, None, None, None, None]);
    match target {
        Target::Cc { channel, controller, .. } => one(cc(*channel, *controller, whole(127))),
        Target::Cc14 { channel, controller, .. } => {
            let value = whole(16383);
            let (coarse, fine) = (cc(*channel, *controller, value >> 7), cc(*channel, controller + 32, value));
            Sent::Midi([Some(coarse), Some(fine), None, None, None, None])
        }
        Target::Nrpn { channel, parameter, null_after, .. } | Target::Rpn { channel, parameter, null_after, .. } => {
            let registered = matches!(target, Target::Rpn { .. });
            let (coarse, fine) = if registered { (101, 100) } else { (99, 98) };
            let value = whole(16383);
            let selects = *selected != Some((registered, *parameter));
            *selected = (!null_after).then_some((registered, *parameter));
            let when = |is_sent: bool, controller: u8, value: u16| is_sent.then(|| cc(*channel, controller, value));
            Sent::Midi([
                when(selects, coarse, parameter >> 7),
                when(selects, fine, *parameter),
                when(true, 6, value >> 7),
                when(true, 38, value),
                when(*null_after, 101, 127),
                when(*null_after, 100, 127),
            ])
        }
        Target::PitchBend { channel, .. } => one(Body::PitchBend { channel: *channel, value: whole(16383) }),
        Target::Aftertouch { channel, .. } => {
            one(Body::ChannelPressure { channel: *channel, pressure: whole(127) as u8 })
        }
        Target::OscFloat { .. } => Sent::Osc(scale(1.0) as f32),
        Target::LiveParameter { .. } | Target::PatchAttribute { .. } => {
            Sent::Parameter { value: scale(1.0), ranged: glue.output.is_some() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Curve, CurveKind};
    use proptest::prelude::*;

    #[test]
    fn golden_points() {
        let glue = |edit: fn(&mut Glue)| {
            let mut glue = Glue::default();
            edit(&mut glue);
            glue
        };
        let cases: [(&str, Glue, f64, f64); 8] = [
            ("straight", Glue::default(), 0.3, 0.3),
            ("dead below", glue(|g| g.deadzone = 0.2), 0.2, 0.0),
            ("dead rescaled", glue(|g| g.deadzone = 0.2), 0.6, 0.5),
            ("centre dead", glue(|g| (g.deadzone, g.center) = (0.2, true)), 0.59, 0.5),
            ("centre ends", glue(|g| (g.deadzone, g.center) = (0.2, true)), 1.0, 1.0),
            (
                "invert before curve",
                glue(|g| {
                    g.invert = true;
                    g.shape = Shape::Curve(Curve { kind: CurveKind::Exponential, intensity: 0.5 });
                }),
                0.5,
                0.176_776_695,
            ),
            ("steps", glue(|g| g.steps = Some(3)), 0.7, 0.5),
            ("lut", glue(|g| g.shape = Shape::Lut(vec![1.0, 0.0])), 0.25, 0.75),
        ];
        for (name, glue, value, wanted) in cases {
            let got = stages(&glue, value);
            assert!((got - wanted).abs() < 1e-6, "{name}: {got} is not {wanted}");
        }
        assert_eq!(normalise(&Glue::default(), 8192.0, (0.0, 16383.0), Some(8192.0)), 0.5);
        assert_eq!(normalise(&Glue { input: Some((32.0, 96.0)), ..Glue::default() }, 64.0, (0.0, 127.0), None), 0.5);
    }

    #[test]
    fn the_last_value_after_a_throttle_is_due() {
        let mut state = State::default();
        let glue = Glue::default();
        let at = Micros::from_ms;
        assert_eq!(state.pass(&glue, false, 0.1, 20, at(0)), Passed::Now(0.1));
        assert_eq!(state.pass(&glue, false, 0.2, 20, at(5)), Passed::Later(at(20)));
        assert_eq!(state.pass(&glue, false, 0.3, 20, at(19)), Passed::Later(at(20)));
        assert_eq!(state.pending, Some(0.3));
    }

    #[test]
    fn what_is_read_during_our_own_turn_does_not_stop_it_and_what_somebody_did_after_it_does() {
        let mut state = State::default();
        let glue = Glue { takeover: Takeover::Pickup, ..Glue::default() };
        let turn = |state: &mut State, value: f64, ms: u64| {
            state.settle(Micros::from_ms(ms));
            state.pass(&glue, false, value, 0, Micros::from_ms(ms))
        };
        state.read = Some(0.5);
        assert_eq!(turn(&mut state, 0.3, 0), Passed::Nothing, "a value was sent before the knob reached the target");
        assert_eq!(turn(&mut state, 0.5, 10), Passed::Now(0.5));
        state.read = Some(0.5);
        assert_eq!(
            turn(&mut state, 0.8, 60),
            Passed::Now(0.8),
            "a value that was read during our own turn stopped the knob"
        );
        state.read = Some(0.8);
        assert_eq!(turn(&mut state, 0.9, 2000), Passed::Now(0.9), "reading back our own value stopped the knob");
        state.read = Some(0.2);
        assert_eq!(
            turn(&mut state, 0.95, 4000),
            Passed::Nothing,
            "the knob kept control although the target was moved elsewhere"
        );
        assert_eq!(turn(&mut state, 0.1, 4010), Passed::Now(0.1), "the knob did not take control after the crossing");
        // A relative knob continues from the target's value.
        let mut knob = State { read: Some(0.75), ..State::default() };
        knob.settle(Micros(0));
        assert_eq!(knob.position, 0.75);
    }

    #[test]
    fn a_reading_is_seen_through_the_range_that_is_sent() {
        let reading = Reading { value: -6.0, share: 0.8 };
        let through = |output| reading.before_out(&Glue { output, ..Glue::default() });
        assert_eq!(through(None), Some(0.8));
        assert_eq!(through(Some((-12.0, 0.0))), Some(0.5));
        assert_eq!(through(Some((0.0, 6.0))), Some(0.0), "a value outside the range was not clamped to the range");
        assert_eq!(through(Some((3.0, 3.0))), None);
    }

    #[test]
    fn pickup_waits_for_the_knob_to_reach_the_value() {
        let mut state = State::default();
        state.target_moved(0.5);
        let glue = Glue { takeover: Takeover::Pickup, ..Glue::default() };
        let mut turn = |value: f64| state.pass(&glue, false, value, 0, Micros(0));
        assert_eq!(turn(0.1), Passed::Nothing);
        assert_eq!(turn(0.4), Passed::Nothing);
        assert_eq!(turn(0.6), Passed::Now(0.6), "the knob did not take control at the crossing");
        assert_eq!(turn(0.1), Passed::Now(0.1), "the target did not follow the knob after the crossing");
    }

    proptest! {
        #[test]
        fn scale_and_catch_up_meet_at_the_ends(target in 0.0f64..=1.0, start in 0.05f64..0.95, up: bool, catch: bool) {
            let takeover = if catch { Takeover::CatchUp } else { Takeover::Scale };
            let glue = Glue { takeover, ..Glue::default() };
            let mut state = State::default();
            state.target_moved(target);
            let end = if up { 1.0 } else { 0.0 };
            let mut turns = 0;
            // With `Scale`, the knob and the target are equal after one turn to an end of the
            // range. With `CatchUp`, their difference becomes smaller with every turn, so turn back
            // and forth.
            for leg in [start, end, 1.0 - end, end, 1.0 - end, end] {
                for part in 1..=50 {
                    let from = state.source.unwrap_or(start);
                    let at = from + (leg - from) * f64::from(part) / 50.0;
                    state.pass(&glue, false, at, 0, Micros(turns));
                    turns += 1;
                }
            }
            prop_assert!((state.target.unwrap() - end).abs() < 1e-6, "target is {:?}, knob at {end}", state.target);
        }
    }
}
