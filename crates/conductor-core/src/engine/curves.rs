//! Curves, velocity maps and transforms. All features use these functions, so that "exponential"
//! means the same everywhere.

use crate::action::{Curve, CurveKind, Transform, Velocity};
use crate::event::Body;

/// Applies a curve. `x` and the result are 0..=1. At intensity 0 every curve is a straight line.
pub fn curve(curve: Curve, x: f64) -> f64 {
    let x = x.clamp(0.0, 1.0);
    let i = curve.intensity.clamp(0.0, 1.0);
    let power = 1.0 + 3.0 * i;
    match curve.kind {
        CurveKind::Linear => x,
        CurveKind::Exponential => x.powf(power),
        CurveKind::Logarithmic => 1.0 - (1.0 - x).powf(power),
        CurveKind::Scurve => {
            let k = 10.0 * i;
            if k < 1e-9 {
                return x;
            }
            let logistic = |x: f64| 1.0 / (1.0 + (-k * (x - 0.5)).exp());
            let (low, high) = (logistic(0.0), logistic(1.0));
            (logistic(x) - low) / (high - low)
        }
    }
}

/// Interpolates between points that are evenly spaced over 0..=1.
pub fn lut(points: &[f64], x: f64) -> f64 {
    let Some(last) = points.len().checked_sub(1).filter(|it| *it > 0) else {
        return points.first().copied().unwrap_or(x);
    };
    let at = x.clamp(0.0, 1.0) * last as f64;
    let low = (at.floor() as usize).min(last - 1);
    let part = at - low as f64;
    points[low] + (points[low + 1] - points[low]) * part
}

/// The velocity of a note-on to send, never 0.
pub fn velocity(map: Velocity, pressed: Option<u8>) -> u8 {
    let pressed = pressed.unwrap_or(100);
    let unit = f64::from(pressed) / 127.0;
    let value = match map {
        Velocity::Trigger => f64::from(pressed),
        Velocity::Fixed(velocity) => f64::from(velocity),
        Velocity::Linear { min, max } => f64::from(min) + (f64::from(max) - f64::from(min)) * unit,
        Velocity::Curve(shape) => curve(shape, unit) * 127.0,
    };
    value.round().clamp(1.0, 127.0) as u8
}

/// Applies a transform to a message: curve or lut, scale, offset, invert, clamp. Returns `None` if
/// the resulting note is not a MIDI note, and for gamepad and OSC events.
pub fn transform(transform: &Transform, body: &Body) -> Option<Body> {
    let channel = |own: u8| transform.channel.unwrap_or(own);
    let note = |own: u8| match transform.note {
        Some(note) => Some(note),
        None => u8::try_from(i16::from(own) + i16::from(transform.note_offset)).ok().filter(|it| *it <= 127),
    };
    let value = |own: u8, lowest: f64| {
        let mut value = f64::from(own);
        if let Some(points) = &transform.lut {
            value = f64::from(points.get(usize::from(own)).copied().unwrap_or(own));
        } else if let Some(shape) = transform.curve {
            value = curve(shape, value / 127.0) * 127.0;
        }
        value = value * transform.velocity_scale.unwrap_or(1.0) + f64::from(transform.velocity_offset);
        if transform.invert_value {
            value = 127.0 - value;
        }
        value.round().clamp(lowest, 127.0) as u8
    };
    Some(match body {
        Body::NoteOn { channel: own, note: key, velocity } => {
            Body::NoteOn { channel: channel(*own), note: note(*key)?, velocity: value(*velocity, 1.0) }
        }
        // The release velocity of a note-off keeps its value, because curves apply only to
        // loudness.
        Body::NoteOff { channel: own, note: key, velocity } => {
            Body::NoteOff { channel: channel(*own), note: note(*key)?, velocity: *velocity }
        }
        Body::PolyPressure { channel: own, note: key, pressure } => {
            Body::PolyPressure { channel: channel(*own), note: note(*key)?, pressure: value(*pressure, 0.0) }
        }
        Body::Cc { channel: own, controller, value: v } => {
            Body::Cc { channel: channel(*own), controller: transform.cc.unwrap_or(*controller), value: value(*v, 0.0) }
        }
        Body::Program { channel: own, program } => Body::Program { channel: channel(*own), program: *program },
        Body::ChannelPressure { channel: own, pressure } => {
            Body::ChannelPressure { channel: channel(*own), pressure: value(*pressure, 0.0) }
        }
        Body::PitchBend { channel: own, value } => Body::PitchBend {
            channel: channel(*own),
            value: if transform.invert_value { 16383 - (*value).min(16383) } else { *value },
        },
        Body::SysEx(_) | Body::RealTime(_) | Body::Common { .. } => body.clone(),
        Body::ButtonDown(_) | Body::ButtonUp(_) | Body::Axis { .. } | Body::Trigger { .. } | Body::Osc(_) => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(kind: CurveKind, intensity: f64, x: f64) -> f64 {
        curve(Curve { kind, intensity }, x)
    }

    #[test]
    fn golden_points() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        close(at(CurveKind::Exponential, 0.5, 0.5), 0.176777);
        close(at(CurveKind::Logarithmic, 0.5, 0.5), 0.823223);
        close(at(CurveKind::Scurve, 0.5, 0.25), 0.173105);
        for kind in [CurveKind::Linear, CurveKind::Exponential, CurveKind::Logarithmic, CurveKind::Scurve] {
            for x in [0.0, 0.1, 0.5, 0.9, 1.0] {
                close(at(kind, 0.0, x), x);
            }
            close(at(kind, 1.0, 0.0), 0.0);
            close(at(kind, 1.0, 1.0), 1.0);
        }
        close(lut(&[0.0, 1.0, 0.0], 0.25), 0.5);
        close(lut(&[0.0, 1.0, 0.0], 1.0), 0.0);
    }

    #[test]
    fn transposition_off_the_keyboard_sends_nothing() {
        let up = Transform { note_offset: 100, ..Transform::default() };
        let on = Body::NoteOn { channel: 0, note: 60, velocity: 1 };
        assert_eq!(transform(&up, &on), None);
    }

    proptest! {
        #[test]
        fn no_transform_silences_a_note_on(
            velocity in 1u8..=127, scale in proptest::option::of(0.0f64..10.0), offset in -127i8..=127,
            invert: bool, lut_value in proptest::option::of(0u8..=127), intensity in 0.0f64..=1.0,
        ) {
            let t = Transform {
                velocity_scale: scale, velocity_offset: offset, invert_value: invert,
                lut: lut_value.map(|it| vec![it; 128]),
                curve: Some(Curve { kind: CurveKind::Exponential, intensity }),
                ..Transform::default()
            };
            let sent = transform(&t, &Body::NoteOn { channel: 3, note: 60, velocity });
            prop_assert!(matches!(sent, Some(Body::NoteOn { velocity: 1..=127, channel: 3, note: 60 })), "{sent:?}");
        }
    }
}
