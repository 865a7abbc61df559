//! Tables of facts about Live: scales, colours, device names. Not here: facts stored in a Set.

/// A scale of Live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub name: &'static str,
    /// The number of the scale in Sets from Live 12.1 on; none where public sources disagree.
    pub number: Option<u32>,
    /// Semitones above the root.
    pub intervals: &'static [u8],
}

const fn scale(name: &'static str, number: Option<u32>, intervals: &'static [u8]) -> Scale {
    Scale { name, number, intervals }
}

pub(crate) const SCALES: [Scale; 35] = [
    scale("Major", Some(0), &[0, 2, 4, 5, 7, 9, 11]),
    scale("Minor", Some(1), &[0, 2, 3, 5, 7, 8, 10]),
    scale("Dorian", Some(2), &[0, 2, 3, 5, 7, 9, 10]),
    scale("Mixolydian", Some(3), &[0, 2, 4, 5, 7, 9, 10]),
    scale("Lydian", Some(4), &[0, 2, 4, 6, 7, 9, 11]),
    scale("Phrygian", Some(5), &[0, 1, 3, 5, 7, 8, 10]),
    scale("Locrian", Some(6), &[0, 1, 3, 5, 6, 8, 10]),
    scale("Whole Tone", Some(7), &[0, 2, 4, 6, 8, 10]),
    scale("Half-whole Dim.", Some(8), &[0, 1, 3, 4, 6, 7, 9, 10]),
    scale("Whole-half Dim.", Some(9), &[0, 2, 3, 5, 6, 8, 9, 11]),
    scale("Minor Blues", Some(10), &[0, 3, 5, 6, 7, 10]),
    scale("Minor Pentatonic", Some(11), &[0, 3, 5, 7, 10]),
    scale("Major Pentatonic", Some(12), &[0, 2, 4, 7, 9]),
    scale("Harmonic Minor", Some(13), &[0, 2, 3, 5, 7, 8, 11]),
    scale("Harmonic Major", Some(14), &[0, 2, 4, 5, 7, 8, 11]),
    scale("Dorian #4", Some(15), &[0, 2, 3, 6, 7, 9, 10]),
    scale("Phrygian Dominant", Some(16), &[0, 1, 4, 5, 7, 8, 10]),
    scale("Melodic Minor", Some(17), &[0, 2, 3, 5, 7, 9, 11]),
    scale("Lydian Augmented", Some(18), &[0, 2, 4, 6, 8, 9, 11]),
    scale("Lydian Dominant", Some(19), &[0, 2, 4, 6, 7, 9, 10]),
    scale("Super Locrian", Some(20), &[0, 1, 3, 4, 6, 8, 10]),
    scale("8-Tone Spanish", None, &[0, 1, 3, 4, 5, 6, 8, 10]),
    scale("Bhairav", None, &[0, 1, 4, 5, 7, 8, 11]),
    scale("Hungarian Minor", None, &[0, 2, 3, 6, 7, 8, 11]),
    scale("Hirajoshi", Some(24), &[0, 2, 3, 7, 8]),
    scale("In-Sen", Some(25), &[0, 1, 5, 7, 10]),
    scale("Iwato", Some(26), &[0, 1, 5, 6, 10]),
    scale("Kumoi", Some(27), &[0, 2, 3, 7, 9]),
    scale("Pelog Selisir", Some(28), &[0, 1, 3, 7, 8]),
    scale("Pelog Tembung", Some(29), &[0, 1, 5, 7, 8]),
    scale("Messiaen 3", Some(30), &[0, 2, 3, 4, 6, 7, 8, 10, 11]),
    scale("Messiaen 4", Some(31), &[0, 1, 2, 5, 6, 7, 8, 11]),
    scale("Messiaen 5", Some(32), &[0, 1, 5, 6, 7, 11]),
    scale("Messiaen 6", Some(33), &[0, 2, 4, 5, 6, 8, 10, 11]),
    scale("Messiaen 7", Some(34), &[0, 1, 2, 3, 5, 6, 7, 8, 9, 11]),
];

/// RGB values by colour index, for Live 11 and later.
pub(crate) const COLORS: [u32; 70] = [
    0xFF94A6, 0xFFA529, 0xCC9927, 0xF7F47C, 0xBFFB00, 0x1AFF2F, 0x25FFA8, 0x5CFFE8, 0x8BC5FF, 0x5480E4, 0x92A7FF,
    0xD86CE4, 0xE553A0, 0xFFFFFF, 0xFF3636, 0xF66C03, 0x99724B, 0xFFF034, 0x87FF67, 0x3DC300, 0x00BFAF, 0x19E9FF,
    0x10A4EE, 0x007DC0, 0x886CE4, 0xB677C6, 0xFF39D4, 0xD0D0D0, 0xE2675A, 0xFFA374, 0xD3AD71, 0xEDFFAE, 0xD2E498,
    0xBAD074, 0x9BC48D, 0xD4FDE1, 0xCDF1F8, 0xB9C1E3, 0xCDBBE4, 0xAE98E5, 0xE5DCE1, 0xA9A9A9, 0xC6928B, 0xB78256,
    0x99836A, 0xBFBA69, 0xA6BE00, 0x7DB04D, 0x88C2BA, 0x9BB3C4, 0x85A5C2, 0x8393CC, 0xA595B5, 0xBF9FBE, 0xBC7196,
    0x7B7B7B, 0xAF3333, 0xA95131, 0x724F41, 0xDBC300, 0x85961F, 0x539F31, 0x0A9C8E, 0x236384, 0x1A2F96, 0x2F52A2,
    0x624BAD, 0xA34BAD, 0xCC2E6E, 0x3C3C3C,
];

/// The kind of signal that a device processes. It determines which tracks can have the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceRole {
    Audio,
    Instrument,
    Midi,
}

/// Class tag, name in Live, and role of known devices.
pub(crate) const DEVICES: [(&str, &str, DeviceRole); 21] = [
    ("Eq8", "EQ Eight", DeviceRole::Audio),
    ("Compressor2", "Compressor", DeviceRole::Audio),
    ("AutoFilter", "Auto Filter", DeviceRole::Audio),
    ("StereoGain", "Utility", DeviceRole::Audio),
    ("GlueCompressor", "Glue Compressor", DeviceRole::Audio),
    ("DrumBuss", "Drum Buss", DeviceRole::Audio),
    ("ChannelEq", "Channel EQ", DeviceRole::Audio),
    ("Redux2", "Redux", DeviceRole::Audio),
    ("Reverb", "Reverb", DeviceRole::Audio),
    ("Delay", "Delay", DeviceRole::Audio),
    ("Saturator", "Saturator", DeviceRole::Audio),
    ("Limiter", "Limiter", DeviceRole::Audio),
    ("Cabinet", "Cabinet", DeviceRole::Audio),
    ("OriginalSimpler", "Simpler", DeviceRole::Instrument),
    ("MultiSampler", "Sampler", DeviceRole::Instrument),
    ("InstrumentVector", "Wavetable", DeviceRole::Instrument),
    ("Operator", "Operator", DeviceRole::Instrument),
    ("DrumGroupDevice", "Drum Rack", DeviceRole::Instrument),
    ("InstrumentGroupDevice", "Instrument Rack", DeviceRole::Instrument),
    ("AudioEffectGroupDevice", "Audio Effect Rack", DeviceRole::Audio),
    ("MidiEffectGroupDevice", "MIDI Effect Rack", DeviceRole::Midi),
];

pub(crate) fn scale_by_name(name: &str) -> Option<&'static Scale> {
    SCALES.iter().find(|s| s.name == name)
}

pub(crate) fn scale_by_number(number: u32) -> Option<&'static Scale> {
    SCALES.iter().find(|s| s.number == Some(number))
}

pub(crate) fn device_name(class: &str) -> Option<&'static str> {
    DEVICES.iter().find(|(tag, _, _)| *tag == class).map(|(_, name, _)| *name)
}

pub(crate) fn device_role(class: &str) -> Option<DeviceRole> {
    DEVICES.iter().find(|(tag, _, _)| *tag == class).map(|(_, _, role)| *role)
}

/// The RGB value of a document's colour index; 0 when the index is unknown.
pub(crate) fn color(index: i64) -> u32 {
    usize::try_from(index).ok().and_then(|i| COLORS.get(i)).copied().unwrap_or(0)
}
