//! The effects of each object class outside its patch (its "reach"). A class in none of these lists
//! is unknown and may do anything.

use super::Reach::{self, Host, Listens, LoadsCode, Midi, Network, ReadsFiles, RunsPrograms, Sends, WritesFiles};
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

/// Pd classes that affect only their outlets, the loudspeaker and the console.
const PD_PURE: &str = "!= % & && * *~ + +~ - -~ / /~ < << <= == > >= >> | || abs abs~ atan atan2 b bag bang bang~ biquad~ block~ bng bp~ \
    catch~ change clip clip~ cnv cos cos~ cpole~ cputime czero_rev~ czero~ dac~ dbtopow dbtopow~ dbtorms dbtorms~ del delay delread4~ \
    delread~ div env~ exp exp~ f fft~ float framp~ fswap ftom ftom~ fudiformat fudiparse hip~ hradio hsl i ifft~ inlet inlet~ int line \
    line~ list loadbang log log~ lop~ makefilename makenote max max~ metro min min~ mod moses mtof mtof~ my_canvas nbx noise~ oscformat \
    oscparse osc~ outlet outlet~ pack phasor~ pipe poly pow powtodb powtodb~ pow~ print print~ q8_rsqrt~ q8_sqrt~ r random realtime \
    receive receive~ rfft~ rifft~ rmstodb rmstodb~ route rpole~ rsqrt~ rzero_rev~ rzero~ r~ samphold~ samplerate~ sel select sig~ sin \
    slop~ snapshot~ spigot sqrt sqrt~ stripnote swap switch~ symbol t tabosc4~ tabplay~ tabread tabread4 tabread4~ tabread~ tabreceive~ \
    tan tgl threshold~ timer trigger unpack until vcf~ vd~ vline~ vradio vsl vsnapshot~ vu wrap wrap~";

/// Pd classes with effects outside the patch, and the kinds of effect.
const PD_REACH: &[(&[Reach], &str)] = &[
    (&[ReadsFiles, WritesFiles], "textfile text array table soundfiler file"),
    (&[ReadsFiles, WritesFiles, Sends], "qlist"),
    (&[ReadsFiles], "readsf~ openpanel"),
    (&[WritesFiles], "writesf~ savepanel savestate"),
    (&[Network], "netsend netreceive"),
    (&[LoadsCode, Host], "declare"),
    (&[LoadsCode], "import clone"),
    (&[RunsPrograms], "pd~"),
    (&[Host], "stdout pdcontrol namecanvas"),
    (
        &[Listens],
        "adc~ key keyup keyname midiin notein ctlin pgmin bendin touchin polytouchin sysexin midirealtimein \
         midiclkin",
    ),
    (&[Midi], "midiout noteout ctlout pgmout bendout touchout polytouchout"),
    (&[Sends], "value v tabwrite tabwrite~ tabsend~"),
];

/// Max classes that affect only their outlets, the loudspeaker and the console.
const MAX_PURE: &str = "!- !-~ !/ !/~ != !=~ % %~ & && * *~ + +=~ +~ - -~ / /~ < <~ << <= <=~ == ==~ > >~ >= >=~ >> | || abs abs~ accum acos \
    acosh acosh~ acos~ adsr~ allpass~ anal append asin asinh asinh~ asin~ atan atan2 atan2~ atanh atanh~ atan~ atodb atodb~ average~ \
    avg~ b bag bangbang biquad~ bitand~ bitnot~ bitor~ bitxor~ bline bondo borax bucket buddy button cartopol cartopol~ cascade~ change \
    change~ click~ clip clip~ clocker comb~ comment cos cosh cosh~ cosx~ cos~ counter count~ cross~ curve~ cycle cycle~ dac~ \
    dbtoa dbtoa~ decide decode degrade~ del delay delay~ deltaclip~ delta~ dial div div~ downsamp~ drunk edge~ equals equals~ expr \
    ezdac~ f fffb~ fft~ filtercoeff~ float flonum flush fswap ftom ftom~ funnel gain~ gate gate~ gswitch gswitch2 hilbert~ \
    histo i ifft~ incdec inlet int iter join kink~ kslider led levelmeter~ line line~ listfunnel loadbang loadmess logand logor \
    log~ lores~ makenote match maximum maximum~ mean message meter~ metro minimum minimum~ minmax~ minus minus~ modulo modulo~ mtof mtof~ \
    multislider noise~ normalize~ notequals notequals~ nslider number number~ onebang onepole~ out outlet overdrive~ p pack pak panel past \
    patcher peak peakamp~ phaseshift~ phasewrap~ phasor~ pink~ pipe plus plus~ poltocar poltocar~ pong pong~ pow pow~ prepend print prob \
    r radiogroup rampsmooth~ ramp~ random rand~ rate~ rdiv rdiv~ receive receive~ rect~ reson~ rminus rminus~ round round~ route \
    routepass rslider r~ sah~ sampstoms~ saw~ scale scale~ scope~ sel select selector~ sig~ sin sinh sinh~ sinx~ slide slide~ slider \
    snapshot~ spectroscope~ speedlim spike~ split spray sqrt sqrt~ stripnote sustain svf~ swap swing~ switch t tan tanh tanh~ \
    tanx~ tapin~ tapout~ thresh thresh~ timer times times~ toggle train~ triangle~ trigger tri~ trough trunc~ unjoin unpack urn \
    uzi vexpr vs~ xpole~ zerox~ zl zl.change zl.compare zl.delace zl.ecils zl.filter zl.group zl.indexmap zl.iter zl.join zl.lace zl.len \
    zl.lookup zl.median zl.mth zl.nth zl.queue zl.reg zl.rev zl.rot zl.scramble zl.sect zl.slice zl.sort zl.stack zl.stream zl.sub zl.sum \
    zl.swap zl.thin zl.union zl.unique zl.mean";

/// Max classes with effects outside the patch, and the kinds of effect. All other classes are
/// unknown: `jit.*`, `live.*`, `mc.*` and every external.
const MAX_REACH: &[(&[Reach], &str)] = &[
    (&[LoadsCode], "js jsui v8 v8ui v8.codebox jstrigger mxj mxj~ vst~ amxd~ rnbo~ poly~ pfft~ bpatcher gen~ gen"),
    (&[LoadsCode, RunsPrograms], "node.script node.codebox"),
    (&[RunsPrograms], "shell"),
    (
        &[ReadsFiles, WritesFiles],
        "coll dict text textedit table itable funbuff seq mtr detonate preset buffer~ polybuffer~",
    ),
    (&[WritesFiles], "capture sfrecord~ savedialog"),
    (&[ReadsFiles, WritesFiles, Sends], "pattrstorage"),
    (&[ReadsFiles], "sfplay~ playlist~ sfinfo~ filein folder filewatch filedate opendialog dropfile umenu fpic"),
    (&[Network], "udpsend udpreceive mxj.net.send jit.net.send jit.net.recv serial"),
    (&[Network, WritesFiles], "maxurl"),
    (&[Network, LoadsCode], "jweb"),
    (&[Host], "thispatcher pcontrol universal conductor"),
    (&[Sends], "forward send s send~ s~ value v pv pvar pattr pattrhub pattrforward autopattr poke~ record~"),
    (&[Listens], "adc~ ezadc~ key keyup numkey modifiers mousestate hi notein ctlin midiin bendin pgmin"),
    (&[Midi], "noteout ctlout midiout bendout pgmout touchout"),
];

/// Keys of a Max box that are not part of the fingerprint: appearance, position, id, port counts,
/// and the embedded patcher, whose boxes have their own entries.
const COSMETIC: &str = "annotation background bgcolor bgfillcolor border bordercolor bubble color fontface fontname fontsize hidden hint \
    id legacytextcolor linecount numinlets numoutlets outlettype patcher patching_rect presentation \
    presentation_linecount presentation_rect rounded style textcolor textjustification";

/// Messages that make a Pd box send to a name or receive from a name, or that put such a message
/// into a message box.
pub(super) const PD_ORDERS: &[&str] =
    &["send", "receive", "add", "add2", "addsemi", "addcomma", "adddollar", "adddollsym"];

/// Messages that make a Max box send to a name or load a script.
pub(super) const MAX_ORDERS: &[&str] = &["send", "forward", "jspainterfile"];

/// Functions of `expr`; every other name in an expression is a variable or an array.
const EXPR_FUNCTIONS: &str = "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp expm1 fact finite \
    float floor fmod if imodf int isinf isnan ldexp ln log log10 log1p max min mod modf mtof ftom dbtorms rmstodb dbtopow powtodb nearbyint \
    pow random rint round sin sinh sqrt tan tanh trunc symbol sum";

/// The reach of the classes of one program.
pub(super) struct Classes {
    pure: HashSet<&'static str>,
    reach: HashMap<&'static str, &'static [Reach]>,
}

impl Classes {
    fn new(pure: &'static str, reach: &'static [(&'static [Reach], &'static str)]) -> Classes {
        let each = reach.iter().flat_map(|(reach, classes)| classes.split_ascii_whitespace().map(|it| (it, *reach)));
        Classes { pure: pure.split_ascii_whitespace().collect(), reach: each.collect() }
    }

    pub(super) fn of(pd: bool) -> &'static Classes {
        static PD: OnceLock<Classes> = OnceLock::new();
        static MAX: OnceLock<Classes> = OnceLock::new();
        if pd {
            PD.get_or_init(|| Classes::new(PD_PURE, PD_REACH))
        } else {
            MAX.get_or_init(|| Classes::new(MAX_PURE, MAX_REACH))
        }
    }

    pub(super) fn is_pure(&self, class: &str) -> bool {
        self.pure.contains(class)
    }

    /// The reach of a class that is not pure.
    pub(super) fn reach(&self, class: &str) -> &'static [Reach] {
        self.reach.get(class).copied().unwrap_or(&[Reach::Unknown])
    }
}

/// Whether a key of a Max box is not part of the fingerprint.
pub(super) fn is_cosmetic(key: &str) -> bool {
    COSMETIC.split_ascii_whitespace().any(|it| it == key)
}

/// Whether an expression only computes. Variables and arrays may be shared with other patches, so
/// an expression that uses them is not plain.
pub(super) fn is_plain_expression(text: &str) -> bool {
    let functions: HashSet<&str> = EXPR_FUNCTIONS.split_ascii_whitespace().collect();
    let mut rest = text;
    let mut inlet = false;
    while let Some(letter) = rest.chars().next() {
        let word = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len());
        if letter.is_ascii_digit() {
            // Skip a number with its exponent or suffix.
            rest = rest.get(word..).unwrap_or_default();
            inlet = false;
        } else if word > 0 {
            if !functions.contains(rest.get(..word).unwrap_or_default()) {
                return false;
            }
            rest = rest.get(word..).unwrap_or_default();
            inlet = false;
        } else if letter == '$' {
            let name = rest.get(1..).unwrap_or_default();
            let end = name.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(name.len());
            // `$s1` names an array. `$x1` and `$y1` are the signals of fexpr~ and may be followed
            // by an index.
            let kind = name.chars().next().unwrap_or(' ');
            if !matches!(kind, 'f' | 'i' | 'v' | 'x' | 'y') {
                return false;
            }
            inlet = matches!(kind, 'x' | 'y');
            rest = name.get(end..).unwrap_or_default();
        } else {
            let plain = letter.is_ascii_whitespace() || "+-*/%<>!&|^~(),.;?:]".contains(letter);
            let compared =
                letter == '=' && (rest.starts_with("==") || text_before(text, rest).ends_with(['=', '!', '<', '>']));
            let indexed = letter == '[' && inlet;
            if !(plain || compared || indexed) {
                return false;
            }
            inlet = false;
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
        }
    }
    true
}

fn text_before<'a>(text: &'a str, rest: &str) -> &'a str {
    text.get(..text.len().saturating_sub(rest.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_is_in_two_lists() {
        for (pure, reach) in [(PD_PURE, PD_REACH), (MAX_PURE, MAX_REACH)] {
            let mut seen: HashSet<&str> = pure.split_ascii_whitespace().collect();
            let reaching = reach.iter().flat_map(|(_, classes)| classes.split_ascii_whitespace());
            assert_eq!(reaching.filter(|class| !seen.insert(class)).collect::<Vec<_>>(), [""; 0]);
        }
    }

    #[test]
    fn expressions_that_name_something_are_not_plain() {
        for plain in
            ["$f1 + 3", "if($f1 == 2, sin($v1), $i2 * 1e3)", "$x1[-1] * 0.5 + $y1[0]", "$f1 >= 1 && $f2 != 3", ""]
        {
            assert!(is_plain_expression(plain), "{plain}");
        }
        for not in ["tab[3]", "$s1[3]", "size(\"tab\")", "x = 3", "$f1 + gain", "tab[$f1] = 3", "$f1[2]"] {
            assert!(!is_plain_expression(not), "{not}");
        }
    }
}
