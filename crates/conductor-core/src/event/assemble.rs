//! Combines controller messages: 14-bit controllers, registered and non-registered parameters (RPN,
//! NRPN), and the selected bank.
//!
//! Each device has one [`Assembler`]. Every raw controller message also remains a separate event.
//! Not here: mapping values, and counting increments as detents (`engine`).

use super::Body;

const DATA_MSB: u8 = 6;
const DATA_LSB: u8 = 38;
const INCREMENT: u8 = 96;
const DECREMENT: u8 = 97;
const NRPN_LSB: u8 = 98;
const NRPN_MSB: u8 = 99;
const RPN_LSB: u8 = 100;
const RPN_MSB: u8 = 101;
const RESET_ALL_CONTROLLERS: u8 = 121;
/// The null number of an RPN or NRPN (127/127): no parameter is selected.
const NULL: u16 = 0x3FFF;

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// A registered parameter.
    Rpn,
    /// A non-registered parameter.
    Nrpn,
}

/// A parameter number that is selected on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// Whether the parameter is registered.
    pub kind: ParameterKind,
    /// The number, 0-16382.
    pub number: u16,
}

/// A change of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The new value, 0-16383. The fine half is 0 until the device has sent a fine half for this
    /// parameter.
    Value(u16),
    /// The value increases by one step.
    Increment,
    /// The value decreases by one step.
    Decrement,
}

/// The values that one controller message completes. Both fields may be present, because controller
/// 6 is a 14-bit controller and also the data entry of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assembled {
    /// The number of a 14-bit controller (0-31) and its value (0-16383).
    pub cc14: Option<(u8, u16)>,
    /// The selected parameter and its change.
    pub parameter: Option<(Parameter, Change)>,
}

/// The last bank select on a channel, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bank {
    /// The coarse half of the bank number, from controller 0.
    pub msb: Option<u8>,
    /// The fine half of the bank number, from controller 32.
    pub lsb: Option<u8>,
}

/// The state of all controllers of a device.
#[derive(Debug, Default)]
pub struct Assembler {
    channels: [Channel; 16],
}

#[derive(Debug, Default)]
struct Channel {
    coarse: [u8; 32],
    /// The controllers 0-31 whose coarse half was received, one bit each.
    coarse_heard: u32,
    fine_heard: u32,
    bank: Bank,
    kind: Option<ParameterKind>,
    number_msb: Option<u8>,
    number_lsb: Option<u8>,
    /// The last coarse data entry since the parameter was selected. Earlier data entries belong to
    /// another parameter.
    data_coarse: Option<u8>,
    /// The parameters for which the device has sent a fine half. They are stored for each
    /// parameter, because a device may send both coarse and fine parameters on one channel.
    fine_parameters: Option<Box<[FineBits; 2]>>,
}

#[derive(Debug)]
struct FineBits([u64; 256]);

impl Assembler {
    /// Creates an assembler without any values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the message can be processed without an allocation.
    pub fn has_room(&self, body: &Body) -> bool {
        let Body::Cc { channel, controller: DATA_LSB, .. } = body else { return true };
        let channel = self.channels.get(usize::from(*channel));
        channel.is_some_and(|it| it.selected().is_none() || it.fine_parameters.is_some())
    }

    /// Discards all values, for a device that was disconnected.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The selected bank of a channel.
    pub fn bank(&self, channel: u8) -> Bank {
        self.channels.get(usize::from(channel)).map_or(Bank::default(), |it| it.bank)
    }

    /// The parameter selected on this channel.
    pub fn selected(&self, channel: u8) -> Option<Parameter> {
        self.channels.get(usize::from(channel)).and_then(Channel::selected)
    }

    /// Processes a controller message and returns the values that it completes.
    pub fn feed(&mut self, channel: u8, controller: u8, value: u8) -> Assembled {
        let Some(channel) = self.channels.get_mut(usize::from(channel)) else { return Assembled::default() };
        let value = value & 0x7F;
        match controller {
            0 => channel.bank.msb = Some(value),
            32 => channel.bank.lsb = Some(value),
            _ => {}
        }
        Assembled { cc14: channel.cc14(controller, value), parameter: channel.parameter(controller, value) }
    }
}

impl Channel {
    fn cc14(&mut self, controller: u8, value: u8) -> Option<(u8, u16)> {
        let number = controller % 32;
        let bit = 1u32 << number;
        let coarse = self.coarse.get_mut(usize::from(number))?;
        match controller {
            0..=31 => {
                *coarse = value;
                self.coarse_heard |= bit;
                (self.fine_heard & bit == 0).then_some((number, u16::from(value) << 7))
            }
            32..=63 => {
                self.fine_heard |= bit;
                // A fine half without a coarse half is ignored, because controller 33 may be a
                // plain fader.
                (self.coarse_heard & bit != 0).then_some((number, u16::from(*coarse) << 7 | u16::from(value)))
            }
            _ => None,
        }
    }

    fn selected(&self) -> Option<Parameter> {
        let number = u16::from(self.number_msb?) << 7 | u16::from(self.number_lsb?);
        Some(Parameter { kind: self.kind?, number })
    }

    fn parameter(&mut self, controller: u8, value: u8) -> Option<(Parameter, Change)> {
        match controller {
            RPN_MSB => self.select(ParameterKind::Rpn, Some(value), None),
            RPN_LSB => self.select(ParameterKind::Rpn, None, Some(value)),
            NRPN_MSB => self.select(ParameterKind::Nrpn, Some(value), None),
            NRPN_LSB => self.select(ParameterKind::Nrpn, None, Some(value)),
            RESET_ALL_CONTROLLERS => self.deselect(),
            INCREMENT => return Some((self.selected()?, Change::Increment)),
            DECREMENT => return Some((self.selected()?, Change::Decrement)),
            DATA_MSB => {
                let parameter = self.selected()?;
                self.data_coarse = Some(value);
                return (!self.sends_fine(parameter)).then_some((parameter, Change::Value(u16::from(value) << 7)));
            }
            DATA_LSB => {
                let parameter = self.selected()?;
                self.note_fine(parameter);
                let value = u16::from(self.data_coarse?) << 7 | u16::from(value);
                return Some((parameter, Change::Value(value)));
            }
            _ => {}
        }
        None
    }

    fn select(&mut self, kind: ParameterKind, msb: Option<u8>, lsb: Option<u8>) {
        let before = self.selected();
        if self.kind != Some(kind) {
            // Half of an NRPN number does not complete an RPN selection.
            self.deselect();
            self.kind = Some(kind);
        }
        self.number_msb = msb.or(self.number_msb);
        self.number_lsb = lsb.or(self.number_lsb);
        let after = self.selected();
        if after.is_some_and(|it| it.number == NULL) {
            self.deselect();
        } else if after != before {
            self.data_coarse = None;
        }
    }

    fn deselect(&mut self) {
        self.kind = None;
        self.number_msb = None;
        self.number_lsb = None;
        self.data_coarse = None;
    }

    fn sends_fine(&self, parameter: Parameter) -> bool {
        let (kind, word, bit) = place(parameter);
        let word = self.fine_parameters.as_ref().and_then(|kinds| kinds.get(kind)?.0.get(word));
        word.is_some_and(|word| word & bit != 0)
    }

    fn note_fine(&mut self, parameter: Parameter) {
        let (kind, word, bit) = place(parameter);
        let kinds = self.fine_parameters.get_or_insert_with(|| Box::new([FineBits([0; 256]), FineBits([0; 256])]));
        if let Some(word) = kinds.get_mut(kind).and_then(|bits| bits.0.get_mut(word)) {
            *word |= bit;
        }
    }
}

fn place(parameter: Parameter) -> (usize, usize, u64) {
    let kind = match parameter.kind {
        ParameterKind::Rpn => 0,
        ParameterKind::Nrpn => 1,
    };
    (kind, usize::from(parameter.number / 64), 1 << (parameter.number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(assembler: &mut Assembler, messages: &[(u8, u8)]) -> Vec<Assembled> {
        messages.iter().map(|(cc, value)| assembler.feed(0, *cc, *value)).collect()
    }

    fn values(messages: &[(u8, u8)]) -> Vec<(Parameter, Change)> {
        feed(&mut Assembler::new(), messages).into_iter().filter_map(|it| it.parameter).collect()
    }

    fn nrpn(number: u16) -> Parameter {
        Parameter { kind: ParameterKind::Nrpn, number }
    }

    fn rpn(number: u16) -> Parameter {
        Parameter { kind: ParameterKind::Rpn, number }
    }

    #[test]
    fn a_coarse_controller_speaks_until_its_fine_half_is_heard() {
        let mut assembler = Assembler::new();
        let got: Vec<_> =
            feed(&mut assembler, &[(7, 100), (7, 101), (39, 5), (7, 64), (39, 1)]).iter().map(|it| it.cc14).collect();
        let value = |coarse: u16, fine: u16| Some((7, coarse * 128 + fine));
        assert_eq!(got, vec![value(100, 0), value(101, 0), value(101, 5), None, value(64, 1)]);
        assert_eq!(assembler.feed(1, 7, 3).cc14, Some((7, 384)), "channel 1 used the state of channel 0");
    }

    #[test]
    fn a_fine_half_without_a_coarse_one_is_no_value() {
        assert_eq!(Assembler::new().feed(0, 33, 64), Assembled::default());
    }

    #[test]
    fn a_parameter_takes_its_value_on_the_fine_half_once_it_sent_one() {
        assert_eq!(
            values(&[(99, 1), (98, 8), (6, 10), (38, 20), (6, 11), (38, 0)]),
            vec![(nrpn(136), Change::Value(1280)), (nrpn(136), Change::Value(1300)), (nrpn(136), Change::Value(1408)),]
        );
    }

    #[test]
    fn a_coarse_parameter_still_speaks_beside_a_fine_one() {
        let fine_then_coarse = [(99, 0), (98, 1), (6, 1), (38, 1), (101, 0), (100, 0), (6, 12)];
        assert_eq!(values(&fine_then_coarse).last(), Some(&(rpn(0), Change::Value(1536))));
    }

    #[test]
    fn the_coarse_half_of_another_parameter_is_not_borrowed() {
        assert_eq!(values(&[(99, 0), (98, 1), (6, 100), (98, 2), (38, 5)]), vec![(nrpn(1), Change::Value(12800))]);
    }

    #[test]
    fn half_a_number_and_the_null_number_select_nothing() {
        assert_eq!(values(&[(99, 1), (6, 10), (38, 1), (96, 0)]), vec![]);
        assert_eq!(values(&[(101, 0), (100, 0), (101, 127), (100, 127), (6, 1), (96, 1)]), vec![]);
        assert_eq!(values(&[(99, 0), (98, 5), (99, 127), (98, 127), (97, 1)]), vec![]);
        assert_eq!(
            values(&[(99, 0), (98, 5), (101, 0), (6, 1)]),
            vec![],
            "half of an RPN number did not deselect the NRPN"
        );
        assert_eq!(
            values(&[(99, 0), (98, 5), (121, 0), (6, 1)]),
            vec![],
            "a reset of all controllers did not deselect the NRPN"
        );
    }

    #[test]
    fn increments_name_the_selected_parameter() {
        assert_eq!(
            values(&[(101, 0), (100, 2), (96, 0), (97, 127)]),
            vec![(rpn(2), Change::Increment), (rpn(2), Change::Decrement)]
        );
    }

    #[test]
    fn the_bank_is_the_last_one_heard_and_gone_after_a_reset() {
        let mut assembler = Assembler::new();
        assembler.feed(3, 0, 1);
        assert_eq!(assembler.bank(3), Bank { msb: Some(1), lsb: None });
        assembler.feed(3, 32, 9);
        assert_eq!(assembler.bank(3), Bank { msb: Some(1), lsb: Some(9) });
        assert_eq!(assembler.bank(4), Bank::default());
        assembler.reset();
        assert_eq!(assembler.bank(3), Bank::default());
    }

    proptest! {
        #[test]
        fn any_controllers_stay_in_range_and_channels_do_not_mix(
            messages in prop::collection::vec((any::<u8>(), prop_oneof![Just(6u8), Just(38), 96u8..102, any::<u8>()], any::<u8>()), 0..400)
        ) {
            let mut together = Assembler::new();
            let mut apart: Vec<Assembler> = (0..256).map(|_| Assembler::new()).collect();
            for (channel, controller, value) in messages {
                let got = together.feed(channel, controller, value);
                prop_assert_eq!(got, apart[usize::from(channel)].feed(channel, controller, value));
                if channel > 15 {
                    prop_assert_eq!(got, Assembled::default());
                }
                if let Some((number, value)) = got.cc14 {
                    prop_assert!(number < 32 && value < 16384);
                }
                if let Some((parameter, Change::Value(value))) = got.parameter {
                    prop_assert!(parameter.number < NULL && value < 16384);
                }
            }
        }

        #[test]
        fn a_whole_message_is_read_back(kind in any::<bool>(), number in 0u16..NULL, sent in prop::collection::vec(0u16..16384, 1..20)) {
            let mut assembler = Assembler::new();
            let (msb, lsb) = if kind { (RPN_MSB, RPN_LSB) } else { (NRPN_MSB, NRPN_LSB) };
            for value in sent {
                let messages = [
                    (msb, (number >> 7) as u8), (lsb, (number & 127) as u8),
                    (DATA_MSB, (value >> 7) as u8), (DATA_LSB, (value & 127) as u8),
                ];
                let last = feed(&mut assembler, &messages)[3].parameter;
                let kind = if kind { ParameterKind::Rpn } else { ParameterKind::Nrpn };
                prop_assert_eq!(last, Some((Parameter { kind, number }, Change::Value(value))));
            }
        }
    }
}
