//! The approval pad: a pad that a person holds to approve the open request.
//!
//! These rules prevent an AI client from imitating a press. The press must be an event of the
//! configured device, which must be hardware. The event must not be tainted: no program and no
//! network message caused it. No tool and no mapping may have sent MIDI in the two seconds before
//! the hold ends. An echo of the pad's own light is not a press. The open request must not change
//! during the hold, because the person has read only this request.
//!
//! Not here: which ports are hardware (`conductor-hosts`), the requests (`pending`), and recording
//! the answer (the daemon's gateway).

use crate::event::echo::Echo;
use crate::event::{Body, DeviceSlot, Event, Micros, Taint};
use crate::mapping::table::Slots;
use crate::policy::PadSettings;
use uuid::Uuid;

/// Time without MIDI output that is required before an answer.
pub const QUIET: Micros = Micros::from_ms(2000);

/// The reason why a press of the pad is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    /// The device is not hardware.
    #[error("the pad's device is not hardware, so a program could press the pad")]
    NoHardware,
    /// The event is tainted.
    #[error("the press was caused by a program or came over the network")]
    NoHand,
    /// The press is an echo of the pad's own light.
    #[error("the press is an echo of the pad's own light")]
    OwnLight,
    /// MIDI was sent too recently.
    #[error("a tool or a mapping sent MIDI within the last two seconds; wait a moment and hold the pad again")]
    NotQuiet,
    /// No request is open, or more than one request is open.
    #[error("the pad answers only when exactly one approval request or plan is open")]
    NotOneQuestion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    question: Uuid,
    channel: u8,
    until: Micros,
}

/// The configured approval pad. Time is a parameter. Without a configured pad, no request is
/// answered.
#[derive(Debug)]
pub struct ApprovalPad {
    pad: Option<(DeviceSlot, PadSettings)>,
    hold: Option<Hold>,
    sent_at: Option<Micros>,
    lights: Echo,
}

impl ApprovalPad {
    /// Creates the approval pad of a configuration.
    pub fn new(settings: Option<&PadSettings>, slots: &mut Slots) -> Self {
        let pad = settings.map(|it| (slots.slot(&it.device), it.clone()));
        ApprovalPad { pad, hold: None, sent_at: None, lights: Echo::of_lights() }
    }

    /// Replaces the configuration, and ends a hold in progress.
    pub fn reload(&mut self, settings: Option<&PadSettings>, slots: &mut Slots) {
        self.pad = settings.map(|it| (slots.slot(&it.device), it.clone()));
        self.hold = None;
    }

    /// The device of the configured pad.
    pub fn device(&self) -> Option<DeviceSlot> {
        self.pad.as_ref().map(|it| it.0)
    }

    /// The settings of the configured pad.
    pub fn settings(&self) -> Option<&PadSettings> {
        self.pad.as_ref().map(|it| &it.1)
    }

    /// Called when a tool or a mapping has sent MIDI. Ends a hold in progress, because no MIDI may
    /// be sent during a hold.
    pub fn sent(&mut self, now: Micros) {
        self.sent_at = Some(now);
        self.hold = None;
    }

    /// Called when the daemon has sent a light message to a controller.
    pub fn lit(&mut self, port: DeviceSlot, message: &Body, now: Micros) {
        if self.device() == Some(port) {
            self.lights.note_sent(now, message);
        }
    }

    /// Called when a device is lost. A hold on this device ends.
    pub fn device_lost(&mut self, device: DeviceSlot) {
        if self.device() == Some(device) {
            self.hold = None;
        }
    }

    /// Handles an event. `question` is the id of the open request, if there is exactly one. The
    /// error is the reason why a press is ignored.
    pub fn hear(&mut self, event: &Event, is_hardware: bool, question: Option<Uuid>) -> Result<(), NotCounted> {
        let Some((_, settings)) = self.pad.as_ref().filter(|it| it.0 == event.device) else { return Ok(()) };
        if let Body::NoteOff { channel, note, .. } = event.body {
            self.hold = self.hold.filter(|it| note != settings.note || channel != it.channel);
            return Ok(());
        }
        let Body::NoteOn { channel, note, .. } = event.body else { return Ok(()) };
        if note != settings.note {
            return Ok(());
        }
        let until = event.at.plus_us(settings.hold_ms.saturating_mul(1000));
        self.hold = None;
        if !is_hardware {
            return Err(NotCounted::NoHardware);
        }
        if event.taint != Taint::Clean {
            return Err(NotCounted::NoHand);
        }
        if self.lights.is_echo(event.at, &event.body) {
            return Err(NotCounted::OwnLight);
        }
        // Require two seconds without MIDI output before the end of the hold, not before its start.
        // Output during the hold ends the hold; see `sent`.
        if self.sent_at.is_some_and(|sent| until.since(sent) <= QUIET.0) {
            return Err(NotCounted::NotQuiet);
        }
        let question = question.ok_or(NotCounted::NotOneQuestion)?;
        self.hold = Some(Hold { question, channel, until });
        Ok(())
    }

    /// The time at which the hold is long enough.
    pub fn next_deadline(&self) -> Option<Micros> {
        self.hold.map(|it| it.until)
    }

    /// The request that the hold has approved at `now`, if any. `question` is the id of the request
    /// that is open at `now`.
    pub fn advance(&mut self, now: Micros, question: Option<Uuid>) -> Option<Uuid> {
        let hold = self.hold?;
        if question != Some(hold.question) {
            // Another request is open, or the request was answered through another channel.
            self.hold = None;
            return None;
        }
        if now < hold.until {
            return None;
        }
        self.hold = None;
        Some(hold.question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Tier;
    use proptest::prelude::*;

    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    fn settings() -> PadSettings {
        PadSettings { device: "pads".into(), note: 51, hold_ms: 800, tiers: vec![Tier::HardwareIo] }
    }

    fn pad() -> ApprovalPad {
        ApprovalPad::new(Some(&settings()), &mut Slots::default())
    }

    fn event(ms: u64, on: bool) -> Event {
        let body = match on {
            true => Body::NoteOn { channel: 9, note: 51, velocity: 100 },
            false => Body::NoteOff { channel: 9, note: 51, velocity: 0 },
        };
        Event { at: Micros::from_ms(ms), device: DeviceSlot(0), taint: Taint::Clean, hops: 0, body }
    }

    fn at(ms: u64) -> Micros {
        Micros::from_ms(ms)
    }

    #[test]
    fn held_long_enough_it_answers_once() {
        let mut pad = pad();
        assert_eq!(pad.hear(&event(5000, true), true, Some(ONE)), Ok(()));
        assert_eq!(pad.next_deadline(), Some(at(5800)));
        assert_eq!(pad.advance(at(5799), Some(ONE)), None);
        assert_eq!(pad.advance(at(5800), Some(ONE)), Some(ONE));
        assert_eq!(pad.advance(at(9000), Some(ONE)), None, "one hold gave a second answer");
        pad.hear(&event(9000, true), true, Some(ONE)).unwrap();
        pad.hear(&event(9799, false), true, Some(ONE)).unwrap();
        assert_eq!(pad.advance(at(9900), Some(ONE)), None, "a hold that was too short gave an answer");
    }

    #[test]
    fn what_a_model_could_do_never_counts() {
        let mut pad = pad();
        assert_eq!(pad.hear(&event(5000, true), false, Some(ONE)), Err(NotCounted::NoHardware));
        let tainted = Event { taint: Taint::Tool, ..event(5000, true) };
        assert_eq!(pad.hear(&tainted, true, Some(ONE)), Err(NotCounted::NoHand));
        pad.sent(at(5000));
        assert_eq!(pad.hear(&event(6200, true), true, Some(ONE)), Err(NotCounted::NotQuiet));
        assert_eq!(pad.hear(&event(6201, true), true, Some(ONE)), Ok(()));
        pad.sent(at(6500));
        assert_eq!(pad.advance(at(9000), Some(ONE)), None, "a hold gave an answer although MIDI was sent during it");
        pad.lit(DeviceSlot(0), &event(0, true).body, at(20_000));
        assert_eq!(pad.hear(&event(20_050, true), true, Some(ONE)), Err(NotCounted::OwnLight));
        assert_eq!(pad.hear(&event(20_150, true), true, Some(ONE)), Ok(()));
    }

    #[test]
    fn only_the_question_the_person_read_is_answered() {
        let mut pad = pad();
        assert_eq!(pad.hear(&event(5000, true), true, None), Err(NotCounted::NotOneQuestion));
        pad.hear(&event(5000, true), true, Some(ONE)).unwrap();
        assert_eq!(pad.advance(at(5800), Some(TWO)), None);
        assert_eq!(pad.advance(at(5800), Some(ONE)), None, "the hold did not end when the open request changed");
    }

    #[derive(Clone, Debug)]
    enum Op {
        Note { device: u16, note: u8, on: bool, clean: bool, hardware: bool },
        Sent,
        Question(Option<Uuid>),
        Lost,
        Reload(bool),
    }

    fn op() -> impl Strategy<Value = Op> {
        let note = (0u16..2, 51u8..53, any::<bool>(), any::<bool>(), any::<bool>());
        let question = proptest::sample::select(vec![None, Some(ONE), Some(TWO)]);
        prop_oneof![
            6 => note.prop_map(|(device, note, on, clean, hardware)| Op::Note { device, note, on, clean, hardware }),
            1 => Just(Op::Sent),
            2 => question.prop_map(Op::Question),
            1 => Just(Op::Lost),
            1 => any::<bool>().prop_map(Op::Reload),
        ]
    }

    proptest! {
        /// Every answer follows a press that satisfied all rules. No event between the press and
        /// the answer broke a rule.
        #[test]
        fn an_answer_needs_every_condition(ops in proptest::collection::vec((1u64..1500, op()), 1..60)) {
            let mut pad = pad();
            let (mut now, mut question, mut sent) = (10_000, None, None::<u64>);
            let mut good: Option<(u64, Uuid)> = None;
            for (after, op) in ops {
                now += after;
                if let Some(answer) = pad.advance(at(now), question) {
                    prop_assert!(good.is_some_and(|(press, asked)| now >= press + 800 && asked == answer));
                    good = None;
                }
                match op {
                    Op::Note { device, note, on, clean, hardware } => {
                        let mut event = event(now, on);
                        event.device = DeviceSlot(device);
                        event.taint = if clean { Taint::Clean } else { Taint::Network };
                        if let Body::NoteOn { note: it, .. } | Body::NoteOff { note: it, .. } = &mut event.body {
                            *it = note;
                        }
                        let _ = pad.hear(&event, hardware, question);
                        if (device, note) == (0, 51) {
                            let quiet = sent.is_none_or(|it| now + 800 - it > 2000);
                            good = question.filter(|_| on && clean && hardware && quiet).map(|it| (now, it));
                        }
                    }
                    Op::Sent => {
                        sent = Some(now);
                        good = None;
                        pad.sent(at(now));
                    }
                    Op::Question(other) => {
                        if other != question {
                            good = None;
                        }
                        question = other;
                        let _ = pad.advance(at(now), question);
                    }
                    Op::Lost => {
                        good = None;
                        pad.device_lost(DeviceSlot(0));
                    }
                    Op::Reload(there) => {
                        good = None;
                        pad.reload(there.then(settings).as_ref(), &mut Slots::default());
                    }
                }
            }
        }
    }
}
